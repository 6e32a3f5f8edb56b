/* First in, first out: the oldest load leaves, used or not. The baseline that a use-aware policy must beat. */
#include "policy/policy.h"

static void fifo_insert(struct evict_view *view, uint32_t entry)
{
    evict_list_push_head(view, 0, entry);
}

static void fifo_touch(struct evict_view *view, uint32_t entry)
{
    (void)view;
    (void)entry;
}

static void fifo_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    evict_list_remove(view, entry);
}

static uint32_t fifo_victim(struct evict_view *view)
{
    return evict_list_victim(view, 0);
}

const struct evict_policy evict_fifo = {
    .name = "fifo",
    .about = "oldest load first, whatever its use",
    .source = "folklore",
    .insert = fifo_insert,
    .touch = fifo_touch,
    .remove = fifo_remove,
    .victim = fifo_victim,
};
