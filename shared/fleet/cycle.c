/* Who starts. A cycle asks the devices once for each shape that waits, and flavor; orders the tenants by their best class that
 * a place is open to; and places its head until no place is open to anybody. Quota within nominal goes first, then priority,
 * then the policy's key; within a tenant priority alone. What is still owed to somebody after it is taken back (reclaim.c) or
 * kept for the future (reserve.c). It costs O(shapes + tenants + classes passed by), never O(jobs). */
#include "fleet/jobs_state.h"

struct devices_ask ask_of(const struct jobs *jobs, const struct job *job)
{
    return (struct devices_ask){
        .bytes = job->bytes,
        .base_bytes = jobs->bases[job->base].bytes,
        .tenant = job->tenant,
        .base = job->base,
        .gpus = job->gpus,
        .isolation = job->isolation,
        .trusted = job->trusted,
        .job = job_slot(job->id),
        .end_estimate_ns = job_end_estimate_ns(jobs, job),
    };
}

uint32_t flavors_of(const struct jobs *jobs, uint16_t flags)
{
    uint32_t all = (1u << jobs->config.flavors_max) - 1;

    return flags & JOB_SPOT_OK ? all : all & ~jobs->config.spot_flavors;
}

bool base_pays(const struct jobs *jobs, uint16_t index)
{
    const struct known_base *base = &jobs->bases[index];

    return base->work_ns * 1000 >= (uint128)(uint64_t)base->load_ns * base->gpus * jobs->config.payback_milli;
}

bool base_waits(struct jobs *jobs, const struct job *job)
{
    int64_t retry_at_ns = jobs->bases[job->base].retry_at_ns;

    if (job->isolation == ISOLATION_MIG || jobs->at_ns >= retry_at_ns)
        return false;
    jobs_wake_by(jobs, retry_at_ns);
    return true;
}

/* A job that nobody joins has waited enough after so long. */
static int64_t waited_at_ns(const struct jobs *jobs, const struct job *job)
{
    uint128 wait_ns = (uint128)(uint64_t)jobs->bases[job->base].load_ns * 10;

    return wait_ns > (uint128)(INT64_MAX - job->submitted_at_ns) ? NEVER_NS : job->submitted_at_ns + (int64_t)wait_ns;
}

/* A load occupies GPUs for load_ns: it is worth it when that much work is queued for the base, or when the job has waited
 * ten times as long. A slice has a base of its own, which no other job would load. */
bool load_pays(const struct jobs *jobs, const struct job *job)
{
    return !jobs->config.place->resident_first || job->isolation == ISOLATION_MIG || base_pays(jobs, job->base) ||
           jobs->at_ns >= waited_at_ns(jobs, job);
}

/* --- kinds and shapes -------------------------------------------------------------------------------------------------- */

static const struct job *job_of_shape(const struct jobs *jobs, uint32_t shape)
{
    return &jobs->jobs[jobs->classes[jobs->shapes[shape].classes].root];
}

static bool kind_may_load(struct jobs *jobs, const struct pending_kind *kind)
{
    bool may = false;

    if (base_waits(jobs, job_of_shape(jobs, kind->shapes)))
        return false;
    for (uint32_t shape = kind->shapes; !may && shape != NONE_INDEX; shape = jobs->shapes[shape].kind_next)
        for (uint32_t class = jobs->shapes[shape].classes; !may && class != NONE_INDEX; class = jobs->classes[class].shape_next) {
            const struct job *head = &jobs->jobs[jobs->classes[class].root];

            may = load_pays(jobs, head);
            if (!may)
                jobs_wake_by(jobs, waited_at_ns(jobs, head));
        }
    return may;
}

