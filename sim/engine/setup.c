/* From a scenario to cores: sizes, memory, and who shares what with whom. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "engine/internal.h"
#include "engine/jobs.h"
#include "fleet/pack.h"
#include "model/footprint.h"
#include "node/pack.h"
#include "scenario/memory.h"

/* A replica's core counts KV in 32 bits; a pool beyond this never fills. */
#define KV_TOKENS_MAX (UINT64_C(1) << 31)

/* The least room an adapter can take: how many entries a cache of bytes may hold. */
static uint32_t entries_for(const struct scenario *scenario, const struct scenario_pool *pool, double capacity_bytes,
                            uint32_t entries_most)
{
    uint64_t fit = footprint_fit_count((uint64_t)capacity_bytes, max_u64(adapter_bytes_min(scenario, pool), 1));

    return (uint32_t)min_u64(max_u64(fit, 1), entries_most);
}

static void *zeroed(size_t count, size_t bytes)
{
    void *memory = calloc(count > 0 ? count : 1, bytes);

    check(memory != NULL);
    return memory;
}

/* Versions that a core may know at once: two of each adapter may be in flight where they are replaced. */
static uint32_t known_max(const struct sim *sim)
{
    const struct keys_adapters *keys = &sim->scenario->workload.adapters;
    uint32_t adapters = source_adapters_max(sim->source);

    if (keys->churn_per_h > 0 || keys->update_per_h > 0 || publications_max(sim->scenario) > 0)
        return 2 * adapters + 64;
    return max_u32(adapters, 1);
}

static struct replica_config replica_config_of(const struct sim *sim, const struct scenario_pool *pool,
                                               const struct pool_memory *memory)
{
    const struct keys_pool *keys = &pool->keys;
    struct replica_config config = {
        .salt = hash_mix(sim->scenario->seed),
        .requests_max = (uint32_t)keys->waiting_max,
        .rows_max = (uint32_t)min_u64(keys->rows_max, keys->waiting_max),
        .token_budget = (uint32_t)keys->token_budget,
        .block_tokens = (uint32_t)keys->block_tokens,
        .kv_blocks = min_u64(memory->kv_blocks, KV_TOKENS_MAX / keys->block_tokens),
        .kv_watermark_permille = (uint32_t)keys->kv_watermark_permille,
        .max_loras = (uint32_t)keys->max_loras,
        .passes_max = (uint32_t)keys->passes_max,
        .adapters_max = known_max(sim),
        .tenants_max = sim->tenants_max,
        .loads_max = (uint32_t)keys->loads_max,
        .prefetch_max = (uint32_t)keys->prefetch_max,
        .prompt_weight = (uint32_t)keys->prompt_weight,
        .output_weight = (uint32_t)keys->output_weight,
        .batching = keys->batching == KEY_BATCHING_CHUNKED ? BATCHING_CHUNKED : BATCHING_PREFILL_FIRST,
        .queue = queue_policy_find(keys->queue),
        .slots = {.unit = keys->slots_count > 0 ? CACHE_SLOTS : CACHE_BYTES,
                  .capacity = keys->slots_count > 0 ? keys->slots_count : (uint64_t)keys->slots_bytes,
                  .evict = evict_policy_find(keys->evict),
                  .cost_fixed_ns = (int64_t)(pool->profile.load_fixed_us * 1e3),
                  .cost_ns_per_mib =
                      (int64_t)(1048576.0 / (double)keys->tp / pool->profile.host_bytes_per_s * 1e9),
                  .salt = hash_mix(sim->scenario->seed)},
    };

    config.slots.entries_max = keys->slots_count > 0 ? (uint32_t)keys->slots_count
                                                     : entries_for(sim->scenario, pool, keys->slots_bytes, 65534);
    return config;
}

static enum status setup_replica(struct sim *sim, uint32_t pool_index, struct sim_replica *replica)
{
    const struct scenario_pool *pool = &sim->scenario->pools[pool_index];
    struct pool_memory memory = pool_memory(pool, adapter_bytes_max(sim->scenario, pool));
    struct replica_config config;
    const char *field;
    size_t bytes;

