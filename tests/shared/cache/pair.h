/* An eviction policy and its naive twin: a cache of plain arrays and scans, driven by the same random history of uses, pins, holds,
 * failed loads and retirements. A twin is a few functions written from the paper over what is here. */
#ifndef TESTS_SHARED_CACHE_PAIR_H
#define TESTS_SHARED_CACHE_PAIR_H

#include "cache/cache.h"
#include "support.h"

enum { TWIN_MAX = 80, TWIN_GHOSTS_MAX = 2 * TWIN_MAX, TWIN_QUEUES_MAX = 8 };

struct twin_entry {
    adapter_id adapter;
    uint64_t name, size, bytes, hits;
    uint64_t used_at; /* insertion or touch, by twin->now */
    uint32_t pins;
    uint32_t entry;   /* which one it is in the cache: a doomed one cannot be found by name */
    bool ready, doomed, held, fresh;
    /* A twin's own. */
    uint32_t queue;
    uint64_t rank;    /* in its queue; the greatest is at the head */
    uint32_t mark;
    uint128 key;
};

struct twin_ghost {
    uint64_t name, size, key;
    uint32_t queue;
};

struct twin_policy;

/* Entries in order of insertion, the oldest first; ghosts too. */
struct twin {
    const struct twin_policy *policy;
    struct cache_config config;
    struct twin_entry entries[TWIN_MAX];
    uint32_t count, most; /* there are, and ever were at once */
    struct twin_ghost ghosts[TWIN_GHOSTS_MAX];
    uint32_t ghosts_count, ghosts_max;
    uint64_t now, ranks;
    struct cache_counts counts;
    struct twin_entry asked; /* name, size and bytes of what was missed */
    bool asked_open;
    /* A twin's own. */
    uint32_t hand;           /* SIEVE's place among the entries */
    uint128 clock;
    double target;
    bool remembered;
    uint32_t remembered_in;
};

struct twin_policy {
    const struct evict_policy *policy;
    uint32_t (*victim)(struct twin *twin); /* NONE_INDEX: none may leave */
    /* Optional. */
    void (*miss)(struct twin *twin);
    void (*insert)(struct twin *twin, struct twin_entry *entry);
    void (*touch)(struct twin *twin, struct twin_entry *entry);
    void (*remove)(struct twin *twin, const struct twin_entry *entry, bool evicted); /* it is still there */
};

bool twin_may_leave(const struct twin_entry *entry);
/* So many percent of the capacity, at least 1. */
uint64_t twin_share(const struct twin *twin, uint64_t percent);
void twin_to_head(struct twin *twin, struct twin_entry *entry, uint32_t queue);
uint64_t twin_queue_size(const struct twin *twin, uint32_t queue);
uint32_t twin_queue_count(const struct twin *twin, uint32_t queue);
/* Nearest to the tail: of those that may leave, or of all. NONE_INDEX: none. */
uint32_t twin_last(const struct twin *twin, uint32_t queue);
uint32_t twin_last_of_all(const struct twin *twin, uint32_t queue);
/* Next towards the head; NONE_INDEX at the head. */
uint32_t twin_before(const struct twin *twin, uint32_t at);

uint32_t twin_ghost_find(const struct twin *twin, uint64_t name);
void twin_ghost_add(struct twin *twin, uint32_t queue, const struct twin_entry *entry, uint64_t key);
void twin_ghost_remove(struct twin *twin, uint32_t at);
uint64_t twin_ghosts_size(const struct twin *twin, uint32_t queue);
/* NONE_INDEX: none. */
uint32_t twin_ghost_oldest(const struct twin *twin, uint32_t queue);

struct pair_run {
    struct cache_config config; /* its policy is the twin's */
    uint32_t ids;
    uint32_t turns;
    uint64_t seed;
    bool quiet;                 /* loads end at once and pins do not last */
};
void run_pair(const struct twin_policy *policy, const struct pair_run *run);
/* Bytes, slots, fewer entries than would fit, and every number of slots that is small. */
void run_pairs(const struct twin_policy *policy, uint64_t seed);

#endif
