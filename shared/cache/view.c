/* The lists and the heap that eviction policies order their entries by, and where it all lies. Plain bookkeeping: nothing here
 * chooses, except evict_heap_victim(), which answers the smallest key that may leave, and chance. */
#include "cache/view.h"

#include "base/hash.h"
#include "policy/policy.h"

/* --- where it lies ---------------------------------------------------------------------------------------------------------- */

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static uint32_t ghosts_max(const struct evict_policy *policy, uint32_t entries_max)
{
    return (uint32_t)(div_up_u64((uint64_t)entries_max * policy->ghosts_percent, 100));
}

static size_t state_bytes(const struct evict_policy *policy, uint32_t entries_max)
{
    return policy->state_bytes == NULL ? 0 : policy->state_bytes(entries_max);
}

size_t evict_view_bytes(const struct evict_policy *policy, uint32_t entries_max)
{
    return aligned(entries_max * sizeof(struct evict_entry)) + (policy->has_heap ? aligned(entries_max * sizeof(uint32_t)) : 0) +
           aligned(evict_ghosts_bytes(ghosts_max(policy, entries_max))) + aligned(state_bytes(policy, entries_max));
}

struct places {
    struct evict_entry *entries;
    uint32_t *heap;
    void *ghosts;
    void *state;
};

static struct places places_in(void *memory, const struct evict_policy *policy, uint32_t entries_max)
{
    unsigned char *at = memory;
    struct places places = {.entries = memory};

    at += aligned(entries_max * sizeof(struct evict_entry));
    if (policy->has_heap) {
        places.heap = (void *)at;
        at += aligned(entries_max * sizeof(uint32_t));
    }
    places.ghosts = at;
    at += aligned(evict_ghosts_bytes(ghosts_max(policy, entries_max)));
    places.state = at;
    memset(places.state, 0, state_bytes(policy, entries_max));
    return places;
}

void evict_view_begin(struct evict_view *view, void *memory, const struct evict_setup *setup)
{
    const struct evict_policy *policy = setup->policy;
    struct places places = places_in(memory, policy, setup->entries_max);

    check(setup->entries_max >= 1);
    check(setup->cost_fixed_ns >= 0 && setup->cost_ns_per_mib >= 0);
    check(policy->keys_count <= EVICT_PARAMETERS_MAX);
    *view = (struct evict_view){
        .entries = places.entries,
        .entries_max = setup->entries_max,
        .entries_free = NONE_INDEX,
        .hand = NONE_INDEX,
        .heap = places.heap,
        .capacity = setup->capacity,
        .next_use = NONE_USE,
        .cost_fixed_ns = setup->cost_fixed_ns,
        .cost_ns_per_mib = setup->cost_ns_per_mib,
        .salt = setup->salt,
        .state = places.state,
        .policy = policy,
    };
    for (uint32_t i = 0; i < EVICT_LISTS_MAX; i++)
        view->lists[i] = (struct evict_list){NONE_INDEX, NONE_INDEX, 0, 0};
    for (uint32_t i = 0; i < policy->keys_count; i++)
        view->parameters[i] = setup->parameters == NULL ? policy->keys[i].value : setup->parameters[i];
    evict_ghosts_begin(&view->ghosts, places.ghosts, ghosts_max(policy, setup->entries_max));
    view->ghosts.bound = 0;
    if (policy->begin != NULL)
        policy->begin(view);
}

void evict_view_move(struct evict_view *view, void *memory, uint32_t entries_max)
{
    const struct evict_policy *policy = view->policy;
    struct places places = places_in(memory, policy, entries_max);
    const void *old_state = view->state;
    const uint32_t old_max = view->entries_max;

    check(entries_max >= old_max);
    if (view->entries_used > 0)
        memcpy(places.entries, view->entries, view->entries_used * sizeof(struct evict_entry));
    if (view->heap_count > 0)
        memcpy(places.heap, view->heap, view->heap_count * sizeof(uint32_t));
    evict_ghosts_move(&view->ghosts, places.ghosts, ghosts_max(policy, entries_max));
    view->entries = places.entries;
    view->entries_max = entries_max;
    view->heap = places.heap;
    view->state = places.state;
    if (policy->grow != NULL)
        policy->grow(view, old_state, old_max);
    else if (policy->state_bytes != NULL)
        memcpy(places.state, old_state, state_bytes(policy, old_max));
}

