/* Whom to stop. The search is by node: nobody is stopped unless the claimer then fits on real GPUs (I10), the set is made minimal
 * and every remaining victim is checked again (I8). Victims that may not be stopped are left out before the search begins. */
#include "fleet/reclaim.h"

/* A search looks at so many nodes with jobs, the next one at those after, and plans in detail on the best of them. */
#define NODES_SCANNED 32
#define NODES_PLANNED 8

/* Will `victim` be one to stop, once it has run its minimum? */
static bool eligible_in_time(const struct jobs *jobs, const struct claim *claim, const struct job *victim)
{
    const struct job *job = claim->job;

    if (victim->state != JOB_RUNNING || (victim->flags & JOB_PREEMPTIBLE) == 0 || (claim->ask.flavors >> victim->flavor & 1) == 0)
        return false;
    if (job->stage == STAGE_SERVE)
        return true;
    if (victim->tenant == job->tenant)
        return victim->priority < job->priority; /* I7: it would be ordered after the claimer */
    if ((claim->own_flavors >> victim->flavor & 1) == 0)
        return false;
    /* Beyond what is marked as borrowed a tenant is only when its limit has shrunk. */
    const struct known_tenant *tenant = &jobs->tenants[victim->tenant];
    int64_t held_milli = quota_used(jobs->quota, victim->tenant, victim->flavor) - tenant->claimed_milli[victim->flavor];

    return held_milli - (victim->borrowed ? 0 : tenant->marked_milli[victim->flavor]) >
           quota_nominal(jobs->quota, victim->tenant, victim->flavor);
}

/* I11 */
static int64_t stoppable_at_ns(const struct job *victim)
{
    return victim->runtime_min_ns > NEVER_NS - victim->started_at_ns ? NEVER_NS : victim->started_at_ns + victim->runtime_min_ns;
}

/* May it be stopped now, whatever else is? */
static bool eligible(const struct jobs *jobs, const struct claim *claim, const struct job *victim)
{
    return eligible_in_time(jobs, claim, victim) && jobs->at_ns >= stoppable_at_ns(victim);
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
    if (x->borrowed != y->borrowed)
        return x->borrowed;
    if (x->priority != y->priority)
        return x->priority < y->priority;
    if (x->placed_at_ns != y->placed_at_ns)
        return x->placed_at_ns > y->placed_at_ns;
    return x->id.value > y->id.value;
}

/* The victims on one node in the order in which they would be stopped. */
static void gather(const struct jobs *jobs, const struct claim *claim, uint16_t node, struct victims *ret)
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
            if (seen || ret->count == VICTIMS_MAX || !eligible(jobs, claim, &jobs->jobs[slot]))
                continue;
            at = ret->count++;
            while (at > 0 && stops_before(jobs, claim->job, slot, ret->slots[at - 1])) {
                ret->slots[at] = ret->slots[at - 1];
                at--;
            }
            ret->slots[at] = slot;
        }
    }
}

/* --- law --------------------------------------------------------------------------------------------------------------- */

/* Quota given back in thought. */
#define LOANS_MAX 256
struct loans {
    uint32_t count;
    struct {
        uint32_t tenant;
        uint16_t flavor;
        int64_t milli;
    } items[LOANS_MAX];
};

static bool lend(struct jobs *jobs, struct loans *loans, const struct job *job)
{
    if (loans->count == LOANS_MAX)
        return false;
    quota_give(jobs->quota, job->tenant, job->flavor, job->quota_milli);
    loans->items[loans->count].tenant = job->tenant;
    loans->items[loans->count].flavor = job->flavor;
    loans->items[loans->count++].milli = job->quota_milli;
    return true;
}

