/* What fits in a replica's GPU memory: weights, adapter slots, activations, and the KV pool that is left. */
#ifndef HARDWARE_MEMORY_H
#define HARDWARE_MEMORY_H

#include <stdio.h>

#include "scenario/scenario.h"

struct memory_plan {
    uint64_t gpu_bytes;         /* usable: memory * memory_share - reserve */
    uint64_t weights_bytes;     /* a GPU */
    uint64_t slots_bytes;       /* a GPU */
    uint64_t activation_bytes;  /* a GPU */
    uint64_t kv_bytes;          /* a GPU */
    uint64_t kv_blocks;         /* of the replica */
    uint64_t kv_tokens;
};

/* largest_adapter_bytes: what a counted slot must hold. STATUS_INVALID with the arithmetic on `errors` when no KV block is
 * left. */
enum status memory_plan(const struct scenario_pool *pool, uint64_t largest_adapter_bytes, FILE *errors,
                        struct memory_plan *ret_plan);

#endif
