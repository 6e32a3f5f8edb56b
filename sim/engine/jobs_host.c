/* A job at the host: it starts, computes at the rate its neighbours leave it, writes checkpoints, leaves when it is told to or
 * when it is done. Work is counted in nanoseconds alone on its GPUs, so a neighbour that comes or goes only changes the rate at
 * which what is left is done. */
#include "engine/jobs.h"

#include <math.h>

void jobs_deliver(struct sim *sim, struct fleet_event *event)
{
    jobs_account(sim);
    fleet_deliver(sim, event);
}

struct fleet_event job_event(const struct sim_job *job, enum fleet_event_kind kind, uint64_t answers)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint16_t)kind;
    event.answers = answers;
    event.job_progress.job = job->id;
    event.job_progress.done_ns = job->durable_ns;
    event.job_progress.compute_ns = job->row.compute_gpu_ns;
    event.job_progress.bytes = job->checkpoint_bytes;
    return event;
}

/* --- progress ------------------------------------------------------------------------------------------------------------- */

/* Counts what was done since the last time somebody looked. */
static void progress(struct sim *sim, struct sim_job *job)
{
    int64_t elapsed_ns = sim->now_ns - job->progress_at_ns;
    int64_t before_ns = job->done_ns;

    if (job->state == SIM_JOB_COMPUTING) {
        job->done_ns = min_i64(job->size_ns, job->done_ns + elapsed_ns * job->rate_milli / 1000);
        /* Whatever of it somebody used: an idle session computes nothing. */
        if (before_ns < job->used_ns && job->done_ns > before_ns)
            job->row.compute_gpu_ns += (int64_t)job->arrival.gpus *
                                       (int64_t)((uint128)(uint64_t)elapsed_ns *
                                                 (uint64_t)(min_i64(job->done_ns, job->used_ns) - before_ns) /
                                                 (uint64_t)(job->done_ns - before_ns));
    } else if (job->state == SIM_JOB_CHECKPOINTING) {
        job->row.checkpoint_gpu_ns += (int64_t)job->arrival.gpus * elapsed_ns;
    }
    job->progress_at_ns = sim->now_ns;
}

static void arm(struct sim *sim, uint32_t slot, int64_t at_ns)
{
    struct sim_job *job = &sim->jobs->jobs[slot];

    job->generation++;
    sim_push(sim, at_ns, CLASS_PHYSICS, ACTOR_JOB, slot, job->generation, job->row.ordinal);
}

/* When work that is `left_ns` alone will be done at this rate. */
static int64_t takes_ns(int64_t left_ns, uint32_t rate_milli)
{
    return (int64_t)div_up_u64((uint64_t)left_ns * 1000, rate_milli);
}

static void arm_computing(struct sim *sim, uint32_t slot)
{
    struct sim_job *job = &sim->jobs->jobs[slot];
    int64_t until_ns = min_i64(job->done_ns < job->used_ns ? job->used_ns : job->size_ns, job->fail_at_ns);
    int64_t at_ns;

    if (job->rate_milli == 0)
        return;
    at_ns = sim->now_ns + takes_ns(max_i64(0, until_ns - job->done_ns), job->rate_milli);
    if (job->arrival.stage == STAGE_TRAIN)
        at_ns = min_i64(at_ns, max_i64(sim->now_ns, job->checkpoint_at_ns));
    arm(sim, slot, at_ns);
}

/* A slice computes as fast as its part of the multiprocessors. */
static uint32_t slice_milli(const struct sim *sim, const struct sim_job *job)
{
    struct devices_place place = {.node = job->node, .slice = job->slice};

    return 1000 * devices_slice_sevenths(jobs_devices(fleet_jobs(sim->fleet)), &place) / 7;
}

