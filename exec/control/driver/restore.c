/* After a start: what the database holds is told to the core, and what the launcher still has is compared with the rows of workers. One
 * that lives goes on where it stands, with what was lent to it; one that is not there any more was the platform's loss. Validators are
 * ended and begun anew, and so are trainers that had not said HELLO: what they do is soon done again. */
#include <stdio.h>
#include <stdlib.h>

#include "control/driver/internal.h"
#include "control/metadata/restore.h"

/* --- tenants ---------------------------------------------------------------------------------------------------------------- */

struct telling {
    struct driver *driver;
    const char *tenant; /* NULL: all */
    char (*cohorts)[NAME_BYTES];
    uint32_t *numbers;
    uint32_t count;
    uint32_t room;
};

static void cohort_seen(struct telling *telling, const char *name, int64_t number)
{
    if (telling->count == telling->room) {
        telling->room = telling->room * 2 + 16;
        telling->cohorts = realloc(telling->cohorts, telling->room * sizeof(*telling->cohorts));
        telling->numbers = realloc(telling->numbers, telling->room * sizeof(*telling->numbers));
        check(telling->cohorts != NULL && telling->numbers != NULL);
    }
    snprintf(telling->cohorts[telling->count], NAME_BYTES, "%s", name);
    telling->numbers[telling->count++] = (uint32_t)number;
    fleet_cohort(telling->driver, (uint32_t)number);
}

static uint32_t cohort_of(const struct telling *telling, const char *name)
{
    for (uint32_t i = 0; i < telling->count; i++)
        if (strcmp(telling->cohorts[i], name) == 0)
            return telling->numbers[i];
    return 0;
}

static bool tell_one(void *context, const struct meta_restore *item)
{
    struct telling *telling = context;

    if (item->kind == META_RESTORED_COHORT)
        cohort_seen(telling, item->cohort.name, item->cohort.number);
    else if (item->kind == META_RESTORED_TENANT && (telling->tenant == NULL || strcmp(telling->tenant, item->tenant->id) == 0))
        fleet_tenant(telling->driver, item->tenant, cohort_of(telling, item->tenant->cohort));
    else if (item->kind == META_RESTORED_USAGE && telling->tenant == NULL)
        fleet_usage(telling->driver, item->tenant);
    return item->kind <= META_RESTORED_USAGE;
}

enum status fleet_tenants(struct driver *driver, const char *tenant, struct refusal *refusal)
{
    struct telling telling = {.driver = driver, .tenant = tenant};
    enum status status;

    fleet_cohort(driver, 0);
    status = meta_restore(driver->metadata, tell_one, &telling, refusal);
    free(telling.cohorts);
    free(telling.numbers);
    return status;
}

/* --- workers ---------------------------------------------------------------------------------------------------------------- */

/* NULL: the launcher has it no more. */
static const struct launch *found(struct driver *driver, const char *worker)
{
    for (uint32_t i = 0; i < driver->inbox.found_count; i++) {
        char id[NAME_BYTES];

        core_worker_id(driver->inbox.found[i].worker, id);
        if (strcmp(id, worker) == 0)
            return &driver->inbox.found[i];
    }
    return NULL;
}

static void end_now(struct driver *driver, uint64_t worker)
{
    enum status status;

    do
        status = core_end(driver->core, worker, true);
    while (driver_again(driver, status));
}

/* Where it stands, and what the attempts before it had trained. */
static void read_placement(struct work *work, const char *text)
{
    json_t *placement = json_loads(text, 0, NULL);
    const json_int_t devices = json_integer_value(json_object_get(placement, "devices"));

    work->gpu_mask = devices > 0 && devices <= UINT16_MAX ? (uint16_t)devices : 0;
    work->tokens_before = max_i64(json_integer_value(json_object_get(placement, "tokens")), 0);
    json_decref(placement);
}

static struct work *adopt(struct driver *driver, const struct launch *launch, const struct meta_worker *row, const char *tenant)
{
    struct work *work = work_begin(driver, CORE_VALIDATOR, tenant, row->subject);

    check(work != NULL); /* no more are found than there may be */
    work->launch = *launch;
    work->is_trainer = strcmp(row->kind, "trainer") == 0;
    work->is_adopted = true;
    work->objects = (uint32_t)(driver->config.epoch & 0xffff) << 16; /* above what it was lent before, whatever became of that */
    work->attempt = row->attempt;
    work->started_at_ns = row->started_at_ms * NS_PER_MS;
    snprintf(work->id, sizeof(work->id), "%s", row->id);
    read_placement(work, row->placement);
    return work;
}

static void end_adopted(struct driver *driver, struct work *work)
{
    work->is_ending = true;
    work->is_killed = true;
    end_now(driver, work->launch.worker);
}

static void job_worker(struct driver *driver, const struct meta_worker *row, const struct meta_job *job)
{
    const struct launch *launch = found(driver, row->id);
    const enum meta_job_state state = meta_job_state_parse(job->state);
    struct work *work;

    if (launch == NULL) {
        if (strcmp(row->kind, "trainer") == 0)
            attempt_lost(driver, job->tenant, job->id, row->id, "lost", 0);
        else
            worker_lost(driver, row->id);
        return;
    }
    work = adopt(driver, launch, row, job->tenant);
    work->of_job = true;
    work->is_running = work->is_trainer && job->attempt == row->attempt && (state == META_JOB_RUNNING || state == META_JOB_STOPPING);
    if (work->is_trainer)
        (void)fleet_found(driver, job, work); /* false: it yields, see go_on() */
    if (!work->is_running)
        end_adopted(driver, work); /* it was never told what to do, or that may be lost */
}

