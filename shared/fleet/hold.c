/* What a job on GPUs changes: devices, quotas, usage, the ledger and the tenant's list, all told here and nowhere else, so that
 * they cannot disagree. And how commands are said. */
#include "base/hash.h"
#include "fleet/jobs_state.h"

bool jobs_has_room(const struct jobs *jobs, uint32_t commands)
{
    return jobs->out->count + commands <= COMMANDS_MAX;
}

/* The command is zeroed; the caller fills its body, and then calls jobs_said(). */
struct fleet_command *jobs_say(struct jobs *jobs, enum fleet_command_kind kind, uint16_t reason)
{
    struct fleet_command *command;

    check(jobs_has_room(jobs, 1));
    command = &jobs->out->items[jobs->out->count++];
    memset(command, 0, sizeof(*command));
    command->id = ++*jobs->said;
    command->kind = (uint16_t)kind;
    command->reason = reason;
    return command;
}

/* The body joins the history. */
void jobs_said(struct jobs *jobs, const struct fleet_command *command)
{
    jobs->history = hash_fold(jobs->history, (uint64_t)command->kind << 16 | command->reason);
    jobs->history = hash_words(jobs->history, command->word, ARRAY_COUNT(command->word));
}

void jobs_wake_by(struct jobs *jobs, int64_t at_ns)
{
    jobs->wakeup_at_ns = min_i64(jobs->wakeup_at_ns, max_i64(at_ns, jobs->at_ns));
}

int64_t slowed_ns(const struct jobs *jobs, int64_t alone_ns, uint8_t isolation)
{
    /* Whoever may share is taken to share with as many as may come: an estimate that is late, not early. */
    bool shares = isolation == ISOLATION_MPS || isolation == ISOLATION_TIME_SLICE;
    uint32_t sharers = shares ? jobs->config.sharers_max : 1;
    uint128 ns = (uint128)(uint64_t)alone_ns * sharers * 1000 / jobs->config.eta_milli[sharers];

    return sharers == 1 ? alone_ns : ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

int64_t job_end_estimate_ns(const struct jobs *jobs, const struct job *job)
{
    int64_t from_ns = job->started_at_ns != NEVER_NS ? job->started_at_ns : jobs->at_ns;
    int64_t left_ns = slowed_ns(jobs, job->remaining_ns, job->isolation);

    return left_ns > NEVER_NS - from_ns ? NEVER_NS : max_i64(jobs->at_ns, from_ns + left_ns);
}

/* --- quotas ---------------------------------------------------------------------------------------------------------- */

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

void tell_unused(struct jobs *jobs, uint32_t tenant)
{
    int64_t unused_milli = 0;

    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++)
        unused_milli +=
            max_i64(0, quota_nominal(jobs->quota, tenant, flavor) - quota_used(jobs->quota, tenant, flavor));
    ledger_unused(jobs->ledger, jobs->at_ns, tenant, unused_milli);
}

/* `over`: whether or not there is room now, because others are being stopped for it. */
void quota_charge(struct jobs *jobs, uint32_t slot, uint16_t flavor, int64_t milli, bool over)
{
    struct job *job = &jobs->jobs[slot];

    check(job->quota_milli == 0);
    if (over)
        quota_take_over(jobs->quota, job->tenant, flavor, milli);
    else
        quota_take(jobs->quota, job->tenant, flavor, milli);
    job->quota_milli = (uint32_t)milli;
    job->flavor = flavor;
    jobs->version++;
    tell_unused(jobs, job->tenant);
}

/* Total, as all that ends something is: nothing taken is nothing to give. */
void quota_discharge(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];

    quota_give(jobs->quota, job->tenant, job->flavor, job->quota_milli);
    job->quota_milli = 0;
    jobs->version++;
    tell_unused(jobs, job->tenant);
}

/* --- bases ----------------------------------------------------------------------------------------------------------- */

/* A GPU may hold a base twice, for gangs of two sizes: to the ledger a base is its holding. */
uint32_t gpu_number(uint16_t node, uint16_t gpu)
{
    return (uint32_t)node * 16 + gpu;
}

