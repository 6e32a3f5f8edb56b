/* A job's life: submitted, sized and checked at once, pending, claimed, loading its base, placed, running, stopped and back at
 * its place in the queue, ended. Each change of what a GPU holds is told to the devices, the quotas and the ledger in one
 * place, so they cannot disagree. */
#include "fleet/jobs.h"

#include "base/hash.h"
#include "fleet/jobs_state.h"

struct parts {
    size_t devices, quota, ledger, jobs, classes, table, active, order, ranks, bases, tenants, gone, scratch, bytes;
};

static size_t take(size_t *used, size_t bytes)
{
    size_t at = *used;

    *used += (bytes + 15) & ~(size_t)15;
    return at;
}

static struct devices_config devices_config_of(const struct jobs_config *config)
{
    return (struct devices_config){.nodes_max = config->nodes_max,
                                   .bases_max = config->bases_max,
                                   .claims_max = config->jobs_max,
                                   .holdings_max = config->holdings_max,
                                   .flavors_max = config->flavors_max,
                                   .sharers_max = config->sharers_max,
                                   .tenants_max = config->tenants_max};
}

static struct quota_config quota_config_of(const struct jobs_config *config)
{
    return (struct quota_config){.tenants_max = config->tenants_max,
                                 .cohorts_max = config->cohorts_max,
                                 .flavors_max = config->flavors_max,
                                 .half_life_ns = config->half_life_ns};
}

static struct ledger_config ledger_config_of(const struct jobs_config *config)
{
    return (struct ledger_config){.gpus_max = config->nodes_max * 16,
                                  .tenants_max = config->tenants_max,
                                  .claims_max = config->jobs_max,
                                  .usage_factor_milli = config->usage_factor_milli,
                                  .memory_milli = 500};
}

static struct parts parts_of(const struct jobs_config *config)
{
    struct devices_config devices = devices_config_of(config);
    struct quota_config quota = quota_config_of(config);
    struct ledger_config ledger = ledger_config_of(config);
    struct parts parts;
    size_t used = 0;

    check(config->jobs_max >= 1 && config->jobs_max <= REQUEST_SLOTS_MAX);
    check(config->flavors_max >= 1 && config->flavors_max <= FLAVORS_MAX);
    check(config->sharers_max >= 1 && config->sharers_max <= SHARERS_MAX);
    check(config->victims_max <= 64);
    check(config->eta_milli[1] == 1000);
    take(&used, sizeof(struct jobs));
    parts.devices = take(&used, devices_bytes(&devices));
    parts.quota = take(&used, quota_bytes(&quota));
    parts.ledger = take(&used, ledger_bytes(&ledger));
    parts.jobs = take(&used, config->jobs_max * sizeof(struct job));
    parts.classes = take(&used, config->jobs_max * sizeof(struct pending_class));
    parts.table = take(&used, table_bytes(config->jobs_max));
    parts.active = take(&used, config->jobs_max * sizeof(uint32_t));
    parts.order = take(&used, config->jobs_max * sizeof(uint32_t));
    parts.ranks = take(&used, config->jobs_max * sizeof(struct order_rank));
    parts.bases = take(&used, config->bases_max * sizeof(struct known_base));
    parts.tenants = take(&used, config->tenants_max * sizeof(struct known_tenant));
    parts.gone = take(&used, config->nodes_max * sizeof(int64_t));
    parts.scratch = take(&used, SCRATCH_JOBS * sizeof(uint32_t));
    parts.bytes = used;
    return parts;
}

size_t jobs_bytes(const struct jobs_config *config)
{
    return parts_of(config).bytes;
}

struct jobs *jobs_create(void *memory, size_t memory_bytes, const struct jobs_config *config)
{
    struct parts parts = parts_of(config);
    struct devices_config devices = devices_config_of(config);
    struct quota_config quota = quota_config_of(config);
    struct ledger_config ledger = ledger_config_of(config);
    unsigned char *bytes = memory;
    struct jobs *jobs = memory;

