/* What the fleet core knows of jobs and tenants, and what it says. A job has a slot there while it waits or runs. When it is withdrawn from
 * the queue the core may just have placed it; so its slot is given again only when nothing can be on its way any more. */
#include "control/driver/internal.h"

/* The core takes what it is told at once, and all that it said before lies in the inbox by then. */
#define LEFT_NS (5 * NS_PER_S)
#define ROOT_COHORT 0u /* of ours; those of the database begin at 1 */

static void tell(struct driver *driver, const struct fleet_event *event)
{
    enum status status;

    do
        status = core_tell(driver->core, event);
    while (driver_again(driver, status));
}

static struct fleet_event event_of(enum fleet_event_kind kind, uint64_t answers)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint16_t)kind;
    event.answers = answers;
    return event;
}

static void set(struct driver *driver, struct told_job *told, enum told state)
{
    pthread_mutex_lock(&driver->views_lock);
    told->told = state;
    pthread_mutex_unlock(&driver->views_lock);
}

struct told_job *told_find(struct driver *driver, const char *job)
{
    for (uint32_t i = 0; i < driver->jobs_top; i++)
        if (driver->jobs[i].told != TOLD_NOTHING && driver->jobs[i].told != TOLD_LEFT && strcmp(driver->jobs[i].job, job) == 0)
            return &driver->jobs[i];
    return NULL;
}

struct told_job *told_at(struct driver *driver, job_id id)
{
    const uint32_t slot = job_slot(id);

    return slot < driver->jobs_top && driver->jobs[slot].told != TOLD_NOTHING && driver->jobs[slot].id.value == id.value ? &driver->jobs[slot]
                                                                                                                          : NULL;
}

/* --- to it ------------------------------------------------------------------------------------------------------------------ */

/* The lowest that is free. */
static struct told_job *take_slot(struct driver *driver)
{
    uint32_t slot = 0;

    while (slot < driver->jobs_top && driver->jobs[slot].told != TOLD_NOTHING)
        slot++;
    if (slot == JOBS_TOLD_MAX)
        return NULL;
    pthread_mutex_lock(&driver->views_lock);
    driver->jobs_top = slot + 1 > driver->jobs_top ? slot + 1 : driver->jobs_top;
    pthread_mutex_unlock(&driver->views_lock);
    return &driver->jobs[slot];
}

/* Turns are for small jobs; the core would refuse a long one for ever. */
#define TIME_SLICE_MAX_NS (3600 * NS_PER_S)

static uint8_t isolation_of(const struct meta_tenant *tenant, const struct meta_job *job)
{
    return strcmp(tenant->isolation, "time-slice") == 0 && job->size_ns <= TIME_SLICE_MAX_NS ? ISOLATION_TIME_SLICE : ISOLATION_EXCLUSIVE;
}

static struct fleet_event job_event(const struct driver *driver, const struct meta_job *job, const struct meta_tenant *tenant, job_id id)
{
    struct fleet_event event = event_of(FLEET_EVENT_JOB, 0);

    event.job.job = id;
    event.job.size_ns = max_i64(job->size_ns - job->done_ns, 1); /* what is durable is done */
    event.job.deadline_at_ns = NEVER_NS;
    event.job.bytes = (uint64_t)job->gpu_bytes;
    event.job.tenant.value = (uint32_t)tenant->number;
    event.job.base.value = (uint16_t)base_index(driver, job->base);
    event.job.gpus = (uint16_t)job->gpus;
    event.job.rank = (uint16_t)job->rank;
    event.job.priority = (int16_t)tenant->priority;
    event.job.flags = JOB_PREEMPTIBLE | JOB_SPOT_OK;
    event.job.stage = STAGE_TRAIN;
    event.job.isolation = isolation_of(tenant, job);
    return event;
}

static bool is_suspended(const struct meta_tenant *tenant)
{
    return strcmp(tenant->state, "active") != 0;
}

