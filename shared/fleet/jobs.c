/* A job's life: submitted and checked at once, pending, waiting for its base, placed, running, stopped and back at its place in
 * the queue, ended; and what else happens to the fleet. After each event that may have changed who can start, a cycle. */
#include "fleet/jobs.h"

#include "base/hash.h"
#include "fleet/jobs_state.h"

struct parts {
    size_t devices, quota, ledger, jobs, classes, shapes, kinds, class_table, shape_table, kind_table, active, tenants_active, order, ranks, bases,
        tenants, gone, reserved, scratch, bytes;
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
                                   .claims_max = config->jobs_max + config->serve_max,
                                   .holdings_max = config->holdings_max,
                                   .flavors_max = config->flavors_max,
                                   .sharers_max = config->sharers_max,
                                   .tenants_max = config->tenants_max + (config->serve_max > 0)};
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
                                  .claims_max = config->jobs_max + config->serve_max,
                                  .usage_factor_milli = config->usage_factor_milli,
                                  .memory_milli = 500,
                                  /* Any holding may lie on all of a node's GPUs. */
                                  .bases_per_gpu_max = (uint32_t)div_up_u64(config->holdings_max, config->nodes_max)};
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
    check(config->holdings_max < LEDGER_NO_BASE);
    check(config->victims_max <= VICTIMS_MAX);
    check(config->eta_milli[1] == 1000);
    for (uint32_t k = 1; k <= config->sharers_max; k++)
        check(config->eta_milli[k] >= 1);
    check(config->preempt_delay_ns >= 0);
    check(config->order != NULL && config->place != NULL);
    take(&used, sizeof(struct jobs));
    parts.devices = take(&used, devices_bytes(&devices));
    parts.quota = take(&used, quota_bytes(&quota));
    parts.ledger = take(&used, ledger_bytes(&ledger));
    parts.jobs = take(&used, (config->jobs_max + config->serve_max) * sizeof(struct job));
    parts.classes = take(&used, config->jobs_max * sizeof(struct pending_class));
    parts.shapes = take(&used, config->jobs_max * sizeof(struct pending_shape));
    parts.kinds = take(&used, config->jobs_max * sizeof(struct pending_kind));
    parts.class_table = take(&used, table_bytes(config->jobs_max));
    parts.shape_table = take(&used, table_bytes(config->jobs_max));
    parts.kind_table = take(&used, table_bytes(config->jobs_max));
    parts.active = take(&used, config->jobs_max * sizeof(uint32_t));
    parts.tenants_active = take(&used, config->tenants_max * sizeof(uint32_t));
    parts.order = take(&used, config->jobs_max * sizeof(uint32_t));
    parts.ranks = take(&used, config->jobs_max * sizeof(struct order_rank));
    parts.bases = take(&used, config->bases_max * sizeof(struct known_base));
    parts.tenants = take(&used, config->tenants_max * sizeof(struct known_tenant));
    parts.gone = take(&used, config->nodes_max * sizeof(int64_t));
    parts.reserved = take(&used, config->reservations_max * sizeof(uint32_t));
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
    jobs->shapes = (void *)(bytes + parts.shapes);
    table_init(&jobs->class_of, bytes + parts.class_table, config->jobs_max);
    table_init(&jobs->shape_of, bytes + parts.shape_table, config->jobs_max);
    jobs->kinds = (void *)(bytes + parts.kinds);
    table_init(&jobs->kind_of, bytes + parts.kind_table, config->jobs_max);
    jobs->shapes_active = (void *)(bytes + parts.active);
    jobs->tenants_active = (void *)(bytes + parts.tenants_active);
    jobs->order = (void *)(bytes + parts.order);
    jobs->ranks = (void *)(bytes + parts.ranks);
    jobs->bases = (void *)(bytes + parts.bases);
    jobs->tenants = (void *)(bytes + parts.tenants);
    jobs->gone_at_ns = (void *)(bytes + parts.gone);
    jobs->reserved = (void *)(bytes + parts.reserved);
    jobs->scratch_jobs = (void *)(bytes + parts.scratch);
    jobs->placed_head = jobs->placed_tail = NONE_INDEX;
    jobs->hope_at_ns = NEVER_NS;
    jobs->hopes = 1;
    pending_init(jobs);
    return jobs;
}

/* --- events ------------------------------------------------------------------------------------------------------------- */

