/* Greedy-Dual-Size-Frequency (Cherkasova, HP Labs 1998): key = L + hits * cost / size, the smallest key leaves, and L
 * rises to it. So it keeps what is used often, dear to reload and small, and L ages what is no longer used.
 *
 * Bounds. Keys are fixed point with 16 fraction bits. cost <= 2^48 ns (three days) and hits <= 2^32 by saturation, so
 * hits * cost * 2^16 <= 2^96 fits 128 bits; the quotient saturates below 2^62. L is below 2^62 whenever a key is made,
 * for gdsf_remove() moves the origin to L as soon as it is not. Hence every key is below 2^63: nothing wraps. */
#include "policy/policy.h"

#define HITS_MAX (UINT64_C(1) << 32)
#define VALUE_MAX ((UINT64_C(1) << 62) - 1)
#define CLOCK_MAX ((UINT64_C(1) << 62) - 1)
#define FRACTION_BITS 16

static uint64_t gdsf_key(const struct evict_view *view, const struct evict_entry *entry)
{
    uint128 value = (uint128)min_u64(entry->hits, HITS_MAX) * evict_reload_cost(view, entry->bytes);

    value = (value << FRACTION_BITS) / max_u64(entry->size, 1);
    return view->clock + (value < VALUE_MAX ? (uint64_t)value : VALUE_MAX);
}

static void gdsf_insert(struct evict_view *view, uint32_t entry)
{
    view->entries[entry].key = gdsf_key(view, &view->entries[entry]);
    evict_heap_insert(view, entry);
}

static void gdsf_touch(struct evict_view *view, uint32_t entry)
{
    view->entries[entry].key = gdsf_key(view, &view->entries[entry]);
    evict_heap_update(view, entry);
}

/* Shifts every key by L: what could leave has at least L, so its order stays; what L has overtaken while it could not
 * leave becomes 0, and goes by age. That makes new ties, so the heap is built anew, in place. */
static void move_origin(struct evict_view *view)
{
    uint32_t count = view->heap_count;

    for (uint32_t at = 0; at < count; at++) {
        struct evict_entry *entry = &view->entries[view->heap[at]];

        entry->key -= min_u64(entry->key, view->clock);
    }
    view->clock = 0;
    view->heap_count = 0;
    for (uint32_t at = 0; at < count; at++)
        evict_heap_insert(view, view->heap[at]);
}

/* L never falls: an entry that could not leave when L overtook it may leave later, with a smaller key. */
static void gdsf_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    evict_heap_remove(view, entry);
    if (!evicted)
        return;
    view->clock = max_u64(view->clock, view->entries[entry].key);
    if (view->clock > CLOCK_MAX)
        move_origin(view);
}

static uint32_t gdsf_victim(struct evict_view *view)
{
    return evict_heap_victim(view);
}

const struct evict_policy evict_gdsf = {
    .name = "gdsf",
    .about = "least use times reload cost per byte, aging",
    .source = "Cherkasova, HP Labs technical report 98-69, 1998",
    .has_heap = true,
    .insert = gdsf_insert,
    .touch = gdsf_touch,
    .remove = gdsf_remove,
    .victim = gdsf_victim,
};
