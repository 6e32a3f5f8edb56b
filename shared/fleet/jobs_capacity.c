/* What jobs stand on: GPUs that come, are noticed and go, bases that come or fail, tenants and their quotas. What it takes from
 * under a job goes back to the queue; what it brings is looked at by a cycle. */
#include "fleet/jobs_state.h"

/* A store that is down, a file that is broken: asking again at once would ask thousands of times a second. Twice as long each
 * time; GPUs that go with it on its way are no fault of the base. */
#define RETRY_FIRST_NS (10 * NS_PER_S)
#define RETRY_DOUBLINGS 6
static void base_failed(struct jobs *jobs, uint16_t index, const struct devices_place *place)
{
    struct known_base *base = &jobs->bases[index];

    if (jobs_closed(jobs, place))
        return;
    base->retry_at_ns = jobs->at_ns + (RETRY_FIRST_NS << min_u32(base->failures, RETRY_DOUBLINGS));
    base->failures = (uint8_t)min_u32(base->failures + 1u, RETRY_DOUBLINGS);
    claims_hope_at(jobs, base->retry_at_ns);
}

void base_loaded(struct jobs *jobs, const struct fleet_event *event)
{
    uint16_t node = event->base_loaded.node.value;
    uint16_t mask = event->base_loaded.gpu_mask;
    uint16_t base = event->base_loaded.base.value;
    uint32_t holding = devices_holding_at(jobs->devices, node, mask, base);
    uint32_t first = (uint32_t)__builtin_ctz(mask);

    check(holding != NONE_INDEX);
    if (event->reason == 0) {
        jobs->bases[base].failures = 0;
        jobs->bases[base].retry_at_ns = 0;
        holding_ready(jobs, holding);
    } else {
        base_failed(jobs, base, &(struct devices_place){.node = node, .gpu_mask = mask});
        for (uint32_t i = 0, slot; (slot = devices_job_at(jobs->devices, node, (uint16_t)first, i)) != NONE_INDEX;) {
            if (jobs->jobs[slot].state == JOB_BASE_WAIT && jobs->jobs[slot].place.holding == holding)
                job_requeue(jobs, slot); /* the list is shorter now: the same i again */
            else
                i++;
        }
        holding_drop(jobs, holding);
    }
    jobs_after_release(jobs);
}

void gpus_up(struct jobs *jobs, const struct fleet_event *event)
{
    if (jobs->restoring && event->gpus.rank > 0)
        devices_class_found(jobs->devices, event->gpus.rank - 1u, event->gpus.flavor, event->gpus.model, event->gpus.bytes);
    devices_up(jobs->devices, event->gpus.node.value, event->gpus.gpu_mask, event->gpus.flavor, event->gpus.model,
               event->gpus.bytes);
    jobs->bytes_largest = max_u64(jobs->bytes_largest, devices_bytes_largest(jobs->devices));
    jobs->slice_largest = max_u64(jobs->slice_largest, devices_slice_largest(jobs->devices));
    jobs->gang_largest = max_u32(jobs->gang_largest, devices_gang_largest(jobs->devices));
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (event->gpus.gpu_mask >> gpu & 1)
            ledger_gpu_up(jobs->ledger, (uint32_t)event->gpus.node.value * 16 + gpu, jobs->at_ns,
                          event->gpus.price_nano_per_hour, event->gpus.bytes);
    claims_hope(jobs);
    cycle_run(jobs, NONE_INDEX);
}

bool jobs_closed(const struct jobs *jobs, const struct devices_place *place)
{
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if ((place->gpu_mask >> gpu & 1) && !devices_gpu_open(jobs->devices, place->node, gpu))
            return true;
    return false;
}

/* What is kept on GPUs that take no more work is kept no longer. */
static void unkeep_closed(struct jobs *jobs)
{
    serve_unkeep_closed(jobs);
    for (uint32_t i = 0; i < jobs->claimers_count;) {
        uint32_t slot = jobs->claimers[i];

        if (jobs_closed(jobs, &jobs->jobs[slot].place)) {
            claim_forget(jobs, slot);
            pending_insert(jobs, slot);
        } else {
            i++;
        }
    }
    for (uint32_t i = 0; i < jobs->reserved_count;)
        if (jobs_closed(jobs, &jobs->jobs[jobs->reserved[i]].place))
            reserve_forget(jobs, jobs->reserved[i]);
        else
            i++;
}

