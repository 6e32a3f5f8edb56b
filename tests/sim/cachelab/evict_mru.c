/* Most recently used: what was used last leaves first. For scans that come round again, of which LRU keeps nothing. It's here as the
 * example of a policy: as shared/policy/evict_mru.c, with X(mru) in EVICT_POLICIES, every command, scenario and test of the list has it. */
#include "policy/policy.h"

extern const struct evict_policy evict_mru; /* policy.h says this of those in the list */

static void mru_insert(struct evict_view *view, uint32_t entry)
{
    evict_list_push_tail(view, 0, entry);
}

static void mru_touch(struct evict_view *view, uint32_t entry)
{
    evict_list_remove(view, entry);
    evict_list_push_tail(view, 0, entry);
}

static void mru_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    evict_list_remove(view, entry);
}

static uint32_t mru_victim(struct evict_view *view)
{
    return evict_list_victim(view, 0);
}

const struct evict_policy evict_mru = {
    .name = "mru",
    .about = "most recently used first",
    .source = "Chou, DeWitt, VLDB 1985, 3.1",
    .insert = mru_insert,
    .touch = mru_touch,
    .remove = mru_remove,
    .victim = mru_victim,
};