void job_stop(struct jobs *jobs, uint32_t slot, enum job_stop_reason reason, int64_t by_ns)
{
    struct job *job = &jobs->jobs[slot];
    struct fleet_command *command;

    check(job->state == JOB_RUNNING || job->state == JOB_PLACING);
    if (job->stage == STAGE_SERVE) {
        serve_stop(jobs, slot, reason);
        return;
    }
    command = jobs_say(jobs, FLEET_COMMAND_JOB_STOP, (uint16_t)reason);
    command->job_stop.job = job->id;
    command->job_stop.by_ns = by_ns;
    jobs_said(jobs, command);
    job->state = JOB_STOPPING;
    jobs->stopping++;
    jobs->totals.reclaims += reason == JOB_STOP_RECLAIM;
    jobs->totals.preempts += reason == JOB_STOP_PREEMPT;
    jobs->totals.notices += reason == JOB_STOP_NOTICE;
    jobs->totals.serving_stops += reason == JOB_STOP_SHARED_POOL;
}

static void refuse(struct jobs *jobs, job_id id, enum job_refuse_reason reason, uint64_t need, uint64_t have)
{
    struct fleet_command *command = jobs_say(jobs, FLEET_COMMAND_JOB_REFUSE, (uint16_t)reason);

    command->refuse.request_or_job = id.value;
    command->refuse.need = need;
    command->refuse.have = have;
    jobs_said(jobs, command);
    jobs->totals.refused++;
}

/* Training in turns is for small jobs. */
#define TIME_SLICE_TRAIN_MAX_NS (3600 * NS_PER_S)

