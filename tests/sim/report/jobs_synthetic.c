#include "sim/report/jobs_synthetic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "results/jobs.h"
#include "support.h"

#define HOUR_NS (INT64_C(3600) * NS_PER_S)
#define SAMPLE_NS (HOUR_NS / 4)
#define GPUS_MAX (32 * 8)
#define SAMPLES_MAX 8192
#define JOBS_MAX 8192

struct gpu {
    int64_t free_ns;
    int64_t base_from_ns;
    int64_t base_ready_ns;
    int base;                   /* -1: none yet */
};

struct world {
    const struct synthetic_jobs *plan;
    struct results *results;
    uint64_t random;
    uint32_t gpus_count;
    int64_t arrivals_end_ns;
    int64_t end_ns;
    struct gpu gpus[GPUS_MAX];
    double claimed_ns[SAMPLES_MAX]; /* GPU time, by sample */
    double computing_ns[SAMPLES_MAX];
    double pending_ns[SAMPLES_MAX];
    double pending_gpus_ns[SAMPLES_MAX];
    int64_t cost_nano[(SYNTHETIC_TENANTS + 1) * CHARGE_COUNT];
    struct jobs_facts facts;
};

static struct scenario *scenario_make(const struct synthetic_jobs *plan)
{
    static const char *const kinds[] = {"8b-tune", "70b-tune", "24b-tune"};
    static const char *const bases[] = {"llama-8b", "llama-70b", "mistral-24b"};
    struct scenario *scenario = calloc(1, sizeof(*scenario));

    assert_non_null(scenario);
    strcpy(scenario->name, "Synthetic tuning");
    snprintf(scenario->variant, sizeof(scenario->variant), "%s", plan->name);
    scenario->seed = 5;
    scenario->duration_s = plan->days * 86400;
    scenario->warmup_s = SYNTHETIC_WARMUP_H * 3600;
    scenario->workload.source = plan->requests ? KEY_SOURCE_GENERATED : KEY_SOURCE_NONE;
    scenario->jobs.source = KEY_JOBS_GENERATED;
    scenario->jobs.burst_jobs = plan->burst ? 50 : 0;
    scenario->jobs.burst_tenant = 7;
    scenario->jobs.burst_at_s = plan->burst ? 12 * 3600 : 0;
    scenario->job_kinds_count = 3;
    for (uint32_t i = 0; i < 3; i++) {
        strcpy(scenario->job_kinds[i].keys.name, kinds[i]);
        strcpy(scenario->job_kinds[i].keys.base, bases[i]);
        scenario->job_kinds[i].base_index = i;
    }
    scenario->capacity_count = 1;
    strcpy(scenario->capacity[0].keys.name, "h100");
    return scenario;
}

/* Spreads a span over the samples it lies in. */
static void spread(double *samples, int64_t from_ns, int64_t until_ns, double each)
{
    while (from_ns < until_ns) {
        const int64_t index = from_ns / SAMPLE_NS;
        const int64_t part_until_ns = min_i64(until_ns, (index + 1) * SAMPLE_NS);

        if (index < SAMPLES_MAX)
            samples[index] += each * (double)(part_until_ns - from_ns);
        from_ns = part_until_ns;
    }
}

static void base_put(struct world *world, uint32_t gpu, int base, int64_t from_ns, int64_t ready_ns)
{
    struct gpu *at = &world->gpus[gpu];

    if (at->base >= 0) {
        const struct residency_row row = {.from_ns = at->base_from_ns, .ready_ns = at->base_ready_ns, .until_ns = from_ns,
                                          .node = (uint16_t)(gpu / 8), .gpu_mask = (uint16_t)(1 << gpu % 8),
                                          .base = (uint16_t)at->base};

        results_residency(world->results, &row);
        world->facts.base_drops++;
    }
    world->facts.base_loads++;
    at->base = base;
    at->base_from_ns = from_ns;
    at->base_ready_ns = ready_ns;
}

