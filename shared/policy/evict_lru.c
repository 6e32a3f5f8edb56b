/* Least recently used: every use moves the entry to the head; what may leave leaves from the tail. */
#include "policy/policy.h"

static void lru_insert(struct evict_view *view, uint32_t entry)
{
    evict_list_push_head(view, entry);
}

static void lru_touch(struct evict_view *view, uint32_t entry)
{
    if (view->head == entry)
        return;
    evict_list_remove(view, entry);
    evict_list_push_head(view, entry);
}

static void lru_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    evict_list_remove(view, entry);
}

static uint32_t lru_victim(struct evict_view *view)
{
    uint32_t entry = view->tail;

    while (entry != NONE_INDEX && !view->entries[entry].evictable)
        entry = view->entries[entry].prev;
    return entry;
}

const struct evict_policy evict_lru = {
    .name = "lru",
    .about = "least recently used",
    .insert = lru_insert,
    .touch = lru_touch,
    .remove = lru_remove,
    .victim = lru_victim,
};
