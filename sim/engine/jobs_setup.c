/* From a scenario's capacity, kinds and scheduler to the fleet core's job configuration and its first events. */
#include <math.h>
#include <stdlib.h>

#include "engine/jobs.h"
#include "model/footprint.h"

static void *zeroed(size_t count, size_t bytes)
{
    void *memory = calloc(count > 0 ? count : 1, bytes);

    check(memory != NULL);
    return memory;
}

static uint64_t usable_bytes(const struct scenario_capacity *capacity)
{
    return (uint64_t)(capacity->profile.memory_bytes * capacity->keys.memory_share);
}

static bool trained(const struct scenario *scenario, uint32_t base_index)
{
    for (uint32_t i = 0; i < scenario->job_kinds_count; i++)
        if (scenario->job_kinds[i].base_index == base_index)
            return true;
    return false;
}

/* A base that leaves a third of the largest GPU free is copied to each GPU of a gang (data parallel); a larger one is cut
 * over the GPUs of the smallest gang that trains it. */
static void size_bases(struct sim *sim)
{
    const struct scenario *scenario = sim->scenario;
    uint64_t largest = 0;

    for (uint32_t i = 0; i < scenario->capacity_count; i++)
        largest = max_u64(largest, usable_bytes(&scenario->capacity[i]));
    for (uint32_t i = 0; i < scenario->job_kinds_count; i++) {
        const struct scenario_job_kind *kind = &scenario->job_kinds[i];
        uint64_t weights = footprint_weights_bytes(&kind->shape);
        uint64_t least_gpus = kind->keys.gpus;

        for (uint32_t k = 0; k < scenario->job_kinds_count; k++)
            if (scenario->job_kinds[k].base_index == kind->base_index)
                least_gpus = min_u64(least_gpus, scenario->job_kinds[k].keys.gpus);
        sim->jobs->weights_bytes[kind->base_index] = weights;
        sim->jobs->base_bytes[kind->base_index] = weights * 3 <= largest * 2 ? weights : div_up_u64(weights, least_gpus);
    }
    for (uint32_t i = 0; i < scenario->pools_count; i++) {
        const struct scenario_pool *pool = &scenario->pools[i];

        if (!pool->keys.shared || trained(scenario, pool->base_index))
            continue;
        sim->jobs->weights_bytes[pool->base_index] = footprint_weights_bytes(&pool->shape);
        sim->jobs->base_bytes[pool->base_index] = div_up_u64(footprint_weights_bytes(&pool->shape), pool->keys.tp);
    }
}

/* A base that is trained, too, lies on GPUs as training has it: a replica takes it as it is. */
static enum status check_shared(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->scenario->pools_count; i++) {
        const struct scenario_pool *pool = &sim->scenario->pools[i];
        uint64_t there = sim->jobs->base_bytes[pool->base_index];
        uint64_t needed = div_up_u64(footprint_weights_bytes(&pool->shape), pool->keys.tp);

        if (pool->keys.shared && there != needed) {
            fprintf(sim->errors, "berth-sim: pool %s: jobs hold %llu bytes of %s on each GPU, a replica with tp %llu needs %llu\n",
                    pool->keys.name, (unsigned long long)there, pool->shape.name, (unsigned long long)pool->keys.tp,
                    (unsigned long long)needed);
            return STATUS_INVALID;
        }
    }
    return STATUS_OK;
}

static void open_nodes(struct sim *sim)
{
    const struct scenario *scenario = sim->scenario;
    struct sim_jobs *jobs = sim->jobs;
    uint32_t flows_max;

    for (uint32_t i = 0; i < scenario->capacity_count; i++)
        jobs->nodes_count += (uint32_t)scenario->capacity[i].keys.nodes;
    jobs->nodes = zeroed(jobs->nodes_count, sizeof(*jobs->nodes));
    /* Sixteen GPUs with two bases each on average; the core numbers them in 16 bits. */
    jobs->bases_max = min_u32(jobs->nodes_count * 32, 65534);
    jobs->bases = zeroed(jobs->bases_max, sizeof(*jobs->bases));
    slots_init(&jobs->base_slots, jobs->bases_max);
    for (uint32_t i = 0, node = 0; i < scenario->capacity_count; i++) {
        const struct scenario_capacity *capacity = &scenario->capacity[i];

        for (uint64_t n = 0; n < capacity->keys.nodes; n++, node++) {
            struct sim_host_node *host = &jobs->nodes[node];

            flows_max = 32;
            host->flavor = (uint16_t)i;
            host->gpu_mask = (uint16_t)((1u << capacity->keys.gpus_per_node) - 1);
            host->flows = zeroed(2 * flows_max, sizeof(*host->flows));
            link_init(&host->disk, scenario->scheduler.disk_bytes_per_s, host->flows, flows_max);
            link_init(&host->store, capacity->profile.store_bytes_per_s, host->flows + flows_max, flows_max);
        }
    }
}

