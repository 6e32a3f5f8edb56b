/* Gangs and backfill: a gang that finds no node gets a place in the future, on the node where enough GPUs are expected to be
 * free first; until then others may use these GPUs only if they are expected to have ended by then (EASY backfill, Lifka
 * 1995). When the instant comes and somebody overstayed, nobody new gets in, so a node-sized job is never starved. */
#include "fleet/jobs_state.h"

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

    ask.flavors = job->flags & JOB_SPOT_OK ? UINT32_MAX : ~jobs->config.spot_flavors;
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

void reserve_for(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct window best = {.at_ns = NEVER_NS};

    if (job->gpus < 2 || job->earmarked || jobs->reservations >= jobs->config.reservations_max)
        return;
    for (uint32_t node = 0; node < jobs->config.nodes_max; node++) {
        struct window window = window_on(jobs, job, (uint16_t)node);

        if (window.at_ns < best.at_ns && window_fits(jobs, job, &window))
            best = window;
    }
    if (best.at_ns == NEVER_NS)
        return;
    devices_earmark(jobs->devices, best.node, best.gpu_mask, slot, best.at_ns);
    job->earmarked = true;
    job->reserved = true;
    jobs->classes[job->class].reserved = slot;
    jobs->reservations++;
}

void reserve_forget(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];

    if (!job->earmarked)
        return;
    devices_unearmark(jobs->devices, slot);
    job->earmarked = false;
    if (job->reserved) {
        jobs->reservations--;
        if (job->class != NONE_INDEX)
            jobs->classes[job->class].reserved = NONE_INDEX;
    }
    job->reserved = false;
}