    check(memory_bytes >= parts.bytes);
    memset(memory, 0, parts.bytes);
    jobs->config = *config;
    jobs->wakeup_at_ns = NEVER_NS;
    jobs->devices = devices_create(bytes + parts.devices, devices_bytes(&devices), &devices);
    jobs->quota = quota_create(bytes + parts.quota, quota_bytes(&quota), &quota);
    jobs->ledger = ledger_create(bytes + parts.ledger, ledger_bytes(&ledger), &ledger);
    jobs->jobs = (void *)(bytes + parts.jobs);
    jobs->classes = (void *)(bytes + parts.classes);
    table_init(&jobs->class_of, bytes + parts.table, config->jobs_max);
    jobs->active = (void *)(bytes + parts.active);
    jobs->order = (void *)(bytes + parts.order);
    jobs->ranks = (void *)(bytes + parts.ranks);
    jobs->bases = (void *)(bytes + parts.bases);
    jobs->tenants = (void *)(bytes + parts.tenants);
    jobs->gone_at_ns = (void *)(bytes + parts.gone);
    jobs->scratch_jobs = (void *)(bytes + parts.scratch);
    jobs->running_head = NONE_INDEX;
    jobs->claim_due = NONE_INDEX;
    pending_init(jobs);
    return jobs;
}

bool has_room(const struct jobs *jobs, uint32_t commands)
{
    return jobs->out->count + commands <= COMMANDS_MAX;
}

/* The command is zeroed; the caller fills its body, and then calls said(). */
struct fleet_command *say(struct jobs *jobs, enum fleet_command_kind kind, uint16_t reason)
{
    struct fleet_command *command;

    check(has_room(jobs, 1));
    command = &jobs->out->items[jobs->out->count++];
    memset(command, 0, sizeof(*command));
    command->id = ++*jobs->said;
    command->kind = (uint16_t)kind;
    command->reason = reason;
    return command;
}

/* The body joins the history. */
static void said(struct jobs *jobs, const struct fleet_command *command)
{
    jobs->history = hash_fold(jobs->history, (uint64_t)command->kind << 16 | command->reason);
    jobs->history = hash_words(jobs->history, command->word, ARRAY_COUNT(command->word));
}

void wake_by(struct jobs *jobs, int64_t at_ns)
{
    jobs->wakeup_at_ns = min_i64(jobs->wakeup_at_ns, max_i64(at_ns, jobs->at_ns));
}

static int64_t slowed_ns(const struct jobs *jobs, int64_t alone_ns, uint32_t sharers)
{
    return (int64_t)((uint128)(uint64_t)alone_ns * sharers * 1000 / jobs->config.eta_milli[sharers]);
}

static bool shares(const struct job *job)
{
    return job->isolation == ISOLATION_MPS || job->isolation == ISOLATION_TIME_SLICE;
}

int64_t job_end_estimate_ns(const struct jobs *jobs, const struct job *job)
{
    /* Whoever may share is taken to share with as many as may come: an estimate that is late, not early. */
    int64_t left_ns = slowed_ns(jobs, job->remaining_ns, shares(job) ? jobs->config.sharers_max : 1);
    int64_t from_ns = job->state == JOB_RUNNING || job->state == JOB_STOPPING ? job->started_at_ns : jobs->at_ns;

    return max_i64(jobs->at_ns, from_ns + left_ns);
}

/* --- what a claim changes, in one place ------------------------------------------------------------------------------ */

static uint32_t gpu_number(const struct devices_place *place, uint16_t gpu)
{
    return (uint32_t)place->node * 16 + gpu;
}

/* Each running job on the GPUs of `place` gets an equal part of their compute. */
static void share_compute(struct jobs *jobs, const struct devices_place *place)
{
    for (uint16_t gpu = 0; gpu < 16; gpu++) {
        uint32_t running = 0;
        uint32_t slot;

        if ((place->gpu_mask >> gpu & 1) == 0)
            continue;
        for (uint32_t i = 0; (slot = devices_job_at(jobs->devices, place->node, gpu, i)) != NONE_INDEX; i++)
            running += jobs->jobs[slot].state == JOB_RUNNING || jobs->jobs[slot].state == JOB_STOPPING;
        for (uint32_t i = 0; (slot = devices_job_at(jobs->devices, place->node, gpu, i)) != NONE_INDEX; i++) {
            bool runs = jobs->jobs[slot].state == JOB_RUNNING || jobs->jobs[slot].state == JOB_STOPPING;

            ledger_compute(jobs->ledger, gpu_number(place, gpu), jobs->at_ns, slot, runs ? 1000 / running : 0);
        }
    }
}

static void tell_unused(struct jobs *jobs, uint32_t tenant)
{
    int64_t unused_milli = 0;

    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++)
        unused_milli +=
            max_i64(0, quota_nominal(jobs->quota, tenant, flavor) - quota_used(jobs->quota, tenant, flavor));
    ledger_unused(jobs->ledger, jobs->at_ns, tenant, unused_milli);
}

