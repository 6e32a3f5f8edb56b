/* Jobs that come: each gets a size, its luck and the first row of its record, and is told to the core. */
#include "engine/jobs.h"

#include "base/hash.h"
#include "model/footprint.h"

/* Tokens of a training step whose activations are live (footprint_training_bytes). */
#define TRAIN_BATCH_TOKENS 8192

static double unit(uint64_t hash)
{
    return ((double)(hash >> 11) + 0.5) * 0x1p-53;
}

double job_luck(const struct sim *sim, uint64_t ordinal, enum job_luck_purpose purpose)
{
    return unit(hash_mix(sim->scenario->seed ^ hash_mix(ordinal << 8 | (uint64_t)purpose)));
}

static int64_t size_of(const struct sim *sim, const struct job_arrival *arrival)
{
    const struct scenario *scenario = sim->scenario;
    const struct scenario_job_kind *kind = &scenario->job_kinds[arrival->kind];
    double flops;

    if (arrival->runtime_ns >= 0)
        return max_i64(arrival->runtime_ns, 1);
    flops = footprint_training_flops(kind->shape.parameters_nominal > 0 ? kind->shape.parameters_nominal
                                                                        : footprint_parameters(&kind->shape),
                                     arrival->tokens * arrival->epochs, TRAIN_FLOPS_LORA);
    return (int64_t)(footprint_training_seconds(flops, arrival->gpus, scenario->capacity[0].profile.flops_per_s,
                                                scenario->scheduler.mfu) * 1e9) + 1;
}

/* Interactive sessions that are left idle halfway end idle_timeout_s later, or at their length. */
static void shape_session(const struct sim *sim, struct sim_job *job)
{
    const struct keys_scheduler *keys = &sim->scenario->scheduler;

    job->used_ns = job->size_ns;
    if (job->arrival.stage != STAGE_INTERACTIVE || job_luck(sim, job->row.ordinal, JOB_LUCK_IDLE) >= keys->idle_share)
        return;
    job->used_ns = job->size_ns / 2;
    if (keys->idle_timeout_s > 0)
        job->size_ns = min_i64(job->size_ns, job->used_ns + (int64_t)(keys->idle_timeout_s * 1e9));
}

/* An evaluation has no deadline of its own: its training had one. */
static void fill_row(struct sim_job *job, const struct sim *sim, uint64_t ordinal)
{
    const struct job_arrival *arrival = &job->arrival;
    bool has_deadline = arrival->deadline_at_ns != NEVER_NS && !job->follows;

    job->row = (struct job_row){
        .ordinal = ordinal,
        .submitted_ns = sim->now_ns,
        .started_ns = -1,
        .ended_ns = -1,
        .deadline_ns = has_deadline ? arrival->deadline_at_ns : 0,
        .tokens = arrival->tokens * arrival->epochs,
        .tenant = arrival->tenant,
        .kind = arrival->kind,
        .base = (uint16_t)sim->scenario->job_kinds[arrival->kind].base_index,
        .gpus = arrival->gpus,
        .rank = arrival->rank,
        .priority = arrival->priority,
        .stage = arrival->stage,
        .isolation = arrival->isolation,
        .follows = job->follows,
    };
}

void job_submit(struct sim *sim, const struct job_arrival *arrival, bool follows, uint32_t renews)
{
    struct sim_jobs *jobs = sim->jobs;
    const struct scenario_job_kind *kind = &sim->scenario->job_kinds[arrival->kind];
    struct training_bytes bytes =
        footprint_training_bytes(&kind->shape, job_kind_modules(kind), arrival->rank, TRAIN_BATCH_TOKENS);
    uint64_t ordinal = jobs->jobs_total++;
    uint32_t slot = slots_take(&jobs->slots);
    struct sim_job overload = {.arrival = *arrival};
    struct sim_job *job = slot == NONE_INDEX ? &overload : &jobs->jobs[slot];
    struct fleet_event event;
    uint32_t generation = job->generation;

    *job = (struct sim_job){.arrival = *arrival, .follows = follows, .renews = renews,
                            .fail_at_ns = NEVER_NS, .generation = generation};
    fill_row(job, sim, ordinal);
    job->size_ns = size_of(sim, arrival);
    shape_session(sim, job);
    job->row.size_ns = job->size_ns;
    if (slot == NONE_INDEX) {
        job->row.outcome = JOB_OUTCOME_OVERLOAD;
        job->row.ended_ns = sim->now_ns;
        job->row.deadline_missed = job->row.deadline_ns > 0;
        results_job(sim->results, &job->row);
        return;
    }
    if (arrival->stage == STAGE_TRAIN && job_luck(sim, ordinal, JOB_LUCK_FAIL) < sim->scenario->scheduler.fail_share)
        job->fail_at_ns = (int64_t)((double)job->size_ns * job_luck(sim, ordinal, JOB_LUCK_FAIL_AT));
    job->id = job_id_make(ordinal, slot);
    job->state = SIM_JOB_QUEUED;
    /* What a checkpoint holds: the adapter and its optimizer; gradients and activations are made anew. */
    job->checkpoint_bytes = bytes.adapter + bytes.moments;
    jobs->in_system++;
    jobs->pending_gpus += arrival->gpus;
    event = job_event(job, FLEET_EVENT_JOB, 0);
    memset(&event.job_progress, 0, sizeof(event.job_progress));
    event.job.job = job->id;
    event.job.size_ns = job->size_ns;
    event.job.deadline_at_ns = arrival->deadline_at_ns;
    event.job.runtime_min_ns = arrival->runtime_min_ns;
    event.job.bytes = div_up_u64(bytes.total, arrival->gpus);
    event.job.tenant.value = arrival->tenant;
    event.job.base.value = job->row.base;
    event.job.gpus = arrival->gpus;
    event.job.rank = arrival->rank;
    event.job.priority = arrival->priority;
    event.job.flags = arrival->flags;
    event.job.stage = arrival->stage;
    event.job.isolation = arrival->isolation;
    jobs_deliver(sim, &event);
}

void jobs_arm_arrival(struct sim *sim)
{
    struct sim_jobs *jobs = sim->jobs;

    jobs->arrival_at_ns = job_source_next_at_ns(jobs->source);
    if (jobs->arrival_at_ns != NEVER_NS)
        sim_push(sim, jobs->arrival_at_ns, CLASS_ARRIVAL, ACTOR_JOB_ARRIVAL, 0, 0, jobs->jobs_total);
}

void jobs_arrive(struct sim *sim)
{
    struct job_arrival arrival;

    if (job_source_take(sim->jobs->source, &arrival) != STATUS_OK) {
        sim->failed = true;
        return;
    }
    job_submit(sim, &arrival, false, 0);
    jobs_arm_arrival(sim);
}