/* Those who are leaving already are gone in thought: what they give up is promised. */
static bool lend_leaving(struct jobs *jobs, struct loans *loans, const struct victims *victims)
{
    bool fine = true;

    for (uint32_t i = 0; i < jobs->claimers_count; i++) {
        uint16_t node = jobs->jobs[jobs->claimers[i]].victims_node;
        uint32_t slot;

        for (uint16_t gpu = 0; gpu < 16; gpu++)
            for (uint32_t k = 0; (slot = devices_job_at(jobs->devices, node, gpu, k)) != NONE_INDEX; k++)
                if (jobs->jobs[slot].claimer == jobs->claimers[i] &&
                    (uint32_t)__builtin_ctz(jobs->jobs[slot].place.gpu_mask) == gpu)
                    fine = fine && lend(jobs, loans, &jobs->jobs[slot]);
    }
    for (uint32_t i = 0; i < victims->count; i++) {
        uint32_t tenant = jobs->jobs[victims->slots[i]].tenant;
        bool seen = false;

        for (uint32_t k = 0; k < i; k++)
            seen = seen || jobs->jobs[victims->slots[k]].tenant == tenant;
        for (uint32_t at = jobs->tenants[tenant].running_head; !seen && at != NONE_INDEX; at = jobs->jobs[at].running_next)
            if (jobs->jobs[at].state == JOB_STOPPING && (jobs->jobs[at].claimer == NONE_INDEX || jobs->jobs[at].claimer >= jobs->config.jobs_max))
                fine = fine && lend(jobs, loans, &jobs->jobs[at]);
    }
    return fine;
}

/* Is each of them lawful with those before it gone (I4, I5), and is there quota when all are? */
static bool lawful_with(struct jobs *jobs, struct loans *loans, const struct claim *claim, const struct victims *victims,
                        const struct devices_place *place)
{
    const struct job *job = claim->job;
    int64_t need_milli = quota_need_milli(jobs, job, place);
    bool nominal = (job->flags & JOB_PREEMPTIBLE) == 0;

    if (!lend_leaving(jobs, loans, victims))
        return false;
    for (uint32_t i = 0; i < victims->count; i++) {
        const struct job *victim = &jobs->jobs[victims->slots[i]];

        if (!eligible(jobs, claim, victim) || victim->flavor != place->flavor)
            return false;
        if (victim->tenant != job->tenant) {
            nominal = true;
            if (!quota_may_reclaim(jobs->quota, job->tenant, need_milli, victim->tenant, victim->flavor, victim->quota_milli))
                return false;
        }
        if (!lend(jobs, loans, victim))
            return false;
    }
    if (nominal && quota_used(jobs->quota, job->tenant, place->flavor) + need_milli >
                       quota_nominal(jobs->quota, job->tenant, place->flavor))
        return false;
    return need_milli <= quota_available(jobs->quota, job->tenant, place->flavor);
}

bool claim_is_lawful(struct jobs *jobs, const struct claim *claim, const struct victims *victims, const struct devices_place *place)
{
    struct loans loans;
    bool fine;

    /* Serving takes what it needs: quotas are of what it leaves. */
    if (claim->job->stage == STAGE_SERVE)
        return true;
    loans.count = 0;
    fine = lawful_with(jobs, &loans, claim, victims, place);
    while (loans.count-- > 0)
        quota_take_over(jobs->quota, loans.items[loans.count].tenant, loans.items[loans.count].flavor,
                        loans.items[loans.count].milli);
    return fine;
}

/* --- plans ------------------------------------------------------------------------------------------------------------- */

static bool fits_without(struct jobs *jobs, const struct claim *claim, const struct victims *victims,
                         struct devices_place *ret_place)
{
    *ret_place = devices_find_without(jobs->devices, &claim->ask, victims->slots, victims->count);
    return ret_place->kind != PLACE_NONE && claim_is_lawful(jobs, claim, victims, ret_place);
}

/* The fewest of the node's victims that make room; false: not even all of them do, or not lawfully. */
static bool plan_on(struct jobs *jobs, const struct claim *claim, uint16_t node, struct victims *ret_victims,
                    struct devices_place *ret_place)
{
    struct victims all;
    struct victims chosen = {0};

    gather(jobs, claim, node, &all);
    for (uint32_t i = 0; i < all.count && chosen.count < jobs->config.victims_max; i++) {
        chosen.slots[chosen.count++] = all.slots[i];
        if (!fits_without(jobs, claim, &chosen, ret_place))
            continue;
        /* In reverse, drop whoever turns out not to be needed; the last one is. */
        for (uint32_t k = chosen.count - 1; k-- > 0;) {
            struct victims fewer = chosen;

            memmove(&fewer.slots[k], &fewer.slots[k + 1], (fewer.count - k - 1) * sizeof(fewer.slots[0]));
            fewer.count--;
            if (fits_without(jobs, claim, &fewer, ret_place))
                chosen = fewer;
        }
        *ret_victims = chosen;
        return fits_without(jobs, claim, &chosen, ret_place); /* I8; and where, with just these gone */
    }
    return false;
}

struct candidate {
    int64_t newest_at_ns;       /* of its victims */
    uint16_t node;
};

