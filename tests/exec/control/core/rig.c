#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "rig.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NOW 1700000000000
#define EVENTS_MAX 256

static const uint8_t server_key[META_KEY_BYTES] = {7};
static struct wire_inbox inbox;

/* --- the launcher ---------------------------------------------------------------------------------------------------------------- */

struct front {
    struct launcher launcher;
    struct stage *stage;
    int wake;
    struct launcher_event events[EVENTS_MAX];
    uint32_t first;
    uint32_t count;
};

static struct front *front_of(const struct launcher *launcher)
{
    return (struct front *)(uintptr_t)launcher;
}

static void tell(struct stage *stage, struct launcher_event event)
{
    struct front *front = stage->front;
    const uint64_t one = 1;

    if (front == NULL)
        return;
    pthread_mutex_lock(&stage->lock);
    check(front->count < EVENTS_MAX);
    front->events[(front->first + front->count++) % EVENTS_MAX] = event;
    check(write(front->wake, &one, sizeof(one)) == sizeof(one));
    pthread_mutex_unlock(&stage->lock);
}

static struct actor *actor_find(struct stage *stage, uint64_t worker)
{
    for (uint32_t i = 0; i < ACTORS_MAX; i++) {
        if (stage->actors[i].used && stage->actors[i].launch.worker == worker)
            return &stage->actors[i];
    }
    return NULL;
}

static void actor_create(struct stage *stage, struct actor *actor, const struct launch *launch)
{
    const struct wire_config config = {.side = WIRE_SIDE_WORKER, .worker = launch->worker, .attempt = launch->attempt,
                                       .requests_max = ASKED_MAX};
    const size_t bytes = wire_bytes(&config);
    int ends[2];

    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    *actor = (struct actor){.used = true, .launch = *launch, .socket = ends[1], .control_end = ends[0]};
    actor->wire = wire_create(malloc(bytes), bytes, &config);
    check(wire_say(actor->wire, WIRE_HELLO, &(struct wire_hello){.version_min = 1, .version_max = 1, .worker_kind = launch->kind}, 0,
          NULL, 0) == STATUS_OK);
    tell(stage, (struct launcher_event){.kind = LAUNCHER_STARTED, .launch = *launch, .socket = fcntl(ends[0], F_DUPFD_CLOEXEC, 3)});
}

static enum status ask_stage(struct launcher *launcher, enum stage_act what, const struct launch *launch)
{
    struct stage *stage = front_of(launcher)->stage;

    if (stage->full_for > 0 && (what == STAGE_END || what == STAGE_END_AT_ONCE || what == STAGE_FORGET)) {
        stage->full_for--;
        return STATUS_FULL;
    }
    pthread_mutex_lock(&stage->lock);
    check(stage->asks_count < ARRAY_COUNT(stage->asks));
    stage->asks[stage->asks_count++] = (struct stage_ask){what, *launch};
    pthread_mutex_unlock(&stage->lock);
    return STATUS_OK;
}

static enum status front_start(struct launcher *launcher, const struct launch *launch)
{
    return ask_stage(launcher, STAGE_START, launch);
}

static enum status front_end(struct launcher *launcher, uint64_t worker, bool at_once)
{
    return ask_stage(launcher, at_once ? STAGE_END_AT_ONCE : STAGE_END, &(struct launch){.worker = worker});
}

static enum status front_list(struct launcher *launcher)
{
    return ask_stage(launcher, STAGE_LIST, &(struct launch){.worker = 0});
}

static enum status front_forget(struct launcher *launcher, uint64_t worker)
{
    return ask_stage(launcher, STAGE_FORGET, &(struct launch){.worker = worker});
}

/* --- what it does about it, on the test's thread ------------------------------------------------------------------------------------ */

static void start(struct stage *stage, const struct launch *launch)
{
    uint32_t i = 0;

    while (stage->actors[i].used && ++i < ACTORS_MAX)
        continue;
    if (stage->refuses || i == ACTORS_MAX)
        tell(stage, (struct launcher_event){.kind = LAUNCHER_REFUSED, .launch = *launch, .status = STATUS_FULL, .socket = -1});
    else
        actor_create(stage, &stage->actors[i], launch);
}