/* The GPU, or the node for 8, on which the job can start first; a GPU with its base where residency counts. */
static uint32_t place_find(const struct world *world, int64_t at_ns, uint32_t gpus, int base)
{
    int64_t best_ns = INT64_MAX;
    uint32_t best = 0;

    for (uint32_t i = 0; i + gpus <= world->gpus_count; i += gpus) {
        int64_t free_ns = at_ns;

        for (uint32_t g = i; g < i + gpus; g++)
            free_ns = max_i64(free_ns, world->gpus[g].free_ns);
        free_ns = 2 * free_ns + (world->plan->residency && world->gpus[i].base != base);
        if (free_ns < best_ns) {
            best_ns = free_ns;
            best = i;
        }
    }
    return best;
}

static void charge(struct world *world, uint32_t account, enum charge_component component, double gpu_ns)
{
    world->cost_nano[account * CHARGE_COUNT + component] += (int64_t)(gpu_ns / (double)HOUR_NS * 2.5e9);
}

static void job_run(struct world *world, uint64_t ordinal, int64_t at_ns, uint32_t tenant)
{
    const uint32_t kind = draw_unit(&world->random) < 0.8 ? 0 : draw_unit(&world->random) < 0.3 ? 1 : 2;
    const uint32_t gpus = kind == 1 ? 8 : 1;
    const int64_t size_ns = (int64_t)((0.2 - 1.3 * log(draw_unit(&world->random))) * (double)HOUR_NS);
    const uint32_t place = place_find(world, at_ns, gpus, (int)kind);
    int64_t claimed_ns = at_ns;
    bool hit = true;
    int64_t started_ns, ended_ns;

    for (uint32_t g = place; g < place + gpus; g++) {
        claimed_ns = max_i64(claimed_ns, world->gpus[g].free_ns);
        hit &= world->gpus[g].base == (int)kind;
    }
    started_ns = claimed_ns + (hit ? 2 * NS_PER_S : kind == 1 ? 240 * NS_PER_S : 60 * NS_PER_S);
    ended_ns = started_ns + size_ns + size_ns / 20;
    for (uint32_t g = place; g < place + gpus; g++) {
        if (world->gpus[g].base != (int)kind)
            base_put(world, g, (int)kind, claimed_ns, started_ns - 2 * NS_PER_S);
        world->gpus[g].free_ns = ended_ns;
    }
    world->facts.base_hits += hit;

    const struct job_row row = {
        .ordinal = ordinal, .submitted_ns = at_ns, .started_ns = started_ns, .ended_ns = ended_ns, .size_ns = size_ns,
        .held_gpu_ns = gpus * (ended_ns - claimed_ns), .compute_gpu_ns = gpus * size_ns,
        .checkpoint_gpu_ns = gpus * (size_ns / 20), .load_gpu_ns = gpus * (started_ns - claimed_ns), .tokens = 1000000,
        .tenant = tenant, .kind = (uint16_t)kind, .base = (uint16_t)kind, .gpus = (uint16_t)gpus, .rank = 16,
        .outcome = JOB_OUTCOME_DONE, .base_hit = hit, .attempts = 1};
    const struct placement_row placement = {
        .job = ordinal, .from_ns = claimed_ns, .started_ns = started_ns, .until_ns = ended_ns, .tenant = tenant,
        .node = (uint16_t)(place / 8), .gpu_mask = (uint16_t)(((1u << gpus) - 1) << place % 8), .base = (uint16_t)kind,
        .how = PLACEMENT_DONE, .base_hit = hit};

    results_job(world->results, &row);
    results_placement(world->results, &placement);
    spread(world->claimed_ns, claimed_ns, ended_ns, gpus);
    spread(world->computing_ns, started_ns, ended_ns, 0.9 * gpus);
    spread(world->pending_ns, at_ns, claimed_ns, 1);
    spread(world->pending_gpus_ns, at_ns, claimed_ns, gpus);
    world->facts.claimed_gpu_ns += (uint64_t)row.held_gpu_ns;
    world->facts.computing_gpu_ns += (uint64_t)row.compute_gpu_ns;
    charge(world, tenant, CHARGE_COMPUTE, 0.5 * (double)row.compute_gpu_ns);
    charge(world, tenant, CHARGE_RESIDENCY, 0.2 * (double)row.held_gpu_ns);
    charge(world, tenant, CHARGE_EXCLUSIVE, 0.1 * (double)row.held_gpu_ns);
    charge(world, tenant, CHARGE_LOADING, (double)row.load_gpu_ns);
    world->end_ns = max_i64(world->end_ns, ended_ns);
}

