/* Least recently used: every use moves the entry to the head; what may leave leaves from the tail. */
#include "policy/policy.h"

static void lru_insert(struct evict_view *view, uint32_t entry)
{
    evict_list_push_head(view, 0, entry);
}

static void lru_touch(struct evict_view *view, uint32_t entry)
{
    evict_list_to_head(view, entry);
}

static void lru_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    evict_list_remove(view, entry);
}

static uint32_t lru_victim(struct evict_view *view)
{
    return evict_list_victim(view, 0);
}

const struct evict_policy evict_lru = {
    .name = "lru",
    .about = "least recently used",
    .source = "folklore; Mattson, Gecsei, Slutz, Traiger, IBM Systems Journal 1970, for its stack property",
    .insert = lru_insert,
    .touch = lru_touch,
    .remove = lru_remove,
    .victim = lru_victim,
};
