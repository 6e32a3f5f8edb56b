/* What an eviction policy sees and keeps: entries' facts, and the bookkeeping that policies share (lists, a heap, ghosts, a hand, a
 * clock). A host owns all of it: the cache of cache.h, or a simulation of nothing but caches. A policy is choice without memory of its
 * own. Every reference is an index, so that a host may move it all to a larger place. */
#ifndef CACHE_VIEW_H
#define CACHE_VIEW_H

#include "base/hash.h"
#include "cache/ghost.h"

struct evict_policy;

#define EVICT_LISTS_MAX 8
#define EVICT_PARAMETERS_MAX 4

struct evict_entry {
    uint64_t name;      /* who it is: what ghosts and sketches remember */
    uint64_t size;      /* what it weighs in the cache's unit: bytes, or 1 when slots are counted; may be 0 */
    uint64_t bytes;     /* real bytes, whatever the unit */
    uint64_t hits;      /* uses since insertion, the insertion included */
    uint64_t key;       /* a policy's own; in the heap the smallest leaves first */
    uint64_t order;     /* insertion number: ties go to the older */
    uint32_t prev;      /* list neighbours, towards the head and towards the tail; NONE_INDEX at the ends */
    uint32_t next;
    uint32_t heap_at;   /* position in `heap`, NONE_INDEX when not in it */
    uint8_t mark;       /* a policy's own: SIEVE's visited */
    uint8_t list;       /* the list it is in, or was in last */
    bool evictable;     /* loaded, unpinned, not held: the only ones victim() may answer */
    bool present;
};

struct evict_list {
    uint32_t head;      /* newest, or most recent, first */
    uint32_t tail;
    uint32_t count;
    uint64_t size;      /* of its entries, in the unit */
};

/* What was missed and is about to come. */
struct evict_ask {
    uint64_t name;
    uint64_t size;
    uint64_t bytes;
    bool open;          /* the policy has heard of it, and it has not come yet */
};

struct evict_view {
    struct evict_entry *entries; /* [entries_max] */
    uint32_t entries_max;
    uint32_t entries_used;       /* nothing was ever present at this index or beyond */
    uint32_t entries_free;       /* absent ones below it, chained by `next` */
    struct evict_list lists[EVICT_LISTS_MAX];
    uint32_t hand;               /* SIEVE, CLOCK; NONE_INDEX: at the tail */
    uint32_t *heap;              /* [entries_max], binary, by (key, order); only for a policy that asks for one */
    uint32_t heap_count;
    struct evict_ghosts ghosts;  /* of those that left; ghosts_max is 0 for a policy that asks for none */
    struct evict_ask asked;      /* between miss() and insert() */
    uint64_t capacity;           /* in the unit */
    uint64_t clock;              /* GDSF's L, and the like */
    uint64_t order_next;
    uint64_t now;                /* uses so far: insertions and touches. No policy knows another time. */
    uint64_t next_use;           /* offline policies: `now` of the next use of what is asked for, inserted or touched; NONE_USE */
    int64_t cost_fixed_ns;       /* estimate of a reload: fixed + bytes * per_mib / 2^20 */
    int64_t cost_ns_per_mib;
    uint64_t salt;               /* chance is a hash of it; see evict_draw() */
    uint64_t draws;
    double parameters[EVICT_PARAMETERS_MAX]; /* in the order of the policy's keys */
    void *state;                 /* a policy's own, zeroed at the beginning */
    const struct evict_policy *policy;
};
#define NONE_USE UINT64_MAX

/* --- for hosts --- */

struct evict_setup {
    const struct evict_policy *policy;
    const double *parameters;    /* NULL: the policy's defaults */
    uint32_t entries_max;
    uint64_t capacity;
    int64_t cost_fixed_ns;
    int64_t cost_ns_per_mib;
    uint64_t salt;
};
size_t evict_view_bytes(const struct evict_policy *policy, uint32_t entries_max);
/* `memory` is aligned as malloc() does it; 64 is better. */
void evict_view_begin(struct evict_view *view, void *memory, const struct evict_setup *setup);
/* To a larger place; the old one is the caller's again. What was sized by the number of entries grows with it. */
void evict_view_move(struct evict_view *view, void *memory, uint32_t entries_max);
/* Tells the policy of a miss, once until it is inserted. False: let it pass by (offline policies alone say so). */
bool evict_ask(struct evict_view *view, uint64_t name, uint64_t size, uint64_t bytes);
/* What an entry is before its policy has heard of it. */
static inline void evict_entry_fill(struct evict_view *view, uint32_t entry, uint64_t name, uint64_t size, uint64_t bytes)
{
    view->entries[entry] = (struct evict_entry){
        .name = name,
        .size = size,
        .bytes = bytes,
        .hits = 1,
        .order = view->order_next++,
        .prev = NONE_INDEX,
        .next = NONE_INDEX,
        .heap_at = NONE_INDEX,
        .present = true,
    };
}
/* A free entry, filled in and present, not yet told to the policy. There must be one (checked). */
uint32_t evict_entry_take(struct evict_view *view, uint64_t name, uint64_t size, uint64_t bytes);
void evict_entry_give_back(struct evict_view *view, uint32_t entry);
/* Every invariant of lists, heap and ghosts, and the policy's own, O(entries_max). */
void evict_view_check(const struct evict_view *view);