static void jobs_run(struct world *world)
{
    const double mean_ns = world->plan->jobs_per_day > 0 ? 24 * (double)HOUR_NS / world->plan->jobs_per_day : 0;
    const int64_t noon_ns = 12 * HOUR_NS;
    uint64_t ordinal = 0;
    bool burst = world->plan->burst;

    for (double at_ns = 0; mean_ns > 0 && ordinal < JOBS_MAX;) {
        at_ns += -log(draw_unit(&world->random)) * mean_ns;
        for (uint32_t i = 0; burst && at_ns > (double)noon_ns && i < 50; i++)
            job_run(world, ordinal++, noon_ns, 7);
        burst &= at_ns <= (double)noon_ns;
        if (at_ns >= (double)world->arrivals_end_ns)
            return;
        job_run(world, ordinal++, (int64_t)at_ns, (uint32_t)(SYNTHETIC_TENANTS * pow(draw_unit(&world->random), 2)));
    }
}

static void others_write(struct world *world)
{
    const struct job_row refused = {.ordinal = 100000, .submitted_ns = 3 * HOUR_NS, .started_ns = -1, .ended_ns = 3 * HOUR_NS,
                                    .refuse_need = 16, .refuse_have = 8, .gpus = 16, .kind = 1, .outcome = JOB_OUTCOME_REFUSED,
                                    .reason = JOB_REFUSE_GANG};

    if (world->plan->jobs_per_day > 0)
        results_job(world->results, &refused);
    for (uint32_t gpu = 0; gpu < world->gpus_count; gpu++)
        if (world->gpus[gpu].base >= 0) {
            const struct residency_row row = {.from_ns = world->gpus[gpu].base_from_ns,
                                              .ready_ns = world->gpus[gpu].base_ready_ns, .until_ns = -1,
                                              .node = (uint16_t)(gpu / 8), .gpu_mask = (uint16_t)(1 << gpu % 8),
                                              .base = (uint16_t)world->gpus[gpu].base};

            results_residency(world->results, &row);
        }
    for (int64_t i = 0; (i + 1) * SAMPLE_NS <= world->end_ns && i < SAMPLES_MAX && world->plan->jobs_per_day > 0; i++) {
        const double gpu_ns = (double)world->gpus_count * (double)SAMPLE_NS;
        const struct capacity_sample sample = {
            .at_ns = (i + 1) * SAMPLE_NS, .gpus = world->gpus_count,
            .pending = (uint32_t)(world->pending_ns[i] / (double)SAMPLE_NS + 0.5),
            .pending_gpus = (uint32_t)(world->pending_gpus_ns[i] / (double)SAMPLE_NS + 0.5),
            .claimed_share = (float)(world->claimed_ns[i] / gpu_ns), .computing_share = (float)(world->computing_ns[i] / gpu_ns)};

        results_capacity(world->results, &sample);
    }
}