static void exits(struct stage *stage, struct actor *actor, bool by_signal, int code)
{
    if (actor->has_exited)
        return;
    close(actor->socket);
    actor->socket = -1;
    actor->has_exited = true;
    actor->end = (struct launch_end){.by_signal = by_signal, .code = code};
    tell(stage, (struct launcher_event){.kind = LAUNCHER_EXITED, .launch = actor->launch, .end = actor->end, .socket = -1});
}

static void list(struct stage *stage)
{
    for (uint32_t i = 0; i < ACTORS_MAX; i++) {
        const struct actor *actor = &stage->actors[i];

        if (actor->used)
            tell(stage, (struct launcher_event){.kind = LAUNCHER_FOUND, .launch = actor->launch, .is_dead = actor->has_exited,
                 .socket = fcntl(actor->control_end, F_DUPFD_CLOEXEC, 3)});
    }
    tell(stage, (struct launcher_event){.kind = LAUNCHER_LISTED, .socket = -1});
    for (uint32_t i = 0; i < ACTORS_MAX; i++) {
        const struct actor *actor = &stage->actors[i];

        if (actor->used && actor->has_exited)
            tell(stage, (struct launcher_event){.kind = LAUNCHER_EXITED, .launch = actor->launch, .end = actor->end, .socket = -1});
    }
}

static void actor_free(struct actor *actor)
{
    void *wire = actor->wire;

    wire_end(wire);
    free(wire);
    if (actor->socket >= 0)
        close(actor->socket);
    close(actor->control_end);
    actor->used = false;
}

static void do_ask(struct stage *stage, const struct stage_ask *ask)
{
    struct actor *actor = actor_find(stage, ask->launch.worker);

    switch (ask->act) {
    case STAGE_START:
        start(stage, &ask->launch);
        break;
    case STAGE_END:
    case STAGE_END_AT_ONCE:
        if (actor != NULL)
            exits(stage, actor, true, ask->act == STAGE_END_AT_ONCE ? 9 : 15);
        break;
    case STAGE_LIST:
        list(stage);
        break;
    case STAGE_FORGET:
        if (actor != NULL && actor->has_exited) {
            actor_free(actor);
            stage->forgotten++;
        }
        break;
    }
}

static void do_asks(struct stage *stage)
{
    struct stage_ask asks[ARRAY_COUNT(stage->asks)];
    uint32_t count;

    pthread_mutex_lock(&stage->lock);
    count = stage->asks_count;
    memcpy(asks, stage->asks, count * sizeof(asks[0]));
    stage->asks_count = 0;
    pthread_mutex_unlock(&stage->lock);
    for (uint32_t i = 0; i < count; i++)
        do_ask(stage, &asks[i]);
}

/* --- the launcher's other half ------------------------------------------------------------------------------------------------------ */

static int front_descriptor(const struct launcher *launcher)
{
    return front_of(launcher)->wake;
}

static enum status front_next(struct launcher *launcher, struct launcher_event *ret_event)
{
    struct front *front = front_of(launcher);
    enum status status = STATUS_END;
    uint64_t ignored;

    pthread_mutex_lock(&front->stage->lock);
    if (front->count > 0) {
        *ret_event = front->events[front->first];
        front->first = (front->first + 1) % EVENTS_MAX;
        front->count--;
        status = STATUS_OK;
    } else {
        (void)!read(front->wake, &ignored, sizeof(ignored));
    }
    pthread_mutex_unlock(&front->stage->lock);
    return status;
}

static void front_close(struct launcher *launcher)
{
    struct front *front = front_of(launcher);

    for (; front->count > 0; front->count--, front->first = (front->first + 1) % EVENTS_MAX) {
        if (front->events[front->first].socket >= 0)
            close(front->events[front->first].socket);
    }
    front->stage->front = NULL;
    close(front->wake);
    free(front);
}