void holding_drop(struct jobs *jobs, uint32_t holding)
{
    struct devices_holding about = devices_holding(jobs->devices, holding);
    struct fleet_command *command = jobs_say(jobs, FLEET_COMMAND_BASE_DROP, 0);

    command->base_drop.base.value = about.base;
    command->base_drop.node.value = about.node;
    command->base_drop.gpu_mask = about.gpu_mask;
    command->base_drop.bytes = about.bytes;
    jobs_said(jobs, command);
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (about.gpu_mask >> gpu & 1)
            ledger_base_off(jobs->ledger, gpu_number(about.node, gpu), jobs->at_ns, (uint16_t)holding);
    devices_drop(jobs->devices, holding);
    jobs->totals.base_drops++;
}

static uint32_t begin_load(struct jobs *jobs, const struct job *job, const struct devices_place *place)
{
    const struct known_base *base = &jobs->bases[job->base];
    struct fleet_command *command = jobs_say(jobs, FLEET_COMMAND_BASE_LOAD, 0);
    uint32_t holding;

    command->base_load.base.value = job->base;
    command->base_load.node.value = place->node;
    command->base_load.gpu_mask = place->gpu_mask;
    command->base_load.bytes = base->bytes;
    jobs_said(jobs, command);
    holding = devices_hold(jobs->devices, job->base, base->bytes, place->node, place->gpu_mask, base->load_ns);
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (place->gpu_mask >> gpu & 1)
            ledger_base_on(jobs->ledger, gpu_number(place->node, gpu), jobs->at_ns, (uint16_t)holding, base->bytes, true);
    jobs->totals.base_loads++;
    return holding;
}

/* --- on and off ------------------------------------------------------------------------------------------------------ */

static bool computes(const struct job *job)
{
    return job->state == JOB_RUNNING || (job->state == JOB_STOPPING && job->started_at_ns != NEVER_NS);
}

void share_compute(struct jobs *jobs, const struct devices_place *place)
{
    for (uint16_t gpu = 0; gpu < 16; gpu++) {
        uint32_t running = 0;
        uint32_t slot;

        if ((place->gpu_mask >> gpu & 1) == 0)
            continue;
        for (uint32_t i = 0; (slot = devices_job_at(jobs->devices, place->node, gpu, i)) != NONE_INDEX; i++)
            running += computes(&jobs->jobs[slot]);
        for (uint32_t i = 0; (slot = devices_job_at(jobs->devices, place->node, gpu, i)) != NONE_INDEX; i++)
            ledger_compute(jobs->ledger, gpu_number(place->node, gpu), jobs->at_ns, slot,
                           computes(&jobs->jobs[slot]) ? 1000 / running : 0);
    }
}

void link_running(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct known_tenant *tenant = &jobs->tenants[job->tenant];

    job->running_prev = NONE_INDEX;
    job->running_next = tenant->running_head;
    if (job->running_next != NONE_INDEX)
        jobs->jobs[job->running_next].running_prev = slot;
    tenant->running_head = slot;
    tenant->lowest_known = false;
    job->placed_prev = jobs->placed_tail;
    job->placed_next = NONE_INDEX;
    if (jobs->placed_tail != NONE_INDEX)
        jobs->jobs[jobs->placed_tail].placed_next = slot;
    else
        jobs->placed_head = slot;
    jobs->placed_tail = slot;
    jobs->totals.running++;
}

static void unlink_running(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct known_tenant *tenant = &jobs->tenants[job->tenant];

    if (job->running_prev != NONE_INDEX)
        jobs->jobs[job->running_prev].running_next = job->running_next;
    else
        tenant->running_head = job->running_next;
    if (job->running_next != NONE_INDEX)
        jobs->jobs[job->running_next].running_prev = job->running_prev;
    if (job->placed_prev != NONE_INDEX)
        jobs->jobs[job->placed_prev].placed_next = job->placed_next;
    else
        jobs->placed_head = job->placed_next;
    if (job->placed_next != NONE_INDEX)
        jobs->jobs[job->placed_next].placed_prev = job->placed_prev;
    else
        jobs->placed_tail = job->placed_prev;
    tenant->lowest_known = false;
    jobs->totals.running--;
}