bool evict_ask(struct evict_view *view, uint64_t name, uint64_t size, uint64_t bytes)
{
    if (view->asked.open && view->asked.name == name && view->asked.size == size)
        return true;
    view->asked = (struct evict_ask){name, size, bytes, true};
    return view->policy->miss == NULL || view->policy->miss(view);
}

uint32_t evict_entry_take(struct evict_view *view, uint64_t name, uint64_t size, uint64_t bytes)
{
    uint32_t entry = view->entries_free;

    if (entry == NONE_INDEX) {
        check(view->entries_used < view->entries_max);
        entry = view->entries_used++;
        /* Not by how many there may be: that is the host's affair, and no choice may depend on it. */
        view->ghosts.bound = ghosts_max(view->policy, view->entries_used);
    } else {
        view->entries_free = view->entries[entry].next;
    }
    evict_entry_fill(view, entry, name, size, bytes);
    return entry;
}

void evict_entry_give_back(struct evict_view *view, uint32_t entry)
{
    view->entries[entry] = (struct evict_entry){.next = view->entries_free, .heap_at = NONE_INDEX};
    view->entries_free = entry;
}

/* --- lists ------------------------------------------------------------------------------------------------------------------ */

void evict_list_push_tail(struct evict_view *view, uint8_t list, uint32_t entry)
{
    struct evict_entry *pushed = &view->entries[entry];
    struct evict_list *into = &view->lists[list];

    pushed->next = NONE_INDEX;
    pushed->prev = into->tail;
    if (into->tail != NONE_INDEX)
        view->entries[into->tail].next = entry;
    else
        into->head = entry;
    into->tail = entry;
    pushed->list = list;
    into->count++;
    into->size += pushed->size;
}

uint64_t evict_share(const struct evict_view *view, double percent)
{
    if (percent >= 100)
        return max_u64(view->capacity, 1);
    return max_u64((uint64_t)((double)view->capacity * percent / 100), 1);
}

/* --- the heap --------------------------------------------------------------------------------------------------------------- */

/* Total, because `order` is unique: the heap's shape may differ between histories, its minimum never does. */
static bool leaves_before(const struct evict_view *view, uint32_t a, uint32_t b)
{
    const struct evict_entry *first = &view->entries[a];
    const struct evict_entry *second = &view->entries[b];

    return first->key != second->key ? first->key < second->key : first->order < second->order;
}

static void heap_place(struct evict_view *view, uint32_t at, uint32_t entry)
{
    view->heap[at] = entry;
    view->entries[entry].heap_at = at;
}

static uint32_t sift_up(struct evict_view *view, uint32_t at, uint32_t entry)
{
    while (at > 0 && leaves_before(view, entry, view->heap[(at - 1) / 2])) {
        heap_place(view, at, view->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    return at;
}

static uint32_t sift_down(struct evict_view *view, uint32_t at, uint32_t entry)
{
    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= view->heap_count)
            return at;
        if (child + 1 < view->heap_count && leaves_before(view, view->heap[child + 1], view->heap[child]))
            child++;
        if (!leaves_before(view, view->heap[child], entry))
            return at;
        heap_place(view, at, view->heap[child]);
        at = child;
    }
}

void evict_heap_insert(struct evict_view *view, uint32_t entry)
{
    check(view->heap_count < view->entries_max);
    view->heap_count++;
    heap_place(view, sift_up(view, view->heap_count - 1, entry), entry);
}

void evict_heap_remove(struct evict_view *view, uint32_t entry)
{
    uint32_t at = view->entries[entry].heap_at;
    uint32_t last;

    check(at < view->heap_count);
    check(view->heap[at] == entry);
    view->heap_count--;
    last = view->heap[view->heap_count];
    view->entries[entry].heap_at = NONE_INDEX;
    if (last == entry)
        return;
    heap_place(view, at, last);
    evict_heap_update(view, last);
}

void evict_heap_update(struct evict_view *view, uint32_t entry)
{
    uint32_t at = view->entries[entry].heap_at;

    check(at < view->heap_count);
    at = sift_up(view, at, entry);
    heap_place(view, at, entry);
    heap_place(view, sift_down(view, at, entry), entry);
}

/* The better of `best` and what the subtree at `at` offers. Keys only grow downwards, so a subtree ends at its first
 * evictable entry, and at anything that leaves after `best`. The depth is the heap's: at most 32. */
