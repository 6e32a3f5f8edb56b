/* Least frequently used, counted while in the cache: a count is forgotten when its entry leaves. Ties go to the older
 * load. It never ages, so yesterday's favourite stays until something was used more often: gdsf mends that. */
#include "policy/policy.h"

static void lfu_insert(struct evict_view *view, uint32_t entry)
{
    view->entries[entry].key = view->entries[entry].hits;
    evict_heap_insert(view, entry);
}

static void lfu_touch(struct evict_view *view, uint32_t entry)
{
    view->entries[entry].key = view->entries[entry].hits;
    evict_heap_update(view, entry);
}

static void lfu_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    evict_heap_remove(view, entry);
}

static uint32_t lfu_victim(struct evict_view *view)
{
    return evict_heap_victim(view);
}

const struct evict_policy evict_lfu = {
    .name = "lfu",
    .about = "least often used since it was loaded",
    .source = "folklore",
    .has_heap = true,
    .insert = lfu_insert,
    .touch = lfu_touch,
    .remove = lfu_remove,
    .victim = lfu_victim,
};
