/* Gangs and backfill: a gang that finds no node gets a place in the future, on the node where enough GPUs are expected to be
 * free first; until then others may use these GPUs only if they are expected to have ended by then (EASY backfill, Lifka
 * 1995). When the instant comes and somebody overstayed, nobody new gets in, so a node-sized job is never starved. GPUs that
 * are free do not wait for a job that lacks quota. */
#include "fleet/jobs_state.h"

/* Gangs for which no node has a window, a cycle; the others come in later ones. */
#define FAILURES_A_CYCLE 2

struct window {
    int64_t at_ns;      /* when all of its GPUs are expected to be free */
    uint16_t node;
    uint16_t gpu_mask;
};

static int64_t gpu_free_at_ns(const struct jobs *jobs, uint16_t node, uint16_t gpu)
{
    int64_t at_ns = jobs->at_ns;

    for (uint32_t i = 0; i < devices_jobs_on(jobs->devices, node, gpu); i++)
        at_ns = max_i64(at_ns, job_end_estimate_ns(jobs, &jobs->jobs[devices_job_at(jobs->devices, node, gpu, i)]));
    return at_ns;
}

/* The GPUs of a node that are free first, as many as the gang needs; at_ns NEVER_NS: the node cannot. */
static struct window window_on(const struct jobs *jobs, const struct job *job, uint16_t node)
{
    struct window window = {.at_ns = NEVER_NS, .node = node};
    int64_t free_at_ns[16];
    uint16_t order[16];
    uint32_t count = 0;

    for (uint16_t gpu = 0; gpu < 16; gpu++) {
        uint32_t at;
        int64_t gpu_at_ns;

        if (!devices_gpu_open(jobs->devices, node, gpu) || devices_earmarked(jobs->devices, node, gpu) != NONE_INDEX)
            continue;
        gpu_at_ns = gpu_free_at_ns(jobs, node, gpu);
        for (at = count++; at > 0 && free_at_ns[at - 1] > gpu_at_ns; at--) {
            free_at_ns[at] = free_at_ns[at - 1];
            order[at] = order[at - 1];
        }
        free_at_ns[at] = gpu_at_ns;
        order[at] = gpu;
    }
    if (count < job->gpus)
        return window;
    window.at_ns = free_at_ns[job->gpus - 1];
    for (uint32_t i = 0; i < job->gpus; i++)
        window.gpu_mask |= (uint16_t)(1u << order[i]);
    return window;
}

/* Would the job fit there with everybody gone who is expected to be? Bytes and flavors decide. */
static bool window_fits(struct jobs *jobs, const struct job *job, const struct window *window)
{
    struct devices_ask ask = ask_of(jobs, job);
    struct devices_place place;
    uint32_t count = 0;

    ask.flavors = flavors_of(jobs, job->flags);
    for (uint16_t gpu = 0; gpu < 16; gpu++) {
        if ((window->gpu_mask >> gpu & 1) == 0)
            continue;
        for (uint32_t i = 0; i < devices_jobs_on(jobs->devices, window->node, gpu) && count < SCRATCH_JOBS; i++) {
            uint32_t slot = devices_job_at(jobs->devices, window->node, gpu, i);
            bool seen = false;

            for (uint32_t k = 0; k < count; k++)
                seen = seen || jobs->scratch_jobs[k] == slot;
            if (!seen)
                jobs->scratch_jobs[count++] = slot;
        }
    }
    place = devices_find_without(jobs->devices, &ask, jobs->scratch_jobs, count);
    return place.kind != PLACE_NONE && place.node == window->node;
}

/* Quotas add up to the capacity, so a gang that finds no node mostly finds no quota either: both are what others hold. Only
 * its own limits would make a reservation idle for nothing. */
static bool within_own_limits(const struct jobs *jobs, const struct job *job)
{
    int64_t need_milli = quota_need_milli(jobs, job, NULL);
    uint32_t flavors = flavors_of(jobs, job->flags);

    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++) {
        int64_t limit_milli = job->flags & JOB_PREEMPTIBLE ? quota_ceiling(jobs->quota, job->tenant, flavor)
                                                           : quota_nominal(jobs->quota, job->tenant, flavor);

        if ((flavors >> flavor & 1) && limit_milli - quota_used(jobs->quota, job->tenant, flavor) >= need_milli)
            return true;
    }
    return false;
}