enum status jobs_open(struct sim *sim, struct jobs_config *ret_config)
{
    const struct scenario *scenario = sim->scenario;
    const struct keys_scheduler *keys = &scenario->scheduler;
    struct sim_jobs *jobs;

    *ret_config = (struct jobs_config){0};
    if (scenario->jobs.source == KEY_JOBS_NONE)
        return STATUS_OK;
    jobs = sim->jobs = zeroed(1, sizeof(*jobs));
    jobs->arrival_at_ns = NEVER_NS;
    if (job_source_open(scenario, sim->errors, &jobs->source) != STATUS_OK)
        return STATUS_INVALID;
    jobs->jobs_max = (uint32_t)keys->jobs_max;
    jobs->jobs = zeroed(jobs->jobs_max, sizeof(*jobs->jobs));
    slots_init(&jobs->slots, jobs->jobs_max);
    if (scenario->workload.source != KEY_SOURCE_NONE)
        sim->tenants_max = max_u32(sim->tenants_max, job_source_tenants_max(jobs->source));
    jobs->tenants = max_u32(sim->tenants_max, job_source_tenants_max(jobs->source));
    storage_init(&jobs->storage, jobs->tenants);
    publish_open(sim);
    jobs->cost_nano = zeroed(((size_t)jobs->tenants + 1) * CHARGE_COUNT, sizeof(*jobs->cost_nano));
    open_nodes(sim);
    size_bases(sim);
    if (check_shared(sim) != STATUS_OK)
        return STATUS_INVALID;
    if (spots_open(sim) != STATUS_OK)
        return STATUS_INVALID;
    *ret_config = (struct jobs_config){
        .jobs_max = jobs->jobs_max,
        .tenants_max = jobs->tenants,
        .cohorts_max = (uint32_t)keys->cohorts + 1,
        .bases_max = scenario->bases_and_jobs_count,
        .nodes_max = jobs->nodes_count,
        .holdings_max = jobs->bases_max,
        .flavors_max = scenario->capacity_count,
        .sharers_max = (uint32_t)keys->sharers_max,
        .order = order_policy_find(keys->order),
        .place = place_policy_find(keys->place),
        .half_life_ns = (int64_t)(keys->half_life_h * 3600e9),
        .usage_factor_milli = (uint32_t)(keys->usage_factor * 1000 + 0.5),
        .payback_milli = (uint32_t)(keys->payback * 1000 + 0.5),
        .preempt_delay_ns = (int64_t)(keys->preempt_delay_s * 1e9),
        .victims_max = (uint32_t)keys->victims_max,
        .reservations_max = (uint32_t)keys->reservations_max,
    };
    for (uint32_t i = 0; i < scenario->pools_count; i++)
        if (scenario->pools[i].keys.shared)
            ret_config->serve_max = max_u32(sim->replicas_count, 1);
    for (uint32_t i = 0; i < scenario->capacity_count; i++)
        if (scenario->capacity[i].keys.serve_ok)
            ret_config->serve_flavors |= 1u << i;
    for (uint32_t k = 1; k <= SHARERS_MAX; k++) {
        uint32_t last = max_u32(keys->eta.count, 1);
        double eta = keys->eta.count == 0 ? 1 : keys->eta.values[(k <= last ? k : last) - 1];

        ret_config->eta_milli[k] = (uint32_t)(eta * 1000 + 0.5);
        jobs->eta_milli[k] = ret_config->eta_milli[k];
    }
    ret_config->eta_milli[1] = 1000;
    jobs->eta_milli[1] = 1000;
    for (uint32_t i = 0; i < scenario->capacity_count; i++)
        if (scenario->capacity[i].keys.spot)
            ret_config->spot_flavors |= 1u << i;
    return STATUS_OK;
}

static struct fleet_event event_of(enum fleet_event_kind kind)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint16_t)kind;
    return event;
}

static void announce_cohorts(struct sim *sim, uint16_t flavor, int64_t root_milli)
{
    for (uint32_t i = 0; i <= sim->scenario->scheduler.cohorts; i++) {
        struct fleet_event event = event_of(FLEET_EVENT_COHORT);

        event.cohort.tenant = i;
        event.cohort.cohort = i == 0 ? NO_COHORT : 0;
        event.cohort.weight_milli = 1000;
        event.cohort.nominal_milli = i == 0 ? root_milli : 0;
        event.cohort.borrowing_milli = QUOTA_UNLIMITED;
        event.cohort.lending_milli = QUOTA_UNLIMITED;
        event.cohort.flavor = flavor;
        jobs_deliver(sim, &event);
    }
}