static void link_running(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];

    job->running_prev = NONE_INDEX;
    job->running_next = jobs->running_head;
    if (job->running_next != NONE_INDEX)
        jobs->jobs[job->running_next].running_prev = slot;
    jobs->running_head = slot;
    jobs->totals.running++;
}

static void unlink_running(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];

    if (job->running_prev != NONE_INDEX)
        jobs->jobs[job->running_prev].running_next = job->running_next;
    else
        jobs->running_head = job->running_next;
    if (job->running_next != NONE_INDEX)
        jobs->jobs[job->running_next].running_prev = job->running_prev;
    jobs->totals.running--;
}

static void drop_holding(struct jobs *jobs, uint32_t holding)
{
    struct devices_holding about = devices_holding(jobs->devices, holding);
    struct fleet_command *command = say(jobs, FLEET_COMMAND_BASE_DROP, 0);

    command->base_drop.base.value = about.base;
    command->base_drop.node.value = about.node;
    command->base_drop.gpu_mask = about.gpu_mask;
    command->base_drop.bytes = about.bytes;
    said(jobs, command);
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (about.gpu_mask >> gpu & 1)
            ledger_base_off(jobs->ledger, (uint32_t)about.node * 16 + gpu, jobs->at_ns, about.base);
    devices_drop(jobs->devices, holding);
    jobs->totals.base_drops++;
}

static uint32_t begin_load(struct jobs *jobs, const struct job *job, const struct devices_place *place)
{
    const struct known_base *base = &jobs->bases[job->base];
    struct fleet_command *command = say(jobs, FLEET_COMMAND_BASE_LOAD, 0);

    command->base_load.base.value = job->base;
    command->base_load.node.value = place->node;
    command->base_load.gpu_mask = place->gpu_mask;
    command->base_load.bytes = base->bytes;
    said(jobs, command);
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (place->gpu_mask >> gpu & 1)
            ledger_base_on(jobs->ledger, gpu_number(place, gpu), jobs->at_ns, job->base, base->bytes, true);
    jobs->totals.base_loads++;
    return devices_hold(jobs->devices, job->base, base->bytes, place->node, place->gpu_mask, base->load_ns);
}

static void say_place(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct fleet_command *command = say(jobs, FLEET_COMMAND_JOB_PLACE, 0);
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
    said(jobs, command);
    job->state = JOB_PLACING;
}

/* Nobody is stopped for it any more; those who are being stopped are not asked to go on: their checkpoints are made. */
static void forget_victims(struct jobs *jobs, uint32_t slot)
{
    if (jobs->jobs[slot].victims_left > 0) {
        for (uint32_t at = jobs->running_head; at != NONE_INDEX; at = jobs->jobs[at].running_next)
            if (jobs->jobs[at].claimer == slot)
                jobs->jobs[at].claimer = NONE_INDEX;
        jobs->jobs[slot].victims_left = 0;
        jobs->claims_open--;
    }
    reserve_forget(jobs, slot);
}

void job_take_place(struct jobs *jobs, uint32_t slot, const struct devices_place *found)
{
    struct job *job = &jobs->jobs[slot];
    struct devices_ask ask = ask_of(jobs, job);
    struct devices_place place = *found;
    uint32_t victims[64];
    int64_t need_milli = quota_need_milli(jobs, job, &place);

    check(place.victims <= ARRAY_COUNT(victims));
    for (uint32_t i = 0; i < place.victims; i++)
        victims[i] = devices_victim_at(jobs->devices, i);
    for (uint32_t i = 0; i < place.victims; i++)
        drop_holding(jobs, victims[i]);
    pending_remove(jobs, slot);
    forget_victims(jobs, slot);
    job->borrowed = quota_fit(jobs->quota, job->tenant, place.flavor, need_milli) != QUOTA_NOMINAL;
    if (place.kind == PLACE_LOAD && place.slice == 0)
        place.holding = begin_load(jobs, job, &place);
    else if (place.kind == PLACE_RESIDENT)
        jobs->totals.base_hits++;
    job->clear = devices_claim(jobs->devices, slot, &ask, &place);
    quota_take(jobs->quota, job->tenant, place.flavor, need_milli);
    job->quota_milli_per_gpu = (uint16_t)(need_milli / job->gpus);
    tell_unused(jobs, job->tenant);
    job->entry_ns = (int64_t)job->gpus * min_i64(job->remaining_ns, jobs->config.half_life_ns);
    quota_usage_add(jobs->quota, job->tenant, jobs->at_ns, job->entry_ns);
    job->flavor = place.flavor;
    job->place = place;
    job->placed_at_ns = jobs->at_ns;
    job->started_at_ns = NEVER_NS;
    job->attempt++;
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (place.gpu_mask >> gpu & 1)
            ledger_claim_on(jobs->ledger, gpu_number(&place, gpu), jobs->at_ns, slot, job->tenant, job->base,
                            place.slice == 0 ? job->bytes : job->bytes + ask.base_bytes, 0, job->borrowed);
    link_running(jobs, slot);
    job->wait = JOB_WAIT_NONE;
    if (place.kind == PLACE_RESIDENT || place.slice != 0) {
        say_place(jobs, slot);
    } else {
        job->state = JOB_BASE_WAIT;
        job->wait = JOB_WAIT_BASE_LOADING;
    }
}