/* Where is there a place, whoever it is for and however long it takes? */
static void kind_search(struct jobs *jobs, struct pending_kind *kind)
{
    struct devices_ask ask = ask_of(jobs, job_of_shape(jobs, kind->shapes));
    uint32_t flavors = flavors_of(jobs, kind->spot ? JOB_SPOT_OK : 0);
    bool may_load = kind_may_load(jobs, kind);

    kind->searched = jobs->searches;
    kind->open = kind->reserved = 0;
    kind->wait = JOB_WAIT_ORDER;
    ask.job = NONE_INDEX;
    ask.end_estimate_ns = NEVER_NS;
    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++) {
        struct devices_place place;

        ask.flavors = 1u << flavor;
        if ((flavors & ask.flavors) == 0)
            continue;
        place = devices_find(jobs->devices, &ask, jobs->config.place->resident_first, may_load);
        if (place.kind != PLACE_NONE) {
            kind->open |= (uint8_t)ask.flavors;
        } else if (place.blocked_by_earmark) {
            kind->reserved |= (uint8_t)ask.flavors;
            kind->wait = JOB_WAIT_RESERVED;
        } else if (kind->wait != JOB_WAIT_RESERVED) {
            kind->wait = place.blocked_by_isolation ? JOB_WAIT_ISOLATION : JOB_WAIT_CAPACITY;
        }
    }
}

/* Counted among `alive` while it is open. */
static void shape_set_open(struct jobs *jobs, struct pending_shape *shape, uint32_t open)
{
    if (open != 0 && shape->open == 0) {
        jobs->alive++;
        jobs->open_need_milli = min_i64(jobs->open_need_milli, jobs->classes[shape->classes].need_milli);
    }
    jobs->alive -= open == 0 && shape->open != 0;
    shape->open = (uint8_t)open;
}

/* Where it has a place: as its kind, or before a reservation, where the longest job that it may have would have ended. */
static void shape_search(struct jobs *jobs, uint32_t index)
{
    struct pending_shape *shape = &jobs->shapes[index];
    struct pending_kind *kind = &jobs->kinds[shape->kind];
    struct devices_ask ask = ask_of(jobs, job_of_shape(jobs, index));
    int64_t longest_ns = slowed_ns(jobs, span_max_ns(shape->span), kind->isolation);
    uint32_t open = kind->open;

    ask.job = NONE_INDEX;
    ask.end_estimate_ns = longest_ns > NEVER_NS - jobs->at_ns ? NEVER_NS : jobs->at_ns + longest_ns;
    for (uint16_t flavor = 0; kind->reserved != 0 && flavor < jobs->config.flavors_max; flavor++) {
        ask.flavors = 1u << flavor;
        if ((kind->reserved & ask.flavors) != 0 &&
            devices_find(jobs->devices, &ask, jobs->config.place->resident_first, kind_may_load(jobs, kind)).kind != PLACE_NONE)
            open |= ask.flavors;
    }
    shape_set_open(jobs, shape, open);
}

/* Somebody has taken what was open. */
static void search_again(struct jobs *jobs, uint32_t index)
{
    struct pending_kind *kind = &jobs->kinds[jobs->shapes[index].kind];

    kind_search(jobs, kind);
    for (uint32_t at = kind->shapes; at != NONE_INDEX; at = jobs->shapes[at].kind_next)
        if (at == index)
            shape_search(jobs, at);
        else
            shape_set_open(jobs, &jobs->shapes[at], jobs->shapes[at].open & (kind->open | kind->reserved));
}

/* --- one job ----------------------------------------------------------------------------------------------------------- */

static uint32_t flavors_with(const struct jobs *jobs, const int64_t *room_milli, int64_t need_milli)
{
    uint32_t flavors = 0;

    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++)
        if (need_milli <= room_milli[flavor])
            flavors |= 1u << flavor;
    return flavors;
}

/* A tenant's own quota first, whatever it borrows elsewhere; then what it may borrow, which only preemptible work may do.
 * What a slice takes is known when its place is. */