/* Its owner may have come since the start. */
static bool is_told(const struct driver *driver, int64_t tenant)
{
    return tenant < TENANTS_TOLD_MAX && (driver->tenants_told[tenant / 64] >> tenant % 64 & 1) != 0;
}

/* NULL: it waits, for its base isn't served now, or no more are told. */
static struct told_job *submit(struct driver *driver, const struct meta_job *job)
{
    struct meta_results results = {0};
    struct refusal unheard = {{0}};
    struct meta_tenant tenant;
    struct fleet_event event;
    struct told_job *told;

    if (base_index(driver, job->base) == NONE_INDEX || meta_tenant_get(driver->metadata, job->tenant, &results, &tenant, &unheard) != STATUS_OK)
        return NULL;
    if (is_suspended(&tenant)) {
        meta_results_free(&results);
        return NULL; /* its job waits, too; the core would refuse it for ever */
    }
    if (!is_told(driver, tenant.number) && fleet_tenants(driver, job->tenant, &unheard) != STATUS_OK)
        driver_log(driver, "driver: act=tenant tenant=%s code=unread", job->tenant);
    told = is_told(driver, tenant.number) ? take_slot(driver) : NULL; /* of more tenants than the core knows, the latest wait */
    if (told != NULL) {
        pthread_mutex_lock(&driver->views_lock);
        *told = (struct told_job){.told = TOLD_PENDING, .id = job_id_make((uint64_t)job->number, (uint32_t)(told - driver->jobs)),
                                  .told_done_ns = job->done_ns, .lost_at_ns = NEVER_NS};
        strcpy(told->tenant, job->tenant);
        strcpy(told->job, job->id);
        pthread_mutex_unlock(&driver->views_lock);
        event = job_event(driver, job, &tenant, told->id);
        tell(driver, &event);
    }
    meta_results_free(&results);
    return told;
}

void fleet_submit(struct driver *driver, const struct meta_job *job)
{
    (void)submit(driver, job);
}

/* Its turn in the queue was over when it was placed, and is as long as before should it come back there. */
static struct fleet_event kept_event(const struct meta_job *job, job_id id)
{
    struct fleet_event event = event_of(FLEET_EVENT_JOB_KEPT, 0);

    event.job_kept.job = id;
    event.job_kept.submitted_at_ns = event.job_kept.waits_from_ns = job->created_at_ms * NS_PER_MS;
    event.job_kept.attempt = (uint32_t)job->attempt;
    return event;
}

bool fleet_found(struct driver *driver, const struct meta_job *job, const struct work *work)
{
    struct told_job *told = work->gpu_mask != 0 ? submit(driver, job) : NULL;
    struct fleet_event event;

    if (told == NULL)
        return false;
    event = kept_event(job, told->id);
    tell(driver, &event);
    event = event_of(FLEET_EVENT_JOB_FOUND, 0);
    event.job_found.job = told->id;
    event.job_found.claimed_at_ns = event.job_found.started_at_ns = work->started_at_ns;
    event.job_found.charged_ns = FOUND_UNCHARGED;
    event.job_found.gpu_mask = work->gpu_mask;
    event.job_found.state = JOB_RUNNING;
    tell(driver, &event);
    set(driver, told, TOLD_RUNNING);
    return true;
}

static void leave(struct driver *driver, struct told_job *told)
{
    told->free_at_ns = driver_clock_ns() + LEFT_NS;
    set(driver, told, TOLD_LEFT);
}

void fleet_withdraw(struct driver *driver, struct told_job *told)
{
    struct fleet_event event = event_of(FLEET_EVENT_JOB_CANCEL, 0);

    event.job_progress.job = told->id;
    tell(driver, &event);
    leave(driver, told);
}

