/* ARC (Megiddo, Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003, figure 4): T1 holds what was used once of
 * late, T2 what was used more often, both least recently used; B1 and B2 remember what left them. `p` is how much of the cache T1
 * should have: a miss that B1 remembers raises it, one that B2 remembers lowers it.
 *
 * In the size-aware form every |X| is the sum of the sizes in X, and `p` moves by the size of what was missed times the paper's
 * ratio of B1 and B2, so that slots and bytes are the same algorithm. The paper's bounds, |T1| + |B1| <= c and all four <= 2c, are
 * kept by forgetting the oldest ghosts, before anything leaves. Where the list whose turn it is has nothing that may leave, the
 * other gives way. */
#include "policy/policy.h"

enum { ONCE, OFTEN }; /* T1 and B1, T2 and B2 */

struct arc_state {
    double target;  /* p, in the unit */
    uint64_t coming; /* what is asked for will add to T1 */
    bool to_often;   /* it is remembered: it comes to T2 */
    bool from_often; /* by B2 */
};

static size_t arc_state_bytes(uint32_t entries_max)
{
    (void)entries_max;
    return sizeof(struct arc_state);
}

static uint128 size_of(const struct evict_view *view, uint8_t list)
{
    return (uint128)view->lists[list].size + view->ghosts.lists[list].size;
}

/* T1 and what is coming to it are more than the cache, without B1: its oldest leaves and isn't remembered (case IV A, else). */
static bool once_is_full(const struct evict_view *view)
{
    const struct arc_state *state = view->state;

    return size_of(view, ONCE) + state->coming > view->capacity;
}

/* Cases II and III: the remembered list's side should be larger. */
static void adapt(struct evict_view *view, uint32_t remembered_in)
{
    struct arc_state *state = view->state;
    const double own = (double)view->ghosts.lists[remembered_in].size;
    const double other = (double)view->ghosts.lists[1 - remembered_in].size;
    const double step = (double)view->asked.size * (own > 0 && other > own ? other / own : 1);
    const double capacity = (double)view->capacity;

    if (remembered_in == ONCE)
        state->target = state->target + step < capacity ? state->target + step : capacity;
    else
        state->target = state->target > step ? state->target - step : 0;
}

static bool arc_miss(struct evict_view *view)
{
    struct arc_state *state = view->state;
    struct evict_ghosts *ghosts = &view->ghosts;
    const uint32_t ghost = evict_ghost_find(ghosts, view->asked.name);

    state->to_often = ghost != NONE_INDEX;
    state->from_often = state->to_often && ghosts->ghosts[ghost].list == OFTEN;
    state->coming = state->to_often ? 0 : view->asked.size;
    if (state->to_often) {
        adapt(view, ghosts->ghosts[ghost].list);
        evict_ghost_remove(ghosts, ghost);
    }
    /* Case IV. Leaving moves sizes from T to B, so their sums hold until the next miss. */
    while (ghosts->lists[ONCE].count > 0 && once_is_full(view))
        evict_ghost_remove(ghosts, ghosts->lists[ONCE].tail);
    while (ghosts->count > 0 && size_of(view, ONCE) + size_of(view, OFTEN) + view->asked.size > (uint128)2 * view->capacity)
        evict_ghost_remove(ghosts, ghosts->lists[ghosts->lists[OFTEN].count > 0 ? OFTEN : ONCE].tail);
    return true;
}

static void arc_insert(struct evict_view *view, uint32_t entry)
{
    const struct arc_state *state = view->state;

    evict_list_push_head(view, state->to_often ? OFTEN : ONCE, entry);
}

/* Case I. */
static void arc_touch(struct evict_view *view, uint32_t entry)
{
    if (view->entries[entry].list == OFTEN) {
        evict_list_to_head(view, entry);
        return;
    }
    evict_list_remove(view, entry);
    evict_list_push_head(view, OFTEN, entry);
}

static void arc_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    const struct evict_entry *gone = &view->entries[entry];

    if (evicted && !(gone->list == ONCE && once_is_full(view)))
        (void)evict_ghost_add(&view->ghosts, gone->list, gone->name, gone->size, 0);
    evict_list_remove(view, entry);
}

/* REPLACE, and the second half of case IV A. */
static uint32_t arc_victim(struct evict_view *view)
{
    const struct arc_state *state = view->state;
    const double once = (double)view->lists[ONCE].size;
    const bool from_once = once_is_full(view) || once > state->target || (state->from_often && once >= state->target);
    const uint32_t entry = evict_list_victim(view, from_once ? ONCE : OFTEN);

    return entry != NONE_INDEX ? entry : evict_list_victim(view, from_once ? OFTEN : ONCE);
}

static void arc_verify(const struct evict_view *view)
{
    const struct arc_state *state = view->state;

    check(state->target >= 0 && state->target <= (double)view->capacity);
    check(view->ghosts.lists[ONCE].count == 0 || size_of(view, ONCE) <= view->capacity);
    check(size_of(view, ONCE) + size_of(view, OFTEN) <= (uint128)2 * view->capacity);
}

const struct evict_policy evict_arc = {
    .name = "arc",
    .about = "recent and frequent, each with as much of the cache as its ghosts prove it needs",
    .source = "Megiddo, Modha, ARC: a self-tuning, low overhead replacement cache, FAST 2003, figure 4",
    .ghosts_percent = 100,
    .state_bytes = arc_state_bytes,
    .miss = arc_miss,
    .insert = arc_insert,
    .touch = arc_touch,
    .remove = arc_remove,
    .victim = arc_victim,
    .verify = arc_verify,
};
