#include "rig.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crypto/envelope.h"

#define NOW 1700000000000
#define WORKERS_MAX 64
#define TOLD_MAX 256
#define PATIENCE_S 20

/* --- the core that is played ------------------------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct played workers[WORKERS_MAX];
static uint32_t workers_count;
static struct fleet_event told[TOLD_MAX];
static uint32_t told_count;
static struct core_fetch fetched;
static uint64_t drawn = 100;
static struct driver *hearing;
static int64_t clock_ns = NOW * NS_PER_MS;

static struct played *find(uint64_t worker)
{
    for (uint32_t i = 0; i < workers_count; i++)
        if (workers[i].launch.worker == worker)
            return &workers[i];
    return NULL;
}

static void (*also_told)(const struct fleet_event *event);

void rig_tell_also(void (*tell)(const struct fleet_event *event))
{
    also_told = tell;
}

enum status core_tell(struct core *core, const struct fleet_event *event)
{
    (void)core;
    pthread_mutex_lock(&lock);
    assert_true(told_count < TOLD_MAX);
    told[told_count++] = *event;
    pthread_mutex_unlock(&lock);
    if (also_told != NULL)
        also_told(event);
    return STATUS_OK;
}

enum status core_restored(struct core *core)
{
    struct fleet_event event;

    (void)core;
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_RESTORE_DONE;
    if (also_told != NULL)
        also_told(&event);
    return STATUS_OK;
}

static void take(struct played *played, bool are_spares, uint32_t adapters, const uint8_t *grants, uint32_t grants_count, const int *descriptors,
                 uint32_t descriptors_count)
{
    assert_true(played->grants_count + grants_count <= 64 && played->descriptors_count + descriptors_count <= 64);
    if (grants_count > 0)
        memcpy(played->grants + played->grants_count * WIRE_GRANT_BYTES, grants, grants_count * WIRE_GRANT_BYTES);
    if (descriptors_count > 0)
        memcpy(played->descriptors + played->descriptors_count, descriptors, descriptors_count * sizeof(int));
    for (uint32_t i = 0; i < grants_count; i++) {
        played->is_spare[played->grants_count + i] = are_spares;
        played->is_adapter[played->grants_count + i] = (adapters >> i & 1) != 0;
    }
    played->grants_count += grants_count;
    played->descriptors_count += descriptors_count;
}

enum status core_launch(struct core *core, const struct core_launch *launch)
{
    struct played *played;

    (void)core;
    pthread_mutex_lock(&lock);
    assert_true(workers_count < WORKERS_MAX);
    played = &workers[workers_count];
    *played = (struct played){.launch = launch->launch};
    played->settings = json_loadb((const char *)launch->start.settings, launch->start.settings_count, 0, NULL);
    assert_non_null(played->settings);
    take(played, false, 0, launch->start.grants, launch->start.grants_count, launch->descriptors, launch->descriptors_count);
    workers_count++;
    pthread_mutex_unlock(&lock);
    return STATUS_OK;
}

enum status core_say(struct core *core, uint64_t worker, enum wire_kind kind, const void *body, const int *descriptors,
                     uint32_t descriptors_count)
{
    const struct wire_checkpoint_now *now = body;
    struct played *played;

    (void)core;
    assert_int_equal(kind, WIRE_CHECKPOINT_NOW);
    pthread_mutex_lock(&lock);
    played = find(worker);
    assert_non_null(played);
    assert_int_equal(now->grants_count, descriptors_count);
    take(played, true, now->adapters, now->grants, now->grants_count, descriptors, descriptors_count);
    played->deadline_ms = now->deadline_ms;
    played->asked++;
    pthread_mutex_unlock(&lock);
    return STATUS_OK;
}

enum status core_commit(struct core *core, uint64_t worker, uint64_t seq)
{
    (void)core;
    pthread_mutex_lock(&lock);
    find(worker)->committed = seq;
    pthread_mutex_unlock(&lock);
    return STATUS_OK;
}

enum status core_end(struct core *core, uint64_t worker, bool at_once)
{
    (void)core;
    pthread_mutex_lock(&lock);
    find(worker)->ended = true;
    find(worker)->ended_at_once = at_once;
    pthread_mutex_unlock(&lock);
    return STATUS_OK;
}

enum status core_forget(struct core *core, uint64_t worker)
{
    (void)core;
    pthread_mutex_lock(&lock);
    find(worker)->forgotten = true;
    pthread_mutex_unlock(&lock);
    return STATUS_OK;
}

enum status core_fetched(struct core *core, uint64_t fetch, enum status status, const uint8_t key[32], int object)
{
    (void)core;
    (void)fetch;
    pthread_mutex_lock(&lock);
    if (fetched.count > 0 && fetched.object >= 0)
        close(fetched.object);
    fetched.count++;
    fetched.status = status;
    fetched.object = object;
    if (status == STATUS_OK)
        memcpy(fetched.key, key, 32);
    pthread_mutex_unlock(&lock);
    return STATUS_OK;
}

uint64_t core_worker_draw(void)
{
    return ++drawn;
}

void core_worker_id(uint64_t worker, char ret_id[NAME_BYTES])
{
    snprintf(ret_id, NAME_BYTES, "worker-%016llx", (unsigned long long)worker);
}

/* --- waiting ---------------------------------------------------------------------------------------------------------------- */