/* What is durable stays so: the core checks it. */
static struct fleet_event progress_event(struct told_job *told, enum fleet_event_kind kind, uint64_t answers, int64_t done_ns,
                                         int64_t compute_ns)
{
    struct fleet_event event = event_of(kind, answers);

    event.job_progress.job = told->id;
    told->durable_ns = max_i64(told->durable_ns, done_ns - told->told_done_ns);
    event.job_progress.done_ns = told->durable_ns;
    event.job_progress.compute_ns = compute_ns;
    return event;
}

void fleet_started(struct driver *driver, struct told_job *told, int64_t done_ns)
{
    struct fleet_event event = progress_event(told, FLEET_EVENT_JOB_STARTED, told->place, done_ns, 0);

    if (told->told != TOLD_PLACED)
        return;
    tell(driver, &event);
    told->place = 0;
    set(driver, told, TOLD_RUNNING);
}

void fleet_checkpointed(struct driver *driver, struct told_job *told, int64_t done_ns, int64_t compute_ns, uint64_t bytes)
{
    struct fleet_event event = progress_event(told, FLEET_EVENT_JOB_CHECKPOINTED, 0, done_ns, compute_ns);

    event.job_progress.bytes = bytes;
    if (told->told == TOLD_RUNNING)
        tell(driver, &event);
}

void fleet_left(struct driver *driver, struct told_job *told, bool stays, bool succeeded, int64_t done_ns, int64_t compute_ns)
{
    const bool yields = told->stop != 0 && stays;
    const uint64_t answers = told->stop != 0 ? told->stop : told->place;
    struct fleet_event event = progress_event(told, yields ? FLEET_EVENT_JOB_YIELDED : FLEET_EVENT_JOB_ENDED, answers, done_ns, compute_ns);

    if (told->told != TOLD_PLACED && told->told != TOLD_RUNNING)
        return;
    event.reason = yields ? 0 : stays ? JOB_LOST : succeeded ? JOB_SUCCEEDED : JOB_FAILED;
    tell(driver, &event);
    told->place = 0;
    told->stop = 0;
    told->lost_at_ns = NEVER_NS;
    if (stays)
        set(driver, told, TOLD_PENDING);
    else
        leave(driver, told);
}

void fleet_due(struct driver *driver, int64_t now_ns)
{
    for (uint32_t i = 0; i < driver->jobs_top; i++) {
        struct told_job *told = &driver->jobs[i];

        if (told->told == TOLD_PLACED && now_ns >= told->lost_at_ns)
            fleet_left(driver, told, true, false, told->told_done_ns, 0);
        if (told->told == TOLD_LEFT && told->place == 0 && now_ns >= told->free_at_ns && inbox_is_empty(&driver->inbox))
            set(driver, told, TOLD_NOTHING);
    }
}

/* --- from it ---------------------------------------------------------------------------------------------------------------- */

/* It was placed while it was withdrawn: the core has asked for it back, and takes this for both. */
static void give_back(struct driver *driver, struct told_job *told, uint64_t command)
{
    struct fleet_event event = progress_event(told, FLEET_EVENT_JOB_ENDED, command, told->told_done_ns, 0);

    event.reason = JOB_FAILED;
    tell(driver, &event);
    leave(driver, told);
}

static void refused(struct driver *driver, struct told_job *told, const struct fleet_command *command)
{
    driver_log(driver, "driver: act=refuse job=%s reason=%u need=%llu have=%llu", told->job, (unsigned)command->reason,
               (unsigned long long)command->refuse.need, (unsigned long long)command->refuse.have);
    job_unplaceable(driver, told, command);
    leave(driver, told);
}

static void stop_asked(struct driver *driver, struct told_job *told, const struct core_heard *heard)
{
    const int64_t by_ns = heard->command->job_stop.by_ns;
    const int64_t within_ms = by_ns == NEVER_NS ? STOP_MS : max_i64(0, by_ns - heard->at_ns) / NS_PER_MS;
    struct work *work = work_of(driver, told->job);

    told->stop = heard->command->id;
    if (work != NULL)
        attempt_stop(driver, work, META_JOB_QUEUED, min_i64(within_ms, STOP_MS));
    else
        fleet_left(driver, told, true, false, told->told_done_ns, 0); /* its place could not be taken */
}