static struct launcher *front_create(struct stage *stage)
{
    static const struct launcher_table table = {.start = front_start, .end = front_end, .list = front_list, .forget = front_forget,
                                                .descriptor = front_descriptor, .next = front_next, .close = front_close};
    struct front *front = calloc(1, sizeof(*front));

    check(front != NULL);
    front->launcher.table = &table;
    front->stage = stage;
    front->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    stage->front = front;
    return &front->launcher;
}

/* --- workers --------------------------------------------------------------------------------------------------------------------- */

struct asked *actor_asked(struct actor *actor, uint64_t request)
{
    for (uint32_t i = 0; i < ASKED_MAX; i++) {
        if (actor->asked[i].used && actor->asked[i].request == request)
            return &actor->asked[i];
    }
    return NULL;
}

static void take_request(struct actor *actor, const struct wire_request *said)
{
    struct asked *asked = actor->asked;
    off_t bytes = (off_t)said->prompt_count * 4;

    while (asked->used)
        asked++;
    if (inbox.descriptors_count > 0)
        bytes = lseek(inbox.descriptors[0], 0, SEEK_END);
    *asked = (struct asked){.used = true, .request = said->request, .generation = said->generation, .max_tokens = said->max_tokens,
                            .prompt_tokens = (uint32_t)(bytes / 4)};
    memcpy(asked->digest, said->digest, sizeof(asked->digest));
    memcpy(asked->account, said->account, said->account_count);
    actor->asked_count++;
}

static void take_load(struct stage *stage, struct actor *actor, const struct wire_load *load)
{
    struct learned *learned = &actor->learned[actor->learned_count];
    struct wire_grant grant;

    check(load->grants_count == 1 && inbox.descriptors_count == 1);
    actor->loads++;
    if (stage->fails_loads) {
        struct wire_unloaded unloaded = {.generation = load->generation};

        memcpy(unloaded.digest, load->digest, sizeof(unloaded.digest));
        check(wire_say(actor->wire, WIRE_UNLOADED, &unloaded, 0, NULL, 0) == STATUS_OK);
        return;
    }
    wire_grant_read(load->grants, &grant);
    check(load->label_count < sizeof(learned->tenant));
    *learned = (struct learned){.generation = load->generation, .key_first = grant.key[0]};
    memcpy(learned->digest, load->digest, sizeof(learned->digest));
    memcpy(learned->tenant, load->label, load->label_count);
    actor->learned_count++;
}

static void take_unload(struct actor *actor, const struct wire_unload *unload)
{
    struct wire_unloaded unloaded = {.generation = unload->generation};

    memcpy(unloaded.digest, unload->digest, sizeof(unloaded.digest));
    actor->unloads++;
    for (uint32_t i = 0; i < actor->learned_count; i++) {
        if (actor->learned[i].generation == unload->generation)
            actor->learned[i] = actor->learned[--actor->learned_count];
    }
    check(wire_say(actor->wire, WIRE_UNLOADED, &unloaded, 0, NULL, 0) == STATUS_OK);
}

static void say_inventory(struct stage *stage, struct actor *actor)
{
    uint8_t residents[64][WIRE_RESIDENT_BYTES];
    struct wire_inventory inventory = {.residents = residents[0], .residents_count = actor->learned_count};

    if (!actor->is_started || stage->silent || !wire_state(actor->wire).is_open)
        return;
    for (uint32_t i = 0; i < actor->learned_count; i++) {
        struct wire_resident resident = {.generation = actor->learned[i].generation, .tier = TIER_GPU};

        memcpy(resident.digest, actor->learned[i].digest, sizeof(resident.digest));
        wire_resident_write(&resident, residents[i]);
    }
    check(wire_say(actor->wire, WIRE_INVENTORY, &inventory, 0, NULL, 0) == STATUS_OK);
}

