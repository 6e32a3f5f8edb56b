/* Who is stopped for whom. Two things: reclaim takes back, for a tenant within its nominal quota, what others borrow;
 * preempt makes room within one tenant for higher priority. Either way the search is by node: nobody is stopped unless the
 * claimer then fits on real GPUs (I10), the set is made minimal and every remaining victim is checked again (I8), and what
 * they leave is earmarked for the claimer (I9), who takes its quota at once, so that nobody borrows it meanwhile. Victims that
 * may not be stopped are left out before the search begins. */
#include "fleet/jobs_state.h"

/* Searches that find nobody to stop, a cycle; the others come in later ones, those not tried yet first. */
#define FAILURES_A_CYCLE 3
/* Tenants whose jobs may claim in a cycle; the others in turn. Whoever was not asked is within RETRY_NS. */
#define TENANTS_ASKED 16
#define RETRY_NS NS_PER_S
/* A search looks at so many nodes with jobs, the next one at those after, and plans in detail on the best of them. */
#define NODES_SCANNED 32
#define NODES_PLANNED 8

struct victims {
    uint32_t count;
    uint32_t slots[VICTIMS_MAX];
};

struct claim {
    const struct job *job;
    struct devices_ask ask;
    uint32_t own_flavors;    /* in which it would be within nominal */
    bool room;               /* GPUs it has already: what it lacks is quota */
};

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

static bool lawful(struct jobs *jobs, const struct claim *claim, const struct victims *victims, const struct devices_place *place)
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
    return ret_place->kind != PLACE_NONE && lawful(jobs, claim, victims, ret_place);
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

void claims_hope_at(struct jobs *jobs, int64_t at_ns)
{
    jobs->hope_at_ns = min_i64(jobs->hope_at_ns, at_ns);
    if (at_ns != NEVER_NS)
        jobs_wake_by(jobs, at_ns);
}

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

static bool plan(struct jobs *jobs, const struct claim *claim, struct victims *ret_victims, struct devices_place *ret_place)
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

/* --- claimers ---------------------------------------------------------------------------------------------------------- */

static void carry_out(struct jobs *jobs, uint32_t slot, const struct victims *victims, const struct devices_place *place)
{
    struct job *job = &jobs->jobs[slot];

    jobs->cycle_due = jobs->cycle_due || job->reserved; /* that is open to others again */
    reserve_forget(jobs, slot);
    pending_remove(jobs, slot);
    job->victims_left = victims->count;
    job->victims_node = jobs->jobs[victims->slots[0]].place.node;
    job->place = *place;
    job->claimer_at = jobs->claimers_count;
    jobs->claimers[jobs->claimers_count++] = slot;
    quota_charge(jobs, slot, place->flavor, quota_need_milli(jobs, job, place), true);
    jobs->tenants[job->tenant].claimed_milli[job->flavor] += job->quota_milli;
    devices_earmark(jobs->devices, place->node, place->gpu_mask, slot, 0);
    for (uint32_t i = 0; i < victims->count; i++) {
        struct job *victim = &jobs->jobs[victims->slots[i]];

        victim->claimer = slot;
        job_stop(jobs, victims->slots[i], victim->tenant == job->tenant ? JOB_STOP_PREEMPT : JOB_STOP_RECLAIM, NEVER_NS);
    }
}

void claim_release_victims(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    uint32_t at;

    for (uint16_t gpu = 0; gpu < 16; gpu++)
        for (uint32_t i = 0; (at = devices_job_at(jobs->devices, job->victims_node, gpu, i)) != NONE_INDEX; i++)
            if (jobs->jobs[at].claimer == slot)
                jobs->jobs[at].claimer = NONE_INDEX;
    job->victims_left = 0;
}

/* No claimer any more; its quota stays taken. */
static void claim_close(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    uint32_t last = jobs->claimers[--jobs->claimers_count];

    claim_release_victims(jobs, slot);
    jobs->claimers[job->claimer_at] = last;
    jobs->jobs[last].claimer_at = job->claimer_at;
    job->claimer_at = NONE_INDEX;
    jobs->tenants[job->tenant].claimed_milli[job->flavor] -= job->quota_milli;
    devices_unearmark(jobs->devices, slot);
}

void claim_forget(struct jobs *jobs, uint32_t slot)
{
    claim_close(jobs, slot);
    quota_discharge(jobs, slot);
}

