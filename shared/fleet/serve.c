/* Replicas of the shared pool. A replica is a claim on whole GPUs as a job's is, kept in the same table behind the jobs, so
 * that a GPU serves or trains and never both; but it stands in no queue, asks no quota and is nobody's victim. It takes GPUs
 * that are free, where its base is if it can; otherwise jobs are stopped for it, and what they leave is kept for it. */
#include "base/hash.h"
#include "fleet/jobs_state.h"

/* Longer than any wait: nobody counts on its end. */
#define SERVE_NS (INT64_MAX / 4)

static uint32_t slot_of(const struct jobs *jobs, uint32_t index)
{
    check(index < jobs->config.serve_max);
    return jobs->config.jobs_max + index;
}

static void wait_for_gpus(struct jobs *jobs, uint32_t slot)
{
    jobs->jobs[slot].state = JOB_PENDING;
    jobs->serve_waiting++;
}

/* What is being freed for it, or kept, is so no longer. */
static void give_up_plan(struct jobs *jobs, uint32_t slot)
{
    if (jobs->jobs[slot].victims_left > 0)
        claim_release_victims(jobs, slot);
    devices_unearmark(jobs->devices, slot);
}

static bool place(struct jobs *jobs, uint32_t slot)
{
    struct devices_ask ask = ask_of(jobs, &jobs->jobs[slot]);
    struct devices_place found;

    bool may_load = !base_waits(jobs, &jobs->jobs[slot]);

    ask.flavors = jobs->config.serve_flavors;
    found = devices_find(jobs->devices, &ask, true, may_load);
    if (found.kind == PLACE_NONE && found.blocked_by_earmark && jobs->reserved_count > 0) {
        /* A gang's place in the future is not kept from serving. */
        while (jobs->reserved_count > 0)
            reserve_forget(jobs, jobs->reserved[0]);
        found = devices_find(jobs->devices, &ask, true, may_load);
    }
    if (found.kind == PLACE_NONE)
        return false;
    if (!jobs_has_room(jobs, found.victims + 2)) {
        jobs->cycle_due = true;
        return false;
    }
    give_up_plan(jobs, slot);
    jobs->serve_waiting--;
    serve_take_place(jobs, slot, &found);
    return true;
}

void serve_run(struct jobs *jobs)
{
    uint32_t left = jobs->serve_waiting;

    for (uint32_t index = 0; left > 0 && index < jobs->config.serve_max; index++) {
        uint32_t slot = slot_of(jobs, index);
        struct job *job = &jobs->jobs[slot];

        if (job->state != JOB_PENDING)
            continue;
        left--;
        if (place(jobs, slot) || job->victims_left > 0)
            continue;
        /* All have left, and there is no place all the same: a GPU was lost. */
        devices_unearmark(jobs->devices, slot);
        if (!base_waits(jobs, job))
            (void)claim_for_serving(jobs, slot);
    }
}

void serve_requeue(struct jobs *jobs, uint32_t slot)
{
    check(jobs->jobs[slot].state == JOB_BASE_WAIT);
    serve_leave_place(jobs, slot);
    wait_for_gpus(jobs, slot);
}

void serve_say_drain(struct jobs *jobs, uint32_t slot, enum job_stop_reason reason)
{
    const struct job *job = &jobs->jobs[slot];
    struct fleet_command *command = jobs_say(jobs, FLEET_COMMAND_REPLICA_DRAIN, (uint16_t)reason);

    command->replica_drain.bytes = job->bytes;
    command->replica_drain.replica = job->replica;
    command->replica_drain.node.value = job->place.node;
    command->replica_drain.gpu_mask = job->place.gpu_mask;
    command->replica_drain.tp = job->gpus;
    command->replica_drain.base.value = job->base;
    jobs_said(jobs, command);
}

/* One that is still starting is told when it is up. */
void serve_stop(struct jobs *jobs, uint32_t slot, enum job_stop_reason reason)
{
    if (jobs->jobs[slot].state != JOB_RUNNING)
        return;
    serve_say_drain(jobs, slot, reason);
    jobs->jobs[slot].state = JOB_STOPPING;
}

void serve_unkeep_closed(struct jobs *jobs)
{
    for (uint32_t index = 0; jobs->serve_waiting > 0 && index < jobs->config.serve_max; index++) {
        const struct job *job = &jobs->jobs[slot_of(jobs, index)];

        if (job->state == JOB_PENDING && job->victims_left > 0 && jobs_closed(jobs, &job->place))
            give_up_plan(jobs, slot_of(jobs, index));
    }
}

/* --- what scale.c asks for -------------------------------------------------------------------------------------------------- */

uint32_t serve_add(struct jobs *jobs, int64_t at_ns, const struct serve_ask *ask)
{
    uint32_t slot = slot_of(jobs, replica_index(ask->replica));
    struct job *job = &jobs->jobs[slot];

    check(job->state == JOB_FREE);
    check(ask->base.value < jobs->config.bases_max && jobs->bases[ask->base.value].known);
    *job = (struct job){.id = job_id_make(0, slot),
                        .size_ns = SERVE_NS,
                        .remaining_ns = SERVE_NS,
                        .deadline_at_ns = NEVER_NS,
                        .submitted_at_ns = at_ns,
                        .started_at_ns = NEVER_NS,
                        .bytes = ask->bytes,
                        .tenant = jobs->config.tenants_max, /* the platform */
                        .class = NONE_INDEX,
                        .claimer = NONE_INDEX,
                        .claimer_at = NONE_INDEX,
                        .base = ask->base.value,
                        .gpus = ask->gpus,
                        .stage = STAGE_SERVE,
                        .isolation = ISOLATION_EXCLUSIVE,
                        .replica = ask->replica};
    return slot;
}