/* The claim ends, whatever became of the job. Total: nothing here can fail, whatever has changed since it began. */
void job_forget_claim(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct devices_place place = job->place;
    int64_t held_ns = (int64_t)job->gpus * (jobs->at_ns - job->placed_at_ns);

    unlink_running(jobs, slot);
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (place.gpu_mask >> gpu & 1)
            ledger_claim_off(jobs->ledger, gpu_number(&place, gpu), jobs->at_ns, slot);
    devices_release(jobs->devices, slot);
    quota_give(jobs->quota, job->tenant, job->flavor, (int64_t)job->quota_milli_per_gpu * job->gpus);
    tell_unused(jobs, job->tenant);
    /* The advance is taken back as of its own instant, so that it leaves no trace, and what was really held is added. */
    quota_usage_add(jobs->quota, job->tenant, job->placed_at_ns, -job->entry_ns);
    quota_usage_add(jobs->quota, job->tenant, jobs->at_ns, held_ns);
    job->entry_ns = 0;
    job->started_at_ns = NEVER_NS;
    share_compute(jobs, &place);
}

/* --- claimers and their victims ---------------------------------------------------------------------------------------- */

/* The job that `slot` was stopped for has one victim fewer to wait for; the last one lets it in. */
static void victim_left(struct jobs *jobs, uint32_t slot)
{
    struct job *victim = &jobs->jobs[slot];
    struct job *claimer;

    if (victim->claimer == NONE_INDEX)
        return;
    claimer = &jobs->jobs[victim->claimer];
    check(claimer->state == JOB_PENDING && claimer->victims_left > 0);
    if (--claimer->victims_left == 0) {
        jobs->claims_open--;
        jobs->claim_due = victim->claimer;
    }
    victim->claimer = NONE_INDEX;
}

/* Its victims are gone: it starts on what was kept for it, before anybody else is looked at. */
static void let_in(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct devices_place place;

    if (job->state != JOB_PENDING)
        return;
    if (cycle_place_one(jobs, slot, &place))
        return;
    reserve_forget(jobs, slot); /* the plan did not come true: a GPU was lost, or a limit changed */
}

/* --- events ------------------------------------------------------------------------------------------------------------- */

void job_stop(struct jobs *jobs, uint32_t slot, enum job_stop_reason reason, int64_t by_ns)
{
    struct job *job = &jobs->jobs[slot];
    struct fleet_command *command;

    check(job->state == JOB_RUNNING || job->state == JOB_PLACING);
    command = say(jobs, FLEET_COMMAND_JOB_STOP, (uint16_t)reason);
    command->job_stop.job = job->id;
    command->job_stop.by_ns = by_ns;
    said(jobs, command);
    job->state = JOB_STOPPING;
    job->stop_reason = (uint8_t)reason;
    jobs->totals.reclaims += reason == JOB_STOP_RECLAIM;
    jobs->totals.preempts += reason == JOB_STOP_PREEMPT;
    jobs->totals.notices += reason == JOB_STOP_NOTICE;
}

static void refuse(struct jobs *jobs, job_id id, enum job_refuse_reason reason, uint64_t need, uint64_t have)
{
    struct fleet_command *command = say(jobs, FLEET_COMMAND_JOB_REFUSE, (uint16_t)reason);

    command->refuse.request_or_job = id.value;
    command->refuse.need = need;
    command->refuse.have = have;
    said(jobs, command);
    jobs->totals.refused++;
}

/* Spec section 3.7: what may run how. Serving is not a job. */
static bool stage_allows(uint8_t stage, uint8_t isolation)
{
    static const bool allowed[STAGE_COUNT][ISOLATION_COUNT] = {
        [STAGE_TRAIN] = {true, true, true, true},
        [STAGE_EVALUATE] = {true, true, true, true},
        [STAGE_INTERACTIVE] = {true, true, false, true},
    };

    return allowed[stage][isolation];
}

