/* The numbers a person sees, of one variant: fixed size, plain values. The table, the JSON, the plots and the page are
 * all printed from this. */
#ifndef RESULTS_SUMMARY_H
#define RESULTS_SUMMARY_H

#include <stdio.h>

#include "base/histogram.h"
#include "base/ids.h"
#include "results/jobs_summary.h"

/* Where a request's time went; exact integers that add up to its latency. */
#define BLAME_LIST(X)                                                                              \
    X(QUEUE, "queue", "waiting for a batch, for no other reason below")                            \
    X(SLOT_WAIT, "slot_wait", "no GPU slot could be freed for its adapter")                        \
    X(STORE, "store", "its adapter came from the object store: first byte and transfer")           \
    X(HOST, "host", "its adapter was decrypted and verified, or waited for room or a fetch in host memory") \
    X(LINK, "link", "its adapter was copied from host to GPU, or waited for that link")            \
    X(PREFILL, "prefill", "its prompt was being computed")                                         \
    X(INTERFERENCE, "interference", "steps were longer, or passed it by, for others' prompts")     \
    X(DECODE, "decode", "its tokens were being produced")                                          \
    X(RECOMPUTE, "recompute", "it lost its KV blocks and caught up again")
enum blame {
#define X(name, text, about) BLAME_##name,
    BLAME_LIST(X)
#undef X
    BLAME_COUNT
};

/* Requests by what they needed: base; warm: the adapter was in a GPU slot; host, store: it was not. ALL: together. */
#define CLASS_LIST(X) X(ALL, "all") X(BASE, "base") X(WARM, "warm") X(HOST, "host") X(STORE, "store")
enum request_class {
#define X(name, text) CLASS_##name,
    CLASS_LIST(X)
#undef X
    CLASS_COUNT
};

#define METRIC_LIST(X) X(TTFT, "ttft") X(TPOT, "tpot") X(E2E, "e2e")
enum metric {
#define X(name, text) METRIC_##name,
    METRIC_LIST(X)
#undef X
    METRIC_COUNT
};

struct latency {
    uint64_t count;
    double mean_ns;
    int64_t p50_ns;
    int64_t p90_ns;
    int64_t p99_ns;
    int64_t max_ns;
};

/* Goals: a fine-tuned request costs at most so much more than a base one, medians; none where its adapter was in the
 * object store. Below so many requests on either side a ratio of medians is noise. */
#define GOAL_E2E_OVER_BASE 1.10
#define GOAL_TTFT_OVER_BASE 1.20
#define RATIO_REQUESTS_MIN 100

#define BLAME_BANDS 4 /* mean composition of the requests around e2e p50, p90, p99, and of all */
struct blame_band {
    char label[16];     /* "all", "p50", "p90", "p99" */
    uint64_t count;
    double mean_ns[BLAME_COUNT];
};

/* What a refused request needed and what there was, in the unit of refuse_sentence(). */
#define REASONS_MAX 16
struct refusal {
    uint64_t need;
    uint64_t have;
};

/* What serving costs: GPUs of pools of their own, and what replicas took of the GPUs of jobs. The platform pays it, of the
 * whole run, starts and drains included; where there are jobs it is part of their bill. */
struct serving_bill {
    bool known;                 /* false: serving GPUs have no price, and are in no bill */
    int64_t cost_nano[CHARGE_COUNT];
    int64_t total_nano;         /* the sum of these, exactly */
};

/* What the engine counted. */
struct jobs_facts;
struct run_facts {
    int64_t warmup_until_ns;
    int64_t arrivals_end_ns;
    int64_t end_ns;             /* of the last event */
    uint64_t events;
    uint64_t engine_steps;
    uint64_t runs;              /* plans executed; steps / runs is the folding */
    uint64_t digest;
    double wall_s;              /* how long the simulation took */
    bool partial;
    uint64_t gpus;
    uint64_t kv_tokens_per_replica; /* of the first pool */
    uint64_t slots_capacity;        /* of the first pool, bytes or count */
    uint64_t node_hits;
    uint64_t node_misses;
    uint64_t evictions;
    uint64_t route_home;
    uint64_t route_overflow;
    uint64_t little_area_ns;    /* integral of the number in the system over the whole run: equals the sum of sojourns */
    uint64_t little_sum_ns;
    double busy_ns;             /* summed over replicas, in the measured window */
    double replica_up_ns;       /* the same of being up, where replicas come and go; 0: all were, always */
    uint64_t serving_gpu_ns;    /* GPU time that replicas held, starts and drains included, whole run */
    uint64_t replica_starts;
    uint64_t replica_drains;
    struct serving_bill serving;
    uint64_t merge_break_even_milli; /* output tokens a second, in thousandths, of the first pool that merges; 0: none does */
    uint64_t merge_starts;      /* of replicas with merged weights; also counted above */
    uint64_t merge_drains;
    uint64_t merged_replica_ns; /* that they stood or were starting, whole run */
    const char *notes;          /* of the source; copied */
    const struct jobs_facts *jobs; /* NULL: no jobs; only until results_close() */
};

struct summary {
    struct jobs_summary jobs;
    bool without_requests;      /* the scenario has none (workload.source none): nothing is said about them */
    char name[64];
    char variant[64];
    uint64_t seed;
    struct run_facts facts;
    char notes[2048];
    double measured_s;          /* warm-up to the end of arrivals */
    uint64_t arrived;           /* in the measured window */
    uint64_t completed;
    uint64_t refused;
    uint64_t overload;
    uint64_t timeouts;
    uint64_t unfinished;
    uint64_t by_reason[REASONS_MAX]; /* of refused */
    struct refusal refusal_worst[REASONS_MAX]; /* the one that needed most; zeros where numbers say nothing */
    /* Of completed requests in the measured window. When `saturated`, only count, mean and max may be shown. */
    struct latency latency[CLASS_COUNT][METRIC_COUNT];
    uint64_t good;              /* completed within the objective */
    double goodput_per_s;
    double requests_per_s;      /* completed in the measured window a second */
    double output_tokens_per_s;
    double total_tokens_per_s;
    /* p50 of the class over p50 of base requests; NaN when either has fewer than RATIO_REQUESTS_MIN. */
    double e2e_over_base[CLASS_COUNT];
    double ttft_over_base[CLASS_COUNT];
    struct blame_band blame[BLAME_BANDS];
    uint64_t tier_count[TIER_COUNT]; /* completed requests by where the adapter was found */
    double gpu_hit_ratio;       /* warm / adapter requests; NaN without any */
    double loads_per_s;
    double kv_share_mean, kv_share_max;
    double slots_pinned_share_mean;
    double gpu_busy_share;
    double waiting_mean, waiting_max; /* at a replica */
    uint64_t preempted_requests;
    uint64_t recomputed_tokens;
    uint64_t tokens_served;     /* of completed requests with their prompts, warm-up included, as the bill is of the whole run */
    double serving_cost_per_million_tokens; /* of these; NaN: no price is known */
    uint64_t merged_requests;   /* of completed: by a replica that was merged for their adapter */
    double jain;                /* over tenants: output tokens a second of their requests' time; 1: equal */
    uint64_t tenants_served;
    /* Saturation: results/saturation.h says how it is judged. */
    bool saturated;
    double rho;                 /* offered work over what was done; > 1: the backlog grows */
    double backlog_slope_per_s; /* requests in the system, least squares over the measured window */
};

/* Machine-readable: one JSON object on one line. */
void summary_json(FILE *out, const struct summary *summary);
void summary_free(struct summary *summary); /* what it owns; accepts {0} */

#endif