static void say_start(struct jobs *jobs, struct job *job)
{
    struct fleet_command *command = jobs_say(jobs, FLEET_COMMAND_REPLICA_START, 0);

    command->replica_start.bytes = job->bytes;
    command->replica_start.replica = job->replica;
    command->replica_start.node.value = job->place.node;
    command->replica_start.gpu_mask = job->place.gpu_mask;
    command->replica_start.tp = job->gpus;
    command->replica_start.base.value = job->base;
    command->replica_start.clear = job->clear;
    jobs_said(jobs, command);
    job->state = JOB_PLACING;
}

static void say_job_place(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct fleet_command *command = jobs_say(jobs, FLEET_COMMAND_JOB_PLACE, 0);
    uint32_t neighbours = 1;

    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (job->place.gpu_mask >> gpu & 1)
            neighbours = max_u32(neighbours, devices_jobs_on(jobs->devices, job->place.node, gpu));
    command->job_place.job = job->id;
    command->job_place.bytes = job->bytes;
    command->job_place.node.value = job->place.node;
    command->job_place.gpu_mask = job->place.gpu_mask;
    command->job_place.slice = job->place.slice;
    command->job_place.base.value = job->base;
    command->job_place.neighbours = (uint16_t)neighbours;
    command->job_place.clear = job->clear;
    command->job_place.claimed_at_ns = job->placed_at_ns;
    jobs_said(jobs, command);
    job->state = JOB_PLACING;
}

static void say_place(struct jobs *jobs, uint32_t slot)
{
    if (jobs->jobs[slot].stage == STAGE_SERVE)
        say_start(jobs, &jobs->jobs[slot]);
    else
        say_job_place(jobs, slot);
}

int64_t gpu_time_ns(const struct job *job, int64_t ns)
{
    uint128 gpu_ns = (uint128)(uint64_t)ns * job->quota_milli / 1000;

    return gpu_ns > INT64_MAX ? INT64_MAX : (int64_t)gpu_ns;
}

static void drop_victims(struct jobs *jobs, const struct devices_place *place)
{
    uint32_t victims[VICTIMS_MAX];

    check(place->victims <= ARRAY_COUNT(victims));
    for (uint32_t i = 0; i < place->victims; i++)
        victims[i] = devices_victim_at(jobs->devices, i);
    for (uint32_t i = 0; i < place->victims; i++)
        holding_drop(jobs, victims[i]);
}

void job_take_place(struct jobs *jobs, uint32_t slot, const struct devices_place *found)
{
    struct job *job = &jobs->jobs[slot];
    struct devices_ask ask = ask_of(jobs, job);
    struct devices_place place = *found;

    drop_victims(jobs, &place);
    jobs->cycle_due = jobs->cycle_due || job->reserved; /* what was kept for it is open to others */
    reserve_forget(jobs, slot);
    if (job->class != NONE_INDEX)
        pending_remove(jobs, slot);
    if (job->quota_milli == 0)
        quota_charge(jobs, slot, place.flavor, quota_need_milli(jobs, job, &place), false);
    /* Usage may be above nominal by what claimers have taken in advance. */
    job->borrowed = (job->flags & JOB_PREEMPTIBLE) && quota_borrowed(jobs->quota, job->tenant, place.flavor) > 0;
    if (job->borrowed)
        jobs->tenants[job->tenant].marked_milli[job->flavor] += job->quota_milli;
    if (place.kind == PLACE_LOAD && place.slice == 0)
        place.holding = begin_load(jobs, job, &place);
    else if (place.kind == PLACE_RESIDENT)
        jobs->totals.base_hits++;
    job->clear = devices_claim(jobs->devices, slot, &ask, &place);
    job->entry_ns = gpu_time_ns(job, min_i64(job->remaining_ns, jobs->config.half_life_ns));
    quota_usage_add(jobs->quota, job->tenant, jobs->at_ns, job->entry_ns);
    job->place = place;
    job->placed_at_ns = jobs->at_ns;
    job->attempt++;
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (place.gpu_mask >> gpu & 1)
            ledger_claim_on(jobs->ledger, gpu_number(place.node, gpu), jobs->at_ns, slot, job->tenant,
                            place.slice == 0 ? (uint16_t)place.holding : LEDGER_NO_BASE,
                            place.slice == 0 ? job->bytes : job->bytes + ask.base_bytes, 0, job->borrowed);
    link_running(jobs, slot);
    jobs->totals.pending--;
    jobs->version++;
    if (place.kind == PLACE_RESIDENT || place.slice != 0)
        say_place(jobs, slot);
    else
        job->state = JOB_BASE_WAIT;
}