static bool claim_place(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct devices_ask ask = ask_of(jobs, job);
    struct devices_place place;

    ask.flavors = 1u << job->flavor;
    place = devices_find(jobs->devices, &ask, jobs->config.place->resident_first, true);
    if (place.kind == PLACE_NONE || quota_need_milli(jobs, job, &place) != job->quota_milli || !jobs_has_room(jobs, place.victims + 2))
        return false;
    claim_close(jobs, slot);
    job_take_place(jobs, slot, &place);
    return true;
}

/* Is the quota that it took in advance free by now? Other claimers' is not theirs before their victims have left, either. */
static bool quota_is_there(struct jobs *jobs, const struct job *job)
{
    bool there;

    for (uint32_t i = 0; i < jobs->claimers_count; i++) {
        const struct job *other = &jobs->jobs[jobs->claimers[i]];

        quota_give(jobs->quota, other->tenant, other->flavor, other->quota_milli);
    }
    there = job->quota_milli <= quota_available(jobs->quota, job->tenant, job->flavor) &&
            ((job->flags & JOB_PREEMPTIBLE) ||
             quota_used(jobs->quota, job->tenant, job->flavor) - jobs->tenants[job->tenant].marked_milli[job->flavor] +
                     job->quota_milli <=
                 quota_nominal(jobs->quota, job->tenant, job->flavor));
    for (uint32_t i = 0; i < jobs->claimers_count; i++) {
        const struct job *other = &jobs->jobs[jobs->claimers[i]];

        quota_take_over(jobs->quota, other->tenant, other->flavor, other->quota_milli);
    }
    return there;
}

/* True: it claims no longer. */
static bool claim_try(struct jobs *jobs, uint32_t slot)
{
    bool there = quota_is_there(jobs, &jobs->jobs[slot]);

    if (there && claim_place(jobs, slot))
        return true;
    if (!there && jobs->stopping > 0)
        return false;
    /* The plan did not come true: a GPU was lost, or a limit changed. */
    jobs->totals.claims_failed++;
    claim_forget(jobs, slot);
    pending_insert(jobs, slot);
    return true;
}

void claims_let_in(struct jobs *jobs)
{
    for (uint32_t i = 0; i < jobs->claimers_count;)
        if (jobs->jobs[jobs->claimers[i]].victims_left > 0 || !claim_try(jobs, jobs->claimers[i]))
            i++;
}

void claim_victim_left(struct jobs *jobs, uint32_t slot)
{
    struct job *victim = &jobs->jobs[slot];
    struct job *claimer;

    if (victim->claimer == NONE_INDEX)
        return;
    claimer = &jobs->jobs[victim->claimer];
    check(claimer->state == JOB_PENDING && claimer->victims_left > 0);
    claimer->victims_left--;
    victim->claimer = NONE_INDEX;
}

void claims_hope(struct jobs *jobs)
{
    jobs->hopes++;
}

/* --- who claims -------------------------------------------------------------------------------------------------------- */

static uint32_t own_flavors(const struct jobs *jobs, uint32_t tenant, int64_t need_milli)
{
    uint32_t own = 0;

    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++)
        if (quota_used(jobs->quota, tenant, flavor) + need_milli <= quota_nominal(jobs->quota, tenant, flavor))
            own |= 1u << flavor;
    return own;
}

/* Priority of the tenant's lowest job that could be stopped. */
static int32_t lowest_priority(struct jobs *jobs, struct known_tenant *tenant)
{
    if (tenant->lowest_known)
        return tenant->lowest;
    tenant->lowest_known = true;
    tenant->lowest = INT32_MAX;
    for (uint32_t at = tenant->running_head; at != NONE_INDEX; at = jobs->jobs[at].running_next)
        if (jobs->jobs[at].state == JOB_RUNNING && (jobs->jobs[at].flags & JOB_PREEMPTIBLE) && jobs->jobs[at].priority < tenant->lowest)
            tenant->lowest = jobs->jobs[at].priority;
    return tenant->lowest;
}

/* Those of the tenant's classes for which somebody might be stopped. */
static void gather_claimers(struct jobs *jobs, uint32_t index, uint32_t only_class)
{
    struct known_tenant *tenant = &jobs->tenants[index];
    int32_t lowest = lowest_priority(jobs, tenant);
    int64_t own_milli = 0;

    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++)
        own_milli = max_i64(own_milli, quota_nominal(jobs->quota, index, flavor) - quota_used(jobs->quota, index, flavor));
    if (own_milli == 0 && lowest >= jobs->classes[tenant->classes].priority)
        return;
    for (uint32_t at = tenant->classes; at != NONE_INDEX; at = jobs->classes[at].tenant_next) {
        const struct pending_class *class = &jobs->classes[at];
        struct order_rank rank;

        if (class->tried == jobs->hopes || (only_class != NONE_INDEX && at != only_class))
            continue;
        if (lowest >= class->priority && own_milli < class->need_milli)
            continue;
        rank = pending_rank(jobs, at, flavors_of(jobs, class->flags));
        rank.tried = class->tried;
        order_push(jobs, at, rank);
    }
}