static uint32_t rate_of(const struct sim *sim, const struct sim_job *job)
{
    const struct sim_host_node *node = &sim->jobs->nodes[job->node];
    uint32_t sharers = 1;

    if (job->arrival.stage == STAGE_INTERACTIVE)
        return 1000; /* a person's hour is an hour, whatever the part of a GPU */
    if (job->slice != 0)
        return max_u32(slice_milli(sim, job), 1);
    for (uint32_t gpu = 0; gpu < 16; gpu++)
        if (job->gpu_mask >> gpu & 1)
            sharers = max_u32(sharers, node->gpus[gpu].computing);
    return (uint32_t)(sim->jobs->eta_milli[sharers] / sharers);
}

static bool is_active(const struct sim_job *job)
{
    return (job->state == SIM_JOB_COMPUTING || job->state == SIM_JOB_CHECKPOINTING) && !job->idle;
}

/* Somebody began or ceased to compute on these GPUs: everybody there goes on at a new rate. */
static void share_out(struct sim *sim, uint32_t node_index, uint16_t gpu_mask)
{
    struct sim_host_node *node = &sim->jobs->nodes[node_index];

    for (uint32_t gpu = 0; gpu < 16; gpu++) {
        for (uint32_t i = 0; (gpu_mask >> gpu & 1) && i < node->gpus[gpu].jobs_count; i++) {
            uint32_t slot = node->gpus[gpu].jobs[i];
            struct sim_job *job = &sim->jobs->jobs[slot];
            uint32_t rate_milli;

            if (job->state != SIM_JOB_COMPUTING)
                continue;
            rate_milli = rate_of(sim, job);
            if (rate_milli == job->rate_milli)
                continue;
            progress(sim, job);
            job->rate_milli = rate_milli;
            arm_computing(sim, slot);
        }
    }
}

/* Counts the job among those that compute on its GPUs, or no longer. */
static void count_computing(struct sim *sim, const struct sim_job *job, bool comes)
{
    struct sim_host_node *node = &sim->jobs->nodes[job->node];
    struct sim_flavor *flavor = &sim->jobs->flavors[node->flavor];

    jobs_account(sim);
    for (uint32_t gpu = 0; gpu < 16; gpu++) {
        if ((job->gpu_mask >> gpu & 1) == 0)
            continue;
        if (comes && node->gpus[gpu].computing++ == 0)
            flavor->computing++;
        if (!comes && --node->gpus[gpu].computing == 0)
            flavor->computing--;
    }
}

static void enter_gpus(struct sim *sim, uint32_t slot)
{
    struct sim_job *job = &sim->jobs->jobs[slot];
    struct sim_host_node *node = &sim->jobs->nodes[job->node];

    for (uint32_t gpu = 0; gpu < 16; gpu++) {
        if ((job->gpu_mask >> gpu & 1) == 0)
            continue;
        check(node->gpus[gpu].jobs_count < GPU_JOBS_MAX);
        node->gpus[gpu].jobs[node->gpus[gpu].jobs_count++] = slot;
    }
}

static void leave_gpus(struct sim *sim, uint32_t slot)
{
    struct sim_job *job = &sim->jobs->jobs[slot];
    struct sim_host_node *node = &sim->jobs->nodes[job->node];

    for (uint32_t gpu = 0; gpu < 16; gpu++) {
        uint32_t i = 0;

        if ((job->gpu_mask >> gpu & 1) == 0)
            continue;
        while (node->gpus[gpu].jobs[i] != slot)
            i++;
        node->gpus[gpu].jobs[i] = node->gpus[gpu].jobs[--node->gpus[gpu].jobs_count];
    }
}

/* Young 1974: the interval that wastes least is sqrt(2 x cost x mean time between stops). */
static int64_t checkpoint_interval_ns(const struct sim *sim, const struct sim_job *job)
{
    const struct keys_scheduler *keys = &sim->scenario->scheduler;
    const struct keys_capacity *capacity = &sim->scenario->capacity[sim->jobs->nodes[job->node].flavor].keys;
    double cost_s = (double)job->checkpoint_bytes / keys->checkpoint_bytes_per_s;
    double mean_h = capacity->spot && capacity->reclaim_mean_h > 0 ? capacity->reclaim_mean_h : capacity->fail_mean_h;

    if (keys->checkpoint_s > 0)
        return (int64_t)(keys->checkpoint_s * 1e9);
    return mean_h > 0 ? (int64_t)(sqrt(2 * cost_s * mean_h * 3600) * 1e9) + 1 : NEVER_NS / 2;
}