/* False when patience is over. */
static bool wait_more(int64_t *until_ns)
{
    const struct timespec moment = {0, 2 * NS_PER_MS};
    struct timespec now;
    int64_t now_ns;

    clock_gettime(CLOCK_MONOTONIC, &now);
    now_ns = now.tv_sec * NS_PER_S + now.tv_nsec;
    if (*until_ns == 0)
        *until_ns = now_ns + PATIENCE_S * NS_PER_S;
    nanosleep(&moment, NULL);
    return now_ns < *until_ns;
}

#define WAIT(condition, ...)                                \
    for (int64_t until_ns = 0;;) {                          \
        bool is_so;                                         \
        pthread_mutex_lock(&lock);                          \
        is_so = (condition);                                \
        pthread_mutex_unlock(&lock);                        \
        if (is_so)                                          \
            break;                                          \
        if (!wait_more(&until_ns))                          \
            fail_msg(__VA_ARGS__);                          \
    }

uint32_t rig_workers(void)
{
    uint32_t count;

    pthread_mutex_lock(&lock);
    count = workers_count;
    pthread_mutex_unlock(&lock);
    return count;
}

struct played *rig_worker(uint32_t n)
{
    WAIT(workers_count > n, "worker %u was not launched", n);
    return &workers[n];
}

static bool take_told(enum fleet_event_kind kind, struct fleet_event *ret_event)
{
    for (uint32_t i = 0; i < told_count; i++) {
        if (told[i].kind != kind)
            continue;
        *ret_event = told[i];
        memmove(told + i, told + i + 1, (--told_count - i) * sizeof(told[0]));
        return true;
    }
    return false;
}

struct fleet_event rig_told(enum fleet_event_kind kind)
{
    struct fleet_event event;

    WAIT(take_told(kind, &event), "the core was not told event %d", (int)kind);
    return event;
}

bool rig_told_none(enum fleet_event_kind kind)
{
    bool none = true;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < told_count; i++)
        none = none && told[i].kind != kind;
    pthread_mutex_unlock(&lock);
    return none;
}

void rig_wait_committed(struct played *played)
{
    WAIT(played->committed == played->seq, "frame %llu was not committed", (unsigned long long)played->seq);
}

void rig_wait_forgotten(struct played *played)
{
    WAIT(played->forgotten, "its end was not kept");
}

void rig_wait_ended(struct played *played)
{
    WAIT(played->ended, "it was not ended");
}

void rig_wait_asked(struct played *played, uint32_t times)
{
    WAIT(played->asked >= times, "it was not asked to save %u times", times);
}

struct core_fetch rig_fetched(void)
{
    static uint32_t seen;

    if (fetched.count < seen)
        seen = 0;
    WAIT(fetched.count > seen, "the fetch was not answered");
    seen = fetched.count;
    return fetched;
}

/* --- rows ------------------------------------------------------------------------------------------------------------------- */

struct meta_file rig_file(struct rig *rig, const char *file)
{
    struct refusal refusal;
    struct meta_file row;

