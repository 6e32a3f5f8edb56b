/* Segmented LRU (Karedla, Love, Wherry, "Caching strategies to improve disk system performance", IEEE Computer 1994): what is new
 * enters the lowest segment, each use takes an entry to the head of the next one up, what a full segment cannot hold goes back to
 * the head of the one below, and what leaves is the least recent of the lowest. The paper has two segments, probationary and
 * protected; four, each a quarter, is what the reference simulator and memcached-like servers run, and the default here.
 *
 * The lowest segment has no bound of its own: it holds what the others leave. A segment above may hold one entry larger than itself. */
#include "policy/policy.h"

struct slru_state {
    uint64_t share; /* of each segment */
    uint8_t top;
};

static size_t slru_state_bytes(uint32_t entries_max)
{
    (void)entries_max;
    return sizeof(struct slru_state);
}

static void slru_begin(struct evict_view *view)
{
    struct slru_state *state = view->state;
    const uint32_t segments = (uint32_t)view->parameters[0];

    state->share = max_u64(view->capacity / segments, 1);
    state->top = (uint8_t)(segments - 1);
}

static void slru_insert(struct evict_view *view, uint32_t entry)
{
    evict_list_push_head(view, 0, entry);
}

static bool over(const struct slru_state *state, const struct evict_list *segment)
{
    return segment->size > state->share && segment->count > 1;
}

static void move_to(struct evict_view *view, uint8_t segment, uint32_t entry)
{
    evict_list_remove(view, entry);
    evict_list_push_head(view, segment, entry);
}

static void slru_touch(struct evict_view *view, uint32_t entry)
{
    const struct slru_state *state = view->state;
    const uint8_t segment = view->entries[entry].list;

    if (segment == state->top) {
        evict_list_to_head(view, entry);
        return;
    }
    move_to(view, (uint8_t)(segment + 1), entry);
    for (uint8_t at = (uint8_t)(segment + 1); at > 0; at--)
        while (over(state, &view->lists[at]))
            move_to(view, (uint8_t)(at - 1), view->lists[at].tail);
}

static void slru_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    evict_list_remove(view, entry);
}

static uint32_t slru_victim(struct evict_view *view)
{
    const struct slru_state *state = view->state;
    uint32_t entry = NONE_INDEX;

    for (uint8_t segment = 0; segment <= state->top && entry == NONE_INDEX; segment++)
        entry = evict_list_victim(view, segment);
    return entry;
}

static void slru_verify(const struct evict_view *view)
{
    const struct slru_state *state = view->state;

    for (uint8_t segment = 1; segment < EVICT_LISTS_MAX; segment++) {
        check(!over(state, &view->lists[segment]));
        check(segment <= state->top || view->lists[segment].count == 0);
    }
}

static const struct evict_key slru_keys[] = {{"segments", "of equal shares; the paper has 2", 4, 1, EVICT_LISTS_MAX}};

const struct evict_policy evict_slru = {
    .name = "slru",
    .about = "least recently used, in segments that each use climbs",
    .source = "Karedla, Love, Wherry, Caching strategies to improve disk system performance, IEEE Computer 1994",
    .keys = slru_keys,
    .keys_count = ARRAY_COUNT(slru_keys),
    .state_bytes = slru_state_bytes,
    .begin = slru_begin,
    .insert = slru_insert,
    .touch = slru_touch,
    .remove = slru_remove,
    .victim = slru_victim,
    .verify = slru_verify,
};
