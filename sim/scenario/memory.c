/* KV pool of a GPU = memory x share - weights / tp - slots / tp - activations - reserve. */
#include "scenario/memory.h"

#include "model/footprint.h"

uint32_t adapter_modules(const struct scenario *scenario)
{
    return scenario->workload.adapters.modules == KEY_MODULES_ATTENTION ? LORA_ATTENTION : LORA_ALL_LINEAR;
}

uint32_t adapter_rank_max(const struct scenario *scenario)
{
    const struct key_list *ranks = &scenario->workload.adapters.ranks;
    double largest = 0;

    for (uint32_t i = 0; i < ranks->count; i++)
        largest = ranks->values[i] > largest ? ranks->values[i] : largest;
    return (uint32_t)largest;
}

uint64_t adapter_bytes_max(const struct scenario *scenario, const struct scenario_pool *pool)
{
    bool has_adapters = scenario->workload.adapters.count > 0 || scenario->workload.source == KEY_SOURCE_TRACE;

    if (!has_adapters)
        return 0;
    return footprint_adapter_bytes(&pool->shape, adapter_modules(scenario), adapter_rank_max(scenario));
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
