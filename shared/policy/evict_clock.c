/* CLOCK (Corbató, "A paging experiment with the Multics system", MIT Project MAC 1968): pages in a circle, a bit each that a use
 * sets; a hand clears bits until it finds one clear. Here the circle is a list whose tail is at the hand, so a spared entry goes to
 * the head. With more bits a use counts up to their maximum, and each pass of the hand counts down by 1. */
#include "policy/policy.h"

struct clock_state {
    uint8_t mark_max;
};

static size_t clock_state_bytes(uint32_t entries_max)
{
    (void)entries_max;
    return sizeof(struct clock_state);
}

static void clock_begin(struct evict_view *view)
{
    struct clock_state *state = view->state;

    state->mark_max = (uint8_t)((1u << (uint32_t)view->parameters[0]) - 1);
}

static void clock_insert(struct evict_view *view, uint32_t entry)
{
    evict_list_push_head(view, 0, entry);
}

static void clock_touch(struct evict_view *view, uint32_t entry)
{
    const struct clock_state *state = view->state;
    struct evict_entry *used = &view->entries[entry];

    used->mark = (uint8_t)(used->mark + (used->mark < state->mark_max));
}

static void clock_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    evict_list_remove(view, entry);
}

static uint32_t clock_victim(struct evict_view *view)
{
    return evict_list_second_chance(view, 0);
}

static void clock_verify(const struct evict_view *view)
{
    const struct clock_state *state = view->state;

    for (uint32_t at = view->lists[0].head; at != NONE_INDEX; at = view->entries[at].next)
        check(view->entries[at].mark <= state->mark_max);
}

static const struct evict_key clock_keys[] = {{"bits", "of the counter that a use raises", 1, 1, 8}};

const struct evict_policy evict_clock = {
    .name = "clock",
    .about = "first in, first out, but what was used since the hand last passed stays a round",
    .source = "Corbato, A paging experiment with the Multics system, MIT Project MAC 1968",
    .keys = clock_keys,
    .keys_count = ARRAY_COUNT(clock_keys),
    .state_bytes = clock_state_bytes,
    .begin = clock_begin,
    .insert = clock_insert,
    .touch = clock_touch,
    .remove = clock_remove,
    .victim = clock_victim,
    .verify = clock_verify,
};
