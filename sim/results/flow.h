/* What went in and came out over time, in a fixed number of bins whose width doubles as the run grows. Requests are told
 * when they end, in any order of arrival; one marks its arrival's bin and its end's. Only here is the time axis kept, so
 * windows that are known at the end of a run (an end of arrivals, a warm-up counted in requests) can still be cut. */
#ifndef RESULTS_FLOW_H
#define RESULTS_FLOW_H

#include "base/base.h"

#define FLOW_BINS 2048

/* X(name, about); sums over a bin. */
#define FLOW_LIST(X)                                                                                        \
    X(ARRIVED, "requests that entered")                                                                     \
    X(DEPARTED, "requests that left, for whatever reason")                                                  \
    X(OFFERED, "arrived, and servable: not refused with a reason")                                          \
    X(SERVED, "completed, at their end")                                                                    \
    X(OFFERED_TOKENS, "prompt and output of those offered that completed, at their arrival")                \
    X(OFFERED_UNKNOWN, "offered that did not complete: their work is not known, at their arrival")          \
    X(SERVED_PROMPT_TOKENS, "of those that completed, at their end")                                        \
    X(SERVED_OUTPUT_TOKENS, "of those that completed, at their end")                                        \
    X(SOJOURN_NS, "time in the system, of those that got in and left, at their arrival")                    \
    X(SOJOURNS, "how many those are")                                                                       \
    X(UNFINISHED, "still there at the end of the run, at their arrival")                                    \
    X(SAMPLED_NS, "replica time that was sampled: the weight of the next ones")                             \
    X(KV_SHARE_NS, "used part of the KV pool x time")                                                       \
    X(SLOTS_PINNED_NS, "pinned part of the slots x time")                                                   \
    X(WAITING_NS, "waiting requests of a replica x time")                                                   \
    X(LOADS, "adapters that arrived in a GPU slot")
enum flow {
#define X(name, about) FLOW_##name,
    FLOW_LIST(X)
#undef X
    FLOW_COUNT
};

/* Counts stay exact in a double up to 2^53. */
struct flow_sum {
    double of[FLOW_COUNT];
    double kv_share_max;
    double waiting_max;
};

struct flow_record {
    int64_t horizon_ns; /* no arrival lies at or after it, so nothing there is kept */
    int64_t width_ns;   /* of a bin */
    struct flow_sum bins[FLOW_BINS];
};

/* `duration_ns`: arrivals end there at the latest. */
void flow_init(struct flow_record *flow, int64_t duration_ns);
/* The bin of an instant, made by folding when it lies further than ever; NULL at or past the horizon. */
struct flow_sum *flow_at(struct flow_record *flow, int64_t at_ns);
/* Sum over [from, until); a bin cut by an edge gives its part. Maxima are of the bins touched. */
struct flow_sum flow_between(const struct flow_record *flow, int64_t from_ns, int64_t until_ns);

#endif
