/* LeCaR (Vietri, Rodriguez, Martinez, Lyons, Liu, Rangaswami, Zhao, Narasimhan, HotStorage 2018, 3): of two choices, the least recently and the
 * least frequently used, one is taken at random by weights. Each remembers what it let go; when that is missed, the one whose mistake it
 * was loses weight, the more the fresher the mistake: its weight is multiplied by e^(-rate * r), r = 0.005^(t / N) for t uses since
 * and N entries. (The paper multiplies the other's by e^(rate * r), which comes to the same.)
 *
 * What both would choose teaches nothing and isn't remembered. Either remembers as much as half the cache holds. No weight falls below
 * 2^-32, from where it couldn't rise again. Weights are in units of 2^-64 and fixed point throughout. */
#include "base/exp.h"
#include "policy/policy.h"

enum { KEY_rate, KEY_discount };
enum { BY_LRU, BY_LFU, BY_BOTH }; /* also the lists of ghosts */

#define PURPOSE 0x6c656361 /* "leca" */
#define WEIGHT_MIN (UINT64_C(1) << 32)

struct lecar {
    uint64_t weight_lru; /* the other's is what is missing to 1 */
    uint64_t by;         /* whose choice the last one was */
};

static size_t lecar_state_bytes(uint32_t entries_max)
{
    (void)entries_max;
    return sizeof(struct lecar);
}

static void lecar_begin(struct evict_view *view)
{
    struct lecar *lecar = view->state;

    *lecar = (struct lecar){UINT64_C(1) << 63, BY_BOTH};
}

/* Least frequently used, ties to the one that has been for longest. */
static uint64_t frequency_key(const struct evict_view *view, uint64_t hits)
{
    return min_u64(hits, (UINT64_C(1) << 24) - 1) << 40 | min_u64(view->now, (UINT64_C(1) << 40) - 1);
}

/* weight * factor, and both weights made to add up to 1 again. */
static uint64_t weakened(uint64_t weight, uint64_t factor)
{
    const uint64_t less = (uint64_t)(((uint128)weight * factor) >> 64);
    const uint128 both = (uint128)less + (UINT64_MAX - weight) + 1;
    const uint128 share = ((uint128)less << 63) / both << 1;

    return share < WEIGHT_MIN ? WEIGHT_MIN : share > UINT64_MAX - WEIGHT_MIN ? UINT64_MAX - WEIGHT_MIN : (uint64_t)share;
}

static uint64_t regret(const struct evict_view *view, uint64_t evicted_at)
{
    const double since = (double)(view->now - evicted_at) * view->parameters[KEY_discount] / (double)max_u32(1, view->entries_used);
    const uint64_t fresh = since < 64.0 ? exp_negative((uint64_t)(since * 4294967296.0)) : 0;

    return exp_negative((uint64_t)(view->parameters[KEY_rate] * (double)(fresh >> 32)));
}

static bool lecar_miss(struct evict_view *view)
{
    const uint32_t found = evict_ghost_find(&view->ghosts, view->asked.name);
    struct lecar *lecar = view->state;
    const struct evict_ghost *ghost;
    uint64_t factor;

    if (found == NONE_INDEX)
        return true;
    ghost = &view->ghosts.ghosts[found];
    factor = regret(view, ghost->key);
    if (ghost->list == BY_LRU)
        lecar->weight_lru = weakened(lecar->weight_lru, factor);
    else
        lecar->weight_lru = UINT64_MAX - weakened(UINT64_MAX - lecar->weight_lru, factor);
    evict_ghost_remove(&view->ghosts, found);
    return true;
}

static void lecar_insert(struct evict_view *view, uint32_t entry)
{
    view->entries[entry].key = frequency_key(view, view->entries[entry].hits);
    evict_heap_insert(view, entry);
    evict_list_push_head(view, 0, entry);
}

static void lecar_touch(struct evict_view *view, uint32_t entry)
{
    view->entries[entry].key = frequency_key(view, view->entries[entry].hits);
    evict_heap_update(view, entry);
    evict_list_to_head(view, entry);
}

static void lecar_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    const struct evict_entry *left = &view->entries[entry];
    const struct lecar *lecar = view->state;
    uint32_t ghost;

    evict_heap_remove(view, entry);
    evict_list_remove(view, entry);
    if (!evicted || lecar->by == BY_BOTH)
        return;
    ghost = evict_ghost_remember(&view->ghosts, (uint32_t)lecar->by, left->name, left->size, view->capacity / 2);
    view->ghosts.ghosts[ghost].key = view->now;
}

static uint32_t lecar_victim(struct evict_view *view)
{
    const uint32_t recent = evict_list_victim(view, 0);
    const uint32_t frequent = evict_heap_victim(view);
    struct lecar *lecar = view->state;

    lecar->by = recent == frequent ? BY_BOTH : evict_draw(view, PURPOSE) < lecar->weight_lru ? BY_LRU : BY_LFU;
    return lecar->by == BY_LFU ? frequent : recent;
}

static const struct evict_key lecar_keys[] = {
    {"rate", "of learning from a mistake", 0.45, 0, 16},
    {"discount", "of a mistake after as many uses as there are entries: e^-this; 5.298 is 0.005", 5.298317366548036, 0, 64},
};

const struct evict_policy evict_lecar = {
    .name = "lecar",
    .about = "lru or lfu at random, by how seldom each was wrong",
    .source = "Vietri et al., HotStorage 2018, 3",
    .keys = lecar_keys,
    .keys_count = ARRAY_COUNT(lecar_keys),
    .has_heap = true,
    .ghosts_percent = 100,
    .state_bytes = lecar_state_bytes,
    .begin = lecar_begin,
    .miss = lecar_miss,
    .insert = lecar_insert,
    .touch = lecar_touch,
    .remove = lecar_remove,
    .victim = lecar_victim,
};
