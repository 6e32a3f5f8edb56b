/* Who is stopped for whom. Two things: reclaim takes back, for a tenant within its nominal quota, what others borrow;
 * preempt makes room within one tenant for higher priority. Either way the search is by node: nobody is stopped unless the
 * claimer then fits on real GPUs (I10), the set is made minimal and every remaining victim is checked again (I8), and what
 * they leave is earmarked for the claimer (I9). Victims that may not be stopped are left out before the search begins. */
#include "fleet/jobs_state.h"

#define VICTIMS_MAX 64

struct victims {
    uint32_t count;
    uint32_t slots[VICTIMS_MAX];
};

/* Will `victim` be one to stop for `job`, once it has run its minimum? */
static bool eligible_in_time(const struct jobs *jobs, const struct job *job, const struct job *victim)
{
    if (victim->state != JOB_RUNNING || (victim->flags & JOB_PREEMPTIBLE) == 0)
        return false;
    if (victim->tenant == job->tenant)
        return victim->priority < job->priority; /* I7: it would be ordered after the claimer */
    return victim->borrowed && quota_borrowed(jobs->quota, victim->tenant, victim->flavor) > 0 &&
           quota_used(jobs->quota, job->tenant, victim->flavor) + quota_need_milli(jobs, job, NULL) <=
               quota_nominal(jobs->quota, job->tenant, victim->flavor);
}

/* May it be stopped now, whatever else is? */
static bool eligible(const struct jobs *jobs, const struct job *job, const struct job *victim)
{
    return eligible_in_time(jobs, job, victim) && jobs->at_ns - victim->started_at_ns >= victim->runtime_min_ns; /* I11 */
}

/* Borrowers first, lowest priority, most recently placed; the last tie is the younger job. */
static bool stops_before(const struct jobs *jobs, const struct job *claimer, uint32_t a, uint32_t b)
{
    const struct job *x = &jobs->jobs[a];
    const struct job *y = &jobs->jobs[b];
    bool x_other = x->tenant != claimer->tenant;
    bool y_other = y->tenant != claimer->tenant;

    if (x_other != y_other)
        return x_other;
    if (x->priority != y->priority)
        return x->priority < y->priority;
    if (x->placed_at_ns != y->placed_at_ns)
        return x->placed_at_ns > y->placed_at_ns;
    return x->id.value > y->id.value;
}

/* The victims on one node in the order in which they would be stopped. */
static void gather(const struct jobs *jobs, const struct job *job, uint16_t node, struct victims *ret)
{
    ret->count = 0;
    for (uint16_t gpu = 0; gpu < 16; gpu++) {
        for (uint32_t i = 0;; i++) {
            uint32_t slot = devices_job_at(jobs->devices, node, gpu, i);
            bool seen = false;
            uint32_t at;

            if (slot == NONE_INDEX)
                break;
            for (uint32_t k = 0; k < ret->count; k++)
                seen = seen || ret->slots[k] == slot;
            if (seen || ret->count == VICTIMS_MAX || !eligible(jobs, job, &jobs->jobs[slot]))
                continue;
            at = ret->count++;
            while (at > 0 && stops_before(jobs, job, slot, ret->slots[at - 1])) {
                ret->slots[at] = ret->slots[at - 1];
                at--;
            }
            ret->slots[at] = slot;
        }
    }
}

static int64_t held_milli(const struct job *job)
{
    return (int64_t)job->quota_milli_per_gpu * job->gpus;
}