/* What can never be, with the arithmetic; JOB_REFUSE_NONE: it may wait. */
static enum job_refuse_reason never_fits(const struct jobs *jobs, const struct job *job, uint64_t *ret_need, uint64_t *ret_have)
{
    uint64_t bytes = job->bytes + jobs->bases[job->base].bytes;
    int64_t need_milli = quota_need_milli(jobs, job, NULL);
    int64_t ceiling_milli = 0;

    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++)
        if ((jobs->config.spot_flavors >> flavor & 1) == 0 || (job->flags & JOB_SPOT_OK))
            ceiling_milli = max_i64(ceiling_milli, job->flags & JOB_PREEMPTIBLE
                                                       ? quota_ceiling(jobs->quota, job->tenant, flavor)
                                                       : quota_nominal(jobs->quota, job->tenant, flavor));
    *ret_need = (uint64_t)need_milli;
    *ret_have = (uint64_t)ceiling_milli;
    if (need_milli > ceiling_milli)
        return JOB_REFUSE_QUOTA;
    *ret_need = job->gpus;
    *ret_have = jobs->gang_largest;
    if (*ret_need > *ret_have)
        return JOB_REFUSE_GANG;
    *ret_need = bytes;
    if (job->isolation == ISOLATION_MIG) {
        *ret_have = jobs->slice_largest;
        return bytes > *ret_have || job->gpus > 1 ? JOB_REFUSE_ISOLATION : JOB_REFUSE_NONE;
    }
    *ret_have = jobs->bytes_largest;
    return bytes > *ret_have ? JOB_REFUSE_MEMORY : JOB_REFUSE_NONE;
}

static void submit(struct jobs *jobs, const struct fleet_event *event)
{
    uint32_t slot = job_slot(event->job.job);
    enum job_refuse_reason reason;
    struct job *job;
    uint64_t need;
    uint64_t have;

    check(slot < jobs->config.jobs_max);
    job = &jobs->jobs[slot];
    check(job->state == JOB_FREE);
    check(event->job.gpus >= 1 && event->job.size_ns >= 0);
    check(event->job.stage < STAGE_COUNT && event->job.isolation < ISOLATION_COUNT);
    jobs->totals.submitted++;
    if (event->job.tenant.value >= jobs->config.tenants_max || !jobs->tenants[event->job.tenant.value].known) {
        refuse(jobs, event->job.job, JOB_REFUSE_UNKNOWN_TENANT, event->job.tenant.value, jobs->config.tenants_max);
        return;
    }
    if (event->job.base.value >= jobs->config.bases_max || !jobs->bases[event->job.base.value].known) {
        refuse(jobs, event->job.job, JOB_REFUSE_UNKNOWN_BASE, event->job.base.value, jobs->config.bases_max);
        return;
    }
    if (!stage_allows(event->job.stage, event->job.isolation)) {
        refuse(jobs, event->job.job, JOB_REFUSE_STAGE, event->job.stage, event->job.isolation);
        return;
    }
    *job = (struct job){
        .id = event->job.job,
        .size_ns = event->job.size_ns,
        .remaining_ns = event->job.size_ns,
        .runtime_min_ns = event->job.runtime_min_ns,
        .submitted_at_ns = jobs->at_ns,
        .blocked_at_ns = NEVER_NS,
        .started_at_ns = NEVER_NS,
        .bytes = event->job.bytes,
        .tenant = event->job.tenant.value,
        .class = NONE_INDEX,
        .claimer = NONE_INDEX,
        .base = event->job.base.value,
        .gpus = event->job.gpus,
        .rank = event->job.rank,
        .priority = event->job.priority,
        .flags = event->job.flags,
        .stage = event->job.stage,
        .isolation = event->job.isolation,
    };
    reason = never_fits(jobs, job, &need, &have);
    if (reason != JOB_REFUSE_NONE) {
        refuse(jobs, event->job.job, reason, need, have);
        job->state = JOB_FREE;
        return;
    }
    pending_insert(jobs, slot);
    /* Others were tried when something last changed, and nothing has: only its own class can have become placeable. */
    cycle_run(jobs, jobs->cycle_due ? NONE_INDEX : job->class);
}

static struct job *job_at(struct jobs *jobs, job_id id)
{
    struct job *job;

    check(job_slot(id) < jobs->config.jobs_max);
    job = &jobs->jobs[job_slot(id)];
    check(job->state != JOB_FREE && job->id.value == id.value);
    return job;
}

