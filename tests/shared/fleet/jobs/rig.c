#include "rig.h"

#include <stdlib.h>

void rig_init(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    rig->check = true;
    rig->config = (struct fleet_config){
        .salt = 1, .replicas_max = 1, .nodes_max = 4, .bases_max = 4, .adapters_max = 1, .requests_max = 1,
        .route = &route_round_robin, .bound_milli = 1250, .bound_add = 4, .hot_share_milli = 500, .cool_milli = 750,
        .rate_half_life_ns = MINUTE,
        .jobs = {.jobs_max = RIG_JOBS, .tenants_max = 8, .cohorts_max = 4, .bases_max = 4, .nodes_max = 4,
                 .holdings_max = 64, .flavors_max = 1, .sharers_max = 2,
                 .eta_milli = {0, 1000, 1150, 1200, 1250, 1250, 1250, 1250, 1250},
                 .order = &order_fifo, .place = &place_residency, .half_life_ns = 24 * HOUR, .usage_factor_milli = 1000,
                 .payback_milli = 1000, .preempt_delay_ns = 0, .victims_max = 16, .reservations_max = 1}};
}

void rig_open(struct rig *rig)
{
    size_t bytes = fleet_bytes(&rig->config);

    rig->memory = aligned_alloc(16, (bytes + 15) & ~(size_t)15);
    assert_non_null(rig->memory);
    rig->fleet = fleet_create(rig->memory, bytes, &rig->config);
}

void rig_close(struct rig *rig)
{
    free(rig->memory);
}

static void keep(struct rig *rig, const struct fleet_command *command)
{
    assert_true(rig->said_count < ARRAY_COUNT(rig->said));
    rig->said[rig->said_count++] = *command;
    if (command->kind != FLEET_COMMAND_JOB_PLACE && command->kind != FLEET_COMMAND_JOB_STOP &&
        command->kind != FLEET_COMMAND_BASE_LOAD && command->kind != FLEET_COMMAND_REPLICA_START &&
        command->kind != FLEET_COMMAND_REPLICA_DRAIN)
        return;
    for (uint32_t i = 0; i < RIG_ASKED; i++) {
        if (!rig->asked[i].open) {
            rig->asked[i] = (struct rig_asked){*command, true};
            return;
        }
    }
    fail_msg("more than %d commands are open", RIG_ASKED);
}

static void step_once(struct rig *rig, struct fleet_event *event)
{
    event->at_ns = rig->at_ns;
    event->seq = ++rig->seq;
    fleet_step(rig->fleet, event, &rig->out);
    for (uint32_t i = 0; i < rig->out.count; i++) {
        const struct fleet_command *command = &rig->out.items[i];

        keep(rig, command);
        if (command->kind == FLEET_COMMAND_JOB_REFUSE)
            rig->slots[job_slot((job_id){command->refuse.request_or_job})] = false;
    }
    if (rig->check)
        fleet_check(rig->fleet);
}

static void tick_while_due(struct rig *rig)
{
    while (fleet_wakeup_at_ns(rig->fleet) <= rig->at_ns) {
        struct fleet_event tick;

        memset(&tick, 0, sizeof(tick));
        tick.kind = FLEET_EVENT_TICK;
        step_once(rig, &tick);
    }
}

void rig_step(struct rig *rig, struct fleet_event *event)
{
    rig->said_count = 0;
    step_once(rig, event);
    tick_while_due(rig);
}

static struct fleet_event event_of(enum fleet_event_kind kind)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint16_t)kind;
    return event;
}

void rig_cohort(struct rig *rig, uint32_t cohort, uint32_t parent, int64_t nominal_milli)
{
    struct fleet_event event = event_of(FLEET_EVENT_COHORT);

    event.cohort.tenant = cohort;
    event.cohort.cohort = parent;
    event.cohort.weight_milli = 1000;
    event.cohort.nominal_milli = nominal_milli;
    event.cohort.borrowing_milli = QUOTA_UNLIMITED;
    event.cohort.lending_milli = QUOTA_UNLIMITED;
    rig_step(rig, &event);
}

void rig_tenant(struct rig *rig, uint32_t tenant, uint32_t cohort, int64_t nominal_milli, int64_t borrowing_milli,
                int64_t lending_milli)
{
    struct fleet_event event = event_of(FLEET_EVENT_TENANT);

    event.tenant.tenant = tenant;
    event.tenant.cohort = cohort;
    event.tenant.weight_milli = 1000;
    event.tenant.nominal_milli = nominal_milli;
    event.tenant.borrowing_milli = borrowing_milli;
    event.tenant.lending_milli = lending_milli;
    event.tenant.flags = TENANT_TRUSTED;
    rig_step(rig, &event);
}

