/* The replica core: one copy of a base on a group of GPUs. Decides admission, batches, KV blocks, GPU adapter slots
 * and fairness among tenants. Event in, commands out; no clock, no I/O, no allocation after create.
 *
 * Promises (each a test):
 * - One RUN in flight at most. Its rows do not change until its STEP_DONE.
 * - Requests are admitted in the queue policy's order. One held back by max_loras or by pinned slots keeps its place,
 *   and each younger request behind it that is admitted meanwhile is a pass. After passes_max passes nobody younger
 *   is admitted until it is. So at most passes_max + (requests older than it) are admitted before it, not counting
 *   those that the policy puts before it (vtc: other tenants with less service) or that go while it waits for a load.
 * - A waiting request never blocks those behind it that could run, except by passes_max and for KV blocks.
 * - What can never fit is refused at once with the arithmetic. Whatever is admitted can finish alone.
 * - step_done{steps = k} equals k times step_done{steps = 1}. */
#ifndef REPLICA_REPLICA_H
#define REPLICA_REPLICA_H

#include "cache/cache.h"
#include "replica/command.h"
#include "replica/event.h"

struct replica;

enum batching {
    BATCHING_CHUNKED,       /* decodes first, then prefill chunks, all within token_budget */
    BATCHING_PREFILL_FIRST  /* while any admitted prompt waits, steps only prefill (S-LoRA, early vLLM) */
};

struct replica_config {
    uint64_t salt;
    uint32_t requests_max;         /* waiting and running; the host's slots are below it */
    uint32_t rows_max;             /* sequences in a batch; <= token_budget when chunked */
    uint32_t token_budget;         /* tokens a step */
    uint32_t block_tokens;         /* KV block, a power of two <= 256; 16 */
    uint64_t kv_blocks;
    uint32_t kv_watermark_permille; /* of kv_blocks kept free by admission, unless nothing runs */
    uint32_t max_loras;            /* distinct adapters among the rows; the base is not counted */
    uint32_t passes_max;
    uint32_t adapters_max;         /* known at once */
    uint32_t tenants_max;          /* tenant ids are below it */
    uint32_t loads_max;            /* loads in flight */
    uint32_t prefetch_max;         /* requests a scan that may load although they could not run yet; 0: none */
    uint32_t prompt_weight;        /* virtual token counters: service = prompt_weight * prompt + output_weight * output */
    uint32_t output_weight;
    enum batching batching;
    const struct queue_policy *queue;
    struct cache_config slots;     /* unit, capacity, entries_max (<= 65534), evict, cost */
};

/* For reports and time series. */
struct replica_state {
    uint32_t waiting;
    uint32_t running;
    uint32_t loading;
    uint32_t kv_free_permille;
    uint64_t kv_blocks_used;
    uint64_t slots_used;           /* in the cache's unit */
    uint64_t slots_pinned;
    uint64_t step;                 /* engine steps so far */
    uint64_t preemptions;
    uint64_t passes_most;          /* the most passes any request had when it was admitted */
    struct cache_counts cache;
};

/* STATUS_INVALID with the name of the first bad field in ret_field (a constant). */
enum status replica_config_validate(const struct replica_config *config, const char **ret_field);
size_t replica_bytes(const struct replica_config *config);
struct replica *replica_create(void *memory, size_t memory_bytes, const struct replica_config *config);
void replica_step(struct replica *replica, const struct replica_event *event, struct replica_commands *out);
int64_t replica_wakeup_at_ns(const struct replica *replica);
void replica_check(const struct replica *replica);
uint64_t replica_digest(const struct replica *replica);

/* The plan of the RUN in flight; count 0 when none is. */
struct step_plan replica_plan(const struct replica *replica);
struct replica_state replica_state(const struct replica *replica);

#endif