/* Is each of them lawful, with those before it gone? Gives their quota back one by one, which the caller undoes. */
static bool lawful_one_by_one(struct jobs *jobs, const struct job *job, const struct victims *victims,
                              const struct devices_place *place, uint32_t *ret_given)
{
    int64_t need_milli = quota_need_milli(jobs, job, place);
    bool others = false;

    for (*ret_given = 0; *ret_given < victims->count; ++*ret_given) {
        const struct job *victim = &jobs->jobs[victims->slots[*ret_given]];

        if (!eligible(jobs, job, victim) || victim->flavor != place->flavor)
            return false;
        if (victim->tenant != job->tenant) {
            others = true;
            if (!quota_may_reclaim(jobs->quota, job->tenant, need_milli, victim->tenant, victim->flavor, held_milli(victim)))
                return false;
        }
        quota_give(jobs->quota, victim->tenant, victim->flavor, held_milli(victim));
    }
    /* Within one tenant no right is needed beyond what its own jobs give up and what it may have anyway. */
    return others || need_milli <= quota_available(jobs->quota, job->tenant, place->flavor);
}

/* All of them together must be lawful: nobody below nominal (I5), and the claimer either within its own nominal quota, or
 * taking no more than its own lower-priority jobs give up. */
static bool lawful(struct jobs *jobs, const struct job *job, const struct victims *victims, const struct devices_place *place)
{
    uint32_t given;
    bool fine = lawful_one_by_one(jobs, job, victims, place, &given);

    while (given-- > 0) {
        const struct job *victim = &jobs->jobs[victims->slots[given]];

        quota_take_over(jobs->quota, victim->tenant, victim->flavor, held_milli(victim));
    }
    return fine;
}

static bool fits_without(struct jobs *jobs, const struct devices_ask *ask, const struct victims *victims,
                         struct devices_place *ret_place)
{
    *ret_place = devices_find_without(jobs->devices, ask, victims->slots, victims->count);
    return ret_place->kind != PLACE_NONE;
}

/* The fewest of the node's victims that make room; false: not even all of them do, or not lawfully. */
static bool plan_on(struct jobs *jobs, const struct job *job, const struct devices_ask *ask, uint16_t node,
                    struct victims *ret_victims, struct devices_place *ret_place)
{
    struct victims all;
    struct victims chosen = {0};

    gather(jobs, job, node, &all);
    for (uint32_t i = 0; i < all.count && chosen.count < jobs->config.victims_max; i++) {
        chosen.slots[chosen.count++] = all.slots[i];
        if (!fits_without(jobs, ask, &chosen, ret_place))
            continue;
        /* In reverse, drop whoever turns out not to be needed. */
        for (uint32_t k = chosen.count - 1; k-- > 0;) {
            struct victims fewer = chosen;

            memmove(&fewer.slots[k], &fewer.slots[k + 1], (fewer.count - k - 1) * sizeof(fewer.slots[0]));
            fewer.count--;
            if (fits_without(jobs, ask, &fewer, ret_place))
                chosen = fewer;
        }
        if (!fits_without(jobs, ask, &chosen, ret_place) || !lawful(jobs, job, &chosen, ret_place))
            return false;
        *ret_victims = chosen;
        return true;
    }
    return false;
}

/* Could stopping the node's victims free enough GPUs? A cheap count before the real search. */
static bool node_could(const struct jobs *jobs, const struct job *job, uint16_t node)
{
    uint32_t could = 0;

    for (uint16_t gpu = 0; gpu < 16; gpu++) {
        bool all = devices_gpu_open(jobs->devices, node, gpu);

        /* Where several may share, one that leaves may be enough. */
        if (job->isolation != ISOLATION_EXCLUSIVE && devices_jobs_on(jobs->devices, node, gpu) > 0) {
            bool any = false;

            for (uint32_t i = 0; i < devices_jobs_on(jobs->devices, node, gpu); i++)
                any = any || eligible(jobs, job, &jobs->jobs[devices_job_at(jobs->devices, node, gpu, i)]);
            could += any;
            continue;
        }
        for (uint32_t i = 0; all && i < devices_jobs_on(jobs->devices, node, gpu); i++)
            all = eligible(jobs, job, &jobs->jobs[devices_job_at(jobs->devices, node, gpu, i)]);
        could += all;
    }
    return could >= job->gpus;
}

