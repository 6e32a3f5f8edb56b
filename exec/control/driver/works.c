/* Validators and trainers as this process knows them, the objects that are lent to them, and what a START is made of. */
#define _GNU_SOURCE /* F_DUPFD_CLOEXEC */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "control/driver/internal.h"

const char *const output_kinds[] = {[OUTPUT_REPORT] = OBJECT_REPORT, [OUTPUT_RESULT] = OBJECT_ADAPTER, [OUTPUT_RESULTS] = OBJECT_RESULTS,
                                    [OUTPUT_STATE] = OBJECT_STATE, [OUTPUT_ADAPTER] = OBJECT_ADAPTER};

struct work *work_begin(struct driver *driver, enum core_worker_kind kind, const char *tenant, const char *subject)
{
    struct work *work = NULL;

    for (uint32_t i = 0; i < WORKS_MAX && work == NULL; i++)
        if (!driver->works[i].used)
            work = &driver->works[i];
    if (work == NULL)
        return NULL;
    pthread_mutex_lock(&driver->views_lock);
    *work = (struct work){.used = true, .is_trainer = kind == CORE_TRAINER, .kill_at_ns = NEVER_NS, .failed_step = META_NONE,
                          .finish_at_ms = META_NONE};
    work->launch.worker = core_worker_draw();
    work->launch.kind = kind;
    core_worker_id(work->launch.worker, work->id);
    strcpy(work->tenant, tenant);
    strcpy(work->subject, subject);
    pthread_mutex_unlock(&driver->views_lock);
    return work;
}

void work_end(struct driver *driver, struct work *work)
{
    pthread_mutex_lock(&driver->views_lock);
    work->used = false;
    pthread_mutex_unlock(&driver->views_lock);
}

struct work *work_find(struct driver *driver, uint64_t worker)
{
    for (uint32_t i = 0; i < WORKS_MAX; i++)
        if (driver->works[i].used && driver->works[i].launch.worker == worker)
            return &driver->works[i];
    return NULL;
}

struct work *work_of(struct driver *driver, const char *subject)
{
    for (uint32_t i = 0; i < WORKS_MAX; i++)
        if (driver->works[i].used && strcmp(driver->works[i].subject, subject) == 0)
            return &driver->works[i];
    return NULL;
}

uint32_t validators_count(const struct driver *driver)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < WORKS_MAX; i++)
        count += driver->works[i].used && !driver->works[i].is_trainer && driver->works[i].adoption == NULL;
    return count;
}

/* --- what is lent ----------------------------------------------------------------------------------------------------------- */

enum status work_ack(struct metadata *metadata, struct work *work, uint64_t seq, struct refusal *refusal)
{
    const enum status status = meta_worker_ack(metadata, work->id, (int64_t)seq, refusal);

    if (status == STATUS_OK)
        work->acked_seq = seq;
    return status;
}

struct output *work_holds(struct work *work, enum output_role role, const char *object, struct store_put *put)
{
    struct output *output = &work->outputs[work->outputs_count];

    check(work->outputs_count < OUTPUTS_MAX);
    *output = (struct output){.role = role, .put = put};
    strcpy(output->object, object);
    work->outputs_count++;
    return output;
}

/* The vault takes only so much at a time. */
static enum status lend(struct driver *driver, const struct work *work, const char *object, enum output_role role, uint8_t *ret_key,
                        struct store_put **ret_put, struct refusal *refusal)
{
    return object_lend(&driver->home, driver->metadata, work->tenant, object, output_kinds[role], ret_key, ret_put, refusal);
}

enum status work_lend(struct driver *driver, struct work *work, enum output_role role, uint8_t ret_key[KEY_BYTES], struct output **ret_output,
                      struct refusal *refusal)
{
    char object[NAME_BYTES];
    struct store_put *put = NULL;
    enum status status;

