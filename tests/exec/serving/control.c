#define _GNU_SOURCE /* memfd_create */
#include "control.h"

#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control/core/core.h"
#include "crypto/envelope.h"
#include "engine/lora/peft.h"

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void open_wire(struct control *control, uint64_t committed_seq)
{
    const struct wire_config config = {.side = WIRE_SIDE_CONTROL, .worker = 5, .attempt = 1, .epoch = ++control->epoch,
                                       .lease_ms = control->lease_ms, .committed_seq = committed_seq, .is_adopted = control->epoch > 1,
                                       .requests_max = 4096};

    wire_end(control->wire);
    free(control->memory);
    control->memory = calloc(1, wire_bytes(&config));
    control->wire = wire_create(control->memory, wire_bytes(&config), &config);
}

static void *run(void *context)
{
    struct control *control = context;

    control->status = serving_run(&control->config, &control->refusal);
    return NULL;
}

static void say_start(struct control *control)
{
    static const char settings[] = "{\"task\": \"serve\", \"tenant\": \"\", \"base\": {\"fd\": 0, \"name\": \"tiny\"}, \"options\": {}}";
    int folder = open(control->place.base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_true(folder >= 0);
    control_say(control, WIRE_START,
                &(struct wire_start){.settings = (const uint8_t *)settings, .settings_count = sizeof(settings) - 1}, &folder, 1);
}

static void begin(struct control *control, int *ret_servers)
{
    const struct launch launch = {.worker = 5, .attempt = 1};
    int sockets[2];

    memset(control, 0, sizeof(*control));
    place_begin(&control->place, DTYPE_F32);
    control->lease_ms = 600000;
    control->config.log = tmpfile();
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    control->socket = sockets[0];
    *ret_servers = sockets[1];
    assert_int_equal(send(sockets[0], &launch, sizeof(launch), 0), sizeof(launch));
    open_wire(control, 0);
}

static void await_inventory(struct control *control)
{
    control->runs = true;
    control_until(control, wire_state(control->wire).is_open);
    say_start(control);
    control_until(control, control->inventories == 1);
}

void control_begin(struct control *control, void (*change)(struct serving_config *config))
{
    int socket;

    begin(control, &socket);
    place_worker_config(&control->place, &control->config.worker);
    control->config.worker.positions_max = 256;
    control->config.worker.model_directory = NULL;
    control->config.socket = socket;
    if (change != NULL)
        change(&control->config);
    assert_int_equal(pthread_create(&control->thread, NULL, run, control), 0);
    await_inventory(control);
}

void control_begin_program(struct control *control, const char *const *arguments)
{
    char *const nothing[] = {NULL};
    int socket;

    begin(control, &socket);
    control->process = fork();
    assert_true(control->process >= 0);
    if (control->process == 0) {
        if (socket == KEEPER_SOCKET ? fcntl(socket, F_SETFD, 0) == 0 : dup2(socket, KEEPER_SOCKET) == KEEPER_SOCKET)
            execve(arguments[0], (char *const *)(uintptr_t)arguments, nothing);
        _exit(127);
    }
    close(socket);
    await_inventory(control);
}

enum status control_join(struct control *control)
{
    int how = 0;

    if (control->runs && control->process == 0) {
        assert_int_equal(pthread_join(control->thread, NULL), 0);
    } else if (control->runs) {
        assert_int_equal(waitpid(control->process, &how, 0), control->process);
        control->status = WIFEXITED(how) && WEXITSTATUS(how) == 0 ? STATUS_OK : STATUS_END;
    }
    control->runs = false;
    return control->status;
}

void control_end(struct control *control)
{
    close(control->socket);
    (void)control_join(control);
    wire_inbox_close(&control->inbox);
    wire_end(control->wire);
    free(control->memory);
    fclose(control->config.log);
    place_end(&control->place);
}

void control_again(struct control *control)
{
    const uint32_t inventories = control->inventories;

    open_wire(control, wire_state(control->wire).committed_seq);
    say_start(control); /* as a control plane does that cannot know whether the one before had */
    control_until(control, control->inventories == inventories + 1);
}

void control_say(struct control *control, enum wire_kind kind, const void *body, const int *descriptors, uint32_t count)
{
    enum status status;

    while ((status = wire_say(control->wire, kind, body, 0, descriptors, count)) == STATUS_FULL)
        control_turn(control, 1);
    if (status != STATUS_OK)
        fail_msg("%s: %s", wire_kind_info(kind)->name, status_text(status));
}

/* --- what it says --------------------------------------------------------------------------------------------------------------- */

struct heard *heard_of(struct control *control, uint64_t request)
{
    struct heard *heard = &control->heard[request % HEARD_MAX];

    assert_int_equal(heard->request, request);
    return heard;
}

static void hear_tokens(struct control *control, const struct wire_tokens *tokens)
{
    struct heard *heard = heard_of(control, tokens->request);

    assert_int_equal(tokens->first_index, heard->reply.count);
    assert_int_equal(heard->reply.ends, 0);
    heard->frames++;
    heard->best_each = tokens->best_each;
    for (uint32_t i = 0; i < tokens->tokens_count; i++) {
        struct wire_token token;

        wire_token_read(tokens->tokens + (size_t)i * WIRE_TOKEN_BYTES, &token);
        if (tokens->best_each > 0)
            wire_token_read(tokens->best + (size_t)i * tokens->best_each * WIRE_TOKEN_BYTES, &heard->best[heard->reply.count]);
        memcpy(&heard->reply.logprobs[heard->reply.count], &token.logprob_bits, sizeof(float));
        heard->reply.ids[heard->reply.count++] = (int32_t)token.id;
    }
    strncat(heard->text, (const char *)tokens->text, tokens->text_count);
}

static void hear_usage(struct control *control, const struct wire_usage *usage)
{
    struct heard *heard = heard_of(control, usage->request);

    assert_int_equal(heard->reply.ends, 0);
    heard->usages++;
    heard->usage = *usage;
    snprintf(heard->account, sizeof(heard->account), "%.*s", (int)usage->account_count, (const char *)usage->account);
}

static void hear_done(struct control *control, const struct wire_done *done)
{
    struct heard *heard = heard_of(control, done->request);

    assert_int_equal(heard->usages, 1);
    heard->reply.ends++;
    heard->done = *done;
    if (done->finish == CORE_END_REFUSED)
        snprintf(heard->why, sizeof(heard->why), "%.*s", (int)done->text_count, (const char *)done->text);
    else
        strncat(heard->text, (const char *)done->text, done->text_count);
}

static void hear_inventory(struct control *control, const struct wire_inventory *inventory)
{
    static uint32_t residents;

    residents += inventory->residents_count;
    if (inventory->residents_count > 0)
        wire_resident_read(inventory->residents, &control->resident);
    if (inventory->more)
        return;
    control->residents = residents;
    control->inventories++;
    residents = 0;
}

static void hear_residency(struct control *control, const struct wire_residency *residency)
{
    control->resident = (struct wire_resident){.generation = residency->generation, .bytes = residency->bytes, .tier = residency->tier};
    memcpy(control->resident.digest, residency->digest, 32);
}

static void hear(struct control *control, const struct wire_frame *frame)
{
    switch (frame->header.kind) {
    case WIRE_TOKENS: hear_tokens(control, &frame->body.tokens); break;
    case WIRE_USAGE: hear_usage(control, &frame->body.usage); break;
    case WIRE_DONE: hear_done(control, &frame->body.done); break;
    case WIRE_INVENTORY: hear_inventory(control, &frame->body.inventory); break;
    case WIRE_RESIDENCY: hear_residency(control, &frame->body.residency); break;
    case WIRE_UNLOADED:
        control->unloadeds++;
        control->unloaded = frame->body.unloaded;
        break;
    case WIRE_BEAT: control->beat = frame->body.beat; break;
    default: break;
    }
    if (frame->header.seq > 0)
        wire_commit(control->wire, frame->header.seq);
}

void control_turn(struct control *control, int wait_ms)
{
    struct pollfd one = {.fd = control->socket, .events = POLLIN};
    struct wire_frame frame;

    (void)wire_flush(control->wire, control->socket, now_ns());
    if (poll(&one, 1, wait_ms) <= 0)
        return;
    if (wire_receive(control->wire, control->socket, now_ns(), &control->inbox, &frame) == WIRE_RECEIVED_FRAME)
        hear(control, &frame);
    if (wire_state(control->wire).fault != WIRE_FAULT_NONE)
        fail_msg("a fault: %s", wire_fault_text(wire_state(control->wire).fault));
}

/* --- objects -------------------------------------------------------------------------------------------------------------------- */

void object_make(struct control *control, const char *name, const char *tenant, struct object *ret_object)
{
    struct object object = {.file = memfd_create(name, MFD_CLOEXEC)};
    struct envelope_label label = {.tenant = tenant, .object = object.id, .purpose = "adapter"};
    struct refusal refusal = {""};
    struct peft *peft;
    struct sealer *sealer;
    char domain[256];
    char text[DIGEST_TEXT_MAX];
    void *bytes;
    size_t count;
    int length;

    snprintf(object.tenant, sizeof(object.tenant), "%s", tenant);
    snprintf(object.id, sizeof(object.id), "object-%s", name);
    randombytes_buf(object.secret, sizeof(object.secret));
    assert_int_equal(peft_open(scratch_at(&control->place.scratch, name), &control->place.config, 64, &peft, &refusal), STATUS_OK);
    object.rank = (uint32_t)peft->rank_stated;
    assert_int_equal(peft_write_bytes(&(struct peft_write){.source = &peft->source, .dims = &control->place.config.dims,
                                                           .alpha = peft->alpha_stated, .base = "tiny"},
                                      name, &bytes, &count, &refusal),
                     STATUS_OK);
    assert_int_equal(sealer_open(&label, object.id, object.secret, envelope_to_file, &object.file, &sealer), STATUS_OK);
    assert_int_equal(sealer_put(sealer, bytes, count), STATUS_OK);
    assert_int_equal(sealer_finish(sealer), STATUS_OK);
    sealer_close(sealer);
    object.bytes = envelope_sealed_bytes(count);
    length = snprintf(domain, sizeof(domain), "berth adapter 1\n%s%c%s", tenant, '\0', digest_text(peft->digest, text));
    (void)crypto_hash_sha256(object.key, (const uint8_t *)domain, (unsigned long long)length);
    free(bytes);
    peft_close(peft);
    *ret_object = object;
}

void object_end(struct object *object)
{
    close(object->file);
}

void control_load(struct control *control, const struct object *object)
{
    uint8_t bytes[WIRE_GRANT_BYTES];
    struct wire_grant grant = {{0}, {0}};
    struct wire_load load = {.generation = ++control->generation, .bytes = object->bytes, .rank = object->rank, .grants_count = 1,
                             .grants = bytes, .label = (const uint8_t *)object->tenant, .label_count = (uint32_t)strlen(object->tenant)};
    int file = fcntl(object->file, F_DUPFD_CLOEXEC, 0);

    assert_true(file >= 0);
    memcpy(grant.id, object->id, sizeof(object->id));
    memcpy(grant.key, object->secret, sizeof(grant.key));
    memcpy(load.digest, object->key, sizeof(load.digest));
    wire_grant_write(&grant, bytes);
    control_say(control, WIRE_LOAD, &load, &file, 1);
}

/* --- requests ------------------------------------------------------------------------------------------------------------------- */

uint64_t control_ask(struct control *control, const struct wanted *wanted)
{
    const char *tenant = wanted->tenant != NULL ? wanted->tenant : wanted->object != NULL ? wanted->object->tenant : "acme";
    const char *settings = wanted->settings != NULL ? wanted->settings : "{\"temperature\": 0, \"ignore_eos\": true}";
    const uint64_t number = ++control->requests;
    int32_t ids[PROMPT_TOKENS_MAX];
    uint8_t prompt[4 * PROMPT_TOKENS_MAX];
    char account[128];
    struct wire_request request = {.request = number, .generation = control->generation, .tenant = wanted->tenant_number,
                                   .credit_tokens = wanted->credit > 0 ? wanted->credit : 100000, .max_tokens = wanted->max_tokens,
                                   .account = (const uint8_t *)account, .settings = (const uint8_t *)settings,
                                   .settings_count = (uint32_t)strlen(settings), .prompt = prompt};
    int file = -1;

    draw_prompt(wanted->seed, ids, wanted->prompt_tokens);
    for (uint32_t i = 0; i < wanted->prompt_tokens; i++)
        wire_put(prompt + 4 * (size_t)i, (uint32_t)ids[i], 4);
    if (wanted->object != NULL)
        memcpy(request.digest, wanted->object->key, 32);
    request.account_count = (uint32_t)snprintf(account, sizeof(account), "%s tiny-%llu", tenant, (unsigned long long)number);
    if (wanted->by_file) {
        file = memfd_create("prompt", MFD_CLOEXEC);
        assert_int_equal(write(file, prompt, 4 * wanted->prompt_tokens), 4 * wanted->prompt_tokens);
    } else {
        request.prompt_count = wanted->prompt_tokens;
    }
    memset(&control->heard[number % HEARD_MAX], 0, sizeof(control->heard[0]));
    control->heard[number % HEARD_MAX].request = number;
    control_say(control, WIRE_REQUEST, &request, &file, wanted->by_file ? 1 : 0);
    return number;
}

struct heard *control_answer(struct control *control, const struct wanted *wanted)
{
    struct heard *heard = heard_of(control, control_ask(control, wanted));

    control_until(control, heard->reply.ends == 1);
    return heard;
}
