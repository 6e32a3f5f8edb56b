/* Everything that `berth-sim trace stat` tells, from one pass over a trace. Memory is proportional to its objects (about 140 bytes
 * each), never to its requests. */
#ifndef CACHELAB_TRACE_STAT_H
#define CACHELAB_TRACE_STAT_H

#include "base/histogram.h"
#include "cachelab/lru_curve.h"
#include "cachelab/shards.h"
#include "cachelab/working_set.h"
#include "cachelab/zipf_fit.h"
#include "object_trace.h"

#define TRACE_STAT_BATCH_MAX 256

/* How far a request is from the last of its object. X(NAME, name, unit, about) */
#define REUSE_LIST(X)                                                                     \
    X(REQUESTS, requests, "requests", "from one request of an object to its next")         \
    X(OBJECTS, objects, "objects", "distinct others meanwhile: LRU's stack distance")      \
    X(BYTES, bytes, "bytes", "of those others")                                            \
    X(TIME, time, "ns", "meanwhile; time that went back counts as 0")

enum reuse {
#define X(NAME, name, unit, about) REUSE_##NAME,
    REUSE_LIST(X)
#undef X
    REUSE_COUNT
};

struct trace_facts {
    uint64_t requests;
    uint64_t objects;
    uint64_t one_hit_objects;   /* asked for once */
    int64_t from_ns;            /* the earliest time and the latest */
    int64_t until_ns;
    uint128 requested_bytes;
    uint128 objects_bytes;      /* of every object once, by its last size */
    uint64_t largest_bytes;
    uint64_t size_changes;      /* requests for an object in another size than before */
    struct histogram object_sizes;
    struct histogram request_sizes;
    struct histogram reuse[REUSE_COUNT];

    const uint64_t *counts;     /* [objects]; requests of each, the most first */
    bool has_zipf;              /* false: counts that tell too few ranks apart */
    struct zipf_fit zipf;

    const struct lru_curve *curve;
    const uint64_t *lru_misses; /* [objects + 1]: of LRU with so many objects */
    bool bytes_known;           /* false: all objects together have 2^63 bytes or more, and there is no curve by bytes */

    const struct shards *shards;
    const double *shards_ratios; /* [objects + 1] */
    double shards_mean_error;    /* mean, and most, over 1 .. objects of the difference from the exact miss ratio */
    double shards_most_error;

    uint32_t windows_count;
    struct working_set_window windows[WORKING_SET_WINDOWS_MAX];
};

struct trace_stat;

/* FULL: no memory; of all below too. */
enum status trace_stat_create(const struct shards_config *shards, struct trace_stat **ret_stat);
void trace_stat_free(struct trace_stat *stat);
/* count <= TRACE_STAT_BATCH_MAX */
enum status trace_stat_add(struct trace_stat *stat, const struct object_request *requests, uint32_t count);
/* After the last request, once. The facts are the stat's and live as long. */
enum status trace_stat_facts(struct trace_stat *stat, const struct trace_facts **ret_facts);
/* What is kept by object, after trace_stat_facts(). */
uint64_t trace_stat_memory_bytes(const struct trace_stat *stat);

#endif
