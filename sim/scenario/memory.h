/* What a GPU's memory is spent on: weights, slots, activations, and what is left for the KV cache. The one reckoning of
 * it, used by the checks of a scenario and by whoever builds its replicas. */
#ifndef SCENARIO_MEMORY_H
#define SCENARIO_MEMORY_H

#include "scenario/scenario.h"

/* Bytes of one GPU. */
struct pool_memory {
    double usable_bytes;      /* memory_share of the GPU's memory */
    double weights_bytes;     /* weights / tp */
    double slots_bytes;       /* slots / tp: slots_bytes is of a replica's GPUs together, and each holds its part of an adapter */
    double activations_bytes; /* of a step of token_budget tokens */
    double reserve_bytes;
    double left_bytes;        /* usable less all of these; may be negative */
    double kv_bytes;          /* what the KV pool takes: left_bytes, or pool.kv_bytes / tp */
    uint64_t kv_blocks;       /* of block_tokens tokens; 0 when nothing is left */
    uint64_t kv_tokens;       /* kv_blocks * block_tokens */
};

/* adapter_bytes: the largest adapter's, for pools that count slots. */
struct pool_memory pool_memory(const struct scenario_pool *pool, uint64_t adapter_bytes);

/* Adapters that trainings may add to the serving catalogue; 0 where none can: without requests, without jobs, or without an
 * evaluation to pass. */
uint32_t publications_max(const struct scenario *scenario);

/* Of the smallest that workload.adapters may hand out or a training publish, on this pool's base. */
uint64_t adapter_bytes_min(const struct scenario *scenario, const struct scenario_pool *pool);
/* Of the largest; 0 when there are no adapters. */
uint64_t adapter_bytes_max(const struct scenario *scenario, const struct scenario_pool *pool);
uint32_t adapter_rank_max(const struct scenario *scenario);
uint32_t adapter_modules(const struct scenario *scenario); /* bits, see model/footprint.h */
uint32_t job_kind_modules(const struct scenario_job_kind *kind);

#endif