/* Spec section 3.7: what may run how. Serving is not a job. Sessions promise a person an answer: no neighbours' faults. */
static bool stage_allows(uint8_t stage, uint8_t isolation, int64_t size_ns)
{
    static const bool allowed[STAGE_COUNT][ISOLATION_COUNT] = {
        [STAGE_TRAIN] = {true, true, true, true},
        [STAGE_EVALUATE] = {true, true, true, true},
        [STAGE_INTERACTIVE] = {true, true, false, true},
    };

    if (stage == STAGE_TRAIN && isolation == ISOLATION_TIME_SLICE && size_ns > TIME_SLICE_TRAIN_MAX_NS)
        return false;
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

/* What a job names must be known. */
static enum job_refuse_reason unknown(const struct jobs *jobs, const struct fleet_event *event, uint64_t *ret_need, uint64_t *ret_have)
{
    *ret_need = event->job.tenant.value;
    *ret_have = jobs->config.tenants_max;
    if (event->job.tenant.value >= jobs->config.tenants_max || !jobs->tenants[event->job.tenant.value].known)
        return JOB_REFUSE_UNKNOWN_TENANT;
    *ret_need = event->job.base.value;
    *ret_have = jobs->config.bases_max;
    if (event->job.base.value >= jobs->config.bases_max || !jobs->bases[event->job.base.value].known)
        return JOB_REFUSE_UNKNOWN_BASE;
    return JOB_REFUSE_NONE;
}

/* At its place: its id is its age. */
static void enqueue(struct jobs *jobs, uint32_t slot)
{
    jobs->jobs[slot].state = JOB_PENDING;
    jobs->jobs[slot].waits_from_ns = jobs->at_ns;
    jobs->totals.pending++;
    pending_insert(jobs, slot);
}

static void submit(struct jobs *jobs, const struct fleet_event *event)
{
    uint32_t slot = job_slot(event->job.job);
    enum job_refuse_reason reason;
    struct job *job;
    uint64_t need;
    uint64_t have;
    bool paid;

    check(slot < jobs->config.jobs_max);
    job = &jobs->jobs[slot];
    check(job->state == JOB_FREE);
    check(event->job.gpus >= 1 && event->job.size_ns >= 0 && event->job.runtime_min_ns >= 0);
    check(event->job.stage < STAGE_COUNT && event->job.isolation < ISOLATION_COUNT);
    jobs->totals.submitted++;
    reason = unknown(jobs, event, &need, &have);
    if (reason != JOB_REFUSE_NONE && jobs->restoring) {
        *job = (struct job){.id = event->job.job, .tenant = event->job.tenant.value, .base = event->job.base.value, .refusal = (uint8_t)reason};
        jobs->restore_due = true;
        return;
    }
    if (reason != JOB_REFUSE_NONE) {
        refuse(jobs, event->job.job, reason, need, have);
        return;
    }
    if (!jobs->restoring && !stage_allows(event->job.stage, event->job.isolation, event->job.size_ns)) {
        refuse(jobs, event->job.job, JOB_REFUSE_STAGE, event->job.stage, event->job.isolation);
        return;
    }
    *job = (struct job){
        .id = event->job.job,
        .size_ns = event->job.size_ns,
        .remaining_ns = event->job.size_ns,
        .runtime_min_ns = event->job.runtime_min_ns,
        .deadline_at_ns = event->job.deadline_at_ns,
        .submitted_at_ns = jobs->at_ns,
        .started_at_ns = NEVER_NS,
        .bytes = event->job.bytes,
        .tenant = event->job.tenant.value,
        .class = NONE_INDEX,
        .claimer = NONE_INDEX,
        .claimer_at = NONE_INDEX,
        .base = event->job.base.value,
        .gpus = event->job.gpus,
        .rank = event->job.rank,
        .priority = event->job.priority,
        .flags = event->job.flags,
        .stage = event->job.stage,
        .isolation = event->job.isolation,
        .trusted = jobs->tenants[event->job.tenant.value].trusted,
    };
    reason = jobs->restoring ? JOB_REFUSE_NONE : never_fits(jobs, job, &need, &have);
    if (reason != JOB_REFUSE_NONE) {
        refuse(jobs, event->job.job, reason, need, have);
        job->state = JOB_FREE;
        return;
    }
    paid = base_pays(jobs, job->base);
    enqueue(jobs, slot);
    /* Others were tried when something last changed, and nothing has: only its own class can have become placeable. Unless its
     * work makes a load pay, or it brings others a base, or a GPU to share, or drops what stood in the way. */
    cycle_run(jobs, jobs->cycle_due || paid != base_pays(jobs, job->base) ? NONE_INDEX : job->class);
    if (job->state != JOB_PENDING)
        cycle_run(jobs, NONE_INDEX);
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
    if (job_at(jobs, event->job_progress.job)->state == JOB_STRAY)
        return; /* it was told to stop */
    jobs->totals.started++;
    job_started(jobs, job_slot(job_at(jobs, event->job_progress.job)->id));
    /* It is one that could be stopped from now on. */
    claims_hope(jobs);
    serve_run(jobs);
    if (jobs->totals.pending > 0)
        claims_run(jobs, NONE_INDEX);
}

static void keep_progress(struct job *job, int64_t done_ns)
{
    check(done_ns >= job->size_ns - job->remaining_ns); /* what is durable stays so */
    job->remaining_ns = max_i64(0, job->size_ns - done_ns);
}

static void leave(struct jobs *jobs, uint32_t slot)
{
    if (jobs->jobs[slot].state == JOB_STRAY) {
        stray_left(jobs, slot);
        return;
    }
    job_leave_place(jobs, slot);
    claim_victim_left(jobs, slot);
}

void job_requeue(struct jobs *jobs, uint32_t slot)
{
    if (jobs->jobs[slot].stage == STAGE_SERVE) {
        serve_requeue(jobs, slot);
        return;
    }
    leave(jobs, slot);
    enqueue(jobs, slot);
}

static void end(struct jobs *jobs, uint32_t slot)
{
    leave(jobs, slot);
    jobs->jobs[slot].state = JOB_FREE;
}

void jobs_after_release(struct jobs *jobs)
{
    claims_hope(jobs);
    cycle_run(jobs, NONE_INDEX);
}

static void yielded(struct jobs *jobs, const struct fleet_event *event)
{
    struct job *job = job_at(jobs, event->job_progress.job);
    uint32_t slot = job_slot(job->id);

    check(job->state == JOB_STOPPING || job->state == JOB_STRAY);
    keep_progress(job, event->job_progress.done_ns);
    if (job->cancelled) {
        jobs->totals.cancelled++;
        end(jobs, slot);
    } else {
        job_requeue(jobs, slot);
    }
    jobs_after_release(jobs);
}

static void ended(struct jobs *jobs, const struct fleet_event *event)
{
    struct job *job = job_at(jobs, event->job_progress.job);
    uint32_t slot = job_slot(job->id);

    check(job->state == JOB_RUNNING || job->state == JOB_PLACING || job->state == JOB_STOPPING ||
          job->state == JOB_BASE_WAIT || job->state == JOB_STRAY);
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
        keep_progress(job, event->job_progress.done_ns);
        if (job->cancelled) {
            jobs->totals.cancelled++;
            end(jobs, slot);
        } else {
            job_requeue(jobs, slot);
        }
        break;
    }
    jobs_after_release(jobs);
}