static void take(struct stage *stage, struct actor *actor, const struct wire_frame *frame)
{
    actor->says[frame->header.kind]++;
    switch (frame->header.kind) {
    case WIRE_WELCOME:
        memset(actor->asked, 0, sizeof(actor->asked));
        actor->asked_count = 0;
        if (actor->launch.kind == CORE_SERVER)
            say_inventory(stage, actor);
        break;
    case WIRE_START:
        check(inbox.descriptors_count >= 1 || actor->launch.kind != CORE_SERVER);
        snprintf(actor->settings, sizeof(actor->settings), "%.*s", (int)frame->body.start.settings_count,
                 (const char *)frame->body.start.settings);
        if (actor->starts++ == 0) {
            actor->is_started = true;
            if (actor->launch.kind == CORE_SERVER)
                say_inventory(stage, actor);
        }
        break;
    case WIRE_LOAD:
        take_load(stage, actor, &frame->body.load);
        break;
    case WIRE_UNLOAD:
        take_unload(actor, &frame->body.unload);
        break;
    case WIRE_REQUEST:
        take_request(actor, &frame->body.request);
        break;
    case WIRE_ABORT:
        if (actor_asked(actor, frame->body.abort.request) != NULL)
            actor_asked(actor, frame->body.abort.request)->aborted = true;
        break;
    case WIRE_DRAIN:
        actor->is_drained = true;
        break;
    default:
        break;
    }
}

static void actor_turn(struct stage *stage, struct actor *actor)
{
    struct wire_frame frame;
    enum wire_received received = WIRE_RECEIVED_EMPTY;

    if (actor->socket < 0)
        return;
    do {
        received = wire_receive(actor->wire, actor->socket, 1, &inbox, &frame);
        if (received == WIRE_RECEIVED_FRAME) {
            take(stage, actor, &frame);
            wire_inbox_close(&inbox);
        }
    } while (received == WIRE_RECEIVED_FRAME || received == WIRE_RECEIVED_NOTHING);
    (void)wire_flush(actor->wire, actor->socket, 1);
    if (actor->is_drained && actor->asked_count == 0 && wire_state(actor->wire).seq == wire_state(actor->wire).committed_seq)
        exits(stage, actor, false, 0);
}

bool actor_tokens(struct actor *actor, uint64_t request, uint32_t count)
{
    static uint8_t bytes[4096 * WIRE_TOKEN_BYTES];
    struct asked *asked = actor_asked(actor, request);
    const struct wire_tokens tokens = {.request = request, .first_index = asked != NULL ? asked->said_tokens : 0, .tokens_count = count,
                                       .tokens = bytes, .text_count = 1, .text = (const uint8_t *)"x"};

    if (asked == NULL || wire_say(actor->wire, WIRE_TOKENS, &tokens, 0, NULL, 0) != STATUS_OK)
        return false;
    asked->said_tokens += count;
    (void)wire_flush(actor->wire, actor->socket, 1);
    return true;
}

void actor_usage(struct actor *actor, uint64_t request)
{
    const struct asked *asked = actor_asked(actor, request);
    const struct wire_usage usage = {.request = request, .at_ms = NOW, .prompt_tokens = asked->prompt_tokens,
                                     .output_tokens = asked->said_tokens, .account_count = (uint32_t)strlen(asked->account),
                                     .account = (const uint8_t *)asked->account};

    check(wire_say(actor->wire, WIRE_USAGE, &usage, 0, NULL, 0) == STATUS_OK);
    (void)wire_flush(actor->wire, actor->socket, 1);
}

void actor_done(struct actor *actor, uint64_t request, enum core_end_reason finish)
{
    struct asked *asked = actor_asked(actor, request);
    const struct wire_done done = {.request = request, .finish = finish, .prompt_tokens = asked->prompt_tokens,
                                   .output_tokens = asked->said_tokens};

    actor_usage(actor, request);
    check(wire_say(actor->wire, WIRE_DONE, &done, 0, NULL, 0) == STATUS_OK);
    asked->used = false;
    actor->asked_count--;
    (void)wire_flush(actor->wire, actor->socket, 1);
}

