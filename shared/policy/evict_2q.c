/* 2Q, the full version (Johnson, Shasha, VLDB 1994, section 2.2 "2Q: the full version"): what is new enters A1in, first in, first
 * out, where uses count for nothing; what leaves A1in is remembered in A1out; who is asked for while remembered comes to Am, least
 * recently used. A1in gives way while it is larger than Kin, otherwise Am does. Kin is a quarter of the cache, A1out remembers half.
 *
 * Where the queue whose turn it is has nothing that may leave, the other gives way. A1out remembers at least the last that left. */
#include "policy/policy.h"

enum { A1IN, AM };
#define A1OUT 0

struct twoq_state {
    uint64_t in_size;  /* Kin */
    uint64_t out_size; /* Kout */
    bool remembered;   /* what is asked for was in A1out */
};

static size_t twoq_state_bytes(uint32_t entries_max)
{
    (void)entries_max;
    return sizeof(struct twoq_state);
}

static void twoq_begin(struct evict_view *view)
{
    struct twoq_state *state = view->state;

    state->in_size = evict_share(view, view->parameters[0]);
    state->out_size = evict_share(view, view->parameters[1]);
}

static bool twoq_miss(struct evict_view *view)
{
    struct twoq_state *state = view->state;
    const uint32_t ghost = evict_ghost_find(&view->ghosts, view->asked.name);

    state->remembered = ghost != NONE_INDEX;
    if (state->remembered)
        evict_ghost_remove(&view->ghosts, ghost);
    return true;
}

static void twoq_insert(struct evict_view *view, uint32_t entry)
{
    const struct twoq_state *state = view->state;

    evict_list_push_head(view, state->remembered ? AM : A1IN, entry);
}

static void twoq_touch(struct evict_view *view, uint32_t entry)
{
    if (view->entries[entry].list == AM)
        evict_list_to_head(view, entry);
}

static void twoq_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    const struct twoq_state *state = view->state;
    const struct evict_entry *gone = &view->entries[entry];

    if (evicted && gone->list == A1IN)
        evict_ghost_remember(&view->ghosts, A1OUT, gone->name, gone->size, state->out_size);
    evict_list_remove(view, entry);
}

static uint32_t twoq_victim(struct evict_view *view)
{
    const struct twoq_state *state = view->state;
    const uint8_t turn = view->lists[A1IN].size > state->in_size ? A1IN : AM;
    const uint32_t entry = evict_list_victim(view, turn);

    return entry != NONE_INDEX ? entry : evict_list_victim(view, turn == AM ? A1IN : AM);
}

static void twoq_verify(const struct evict_view *view)
{
    const struct twoq_state *state = view->state;

    evict_ghosts_check_size(&view->ghosts, A1OUT, state->out_size);
}

static const struct evict_key twoq_keys[] = {
    {"in", "percent of the capacity above which A1in gives way (Kin)", 25, 0, 100},
    {"out", "percent of the capacity that A1out remembers (Kout)", 50, 0, 100},
};

const struct evict_policy evict_2q = {
    .name = "2q",
    .about = "first in, first out, and least recently used for what comes back",
    .source = "Johnson, Shasha, 2Q: a low overhead high performance buffer management replacement algorithm, VLDB 1994, section 2.2",
    .keys = twoq_keys,
    .keys_count = ARRAY_COUNT(twoq_keys),
    .ghosts_percent = 100,
    .state_bytes = twoq_state_bytes,
    .begin = twoq_begin,
    .miss = twoq_miss,
    .insert = twoq_insert,
    .touch = twoq_touch,
    .remove = twoq_remove,
    .victim = twoq_victim,
    .verify = twoq_verify,
};
