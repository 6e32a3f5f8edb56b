/* LRU's curve from a sample (Waldspurger, Park, Garthwaite, Ahmad: Efficient MRC Construction with SHARDS, FAST 2015, 3): an object is
 * in the sample if a hash of its id lies below a threshold, so all its requests are or none is, and distances within the sample
 * are those of the trace times the rate. At a fixed rate memory grows with objects; of a fixed size the
 * threshold falls whenever the sample outgrows it. The curve has the correction SHARDS_adj: requests that the sample has too
 * few or too many count as hits of the smallest cache, which is to divide by the requests of the trace, not of the sample. */
#ifndef CACHELAB_SHARDS_H
#define CACHELAB_SHARDS_H

#include "base/base.h"

#define SHARDS_BATCH_MAX 256
/* Rates are multiples of one part in so many. */
#define SHARDS_STEPS (1u << 24)
#define SHARDS_OBJECTS_MAX (1u << 28)

struct shards_config {
    double rate;          /* 1 / SHARDS_STEPS .. 1; with objects_max where it begins */
    uint32_t objects_max; /* 0: a fixed rate; else a fixed size, at most SHARDS_OBJECTS_MAX */
    uint64_t seed;        /* which objects are drawn */
};

struct shards;

/* FULL: no memory. */
enum status shards_create(const struct shards_config *config, struct shards **ret_shards);
void shards_free(struct shards *shards);

/* Requests in their order, count <= SHARDS_BATCH_MAX. FULL: no memory. */
enum status shards_add(struct shards *shards, const uint64_t *ids, const uint64_t *sizes_bytes, uint32_t count);

/* As of now. */
double shards_rate(const struct shards *shards);
uint32_t shards_objects(const struct shards *shards);
/* Requests that were looked at. */
uint64_t shards_requests(const struct shards *shards);
uint64_t shards_memory_bytes(const struct shards *shards);

/* Fills ret_ratios[0 .. count) with miss ratios: of a cache of i objects. */
void shards_miss_ratios(const struct shards *shards, double *ret_ratios, uint64_t count);
double shards_miss_ratio_bytes(const struct shards *shards, uint64_t capacity_bytes);

#endif