    config = replica_config_of(sim, pool, &memory);
    if (replica_config_validate(&config, &field) != STATUS_OK) {
        fprintf(sim->errors, "berth-sim: pool %s: %s is outside what a replica can be\n", pool->keys.name, field);
        return STATUS_INVALID;
    }
    bytes = replica_bytes(&config);
    replica->memory = zeroed(1, bytes);
    replica->memory_bytes = bytes;
    replica->config = config;
    replica->core = replica_create(replica->memory, bytes, &config);
    replica->sim = sim;
    replica->pool = pool_index;
    replica->tp = (uint32_t)pool->keys.tp;
    replica->salt = hash_mix(sim->scenario->seed ^ hash_mix(replica->index));
    replica->kv_blocks = config.kv_blocks;
    replica->slots_capacity = config.slots.capacity;
    replica->requests_max = config.requests_max;
    replica->block_shift = (uint32_t)__builtin_ctz(config.block_tokens);
    replica->load_fixed_ns = (int64_t)(pool->profile.load_fixed_us * 1e3);
    replica->request_of = zeroed(config.requests_max, sizeof(*replica->request_of));
    replica->known_version = zeroed(source_adapters_max(sim->source) + 1, sizeof(*replica->known_version));
    replica->weights = zeroed(config.slots.entries_max, sizeof(*replica->weights));
    replica->gpu_slots = zeroed(config.slots.entries_max, sizeof(*replica->gpu_slots));
    replica->copy_flows = zeroed(config.loads_max, sizeof(*replica->copy_flows));
    link_init(&replica->copies, pool->profile.host_bytes_per_s, replica->copy_flows, config.loads_max);
    slots_init(&replica->slots, config.requests_max);
    step_model_init(&replica->model, &pool->profile, &pool->shape, replica->tp, adapter_modules(sim->scenario),
                    (enum lora_cost)pool->keys.lora_cost, pool->keys.step_jitter);
    if (replica_record(replica) != STATUS_OK)
        return STATUS_IO;
    replica_host_init(replica);
    sim->facts.gpus += pool->keys.shared ? 0 : replica->tp;
    if (replica->index == 0) {
        sim->facts.kv_tokens_per_replica = memory.kv_tokens;
        sim->facts.slots_capacity = config.slots.capacity;
    }
    return STATUS_OK;
}

/* With host_warm: as if every popular adapter had been fetched long ago. */
static void warm_node(struct sim *sim, struct sim_node *node, const struct scenario_pool *pool)
{
    uint64_t room_bytes = (uint64_t)pool->keys.host_bytes;
    adapter_id adapter;

    sim->warming = true;
    for (uint32_t rank = 0; source_popular(sim->source, rank, &adapter); rank++) {
        struct adapter_fact fact = source_adapter(sim->source, adapter);
        struct node_event event;

        if (fact.base.value != pool->base_index)
            continue;
        if (fact.bytes > room_bytes)
            break;
        room_bytes -= fact.bytes;
        memset(&event, 0, sizeof(event));
        event.kind = NODE_EVENT_WANT;
        event.want.adapter = adapter;
        event.want.bytes = fact.bytes;
        node_deliver(node, &event);
        memset(&event, 0, sizeof(event));
        event.kind = NODE_EVENT_FETCHED;
        event.answers = sim->warming_command;
        event.fetched.adapter = adapter;
        event.fetched.bytes = fact.bytes;
        node_deliver(node, &event);
        memset(&event, 0, sizeof(event));
        event.kind = NODE_EVENT_UNWANT;
        event.unwant.adapter = adapter;
        event.unwant.bytes = fact.bytes;
        node_deliver(node, &event);
        fleet_residency(sim, 0, node->index, adapter, TIER_HOST, true);
        host_memory_changed(sim, adapter, fact.bytes, true);
    }
    sim->warming = false;
}