/* It is off its GPUs, whatever became of it. Total: nothing here can fail, whatever has changed since it was placed. */
void job_leave_place(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct devices_place place = job->place;
    int64_t held_ns = gpu_time_ns(job, jobs->at_ns - job->placed_at_ns);

    unlink_running(jobs, slot);
    jobs->stopping -= job->state == JOB_STOPPING;
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (place.gpu_mask >> gpu & 1)
            ledger_claim_off(jobs->ledger, gpu_number(place.node, gpu), jobs->at_ns, slot);
    devices_release(jobs->devices, slot);
    if (job->borrowed)
        jobs->tenants[job->tenant].marked_milli[job->flavor] -= job->quota_milli;
    job->borrowed = false;
    quota_discharge(jobs, slot);
    /* The advance is taken back as of its own instant, so that it leaves no trace, and what was really held is added. */
    quota_usage_add(jobs->quota, job->tenant, job->placed_at_ns, -job->entry_ns);
    quota_usage_add(jobs->quota, job->tenant, jobs->at_ns, held_ns);
    job->entry_ns = 0;
    job->started_at_ns = NEVER_NS;
    share_compute(jobs, &place);
}

void job_started(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];

    check(job->state == JOB_PLACING || job->state == JOB_STOPPING); /* stopped while it was starting */
    check(job->started_at_ns == NEVER_NS);
    job->started_at_ns = jobs->at_ns;
    if (job->state == JOB_PLACING)
        job->state = JOB_RUNNING;
    if (job->stage != STAGE_SERVE)
        jobs->tenants[job->tenant].lowest_known = false;
    share_compute(jobs, &job->place);
}

/* Those who waited for it start. */
void holding_ready(struct jobs *jobs, uint32_t holding)
{
    struct devices_holding about = devices_holding(jobs->devices, holding);
    uint16_t first = (uint16_t)__builtin_ctz(about.gpu_mask);
    uint32_t slot;

    devices_loaded(jobs->devices, holding);
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (about.gpu_mask >> gpu & 1)
            ledger_base_ready(jobs->ledger, gpu_number(about.node, gpu), jobs->at_ns, (uint16_t)holding);
    for (uint32_t i = 0; (slot = devices_job_at(jobs->devices, about.node, first, i)) != NONE_INDEX; i++)
        if (jobs->jobs[slot].state == JOB_BASE_WAIT && jobs->jobs[slot].place.holding == holding)
            say_place(jobs, slot);
}

/* --- replicas -------------------------------------------------------------------------------------------------------- */

/* The claim is the platform's, and so is what it costs: whose requests it serves changes from one to the next, and they pay by
 * the token. */
void serve_take_place(struct jobs *jobs, uint32_t slot, const struct devices_place *found)
{
    struct job *job = &jobs->jobs[slot];
    struct devices_ask ask = ask_of(jobs, job);
    struct devices_place place = *found;

    drop_victims(jobs, &place);
    if (place.kind == PLACE_LOAD)
        place.holding = begin_load(jobs, job, &place);
    else if (place.kind == PLACE_RESIDENT)
        jobs->totals.base_hits++;
    job->clear = devices_claim(jobs->devices, slot, &ask, &place);
    job->place = place;
    job->flavor = place.flavor;
    job->placed_at_ns = jobs->at_ns;
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (place.gpu_mask >> gpu & 1)
            ledger_claim_on(jobs->ledger, gpu_number(place.node, gpu), jobs->at_ns, slot, job->tenant,
                            (uint16_t)place.holding, job->bytes, 0, false);
    if (place.kind == PLACE_RESIDENT)
        say_place(jobs, slot);
    else
        job->state = JOB_BASE_WAIT;
}

void serve_leave_place(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct devices_place place = job->place;

    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (place.gpu_mask >> gpu & 1)
            ledger_claim_off(jobs->ledger, gpu_number(place.node, gpu), jobs->at_ns, slot);
    devices_release(jobs->devices, slot);
    job->started_at_ns = NEVER_NS;
    share_compute(jobs, &place);
}
