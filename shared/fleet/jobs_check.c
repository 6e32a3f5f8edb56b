/* Every invariant of the job scheduler, O(state), and its digest. */
#include "base/hash.h"
#include "fleet/jobs_state.h"

static void check_job(const struct jobs *jobs, uint32_t slot)
{
    const struct job *job = &jobs->jobs[slot];
    struct devices_place place;
    bool claimed = devices_claimed(jobs->devices, slot, &place);
    bool holds = job->state == JOB_BASE_WAIT || job->state == JOB_PLACING || job->state == JOB_RUNNING ||
                 job->state == JOB_STOPPING;

    check(claimed == holds);
    if (job->state == JOB_FREE)
        return;
    check(job_slot(job->id) == slot);
    check(job->remaining_ns >= 0 && job->remaining_ns <= job->size_ns);
    check((job->class != NONE_INDEX) == (job->state == JOB_PENDING));
    check(!job->earmarked || job->state == JOB_PENDING);
    check(!job->reserved || job->earmarked);
    check(job->victims_left == 0 || (job->earmarked && job->state == JOB_PENDING));
    if (holds) {
        check(place.node == job->place.node && place.gpu_mask == job->place.gpu_mask);
        check((uint32_t)__builtin_popcount(place.gpu_mask) == job->gpus || place.slice != 0); /* I10 */
        check(!job->borrowed || (job->flags & JOB_PREEMPTIBLE));
    }
    if (job->claimer != NONE_INDEX) {
        check(job->state == JOB_STOPPING);
        check(jobs->jobs[job->claimer].state == JOB_PENDING && jobs->jobs[job->claimer].victims_left > 0);
    }
}

/* I12 at this instant: what the quotas say is used is what jobs hold. */
static void check_quota(const struct jobs *jobs)
{
    for (uint32_t tenant = 0; tenant < jobs->config.tenants_max; tenant++) {
        for (uint16_t flavor = 0; jobs->tenants[tenant].known && flavor < jobs->config.flavors_max; flavor++) {
            int64_t held_milli = 0;

            for (uint32_t slot = jobs->running_head; slot != NONE_INDEX; slot = jobs->jobs[slot].running_next)
                if (jobs->jobs[slot].tenant == tenant && jobs->jobs[slot].flavor == flavor)
                    held_milli += (int64_t)jobs->jobs[slot].quota_milli_per_gpu * jobs->jobs[slot].gpus;
            check(held_milli == quota_used(jobs->quota, tenant, flavor));
        }
    }
}

void jobs_check(const struct jobs *jobs)
{
    uint64_t running = 0;
    uint32_t claims = 0;
    uint32_t reservations = 0;

    devices_check(jobs->devices);
    quota_check(jobs->quota);
    ledger_check(jobs->ledger);
    pending_check(jobs);
    for (uint32_t slot = 0; slot < jobs->config.jobs_max; slot++) {
        check_job(jobs, slot);
        claims += jobs->jobs[slot].state == JOB_PENDING && jobs->jobs[slot].victims_left > 0;
        reservations += jobs->jobs[slot].state == JOB_PENDING && jobs->jobs[slot].reserved;
    }
    for (uint32_t slot = jobs->running_head; slot != NONE_INDEX; slot = jobs->jobs[slot].running_next)
        running++;
    check(running == jobs->totals.running);
    check(claims == jobs->claims_open);
    check(reservations == jobs->reservations);
    check(jobs->claim_due == NONE_INDEX);
    check_quota(jobs);
}

uint64_t jobs_digest(const struct jobs *jobs)
{
    uint64_t digest = hash_fold(jobs->history, jobs->totals.pending << 32 | jobs->totals.running);

    digest = hash_fold(digest, devices_digest(jobs->devices));
    digest = hash_fold(digest, quota_digest(jobs->quota));
    digest = hash_fold(digest, ledger_digest(jobs->ledger));
    for (uint32_t i = 0; i < jobs->active_count; i++) {
        const struct pending_class *class = &jobs->classes[jobs->active[i]];

        digest = hash_fold(digest, jobs->jobs[class->root].id.value ^ class->work_ns);
    }
    return digest;
}
