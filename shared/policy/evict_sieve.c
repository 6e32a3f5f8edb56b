/* SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi, NSDI 2024, algorithm 1): a FIFO list whose entries never move. A hand
 * goes from the tail towards the head, spares what was visited since it last passed, and takes the first that was not.
 * The paper has no pins: the hand passes over an entry that may not leave and leaves its mark alone. */
#include "policy/policy.h"

static void sieve_insert(struct evict_view *view, uint32_t entry)
{
    view->entries[entry].mark = 0;
    evict_list_push_head(view, 0, entry);
}

static void sieve_touch(struct evict_view *view, uint32_t entry)
{
    view->entries[entry].mark = 1;
}

static void sieve_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    if (view->hand == entry)
        view->hand = view->entries[entry].prev;
    evict_list_remove(view, entry);
}

/* The first way to the head may begin anywhere; the second passes every entry and leaves no evictable one marked; so
 * the third finds one, if there is one at all. */
static uint32_t sieve_victim(struct evict_view *view)
{
    uint32_t entry = view->hand;

    for (uint32_t ways = 0; ways < 3; ways++) {
        if (entry == NONE_INDEX)
            entry = view->lists[0].tail;
        while (entry != NONE_INDEX) {
            struct evict_entry *passed = &view->entries[entry];

            if (passed->evictable && passed->mark == 0) {
                view->hand = entry;
                return entry;
            }
            if (passed->evictable)
                passed->mark = 0;
            entry = passed->prev;
        }
    }
    return NONE_INDEX;
}

const struct evict_policy evict_sieve = {
    .name = "sieve",
    .about = "first in, first out, sparing what was used since the hand last passed",
    .source = "Zhang, Yang, Yue, Vigfusson, Rashmi, NSDI 2024, algorithm 1",
    .insert = sieve_insert,
    .touch = sieve_touch,
    .remove = sieve_remove,
    .victim = sieve_victim,
};
