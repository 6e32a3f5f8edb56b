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

/* A parameter of a policy: `name=value` behind the policy's own, "slru:segments=4". */
struct evict_key {
    const char *name;
    const char *about;
    double value; /* the default: the paper's */
    double min, max;
};

/* Evict: what leaves a tier? Bookkeeping hooks, then the choice. All are called by a host of cache/view.h alone: on a miss evict_ask(),
 * then victims (each removed) until there is room, then insert(). Optional hooks may be NULL. */
struct evict_policy {
    const char *name;
    const char *about;
    const char *source;      /* the paper, and where in it */
    const struct evict_key *keys;
    uint32_t keys_count;
    bool has_heap;
    bool offline;            /* needs view->next_use: a bound for simulations, not for a cache that serves */
    uint32_t ghosts_percent; /* as many ghosts at most, of the most entries there have been at once; 0: none */
    size_t (*state_bytes)(uint32_t entries_max); /* of view->state; optional */
    void (*begin)(struct evict_view *view);      /* optional: all is zero already, the parameters are there */
    /* The state has come to a larger place, all zeros; optional: then its bytes are copied. */
    void (*grow)(struct evict_view *view, const void *old_state, uint32_t old_entries_max);
    /* view->asked is absent and will be inserted. Optional. False, of offline policies only: not worth a place. */
    bool (*miss)(struct evict_view *view);
    void (*insert)(struct evict_view *view, uint32_t entry); /* entry is present, hits = 1 */
    void (*touch)(struct evict_view *view, uint32_t entry);  /* a hit; hits is already counted */
    /* `evicted`: it was this policy's own victim (GDSF ages by it, ghosts are made of it); otherwise it was retired. */
    void (*remove)(struct evict_view *view, uint32_t entry, bool evicted);
    /* An evictable entry, or NONE_INDEX when there is none. May move marks, hands and entries between lists. */
    uint32_t (*victim)(struct evict_view *view);
    void (*verify)(const struct evict_view *view);           /* its own invariants; optional */
};

/* Admit: what may enter a tier? For hosts that may let a miss pass by; a server, which must load what is asked for, has no use for it. */
struct admit_view {
    uint64_t capacity;       /* in the unit */
    uint32_t entries_max;
    uint64_t salt;           /* chance is a hash of it and of `draws` */
    uint64_t draws;
    double parameters[EVICT_PARAMETERS_MAX];
    void *state;             /* a policy's own, zeroed at the beginning */
};
struct admit_policy {
    const char *name;
    const char *about;
    const char *source;
    const struct evict_key *keys;
    uint32_t keys_count;
    size_t (*state_bytes)(uint32_t entries_max); /* optional, as are begin, grow and use */
    void (*begin)(struct admit_view *view);
    void (*grow)(struct admit_view *view, const void *old_state, uint32_t old_entries_max);
    void (*use)(struct admit_view *view, uint64_t name, uint64_t size); /* each use, hit or miss, before wants() */
    /* `victim`: what would leave first for it; NULL: there is room. Oversize is not asked. */
    bool (*wants)(struct admit_view *view, const struct evict_ask *asked, const struct evict_entry *victim);
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

#define EVICT_POLICIES(X) X(lru) X(fifo) X(lfu) X(sieve) X(gdsf) X(random) X(clock) X(slru) X(wtinylfu) X(2q) X(s3fifo) X(arc) X(lirs) X(lfuda) X(hyperbolic) X(lecar) X(lhd)
/* They know the future: bounds for simulations. None of them is an `evict:` of a scenario. */
#define EVICT_BOUNDS(X) X(belady) X(belady_size)
#define ADMIT_POLICIES(X) X(always) X(size_probability) X(bloom) X(tinylfu)
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
EVICT_BOUNDS(X)
#undef X
#define X(name) extern const struct admit_policy admit_##name;
ADMIT_POLICIES(X)
#undef X
#define X(name) extern const struct queue_policy queue_##name;
QUEUE_POLICIES(X)
#undef X
#define X(name) extern const struct route_policy route_##name;
ROUTE_POLICIES(X)
#undef X

/* NULL when the name is unknown. Names are written with hyphens: "round-robin". */
const struct evict_policy *evict_policy_find(const char *name);
const struct evict_policy *evict_bound_find(const char *name);
const struct admit_policy *admit_policy_find(const char *name);
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