    if (work->outputs_count == OUTPUTS_MAX)
        return refuse(refusal, STATUS_FULL, "the worker has as many objects to write as it may");
    snprintf(object, sizeof(object), WORK_OBJECT, (unsigned long long)work->launch.worker, work->objects);
    work->objects++;
    status = lend(driver, work, object, role, ret_key, &put, refusal);
    if (status == STATUS_OK) {
        *ret_output = work_holds(work, role, object, put);
    } else if (status != STATUS_CONFLICT) { /* or it is another's, and stays */
        struct refusal unheard = {{0}};

        (void)object_take_back(&driver->home, work->tenant, object, NULL, &unheard);
    }
    return status;
}

struct output *work_output(struct work *work, const char *object)
{
    for (uint32_t i = 0; object != NULL && i < work->outputs_count; i++)
        if (strcmp(work->outputs[i].object, object) == 0)
            return &work->outputs[i];
    return NULL;
}

struct output *work_spare(struct work *work, enum output_role role)
{
    for (uint32_t i = 0; i < work->outputs_count; i++)
        if (work->outputs[i].role == role && !work->outputs[i].is_unsure)
            return &work->outputs[i];
    return NULL;
}

enum status output_commit(struct driver *driver, struct work *work, struct output *output, uint64_t bytes, struct refusal *refusal)
{
    struct store_put *put = output->put;
    struct store_get *get = NULL;
    uint64_t written = 0;
    enum status status;

    output->put = NULL;
    if (put != NULL) {
        status = store_put_commit(put, &written, refusal);
    } else {
        status = store_get_open(driver->config.store, work->tenant, output->object, &get, refusal);
        written = status == STATUS_OK ? store_get_bytes(get) : 0;
        store_get_close(get);
    }
    return status == STATUS_OK && written != bytes ? refuse(refusal, STATUS_INVALID, "a worker wrote another length than it said") : status;
}

void output_taken(struct work *work, struct output *output)
{
    *output = work->outputs[--work->outputs_count];
}

void work_take_back(struct driver *driver, struct work *work)
{
    while (work->outputs_count > 0) {
        struct output *output = &work->outputs[work->outputs_count - 1];
        struct refusal refusal = {{0}};

        if (object_take_back(&driver->home, work->tenant, output->object, output->put, &refusal) != STATUS_OK)
            driver_log(driver, "driver: act=take_back object=%s code=later", output->object); /* its row leads the sweeper there */
        output_taken(work, output);
    }
}

void work_leave(struct work *work)
{
    for (uint32_t i = 0; i < work->outputs_count; i++)
        store_put_leave(work->outputs[i].put);
    work->outputs_count = 0;
}

/* --- START ------------------------------------------------------------------------------------------------------------------ */

enum status start_begin(struct start *start, struct refusal *refusal)
{
    *start = (struct start){.settings = json_object(), .grants = secret_alloc(WIRE_DESCRIPTORS_MAX * WIRE_GRANT_BYTES)};
    return start->settings != NULL && start->grants != NULL ? STATUS_OK : refuse(refusal, STATUS_IO, "no memory for a start");
}

void start_end(struct start *start)
{
    for (uint32_t i = 0; i < start->descriptors_count; i++)
        close(start->descriptors[i]);
    json_decref(start->settings);
    secret_free(start->grants);
    *start = (struct start){0};
}

static enum status add_descriptor(struct start *start, int descriptor, struct refusal *refusal)
{
    const int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);

    check(start->descriptors_count < WIRE_DESCRIPTORS_MAX);
    if (own < 0)
        return refuse(refusal, STATUS_IO, "no descriptor is left");
    start->descriptors[start->descriptors_count++] = own;
    return STATUS_OK;
}

static void add_grant(struct start *start, const char *object, const uint8_t *key)
{
    struct wire_grant grant = {.id = {0}, .key = {0}};

    check(start->grants_count < WIRE_DESCRIPTORS_MAX);
    memcpy(grant.id, object, strlen(object));
    memcpy(grant.key, key, KEY_BYTES);
    wire_grant_write(&grant, start->grants + start->grants_count * WIRE_GRANT_BYTES);
    sodium_memzero(&grant, sizeof(grant));
    start->grants_count++;
}