static void started(struct jobs *jobs, const struct fleet_event *event)
{
    struct job *job = job_at(jobs, event->job_progress.job);

    jobs->totals.started++;
    job->started_at_ns = jobs->at_ns;
    if (job->state == JOB_PLACING)
        job->state = JOB_RUNNING;
    else
        check(job->state == JOB_STOPPING); /* stopped while it was starting */
    share_compute(jobs, &job->place);
}

static void keep_progress(struct jobs *jobs, struct job *job, int64_t done_ns)
{
    (void)jobs;
    check(done_ns >= job->size_ns - job->remaining_ns); /* what is durable stays so */
    job->remaining_ns = max_i64(0, job->size_ns - done_ns);
}

/* Back to the queue, at its place: its id is its age. */
static void requeue(struct jobs *jobs, uint32_t slot)
{
    job_forget_claim(jobs, slot);
    victim_left(jobs, slot);
    pending_insert(jobs, slot);
}

static void end(struct jobs *jobs, uint32_t slot)
{
    job_forget_claim(jobs, slot);
    victim_left(jobs, slot);
    jobs->jobs[slot].state = JOB_FREE;
}

static void after_release(struct jobs *jobs)
{
    if (jobs->claim_due != NONE_INDEX) {
        uint32_t slot = jobs->claim_due;

        jobs->claim_due = NONE_INDEX;
        let_in(jobs, slot);
    }
    cycle_run(jobs, NONE_INDEX);
}

static void yielded(struct jobs *jobs, const struct fleet_event *event)
{
    struct job *job = job_at(jobs, event->job_progress.job);
    uint32_t slot = job_slot(job->id);

    check(job->state == JOB_STOPPING);
    keep_progress(jobs, job, event->job_progress.done_ns);
    if (job->cancelled) {
        jobs->totals.cancelled++;
        end(jobs, slot);
    } else {
        requeue(jobs, slot);
    }
    after_release(jobs);
}

static void ended(struct jobs *jobs, const struct fleet_event *event)
{
    struct job *job = job_at(jobs, event->job_progress.job);
    uint32_t slot = job_slot(job->id);

    check(job->state == JOB_RUNNING || job->state == JOB_PLACING || job->state == JOB_STOPPING ||
          job->state == JOB_BASE_WAIT);
    switch ((enum job_end_reason)event->reason) {
    case JOB_SUCCEEDED:
        jobs->totals.succeeded++;
        end(jobs, slot);
        break;
    case JOB_FAILED:
        jobs->totals.failed++;
        end(jobs, slot);
        break;
    case JOB_LOST:
        jobs->totals.lost++;
        keep_progress(jobs, job, event->job_progress.done_ns);
        if (job->cancelled) {
            jobs->totals.cancelled++;
            end(jobs, slot);
        } else {
            requeue(jobs, slot);
        }
        break;
    }
    after_release(jobs);
}

static void cancel(struct jobs *jobs, const struct fleet_event *event)
{
    struct job *job = job_at(jobs, event->job_progress.job);
    uint32_t slot = job_slot(job->id);

    switch ((enum job_state)job->state) {
    case JOB_PENDING:
        forget_victims(jobs, slot);
        pending_remove(jobs, slot);
        job->state = JOB_FREE;
        jobs->totals.cancelled++;
        cycle_run(jobs, NONE_INDEX); /* what was kept for it is open again */
        break;
    case JOB_BASE_WAIT:
        jobs->totals.cancelled++;
        end(jobs, slot);
        after_release(jobs);
        break;
    case JOB_PLACING:
    case JOB_RUNNING:
        job->cancelled = true;
        job_stop(jobs, slot, JOB_STOP_CANCEL, NEVER_NS);
        break;
    case JOB_STOPPING:
        job->cancelled = true;
        break;
    case JOB_FREE:
        break;
    }
}