static bool claim_for(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct claim claim = {.job = job, .ask = ask_of(jobs, job)};
    int64_t from_ns = job->waits_from_ns + jobs->config.preempt_delay_ns;
    struct victims victims = {0};
    struct devices_place place;

    if (jobs->at_ns < from_ns || base_waits(jobs, job)) {
        claims_hope_at(jobs, max_i64(from_ns, jobs->bases[job->base].retry_at_ns));
        return false;
    }
    claim.ask.flavors = flavors_of(jobs, job->flags);
    claim.ask.end_estimate_ns = NEVER_NS; /* it starts when its victims have left: no backfill before a reservation */
    claim.own_flavors = own_flavors(jobs, job->tenant, quota_need_milli(jobs, job, NULL));
    place = devices_find_without(jobs->devices, &claim.ask, NULL, 0);
    claim.room = place.kind != PLACE_NONE;
    /* With room and quota it waits for something else: that a load pays. */
    if (claim.room && lawful(jobs, &claim, &victims, &place))
        return false;
    if (!plan(jobs, &claim, &victims, &place))
        return false;
    if (!jobs_has_room(jobs, victims.count)) {
        jobs->cycle_due = true;
        return false;
    }
    carry_out(jobs, slot, &victims, &place);
    return true;
}

void claims_run(struct jobs *jobs, uint32_t only_class)
{
    uint32_t failures = 0;
    struct order_rank rank;
    uint32_t class;

    if (jobs->totals.running == 0)
        return;
    order_clear(jobs);
    if (only_class != NONE_INDEX) {
        if (jobs->classes[only_class].root != NONE_INDEX)
            gather_claimers(jobs, jobs->classes[only_class].tenant, only_class);
    } else {
        uint32_t count = min_u32(jobs->tenants_count, TENANTS_ASKED);

        if (count < jobs->tenants_count)
            jobs_wake_by(jobs, jobs->at_ns + RETRY_NS);
        for (uint32_t i = 0; i < count; i++)
            gather_claimers(jobs, jobs->tenants_active[(jobs->claim_tenant + i) % jobs->tenants_count], NONE_INDEX);
        jobs->claim_tenant = jobs->tenants_count > 0 ? (jobs->claim_tenant + count) % jobs->tenants_count : 0;
    }
    while ((class = order_pop(jobs, &rank)) != NONE_INDEX) {
        uint32_t left = jobs->classes[class].count - 1;

        if (failures == FAILURES_A_CYCLE || jobs->claimers_count == CLAIMERS_MAX) {
            jobs_wake_by(jobs, jobs->at_ns + RETRY_NS);
            return;
        }
        if (!claim_for(jobs, jobs->classes[class].root)) {
            failures++;
            if (!jobs->cycle_due)
                jobs->classes[class].tried = jobs->hopes;
        } else if (left > 0) {
            order_push(jobs, class, rank);
        }
    }
}

bool claim_for_serving(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct claim claim = {.job = job, .ask = ask_of(jobs, job)};
    struct victims victims = {0};
    struct devices_place place;

    claim.ask.flavors = jobs->config.serve_flavors;
    claim.ask.end_estimate_ns = NEVER_NS;
    claim.own_flavors = jobs->config.serve_flavors; /* no tenant's: it looks at everybody's jobs */
    if (!plan(jobs, &claim, &victims, &place))
        return false;
    if (!jobs_has_room(jobs, victims.count)) {
        jobs->cycle_due = true;
        return false;
    }
    job->victims_left = victims.count;
    job->victims_node = jobs->jobs[victims.slots[0]].place.node;
    job->place = place;
    devices_earmark(jobs->devices, place.node, place.gpu_mask, slot, 0);
    for (uint32_t i = 0; i < victims.count; i++) {
        jobs->jobs[victims.slots[i]].claimer = slot;
        job_stop(jobs, victims.slots[i], JOB_STOP_SHARED_POOL, NEVER_NS);
    }
    return true;
}
