/* Every question the cores leave open, and the table of answers to each. A policy is choice without effect: const
 * tables, a view, nothing global. To add an answer: write <question>_<name>.c, add X(<name>) to the list below, done. */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include "base/base.h"
#include "cache/view.h"

struct replica_view;
struct fleet_view;
struct fleet_ask;
struct scale_view;

/* Evict: what leaves a tier? Bookkeeping hooks, then the choice. All are called by the cache alone. */
struct evict_policy {
    const char *name;
    const char *about;
    void (*insert)(struct evict_view *view, uint32_t entry); /* entry is present, hits = 1 */
    void (*touch)(struct evict_view *view, uint32_t entry);  /* a hit; hits is already counted */
    /* `evicted`: it was this policy's own victim (GDSF ages by it); otherwise it was retired. */
    void (*remove)(struct evict_view *view, uint32_t entry, bool evicted);
    /* An evictable entry, or NONE_INDEX when there is none. May move marks and hands. */
    uint32_t (*victim)(struct evict_view *view);
};

/* Queue: which request goes next in a replica? Requests stand in arrival order within a class; classes compete by key,
 * the smallest first, ties to the older head. fcfs has one class, vtc one a tenant. */
struct queue_policy {
    const char *name;
    const char *about;
    bool class_is_tenant; /* otherwise all requests are class 0 */
    bool counts_service;  /* key is the class's virtual token counter; otherwise 0 */
};

/* Route: which replica? Answers an index out of ask->pool, all of which are up and serve the base. See fleet/view.h. */
struct route_policy {
    const char *name;
    const char *about;
    uint32_t (*pick)(const struct fleet_view *view, const struct fleet_ask *ask);
};

/* Order: which job next? Priority classes come first, whatever the policy; then these; ties go to the older job. */
struct order_policy {
    const char *name;
    const char *about;
    bool by_size;  /* least remaining GPU time first */
    bool by_share; /* the tenant with the least decayed usage per weight first */
};

/* Place: where does a job run? Best fit that keeps whole nodes whole, in either case. */
struct place_policy {
    const char *name;
    const char *about;
    bool resident_first; /* where its base is, or is coming; load one where queued work pays for it */
};

/* Scale: how many replicas? What it would have at once; that the load stays there for a while first is the core's affair,
 * and so is the answer's being held between floor and ceiling. */
struct scale_policy {
    const char *name;
    const char *about;
    uint32_t (*want)(const struct scale_view *view);
};

#define EVICT_POLICIES(X) X(lru) X(fifo) X(lfu) X(sieve) X(gdsf)
#define QUEUE_POLICIES(X) X(fcfs) X(vtc)
#define ROUTE_POLICIES(X) X(round_robin) X(random) X(least_loaded) X(power_of_two) X(sticky) X(bounded) X(affinity)

#define ORDER_POLICIES(X) X(fifo) X(srpt) X(wfq)
#define PLACE_POLICIES(X) X(residency) X(naive)
#define SCALE_POLICIES(X) X(load) X(fixed)

#define X(name) extern const struct order_policy order_##name;
ORDER_POLICIES(X)
#undef X
#define X(name) extern const struct place_policy place_##name;
PLACE_POLICIES(X)
#undef X
#define X(name) extern const struct scale_policy scale_##name;
SCALE_POLICIES(X)
#undef X
#define X(name) extern const struct evict_policy evict_##name;
EVICT_POLICIES(X)
#undef X
#define X(name) extern const struct queue_policy queue_##name;
QUEUE_POLICIES(X)
#undef X
#define X(name) extern const struct route_policy route_##name;
ROUTE_POLICIES(X)
#undef X

/* NULL when the name is unknown. Names are written with hyphens: "round-robin". */
const struct evict_policy *evict_policy_find(const char *name);
const struct queue_policy *queue_policy_find(const char *name);
const struct route_policy *route_policy_find(const char *name);
const struct order_policy *order_policy_find(const char *name);
const struct place_policy *place_policy_find(const char *name);
const struct scale_policy *scale_policy_find(const char *name);

/* For listings, question by question: false past the end. */
struct policy_line {
    const char *question; /* "evict" */
    const char *asks;     /* "What leaves a tier?" */
    const char *name;
    const char *about;
};
bool policy_line_at(size_t index, struct policy_line *ret_line);

#endif