static void base_loaded(struct jobs *jobs, const struct fleet_event *event)
{
    uint16_t node = event->base_loaded.node.value;
    uint16_t mask = event->base_loaded.gpu_mask;
    uint16_t base = event->base_loaded.base.value;
    uint32_t holding = devices_holding_at(jobs->devices, node, mask, base);
    uint32_t first = (uint32_t)__builtin_ctz(mask);

    check(holding != NONE_INDEX);
    if (event->reason == 0) {
        devices_loaded(jobs->devices, holding);
        for (uint16_t gpu = 0; gpu < 16; gpu++)
            if (mask >> gpu & 1)
                ledger_base_ready(jobs->ledger, (uint32_t)node * 16 + gpu, jobs->at_ns, base);
        for (uint32_t i = 0, slot; (slot = devices_job_at(jobs->devices, node, (uint16_t)first, i)) != NONE_INDEX; i++)
            if (jobs->jobs[slot].state == JOB_BASE_WAIT && jobs->jobs[slot].base == base) {
                jobs->jobs[slot].wait = JOB_WAIT_NONE;
                say_place(jobs, slot);
            }
    } else {
        for (uint32_t i = 0, slot; (slot = devices_job_at(jobs->devices, node, (uint16_t)first, i)) != NONE_INDEX;) {
            if (jobs->jobs[slot].state == JOB_BASE_WAIT && jobs->jobs[slot].base == base)
                requeue(jobs, slot); /* the list is shorter now: the same i again */
            else
                i++;
        }
        drop_holding(jobs, holding);
    }
    after_release(jobs);
}

static void gpus_up(struct jobs *jobs, const struct fleet_event *event)
{
    devices_up(jobs->devices, event->gpus.node.value, event->gpus.gpu_mask, event->gpus.flavor, event->gpus.model,
               event->gpus.bytes);
    jobs->bytes_largest = max_u64(jobs->bytes_largest, devices_bytes_largest(jobs->devices));
    jobs->slice_largest = max_u64(jobs->slice_largest, devices_slice_largest(jobs->devices));
    jobs->gang_largest = max_u32(jobs->gang_largest, devices_gang_largest(jobs->devices));
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (event->gpus.gpu_mask >> gpu & 1)
            ledger_gpu_up(jobs->ledger, (uint32_t)event->gpus.node.value * 16 + gpu, jobs->at_ns,
                          event->gpus.price_nano_per_hour, event->gpus.bytes);
    cycle_run(jobs, NONE_INDEX);
}

static bool stands_on_closed(const struct jobs *jobs, const struct job *job)
{
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if ((job->place.gpu_mask >> gpu & 1) && !devices_gpu_open(jobs->devices, job->place.node, gpu))
            return true;
    return false;
}

/* Whoever is on GPUs that will be gone is stopped; those who wait for a base there go back to the queue. */
static void leave_closed(struct jobs *jobs)
{
    uint32_t next;

    jobs->leave_due = false;
    for (uint32_t slot = jobs->running_head; slot != NONE_INDEX; slot = next) {
        struct job *job = &jobs->jobs[slot];

        next = job->running_next;
        if (!stands_on_closed(jobs, job))
            continue;
        if (job->state == JOB_BASE_WAIT) {
            requeue(jobs, slot);
        } else if (job->state == JOB_RUNNING || job->state == JOB_PLACING) {
            if (!has_room(jobs, 1)) {
                jobs->leave_due = true;
                return;
            }
            job_stop(jobs, slot, JOB_STOP_NOTICE, jobs->gone_at_ns[job->place.node]);
        }
    }
}

static void gpus_notice(struct jobs *jobs, const struct fleet_event *event)
{
    check(event->gpus.node.value < jobs->config.nodes_max);
    jobs->gone_at_ns[event->gpus.node.value] = event->gpus.gone_at_ns;
    devices_close(jobs->devices, event->gpus.node.value, event->gpus.gpu_mask);
    leave_closed(jobs);
    after_release(jobs);
}

/* The host has told of every job that was there (JOB_ENDED, lost) and every load (BASE_LOADED, failed) before. */
static void gpus_gone(struct jobs *jobs, const struct fleet_event *event)
{
    uint16_t node = event->gpus.node.value;

    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (event->gpus.gpu_mask >> gpu & 1)
            ledger_gpu_down(jobs->ledger, (uint32_t)node * 16 + gpu, jobs->at_ns);
    check(devices_gone(jobs->devices, node, event->gpus.gpu_mask, jobs->scratch_jobs, SCRATCH_JOBS) == 0);
    cycle_run(jobs, NONE_INDEX);
}

static void know_base(struct jobs *jobs, const struct fleet_event *event)
{
    struct known_base *base;

    check(event->base_known.base.value < jobs->config.bases_max);
    base = &jobs->bases[event->base_known.base.value];
    base->bytes = event->base_known.bytes;
    base->load_ns = event->base_known.load_ns;
    base->gpus = event->base_known.gpus;
    base->known = true;
}