    meta_results_free(&rig->results);
    assert_int_equal(meta_file_get(rig->metadata, rig->acme, file, &rig->results, &row, &refusal), STATUS_OK);
    return row;
}

struct meta_job rig_job(struct rig *rig)
{
    struct refusal refusal;
    struct meta_job row;

    meta_results_free(&rig->results);
    assert_int_equal(meta_job_get(rig->metadata, rig->acme, rig->job, &rig->results, &row, &refusal), STATUS_OK);
    return row;
}

void rig_wait_file(struct rig *rig, const char *file, const char *state)
{
    WAIT(strcmp(rig_file(rig, file).state, state) == 0, "the file is %s, not %s", rig_file(rig, file).state, state);
}

void rig_wait_job(struct rig *rig, const char *state)
{
    WAIT(strcmp(rig_job(rig).state, state) == 0, "the job is %s, not %s", rig_job(rig).state, state);
}

bool rig_has_event(struct rig *rig, const char *code, char *ret_words)
{
    struct meta_event *events = NULL;
    struct refusal refusal;
    uint32_t count = 0;
    bool more;

    meta_results_free(&rig->results);
    assert_int_equal(meta_event_list(rig->metadata, rig->acme, rig->job, INT64_MAX, META_PAGE_MAX, &rig->results, &events, &count, &more, &refusal),
                     STATUS_OK);
    for (uint32_t i = 0; i < count; i++) {
        char id[2 * NAME_BYTES];

        if (strcmp(events[i].code, code) != 0)
            continue;
        snprintf(id, sizeof(id), "%s-%lld", rig->job, (long long)events[i].n);
        if (ret_words != NULL && events[i].sealed.count > 0) {
            assert_int_equal(vault_text_open(rig->vault, rig->acme, "event", id, events[i].sealed.bytes, events[i].sealed.count, ret_words, &refusal),
                             STATUS_OK);
            ret_words[events[i].sealed.count - VAULT_SEALED_EXTRA] = '\0';
        }
        return true;
    }
    return false;
}

uint32_t rig_objects(struct rig *rig, const char *state)
{
    struct meta_object *objects = NULL;
    struct refusal refusal;
    uint32_t count = 0;
    bool more;

    meta_results_free(&rig->results);
    assert_int_equal(meta_object_sweep(rig->metadata, state, "", META_PAGE_MAX, &rig->results, &objects, &count, &more, &refusal), STATUS_OK);
    return count;
}

uint32_t rig_models(struct rig *rig, struct meta_model ret_models[8])
{
    const struct meta_page page = {.limit = 8};
    struct meta_model *models = NULL;
    struct refusal refusal;
    uint32_t count = 0;
    bool more;

    meta_results_free(&rig->results);
    assert_int_equal(meta_model_list(rig->metadata, rig->acme, &page, &rig->results, &models, &count, &more, &refusal), STATUS_OK);
    if (count > 0)
        memcpy(ret_models, models, count * sizeof(*models));
    return count;
}

/* --- what the core says ----------------------------------------------------------------------------------------------------- */

static void hear(struct core_heard heard)
{
    pthread_mutex_lock(&lock);
    heard.at_ns = clock_ns += 5 * NS_PER_MS;
    pthread_mutex_unlock(&lock);
    driver_hears(hearing, &heard);
}

void rig_command(const struct fleet_command *command)
{
    hear((struct core_heard){.kind = CORE_HEARD_COMMAND, .command = command});
}

void rig_place(uint64_t command, job_id job)
{
    struct fleet_command place = {.id = command, .kind = FLEET_COMMAND_JOB_PLACE, .job_place = {.job = job, .gpu_mask = 1}};

    hear((struct core_heard){.kind = CORE_HEARD_COMMAND, .command = &place});
}

void rig_stop_job(uint64_t command, job_id job, int64_t within_ns)
{
    struct fleet_command stop = {.id = command, .kind = FLEET_COMMAND_JOB_STOP, .reason = JOB_STOP_NOTICE,
                                 .job_stop = {.job = job, .by_ns = clock_ns + 5 * NS_PER_MS + within_ns}};

    hear((struct core_heard){.kind = CORE_HEARD_COMMAND, .command = &stop});
}

