/* KV pool of a GPU = memory x share - weights / tp - slots / tp - activations - reserve. */
#include "scenario/memory.h"

#include "model/footprint.h"

uint32_t adapter_modules(const struct scenario *scenario)
{
    return scenario->workload.adapters.modules == KEY_MODULES_ATTENTION ? LORA_ATTENTION : LORA_ALL_LINEAR;
}

uint32_t job_kind_modules(const struct scenario_job_kind *kind)
{
    return kind->keys.modules == KEY_MODULES_ATTENTION ? LORA_ATTENTION : LORA_ALL_LINEAR;
}

uint32_t publications_max(const struct scenario *scenario)
{
    bool can_publish = scenario->workload.source != KEY_SOURCE_NONE && scenario->jobs.source != KEY_JOBS_NONE &&
                       scenario->scheduler.evaluate;

    return can_publish ? (uint32_t)scenario->workload.adapters.publish_max : 0;
}

uint32_t adapter_rank_max(const struct scenario *scenario)
{
    const struct key_list *ranks = &scenario->workload.adapters.ranks;
    double largest = 0;

    for (uint32_t i = 0; i < ranks->count; i++)
        largest = ranks->values[i] > largest ? ranks->values[i] : largest;
    for (uint32_t i = 0; publications_max(scenario) > 0 && i < scenario->job_kinds_count; i++)
        largest = (double)scenario->job_kinds[i].keys.rank > largest ? (double)scenario->job_kinds[i].keys.rank : largest;
    return (uint32_t)largest;
}

/* Kinds on other bases count as well: an upgrade may bring their ranks here. */
static void bytes_range(const struct scenario *scenario, const struct scenario_pool *pool, uint64_t *ret_min,
                        uint64_t *ret_max)
{
    const struct key_list *ranks = &scenario->workload.adapters.ranks;
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;

    for (uint32_t i = 0; i < ranks->count; i++) {
        uint64_t bytes = footprint_adapter_bytes(&pool->shape, adapter_modules(scenario), (uint32_t)ranks->values[i]);

        least = min_u64(least, bytes);
        most = max_u64(most, bytes);
    }
    for (uint32_t i = 0; publications_max(scenario) > 0 && i < scenario->job_kinds_count; i++) {
        const struct scenario_job_kind *kind = &scenario->job_kinds[i];
        uint64_t bytes = footprint_adapter_bytes(&pool->shape, job_kind_modules(kind), (uint32_t)kind->keys.rank);

        least = min_u64(least, bytes);
        most = max_u64(most, bytes);
    }
    *ret_min = least;
    *ret_max = most;
}

uint64_t adapter_bytes_min(const struct scenario *scenario, const struct scenario_pool *pool)
{
    uint64_t least;
    uint64_t most;

    bytes_range(scenario, pool, &least, &most);
    return least;
}

uint64_t adapter_bytes_max(const struct scenario *scenario, const struct scenario_pool *pool)
{
    bool has_adapters = scenario->workload.adapters.count > 0 || scenario->workload.source == KEY_SOURCE_TRACE ||
                        publications_max(scenario) > 0;
    uint64_t least;
    uint64_t most;

    bytes_range(scenario, pool, &least, &most);
    return has_adapters ? most : 0;
}

struct pool_memory pool_memory(const struct scenario_pool *pool, uint64_t adapter_bytes)
{
    const struct keys_pool *keys = &pool->keys;
    const double tp = (double)keys->tp;
    double slots_bytes = keys->slots_count > 0 ? (double)keys->slots_count * (double)adapter_bytes : keys->slots_bytes;
    double block_bytes = (double)footprint_kv_bytes_per_token_gpu(&pool->shape, (uint32_t)keys->tp) *
                         (double)keys->block_tokens;
    struct pool_memory memory = {
        .usable_bytes = pool->profile.memory_bytes * keys->memory_share,
        .weights_bytes = (double)footprint_weights_bytes(&pool->shape) / tp,
        .slots_bytes = slots_bytes / tp,
        .activations_bytes =
            (double)footprint_serving_activation_bytes_gpu(&pool->shape, (uint32_t)keys->token_budget, (uint32_t)keys->tp),
        .reserve_bytes = keys->reserve_bytes,
    };

    memory.left_bytes = memory.usable_bytes - memory.weights_bytes - memory.slots_bytes - memory.activations_bytes -
                        memory.reserve_bytes;
    memory.kv_bytes = keys->kv_bytes > 0 ? keys->kv_bytes / tp : memory.left_bytes;
    if (memory.kv_bytes >= block_bytes)
        memory.kv_blocks = (uint64_t)(memory.kv_bytes / block_bytes);
    memory.kv_tokens = memory.kv_blocks * keys->block_tokens;
    return memory;
}