static void know_tenant(struct jobs *jobs, const struct fleet_event *event)
{
    uint32_t tenant = event->tenant.tenant;

    check(tenant < jobs->config.tenants_max);
    quota_set_tenant(jobs->quota, tenant, event->tenant.cohort, event->tenant.flavor, event->tenant.weight_milli,
                     event->tenant.nominal_milli, event->tenant.borrowing_milli, event->tenant.lending_milli);
    jobs->tenants[tenant].known = true;
    jobs->tenants[tenant].trusted = (event->tenant.flags & TENANT_TRUSTED) != 0;
    tell_unused(jobs, tenant);
    cycle_run(jobs, NONE_INDEX);
}

void jobs_step(struct jobs *jobs, const struct fleet_event *event, uint64_t *commands_said, struct fleet_commands *out)
{
    jobs->at_ns = event->at_ns;
    jobs->out = out;
    jobs->said = commands_said;
    if (jobs->wakeup_at_ns <= jobs->at_ns)
        jobs->wakeup_at_ns = NEVER_NS;
    switch ((enum fleet_event_kind)event->kind) {
    case FLEET_EVENT_BASE_KNOWN:
        know_base(jobs, event);
        break;
    case FLEET_EVENT_COHORT:
        quota_set_cohort(jobs->quota, event->cohort.tenant, event->cohort.cohort, event->cohort.flavor,
                         event->cohort.weight_milli, event->cohort.nominal_milli, event->cohort.borrowing_milli,
                         event->cohort.lending_milli);
        cycle_run(jobs, NONE_INDEX);
        break;
    case FLEET_EVENT_TENANT:
        know_tenant(jobs, event);
        break;
    case FLEET_EVENT_GPUS_UP:
        gpus_up(jobs, event);
        break;
    case FLEET_EVENT_GPUS_NOTICE:
        gpus_notice(jobs, event);
        break;
    case FLEET_EVENT_GPUS_GONE:
        gpus_gone(jobs, event);
        break;
    case FLEET_EVENT_JOB:
        submit(jobs, event);
        break;
    case FLEET_EVENT_JOB_CANCEL:
        cancel(jobs, event);
        break;
    case FLEET_EVENT_JOB_STARTED:
        started(jobs, event);
        break;
    case FLEET_EVENT_JOB_CHECKPOINTED:
        keep_progress(jobs, job_at(jobs, event->job_progress.job), event->job_progress.done_ns);
        break;
    case FLEET_EVENT_JOB_YIELDED:
        yielded(jobs, event);
        break;
    case FLEET_EVENT_JOB_ENDED:
        ended(jobs, event);
        break;
    case FLEET_EVENT_BASE_LOADED:
        base_loaded(jobs, event);
        break;
    case FLEET_EVENT_TICK:
        if (jobs->leave_due)
            leave_closed(jobs);
        cycle_run(jobs, NONE_INDEX);
        break;
    default:
        check(false && "not an event of jobs");
    }
    if (jobs->cycle_due || jobs->leave_due)
        wake_by(jobs, jobs->at_ns);
}

int64_t jobs_wakeup_at_ns(const struct jobs *jobs)
{
    return jobs->wakeup_at_ns;
}

struct job_view jobs_view(const struct jobs *jobs, job_id id)
{
    const struct job *job;

    check(job_slot(id) < jobs->config.jobs_max);
    job = &jobs->jobs[job_slot(id)];
    if (job->state == JOB_FREE || job->id.value != id.value)
        return (struct job_view){.reserved_for = NONE_INDEX};
    return (struct job_view){
        .id = job->id,
        .state = (enum job_state)job->state,
        .wait = (enum job_wait)job->wait,
        .reserved_for = NONE_INDEX,
        .submitted_at_ns = job->submitted_at_ns,
        .remaining_ns = job->remaining_ns,
        .attempt = job->attempt,
        .tenant = job->tenant,
        .flavor = job->flavor,
        .borrowed = job->borrowed,
    };
}

struct jobs_totals jobs_totals(const struct jobs *jobs)
{
    return jobs->totals;
}

void jobs_book(struct jobs *jobs, uint32_t account, enum charge_component component, int64_t amount_nano)
{
    ledger_book(jobs->ledger, account, component, amount_nano);
}

const struct ledger *jobs_settle(struct jobs *jobs, int64_t at_ns)
{
    ledger_settle(jobs->ledger, at_ns);
    return jobs->ledger;
}

const struct devices *jobs_devices(const struct jobs *jobs)
{
    return jobs->devices;
}

const struct quota *jobs_quota(const struct jobs *jobs)
{
    return jobs->quota;
}