void rig_kill(struct rig *rig, struct actor *actor)
{
    exits(&rig->stage, actor, true, 9);
}

void rig_turn(struct rig *rig)
{
    const struct timespec moment = {0, NS_PER_MS};

    do_asks(&rig->stage);
    for (uint32_t i = 0; i < ACTORS_MAX; i++) {
        if (rig->stage.actors[i].used)
            actor_turn(&rig->stage, &rig->stage.actors[i]);
    }
    pthread_mutex_lock(&rig->lock);
    rig->seen = rig->heard;
    pthread_mutex_unlock(&rig->lock);
    nanosleep(&moment, NULL);
}

void rig_turn_for(struct rig *rig, int turns)
{
    while (turns-- > 0)
        rig_turn(rig);
}

struct actor *rig_server(struct rig *rig, uint32_t base, uint32_t n)
{
    for (uint32_t i = 0; i < ACTORS_MAX; i++) {
        struct actor *actor = &rig->stage.actors[i];

        if (actor->used && !actor->has_exited && actor->launch.kind == CORE_SERVER &&
            strstr(actor->settings, rig->bases[base].name) != NULL && n-- == 0)
            return actor;
    }
    return NULL;
}

struct actor *rig_worker(struct rig *rig, uint64_t worker)
{
    return actor_find(&rig->stage, worker);
}

struct actor *rig_has(struct rig *rig, uint64_t request)
{
    for (uint32_t i = 0; i < ACTORS_MAX; i++) {
        if (rig->stage.actors[i].used && actor_asked(&rig->stage.actors[i], request) != NULL)
            return &rig->stage.actors[i];
    }
    return NULL;
}

/* --- the driver ------------------------------------------------------------------------------------------------------------------ */

static void hears(void *context, const struct core_heard *said)
{
    struct rig *rig = context;
    struct heard *heard = &rig->heard;

    pthread_mutex_lock(&rig->lock);
    heard->of[said->kind]++;
    heard->last[said->kind] = *said;
    if (said->kind == CORE_HEARD_FETCH) {
        heard->fetched[heard->fetches_count % 64] = *said->adapter;
        heard->fetches[heard->fetches_count++ % 64] = said->fetch;
    }
    if (said->kind == CORE_HEARD_FRAME)
        heard->frames[heard->frames_count++ % 64] = *said->frame;
    if (said->kind == CORE_HEARD_COMMAND)
        heard->commands[heard->commands_count++ % 64] = *said->command;
    pthread_mutex_unlock(&rig->lock);
}

/* --- a life ---------------------------------------------------------------------------------------------------------------------- */

static void open_database(struct rig *rig)
{
    const struct meta_options options = {.place = scratch_at(&rig->scratch, "metadata.db"), .server_key = server_key, .first = true};

    OK(rig, meta_open(&options, &rig->metadata, &rig->refusal));
    OK(rig, meta_tenant_add(rig->metadata, "acme", NOW, rig->tenant, &rig->refusal));
    OK(rig, meta_open(&options, &rig->writing, &rig->refusal));
    OK(rig, meta_writer_start(rig->writing, 256, &rig->writer, &rig->refusal));
}

