/* Who is stopped for whom. Two things: reclaim takes back, for a tenant within its nominal quota, what others borrow;
 * preempt makes room within one tenant for higher priority. What the victims leave is earmarked for the claimer (I9), who takes
 * its quota at once, so that nobody borrows it meanwhile. Whom to stop is reclaim_plan.c's. */
#include "fleet/reclaim.h"

/* Searches that find nobody to stop, a cycle; the others come in later ones, those not tried yet first. */
#define FAILURES_A_CYCLE 3
/* Tenants whose jobs may claim in a cycle; the others in turn. Whoever was not asked is within RETRY_NS. */
#define TENANTS_ASKED 16
#define RETRY_NS NS_PER_S

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

void claims_hope_at(struct jobs *jobs, int64_t at_ns)
{
    jobs->hope_at_ns = min_i64(jobs->hope_at_ns, at_ns);
    if (at_ns != NEVER_NS)
        jobs_wake_by(jobs, at_ns);
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
    if (claim.room && claim_is_lawful(jobs, &claim, &victims, &place))
        return false;
    if (!claim_plan(jobs, &claim, &victims, &place))
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
    if (!claim_plan(jobs, &claim, &victims, &place))
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
