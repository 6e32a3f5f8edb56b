/* What hosts may ask. A job in the middle of its class was never looked at: why it waits follows from what the last cycle
 * found for its shape, and from its tenant's quota as it is now. */
#include "fleet/jobs_state.h"

static bool has_quota(const struct jobs *jobs, const struct job *job)
{
    int64_t need_milli = quota_need_milli(jobs, job, NULL);
    uint32_t flavors = flavors_of(jobs, job->flags);

    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++) {
        enum quota_fit fit = quota_fit(jobs->quota, job->tenant, flavor, need_milli);

        if ((flavors >> flavor & 1) && (fit == QUOTA_NOMINAL || (fit == QUOTA_BORROWING && (job->flags & JOB_PREEMPTIBLE))))
            return true;
    }
    return false;
}

static enum job_wait wait_of(const struct jobs *jobs, const struct job *job)
{
    const struct pending_kind *kind;

    if (job->state == JOB_BASE_WAIT)
        return JOB_WAIT_BASE_LOADING;
    if (job->state != JOB_PENDING)
        return JOB_WAIT_NONE;
    if (job->claimer_at != NONE_INDEX)
        return JOB_WAIT_CAPACITY; /* others are leaving for it */
    if (!has_quota(jobs, job))
        return JOB_WAIT_QUOTA;
    kind = &jobs->kinds[jobs->shapes[jobs->classes[job->class].shape].kind];
    if (kind->wait == JOB_WAIT_CAPACITY && job->isolation != ISOLATION_MIG && jobs->at_ns < jobs->bases[job->base].retry_at_ns)
        return JOB_WAIT_BASE_FAILED;
    if (kind->wait != JOB_WAIT_ORDER || jobs->cycle_due)
        return (enum job_wait)kind->wait;
    /* A place there is: it takes more quota than the least, or a load that does not pay yet. */
    return load_pays(jobs, job) ? JOB_WAIT_QUOTA : JOB_WAIT_CAPACITY;
}

static bool would_fit_as(const struct jobs *jobs, const struct job *job, uint32_t keeper)
{
    struct devices_ask ask = ask_of(jobs, job);

    ask.flavors = flavors_of(jobs, job->flags);
    ask.job = keeper;
    return devices_find(jobs->devices, &ask, jobs->config.place->resident_first, true).kind != PLACE_NONE;
}

/* For whom the GPUs that would do are kept. */
static uint32_t reserved_for(const struct jobs *jobs, const struct job *job)
{
    for (uint32_t i = 0; i < jobs->reserved_count; i++)
        if (would_fit_as(jobs, job, jobs->reserved[i]))
            return jobs->reserved[i];
    for (uint32_t i = 0; i < jobs->claimers_count; i++)
        if (would_fit_as(jobs, job, jobs->claimers[i]))
            return jobs->claimers[i];
    return NONE_INDEX;
}

struct job_view jobs_view(const struct jobs *jobs, job_id id)
{
    const struct job *job;
    struct job_view view;

    check(job_slot(id) < jobs->config.jobs_max);
    job = &jobs->jobs[job_slot(id)];
    if (job->state == JOB_FREE || job->id.value != id.value)
        return (struct job_view){.reserved_for = NONE_INDEX};
    view = (struct job_view){
        .id = job->id,
        .state = (enum job_state)job->state,
        .wait = wait_of(jobs, job),
        .reserved_for = NONE_INDEX,
        .submitted_at_ns = job->submitted_at_ns,
        .deadline_at_ns = job->deadline_at_ns,
        .remaining_ns = job->remaining_ns,
        .attempt = job->attempt,
        .claims = job->claimer_at != NONE_INDEX,
        .tenant = job->tenant,
        .flavor = job->flavor,
        .borrowed = job->borrowed,
    };
    if (view.wait == JOB_WAIT_RESERVED)
        view.reserved_for = reserved_for(jobs, job);
    return view;
}

const char *job_wait_text(enum job_wait wait)
{
    static const char *const texts[JOB_WAIT_COUNT] = {
#define X(name, text) [JOB_WAIT_##name] = text,
        JOB_WAITS(X)
#undef X
    };

    check(wait < JOB_WAIT_COUNT);
    return texts[wait];
}

struct jobs_totals jobs_totals(const struct jobs *jobs)
{
    return jobs->totals;
}

void jobs_book(struct jobs *jobs, uint32_t account, enum charge_component component, int64_t amount_nano)
{
    ledger_book(jobs->ledger, account, component, amount_nano);
}

const struct ledger *jobs_settle(struct jobs *jobs, int64_t at_ns)
{
    ledger_settle(jobs->ledger, at_ns);
    return jobs->ledger;
}

const struct devices *jobs_devices(const struct jobs *jobs)
{
    return jobs->devices;
}

const struct quota *jobs_quota(const struct jobs *jobs)
{
    return jobs->quota;
}
