/* The scalars of a summary by name, once: JSON and the attributes of the results file follow from these lists. A name is
 * the field's, so it carries the unit. */
#ifndef RESULTS_NUMBERS_H
#define RESULTS_NUMBERS_H

#include "results/summary.h"

/* X(kind, field): COUNT uint64_t, REAL double (NaN: not known). */
#define SUMMARY_NUMBERS(X)            \
    X(COUNT, arrived)                 \
    X(COUNT, completed)               \
    X(COUNT, refused)                 \
    X(COUNT, overload)                \
    X(COUNT, timeouts)                \
    X(COUNT, unfinished)              \
    X(COUNT, good)                    \
    X(REAL, goodput_per_s)            \
    X(REAL, requests_per_s)           \
    X(REAL, output_tokens_per_s)      \
    X(REAL, total_tokens_per_s)       \
    X(REAL, gpu_hit_ratio)            \
    X(REAL, loads_per_s)              \
    X(REAL, gpu_busy_share)           \
    X(REAL, kv_share_mean)            \
    X(REAL, kv_share_max)             \
    X(REAL, slots_pinned_share_mean)  \
    X(REAL, waiting_mean)             \
    X(REAL, waiting_max)              \
    X(COUNT, preempted_requests)      \
    X(COUNT, recomputed_tokens)       \
    X(COUNT, tokens_served)           \
    X(REAL, serving_cost_per_million_tokens) \
    X(COUNT, merged_requests)         \
    X(REAL, jain)                     \
    X(COUNT, tenants_served)          \
    X(REAL, rho)                      \
    X(REAL, backlog_slope_per_s)

/* Of run_facts. */
#define FACT_NUMBERS(X)         \
    X(gpus)                     \
    X(kv_tokens_per_replica)    \
    X(slots_capacity)           \
    X(events)                   \
    X(engine_steps)             \
    X(runs)                     \
    X(evictions)                \
    X(node_hits)                \
    X(node_misses)              \
    X(route_home)               \
    X(route_overflow)       \
    X(serving_gpu_ns)       \
    X(replica_starts)       \
    X(replica_drains)       \
    X(merge_break_even_milli) \
    X(merge_starts)         \
    X(merge_drains)         \
    X(merged_replica_ns)

/* X(name, field of struct latency). A quantile of an unstable run is no property of the fleet and is not shown. */
#define QUANTILE_LIST(X) X("p50", p50_ns) X("p90", p90_ns) X("p99", p99_ns)

static inline double seconds_of(int64_t ns) { return (double)ns / 1e9; }
static inline double ms_of(double ns) { return ns / 1e6; }

/* 16 hexadecimal digits and a zero. */
#define DIGEST_TEXT_BYTES 17

#endif