static enum status setup_node(struct sim *sim, uint32_t pool_index, uint32_t replicas, struct sim_node *node)
{
    const struct scenario_pool *pool = &sim->scenario->pools[pool_index];
    const struct keys_pool *keys = &pool->keys;
    struct node_config config = {
        .host = {.unit = CACHE_BYTES,
                 .capacity = (uint64_t)keys->host_bytes,
                 .entries_max = entries_for(sim->scenario, pool, keys->host_bytes, known_max(sim)),
                 .evict = evict_policy_find(keys->host_evict),
                 .cost_fixed_ns = (int64_t)(pool->profile.store_first_byte_ms * 1e6),
                 .cost_ns_per_mib = (int64_t)(1048576.0 / pool->profile.store_bytes_per_s * 1e9),
                 .salt = hash_mix(sim->scenario->seed)},
        .wants_max = replicas * (uint32_t)keys->loads_max + 1,
        .fetches_max = (uint32_t)keys->fetches_max,
    };
    size_t bytes = node_bytes(&config);

    node->memory = zeroed(1, bytes);
    node->core = node_create(node->memory, bytes, &config);
    node->sim = sim;
    node->pool = pool_index;
    node->first_byte_ns = (int64_t)(pool->profile.store_first_byte_ms * 1e6);
    node->fetch_bytes_per_s = pool->profile.store_connection_bytes_per_s * (double)keys->fetch_connections;
    node->decrypt_bytes_per_s = pool->profile.decrypt_bytes_per_s;
    node->fetch_flows = zeroed(config.fetches_max, sizeof(*node->fetch_flows));
    link_init(&node->store, pool->profile.store_bytes_per_s, node->fetch_flows, config.fetches_max);
    if (sim->options->journal_dir != NULL) {
        struct journal_header header;
        struct journal_words words = {.words = header.words};

        journal_header_init(&header, JOURNAL_NODE, node->index, sizeof(struct node_event));
        node_config_pack(&words, &config);
        if (recorder_open(sim->journal_dir, "node", &header, sim->errors, &node->recorder) != STATUS_OK)
            return STATUS_IO;
    }
    node_host_init(node);
    return STATUS_OK;
}

static enum status setup_fleet(struct sim *sim)
{
    const struct keys_fleet *keys = &sim->scenario->fleet;
    struct fleet_config config = {
        .salt = hash_mix(sim->scenario->seed),
        .replicas_max = max_u32(sim->replicas_count, 1),
        .nodes_max = max_u32(sim->nodes_count, 1),
        .bases_max = sim->scenario->bases_count,
        .adapters_max = source_adapters_max(sim->source),
        .requests_max = sim->requests_max,
        .route = route_policy_find(keys->route),
        .bound_milli = (uint32_t)(keys->bound * 1000 + 0.5),
        .bound_add = (uint32_t)keys->bound_add_count,
        .hot_share_milli = (uint32_t)(keys->hot_share * 1000 + 0.5),
        .cool_milli = (uint32_t)(keys->cool_ratio * 1000 + 0.5),
        .rate_half_life_ns = (int64_t)(keys->rate_half_life_s * 1e9),
        .scale = scale_policy_find(keys->scale),
    };
    size_t bytes;

    if (jobs_open(sim, &config.jobs) != STATUS_OK)
        return STATUS_INVALID;
    bytes = fleet_bytes(&config);
    sim->fleet_memory = zeroed(1, bytes);
    sim->fleet = fleet_create(sim->fleet_memory, bytes, &config);
    if (sim->options->journal_dir != NULL) {
        struct journal_header header;
        struct journal_words words = {.words = header.words};

        journal_header_init(&header, JOURNAL_FLEET, 0, sizeof(struct fleet_event));
        fleet_config_pack(&words, &config);
        if (recorder_open(sim->journal_dir, "fleet", &header, sim->errors, &sim->fleet_recorder) != STATUS_OK)
            return STATUS_IO;
    }
    fleet_host_init(sim);
    return STATUS_OK;
}

static uint32_t replicas_per_node(const struct keys_pool *keys)
{
    return (uint32_t)max_u64(1, keys->gpus_per_node / keys->tp);
}

