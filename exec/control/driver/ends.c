/* A worker is gone. One transaction ends its row, moves its job and counts what it used and whether it crashed; only then may another
 * attempt begin, and the launcher forget this one. What the platform did (a stop, a refusal, a restart) is no crash; nor is an exit
 * with code 0, by which a trainer yields. Two crashes at one step fail the job, and one whose
 * fault no other attempt would be spared. */
#include "control/driver/internal.h"
#include "link/fault.h"

struct ending {
    struct driver *driver;
    const char *tenant;
    const char *job;
    const char *worker;
    const char *how;
    int64_t attempt;     /* 0: whichever the row has */
    int64_t crash_step;  /* META_NONE: no crash */
    uint32_t fault;      /* that it named; 0 */
    bool is_refused;     /* its result, for good */
    int64_t gpu_ms;
    bool is_done;        /* its job was moved when its result came */
    enum meta_job_state to;
    int64_t done_ns;
};

static enum status move_job(struct metadata *metadata, struct ending *ending, const struct meta_job *job, struct refusal *refusal)
{
    const enum meta_job_state from = meta_job_state_parse(job->state);
    const bool crashed = ending->crash_step != META_NONE && from != META_JOB_STOPPING;
    const bool again = crashed && job->crash_step == ending->crash_step && job->crashes >= 1;
    struct meta_job_move move = {.tenant = ending->tenant, .id = ending->job, .from = from, .attempt = job->attempt, .to = META_JOB_QUEUED,
                                 .target = META_JOB_NO_TARGET, .crash_step = crashed ? ending->crash_step : META_NONE, .gpu_ms = ending->gpu_ms};
    const bool hopeless = crashed && ending->fault != 0 && !fault_may_pass(ending->fault); /* it said so itself, in words */
    const bool refused = ending->is_refused && from != META_JOB_STOPPING;
    struct said said = {.code = refused ? "result_refused" : crashed ? "crashed" : "requeued", .level = again || refused ? "error" : crashed ? "warn" : "info"};
    bool is_said = hopeless;
    enum status status;

    if (from == META_JOB_STOPPING)
        move.to = meta_job_state_parse(job->target);
    if (move.to == META_JOB_PAUSED || move.to == META_JOB_CANCELLED)
        is_said = true; /* when it was asked for */
    if (again || hopeless || refused) {
        move.to = META_JOB_FAILED;
        move.reason = refused ? "result_refused" : fault_code(ending->fault) != NULL ? fault_code(ending->fault) : "crashed";
    }
    ending->to = move.to;
    ending->done_ns = job->done_ns;
    status = meta_job_move(metadata, &move, driver_now_ms(), NULL, refusal);
    if (status == STATUS_OK && (move.to == META_JOB_FAILED || move.to == META_JOB_CANCELLED))
        status = meta_checkpoint_prune(metadata, ending->tenant, ending->job, INT64_MAX, refusal);
    return status == STATUS_OK && !is_said ? event_add(ending->driver, metadata, ending->tenant, ending->job, &said, refusal) : status;
}

static bool is_attempted(enum meta_job_state state)
{
    return state == META_JOB_STARTING || state == META_JOB_RUNNING || state == META_JOB_STOPPING;
}

static enum status end_attempt(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct ending *ending = context;
    struct meta_results results = {0};
    struct meta_job job;
    enum status status = meta_worker_ended(metadata, ending->worker, ending->how, driver_now_ms(), refusal);

    ending->to = META_JOB_STATES_COUNT;
    if (status == STATUS_OK && !ending->is_done)
        status = meta_job_get(metadata, ending->tenant, ending->job, &results, &job, refusal);
    if (status == STATUS_OK && !ending->is_done && is_attempted(meta_job_state_parse(job.state)) &&
        (ending->attempt == 0 || job.attempt == ending->attempt))
        status = move_job(metadata, ending, &job, refusal);
    meta_results_free(&results);
    return status;
}

static enum status end_row(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct ending *ending = context;

    return meta_worker_ended(metadata, ending->worker, ending->how, driver_now_ms(), refusal);
}

