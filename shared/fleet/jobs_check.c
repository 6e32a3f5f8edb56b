/* Every invariant of the job scheduler, O(state), and its digest. */
#include "base/hash.h"
#include "fleet/jobs_state.h"

static bool holds_gpus(const struct job *job)
{
    return job->state == JOB_BASE_WAIT || job->state == JOB_PLACING || job->state == JOB_RUNNING || job->state == JOB_STOPPING;
}

static void check_placed(const struct jobs *jobs, const struct job *job, const struct devices_place *place)
{
    check(place->node == job->place.node && place->gpu_mask == job->place.gpu_mask);
    check((uint32_t)__builtin_popcount(place->gpu_mask) == job->gpus); /* I10 */
    check(!job->borrowed || (job->flags & JOB_PREEMPTIBLE));
    check(job->quota_milli > 0);
    check((job->state == JOB_RUNNING) <= (job->started_at_ns != NEVER_NS));
    check(job->claimer == NONE_INDEX || (job->state == JOB_STOPPING && jobs->jobs[job->claimer].victims_left > 0));
}

static void check_job(const struct jobs *jobs, uint32_t slot)
{
    const struct job *job = &jobs->jobs[slot];
    struct devices_place place;

    check(devices_claimed(jobs->devices, slot, &place) == holds_gpus(job));
    if (job->state == JOB_FREE)
        return;
    check(job_slot(job->id) == slot);
    check(job->remaining_ns >= 0 && job->remaining_ns <= job->size_ns);
    check(job->victims_left == 0 || job->claimer_at != NONE_INDEX);
    check((job->class != NONE_INDEX) == (job->state == JOB_PENDING && job->claimer_at == NONE_INDEX));
    check(job->claimer_at == NONE_INDEX || (jobs->claimers[job->claimer_at] == slot && job->quota_milli > 0));
    check(!job->reserved || job->class != NONE_INDEX);
    check(job->class == NONE_INDEX || job->quota_milli == 0);
    if (holds_gpus(job))
        check_placed(jobs, job, &place);
    else
        check(job->claimer == NONE_INDEX && !job->borrowed);
}

/* I12 at this instant: what the quotas say is used is what jobs hold, and what claimers have taken in advance. */
static void check_quota(const struct jobs *jobs)
{
    for (uint32_t tenant = 0; tenant < jobs->config.tenants_max; tenant++) {
        const struct known_tenant *known = &jobs->tenants[tenant];

        for (uint16_t flavor = 0; known->known && flavor < jobs->config.flavors_max; flavor++) {
            int64_t held_milli = 0;
            int64_t marked_milli = 0;
            int64_t claimed_milli = 0;

            for (uint32_t slot = known->running_head; slot != NONE_INDEX; slot = jobs->jobs[slot].running_next)
                if (jobs->jobs[slot].flavor == flavor) {
                    check(jobs->jobs[slot].tenant == tenant);
                    held_milli += jobs->jobs[slot].quota_milli;
                    marked_milli += jobs->jobs[slot].borrowed ? jobs->jobs[slot].quota_milli : 0;
                }
            for (uint32_t i = 0; i < jobs->claimers_count; i++)
                if (jobs->jobs[jobs->claimers[i]].tenant == tenant && jobs->jobs[jobs->claimers[i]].flavor == flavor)
                    claimed_milli += jobs->jobs[jobs->claimers[i]].quota_milli;
            check(claimed_milli == known->claimed_milli[flavor]);
            check(held_milli + claimed_milli == quota_used(jobs->quota, tenant, flavor));
            check(marked_milli == known->marked_milli[flavor]);
        }
    }
}

/* Victims that a claimer waits for are as many as it counts. */
static void check_claimers(const struct jobs *jobs)
{
    uint64_t victims = 0;

    for (uint32_t i = 0; i < jobs->claimers_count; i++)
        victims += jobs->jobs[jobs->claimers[i]].victims_left;
    for (uint32_t i = 0; i < jobs->config.serve_max; i++)
        victims += jobs->jobs[jobs->config.jobs_max + i].victims_left;
    for (uint32_t slot = 0; slot < jobs->config.jobs_max; slot++)
        victims -= jobs->jobs[slot].state != JOB_FREE && jobs->jobs[slot].claimer != NONE_INDEX;
    check(victims == 0);
    check(jobs->reserved_count <= jobs->config.reservations_max);
    for (uint32_t i = 0; i < jobs->reserved_count; i++)
        check(jobs->jobs[jobs->reserved[i]].reserved);
}

static void check_totals(const struct jobs *jobs)
{
    uint64_t pending = 0;
    uint64_t running = 0;
    uint32_t reserved = 0;
    uint32_t stopping = 0;

    for (uint32_t slot = 0; slot < jobs->config.jobs_max; slot++) {
        pending += jobs->jobs[slot].state == JOB_PENDING;
        running += holds_gpus(&jobs->jobs[slot]);
        stopping += jobs->jobs[slot].state == JOB_STOPPING;
        reserved += jobs->jobs[slot].state == JOB_PENDING && jobs->jobs[slot].reserved;
    }
    check(pending == jobs->totals.pending);
    check(running == jobs->totals.running);
    check(reserved == jobs->reserved_count);
    check(stopping == jobs->stopping);
    for (uint32_t base = 0; base < jobs->config.bases_max; base++) {
        uint128 work_ns = 0;

        for (uint32_t slot = 0; slot < jobs->config.jobs_max; slot++)
            if (jobs->jobs[slot].state == JOB_PENDING && jobs->jobs[slot].class != NONE_INDEX && jobs->jobs[slot].base == base)
                work_ns += (uint128)(uint64_t)jobs->jobs[slot].remaining_ns * jobs->jobs[slot].gpus;
        check(work_ns == jobs->bases[base].work_ns);
        check((jobs->bases[base].failures == 0) == (jobs->bases[base].retry_at_ns == 0));
    }
}

void jobs_check(const struct jobs *jobs)
{
    devices_check(jobs->devices);
    quota_check(jobs->quota);
    ledger_check(jobs->ledger);
    pending_check(jobs);
    for (uint32_t slot = 0; slot < jobs->config.jobs_max; slot++)
        check_job(jobs, slot);
    check_quota(jobs);
    check_claimers(jobs);
    check_totals(jobs);
    serve_check(jobs);
}

uint64_t jobs_digest(const struct jobs *jobs)
{
    uint64_t digest = hash_fold(jobs->history, jobs->totals.pending << 32 | jobs->totals.running);

    digest = hash_fold(digest, devices_digest(jobs->devices));
    digest = hash_fold(digest, quota_digest(jobs->quota));
    digest = hash_fold(digest, ledger_digest(jobs->ledger));
    digest = hash_fold(digest, (uint64_t)jobs->claimers_count << 32 | jobs->reserved_count);
    digest = hash_fold(digest, (uint64_t)jobs->wakeup_at_ns);
    for (uint32_t base = 0; base < jobs->config.bases_max; base++)
        if (jobs->bases[base].failures > 0)
            digest = hash_fold(digest, (uint64_t)jobs->bases[base].retry_at_ns << 8 | jobs->bases[base].failures);
    digest = serve_digest(jobs, digest);
    for (uint32_t i = 0; i < jobs->tenants_count; i++)
        for (uint32_t at = jobs->tenants[jobs->tenants_active[i]].classes; at != NONE_INDEX; at = jobs->classes[at].tenant_next)
            digest = hash_fold(digest, jobs->classes[at].head ^ jobs->classes[at].count);
    return digest;
}