enum found { FOUND, NO_QUOTA, NO_PLACE };
static enum found find_place(struct jobs *jobs, const struct job *job, uint32_t open, struct devices_place *ret_place)
{
    const struct known_tenant *tenant = tenant_room(jobs, job->tenant);
    int64_t need_milli = quota_need_milli(jobs, job, NULL);
    const int64_t *rooms_milli[2] = {tenant->nominal_milli,
                                     job->flags & JOB_PREEMPTIBLE ? tenant->available_milli : tenant->nominal_milli};
    struct devices_ask ask = ask_of(jobs, job);
    bool may_load = !base_waits(jobs, job) && (job->reserved || load_pays(jobs, job));
    enum found found = NO_QUOTA;
    uint32_t full = 0; /* flavors in which there is no place, whatever the quota */

    for (uint32_t i = 0; i < ARRAY_COUNT(rooms_milli); i++) {
        ask.flavors = open & ~full & flavors_with(jobs, rooms_milli[i], need_milli);
        while (ask.flavors != 0) {
            *ret_place = devices_find(jobs->devices, &ask, jobs->config.place->resident_first, may_load);
            if (ret_place->kind == PLACE_NONE) {
                full |= ask.flavors;
                found = NO_PLACE;
                break;
            }
            if (quota_need_milli(jobs, job, ret_place) <= rooms_milli[i][ret_place->flavor])
                return FOUND;
            ask.flavors &= ~(1u << ret_place->flavor);
        }
    }
    return found;
}

/* A job with a reservation starts on it as soon as it can, before the cycle asks who else could; and when all others are
 * served, wherever there is room with what is kept for it. */
static void place_reserved(struct jobs *jobs, bool anywhere)
{
    for (uint32_t i = 0; i < jobs->reserved_count;) {
        uint32_t slot = jobs->reserved[i];
        struct job *job = &jobs->jobs[slot];
        struct devices_place place;

        if (jobs->classes[job->class].root == slot && jobs_has_room(jobs, COMMANDS_MAX / 2) &&
            find_place(jobs, job, flavors_of(jobs, job->flags), &place) == FOUND &&
            (anywhere || (place.node == job->place.node && (place.gpu_mask & job->place.gpu_mask) != 0)) &&
            jobs_has_room(jobs, place.victims + 2))
            job_take_place(jobs, slot, &place); /* the list is shorter now: the same i again */
        else
            i++;
    }
}

/* --- the cycle --------------------------------------------------------------------------------------------------------- */

/* Flavors in which it has a place and quota. */
static uint32_t flavors_for(const struct jobs *jobs, const struct pending_class *class, const struct known_tenant *tenant)
{
    const int64_t *room_milli = class->flags & JOB_PREEMPTIBLE ? tenant->available_milli : tenant->nominal_milli;
    uint32_t with = flavors_with(jobs, room_milli, class->need_milli);

    return with == 0 ? 0 : with & jobs->shapes[class->shape].open;
}

/* Enough for the least that a place is open to: where nobody has, nothing need be looked at. */
static bool has_any_room(const struct jobs *jobs, const struct known_tenant *tenant)
{
    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++)
        if (tenant->available_milli[flavor] >= jobs->open_need_milli)
            return true;
    return false;
}

/* The tenant's first class, from this one on, that could start. */
static void push_next(struct jobs *jobs, uint32_t tenant, uint32_t from)
{
    const struct known_tenant *room = tenant_room(jobs, tenant);

    if (!has_any_room(jobs, room))
        return;
    for (uint32_t at = from; at != NONE_INDEX; at = jobs->classes[at].tenant_next) {
        uint32_t open = flavors_for(jobs, &jobs->classes[at], room);

        if (open != 0) {
            order_push(jobs, at, pending_rank(jobs, at, open));
            return;
        }
    }
}

static void search(struct jobs *jobs, uint32_t index)
{
    struct pending_shape *shape = &jobs->shapes[index];

    if (jobs->kinds[shape->kind].searched != jobs->searches)
        kind_search(jobs, &jobs->kinds[shape->kind]);
    shape->open = 0;
    shape_search(jobs, index);
}