static enum status make_journal_folder(struct sim *sim)
{
    if (sim->options->journal_dir == NULL)
        return STATUS_OK;
    snprintf(sim->journal_dir, sizeof(sim->journal_dir), "%s/%s", sim->options->journal_dir, sim->scenario->variant);
    if ((mkdir(sim->options->journal_dir, 0777) != 0 && errno != EEXIST) ||
        (mkdir(sim->journal_dir, 0777) != 0 && errno != EEXIST)) {
        fprintf(sim->errors, "berth-sim: cannot create the folder %s: %s\n", sim->journal_dir, strerror(errno));
        return STATUS_IO;
    }
    return STATUS_OK;
}

/* Without requests the serving pools are not built. */
static bool serves(const struct sim *sim)
{
    return sim->scenario->workload.source != KEY_SOURCE_NONE;
}

static uint32_t capacity_nodes(const struct scenario *scenario)
{
    uint32_t nodes = 0;

    for (uint32_t i = 0; i < scenario->capacity_count; i++)
        nodes += (uint32_t)scenario->capacity[i].keys.nodes;
    return nodes;
}

/* Where a replica of a shared pool stands is known when it starts; each node of capacity has a host tier for the pool. */
static enum status setup_shared(struct sim *sim, uint32_t pool_index, uint32_t *node_index, uint32_t *replica_index)
{
    const struct keys_pool *keys = &sim->scenario->pools[pool_index].keys;
    uint32_t first = *node_index;

    for (uint32_t i = 0; i < capacity_nodes(sim->scenario); i++, ++*node_index) {
        sim->nodes[*node_index].index = *node_index;
        if (setup_node(sim, pool_index, 16, &sim->nodes[*node_index]) != STATUS_OK)
            return STATUS_INVALID;
    }
    for (uint64_t i = 0; i < keys->replicas_max; i++, ++*replica_index) {
        sim->replicas[*replica_index].index = *replica_index;
        sim->replicas[*replica_index].node = first;
        if (setup_replica(sim, pool_index, &sim->replicas[*replica_index]) != STATUS_OK)
            return STATUS_INVALID;
    }
    return STATUS_OK;
}

/* Which replica stands on which node: pools one after the other, nodes filled in order. */
static enum status setup_cores(struct sim *sim)
{
    const struct scenario *scenario = sim->scenario;
    uint32_t replica_index = 0;
    uint32_t node_index = 0;

    if (!serves(sim))
        return STATUS_OK;
    for (uint32_t p = 0; p < scenario->pools_count; p++) {
        const struct keys_pool *keys = &scenario->pools[p].keys;
        uint32_t per_node = replicas_per_node(keys);

        sim->pool_node_first[p] = node_index;
        if (keys->shared) {
            if (setup_shared(sim, p, &node_index, &replica_index) != STATUS_OK)
                return STATUS_INVALID;
            continue;
        }
        for (uint32_t left = (uint32_t)pool_replicas_all(keys); left > 0;) {
            uint32_t here = min_u32(left, per_node);

            sim->nodes[node_index].index = node_index;
            if (setup_node(sim, p, here, &sim->nodes[node_index]) != STATUS_OK)
                return STATUS_INVALID;
            for (uint32_t i = 0; i < here; i++, replica_index++) {
                sim->replicas[replica_index].index = replica_index;
                sim->replicas[replica_index].node = node_index;
                if (setup_replica(sim, p, &sim->replicas[replica_index]) != STATUS_OK)
                    return STATUS_INVALID;
            }
            node_index++;
            left -= here;
        }
    }
    return STATUS_OK;
}

static void count_cores(struct sim *sim)
{
    if (!serves(sim))
        return;
    for (uint32_t p = 0; p < sim->scenario->pools_count; p++) {
        const struct keys_pool *keys = &sim->scenario->pools[p].keys;
        uint32_t nodes = keys->shared ? capacity_nodes(sim->scenario)
                                      : (uint32_t)div_up_u64(pool_replicas_all(keys), replicas_per_node(keys));

        sim->replicas_count += (uint32_t)pool_replicas_all(keys);
        sim->nodes_count += nodes;
        sim->loads_max += (uint32_t)(pool_replicas_all(keys) * keys->loads_max);
        sim->fetches_max += (uint32_t)(nodes * keys->fetches_max);
    }
}

