#include "hardware/memory.h"

#include "model/footprint.h"

enum status memory_plan(const struct scenario_pool *pool, uint64_t largest_adapter_bytes, FILE *errors,
                        struct memory_plan *ret_plan)
{
    const struct keys_pool *keys = &pool->keys;
    uint64_t tp = keys->tp;
    uint64_t slots_bytes = keys->slots_count > 0 ? keys->slots_count * largest_adapter_bytes : (uint64_t)keys->slots_bytes;
    uint64_t token_bytes = footprint_kv_bytes_per_token_gpu(&pool->shape, (uint32_t)tp);
    struct memory_plan plan = {
        .weights_bytes = div_up_u64(footprint_weights_bytes(&pool->shape), tp),
        .slots_bytes = div_up_u64(slots_bytes, tp),
        .activation_bytes = footprint_serving_activation_bytes(&pool->shape, (uint32_t)keys->token_budget),
    };
    uint64_t taken_bytes = plan.weights_bytes + plan.slots_bytes + plan.activation_bytes;
    double usable_bytes = pool->profile.memory_bytes * keys->memory_share - keys->reserve_bytes;

    plan.gpu_bytes = usable_bytes > 0 ? (uint64_t)usable_bytes : 0;
    if (keys->kv_bytes > 0)
        plan.kv_bytes = (uint64_t)keys->kv_bytes / tp;
    else if (plan.gpu_bytes > taken_bytes)
        plan.kv_bytes = plan.gpu_bytes - taken_bytes;
    plan.kv_blocks = plan.kv_bytes / (token_bytes * keys->block_tokens);
    plan.kv_tokens = plan.kv_blocks * keys->block_tokens;
    if (plan.kv_blocks == 0 || (keys->kv_bytes > 0 && taken_bytes + plan.kv_bytes > plan.gpu_bytes)) {
        fprintf(errors,
                "berth-sim: pool %s: %s on %s does not leave room for KV: of %.1f GB usable a GPU, weights take %.1f, "
                "adapter slots %.1f, activations of %llu tokens %.1f, KV %.1f GB; lower pool.slots_bytes or "
                "pool.token_budget, or raise pool.tp\n",
                keys->name, pool->shape.name, pool->profile.title, (double)plan.gpu_bytes * 1e-9,
                (double)plan.weights_bytes * 1e-9, (double)plan.slots_bytes * 1e-9,
                (unsigned long long)keys->token_budget, (double)plan.activation_bytes * 1e-9, (double)plan.kv_bytes * 1e-9);
        return STATUS_INVALID;
    }
    *ret_plan = plan;
    return STATUS_OK;
}