void fleet_command(struct driver *driver, const struct core_heard *heard)
{
    const struct fleet_command *command = heard->command;
    const bool is_refusal = command->kind == FLEET_COMMAND_JOB_REFUSE;
    struct told_job *told = told_at(driver, is_refusal ? (job_id){command->refuse.request_or_job} : command->job_place.job);

    if (told == NULL)
        return; /* answered before it was asked */
    if (is_refusal) {
        refused(driver, told, command);
    } else if (command->kind == FLEET_COMMAND_JOB_PLACE && told->told == TOLD_LEFT) {
        give_back(driver, told, command->id);
    } else if (command->kind == FLEET_COMMAND_JOB_PLACE && told->told == TOLD_PENDING) {
        told->place = command->id;
        set(driver, told, TOLD_PLACED);
        attempt_begin(driver, told, command);
    } else if (command->kind == FLEET_COMMAND_JOB_STOP && (told->told == TOLD_PLACED || told->told == TOLD_RUNNING)) {
        stop_asked(driver, told, heard);
    }
}

/* --- tenants ---------------------------------------------------------------------------------------------------------------- */

static int64_t tenants_max(const struct driver *driver)
{
    return driver->config.tenants_max == 0 ? 1024 : min_u32(driver->config.tenants_max, TENANTS_TOLD_MAX);
}

void fleet_cohort(struct driver *driver, uint32_t number)
{
    struct fleet_event event = event_of(FLEET_EVENT_COHORT, 0);

    if (number > tenants_max(driver))
        return;
    event.cohort.tenant = number;
    event.cohort.cohort = number == ROOT_COHORT ? NO_COHORT : ROOT_COHORT;
    event.cohort.nominal_milli = number == ROOT_COHORT ? (int64_t)driver->config.devices * 1000 : 0;
    event.cohort.borrowing_milli = QUOTA_UNLIMITED;
    event.cohort.lending_milli = QUOTA_UNLIMITED;
    event.cohort.weight_milli = 1000;
    tell(driver, &event);
}

static int64_t limit_of(int64_t milli)
{
    return milli < 0 ? QUOTA_UNLIMITED : milli;
}

void fleet_tenant(struct driver *driver, const struct meta_tenant *tenant, uint32_t cohort)
{
    struct fleet_event event = event_of(FLEET_EVENT_TENANT, 0);

    if (tenant->number >= tenants_max(driver) || cohort > tenants_max(driver))
        return;
    driver->tenants_told[tenant->number / 64] |= UINT64_C(1) << tenant->number % 64;
    event.tenant.tenant = (uint32_t)tenant->number;
    event.tenant.cohort = cohort;
    event.tenant.weight_milli = (uint32_t)tenant->weight_milli;
    event.tenant.nominal_milli = is_suspended(tenant) ? 0 : tenant->nominal_milli;
    event.tenant.borrowing_milli = is_suspended(tenant) ? 0 : limit_of(tenant->borrowing_milli);
    event.tenant.lending_milli = limit_of(tenant->lending_milli);
    event.tenant.flags = tenant->trusted != 0 ? TENANT_TRUSTED : 0;
    tell(driver, &event);
}

/* At a start alone; the core counts for itself after that. */
void fleet_usage(struct driver *driver, const struct meta_tenant *tenant)
{
    struct fleet_event event = event_of(FLEET_EVENT_TENANT_USAGE, 0);

    if (!is_told(driver, tenant->number))
        return;
    event.tenant_usage.tenant.value = (uint32_t)tenant->number;
    event.tenant_usage.gpu_ns = min_i64(tenant->share_usage, INT64_MAX / NS_PER_MS) * NS_PER_MS;
    event.tenant_usage.as_of_ns = tenant->share_at_ms * NS_PER_MS;
    tell(driver, &event);
}