/* --- for policies --- */

/* Lists stand here, where a compiler that sees a policy and its host together puts them into the loop. */
static inline void evict_list_push_head(struct evict_view *view, uint8_t list, uint32_t entry)
{
    struct evict_entry *pushed = &view->entries[entry];
    struct evict_list *into = &view->lists[list];

    pushed->prev = NONE_INDEX;
    pushed->next = into->head;
    if (into->head != NONE_INDEX)
        view->entries[into->head].prev = entry;
    else
        into->tail = entry;
    into->head = entry;
    pushed->list = list;
    into->count++;
    into->size += pushed->size;
}

/* Its neighbours close up; it keeps its own links. */
static inline void evict_list_unlink(struct evict_view *view, struct evict_list *from, const struct evict_entry *removed)
{
    if (removed->prev != NONE_INDEX)
        view->entries[removed->prev].next = removed->next;
    else
        from->head = removed->next;
    if (removed->next != NONE_INDEX)
        view->entries[removed->next].prev = removed->prev;
    else
        from->tail = removed->prev;
}

static inline void evict_list_remove(struct evict_view *view, uint32_t entry)
{
    struct evict_entry *removed = &view->entries[entry];
    struct evict_list *from = &view->lists[removed->list];

    evict_list_unlink(view, from, removed);
    from->count--;
    from->size -= removed->size;
    removed->prev = NONE_INDEX;
    removed->next = NONE_INDEX;
}

/* Within its list. */
static inline void evict_list_to_head(struct evict_view *view, uint32_t entry)
{
    struct evict_entry *moved = &view->entries[entry];
    struct evict_list *list = &view->lists[moved->list];

    if (list->head == entry)
        return;
    evict_list_unlink(view, list, moved);
    moved->prev = NONE_INDEX;
    moved->next = list->head;
    view->entries[list->head].prev = entry;
    list->head = entry;
}

/* The evictable entry nearest to the tail; NONE_INDEX if none. */
static inline uint32_t evict_list_victim(const struct evict_view *view, uint8_t list)
{
    uint32_t entry = view->lists[list].tail;

    while (entry != NONE_INDEX && !view->entries[entry].evictable)
        entry = view->entries[entry].prev;
    return entry;
}

void evict_list_push_tail(struct evict_view *view, uint8_t list, uint32_t entry);
/* CLOCK's hand: from the tail, an evictable entry with a mark loses 1 of it and goes to the head; the first without one is the answer.
 * NONE_INDEX when none is evictable; the others are passed over and keep mark and place. Ends: marks only fall, and what moved to
 * the head is met again. */
static inline uint32_t evict_list_second_chance(struct evict_view *view, uint8_t list)
{
    uint32_t entry = view->lists[list].tail;

    while (entry != NONE_INDEX) {
        struct evict_entry *passed = &view->entries[entry];
        const uint32_t before = passed->prev;

        if (!passed->evictable) {
            entry = before;
            continue;
        }
        if (passed->mark == 0)
            return entry;
        passed->mark--;
        evict_list_to_head(view, entry);
        entry = before == NONE_INDEX ? entry : before;
    }
    return NONE_INDEX;
}

/* So many percent of the capacity, at most all of it and at least 1: a queue has room for a slot, however small the cache. */
uint64_t evict_share(const struct evict_view *view, double percent);

void evict_heap_insert(struct evict_view *view, uint32_t entry);
void evict_heap_remove(struct evict_view *view, uint32_t entry);
/* After `key` of an entry in the heap has changed. */
void evict_heap_update(struct evict_view *view, uint32_t entry);
/* The smallest (key, order) among the evictable; NONE_INDEX if none. Goes down past unevictable entries only. */
uint32_t evict_heap_victim(const struct evict_view *view);

/* What a reload costs: an estimate in nanoseconds, at most 2^48; where no cost is given, the same for all, large enough for fractions. */
uint64_t evict_reload_cost(const struct evict_view *view, uint64_t bytes);

/* Chance: a hash of salt, purpose and how many were drawn before. evict_draw_below(): uniform below `bound`, which is at least 1. */
uint64_t evict_draw(struct evict_view *view, uint64_t purpose);
uint64_t evict_draw_below(struct evict_view *view, uint64_t purpose, uint64_t bound);
/* `samples` indexes below entries_used, which is at least 1; drawn[] has room for one more where their number is odd. One draw starts a
 * stream, each of whose numbers gives two. */
static inline void evict_draw_sample(struct evict_view *view, uint64_t purpose, uint32_t samples, uint32_t *drawn)
{
    const uint64_t start = evict_draw(view, purpose);

    for (uint32_t i = 0; i < samples; i += 2) {
        const uint64_t draw = hash_mix(start + i);

        drawn[i] = (uint32_t)(((draw & UINT32_MAX) * view->entries_used) >> 32);
        drawn[i + 1] = (uint32_t)(((draw >> 32) * view->entries_used) >> 32);
    }
}
/* An evictable entry, each as likely; NONE_INDEX if none. */
uint32_t evict_draw_entry(struct evict_view *view, uint64_t purpose);

#endif
