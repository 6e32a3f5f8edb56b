/* Replicas with merged weights, at the host: from what traffic on they pay, by the model of a step that the pool itself runs
 * on, and what a start of one takes. Who gets one is the fleet core's to decide. */
#include <string.h>

#include "engine/internal.h"
#include "model/footprint.h"
#include "scenario/memory.h"

/* By the weights with which adapters take their ranks. */
static uint32_t rank_mean(const struct keys_adapters *keys)
{
    double sum = 0;
    double weights = 0;

    for (uint32_t i = 0; i < keys->ranks.count; i++) {
        double weight = keys->rank_weights.count > 0 ? keys->rank_weights.values[i] : 1;

        sum += weight * keys->ranks.values[i];
        weights += weight;
    }
    return (uint32_t)(sum / weights + 0.5);
}

static uint32_t rows_of(const struct keys_pool *keys)
{
    double rows = keys->merge_rows > 0 ? (double)keys->merge_rows : keys->replicas_max > 0 ? keys->target_outstanding + 0.5 : 64;

    return max_u32((uint32_t)min_u64((uint64_t)rows, keys->rows_max), 1);
}

struct merge_steps merge_steps_of(const struct scenario *scenario, uint32_t pool_index)
{
    const struct scenario_pool *pool = &scenario->pools[pool_index];
    const struct keys_pool *keys = &pool->keys;
    const struct keys_workload *workload = &scenario->workload;
    double prompt = workload->prompt.mean_tokens;
    double output = workload->output.mean_tokens;
    struct merge_load load = {
        .rows = rows_of(keys),
        .context_tokens = (uint32_t)(keys->merge_context > 0 ? (double)keys->merge_context : prompt + output / 2),
        .rank = rank_mean(&workload->adapters),
        .prompt_ratio = keys->merge_prompt_ratio >= 0 ? keys->merge_prompt_ratio : prompt / output,
    };
    struct step_model model;

    load.adapters = (uint32_t)min_u64(keys->merge_adapters > 0 ? keys->merge_adapters : keys->max_loras, load.rows);
    load.adapter_bytes = footprint_adapter_bytes(&pool->shape, adapter_modules(scenario), load.rank);
    step_model_init(&model, &pool->profile, &pool->shape, (uint32_t)keys->tp, adapter_modules(scenario),
                    (enum lora_cost)keys->lora_cost, 0);
    return step_merge(&model, &load);
}

static uint32_t milli(double value)
{
    return (uint32_t)(value * 1000 + 0.5);
}

void merge_announce(struct sim *sim, uint32_t pool_index, uint32_t first)
{
    const struct scenario_pool *pool = &sim->scenario->pools[pool_index];
    const struct keys_pool *keys = &pool->keys;
    struct merge_steps steps = merge_steps_of(sim->scenario, pool_index);
    uint64_t break_even_milli = merge_break_even_milli(&steps);
    struct fleet_event event;

    if (sim->facts.merge_break_even_milli == 0)
        sim->facts.merge_break_even_milli = break_even_milli;
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_MERGE;
    event.merge.up_ns = max_i64((int64_t)(keys->merge_up_s * 1e9), MERGE_LOOKS);
    event.merge.down_ns = max_i64((int64_t)(keys->merge_down_s * 1e9), MERGE_LOOKS);
    event.merge.break_even_milli = break_even_milli;
    event.merge.up_milli = milli(keys->merge_up_ratio);
    event.merge.down_milli = milli(keys->merge_down_ratio);
    event.merge.outstanding_max = steps.rows;
    event.merge.first = (uint16_t)first;
    event.merge.count = (uint16_t)keys->merge_max;
    event.merge.base.value = (uint16_t)pool->base_index;
    event.merge.tp = (uint16_t)keys->tp;
    fleet_deliver(sim, &event);
}

double merge_start_s(const struct sim_replica *replica)
{
    const struct sim *sim = replica->sim;
    const struct scenario_pool *pool = &sim->scenario->pools[replica->pool];
    const struct gpu_profile *profile = &pool->profile;
    struct adapter_fact fact = source_adapter(sim->source, replica->merged_for);
    double bytes = (double)fact.bytes;
    double connections_bytes_per_s = profile->store_connection_bytes_per_s * (double)pool->keys.fetch_connections;
    double store_bytes_per_s = connections_bytes_per_s < profile->store_bytes_per_s ? connections_bytes_per_s
                                                                                    : profile->store_bytes_per_s;

    return profile->store_first_byte_ms * 1e-3 + bytes / store_bytes_per_s + bytes / profile->decrypt_bytes_per_s +
           profile->load_fixed_us * 1e-6 + bytes / replica->tp / profile->host_bytes_per_s +
           step_merge_pass_ns(profile, &pool->shape, replica->tp, fact.rank) * 1e-9;
}
