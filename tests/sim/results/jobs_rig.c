#include "sim/results/jobs_rig.h"

#include <stdio.h>
#include <stdlib.h>

const int64_t jobs_rig_cost_nano[(JOBS_RIG_TENANTS + 1) * CHARGE_COUNT] = {
    [0 * CHARGE_COUNT + CHARGE_RESIDENCY] = 1000000001,    [0 * CHARGE_COUNT + CHARGE_COMPUTE] = 2000000002,
    [0 * CHARGE_COUNT + CHARGE_DISCOUNT] = -500000003,     [1 * CHARGE_COUNT + CHARGE_COMPUTE] = 123456789012345,
    [1 * CHARGE_COUNT + CHARGE_STORAGE] = 7,               [3 * CHARGE_COUNT + CHARGE_IDLE] = 3000000000,
    [3 * CHARGE_COUNT + CHARGE_DISCOUNT] = 500000003,
};

struct scenario *jobs_rig_scenario(const char *variant)
{
    struct scenario *scenario = calloc(1, sizeof(*scenario));

    assert_non_null(scenario);
    strcpy(scenario->name, "jobs");
    snprintf(scenario->variant, sizeof(scenario->variant), "%s", variant);
    scenario->seed = 3;
    scenario->duration_s = 2 * JOBS_RIG_DAY_S;
    scenario->warmup_s = 3600;
    scenario->workload.source = KEY_SOURCE_NONE;
    scenario->jobs.source = KEY_JOBS_GENERATED;
    scenario->job_kinds_count = 2;
    strcpy(scenario->job_kinds[0].keys.name, "small");
    strcpy(scenario->job_kinds[0].keys.base, "llama-8b");
    strcpy(scenario->job_kinds[1].keys.name, "large, \"very\"");
    strcpy(scenario->job_kinds[1].keys.base, "llama-70b");
    scenario->job_kinds[1].base_index = 1;
    scenario->capacity_count = 2;
    strcpy(scenario->capacity[0].keys.name, "h100");
    strcpy(scenario->capacity[1].keys.name, "h100-spot");
    return scenario;
}

struct results *jobs_rig_open(struct results_file *file, struct scenario *scenario)
{
    struct results *results;

    assert_int_equal(results_open(file, scenario, 0, 0, &results), STATUS_OK);
    free(scenario); /* nothing of it is kept by reference */
    return results;
}

struct jobs_facts jobs_rig_facts(const char *const *tenant_names)
{
    struct jobs_facts facts = {
        .tenants_count = JOBS_RIG_TENANTS, .flavors_count = 2, .cost_nano = jobs_rig_cost_nano,
        .gpu_ns = 1000 * NS_PER_S, .claimed_gpu_ns = 900 * NS_PER_S, .computing_gpu_ns = 300 * NS_PER_S,
        .idle_adapter_nano_per_month = 1900000, .base_loads = 11, .base_hits = 22, .base_drops = 4, .reclaims = 5,
        .preempts = 6, .notices = 7, .serving_stops = 10, .losses = 8, .published = 9,
        .publish_blocked = 12, .notes = "jobs are made up\n", .tenant_names = tenant_names};

    for (size_t i = 0; i < ARRAY_COUNT(jobs_rig_cost_nano); i++)
        facts.bill_nano += jobs_rig_cost_nano[i];
    return facts;
}

enum status jobs_rig_close(struct results *results, const struct jobs_facts *facts, struct summary *ret_summary)
{
    const struct run_facts run = {.warmup_until_ns = 3600 * NS_PER_S, .arrivals_end_ns = 2 * JOBS_RIG_DAY_S * NS_PER_S,
                                  .end_ns = 2 * JOBS_RIG_DAY_S * NS_PER_S, .notes = "no requests", .jobs = facts};

    return results_close(results, &run, ret_summary, stderr);
}

static int64_t ns(double seconds)
{
    return (int64_t)(seconds * 1e9 + 0.5);
}

struct job_row jobs_rig_done(uint64_t ordinal, uint32_t tenant, double submitted_s, double wait_s, double run_s, double size_s)
{
    return (struct job_row){
        .ordinal = ordinal, .submitted_ns = ns(submitted_s), .started_ns = ns(submitted_s + wait_s),
        .ended_ns = ns(submitted_s + wait_s + run_s), .size_ns = ns(size_s), .held_gpu_ns = ns(run_s),
        .compute_gpu_ns = ns(size_s), .tokens = 1000000, .tenant = tenant, .gpus = 1, .rank = 16, .attempts = 1,
        .outcome = JOB_OUTCOME_DONE};
}

struct job_row jobs_rig_any(uint64_t ordinal)
{
    uint64_t random = ordinal * 977 + 5;
    struct job_row row = {
        .ordinal = ordinal,
        .submitted_ns = (int64_t)ordinal * 1000 + 4000 * NS_PER_S,
        .started_ns = -1,
        .ended_ns = -1,
        .deadline_ns = (int64_t)draw_below(&random, 2) * (int64_t)draw_below(&random, 1000000000000),
        .size_ns = (int64_t)draw_below(&random, 1000000000000),
        .held_gpu_ns = (int64_t)draw_below(&random, 1000000000000),
        .compute_gpu_ns = (int64_t)draw_below(&random, 1000000000000),
        .lost_gpu_ns = (int64_t)draw_below(&random, 1000000000000),
        .checkpoint_gpu_ns = (int64_t)draw_below(&random, 1000000000000),
        .load_gpu_ns = (int64_t)draw_below(&random, 1000000000000),
        .tokens = draw_below(&random, 1000000000),
        .refuse_need = draw_below(&random, 100),
        .refuse_have = draw_below(&random, 100),
        .tenant = (uint32_t)draw_below(&random, JOBS_RIG_TENANTS),
        .kind = (uint16_t)draw_below(&random, 2),
        .base = (uint16_t)draw_below(&random, 2),
        .gpus = (uint16_t)(1 + draw_below(&random, 16)),
        .rank = (uint16_t)draw_below(&random, 65),
        .priority = (int16_t)((int)draw_below(&random, 2000) - 1000),
        .stage = (uint8_t)draw_below(&random, STAGE_COUNT),
        .isolation = (uint8_t)draw_below(&random, ISOLATION_COUNT),
        .outcome = (uint8_t)draw_below(&random, JOB_OUTCOME_COUNT),
        .reason = (uint8_t)draw_below(&random, JOB_REFUSE_COUNT),
        .base_hit = draw_below(&random, 2) == 1,
        .follows = draw_below(&random, 4) == 0,
        .attempts = (uint32_t)draw_below(&random, 5),
        .reclaims = (uint32_t)draw_below(&random, 5),
        .preempts = (uint32_t)draw_below(&random, 5),
        .notices = (uint32_t)draw_below(&random, 5),
        .serving_stops = (uint32_t)draw_below(&random, 5),
        .losses = (uint32_t)draw_below(&random, 5),
    };

    row.deadline_missed = row.deadline_ns > 0 && draw_below(&random, 2) == 1;
    if (row.outcome == JOB_OUTCOME_DONE || draw_below(&random, 2) == 1)
        row.started_ns = row.submitted_ns + (int64_t)draw_below(&random, 1000000000000);
    if (row.outcome != JOB_OUTCOME_UNFINISHED)
        row.ended_ns = max_i64(row.submitted_ns, row.started_ns) + (int64_t)draw_below(&random, 1000000000000);
    return row;
}