void rig_fetch(struct rig *rig, const char *object)
{
    struct core_adapter adapter = {.rank = 8};

    strcpy(adapter.tenant, rig->acme);
    strcpy(adapter.object, object);
    hear((struct core_heard){.kind = CORE_HEARD_FETCH, .fetch = 7, .adapter = &adapter});
}

/* --- what workers say ------------------------------------------------------------------------------------------------------- */

void rig_wait_a_moment(void)
{
    const struct timespec moment = {0, 200 * NS_PER_MS};

    nanosleep(&moment, NULL);
}

void played_runs(struct played *played)
{
    hear((struct core_heard){.kind = CORE_HEARD_STARTED, .launch = played->launch});
}

void played_say(struct played *played, enum wire_kind kind, const void *body)
{
    const bool must = wire_kind_info(kind)->class == WIRE_CLASS_MUST;
    uint8_t *bytes = malloc(WIRE_FRAME_BYTES_MAX);
    struct wire_frame frame = {.header = {.version = 1, .kind = (uint16_t)kind, .seq = must ? ++played->seq : 0, .worker = played->launch.worker,
                                          .attempt = played->launch.attempt}};
    size_t count = 0;

    assert_int_equal(wire_body_write(kind, body, bytes + WIRE_HEADER_BYTES, WIRE_BODY_BYTES_MAX, &count), STATUS_OK);
    frame.header.length = (uint32_t)(count + WIRE_HEADER_BYTES);
    wire_header_write(&frame.header, bytes);
    assert_int_equal(wire_body_read(kind, bytes + WIRE_HEADER_BYTES, count, &frame.body), STATUS_OK);
    hear((struct core_heard){.kind = CORE_HEARD_FRAME, .launch = played->launch, .frame = &frame, .frame_bytes = bytes,
                             .frame_count = count + WIRE_HEADER_BYTES});
    free(bytes);
}

void played_hello(struct played *played)
{
    const struct wire_hello hello = {.version_min = 1, .version_max = 1, .worker_kind = played->launch.kind};

    played_say(played, WIRE_HELLO, &hello);
    rig_wait_committed(played);
}

static void with_text(const char *text, const uint8_t **ret_bytes, uint32_t *ret_count)
{
    *ret_bytes = (const uint8_t *)text;
    *ret_count = (uint32_t)strlen(text);
}

void played_progress(struct played *played, uint64_t step, uint64_t steps)
{
    struct wire_progress progress = {.step = step, .steps = steps, .tokens = 10 * step};
    char text[128];

    snprintf(text, sizeof(text), "{\"step\":%llu,\"train_loss\":0.5,\"secret\":\"words\"}", (unsigned long long)step);
    with_text(text, &progress.metrics, &progress.metrics_count);
    played_say(played, WIRE_PROGRESS, &progress);
}

static const uint8_t *grant_of(const struct played *played, const char *object, uint32_t *ret_index)
{
    for (uint32_t i = played->grants_count; i-- > 0;) {
        const uint8_t *grant = played->grants + i * WIRE_GRANT_BYTES;

        if (strcmp((const char *)grant, object) == 0) {
            *ret_index = i;
            return grant;
        }
    }
    fail_msg("no grant of %s", object);
    return NULL;
}

/* Descriptors of a CHECKPOINT_NOW stand in the order of its grants, behind those of START. */
static int descriptor_of(const struct played *played, const char *object)
{
    const char *name;
    json_t *value;
    uint32_t index = 0;

    json_object_foreach(played->settings, name, value)
        if (json_is_object(value) && json_string_value(json_object_get(value, "object")) != NULL &&
            strcmp(json_string_value(json_object_get(value, "object")), object) == 0)
            return played->descriptors[json_integer_value(json_object_get(value, "fd"))];
    (void)grant_of(played, object, &index);
    return played->descriptors[played->descriptors_count - (played->grants_count - index)];
}

/* Of a START by its name; else the first to spare of the sort. */
static const char *object_named(struct played *played, const char *name)
{
    const char *object = json_string_value(json_object_get(json_object_get(played->settings, name), "object"));

    for (uint32_t i = 0; object == NULL && i < played->grants_count; i++) {
        if (!played->is_spare[i] || played->is_adapter[i] != (strcmp(name, "adapter") == 0))
            continue;
        played->is_spare[i] = false;
        object = (const char *)played->grants + i * WIRE_GRANT_BYTES;
    }
    assert_non_null(object);
    return object;
}