void jobs_serve_begin(struct jobs *jobs, int64_t at_ns, const struct serve_ask *ask, uint64_t *said, struct fleet_commands *out)
{
    uint32_t slot = serve_add(jobs, at_ns, ask);

    jobs_enter(jobs, at_ns, said, out);
    wait_for_gpus(jobs, slot);
    serve_run(jobs);
    jobs_leave(jobs);
}

void jobs_serve_withdraw(struct jobs *jobs, int64_t at_ns, uint32_t index, uint64_t *said, struct fleet_commands *out)
{
    uint32_t slot = slot_of(jobs, index);
    struct job *job = &jobs->jobs[slot];

    check(job->state == JOB_PENDING || job->state == JOB_BASE_WAIT);
    jobs_enter(jobs, at_ns, said, out);
    if (job->state == JOB_PENDING) {
        give_up_plan(jobs, slot);
        jobs->serve_waiting--;
    } else {
        serve_leave_place(jobs, slot);
    }
    job->state = JOB_FREE;
    jobs_after_release(jobs);
    jobs_leave(jobs);
}

void jobs_serve_up(struct jobs *jobs, int64_t at_ns, uint32_t index, uint64_t *said, struct fleet_commands *out)
{
    uint32_t slot = slot_of(jobs, index);

    jobs_enter(jobs, at_ns, said, out);
    if (jobs->jobs[slot].state == JOB_STRAY) {
        jobs->jobs[slot].started_at_ns = at_ns;
        restore_tell(jobs);
        jobs_leave(jobs);
        return;
    }
    job_started(jobs, slot);
    if (jobs_closed(jobs, &jobs->jobs[slot].place))
        serve_stop(jobs, slot, JOB_STOP_NOTICE);
    jobs_leave(jobs);
}

void jobs_serve_drain(struct jobs *jobs, int64_t at_ns, uint32_t index, uint64_t *said, struct fleet_commands *out)
{
    uint32_t slot = slot_of(jobs, index);

    check(jobs->jobs[slot].state == JOB_RUNNING || jobs->jobs[slot].state == JOB_STRAY);
    jobs_enter(jobs, at_ns, said, out);
    if (jobs->jobs[slot].state == JOB_STRAY) {
        jobs->jobs[slot].told = true;
        serve_say_drain(jobs, slot, JOB_STOP_CANCEL);
    } else {
        serve_stop(jobs, slot, JOB_STOP_CANCEL);
    }
    jobs_leave(jobs);
}

void jobs_serve_gone(struct jobs *jobs, int64_t at_ns, uint32_t index, uint64_t *said, struct fleet_commands *out)
{
    uint32_t slot = slot_of(jobs, index);
    struct job *job = &jobs->jobs[slot];

    check(job->state == JOB_PLACING || job->state == JOB_RUNNING || job->state == JOB_STOPPING || job->state == JOB_STRAY);
    jobs_enter(jobs, at_ns, said, out);
    if (job->state == JOB_STRAY)
        stray_left(jobs, slot);
    else
        serve_leave_place(jobs, slot);
    job->state = JOB_FREE;
    jobs_after_release(jobs);
    jobs_leave(jobs);
}

/* --- invariants ------------------------------------------------------------------------------------------------------------- */

/* A replica is alone on its GPUs. */
static void check_alone(const struct jobs *jobs, uint32_t slot)
{
    const struct devices_place *place = &jobs->jobs[slot].place;

    for (uint16_t gpu = 0; gpu < 16; gpu++) {
        if ((place->gpu_mask >> gpu & 1) == 0)
            continue;
        check(devices_jobs_on(jobs->devices, place->node, gpu) == 1);
        check(devices_job_at(jobs->devices, place->node, gpu, 0) == slot);
    }
}

void serve_check(const struct jobs *jobs)
{
    uint32_t waiting = 0;

    for (uint32_t index = 0; index < jobs->config.serve_max; index++) {
        uint32_t slot = slot_of(jobs, index);
        const struct job *job = &jobs->jobs[slot];
        struct devices_place place;
        bool holds = job->state != JOB_FREE && job->state != JOB_PENDING && job->state != JOB_STRAY;

        check(devices_claimed(jobs->devices, slot, &place) == holds);
        if (job->state == JOB_FREE)
            continue;
        check(job->stage == STAGE_SERVE && replica_index(job->replica) == index);
        check(job->quota_milli == 0 && !job->borrowed && job->claimer == NONE_INDEX);
        check(job->victims_left == 0 || job->state == JOB_PENDING);
        waiting += job->state == JOB_PENDING;
        if (!holds)
            continue;
        check(place.node == job->place.node && place.gpu_mask == job->place.gpu_mask);
        check((uint32_t)__builtin_popcount(place.gpu_mask) == job->gpus);
        check(jobs->config.serve_flavors >> job->flavor & 1);
        check_alone(jobs, slot);
    }
    check(waiting == jobs->serve_waiting);
}

uint64_t serve_digest(const struct jobs *jobs, uint64_t digest)
{
    for (uint32_t index = 0; index < jobs->config.serve_max; index++) {
        const struct job *job = &jobs->jobs[slot_of(jobs, index)];

        if (job->state != JOB_FREE)
            digest = hash_fold(digest, (uint64_t)index << 32 | (uint64_t)job->victims_left << 8 | job->state);
    }
    return digest;
}