static int64_t checkpoint_ns(const struct sim *sim, const struct sim_job *job)
{
    return (int64_t)((double)job->checkpoint_bytes / sim->scenario->scheduler.checkpoint_bytes_per_s * 1e9) + 1;
}

static void compute(struct sim *sim, uint32_t slot)
{
    struct sim_job *job = &sim->jobs->jobs[slot];

    job->state = SIM_JOB_COMPUTING;
    job->progress_at_ns = sim->now_ns;
    job->rate_milli = rate_of(sim, job);
    job->checkpoint_at_ns = sim->now_ns + checkpoint_interval_ns(sim, job);
    arm_computing(sim, slot);
}

/* --- leaving -------------------------------------------------------------------------------------------------------------- */

static void close_stay(struct sim *sim, uint32_t slot, enum placement_end how)
{
    struct sim_job *job = &sim->jobs->jobs[slot];
    struct placement_row row = {
        .job = job->row.ordinal,
        .from_ns = job->claimed_at_ns,
        .started_ns = job->started_at_ns,
        .until_ns = how == PLACEMENT_OPEN ? -1 : sim->now_ns,
        .tenant = job->arrival.tenant,
        .attempt = job->row.attempts,
        .node = job->node,
        .gpu_mask = job->gpu_mask,
        .base = job->row.base,
        .flavor = sim->jobs->nodes[job->node].flavor,
        .slice = job->slice,
        .how = (uint8_t)how,
        .base_hit = job->row.base_hit,
    };

    progress(sim, job);
    job->row.held_gpu_ns += (int64_t)job->arrival.gpus * (sim->now_ns - job->claimed_at_ns);
    job->row.lost_gpu_ns += (int64_t)job->arrival.gpus * (job->done_ns - job->durable_ns) * (how == PLACEMENT_LOST);
    results_placement(sim->results, &row);
    if (is_active(job))
        count_computing(sim, job, false);
    job->state = SIM_JOB_QUEUED;
    leave_gpus(sim, slot);
    share_out(sim, job->node, job->gpu_mask);
    job->rate_milli = 0;
    job->generation++;
    job->place_command = 0;
    job->stop_command = 0;
    job->stopping = false;
    job->doomed = false;
    job->idle = false;
}

/* It leaves the system; its row is written. */
static void finish(struct sim *sim, uint32_t slot, enum job_outcome outcome)
{
    struct sim_jobs *jobs = sim->jobs;
    struct sim_job *job = &jobs->jobs[slot];

    job->row.outcome = (uint8_t)outcome;
    job->row.ended_ns = outcome == JOB_OUTCOME_UNFINISHED ? -1 : sim->now_ns;
    /* One that is over and not done will not be done by then. */
    job->row.deadline_missed = job->row.deadline_ns > 0 && (job->row.deadline_ns < sim->now_ns ||
                                                            (outcome != JOB_OUTCOME_DONE && outcome != JOB_OUTCOME_UNFINISHED));
    results_job(sim->results, &job->row);
    if (job->stored)
        storage_remove(&jobs->storage, STORAGE_STORE, job->arrival.tenant, job->checkpoint_bytes, sim->now_ns);
    job->state = SIM_JOB_FREE;
    slots_give(&jobs->slots, slot);
    jobs->in_system--;
}

/* A training that ended well is evaluated, by a claim of its own; what passes the gate is published. Without evaluations the
 * adapter is its owner's, and that is all. */