struct sealed {
    int file;
    crypto_generichash_state digest;
    uint64_t bytes;
};

static enum status to_file(void *context, const void *bytes, size_t count)
{
    struct sealed *sealed = context;

    crypto_generichash_update(&sealed->digest, bytes, count);
    sealed->bytes += count;
    return envelope_to_file(&sealed->file, bytes, count);
}

uint64_t played_write(struct rig *rig, struct played *played, const char *name, const char *purpose, const char *text, char ret_object[NAME_BYTES],
                      uint8_t ret_digest[32])
{
    const char *object = object_named(played, name);
    const struct envelope_label label = {.tenant = rig->acme, .object = object, .purpose = purpose};
    struct sealed sealed = {.file = descriptor_of(played, object)};
    struct sealer *sealer = NULL;
    uint32_t index = 0;

    crypto_generichash_init(&sealed.digest, NULL, 0, 32);
    assert_int_equal(sealer_open(&label, object, grant_of(played, object, &index) + 64, to_file, &sealed, &sealer), STATUS_OK);
    assert_int_equal(sealer_put(sealer, text, strlen(text)), STATUS_OK);
    assert_int_equal(sealer_finish(sealer), STATUS_OK);
    sealer_close(sealer);
    crypto_generichash_final(&sealed.digest, ret_digest, 32);
    strcpy(ret_object, object);
    return sealed.bytes;
}

void played_report(struct rig *rig, struct played *played, bool accepted, const char *report)
{
    struct wire_result result = {.tokens = 5000};
    char object[NAME_BYTES];
    char metrics[256];

    result.bytes = played_write(rig, played, "report", "report", report, object, result.digest);
    snprintf(metrics, sizeof(metrics), "{\"accepted\":%s,\"lines\":12,\"tokens\":1000,\"epochs\":5,\"steps\":60,\"batch\":1,\"errors\":%d}",
             accepted ? "true" : "false", accepted ? 0 : 1);
    with_text(metrics, &result.metrics, &result.metrics_count);
    played_say(played, WIRE_RESULT, &result);
    rig_wait_committed(played);
}

static void saved(struct rig *rig, struct played *played, uint64_t step, const char *name, const char *role, const char *text, const char *more)
{
    struct wire_checkpoint checkpoint = {.step = step};
    char object[NAME_BYTES];
    char metrics[512];

    checkpoint.bytes = played_write(rig, played, name, role, text, object, checkpoint.digest);
    snprintf(metrics, sizeof(metrics), "{\"object\":\"%s\",\"role\":\"%s\",\"train_loss\":0.25%s}", object, role, more);
    with_text(metrics, &checkpoint.metrics, &checkpoint.metrics_count);
    played_say(played, WIRE_CHECKPOINT, &checkpoint);
    rig_wait_committed(played);
    if (json_object_get(played->settings, name) != NULL)
        json_object_del(played->settings, name); /* written; the next is a spare one */
}

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

void played_state(struct rig *rig, struct played *played, uint64_t step)
{
    saved(rig, played, step, "state", "state", "a state", "");
}

void played_adapter(struct rig *rig, struct played *played, uint64_t step)
{
    saved(rig, played, step, "adapter", "adapter", "an adapter", ",\"rank\":8,\"adapter_digest\":\"" DIGEST "\"");
}

void played_result(struct rig *rig, struct played *played, uint64_t step)
{
    struct wire_result result = {.step = step, .tokens = 5000};
    char object[NAME_BYTES], table[NAME_BYTES], digest[65], metrics[512];
    uint8_t table_digest[32];
    const uint64_t table_bytes = played_write(rig, played, "results", "file", "step,train_loss\n1,0.5\n", table, table_digest);

    sodium_bin2hex(digest, sizeof(digest), table_digest, 32);
    result.bytes = played_write(rig, played, "result", "adapter", "the adapter", object, result.digest);
    snprintf(metrics, sizeof(metrics),
             "{\"adapter_digest\":\"" DIGEST "\",\"rank\":8,\"steps\":10,\"results\":{\"object\":\"%s\",\"bytes\":%llu,\"digest\":\"%s\"}}", table,
             (unsigned long long)table_bytes, digest);
    with_text(metrics, &result.metrics, &result.metrics_count);
    played_say(played, WIRE_RESULT, &result);
    rig_wait_committed(played);
}