/* Nodes worth a search, those with the most recently placed victims first, into scratch_jobs. */
#define NODES_SEARCHED 16
static uint32_t nodes_with_victims(struct jobs *jobs, const struct job *job)
{
    uint32_t count = 0;

    for (uint32_t slot = jobs->running_head; slot != NONE_INDEX && count < NODES_SEARCHED; slot = jobs->jobs[slot].running_next) {
        const struct job *victim = &jobs->jobs[slot];
        bool seen = false;

        if (!eligible(jobs, job, victim)) {
            if (eligible_in_time(jobs, job, victim))
                wake_by(jobs, victim->started_at_ns + victim->runtime_min_ns);
            continue;
        }
        for (uint32_t i = 0; i < count; i++)
            seen = seen || jobs->scratch_jobs[i] == victim->place.node;
        if (!seen && node_could(jobs, job, victim->place.node))
            jobs->scratch_jobs[count++] = victim->place.node;
    }
    return count;
}

/* GPUs that stopping costs: fewer is cheaper. */
static uint32_t cost_of(const struct jobs *jobs, const struct victims *victims)
{
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < victims->count; i++)
        gpus += jobs->jobs[victims->slots[i]].gpus;
    return gpus;
}

/* Is there anybody it could be taken from, and may it ask at all? */
static bool may_claim(const struct jobs *jobs, const struct job *job, uint32_t flavors)
{
    if (flavors == 0 || job->victims_left > 0)
        return false;
    return jobs->at_ns - job->blocked_at_ns >= jobs->config.preempt_delay_ns;
}

/* Flavors it may be placed on at all; whether a claim there is lawful is decided with the victims known. */
static uint32_t claim_flavors(const struct jobs *jobs, const struct job *job)
{
    uint32_t all = (1u << jobs->config.flavors_max) - 1;

    return job->flags & JOB_SPOT_OK ? all : all & ~jobs->config.spot_flavors;
}

static void carry_out(struct jobs *jobs, uint32_t slot, const struct victims *victims, const struct devices_place *place)
{
    struct job *job = &jobs->jobs[slot];

    job->victims_left = victims->count;
    jobs->claims_open++;
    job->earmarked = true;
    devices_earmark(jobs->devices, place->node, place->gpu_mask, slot, 0);
    for (uint32_t i = 0; i < victims->count; i++) {
        struct job *victim = &jobs->jobs[victims->slots[i]];
        bool same = victim->tenant == job->tenant;

        victim->claimer = slot;
        job_stop(jobs, victims->slots[i], same ? JOB_STOP_PREEMPT : JOB_STOP_RECLAIM, NEVER_NS);
    }
}

bool reclaim_for(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct devices_ask ask = ask_of(jobs, job);
    struct victims best = {0};
    struct devices_place best_place = {0};
    uint32_t candidates;

    ask.flavors = claim_flavors(jobs, job);
    if (!may_claim(jobs, job, ask.flavors)) {
        if (ask.flavors != 0 && job->victims_left == 0)
            wake_by(jobs, job->blocked_at_ns + jobs->config.preempt_delay_ns);
        return job->victims_left > 0;
    }
    candidates = nodes_with_victims(jobs, job);
    for (uint32_t i = 0; i < candidates; i++) {
        struct victims victims;
        struct devices_place place;

        if (plan_on(jobs, job, &ask, (uint16_t)jobs->scratch_jobs[i], &victims, &place) &&
            (best.count == 0 || cost_of(jobs, &victims) < cost_of(jobs, &best))) {
            best = victims;
            best_place = place;
        }
    }
    if (best.count == 0)
        return false;
    if (!has_room(jobs, best.count)) {
        jobs->cycle_due = true;
        wake_by(jobs, jobs->at_ns);
        return true;
    }
    carry_out(jobs, slot, &best, &best_place);
    return true;
}
