/* LIRS (Jiang, Zhang, "LIRS: an efficient low inter-reference recency set replacement policy", SIGMETRICS 2002, section 3): what was
 * used twice at a short distance (LIR) keeps nearly all of the cache; everything else (HIR) passes through a small queue Q, and
 * leaves from there. A HIR that is used again while it is in the stack S, so sooner than the least recent LIR was, becomes LIR, and
 * that one becomes HIR.
 *
 * S is not kept: pruned as the paper prunes it, it is what was used after the least recent LIR, so time stamps tell who is in it.
 * Those that left are ghosts with their stamps; their number has a bound, and what a full table forgets is the oldest (the paper
 * finds that twice the cache loses little). Until the LIR are once as many as they may be, whatever is used becomes one of them. Q has
 * room for one whatever the capacity, and holds what is larger than all LIR may be; where Q has nothing that may leave, the least
 * recent LIR leaves. */
#include "policy/policy.h"

enum { LIR, HIR };
#define GHOSTS 0

struct lirs_state {
    uint64_t lir_size; /* at most */
    bool in_stack;     /* what is asked for left, and is still in S */
    bool filled;       /* the LIR were as many as they may be */
};

static size_t lirs_state_bytes(uint32_t entries_max)
{
    (void)entries_max;
    return sizeof(struct lirs_state);
}

static void lirs_begin(struct evict_view *view)
{
    struct lirs_state *state = view->state;

    state->lir_size = view->capacity - min_u64(evict_share(view, view->parameters[0]), view->capacity);
}

/* Used at `stamp` and not since. */
static bool in_stack(const struct evict_view *view, uint64_t stamp)
{
    const uint32_t bottom = view->lists[LIR].tail;

    return bottom != NONE_INDEX && stamp > view->entries[bottom].key;
}

static bool lirs_miss(struct evict_view *view)
{
    struct lirs_state *state = view->state;
    const uint32_t ghost = evict_ghost_find(&view->ghosts, view->asked.name);

    state->in_stack = ghost != NONE_INDEX && in_stack(view, view->ghosts.ghosts[ghost].key);
    if (ghost != NONE_INDEX)
        evict_ghost_remove(&view->ghosts, ghost);
    return true;
}

/* It is in neither list. */
static void place(struct evict_view *view, uint32_t entry, bool was_in_stack)
{
    struct lirs_state *state = view->state;
    const struct evict_list *lir = &view->lists[LIR];
    const uint64_t room = state->lir_size - min_u64(lir->size, state->lir_size);

    state->filled = lir->count > 0 && (state->filled || view->entries[entry].size > room);
    view->entries[entry].key = view->now;
    evict_list_push_head(view, was_in_stack || !state->filled ? LIR : HIR, entry);
    while (lir->size > state->lir_size) {
        const uint32_t bottom = lir->tail;

        evict_list_remove(view, bottom);
        evict_list_push_head(view, HIR, bottom);
    }
}

static void lirs_insert(struct evict_view *view, uint32_t entry)
{
    const struct lirs_state *state = view->state;

    place(view, entry, state->in_stack);
}

static void lirs_touch(struct evict_view *view, uint32_t entry)
{
    struct evict_entry *used = &view->entries[entry];

    if (used->list == LIR) {
        used->key = view->now;
        evict_list_to_head(view, entry);
        return;
    }
    evict_list_remove(view, entry);
    place(view, entry, in_stack(view, used->key));
}

static void lirs_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    const struct evict_entry *gone = &view->entries[entry];
    struct evict_ghosts *ghosts = &view->ghosts;

    evict_list_remove(view, entry);
    while (ghosts->lists[GHOSTS].count > 0 && !in_stack(view, ghosts->ghosts[ghosts->lists[GHOSTS].tail].key))
        evict_ghost_remove(ghosts, ghosts->lists[GHOSTS].tail);
    if (evicted && in_stack(view, gone->key))
        (void)evict_ghost_add(ghosts, GHOSTS, gone->name, gone->size, gone->key);
}

static uint32_t lirs_victim(struct evict_view *view)
{
    const uint32_t entry = evict_list_victim(view, HIR);

    return entry != NONE_INDEX ? entry : evict_list_victim(view, LIR);
}

static void lirs_verify(const struct evict_view *view)
{
    const struct lirs_state *state = view->state;
    const struct evict_list *lir = &view->lists[LIR];

    check(lir->size <= state->lir_size);
    for (uint32_t at = lir->head; at != lir->tail; at = view->entries[at].next)
        check(view->entries[at].key > view->entries[view->entries[at].next].key);
}

static const struct evict_key lirs_keys[] = {{"hir", "percent of the capacity for what was not used twice of late", 1, 0, 100}};

const struct evict_policy evict_lirs = {
    .name = "lirs",
    .about = "what was used twice at a short distance stays",
    .source = "Jiang, Zhang, LIRS: an efficient low inter-reference recency set replacement policy, SIGMETRICS 2002, section 3",
    .keys = lirs_keys,
    .keys_count = ARRAY_COUNT(lirs_keys),
    .ghosts_percent = 200,
    .state_bytes = lirs_state_bytes,
    .begin = lirs_begin,
    .miss = lirs_miss,
    .insert = lirs_insert,
    .touch = lirs_touch,
    .remove = lirs_remove,
    .victim = lirs_victim,
    .verify = lirs_verify,
};