static void requests_write(struct world *world)
{
    for (uint64_t i = 0; i < 400; i++) {
        struct request_row row = {.ordinal = i, .at_ns = 3 * HOUR_NS + (int64_t)i * NS_PER_S, .tier = i % 2 ? TIER_GPU : TIER_BASE,
                                  .status = REQUEST_DONE, .prompt_tokens = 10, .output_tokens = 10};

        row.admitted_ns = row.at_ns + 10 * NS_PER_MS;
        row.first_token_ns = row.at_ns + 50 * NS_PER_MS;
        row.done_ns = row.at_ns + NS_PER_S;
        row.blame_ns[BLAME_QUEUE] = 50 * NS_PER_MS;
        row.blame_ns[BLAME_DECODE] = NS_PER_S - 50 * NS_PER_MS;
        results_request(world->results, &row);
    }
    for (uint32_t i = 1; i <= 100; i++) {
        const struct replica_sample sample = {.at_ns = i * 10 * NS_PER_S, .waiting = 2, .running = 5, .kv_share = 0.4f, .slots_share = 0.5f, .hits = 3,
                                              .loads = 1, .misses = 1};

        results_sample(world->results, &sample);
    }
}

static void money_make(struct world *world)
{
    const double up_ns = (double)world->gpus_count * (double)world->end_ns;

    charge(world, SYNTHETIC_TENANTS, CHARGE_IDLE, 0.6 * (up_ns - (double)world->facts.claimed_gpu_ns));
    charge(world, 3, CHARGE_RESERVED_IDLE, 0.1 * (up_ns - (double)world->facts.claimed_gpu_ns));
    world->cost_nano[5 * CHARGE_COUNT + CHARGE_DISCOUNT] = -1234567891;
    world->cost_nano[SYNTHETIC_TENANTS * CHARGE_COUNT + CHARGE_DISCOUNT] = 1234567891;
    charge(world, 2, CHARGE_STORAGE, (double)HOUR_NS);
    for (size_t i = 0; i < ARRAY_COUNT(world->cost_nano); i++)
        world->facts.bill_nano += world->cost_nano[i];
}

static void variant_write(struct results_file *file, const struct synthetic_jobs *plan, struct summary *ret_summary)
{
    static struct world world;
    const char *names[SYNTHETIC_TENANTS] = {NULL};
    struct scenario *scenario = scenario_make(plan);

    memset(&world, 0, sizeof(world));
    world.plan = plan;
    world.random = 17;
    world.gpus_count = plan->nodes * 8;
    world.arrivals_end_ns = (int64_t)(plan->days * 24 * (double)HOUR_NS);
    world.end_ns = world.arrivals_end_ns;
    for (uint32_t i = 0; i < world.gpus_count; i++)
        world.gpus[i].base = -1;
    assert_int_equal(results_open(file, scenario, plan->requests, plan->requests, &world.results), STATUS_OK);
    free(scenario);
    jobs_run(&world);
    others_write(&world);
    if (plan->requests)
        requests_write(&world);
    money_make(&world);
    names[1] = plan->tenant_name;
    world.facts.tenants_count = SYNTHETIC_TENANTS;
    world.facts.flavors_count = 1;
    world.facts.cost_nano = world.cost_nano;
    world.facts.gpu_ns = (uint128)world.gpus_count * (uint128)world.end_ns;
    world.facts.idle_adapter_nano_per_month = 1900000;
    world.facts.reclaims = 3;
    world.facts.notes = "jobs are made up\n";
    world.facts.tenant_names = plan->tenant_name != NULL ? names : NULL;

    const struct run_facts facts = {.warmup_until_ns = SYNTHETIC_WARMUP_H * HOUR_NS, .arrivals_end_ns = world.arrivals_end_ns,
                                    .end_ns = world.end_ns, .events = 1000, .digest = UINT64_C(0xfeed), .wall_s = 0.1,
                                    .gpus = world.gpus_count, .jobs = &world.facts};

    assert_int_equal(results_close(world.results, &facts, ret_summary, stderr), STATUS_OK);
}

void synthetic_jobs_write(const char *path, const struct synthetic_jobs *variants, uint32_t count, struct summary *ret_summaries)
{
    struct results_file *file;

    assert_int_equal(results_file_create(path, "name: tuning\n", 5, stderr, &file), STATUS_OK);
    for (uint32_t v = 0; v < count; v++)
        variant_write(file, &variants[v], &ret_summaries[v]);
    assert_int_equal(results_file_close(file, false, stderr), STATUS_OK);
}
