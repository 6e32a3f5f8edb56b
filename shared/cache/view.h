/* What an eviction policy sees and keeps: an entry's facts, and bookkeeping that every policy needs (a list, a heap,
 * a hand, a clock). The cache owns all of it; a policy is choice without memory of its own. */
#ifndef CACHE_VIEW_H
#define CACHE_VIEW_H

#include "base/base.h"

struct evict_entry {
    uint64_t size;      /* what it weighs in the cache's unit: bytes, or 1 when slots are counted */
    uint64_t bytes;     /* real bytes, whatever the unit */
    uint64_t hits;      /* touches since insertion, the insertion included */
    uint64_t key;       /* a policy's priority; the smallest leaves first */
    uint64_t order;     /* insertion number: ties go to the older */
    uint32_t prev;      /* list neighbours; NONE_INDEX at the ends */
    uint32_t next;
    uint32_t heap_at;   /* position in `heap`, NONE_INDEX when not in it */
    uint16_t mark;      /* a policy's bits: SIEVE's visited */
    bool evictable;     /* loaded, unpinned, not held: the only ones victim() may answer */
    bool present;
};

struct evict_view {
    struct evict_entry *entries; /* [entries_max] */
    uint32_t entries_max;
    uint32_t head;               /* list: newest, or most recent, first */
    uint32_t tail;
    uint32_t hand;               /* SIEVE, CLOCK; NONE_INDEX: at the tail */
    uint32_t *heap;              /* [entries_max], binary, by (key, order) */
    uint32_t heap_count;
    uint64_t clock;              /* GDSF's L, and the like */
    int64_t cost_fixed_ns;       /* estimate of a reload: fixed + bytes * per_mib / 2^20 */
    int64_t cost_ns_per_mib;
};

void evict_list_push_head(struct evict_view *view, uint32_t entry);
void evict_list_remove(struct evict_view *view, uint32_t entry);
void evict_heap_insert(struct evict_view *view, uint32_t entry);
void evict_heap_remove(struct evict_view *view, uint32_t entry);
/* After `key` of an entry in the heap has changed. */
void evict_heap_update(struct evict_view *view, uint32_t entry);
/* The smallest (key, order) among the evictable; NONE_INDEX if none. Goes down past unevictable entries only. */
uint32_t evict_heap_victim(const struct evict_view *view);
/* Every invariant of the list and the heap, O(entries_max). */
void evict_view_check(const struct evict_view *view);

#endif
