/* Ghosts: who left, how large it was and what a policy wants to remember of it, found by name, in lists whose heads are the newest.
 * The number has a bound; at the bound the oldest of the longest list makes room. */
#ifndef CACHE_GHOST_H
#define CACHE_GHOST_H

#include "base/hash.h"

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

/* --- what a policy does with them; here for the sake of loops that it is compiled into --- */

static inline uint32_t *evict_ghost_chain(const struct evict_ghosts *ghosts, uint64_t name)
{
    return &ghosts->chains[hash_mix(name) & ghosts->mask];
}

/* Has the memory come that evict_ghost_find() will look at first: worth it where many are looked for together. */
static inline void evict_ghost_prefetch(const struct evict_ghosts *ghosts, uint64_t name)
{
    if (ghosts->max > 0)
        __builtin_prefetch(evict_ghost_chain(ghosts, name), 1);
}

/* NONE_INDEX: not remembered. */
static inline uint32_t evict_ghost_find(const struct evict_ghosts *ghosts, uint64_t name)
{
    uint32_t ghost = ghosts->max == 0 ? NONE_INDEX : *evict_ghost_chain(ghosts, name);

    while (ghost != NONE_INDEX && ghosts->ghosts[ghost].name != name)
        ghost = ghosts->ghosts[ghost].chain;
    return ghost;
}

static inline void evict_ghost_chain_add(struct evict_ghosts *ghosts, uint32_t ghost)
{
    uint32_t *chain = evict_ghost_chain(ghosts, ghosts->ghosts[ghost].name);

    ghosts->ghosts[ghost].chain = *chain;
    *chain = ghost;
}

static inline void evict_ghost_chain_remove(struct evict_ghosts *ghosts, uint32_t ghost)
{
    uint32_t *at = evict_ghost_chain(ghosts, ghosts->ghosts[ghost].name);

    while (*at != ghost) {
        check(*at != NONE_INDEX);
        at = &ghosts->ghosts[*at].chain;
    }
    *at = ghosts->ghosts[ghost].chain;
}

static inline void evict_ghost_remove(struct evict_ghosts *ghosts, uint32_t ghost)
{
    struct evict_ghost *gone = &ghosts->ghosts[ghost];
    struct evict_ghost_list *from = &ghosts->lists[gone->list];

    evict_ghost_chain_remove(ghosts, ghost);
    ghosts->count--;
    if (gone->prev != NONE_INDEX)
        ghosts->ghosts[gone->prev].next = gone->next;
    else
        from->head = gone->next;
    if (gone->next != NONE_INDEX)
        ghosts->ghosts[gone->next].prev = gone->prev;
    else
        from->tail = gone->prev;
    from->count--;
    from->size -= gone->size;
    gone->next = ghosts->free;
    ghosts->free = ghost;
}

/* The list with the most. */
uint32_t evict_ghosts_longest(const struct evict_ghosts *ghosts);

static inline uint32_t evict_ghost_unused(struct evict_ghosts *ghosts)
{
    uint32_t taken = ghosts->free;

    if (taken == NONE_INDEX)
        return ghosts->used++;
    ghosts->free = ghosts->ghosts[taken].next;
    return taken;
}

/* At the head. The name must not be there (evict_ghosts_check() looks); `ghosts->bound` is at least 1. */
static inline uint32_t evict_ghost_add(struct evict_ghosts *ghosts, uint32_t list, uint64_t name, uint64_t size, uint64_t key)
{
    struct evict_ghost_list *into = &ghosts->lists[list];
    uint32_t ghost;

    check(list < EVICT_GHOST_LISTS_MAX);
    check(ghosts->bound > 0 && ghosts->bound <= ghosts->max);
    if (ghosts->count == ghosts->bound)
        evict_ghost_remove(ghosts, ghosts->lists[evict_ghosts_longest(ghosts)].tail);
    ghost = evict_ghost_unused(ghosts);
    check(ghost < ghosts->max);
    ghosts->ghosts[ghost] = (struct evict_ghost){.name = name, .size = size, .key = key, .prev = NONE_INDEX, .next = into->head, .list = list};
    if (into->head != NONE_INDEX)
        ghosts->ghosts[into->head].prev = ghost;
    else
        into->tail = ghost;
    into->head = ghost;
    into->count++;
    into->size += size;
    evict_ghost_chain_add(ghosts, ghost);
    ghosts->count++;
    return ghost;
}

/* The same, after the oldest of this list have gone until all together are `size_max` at most. One larger than that is remembered too,
 * with none beside it that has a size. */
static inline uint32_t evict_ghost_remember(struct evict_ghosts *ghosts, uint32_t list, uint64_t name, uint64_t size, uint64_t size_max)
{
    const struct evict_ghost_list *into = &ghosts->lists[list];
    const uint64_t others_max = size_max - min_u64(size, size_max);

    while (into->count > 0 && into->size > others_max)
        evict_ghost_remove(ghosts, into->tail);
    return evict_ghost_add(ghosts, list, name, size, 0);
}

void evict_ghosts_check_size(const struct evict_ghosts *ghosts, uint32_t list, uint64_t size_max);
void evict_ghosts_check(const struct evict_ghosts *ghosts);

#endif
