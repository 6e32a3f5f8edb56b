/* A host of nothing but a view, and what a naive twin of a policy needs beside it: the same random history of uses, pins, retirements
 * and choices that come to nothing goes to both, and each choice is compared. */
#ifndef TESTS_CACHE_HOST_H
#define TESTS_CACHE_HOST_H

#include "policy/policy.h"

enum { HOST_NAMES = 48, HOST_MAX = 80 };

struct host_object {
    uint64_t name, size, bytes, hits;
    uint64_t order;    /* insertion number */
    uint64_t came_at;  /* `now` of its insertion */
    uint64_t used_at;  /* and of its last use */
    uint64_t used_before; /* and of the one before */
    uint64_t next_use;
    uint32_t entry;    /* where it lies in the view: for policies that draw places */
    bool pinned;
    uint64_t own[4];   /* a twin's */
};

/* What is present, the oldest insertion first. */
struct host {
    struct host_object objects[HOST_MAX];
    uint32_t count;
    uint64_t now;      /* as the view's */
    uint64_t capacity, used;
    uint64_t asked, asked_size;
    uint32_t places;   /* entries of the view that were ever used */
    uint64_t next_use; /* of what is asked for now */
    void *own;         /* a twin's */
    struct evict_view view;
};

/* The hooks of a policy, written from its paper. victim(): an index of objects[], NONE_INDEX when all are pinned. All but victim() are
 * optional; they are called when the object is in objects[] and its numbers are up to date; go() before it is taken out. */
struct host_twin {
    const struct evict_policy *policy;
    size_t own_bytes;
    void (*miss)(struct host *host, uint64_t name, uint64_t size);
    void (*come)(struct host *host, uint32_t at);
    void (*use)(struct host *host, uint32_t at);
    void (*go)(struct host *host, uint32_t at, bool evicted);
    uint32_t (*victim)(struct host *host);
};

struct host_plan {
    uint64_t capacity;
    bool bytes;       /* sizes differ, some are larger than the cache and one weighs nothing; otherwise each weighs 1 */
    bool quiet;       /* neither pins nor retirements */
    uint32_t turns;
    uint64_t seed;
    const double *parameters; /* NULL: the defaults */
    int64_t cost_fixed_ns, cost_ns_per_mib;
};
/* Fails where they differ, and where the history shows nothing. */
void host_compare(const struct host_twin *twin, const struct host_plan *plan);
/* The usual plans: 1, 2, 3, 7, 16 and 64 slots, bytes, quiet and not. */
void host_compare_all(const struct host_twin *twin);

/* The object for which `before` says so against every other that is not pinned; for twins that choose by a key. */
uint32_t host_first(const struct host *host, bool (*before)(const struct host *host, const struct host_object *a, const struct host_object *b));

#endif