static void choose_intervals(struct sim *sim)
{
    const struct scenario *scenario = sim->scenario;
    double rows_max = (double)scenario->sample_rows_max;
    double sample_s = scenario->sample_s;

    while (scenario->duration_s / sample_s * max_u32(sim->replicas_count, scenario->capacity_count) > rows_max && sample_s < scenario->duration_s)
        sample_s *= 2;
    sim->sample_every_ns = (int64_t)(sample_s * 1e9);
    sim->report_every_ns = (int64_t)(scenario->report_ms * 1e6);
    sim->arrivals_end_ns = (int64_t)(scenario->duration_s * 1e9);
    sim->give_up_ns = sim->arrivals_end_ns + (int64_t)(scenario->drain_max_s * 1e9);
    /* By count, it ends when that request comes. */
    sim->facts.warmup_until_ns = scenario->warmup_requests > 0 ? NEVER_NS : (int64_t)(scenario->warmup_s * 1e9);
}

enum status sim_setup(struct sim *sim)
{
    const struct scenario *scenario = sim->scenario;

    count_cores(sim);
    if (sim->replicas_count > 1024) {
        fprintf(sim->errors, "berth-sim: the pools have %u replicas together, a fleet has at most 1024\n", sim->replicas_count);
        return STATUS_INVALID;
    }
    if (source_open(scenario, sim->errors, &sim->source) != STATUS_OK)
        return STATUS_INVALID;
    sim->tenants_max = source_tenants_max(sim->source);
    if (make_journal_folder(sim) != STATUS_OK)
        return STATUS_IO;
    sim->requests_max = (uint32_t)scenario->requests_max;
    sim->replicas = zeroed(sim->replicas_count, sizeof(*sim->replicas));
    sim->nodes = zeroed(sim->nodes_count, sizeof(*sim->nodes));
    sim->requests = zeroed(sim->requests_max, sizeof(*sim->requests));
    sim->loads = zeroed(sim->loads_max, sizeof(*sim->loads));
    sim->fetches = zeroed(sim->fetches_max, sizeof(*sim->fetches));
    slots_init(&sim->slots, sim->requests_max);
    slots_init(&sim->load_slots, max_u32(sim->loads_max, 1));
    slots_init(&sim->fetch_slots, max_u32(sim->fetches_max, 1));
    queue_init(&sim->queue, 4096);
    choose_intervals(sim);
    if (setup_fleet(sim) != STATUS_OK || setup_cores(sim) != STATUS_OK)
        return STATUS_INVALID;
    for (uint32_t i = 0; i < sim->nodes_count; i++)
        if (scenario->pools[sim->nodes[i].pool].keys.host_warm)
            warm_node(sim, &sim->nodes[i], &scenario->pools[sim->nodes[i].pool]);
    jobs_announce(sim);
    serving_books_open(sim);
    replicas_announce(sim);
    return STATUS_OK;
}

enum status sim_teardown(struct sim *sim)
{
    enum status status = recorder_close(sim->fleet_recorder, sim->errors);

    for (uint32_t i = 0; sim->replicas != NULL && i < sim->replicas_count; i++) {
        struct sim_replica *replica = &sim->replicas[i];

        if (recorder_close(replica->recorder, sim->errors) != STATUS_OK)
            status = STATUS_IO;
        slots_free(&replica->slots);
        free(replica->memory);
        free(replica->request_of);
        free(replica->known_version);
        free(replica->weights);
        free(replica->gpu_slots);
        free(replica->copy_flows);
    }
    for (uint32_t i = 0; sim->nodes != NULL && i < sim->nodes_count; i++) {
        if (recorder_close(sim->nodes[i].recorder, sim->errors) != STATUS_OK)
            status = STATUS_IO;
        free(sim->nodes[i].memory);
        free(sim->nodes[i].fetch_flows);
    }
    jobs_close(sim);
    serving_books_free(sim);
    source_close(sim->source);
    slots_free(&sim->slots);
    slots_free(&sim->load_slots);
    slots_free(&sim->fetch_slots);
    queue_free(&sim->queue);
    free(sim->fleet_memory);
    free(sim->replicas);
    free(sim->nodes);
    free(sim->requests);
    free(sim->loads);
    free(sim->fetches);
    return status;
}
