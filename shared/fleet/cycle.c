/* Who starts: heads of pending classes in order, each placed if its quota and the devices allow. A class whose head does not
 * fit is passed by, and so is every other that asks the devices for the same, so a cycle searches once a shape. After it,
 * what is still owed to somebody is taken back (reclaim.c) or kept for the future (reserve.c). */
#include "fleet/jobs_state.h"

/* Shapes that found no place in this cycle: what a search depends on. */
struct shape {
    struct devices_ask ask;
    uint32_t flavors;
    bool may_load;
    bool blocked_by_earmark;
    bool blocked_by_isolation;
};
#define SHAPES_MAX 64
struct shapes {
    uint32_t count;
    struct shape items[SHAPES_MAX];
};

/* A claimer for whom somebody may be stopped, at most so many a cycle: each may cost a search of every node. */
#define CLAIMS_A_CYCLE 4

struct devices_ask ask_of(const struct jobs *jobs, const struct job *job)
{
    return (struct devices_ask){
        .bytes = job->bytes,
        .base_bytes = jobs->bases[job->base].bytes,
        .tenant = job->tenant,
        .base = job->base,
        .gpus = job->gpus,
        .isolation = job->isolation,
        .trusted = jobs->tenants[job->tenant].trusted,
        .job = job_slot(job->id),
        .end_estimate_ns = job_end_estimate_ns(jobs, job),
    };
}

int64_t quota_need_milli(const struct jobs *jobs, const struct job *job, const struct devices_place *place)
{
    switch ((enum job_isolation)job->isolation) {
    case ISOLATION_MPS:
    case ISOLATION_TIME_SLICE:
        /* A share of a GPU that up to sharers_max hold. */
        return (int64_t)job->gpus * (int64_t)div_up_u64(1000, jobs->config.sharers_max);
    case ISOLATION_MIG:
        /* The slice's part of the GPU's memory, in eighths; before a place is known, the least. */
        return place == NULL || place->slice == 0 ? 125 : 125 * (int64_t)devices_slice_eighths(jobs->devices, place);
    case ISOLATION_EXCLUSIVE:
    case ISOLATION_COUNT:
        break;
    }
    return (int64_t)job->gpus * 1000;
}

/* Flavors in which its quota has room: within nominal where there is any (a tenant's own first, whatever it borrows
 * elsewhere), otherwise borrowing, which only preemptible work may do. */
static uint32_t flavors_with_quota(const struct jobs *jobs, const struct job *job, int64_t need_milli)
{
    uint32_t nominal = 0;
    uint32_t borrowing = 0;

    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++) {
        if ((jobs->config.spot_flavors >> flavor & 1) && (job->flags & JOB_SPOT_OK) == 0)
            continue;
        switch (quota_fit(jobs->quota, job->tenant, flavor, need_milli)) {
        case QUOTA_NOMINAL:
            nominal |= 1u << flavor;
            break;
        case QUOTA_BORROWING:
            borrowing |= 1u << flavor;
            break;
        case QUOTA_WAIT:
        case QUOTA_NEVER:
            break;
        }
    }
    if (nominal != 0)
        return nominal;
    /* While somebody waits for what is theirs, nobody borrows: what the victims leave would be borrowed away. */
    return (job->flags & JOB_PREEMPTIBLE) && jobs->claims_open == 0 ? borrowing : 0;
}

/* A load occupies GPUs for load_ns: it is worth it when that much work is queued for the base, or when its oldest job has
 * waited ten times as long. */
static bool load_pays(const struct jobs *jobs, const struct job *job)
{
    const struct known_base *base = &jobs->bases[job->base];
    uint128 load_ns = (uint128)(uint64_t)base->load_ns * base->gpus;

    if ((uint128)base->work_ns * 1000 >= load_ns * jobs->config.payback_milli)
        return true;
    return jobs->at_ns - job->submitted_at_ns >= 10 * base->load_ns;
}

static bool same_shape(const struct shape *shape, const struct devices_ask *ask, uint32_t flavors, bool may_load)
{
    const struct devices_ask *other = &shape->ask;

    /* Whose it is matters only to those who share; whether something is earmarked for it is asked apart. */
    return other->bytes == ask->bytes && other->base_bytes == ask->base_bytes && other->base == ask->base &&
           other->gpus == ask->gpus && other->isolation == ask->isolation && other->trusted == ask->trusted &&
           (ask->isolation == ISOLATION_EXCLUSIVE || other->tenant == ask->tenant) && (shape->flavors & flavors) == flavors &&
           (shape->may_load || !may_load) && other->end_estimate_ns <= ask->end_estimate_ns;
}

static const struct shape *shape_failed(const struct shapes *shapes, const struct devices_ask *ask, uint32_t flavors, bool may_load)
{
    for (uint32_t i = 0; i < shapes->count; i++)
        if (same_shape(&shapes->items[i], ask, flavors, may_load))
            return &shapes->items[i];
    return NULL;
}