void played_exits(struct played *played, int code)
{
    hear((struct core_heard){.kind = CORE_HEARD_EXITED, .launch = played->launch, .end = {.code = code}});
    rig_wait_forgotten(played);
}

/* --- beginning and end ------------------------------------------------------------------------------------------------------ */

static void open_vault(struct rig *rig)
{
    const struct vault_options options = {.keys_path = rig->keys, .master = {.file = rig->master}};
    struct refusal refusal = {{0}};
    int socket;

    if (vault_start(&options, &socket, &rig->vault_process, &refusal) != STATUS_OK || vault_open(socket, &rig->vault, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
}

static void close_vault(struct rig *rig)
{
    vault_close(rig->vault);
    waitpid(rig->vault_process, NULL, 0);
}

static void open_rows(struct rig *rig)
{
    struct meta_options options = {.place = rig->database, .server_key = rig->server_key, .first = true};
    struct refusal refusal = {{0}};

    if (meta_open(&options, &rig->writing, &refusal) != STATUS_OK || meta_writer_start(rig->writing, 64, &rig->writer, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    options.first = false;
    if (meta_open(&options, &rig->metadata, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
}

static void forget_all(void)
{
    for (uint32_t i = 0; i < workers_count; i++) {
        json_decref(workers[i].settings);
        for (uint32_t k = 0; k < workers[i].descriptors_count; k++)
            close(workers[i].descriptors[k]);
    }
    if (fetched.count > 0 && fetched.object >= 0)
        close(fetched.object);
    memset(workers, 0, sizeof(workers));
    memset(&fetched, 0, sizeof(fetched));
    workers_count = told_count = 0;
}

void rig_begin(struct rig *rig)
{
    const struct model_config config = tiny_config(FAMILY_LLAMA);
    struct refusal refusal = {{0}};

    memset(rig, 0, sizeof(*rig));
    forget_all();
    scratch_begin(&rig->scratch);
    snprintf(rig->database, sizeof(rig->database), "%s", scratch_at(&rig->scratch, "metadata.db"));
    snprintf(rig->folder, sizeof(rig->folder), "%s", scratch_at(&rig->scratch, "store"));
    snprintf(rig->keys, sizeof(rig->keys), "%s", scratch_at(&rig->scratch, "keys.db"));
    snprintf(rig->master, sizeof(rig->master), "%s", scratch_at(&rig->scratch, "master.key"));
    snprintf(rig->base, sizeof(rig->base), "%s", scratch_folder(&rig->scratch, "base"));
    tiny_model(rig->base, &config, 1, DTYPE_F32);
    rig->server_key = secret_alloc(KEY_BYTES);
    assert_int_equal(master_create(rig->master, &refusal), STATUS_OK);
    open_vault(rig);
    open_rows(rig);
    assert_int_equal(store_local_open(rig->folder, &rig->store, &refusal), STATUS_OK);
    assert_int_equal(meta_tenant_add(rig->metadata, "acme", NOW, rig->acme, &refusal), STATUS_OK);
    assert_int_equal(meta_base_add(rig->metadata, "tiny", "00", rig->base, NOW, &refusal), STATUS_OK);
    strcpy(rig->bases[0].name, "tiny");
    rig->bases[0].folder = open(rig->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rig_start(rig);
}

static void log_line(void *context, const char *line)
{
    (void)context;
    if (getenv("RIG_LOG") != NULL)
        fprintf(stderr, "%s\n", line);
}

void rig_start(struct rig *rig)
{
    static uint64_t epoch;
    const struct driver_config config = {.epoch = ++epoch, .metadata = {.place = rig->database, .server_key = rig->server_key}, .writer = rig->writer, .vault = rig->vault,
                                         .store = rig->store, .bases = rig->bases, .bases_count = 1, .devices = 2, .price_nano_per_hour = INT64_C(3600000000000000), .gate_off = !rig->gate,
                                         .log = log_line};
    struct refusal refusal = {{0}};

    assert_int_equal(driver_open(&config, &rig->driver, &refusal), STATUS_OK);
    hearing = rig->driver;
    for (uint32_t i = 0; i < workers_count; i++)
        if (!workers[i].forgotten)
            hear((struct core_heard){.kind = CORE_HEARD_FOUND, .launch = workers[i].launch});
    hear((struct core_heard){.kind = CORE_HEARD_LISTED});
    if (driver_start(rig->driver, (struct core *)rig, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
}

void rig_stop(struct rig *rig)
{
    driver_stop(rig->driver);
    driver_close(rig->driver);
    rig->driver = NULL;
    told_count = 0;
}

void rig_restart(struct rig *rig)
{
    struct refusal refusal = {{0}};

    rig_stop(rig);
    store_close(rig->store);
    close_vault(rig);
    open_vault(rig);
    assert_int_equal(store_local_open(rig->folder, &rig->store, &refusal), STATUS_OK);
    rig_start(rig);
}

void rig_end(struct rig *rig)
{
    rig_stop(rig);
    meta_results_free(&rig->results);
    meta_close(rig->metadata);
    meta_writer_stop(rig->writer);
    meta_close(rig->writing);
    store_close(rig->store);
    close_vault(rig);
    close(rig->bases[0].folder);
    secret_free(rig->server_key);
    scratch_end(&rig->scratch);
}

/* --- what tenants do -------------------------------------------------------------------------------------------------------- */

void rig_add_file(struct rig *rig, const char *text, char ret_file[NAME_BYTES])
{
    const struct object_home home = {rig->writer, rig->vault, rig->store};
    struct object object = {0};
    struct refusal refusal = {{0}};

    assert_int_equal(object_begin(&home, rig->metadata, rig->acme, OBJECT_FILE, &object, &refusal), STATUS_OK);
    assert_int_equal(object_write(&object, text, strlen(text), &refusal), STATUS_OK);
    assert_int_equal(object_finish(&object, &refusal), STATUS_OK);
    object_close(&object);
    meta_id("file-", ret_file);
    assert_int_equal(meta_object_written(rig->metadata, rig->acme, object.id, (int64_t)strlen(text), object.digest, &refusal), STATUS_OK);
    assert_int_equal(meta_file_add(rig->metadata, rig->acme, ret_file, object.id, "fine-tune", (struct meta_bytes){NULL, 0}, META_NONE, NOW, &refusal),
                     STATUS_OK);
    driver_file_changed(rig->driver, rig->acme, ret_file);
}

void rig_add_job(struct rig *rig, const char *file)
{
    const struct job_settings settings = {.suffix = "mine", .dry_run = rig->dry_run};
    json_t *json = job_settings_json(&settings);
    char *text = json_dumps(json, JSON_COMPACT);
    struct refusal refusal = {{0}};

    meta_id("ftjob-", rig->job);
    if (meta_job_add(rig->metadata, &(struct meta_job_new){.tenant = rig->acme, .id = rig->job, .base = "tiny", .file = file, .settings = text}, NOW,
                     &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    free(text);
    json_decref(json);
    driver_job_changed(rig->driver, rig->acme, rig->job);
}

void rig_check(struct rig *rig, const char *state)
{
    struct played *validator;

    rig_add_file(rig, "{\"messages\":[]}\n", rig->file);
    validator = rig_worker(0);
    played_runs(validator);
    played_hello(validator);
    played_report(rig, validator, true, "{\"issues\":[]}");
    rig_wait_file(rig, rig->file, "processed");
    played_exits(validator, 0);
    rig_add_job(rig, rig->file);
    validator = rig_worker(1);
    played_runs(validator);
    played_hello(validator);
    played_report(rig, validator, true, "{\"issues\":[]}");
    rig_wait_job(rig, state);
    played_exits(validator, 0);
}

job_id rig_queue(struct rig *rig)
{
    rig_check(rig, "queued");
    return rig_told(FLEET_EVENT_JOB).job.job;
}

struct played *rig_run(struct rig *rig, uint64_t command)
{
    const job_id id = rig_queue(rig);
    struct played *trainer;

    rig_place(command, id);
    trainer = rig_worker(2);
    played_runs(trainer);
    played_hello(trainer);
    rig_wait_job(rig, "running");
    return trainer;
}