void rig_cohort_in(struct rig *rig, uint32_t cohort, uint16_t flavor, int64_t nominal_milli)
{
    struct fleet_event event = event_of(FLEET_EVENT_COHORT);

    event.cohort.tenant = cohort;
    event.cohort.cohort = NO_COHORT;
    event.cohort.weight_milli = 1000;
    event.cohort.nominal_milli = nominal_milli;
    event.cohort.borrowing_milli = QUOTA_UNLIMITED;
    event.cohort.lending_milli = QUOTA_UNLIMITED;
    event.cohort.flavor = flavor;
    rig_step(rig, &event);
}

void rig_tenant_in(struct rig *rig, uint32_t tenant, uint32_t cohort, uint16_t flavor, int64_t nominal_milli)
{
    struct fleet_event event = event_of(FLEET_EVENT_TENANT);

    event.tenant.tenant = tenant;
    event.tenant.cohort = cohort;
    event.tenant.weight_milli = 1000;
    event.tenant.nominal_milli = nominal_milli;
    event.tenant.borrowing_milli = event.tenant.lending_milli = QUOTA_UNLIMITED;
    event.tenant.flavor = flavor;
    event.tenant.flags = TENANT_TRUSTED;
    rig_step(rig, &event);
}

void rig_base(struct rig *rig, uint16_t base, uint64_t bytes, uint16_t gpus, int64_t load_ns)
{
    struct fleet_event event = event_of(FLEET_EVENT_BASE_KNOWN);

    event.base_known.base.value = base;
    event.base_known.bytes = bytes;
    event.base_known.gpus = gpus;
    event.base_known.load_ns = load_ns;
    rig_step(rig, &event);
}

static void node_up(struct rig *rig, uint16_t node, uint32_t gpus, uint64_t bytes, uint16_t flavor)
{
    struct fleet_event event = event_of(FLEET_EVENT_GPUS_UP);

    event.gpus.node.value = node;
    event.gpus.gpu_mask = (uint16_t)((1u << gpus) - 1);
    event.gpus.bytes = bytes;
    event.gpus.price_nano_per_hour = 2500000000;
    event.gpus.model = GPU_H100_80;
    event.gpus.flavor = flavor;
    rig_step(rig, &event);
}

void rig_node(struct rig *rig, uint16_t node, uint32_t gpus, uint64_t bytes)
{
    node_up(rig, node, gpus, bytes, 0);
}

void rig_node_in(struct rig *rig, uint16_t node, uint32_t gpus, uint16_t flavor)
{
    node_up(rig, node, gpus, 80 * GB, flavor);
}

struct rig_job rig_job(uint32_t tenant)
{
    return (struct rig_job){.tenant = tenant, .gpus = 1, .flags = JOB_PREEMPTIBLE, .isolation = ISOLATION_EXCLUSIVE,
                            .bytes = GB, .size_ns = HOUR};
}

uint32_t rig_submit(struct rig *rig, const struct rig_job *job)
{
    struct fleet_event event = event_of(FLEET_EVENT_JOB);
    uint32_t slot = 0;

    while (slot < RIG_JOBS && rig->slots[slot])
        slot++;
    assert_true(slot < RIG_JOBS);
    rig->slots[slot] = true;
    rig->ids[slot] = job_id_make(++rig->ordinals, slot);
    rig->done_ns[slot] = 0;
    rig->size_ns[slot] = job->size_ns;
    rig->running[slot] = false;
    event.job.job = rig->ids[slot];
    event.job.size_ns = job->size_ns;
    event.job.deadline_at_ns = NEVER_NS;
    event.job.runtime_min_ns = job->runtime_min_ns;
    event.job.bytes = job->bytes;
    event.job.tenant.value = job->tenant;
    event.job.base.value = job->base;
    event.job.gpus = job->gpus;
    event.job.rank = 16;
    event.job.priority = job->priority;
    event.job.flags = job->flags;
    event.job.stage = job->stage;
    event.job.isolation = job->isolation;
    rig_step(rig, &event);
    return slot;
}