void rig_begin(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    pthread_mutex_init(&rig->lock, NULL);
    pthread_mutex_init(&rig->stage.lock, NULL);
    scratch_begin(&rig->scratch);
    open_database(rig);
    for (uint32_t i = 0; i < 2; i++) {
        struct core_base *base = &rig->bases[i];

        snprintf(base->name, sizeof(base->name), "%s", i == 0 ? "tiny" : "other");
        base->folder = open(rig->scratch.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        base->bytes = 1 << 20;
        base->load_ns = NS_PER_MS;
        base->positions_max = 100000;
        base->replicas_floor = base->replicas_ceiling = i == 0 ? 2 : 1;
    }
    rig->config = (struct core_config){.writer = rig->writer, .bases = rig->bases, .bases_count = 2, .devices = 3,
                                       .device_bytes = 1 << 30, .adapters_max = 64, .jobs_max = 64, .tenants_max = 16,
                                       .first_at_ns = 1000, .server_options = "{\"threads\":2}", .hears = hears, .hears_context = rig};
}

void rig_open(struct rig *rig)
{
    struct refusal refusal = {{0}};

    rig->config.launcher = front_create(&rig->stage);
    rig->config.epoch = ++rig->epoch;
    if (core_open(&rig->config, &rig->core, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
}

void rig_up(struct rig *rig)
{
    rig_open(rig);
    assert_int_equal(core_restored(rig->core), STATUS_OK);
    UNTIL(rig, core_counts(rig->core).servers_up == 3);
}

void rig_core_gone(struct rig *rig)
{
    core_close(rig->core);
    rig->core = NULL;
}

void rig_end(struct rig *rig)
{
    core_close(rig->core);
    meta_writer_stop(rig->writer);
    meta_close(rig->writing);
    meta_close(rig->metadata);
    for (uint32_t i = 0; i < ACTORS_MAX; i++) {
        if (rig->stage.actors[i].used)
            actor_free(&rig->stage.actors[i]);
    }
    for (uint32_t i = 0; i < 2; i++)
        close(rig->bases[i].folder);
    scratch_end(&rig->scratch);
}

/* --- requests -------------------------------------------------------------------------------------------------------------------- */

void rig_hears_tokens(void *owner, const struct wire_tokens *said)
{
    struct answer *answer = owner;

    answer->tokens += said->tokens_count;
    if (answer->takes)
        core_taken(answer->core, answer->request, said->tokens_count);
}

void rig_hears_end(void *owner, const struct core_end *said)
{
    struct answer *answer = owner;

    answer->end = *said;
    snprintf(answer->text, sizeof(answer->text), "%.*s", (int)said->text_bytes, said->text != NULL ? said->text : "");
    answer->ends++;
}

struct core_adapter rig_adapter(const struct rig *rig, const char *digest)
{
    struct core_adapter adapter = {.rank = 8, .bytes = 4096};

    snprintf(adapter.tenant, sizeof(adapter.tenant), "%s", rig->tenant);
    snprintf(adapter.object, sizeof(adapter.object), "object-%s", digest);
    core_adapter_key(rig->tenant, digest, adapter.key);
    return adapter;
}

enum status rig_ask(struct rig *rig, uint32_t base, const struct core_adapter *adapter, uint32_t max_tokens, struct answer *answer)
{
    static const int32_t prompt[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    char account[128];
    const struct core_ask ask = {.base = base, .adapter = adapter, .tenant = 1, .prompt = prompt, .prompt_tokens = 8,
                                 .max_tokens = max_tokens, .settings = "{}", .account = account, .owner = answer, .tokens = rig_hears_tokens,
                                 .end = rig_hears_end};

    snprintf(account, sizeof(account), "%s %s", rig->tenant, rig->bases[base].name);
    answer->core = rig->core;
    return core_ask(rig->core, &ask, &answer->request);
}

int64_t rig_usage(struct rig *rig, int64_t *ret_output)
{
    struct meta_results results = {0};
    struct meta_usage_sum *sums = NULL;
    uint32_t count = 0;
    int64_t rows = 0;
    bool more;

    *ret_output = 0;
    OK(rig, meta_usage_sums(rig->metadata, rig->tenant, 0, INT64_MAX, 100, &results, &sums, &count, &more, &rig->refusal));
    for (uint32_t i = 0; i < count; i++) {
        rows += sums[i].records;
        *ret_output += sums[i].tokens_out;
    }
    meta_results_free(&results);
    return rows;
}

uint32_t rig_rows(struct rig *rig)
{
    struct meta_results results = {0};
    struct meta_worker *workers = NULL;
    uint32_t count = 0;
    bool more;

    OK(rig, meta_worker_list(rig->metadata, "", 100, &results, &workers, &count, &more, &rig->refusal));
    meta_results_free(&results);
    return count;
}
