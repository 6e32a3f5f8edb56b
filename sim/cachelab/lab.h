/* The cache lab: traces through caches that are nothing but caches. A cell is a policy, an admission and a size; its course
 * depends on nothing but itself, the trace and the seed, so cells may be dealt to processes in any way.
 *
 * The rules, one for every policy. An object larger than the cache passes by, and the policy isn't told. By bytes, an object of
 * another size than its copy is a new object: the copy is removed (not evicted), and the request misses. Size 0 weighs 0. By
 * objects each weighs 1 and sizes aren't looked at. An object whose room can't be made, because what is there is pinned, passes
 * by too; nothing leaves for it. Requests before the warm-up's end fill the cache and are not counted. */
#ifndef CACHELAB_LAB_H
#define CACHELAB_LAB_H

#include "base/base.h"
#include "policy/policy.h"

/* Why it wasn't there. In this order, the first that applies; where the object was asked for before, it is what happened then. */
#define LAB_MISSES(X)                                                             \
    X(COMPULSORY, compulsory, "the first request of the object in the trace")     \
    X(OVERSIZE, oversize, "larger than the whole cache")                          \
    X(PINNED, pinned_full, "what was pinned left no room for it")                 \
    X(REFUSED, refused, "admission, or an offline policy, let it pass by")        \
    X(CAPACITY, capacity, "it was evicted, or there in another size (changed)")
enum lab_miss {
#define X(NAME, name, about) LAB_MISS_##NAME,
    LAB_MISSES(X)
#undef X
    LAB_MISS_COUNT
};

struct lab_counts {
    uint64_t requests;
    uint64_t misses[LAB_MISS_COUNT]; /* they add up to the misses */
    uint64_t changed;                /* of those by capacity: its copy had another size */
    uint64_t evictions;
    uint128 bytes;                   /* asked for */
    uint128 miss_bytes;
};
uint64_t lab_misses(const struct lab_counts *counts);

/* A part of the series: from where the last one ended. */
struct lab_interval {
    uint64_t requests;
    uint64_t misses;
    uint64_t bytes;      /* UINT64_MAX: as many or more */
    uint64_t miss_bytes;
};

enum lab_unit { LAB_BYTES, LAB_OBJECTS };

#define LAB_TEXT_MAX 96

/* `slru:segments=4` */
struct lab_policy {
    char text[LAB_TEXT_MAX];
    const struct evict_policy *evict; /* NULL: pfoo, which is no policy but what none can beat (bound.h) */
    double parameters[EVICT_PARAMETERS_MAX];
};

struct lab_admission {
    char text[LAB_TEXT_MAX];
    const struct admit_policy *admit;
    double parameters[EVICT_PARAMETERS_MAX];
};

/* `8GiB`, `250obj`, `1%`, `1%obj` */
struct lab_size {
    char text[LAB_TEXT_MAX];
    enum lab_unit unit;
    bool share;              /* of the working set: `millionths` percent of it */
    uint64_t millionths;
    uint64_t capacity;       /* in the unit; of a share once the working set is known */
};
#define LAB_CAPACITY_MAX ((UINT64_C(1) << 63) - 1)

struct lab_cell_setup {
    const struct lab_policy *policy;
    const struct lab_admission *admission;
    const struct lab_size *size;
    int64_t cost_fixed_ns;   /* what policies that weigh it are told of a load */
    int64_t cost_ns_per_mib;
    uint64_t seed;
    uint32_t in_flight;      /* the objects of so many last requests are pinned; 0: none */
};

/* What came of a cell. Equal whatever else ran, but for the times. */
struct lab_result {
    struct lab_counts counts; /* after the warm-up */
    uint64_t ghosts;          /* at the end */
    uint64_t objects;         /* in the cache at the end */
    uint64_t memory_bytes;    /* of the cell: entries, ghosts, the policy's state, where each object lies */
    uint64_t requests;        /* with the warm-up's: what the times are of */
    int64_t wall_ns;          /* the cell's own, and reading and numbering, which the cells of a process share */
    int64_t cpu_ns;          /* its share of the process's */
    uint64_t peak_bytes;      /* the most memory of the process that it ran in */
    uint32_t neighbours;      /* cells in that process, itself included */
};

#endif