/* Only one class: nothing has changed for the others. */
static void gather(struct jobs *jobs, uint32_t only_class)
{
    jobs->alive = 0;
    jobs->open_need_milli = INT64_MAX;
    order_clear(jobs);
    if (only_class != NONE_INDEX) {
        uint32_t open;

        for (uint32_t i = 0; i < jobs->shapes_count; i++)
            jobs->shapes[jobs->shapes_active[i]].open = 0;
        search(jobs, jobs->classes[only_class].shape);
        open = jobs->shapes[jobs->classes[only_class].shape].open;
        if (open != 0)
            order_push(jobs, only_class, pending_rank(jobs, only_class, open));
        return;
    }
    for (uint32_t i = 0; i < jobs->shapes_count; i++)
        search(jobs, jobs->shapes_active[i]);
    /* None of a tenant's classes ranks before its first one, within nominal: the others are looked at when that is its turn. */
    for (uint32_t i = 0; i < jobs->tenants_count && jobs->alive > 0; i++) {
        uint32_t class = jobs->tenants[jobs->tenants_active[i]].classes;

        if (has_any_room(jobs, tenant_room(jobs, jobs->tenants_active[i]))) {
            struct order_rank rank = pending_rank(jobs, class, 0);

            rank.borrows = false;
            order_push(jobs, class, rank);
        }
    }
}

enum placed { PLACED, PASSED_BY, COMMANDS_FULL };

static enum placed place_head(struct jobs *jobs, uint32_t index)
{
    struct pending_class *class = &jobs->classes[index];
    struct pending_shape *shape = &jobs->shapes[class->shape];
    uint32_t slot = class->root;
    uint32_t open = jobs->shapes[class->shape].open;
    struct devices_place place;

    switch (find_place(jobs, &jobs->jobs[slot], open, &place)) {
    case NO_QUOTA:
        return PASSED_BY;
    case NO_PLACE:
        search_again(jobs, class->shape);
        return PASSED_BY;
    case FOUND:
        break;
    }
    if (!jobs_has_room(jobs, place.victims + 2))
        return COMMANDS_FULL;
    if (class->count == 1 && shape->classes == index && class->shape_next == NONE_INDEX)
        shape_set_open(jobs, shape, 0); /* the shape goes with its last job */
    job_take_place(jobs, slot, &place);
    return PLACED;
}

/* False: the commands are full. */
static bool place_all(struct jobs *jobs, uint32_t only_class)
{
    struct order_rank rank;
    uint32_t class;

    while (jobs->alive > 0 && (class = order_pop(jobs, &rank)) != NONE_INDEX) {
        uint32_t tenant = jobs->classes[class].tenant;
        uint32_t next = jobs->classes[class].tenant_next;
        uint32_t open = flavors_for(jobs, &jobs->classes[class], tenant_room(jobs, tenant));
        struct order_rank now;

        if (open != 0) {
            /* What was placed since may have moved its tenant back. */
            now = pending_rank(jobs, class, open);
            if (rank_before(&rank, &now)) {
                order_push(jobs, class, now);
                continue;
            }
            switch (place_head(jobs, class)) {
            case COMMANDS_FULL:
                return false;
            case PLACED:
                next = jobs->tenants[tenant].classes;
                break;
            case PASSED_BY:
                break;
            }
        }
        if (only_class == NONE_INDEX)
            push_next(jobs, tenant, next);
    }
    return true;
}

void cycle_run(struct jobs *jobs, uint32_t only_class)
{
    if (jobs->restoring)
        return; /* all will be looked at when all is told */
    jobs->searches++;
    jobs->cycle_due = false;
    if (only_class == NONE_INDEX)
        serve_run(jobs);
    if (jobs->totals.pending == 0)
        return;
    if (only_class == NONE_INDEX) {
        claims_let_in(jobs);
        place_reserved(jobs, false);
    }
    gather(jobs, only_class);
    if (!place_all(jobs, only_class)) {
        jobs->cycle_due = true;
        return;
    }
    place_reserved(jobs, true);
    claims_run(jobs, only_class);
    reserve_run(jobs);
}
