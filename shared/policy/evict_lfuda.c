/* LFU with dynamic aging (Arlitt, Cherkasova, Dilley, Friedrich, Jin, ACM SIGMETRICS Performance Evaluation Review 27(4), 2000, 4.2):
 * key = L + uses, the smallest leaves, and L rises to it. What was used often long ago is overtaken by what comes later. No sizes: with
 * them it is gdsf. */
#include "policy/policy.h"

static void lfuda_insert(struct evict_view *view, uint32_t entry)
{
    view->entries[entry].key = view->clock + view->entries[entry].hits;
    evict_heap_insert(view, entry);
}

static void lfuda_touch(struct evict_view *view, uint32_t entry)
{
    view->entries[entry].key = view->clock + view->entries[entry].hits;
    evict_heap_update(view, entry);
}

/* L never falls, though what couldn't leave may do so later with a smaller key. It is at most the number of uses so far. */
static void lfuda_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    evict_heap_remove(view, entry);
    if (evicted)
        view->clock = max_u64(view->clock, view->entries[entry].key);
}

static uint32_t lfuda_victim(struct evict_view *view)
{
    return evict_heap_victim(view);
}

const struct evict_policy evict_lfuda = {
    .name = "lfuda",
    .about = "least often used, aging",
    .source = "Arlitt et al., ACM SIGMETRICS Performance Evaluation Review 27(4), 2000, 4.2",
    .has_heap = true,
    .insert = lfuda_insert,
    .touch = lfuda_touch,
    .remove = lfuda_remove,
    .victim = lfuda_victim,
};
