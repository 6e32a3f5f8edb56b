/* Ghosts: who left, how large it was and what a policy wants to remember of it, found by name, in lists whose heads are the newest.
 * The number has a bound; at the bound the oldest of the longest list makes room. */
#ifndef CACHE_GHOST_H
#define CACHE_GHOST_H

#include "base/base.h"

#define EVICT_GHOST_LISTS_MAX 2

struct evict_ghost {
    uint64_t name;
    uint64_t size;  /* in the cache's unit */
    uint64_t key;   /* a policy's own */
    uint32_t prev;  /* towards the head */
    uint32_t next;
    uint32_t chain; /* the next of those whose names hash alike */
    uint32_t list;
    uint32_t hits;  /* a policy's own */
};

struct evict_ghost_list {
    uint32_t head;
    uint32_t tail;
    uint32_t count;
    uint64_t size;
};

struct evict_ghosts {
    struct evict_ghost *ghosts;  /* [max] */
    uint32_t *chains;            /* [mask + 1]: where those whose names hash alike begin */
    uint32_t mask;
    uint32_t count;
    struct evict_ghost_list lists[EVICT_GHOST_LISTS_MAX];
    uint32_t max;
    uint32_t bound;              /* of their number, at most `max` */
    uint32_t used;               /* never taken beyond */
    uint32_t free;
};

size_t evict_ghosts_bytes(uint32_t max);
void evict_ghosts_begin(struct evict_ghosts *ghosts, void *memory, uint32_t max);
void evict_ghosts_move(struct evict_ghosts *ghosts, void *memory, uint32_t max);

/* Has the memory come that evict_ghost_find() will look at first: worth it where many are looked for together. */
void evict_ghost_prefetch(const struct evict_ghosts *ghosts, uint64_t name);
/* NONE_INDEX: not remembered. */
uint32_t evict_ghost_find(const struct evict_ghosts *ghosts, uint64_t name);
/* At the head. The name must not be there (checked); `ghosts->bound` is at least 1. */
uint32_t evict_ghost_add(struct evict_ghosts *ghosts, uint32_t list, uint64_t name, uint64_t size, uint64_t key);
/* The same, after the oldest of this list have gone until all together are `size_max` at most. One larger than that is remembered too,
 * with none beside it that has a size. */
uint32_t evict_ghost_remember(struct evict_ghosts *ghosts, uint32_t list, uint64_t name, uint64_t size, uint64_t size_max);
void evict_ghosts_check_size(const struct evict_ghosts *ghosts, uint32_t list, uint64_t size_max);
void evict_ghost_remove(struct evict_ghosts *ghosts, uint32_t ghost);
void evict_ghosts_check(const struct evict_ghosts *ghosts);

#endif