/* nominal_share of the flavor is dealt by weight 1 / rank^alpha; what rounding leaves stays with the root. */
static void announce_tenants(struct sim *sim, uint16_t flavor)
{
    const struct keys_scheduler *keys = &sim->scenario->scheduler;
    const struct keys_capacity *capacity = &sim->scenario->capacity[flavor].keys;
    int64_t all_milli = (int64_t)(capacity->nodes * capacity->gpus_per_node) * 1000;
    uint32_t tenants = sim->jobs->tenants;
    double sum = 0;
    int64_t dealt_milli = 0;

    for (uint32_t i = 0; i < tenants; i++)
        sum += pow(i + 1.0, -keys->nominal_alpha);
    for (uint32_t i = 0; i < tenants; i++)
        dealt_milli += (int64_t)((double)all_milli * keys->nominal_share * pow(i + 1.0, -keys->nominal_alpha) / sum);
    announce_cohorts(sim, flavor, all_milli - dealt_milli);
    for (uint32_t i = 0; i < tenants; i++) {
        struct fleet_event event = event_of(FLEET_EVENT_TENANT);
        int64_t nominal_milli =
            (int64_t)((double)all_milli * keys->nominal_share * pow(i + 1.0, -keys->nominal_alpha) / sum);

        event.tenant.tenant = i;
        event.tenant.cohort = 1 + i % (uint32_t)keys->cohorts;
        event.tenant.weight_milli = 1000;
        event.tenant.nominal_milli = nominal_milli;
        event.tenant.borrowing_milli =
            keys->borrowing_gpus < 0 ? QUOTA_UNLIMITED : (int64_t)(keys->borrowing_gpus * 1000);
        event.tenant.lending_milli =
            keys->lending_share >= 1 ? QUOTA_UNLIMITED : (int64_t)((double)nominal_milli * keys->lending_share);
        event.tenant.flavor = flavor;
        event.tenant.flags = TENANT_TRUSTED;
        jobs_deliver(sim, &event);
    }
}

static void announce_bases(struct sim *sim)
{
    const struct scenario *scenario = sim->scenario;

    for (uint32_t i = 0; i < scenario->job_kinds_count; i++) {
        const struct scenario_job_kind *kind = &scenario->job_kinds[i];
        struct fleet_event event = event_of(FLEET_EVENT_BASE_KNOWN);
        uint64_t bytes = sim->jobs->base_bytes[kind->base_index];
        double gpus = bytes < footprint_weights_bytes(&kind->shape) ? (double)kind->keys.gpus : 1;

        event.base_known.base.value = (uint16_t)kind->base_index;
        event.base_known.bytes = bytes;
        event.base_known.gpus = (uint16_t)gpus;
        event.base_known.load_ns = (int64_t)((double)bytes * gpus / scenario->scheduler.disk_bytes_per_s * 1e9);
        jobs_deliver(sim, &event);
    }
    for (uint32_t i = 0; i < scenario->pools_count; i++) {
        const struct scenario_pool *pool = &scenario->pools[i];
        struct fleet_event event = event_of(FLEET_EVENT_BASE_KNOWN);

        if (!pool->keys.shared || trained(scenario, pool->base_index))
            continue;
        event.base_known.base.value = (uint16_t)pool->base_index;
        event.base_known.bytes = sim->jobs->base_bytes[pool->base_index];
        event.base_known.gpus = (uint16_t)pool->keys.tp;
        event.base_known.load_ns = (int64_t)((double)event.base_known.bytes * (double)pool->keys.tp /
                                             scenario->scheduler.disk_bytes_per_s * 1e9);
        jobs_deliver(sim, &event);
    }
}

void jobs_announce(struct sim *sim)
{
    if (sim->jobs == NULL)
        return;
    for (uint32_t i = 0; i < sim->scenario->capacity_count; i++)
        announce_tenants(sim, (uint16_t)i);
    announce_bases(sim);
    faults_begin(sim);
    publish_begin(sim);
}

void jobs_close(struct sim *sim)
{
    struct sim_jobs *jobs = sim->jobs;

    if (jobs == NULL)
        return;
    job_source_close(jobs->source);
    for (uint32_t i = 0; i < CAPACITY_MAX; i++)
        spot_close(jobs->spots[i]);
    storage_free(&jobs->storage);
    publish_close(&jobs->publish);
    slots_free(&jobs->slots);
    slots_free(&jobs->base_slots);
    for (uint32_t i = 0; jobs->nodes != NULL && i < jobs->nodes_count; i++)
        free(jobs->nodes[i].flows);
    free(jobs->jobs);
    free(jobs->nodes);
    free(jobs->bases);
    free(jobs->cost_nano);
    free(jobs);
    sim->jobs = NULL;
}
