/* A job between its attempts: a look at its row, and what follows from it. Whoever changes a row says so, and all rows are looked at now
 * and then, so what was not heard is found. */
#include <stdio.h>

#include "control/driver/internal.h"

/* --- moves that need no worker ---------------------------------------------------------------------------------------------- */

struct step {
    struct driver *driver;
    struct meta_job_move move;
    struct said said;
};

static enum status make_step(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct step *step = context;
    enum status status = meta_job_move(metadata, &step->move, driver_now_ms(), NULL, refusal);

    return status == STATUS_OK ? event_add(step->driver, metadata, step->move.tenant, step->move.id, &step->said, refusal) : status;
}

void job_unplaceable(struct driver *driver, const struct told_job *told, const struct fleet_command *refusal)
{
    static const char *const codes[] = {
        [JOB_REFUSE_NONE] = "unplaceable",
#define X(name, text) [JOB_REFUSE_##name] = "unplaceable_" #name,
        JOB_REFUSE_REASONS(X)
#undef X
    };
    const char *code = refusal->reason < JOB_REFUSE_COUNT ? codes[refusal->reason] : codes[JOB_REFUSE_NONE];
    struct meta_results results = {0};
    struct refusal unheard = {{0}};
    struct meta_job job;

    if (meta_job_get(driver->metadata, told->tenant, told->job, &results, &job, &unheard) == STATUS_OK &&
        meta_job_state_parse(job.state) == META_JOB_QUEUED) {
        struct step step = {driver,
                            {.tenant = job.tenant, .id = job.id, .from = META_JOB_QUEUED, .attempt = job.attempt, .to = META_JOB_FAILED,
                             .target = META_JOB_NO_TARGET, .reason = code, .crash_step = META_NONE},
                            {.code = code, .level = "error"}};

        (void)driver_act(driver, make_step, &step, &unheard);
    }
    meta_results_free(&results);
}

/* --- the look --------------------------------------------------------------------------------------------------------------- */

static void end_at_once(struct driver *driver, struct work *work)
{
    enum status status;

    if (work->is_ending)
        return;
    work->is_ending = true;
    do
        status = core_end(driver->core, work->launch.worker, true);
    while (driver_again(driver, status));
}

/* It neither waits nor runs any more, or not yet again. */
static void rests(struct driver *driver, struct work *work, struct told_job *told)
{
    if (work != NULL && !work->is_trainer)
        end_at_once(driver, work);
    if (work == NULL && told != NULL && told->told == TOLD_PENDING)
        fleet_withdraw(driver, told);
    else if (work == NULL && told != NULL && told->lost_at_ns != NEVER_NS)
        fleet_left(driver, told, false, false, told->told_done_ns, 0);
}

static void look(struct driver *driver, const struct meta_job *job)
{
    struct work *work = work_of(driver, job->id);
    struct told_job *told = told_find(driver, job->id);

    switch (meta_job_state_parse(job->state)) {
    case META_JOB_VALIDATING:
        if (work == NULL)
            check_begin(driver, job);
        break;
    case META_JOB_QUEUED:
        if (work == NULL && told == NULL)
            fleet_submit(driver, job);
        break;
    case META_JOB_STOPPING:
        if (work != NULL)
            attempt_stop(driver, work, meta_job_state_parse(job->target), STOP_MS);
        break;
    case META_JOB_PAUSED:
    case META_JOB_SUCCEEDED:
    case META_JOB_FAILED:
    case META_JOB_CANCELLED:
        rests(driver, work, told);
        break;
    case META_JOB_STARTING:
    case META_JOB_RUNNING:
    case META_JOB_EVALUATING:
    case META_JOB_STATES_COUNT:
        break; /* the worker is heard */
    }
}

void job_look(struct driver *driver, const char *tenant, const char *id)
{
    struct meta_results results = {0};
    struct refusal unheard = {{0}};
    struct meta_job job;

    if (meta_job_get(driver->metadata, tenant, id, &results, &job, &unheard) == STATUS_OK)
        look(driver, &job);
    meta_results_free(&results);
}

/* Rows of finished jobs are not among those that are looked at. */
static void look_at_told(struct driver *driver)
{
    for (uint32_t i = 0; i < driver->jobs_top; i++)
        if (driver->jobs[i].told == TOLD_PENDING)
            job_look(driver, driver->jobs[i].tenant, driver->jobs[i].job);
    for (uint32_t i = 0; i < WORKS_MAX; i++)
        if (driver->works[i].used && driver->works[i].of_job && !driver->works[i].is_trainer)
            job_look(driver, driver->works[i].tenant, driver->works[i].subject);
}

void jobs_look(struct driver *driver)
{
    int64_t after = 0;
    bool more = true;

    while (more) {
        struct meta_results results = {0};
        struct refusal unheard = {{0}};
        struct meta_job *jobs = NULL;
        uint32_t count = 0;

        more = false;
        if (meta_job_open(driver->metadata, after, META_PAGE_MAX, &results, &jobs, &count, &more, &unheard) != STATUS_OK)
            count = 0;
        for (uint32_t i = 0; i < count; i++) {
            after = jobs[i].number;
            look(driver, &jobs[i]);
        }
        meta_results_free(&results);
    }
    look_at_told(driver);
}