void rig_answer_one(struct rig *rig, struct rig_asked *asked)
{
    const struct fleet_command *command = &asked->command;
    struct fleet_event event;
    uint32_t slot;

    asked->open = false;
    if (command->kind == FLEET_COMMAND_BASE_LOAD) {
        event = event_of(FLEET_EVENT_BASE_LOADED);
        event.base_loaded.base = command->base_load.base;
        event.base_loaded.node = command->base_load.node;
        event.base_loaded.gpu_mask = command->base_load.gpu_mask;
    } else if (command->kind == FLEET_COMMAND_JOB_PLACE) {
        slot = job_slot(command->job_place.job);
        rig->running[slot] = true;
        event = event_of(FLEET_EVENT_JOB_STARTED);
        event.job_progress.job = command->job_place.job;
    } else if (command->kind == FLEET_COMMAND_REPLICA_START) {
        event = event_of(FLEET_EVENT_REPLICA_UP);
        event.replica_up.replica = command->replica_start.replica;
        event.replica_up.base = command->replica_start.base;
    } else if (command->kind == FLEET_COMMAND_REPLICA_DRAIN) {
        event = event_of(FLEET_EVENT_REPLICA_DOWN);
        event.reason = REPLICA_DRAINED;
        event.replica_down.replica = command->replica_drain.replica;
    } else {
        slot = job_slot(command->job_stop.job);
        rig->running[slot] = false;
        event = event_of(FLEET_EVENT_JOB_YIELDED);
        event.job_progress.job = command->job_stop.job;
        event.job_progress.done_ns = rig->done_ns[slot];
        if (command->reason == JOB_STOP_CANCEL)
            rig->slots[slot] = false;
    }
    event.answers = command->id;
    step_once(rig, &event);
    tick_while_due(rig);
}

void rig_answer(struct rig *rig, enum fleet_command_kind kind)
{
    rig->said_count = 0;
    for (uint32_t i = 0; i < RIG_ASKED; i++)
        if (rig->asked[i].open && rig->asked[i].command.kind == kind)
            rig_answer_one(rig, &rig->asked[i]);
}

void rig_fail_loads(struct rig *rig)
{
    struct fleet_command failed[RIG_ASKED];
    uint32_t count = 0;

    for (uint32_t i = 0; i < RIG_ASKED; i++)
        if (rig->asked[i].open && rig->asked[i].command.kind == FLEET_COMMAND_BASE_LOAD) {
            failed[count++] = rig->asked[i].command;
            rig->asked[i].open = false;
        }
    rig->said_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct fleet_event event = event_of(FLEET_EVENT_BASE_LOADED);

        event.reason = 1;
        event.answers = failed[i].id;
        event.base_loaded.base = failed[i].base_load.base;
        event.base_loaded.node = failed[i].base_load.node;
        event.base_loaded.gpu_mask = failed[i].base_load.gpu_mask;
        step_once(rig, &event);
        tick_while_due(rig);
    }
}

void rig_answer_all(struct rig *rig)
{
    rig->said_count = 0;
    for (bool any = true; any;) {
        struct rig_asked *oldest = NULL;

        any = false;
        for (uint32_t i = 0; i < RIG_ASKED; i++)
            if (rig->asked[i].open && (oldest == NULL || rig->asked[i].command.id < oldest->command.id))
                oldest = &rig->asked[i];
        if (oldest != NULL) {
            rig_answer_one(rig, oldest);
            any = true;
        }
    }
}

void rig_end(struct rig *rig, uint32_t slot, enum job_end_reason reason)
{
    struct fleet_event event = event_of(FLEET_EVENT_JOB_ENDED);

    event.reason = (uint16_t)reason;
    event.job_progress.job = rig->ids[slot];
    event.job_progress.done_ns = reason == JOB_SUCCEEDED ? rig->size_ns[slot] : rig->done_ns[slot];
    rig->running[slot] = false;
    if (reason != JOB_LOST)
        rig->slots[slot] = false;
    /* It answers whatever was asked of the job. */
    for (uint32_t i = 0; i < RIG_ASKED; i++) {
        const struct fleet_command *command = &rig->asked[i].command;

        if (rig->asked[i].open && ((command->kind == FLEET_COMMAND_JOB_PLACE && command->job_place.job.value == rig->ids[slot].value) ||
                                   (command->kind == FLEET_COMMAND_JOB_STOP && command->job_stop.job.value == rig->ids[slot].value)))
            rig->asked[i].open = false;
    }
    rig_step(rig, &event);
}

struct job_view rig_view(const struct rig *rig, uint32_t slot)
{
    return jobs_view(fleet_jobs(rig->fleet), rig->ids[slot]);
}

uint32_t rig_count(const struct rig *rig, enum fleet_command_kind kind)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < rig->said_count; i++)
        count += rig->said[i].kind == kind;
    return count;
}

const struct fleet_command *rig_said(const struct rig *rig, enum fleet_command_kind kind, uint32_t i)
{
    for (uint32_t k = 0; k < rig->said_count; k++)
        if (rig->said[k].kind == kind && i-- == 0)
            return &rig->said[k];
    fail_msg("command %d was not said so often", kind);
    return NULL;
}

void rig_wait(struct rig *rig, int64_t ns)
{
    rig->said_count = 0;
    rig->at_ns += ns;
    tick_while_due(rig);
}