static enum job_wait why_not(const struct devices_place *place)
{
    if (place->blocked_by_earmark)
        return JOB_WAIT_RESERVED;
    return place->blocked_by_isolation ? JOB_WAIT_ISOLATION : JOB_WAIT_CAPACITY;
}

/* JOB_WAIT_NONE: *ret_place is where it goes. */
static enum job_wait find_place(struct jobs *jobs, const struct job *job, struct shapes *shapes, struct devices_place *ret_place)
{
    bool resident_first = jobs->config.place->resident_first;
    bool may_load = !resident_first || load_pays(jobs, job);
    struct devices_ask ask = ask_of(jobs, job);

    ask.flavors = flavors_with_quota(jobs, job, quota_need_milli(jobs, job, NULL));
    if (ask.flavors == 0)
        return JOB_WAIT_QUOTA;
    if (!job->earmarked) {
        const struct shape *failed = shape_failed(shapes, &ask, ask.flavors, may_load);

        if (failed != NULL) {
            *ret_place = (struct devices_place){.blocked_by_earmark = failed->blocked_by_earmark,
                                                .blocked_by_isolation = failed->blocked_by_isolation};
            return why_not(ret_place);
        }
    }
    *ret_place = devices_find(jobs->devices, &ask, resident_first, may_load);
    if (ret_place->kind == PLACE_NONE) {
        if (!job->earmarked && shapes->count < SHAPES_MAX)
            shapes->items[shapes->count++] = (struct shape){ask, ask.flavors, may_load, ret_place->blocked_by_earmark,
                                                            ret_place->blocked_by_isolation};
        return why_not(ret_place);
    }
    if (job->isolation == ISOLATION_MIG) {
        enum quota_fit fit = quota_fit(jobs->quota, job->tenant, ret_place->flavor, quota_need_milli(jobs, job, ret_place));

        if (fit != QUOTA_NOMINAL && (fit != QUOTA_BORROWING || (job->flags & JOB_PREEMPTIBLE) == 0))
            return JOB_WAIT_QUOTA;
    }
    return JOB_WAIT_NONE;
}

/* The head of a class that could not start: since when, and why. */
static void mark_blocked(struct jobs *jobs, uint32_t slot, enum job_wait wait)
{
    struct job *job = &jobs->jobs[slot];

    job->wait = (uint8_t)wait;
    jobs->classes[job->class].wait = (uint8_t)wait;
    jobs->classes[job->class].blocked_cycle = jobs->cycle;
    if (job->blocked_at_ns == NEVER_NS)
        job->blocked_at_ns = jobs->at_ns;
}

/* Quotas add up to the capacity, so a gang that finds no node mostly finds no quota either: both are what others hold. Only
 * its own limits would make a reservation idle for nothing. */
static bool within_own_limits(const struct jobs *jobs, const struct job *job)
{
    int64_t need_milli = quota_need_milli(jobs, job, NULL);

    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++)
        if (quota_ceiling(jobs->quota, job->tenant, flavor) - quota_used(jobs->quota, job->tenant, flavor) >= need_milli)
            return true;
    return false;
}

bool cycle_place_one(struct jobs *jobs, uint32_t slot, struct devices_place *ret_place)
{
    struct shapes shapes = {0};

    if (find_place(jobs, &jobs->jobs[slot], &shapes, ret_place) != JOB_WAIT_NONE || !has_room(jobs, ret_place->victims + 2))
        return false;
    job_take_place(jobs, slot, ret_place);
    return true;
}

void cycle_run(struct jobs *jobs, uint32_t only_class)
{
    struct shapes shapes;
    uint32_t claims = 0;
    uint32_t class;

    shapes.count = 0;
    jobs->cycle++;
    jobs->cycle_due = false;
    pending_order(jobs, only_class);
    while ((class = pending_next(jobs)) != NONE_INDEX) {
        uint32_t slot = jobs->classes[class].root;
        struct job *job = &jobs->jobs[slot];
        struct devices_place place;
        enum job_wait wait;

        /* An older job of the class came back: what was reserved is the head's. */
        if (jobs->classes[class].reserved != NONE_INDEX && jobs->classes[class].reserved != slot)
            reserve_forget(jobs, jobs->classes[class].reserved);
        wait = find_place(jobs, job, &shapes, &place);

        if (wait == JOB_WAIT_NONE) {
            uint32_t left = jobs->classes[class].count;

            if (!has_room(jobs, place.victims + 2)) {
                jobs->cycle_due = true;
                wake_by(jobs, jobs->at_ns);
                return;
            }
            job_take_place(jobs, slot, &place);
            if (left > 1)
                pending_again(jobs, class);
            continue;
        }
        mark_blocked(jobs, slot, wait);
        if (job->earmarked || claims == CLAIMS_A_CYCLE)
            continue;
        claims++;
        if (!reclaim_for(jobs, slot) && (wait != JOB_WAIT_QUOTA || within_own_limits(jobs, job)))
            reserve_for(jobs, slot);
    }
}