static void leave_gpu(struct jobs *jobs, uint16_t node, uint16_t gpu)
{
    uint32_t slot;

    for (uint32_t i = 0; (slot = devices_job_at(jobs->devices, node, gpu, i)) != NONE_INDEX;) {
        struct job *job = &jobs->jobs[slot];

        if (job->state == JOB_BASE_WAIT) {
            job_requeue(jobs, slot); /* the list is shorter now: the same i again */
            continue;
        }
        if (job->state == JOB_RUNNING || job->state == JOB_PLACING) {
            if (!jobs_has_room(jobs, 1)) {
                jobs->leave_due = true;
                return;
            }
            job_stop(jobs, slot, JOB_STOP_NOTICE, jobs->gone_at_ns[node]);
        }
        i++;
    }
}

/* Whoever is on GPUs that will be gone is stopped; those who wait for a base there go back to the queue. */
void jobs_leave_closed(struct jobs *jobs)
{
    jobs->leave_due = jobs->restoring;
    if (jobs->restoring)
        return;
    for (uint32_t node = 0; node < jobs->config.nodes_max; node++)
        for (uint16_t gpu = 0; gpu < 16; gpu++)
            if (!devices_gpu_open(jobs->devices, (uint16_t)node, gpu))
                leave_gpu(jobs, (uint16_t)node, gpu);
}

void gpus_notice(struct jobs *jobs, const struct fleet_event *event)
{
    check(event->gpus.node.value < jobs->config.nodes_max);
    jobs->gone_at_ns[event->gpus.node.value] = event->gpus.gone_at_ns;
    devices_close(jobs->devices, event->gpus.node.value, event->gpus.gpu_mask);
    unkeep_closed(jobs);
    jobs_leave_closed(jobs);
    jobs_after_release(jobs);
}

/* The host has told of every job that was there (JOB_ENDED, lost) and every load (BASE_LOADED, failed) before. */
void gpus_gone(struct jobs *jobs, const struct fleet_event *event)
{
    uint16_t node = event->gpus.node.value;

    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (event->gpus.gpu_mask >> gpu & 1)
            ledger_gpu_down(jobs->ledger, (uint32_t)node * 16 + gpu, jobs->at_ns);
    check(devices_gone(jobs->devices, node, event->gpus.gpu_mask, jobs->scratch_jobs, SCRATCH_JOBS) == 0);
    unkeep_closed(jobs);
    cycle_run(jobs, NONE_INDEX);
}

void base_known(struct jobs *jobs, const struct fleet_event *event)
{
    struct known_base *base;

    check(event->base_known.base.value < jobs->config.bases_max);
    base = &jobs->bases[event->base_known.base.value];
    check(event->base_known.gpus >= 1 && event->base_known.load_ns >= 0);
    check(!base->known || base->bytes == event->base_known.bytes); /* resident copies are counted by it */
    base->bytes = event->base_known.bytes;
    base->load_ns = event->base_known.load_ns;
    base->gpus = event->base_known.gpus;
    if (jobs->restoring && event->base_known.failures > 0) {
        base->retry_at_ns = max_i64(1, event->base_known.retry_at_ns);
        base->failures = (uint8_t)min_u32(event->base_known.failures, RETRY_DOUBLINGS);
    }
    base->known = true;
}

void tenant_known(struct jobs *jobs, const struct fleet_event *event)
{
    uint32_t tenant = event->tenant.tenant;

    check(tenant < jobs->config.tenants_max);
    quota_set_tenant(jobs->quota, tenant, event->tenant.cohort, event->tenant.flavor, event->tenant.weight_milli,
                     event->tenant.nominal_milli, event->tenant.borrowing_milli, event->tenant.lending_milli);
    jobs->tenants[tenant].known = true;
    jobs->tenants[tenant].trusted = (event->tenant.flags & TENANT_TRUSTED) != 0;
    tell_unused(jobs, tenant);
    jobs->version++;
    claims_hope(jobs);
    cycle_run(jobs, NONE_INDEX);
}