static bool has_quota_now(struct jobs *jobs, const struct job *job)
{
    const struct known_tenant *room = tenant_room(jobs, job->tenant);
    int64_t need_milli = quota_need_milli(jobs, job, NULL);
    uint32_t flavors = flavors_of(jobs, job->flags);

    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++)
        if ((flavors >> flavor & 1) &&
            need_milli <= (job->flags & JOB_PREEMPTIBLE ? room->available_milli : room->nominal_milli)[flavor])
            return true;
    return false;
}

static bool reserve_for(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct window best = {.at_ns = NEVER_NS};

    for (uint32_t node = 0; node < jobs->config.nodes_max; node++) {
        struct window window = window_on(jobs, job, (uint16_t)node);

        if (window.at_ns < best.at_ns && window_fits(jobs, job, &window))
            best = window;
    }
    if (best.at_ns == NEVER_NS || (best.at_ns <= jobs->at_ns && !has_quota_now(jobs, job)))
        return false;
    devices_earmark(jobs->devices, best.node, best.gpu_mask, slot, best.at_ns);
    job->reserved = true;
    job->reserved_from_ns = best.at_ns;
    job->place = (struct devices_place){.node = best.node, .gpu_mask = best.gpu_mask};
    jobs->reserved[jobs->reserved_count++] = slot;
    return true;
}

static bool still_of_use(struct jobs *jobs, uint32_t slot)
{
    const struct job *job = &jobs->jobs[slot];
    bool idle = true;

    /* An older job of its class has come back: it is that one's turn. */
    if (jobs->classes[job->class].root != slot || !within_own_limits(jobs, job))
        return false;
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (job->place.gpu_mask >> gpu & 1)
            idle = idle && devices_jobs_on(jobs->devices, job->place.node, gpu) == 0;
    return !idle || has_quota_now(jobs, job);
}

/* Of each tenant the first gang that may hold one. */
static void gather_gangs(struct jobs *jobs)
{
    order_clear(jobs);
    for (uint32_t i = 0; i < jobs->tenants_count; i++)
        for (uint32_t at = jobs->tenants[jobs->tenants_active[i]].classes; at != NONE_INDEX; at = jobs->classes[at].tenant_next) {
            const struct pending_class *class = &jobs->classes[at];
            struct order_rank rank;

            if (jobs->jobs[class->root].gpus < 2 || class->windowless == jobs->hopes || jobs->jobs[class->root].reserved ||
                !within_own_limits(jobs, &jobs->jobs[class->root]) || !load_pays(jobs, &jobs->jobs[class->root]) ||
                base_waits(jobs, &jobs->jobs[class->root]))
                continue;
            rank = pending_rank(jobs, at, flavors_of(jobs, class->flags));
            rank.tried = class->windowless;
            order_push(jobs, at, rank);
            break;
        }
}

/* After a cycle, whoever is pending was not placed. */
void reserve_run(struct jobs *jobs)
{
    uint32_t failures = 0;
    struct order_rank rank;
    uint32_t class;

    for (uint32_t i = 0; i < jobs->reserved_count;) {
        if (still_of_use(jobs, jobs->reserved[i])) {
            i++;
        } else {
            reserve_forget(jobs, jobs->reserved[i]);
            jobs->cycle_due = true; /* others may use it now */
        }
    }
    if (jobs->reserved_count == jobs->config.reservations_max)
        return;
    gather_gangs(jobs);
    while (jobs->reserved_count < jobs->config.reservations_max && failures < FAILURES_A_CYCLE &&
           (class = order_pop(jobs, &rank)) != NONE_INDEX) {
        if (!reserve_for(jobs, jobs->classes[class].root)) {
            failures++;
            jobs->classes[class].windowless = jobs->hopes;
        }
    }
}

void reserve_forget(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];

    if (!job->reserved)
        return;
    devices_unearmark(jobs->devices, slot);
    job->reserved = false;
    for (uint32_t i = 0; i < jobs->reserved_count; i++)
        if (jobs->reserved[i] == slot)
            jobs->reserved[i] = jobs->reserved[--jobs->reserved_count];
}