/* A validator of a file, or whose job is over; what was lent to it is taken back below. */
static void other_worker(struct driver *driver, const struct meta_worker *row)
{
    const struct launch *launch = found(driver, row->id);

    if (launch == NULL)
        worker_lost(driver, row->id);
    else
        end_adopted(driver, adopt(driver, launch, row, ""));
}

struct seeking {
    const char *subject;
    struct meta_job job;
    struct meta_results results;
    bool is_there;
};

/* Open jobs are few beside what a start does anyway. */
static void seek_job(struct driver *driver, struct seeking *seeking)
{
    struct refusal unheard = {{0}};
    char tenant[NAME_BYTES];

    seeking->is_there = meta_job_tenant(driver->metadata, seeking->subject, tenant, &unheard) == STATUS_OK &&
                        meta_job_get(driver->metadata, tenant, seeking->subject, &seeking->results, &seeking->job, &unheard) == STATUS_OK;
}

static void one_worker(struct driver *driver, const struct meta_worker *row)
{
    struct seeking seeking = {.subject = row->subject};

    if (row->subject == NULL)
        return; /* a server: the core's */
    seek_job(driver, &seeking);
    if (seeking.is_there && seeking.job.finished_at_ms == META_NONE)
        job_worker(driver, row, &seeking.job);
    else
        other_worker(driver, row);
    meta_results_free(&seeking.results);
}

static enum status restore_workers(struct driver *driver, struct refusal *refusal)
{
    char after[NAME_BYTES] = "";
    bool more = true;
    enum status status = STATUS_OK;

    while (more && status == STATUS_OK) {
        struct meta_results results = {0};
        struct meta_worker *rows = NULL;
        uint32_t count = 0;

        status = meta_worker_list(driver->metadata, after, META_PAGE_MAX, &results, &rows, &count, &more, refusal);
        for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
            snprintf(after, sizeof(after), "%s", rows[i].id);
            one_worker(driver, &rows[i]);
        }
        meta_results_free(&results);
    }
    /* Whose row has ended already, or never came to be. */
    for (uint32_t i = 0; status == STATUS_OK && i < driver->inbox.found_count; i++)
        if (work_find(driver, driver->inbox.found[i].worker) == NULL)
            end_now(driver, driver->inbox.found[i].worker);
    return status;
}

/* --- what was lent ---------------------------------------------------------------------------------------------------------- */

static enum output_role role_of(const struct meta_object *object, unsigned number)
{
    if (strcmp(object->kind, OBJECT_STATE) == 0)
        return OUTPUT_STATE;
    if (strcmp(object->kind, OBJECT_RESULTS) == 0)
        return OUTPUT_RESULTS;
    if (strcmp(object->kind, OBJECT_REPORT) == 0)
        return OUTPUT_REPORT;
    return number == 0 ? OUTPUT_RESULT : OUTPUT_ADAPTER; /* the first that a trainer is lent */
}

static void one_object(struct driver *driver, const struct meta_object *object)
{
    unsigned long long worker = 0;
    struct refusal unheard = {{0}};
    struct store_put *put = NULL;
    struct output *output;
    unsigned number = 0;
    struct work *work = sscanf(object->id, WORK_OBJECT, &worker, &number) == 2 ? work_find(driver, worker) : NULL;

    if (work == NULL || !work->is_running || work->outputs_count == OUTPUTS_MAX) {
        (void)object_take_back(&driver->home, object->tenant, object->id, NULL, &unheard);
        return;
    }
    if (object_lent_again(&driver->home, driver->metadata, object->tenant, object->id, &put, &unheard) != STATUS_OK)
        put = NULL; /* it was committed, and its row is still to come */
    output = work_holds(work, role_of(object, number), object->id, put);
    output->is_unsure = output->role == OUTPUT_STATE || output->role == OUTPUT_ADAPTER; /* the others came with START */
}

static enum status restore_objects(struct driver *driver, struct refusal *refusal)
{
    char after[NAME_BYTES] = "";
    bool more = true;
    enum status status = STATUS_OK;

    while (more && status == STATUS_OK) {
        struct meta_results results = {0};
        struct meta_object *objects = NULL;
        uint32_t count = 0;

        status = meta_object_sweep(driver->metadata, "writing", after, META_PAGE_MAX, &results, &objects, &count, &more, refusal);
        for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
            snprintf(after, sizeof(after), "%s", objects[i].id);
            if (strcmp(objects[i].kind, OBJECT_FILE) != 0)
                one_object(driver, &objects[i]);
        }
        meta_results_free(&results);
    }
    return status;
}

/* --- all -------------------------------------------------------------------------------------------------------------------- */

/* Those that the core knows of go on. Another one, whose base isn't served now, say, saves and yields; and so does one that was lent all that
 * it may by control planes that were killed. */
static void go_on(struct driver *driver)
{
    for (uint32_t i = 0; i < WORKS_MAX; i++) {
        struct work *work = &driver->works[i];

        if (!work->used || !work->is_running || work->is_ending)
            continue;
        if (told_find(driver, work->subject) == NULL || work->outputs_count + 2 > OUTPUTS_MAX)
            attempt_stop(driver, work, META_JOB_QUEUED, STOP_MS);
        else
            (void)attempt_room(driver, work, UINT32_MAX);
    }
}

enum status driver_restore(struct driver *driver, struct refusal *refusal)
{
    enum status status = fleet_tenants(driver, NULL, refusal);

    if (status == STATUS_OK)
        status = restore_workers(driver, refusal);
    if (status == STATUS_OK)
        status = restore_objects(driver, refusal);
    if (status != STATUS_OK)
        return status;
    jobs_look(driver);
    go_on(driver);
    do
        status = core_restored(driver->core);
    while (driver_again(driver, status));
    return status == STATUS_OK ? STATUS_OK : refuse(refusal, status, "the core has ended");
}