/* Could stopping the node's victims free enough GPUs? A cheap count before the real search. */
static bool node_could(struct jobs *jobs, const struct claim *claim, uint16_t node, bool *ret_jobs, struct candidate *ret)
{
    uint32_t could = 0;
    bool any = false;

    *ret = (struct candidate){.newest_at_ns = INT64_MIN, .node = node};
    *ret_jobs = false;
    for (uint16_t gpu = 0; gpu < 16; gpu++) {
        bool all = devices_gpu_open(jobs->devices, node, gpu);
        bool some = false;
        uint32_t slot;

        for (uint32_t i = 0; (slot = devices_job_at(jobs->devices, node, gpu, i)) != NONE_INDEX; i++) {
            const struct job *victim = &jobs->jobs[slot];

            *ret_jobs = true;
            if (eligible(jobs, claim, victim)) {
                some = true;
                ret->newest_at_ns = max_i64(ret->newest_at_ns, victim->placed_at_ns);
                continue;
            }
            all = false;
            if (eligible_in_time(jobs, claim, victim))
                claims_hope_at(jobs, stoppable_at_ns(victim));
        }
        any = any || some;
        /* Where several may share, one that leaves may be enough. */
        could += all || (some && claim->job->isolation != ISOLATION_EXCLUSIVE);
    }
    return any && (claim->room || could >= claim->job->gpus);
}

struct candidates {
    uint32_t count;
    struct candidate items[NODES_PLANNED]; /* those with the most recently placed victims first */
};

/* True: there are jobs on it. */
static bool consider(struct jobs *jobs, const struct claim *claim, uint16_t node, struct candidates *ret)
{
    struct candidate candidate;
    bool any_jobs;
    uint32_t at;

    if (!node_could(jobs, claim, node, &any_jobs, &candidate))
        return any_jobs;
    for (uint32_t i = 0; i < ret->count; i++)
        if (ret->items[i].node == node)
            return true;
    at = ret->count < NODES_PLANNED ? ret->count++ : NODES_PLANNED;
    for (; at > 0 && ret->items[at - 1].newest_at_ns < candidate.newest_at_ns; at--)
        if (at < NODES_PLANNED)
            ret->items[at] = ret->items[at - 1];
    if (at < NODES_PLANNED)
        ret->items[at] = candidate;
    return true;
}

/* Nodes worth a plan. Who has no quota of its own to claim asks only where its own jobs are. */
static void nodes_with_victims(struct jobs *jobs, const struct claim *claim, struct candidates *ret)
{
    uint32_t scanned = 0;
    uint32_t node = jobs->claim_node;

    ret->count = 0;
    if (claim->own_flavors == 0 && claim->job->stage != STAGE_SERVE) {
        for (uint32_t at = jobs->tenants[claim->job->tenant].running_head; at != NONE_INDEX && scanned < NODES_SCANNED;
             at = jobs->jobs[at].running_next)
            if (eligible_in_time(jobs, claim, &jobs->jobs[at]))
                scanned += consider(jobs, claim, jobs->jobs[at].place.node, ret);
        return;
    }
    for (uint32_t i = 0; i < jobs->config.nodes_max; i++, node = node + 1 < jobs->config.nodes_max ? node + 1 : 0) {
        if (scanned == NODES_SCANNED) {
            jobs->claim_node = node;
            return;
        }
        scanned += consider(jobs, claim, (uint16_t)node, ret);
    }
}

/* GPUs that stopping costs: fewer is cheaper. */
static uint32_t cost_of(const struct jobs *jobs, const struct victims *victims)
{
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < victims->count; i++)
        gpus += jobs->jobs[victims->slots[i]].gpus;
    return gpus;
}

bool claim_plan(struct jobs *jobs, const struct claim *claim, struct victims *ret_victims, struct devices_place *ret_place)
{
    struct candidates candidates;

    nodes_with_victims(jobs, claim, &candidates);
    ret_victims->count = 0;
    for (uint32_t i = 0; i < candidates.count; i++) {
        struct victims victims;
        struct devices_place place;

        if (plan_on(jobs, claim, candidates.items[i].node, &victims, &place) &&
            (ret_victims->count == 0 || cost_of(jobs, &victims) < cost_of(jobs, ret_victims))) {
            *ret_victims = victims;
            *ret_place = place;
        }
    }
    return ret_victims->count > 0;
}