static void add_json(struct start *start, const char *name, const char *object, uint64_t bytes)
{
    json_t *json = json_pack("{s:i,s:i,s:s}", "fd", (int)start->descriptors_count - 1, "grant", (int)start->grants_count - 1, "object", object);

    check(json != NULL);
    if (bytes > 0)
        check(json_object_set_new(json, "bytes", json_integer((json_int_t)bytes)) == 0);
    check(json_object_set_new(start->settings, name, json) == 0);
}

enum status start_input(struct driver *driver, struct start *start, const char *name, const char *tenant, const char *object,
                        struct refusal *refusal)
{
    uint8_t *key = secret_alloc(KEY_BYTES);
    struct store_get *get = NULL;
    enum status status = key != NULL ? vault_key_give(driver->config.vault, tenant, object, key, refusal)
                                     : refuse(refusal, STATUS_IO, "no memory for a key");

    if (status == STATUS_OK)
        status = store_get_open(driver->config.store, tenant, object, &get, refusal);
    if (status == STATUS_OK)
        status = add_descriptor(start, store_get_descriptor(get), refusal);
    if (status == STATUS_OK) {
        add_grant(start, object, key);
        add_json(start, name, object, store_get_bytes(get));
    }
    store_get_close(get);
    secret_free(key);
    return status;
}

enum status start_output(struct driver *driver, struct start *start, const char *name, struct work *work, enum output_role role,
                         struct refusal *refusal)
{
    uint8_t *key = secret_alloc(KEY_BYTES);
    struct output *output = NULL;
    enum status status = key != NULL ? work_lend(driver, work, role, key, &output, refusal)
                                     : refuse(refusal, STATUS_IO, "no memory for a key");

    if (status == STATUS_OK)
        status = add_descriptor(start, store_put_descriptor(output->put), refusal);
    if (status == STATUS_OK) {
        add_grant(start, output->object, key);
        add_json(start, name, output->object, 0);
    }
    secret_free(key);
    return status;
}

uint32_t base_index(const struct driver *driver, const char *name)
{
    for (uint32_t i = 0; i < driver->config.bases_count; i++)
        if (strcmp(driver->config.bases[i].name, name) == 0)
            return i;
    return NONE_INDEX;
}

enum status start_base(struct driver *driver, struct start *start, uint32_t base, struct refusal *refusal)
{
    const struct core_base *about = &driver->config.bases[base];
    enum status status = add_descriptor(start, about->folder, refusal);

    if (status == STATUS_OK)
        check(json_object_set_new(start->settings, "base", json_pack("{s:i,s:s}", "fd", (int)start->descriptors_count - 1, "name",
                                                                    about->name)) == 0);
    return status;
}

enum status start_launch(struct driver *driver, struct start *start, struct work *work, uint64_t job, uint64_t step, struct refusal *refusal)
{
    char *text = json_dumps(start->settings, JSON_COMPACT);
    struct core_launch launch = {.launch = work->launch, .descriptors = start->descriptors, .descriptors_count = start->descriptors_count};
    enum status status;

    if (text == NULL)
        return refuse(refusal, STATUS_IO, "no memory for a start");
    launch.start = (struct wire_start){.job = job, .step = step, .grants_count = start->grants_count, .grants = start->grants,
                                       .settings_count = (uint32_t)strlen(text), .settings = (const uint8_t *)text};
    do
        status = core_launch(driver->core, &launch);
    while (driver_again(driver, status));
    if (status == STATUS_OK)
        start->descriptors_count = 0; /* the core's */
    free(text);
    return status == STATUS_OK ? status : refuse(refusal, status, "the core takes no worker now");
}

enum status start_say(struct driver *driver, struct start *start, const struct work *work, uint32_t deadline_ms, uint32_t adapters,
                      struct refusal *refusal)
{
    const struct wire_checkpoint_now now = {.deadline_ms = deadline_ms, .adapters = adapters, .grants_count = start->grants_count, .grants = start->grants};
    enum status status;

    do
        status = core_say(driver->core, work->launch.worker, WIRE_CHECKPOINT_NOW, &now, start->descriptors, start->descriptors_count);
    while (driver_again(driver, status));
    if (status == STATUS_OK)
        start->descriptors_count = 0;
    return status == STATUS_OK ? status : refuse(refusal, status, "the core has ended");
}