static void cancel(struct jobs *jobs, const struct fleet_event *event)
{
    struct job *job = job_at(jobs, event->job_progress.job);
    uint32_t slot = job_slot(job->id);

    switch ((enum job_state)job->state) {
    case JOB_PENDING:
        reserve_forget(jobs, slot);
        if (job->claimer_at != NONE_INDEX)
            claim_forget(jobs, slot);
        else
            pending_remove(jobs, slot);
        job->state = JOB_FREE;
        jobs->totals.pending--;
        jobs->totals.cancelled++;
        cycle_run(jobs, NONE_INDEX); /* what was kept for it is open again */
        break;
    case JOB_BASE_WAIT:
        jobs->totals.cancelled++;
        end(jobs, slot);
        jobs_after_release(jobs);
        break;
    case JOB_PLACING:
    case JOB_RUNNING:
        job->cancelled = true;
        job_stop(jobs, slot, JOB_STOP_CANCEL, NEVER_NS);
        break;
    case JOB_STOPPING:
    case JOB_STRAY:
        job->cancelled = true;
        break;
    case JOB_FREE:
        break;
    }
}

void jobs_enter(struct jobs *jobs, int64_t at_ns, uint64_t *said, struct fleet_commands *out)
{
    jobs->at_ns = at_ns;
    jobs->version++;
    jobs->out = out;
    jobs->said = said;
    if (jobs->hope_at_ns <= jobs->at_ns) {
        jobs->hope_at_ns = NEVER_NS;
        claims_hope(jobs);
    }
}

void jobs_leave(struct jobs *jobs)
{
    if (jobs->cycle_due || jobs->leave_due || jobs->restore_due)
        jobs_wake_by(jobs, jobs->at_ns);
}

void jobs_step(struct jobs *jobs, const struct fleet_event *event, uint64_t *commands_said, struct fleet_commands *out)
{
    jobs_enter(jobs, event->at_ns, commands_said, out);
    switch ((enum fleet_event_kind)event->kind) {
    case FLEET_EVENT_BASE_KNOWN:
        base_known(jobs, event);
        break;
    case FLEET_EVENT_COHORT:
        quota_set_cohort(jobs->quota, event->cohort.tenant, event->cohort.cohort, event->cohort.flavor,
                         event->cohort.weight_milli, event->cohort.nominal_milli, event->cohort.borrowing_milli,
                         event->cohort.lending_milli);
        jobs->version++;
        claims_hope(jobs);
        cycle_run(jobs, NONE_INDEX);
        break;
    case FLEET_EVENT_TENANT:
        tenant_known(jobs, event);
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
        keep_progress(job_at(jobs, event->job_progress.job), event->job_progress.done_ns);
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
    case FLEET_EVENT_RESTORE:
        restore_begin(jobs, event);
        break;
    case FLEET_EVENT_TENANT_USAGE:
        quota_usage_restore(jobs->quota, event->tenant_usage.tenant.value, min_i64(event->tenant_usage.as_of_ns, jobs->at_ns),
                            event->tenant_usage.gpu_ns, event->tenant_usage.fraction);
        jobs->version++;
        break;
    case FLEET_EVENT_BASE_FOUND:
        restore_base(jobs, event);
        break;
    case FLEET_EVENT_JOB_KEPT:
        restore_kept(jobs, event);
        break;
    case FLEET_EVENT_JOB_FOUND:
        restore_job(jobs, event);
        break;
    case FLEET_EVENT_MEMORY_FOUND:
        devices_memory_found(jobs->devices, event->memory_found.node.value, event->memory_found.gpu, event->memory_found.tenants);
        break;
    case FLEET_EVENT_RESTORE_DONE:
        restore_done(jobs);
        break;
    case FLEET_EVENT_TICK:
        /* Only a tick takes the wake-up: another event at its instant does not look at all that it was set for. */
        if (jobs->wakeup_at_ns <= jobs->at_ns)
            jobs->wakeup_at_ns = NEVER_NS;
        if (jobs->restore_due)
            restore_tell(jobs);
        if (jobs->leave_due)
            jobs_leave_closed(jobs);
        cycle_run(jobs, NONE_INDEX);
        break;
    default:
        check(false && "not an event of jobs");
    }
    jobs_leave(jobs);
}

int64_t jobs_wakeup_at_ns(const struct jobs *jobs)
{
    return jobs->wakeup_at_ns;
}