static void follow_up(struct sim *sim, const struct sim_job *job)
{
    const struct keys_scheduler *keys = &sim->scenario->scheduler;
    struct job_arrival evaluation = job->arrival;

    if (job->arrival.stage == STAGE_EVALUATE && job->follows) {
        if (job_luck(sim, job->row.ordinal, JOB_LUCK_GATE) < keys->gate_pass_share)
            job_publish(sim, job);
        else
            sim->jobs->facts.publish_blocked++;
        return;
    }
    if (job->arrival.stage != STAGE_TRAIN)
        return;
    if (!keys->evaluate) {
        job_deliver_adapter(sim, job);
        return;
    }
    evaluation.stage = STAGE_EVALUATE;
    evaluation.runtime_ns = (int64_t)(keys->evaluate_s * 1e9);
    evaluation.tokens = 0;
    evaluation.at_ns = sim->now_ns;
    job_submit(sim, &evaluation, true, job->renews);
}

static void end(struct sim *sim, uint32_t slot, enum job_end_reason reason)
{
    struct sim_job *job = &sim->jobs->jobs[slot];
    struct sim_job copy;
    struct fleet_event event;

    job->durable_ns = reason == JOB_SUCCEEDED ? job->size_ns : job->durable_ns;
    event = job_event(job, FLEET_EVENT_JOB_ENDED, job->stop_command != 0 ? job->stop_command : job->place_command);
    event.reason = (uint16_t)reason;
    close_stay(sim, slot, PLACEMENT_DONE);
    copy = *job;
    /* The row goes first: the core may give the slot's successor a place in the same step. */
    finish(sim, slot, reason == JOB_SUCCEEDED ? JOB_OUTCOME_DONE : JOB_OUTCOME_FAILED);
    jobs_deliver(sim, &event);
    if (reason == JOB_SUCCEEDED)
        follow_up(sim, &copy);
}

static void yield(struct sim *sim, uint32_t slot)
{
    struct sim_job *job = &sim->jobs->jobs[slot];
    struct fleet_event event = job_event(job, FLEET_EVENT_JOB_YIELDED, job->stop_command);

    close_stay(sim, slot, PLACEMENT_YIELDED);
    sim->jobs->pending_gpus += job->arrival.gpus;
    jobs_deliver(sim, &event);
}

void job_lost(struct sim *sim, uint32_t slot)
{
    struct sim_job *job = &sim->jobs->jobs[slot];
    struct fleet_event event;

    progress(sim, job);
    event = job_event(job, FLEET_EVENT_JOB_ENDED, job->stop_command != 0 ? job->stop_command : job->place_command);
    event.reason = JOB_LOST;
    job->row.losses++;
    sim->jobs->facts.losses++;
    close_stay(sim, slot, PLACEMENT_LOST);
    job->done_ns = job->durable_ns;
    sim->jobs->pending_gpus += job->arrival.gpus;
    jobs_deliver(sim, &event);
}

/* --- commands -------------------------------------------------------------------------------------------------------------- */

static void place(struct sim *sim, const struct fleet_command *command)
{
    const struct keys_scheduler *keys = &sim->scenario->scheduler;
    uint32_t slot = job_slot(command->job_place.job);
    struct sim_job *job = &sim->jobs->jobs[slot];
    double start_s = keys->start_s;

    check(job->state == SIM_JOB_QUEUED);
    sim->jobs->pending_gpus -= job->arrival.gpus;
    job->state = SIM_JOB_STARTING;
    job->place_command = command->id;
    job->claimed_at_ns = command->job_place.claimed_at_ns;
    job->started_at_ns = -1;
    job->node = command->job_place.node.value;
    job->gpu_mask = command->job_place.gpu_mask;
    job->slice = command->job_place.slice;
    job->row.attempts++;
    job->row.load_gpu_ns += (int64_t)job->arrival.gpus * (sim->now_ns - job->claimed_at_ns);
    if (job->row.attempts == 1)
        job->row.base_hit = job->claimed_at_ns == sim->now_ns && job->slice == 0;
    if (job->durable_ns > 0)
        start_s += (double)job->checkpoint_bytes / keys->checkpoint_bytes_per_s;
    if (command->job_place.clear)
        start_s += (double)command->job_place.bytes / keys->clear_bytes_per_s;
    if (job->slice != 0) /* a slice's base is its own */
        start_s += (double)sim->jobs->base_bytes[job->row.base] / keys->disk_bytes_per_s;
    enter_gpus(sim, slot);
    arm(sim, slot, sim->now_ns + (int64_t)(start_s * 1e9) + 1);
}