static uint32_t heap_search(const struct evict_view *view, uint32_t at, uint32_t best)
{
    uint32_t child = 2 * at + 1;
    uint32_t entry;

    if (at >= view->heap_count)
        return best;
    entry = view->heap[at];
    if (best != NONE_INDEX && !leaves_before(view, entry, best))
        return best;
    if (view->entries[entry].evictable)
        return entry;
    /* The likelier child first: what it finds prunes the other. */
    if (child + 1 < view->heap_count && leaves_before(view, view->heap[child + 1], view->heap[child])) {
        best = heap_search(view, child + 1, best);
        return heap_search(view, child, best);
    }
    best = heap_search(view, child, best);
    return heap_search(view, child + 1, best);
}

uint32_t evict_heap_victim(const struct evict_view *view)
{
    return heap_search(view, 0, NONE_INDEX);
}

/* --- cost ------------------------------------------------------------------------------------------------------------------ */

#define COST_MAX (UINT64_C(1) << 48) /* three days */
/* Any constant gives the same decisions; this one leaves 13 bits of uses / size for an entry of 84 MB in 16 fraction bits. */
#define COST_ONE (UINT64_C(1) << 24)

uint64_t evict_reload_cost(const struct evict_view *view, uint64_t bytes)
{
    uint128 cost = (uint128)bytes * (uint64_t)view->cost_ns_per_mib;

    if (view->cost_fixed_ns == 0 && view->cost_ns_per_mib == 0)
        return COST_ONE;
    cost = (cost >> 20) + (uint64_t)view->cost_fixed_ns;
    return cost < COST_MAX ? (uint64_t)cost : COST_MAX;
}

/* --- chance ----------------------------------------------------------------------------------------------------------------- */

uint64_t evict_draw(struct evict_view *view, uint64_t purpose)
{
    return hash_mix(hash_mix(view->salt ^ purpose) + view->draws++);
}

uint64_t evict_draw_below(struct evict_view *view, uint64_t purpose, uint64_t bound)
{
    return (uint64_t)(((uint128)evict_draw(view, purpose) * bound) >> 64);
}

#define DRAWS_MAX 64 /* a cache that is nearly all pinned is searched instead */

uint32_t evict_draw_entry(struct evict_view *view, uint64_t purpose)
{
    uint32_t entry = 0;

    if (view->entries_used == 0)
        return NONE_INDEX;
    for (uint32_t i = 0; i < DRAWS_MAX; i++) {
        entry = (uint32_t)evict_draw_below(view, purpose, view->entries_used);
        if (view->entries[entry].evictable)
            return entry;
    }
    for (uint32_t i = 0; i < view->entries_used; i++, entry = entry + 1 < view->entries_used ? entry + 1 : 0)
        if (view->entries[entry].evictable)
            return entry;
    return NONE_INDEX;
}

/* --- what holds ------------------------------------------------------------------------------------------------------------- */

static void list_check(const struct evict_view *view, uint8_t list)
{
    uint32_t before = NONE_INDEX;
    uint32_t count = 0;
    uint64_t size = 0;

    for (uint32_t at = view->lists[list].head; at != NONE_INDEX; at = view->entries[at].next) {
        check(at < view->entries_used);
        check(view->entries[at].present);
        check(view->entries[at].list == list);
        check(view->entries[at].prev == before);
        before = at;
        size += view->entries[at].size;
        check(++count <= view->entries_max);
    }
    check(view->lists[list].tail == before);
    check(view->lists[list].count == count);
    check(view->lists[list].size == size);
}

static void heap_check(const struct evict_view *view)
{
    check(view->heap_count <= view->entries_max);
    for (uint32_t at = 0; at < view->heap_count; at++) {
        uint32_t entry = view->heap[at];

        check(entry < view->entries_used);
        check(view->entries[entry].present);
        check(view->entries[entry].heap_at == at);
        check(at == 0 || leaves_before(view, view->heap[(at - 1) / 2], entry));
    }
}

void evict_view_check(const struct evict_view *view)
{
    uint32_t absent = 0;
    uint32_t present = 0;

    for (uint32_t i = 0; i < view->entries_used; i++)
        present += view->entries[i].present;
    for (uint32_t at = view->entries_free; at != NONE_INDEX; at = view->entries[at].next) {
        check(at < view->entries_used);
        check(!view->entries[at].present && !view->entries[at].evictable);
        check(++absent <= view->entries_used);
    }
    check(present + absent == view->entries_used);
    check(view->entries_used <= view->entries_max);
    for (uint8_t list = 0; list < EVICT_LISTS_MAX; list++)
        list_check(view, list);
    check(view->hand == NONE_INDEX || view->entries[view->hand].present);
    heap_check(view);
    evict_ghosts_check(&view->ghosts);
    if (view->policy->verify != NULL)
        view->policy->verify(view);
}