void attempt_lost(struct driver *driver, const char *tenant, const char *job, const char *worker, const char *how, int64_t gpu_ms)
{
    struct ending ending = {.driver = driver, .tenant = tenant, .job = job, .worker = worker, .how = how, .crash_step = META_NONE,
                            .gpu_ms = gpu_ms};
    struct refusal refusal = {{0}};
    const enum status status = driver_act(driver, end_attempt, &ending, &refusal);

    driver_log(driver, "driver: act=lost job=%s worker=%s how=%s code=%d", job, worker, how, (int)status);
}

void worker_lost(struct driver *driver, const char *worker)
{
    struct ending ending = {.worker = worker, .how = "lost"};
    struct refusal unheard = {{0}};

    (void)driver_act(driver, end_row, &ending, &unheard);
}

/* --- reaped ----------------------------------------------------------------------------------------------------------------- */

static const char *how_of(const struct work *work, const struct core_heard *heard)
{
    if (work->is_done)
        return "done";
    if (heard->kind == CORE_HEARD_REFUSED)
        return "not_started";
    if (work->is_ending)
        return "stopped";
    return !heard->end.by_signal && heard->end.code == 0 && work->is_trainer ? "yielded" : "crashed";
}

static void forget(struct driver *driver, const struct core_heard *heard)
{
    enum status status;

    if (heard->kind != CORE_HEARD_EXITED)
        return;
    do
        status = core_forget(driver->core, heard->launch.worker);
    while (driver_again(driver, status));
}

/* True: it is on disk that it has ended. */
static bool end_trainer(struct driver *driver, struct work *work, const struct core_heard *heard)
{
    const char *how = how_of(work, heard);
    struct told_job *told = told_find(driver, work->subject);
    struct ending ending = {.driver = driver, .tenant = work->tenant, .job = work->subject, .worker = work->id, .how = how,
                            .attempt = work->attempt, .crash_step = META_NONE, .gpu_ms = gpu_ms_of(work, heard->at_ns),
                            .fault = work->fault, .is_refused = work->is_refused, .is_done = work->is_done};
    struct refusal refusal = {{0}};
    enum status status;

    if (strcmp(how, "crashed") == 0)
        ending.crash_step = work->failed_step != META_NONE ? work->failed_step : work->step;
    status = driver_act(driver, end_attempt, &ending, &refusal);
    if (status == STATUS_END)
        return false;
    driver_log(driver, "driver: act=end job=%s attempt=%lld worker=%s how=%s gpu_ms=%lld to=%s", work->subject, (long long)work->attempt, work->id,
               how, (long long)ending.gpu_ms, ending.to < META_JOB_STATES_COUNT ? meta_job_state_text(ending.to) : "-");
    if (told != NULL && ending.to < META_JOB_STATES_COUNT) {
        if (ending.to == META_JOB_QUEUED && heard->kind == CORE_HEARD_REFUSED && told->stop == 0)
            told->lost_at_ns = driver_clock_ns() + AGAIN_MS * NS_PER_MS;
        else
            fleet_left(driver, told, ending.to == META_JOB_QUEUED, false, ending.done_ns, ending.gpu_ms * NS_PER_MS);
    }
    return true;
}

static bool end_validator(struct driver *driver, struct work *work, const struct core_heard *heard)
{
    struct ending ending = {.worker = work->id, .how = how_of(work, heard)};
    struct refusal refusal = {{0}};
    const enum status status = driver_act(driver, end_row, &ending, &refusal);

    driver_log(driver, "driver: act=end subject=%s worker=%s how=%s", work->subject, work->id, ending.how);
    if (status != STATUS_END && work->adoption != NULL)
        adoption_exited(driver, work);
    return status != STATUS_END;
}

void work_exited(struct driver *driver, const struct core_heard *heard)
{
    struct work *work = work_find(driver, heard->launch.worker);

    if (work != NULL) {
        if (!(work->is_trainer ? end_trainer(driver, work, heard) : end_validator(driver, work, heard)))
            return;
        work_take_back(driver, work);
        work_end(driver, work);
        driver_look(driver);
    }
    forget(driver, heard);
}