static void stop(struct sim *sim, const struct fleet_command *command)
{
    uint32_t slot = job_slot(command->job_stop.job);
    struct sim_job *job = &sim->jobs->jobs[slot];
    int64_t needs_ns;

    job->stop_command = command->id;
    job->stop_by_ns = command->job_stop.by_ns;
    job->row.reclaims += command->reason == JOB_STOP_RECLAIM;
    job->row.preempts += command->reason == JOB_STOP_PREEMPT;
    job->row.serving_stops += command->reason == JOB_STOP_SHARED_POOL;
    /* Without any time it is a loss, and told as such when it comes. */
    if (command->reason == JOB_STOP_NOTICE && command->job_stop.by_ns > sim->now_ns) {
        job->row.notices++;
        sim->jobs->facts.notices++;
    }
    if (job->state == SIM_JOB_STARTING) {
        job->state = SIM_JOB_LEAVING;
        arm(sim, slot, sim->now_ns);
        return;
    }
    needs_ns = job->arrival.stage == STAGE_TRAIN ? checkpoint_ns(sim, job) : 1;
    if (job->state == SIM_JOB_CHECKPOINTING) {
        job->stopping = true;
        return;
    }
    if (job->stop_by_ns != NEVER_NS && sim->now_ns + needs_ns > job->stop_by_ns) {
        job->doomed = true; /* it goes on for what it is worth, and is lost with its GPUs */
        return;
    }
    progress(sim, job);
    job->state = SIM_JOB_CHECKPOINTING;
    job->stopping = true;
    arm(sim, slot, sim->now_ns + needs_ns);
}

static void refuse(struct sim *sim, const struct fleet_command *command)
{
    uint32_t slot = job_slot((job_id){command->refuse.request_or_job});
    struct sim_job *job = &sim->jobs->jobs[slot];

    job->row.reason = (uint8_t)command->reason;
    job->row.refuse_need = command->refuse.need;
    job->row.refuse_have = command->refuse.have;
    sim->jobs->pending_gpus -= job->arrival.gpus;
    finish(sim, slot, JOB_OUTCOME_REFUSED);
}

void jobs_perform(struct sim *sim, const struct fleet_command *command)
{
    switch ((enum fleet_command_kind)command->kind) {
    case FLEET_COMMAND_JOB_PLACE:
        place(sim, command);
        break;
    case FLEET_COMMAND_JOB_STOP:
        stop(sim, command);
        break;
    case FLEET_COMMAND_JOB_REFUSE:
        refuse(sim, command);
        break;
    case FLEET_COMMAND_BASE_LOAD:
        base_begin(sim, command);
        break;
    case FLEET_COMMAND_BASE_DROP:
        base_drop(sim, command);
        break;
    default:
        check(false && "not a command about jobs");
    }
}

/* --- what the queue brings -------------------------------------------------------------------------------------------------- */

static void begun(struct sim *sim, uint32_t slot)
{
    struct sim_job *job = &sim->jobs->jobs[slot];
    struct fleet_event event = job_event(job, FLEET_EVENT_JOB_STARTED, job->place_command);

    job->place_command = 0;
    job->started_at_ns = sim->now_ns;
    if (job->row.started_ns < 0)
        job->row.started_ns = sim->now_ns;
    job->done_ns = job->durable_ns;
    count_computing(sim, job, true);
    compute(sim, slot);
    share_out(sim, job->node, job->gpu_mask);
    jobs_deliver(sim, &event);
}

/* Told to stop before it began: it says that it did, and that it left. */
static void begun_and_left(struct sim *sim, uint32_t slot)
{
    struct sim_job *job = &sim->jobs->jobs[slot];
    struct fleet_event event = job_event(job, FLEET_EVENT_JOB_STARTED, job->place_command);

    job->place_command = 0;
    job->progress_at_ns = sim->now_ns;
    jobs_deliver(sim, &event);
    yield(sim, slot);
}

