/* Belady's MIN (IBM Systems Journal 5(2), 1966; "MIN", p. 92): what is asked for again last of all leaves first. No cache of slots that must
 * take in what it misses has fewer misses (Mattson et al. 1970, 3). With sizes it is no bound: see belady-size, and pfoo.
 *
 * What isn't asked for again leaves first, the older one first; which of those goes changes no miss where each weighs the same. */
#include "policy/policy.h"

static void belady_insert(struct evict_view *view, uint32_t entry)
{
    view->entries[entry].key = ~view->next_use;
    evict_heap_insert(view, entry);
}

static void belady_touch(struct evict_view *view, uint32_t entry)
{
    view->entries[entry].key = ~view->next_use;
    evict_heap_update(view, entry);
}

static void belady_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    evict_heap_remove(view, entry);
}

static uint32_t belady_victim(struct evict_view *view)
{
    return evict_heap_victim(view);
}

const struct evict_policy evict_belady = {
    .name = "belady",
    .about = "what is asked for again last: the fewest misses in slots",
    .source = "Belady, IBM Systems Journal 5(2), 1966",
    .has_heap = true,
    .offline = true,
    .insert = belady_insert,
    .touch = belady_touch,
    .remove = belady_remove,
    .victim = belady_victim,
};