/* Each takes the place of the one before; the last is kept until the job is over. */
static void keep_checkpoint(struct sim *sim, struct sim_job *job)
{
    job->durable_ns = job->done_ns;
    if (job->stored)
        return;
    job->stored = true;
    storage_add(&sim->jobs->storage, STORAGE_STORE, job->arrival.tenant, job->checkpoint_bytes, sim->now_ns);
}

static void checkpointed(struct sim *sim, uint32_t slot)
{
    struct sim_job *job = &sim->jobs->jobs[slot];
    struct fleet_event event;

    progress(sim, job);
    if (job->arrival.stage == STAGE_TRAIN)
        keep_checkpoint(sim, job);
    if (job->stopping) {
        yield(sim, slot);
        return;
    }
    compute(sim, slot);
    event = job_event(job, FLEET_EVENT_JOB_CHECKPOINTED, 0);
    jobs_deliver(sim, &event);
}

/* Whoever opened the session has left it. */
static void fall_idle(struct sim *sim, uint32_t slot)
{
    struct sim_job *job = &sim->jobs->jobs[slot];

    count_computing(sim, job, false);
    job->idle = true;
    share_out(sim, job->node, job->gpu_mask);
}

static void computed(struct sim *sim, uint32_t slot)
{
    struct sim_job *job = &sim->jobs->jobs[slot];

    progress(sim, job);
    if (!job->idle && job->done_ns >= job->used_ns && job->used_ns < job->size_ns)
        fall_idle(sim, slot);
    if (job->done_ns >= job->fail_at_ns) {
        end(sim, slot, JOB_FAILED);
    } else if (job->done_ns >= job->size_ns) {
        end(sim, slot, JOB_SUCCEEDED);
    } else if (sim->now_ns >= job->checkpoint_at_ns && !job->doomed) {
        job->state = SIM_JOB_CHECKPOINTING;
        arm(sim, slot, sim->now_ns + checkpoint_ns(sim, job));
    } else {
        job->checkpoint_at_ns = job->doomed ? NEVER_NS : job->checkpoint_at_ns;
        arm_computing(sim, slot);
    }
}

void jobs_due(struct sim *sim, uint32_t slot, uint32_t generation)
{
    struct sim_job *job = &sim->jobs->jobs[slot];

    if (generation != job->generation)
        return;
    switch ((enum sim_job_state)job->state) {
    case SIM_JOB_STARTING:
        begun(sim, slot);
        break;
    case SIM_JOB_LEAVING:
        begun_and_left(sim, slot);
        break;
    case SIM_JOB_COMPUTING:
        computed(sim, slot);
        break;
    case SIM_JOB_CHECKPOINTING:
        checkpointed(sim, slot);
        break;
    case SIM_JOB_FREE:
    case SIM_JOB_QUEUED:
        break;
    }
}

bool jobs_pending(const struct sim *sim)
{
    /* To the end of the period even if all is done: GPUs cost then, too. */
    return sim->jobs != NULL && (sim->jobs->in_system > 0 || sim->jobs->arrival_at_ns != NEVER_NS ||
                                 sim->now_ns < sim->arrivals_end_ns);
}

void jobs_finish(struct sim *sim)
{
    struct sim_jobs *jobs = sim->jobs;

    if (jobs == NULL)
        return;
    jobs_account(sim);
    for (uint32_t slot = 0; slot < jobs->jobs_max && jobs->in_system > 0; slot++) {
        struct sim_job *job = &jobs->jobs[slot];

        if (job->state == SIM_JOB_FREE)
            continue;
        if (job->state != SIM_JOB_QUEUED)
            close_stay(sim, slot, PLACEMENT_OPEN);
        finish(sim, slot, JOB_OUTCOME_UNFINISHED);
    }
    base_finish(sim);
    jobs_close_books(sim);
}
