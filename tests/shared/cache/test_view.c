/* Ghosts against a plain array, and a view that moves to a larger place in the middle of its work and goes on as if it had not. */
#include "cache/view.h"
#include "policy/policy.h"
#include "support.h"

#include <stdlib.h>

enum { NAMES = 40, GHOSTS = 12, TURNS = 20000 };

struct twin_ghost {
    uint64_t name, size;
    uint32_t list;
};

/* Newest first, both lists in one array. */
struct twin {
    struct twin_ghost ghosts[GHOSTS];
    uint32_t count;
};

static uint32_t twin_find(const struct twin *twin, uint64_t name)
{
    for (uint32_t i = 0; i < twin->count; i++)
        if (twin->ghosts[i].name == name)
            return i;
    return NONE_INDEX;
}

static void twin_remove(struct twin *twin, uint32_t at)
{
    twin->count--;
    memmove(&twin->ghosts[at], &twin->ghosts[at + 1], (twin->count - at) * sizeof(twin->ghosts[0]));
}

static uint32_t twin_count(const struct twin *twin, uint32_t list)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < twin->count; i++)
        count += twin->ghosts[i].list == list;
    return count;
}

static void twin_add(struct twin *twin, uint32_t list, uint64_t name, uint64_t size)
{
    if (twin->count == GHOSTS) {
        const uint32_t from = twin_count(twin, 1) > twin_count(twin, 0) ? 1 : 0;
        uint32_t oldest = twin->count - 1;

        while (twin->ghosts[oldest].list != from)
            oldest--;
        twin_remove(twin, oldest);
    }
    memmove(&twin->ghosts[1], &twin->ghosts[0], twin->count * sizeof(twin->ghosts[0]));
    twin->ghosts[0] = (struct twin_ghost){name, size, list};
    twin->count++;
}

static void compare(const struct evict_ghosts *ghosts, const struct twin *twin)
{
    evict_ghosts_check(ghosts);
    for (uint64_t name = 0; name < NAMES; name++)
        assert_int_equal(evict_ghost_find(ghosts, name) == NONE_INDEX, twin_find(twin, name) == NONE_INDEX);
    for (uint32_t list = 0; list < EVICT_GHOST_LISTS_MAX; list++) {
        uint32_t at = ghosts->lists[list].head;

        assert_int_equal(ghosts->lists[list].count, twin_count(twin, list));
        for (uint32_t i = 0; i < twin->count; i++) {
            if (twin->ghosts[i].list != list)
                continue;
            assert_int_equal(ghosts->ghosts[at].name, twin->ghosts[i].name);
            assert_int_equal(ghosts->ghosts[at].size, twin->ghosts[i].size);
            at = ghosts->ghosts[at].next;
        }
        assert_int_equal(at, NONE_INDEX);
    }
}

static void ghosts_are_what_was_added_last_and_not_removed(void **state)
{
    uint64_t random = test_seed(5);
    void *memory = malloc(evict_ghosts_bytes(GHOSTS));
    struct evict_ghosts ghosts;
    struct twin twin = {.count = 0};

    (void)state;
    evict_ghosts_begin(&ghosts, memory, GHOSTS);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        const uint64_t name = draw_below(&random, NAMES);
        const uint32_t ghost = evict_ghost_find(&ghosts, name);

        if (ghost != NONE_INDEX) {
            evict_ghost_remove(&ghosts, ghost);
            twin_remove(&twin, twin_find(&twin, name));
        } else {
            const uint32_t list = (uint32_t)draw_below(&random, EVICT_GHOST_LISTS_MAX);
            const uint64_t size = draw_below(&random, 9);

            (void)evict_ghost_add(&ghosts, list, name, size, 0);
            twin_add(&twin, list, name, size);
        }
        compare(&ghosts, &twin);
    }
    free(memory);
}

/* One use of a cache of as many slots as `slots`; what left, or NAMES. */
static uint64_t use(struct evict_view *view, uint64_t name, uint32_t slots, uint32_t *slot_of)
{
    const struct evict_policy *policy = view->policy;
    uint64_t left = NAMES;
    uint32_t entry;

    if (slot_of[name] != NONE_INDEX) {
        view->entries[slot_of[name]].hits++;
        view->now++;
        policy->touch(view, slot_of[name]);
        return left;
    }
    assert_true(evict_ask(view, name, 1, 1));
    if (view->order_next >= slots) { /* one came for each that left since it was full */
        entry = policy->victim(view);
        assert_true(entry < view->entries_used);
        left = view->entries[entry].name;
        policy->remove(view, entry, true);
        evict_entry_give_back(view, entry);
        slot_of[left] = NONE_INDEX;
    }
    entry = slot_of[name] = evict_entry_take(view, name, 1, 1);
    view->entries[entry].evictable = true;
    view->now++;
    policy->insert(view, entry);
    view->asked.open = false;
    return left;
}

enum { SLOTS = 12 };

/* Every policy: one view that has room for all from the beginning, and one that grows when it must. */
static void a_view_that_moves_chooses_as_one_that_was_always_large(void **state)
{
    static const struct evict_policy *const policies[] = {
#define X(name) &evict_##name,
        EVICT_POLICIES(X)
#undef X
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(policies); i++) {
        struct evict_setup setup = {.policy = policies[i], .entries_max = 16, .capacity = SLOTS, .salt = 7};
        struct evict_view large, grown;
        void *places[2] = {malloc(evict_view_bytes(policies[i], 16)), malloc(evict_view_bytes(policies[i], 1))};
        uint32_t slots_of[2][NAMES];
        uint64_t random = test_seed(9);

        memset(slots_of, 0xff, sizeof(slots_of));
        evict_view_begin(&large, places[0], &setup);
        setup.entries_max = 1;
        evict_view_begin(&grown, places[1], &setup);
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            const uint64_t name = draw_below(&random, 1 + draw_below(&random, NAMES));

            if (grown.entries_used == grown.entries_max && grown.entries_max < 16) {
                void *place = malloc(evict_view_bytes(policies[i], grown.entries_max * 2));

                evict_view_move(&grown, place, grown.entries_max * 2);
                free(places[1]);
                places[1] = place;
            }
            if (use(&large, name, SLOTS, slots_of[0]) != use(&grown, name, SLOTS, slots_of[1]))
                fail_msg("%s: turn %u: they choose differently", policies[i]->name, turn);
            if (turn % 64 == 0) {
                evict_view_check(&large);
                evict_view_check(&grown);
            }
        }
        assert_int_equal(grown.entries_max, 16);
        free(places[0]);
        free(places[1]);
    }
}

static void an_entry_that_is_drawn_may_leave_and_each_is_as_likely(void **state)
{
    const struct evict_setup setup = {.policy = &evict_fifo, .entries_max = 8, .capacity = 8, .salt = 3};
    void *memory = malloc(evict_view_bytes(&evict_fifo, 8));
    uint32_t drawn[8] = {0};
    struct evict_view view;

    (void)state;
    evict_view_begin(&view, memory, &setup);
    assert_int_equal(evict_draw_entry(&view, 1), NONE_INDEX);
    for (uint32_t i = 0; i < 8; i++)
        evict_fifo.insert(&view, evict_entry_take(&view, i, 1, 1));
    assert_int_equal(evict_draw_entry(&view, 1), NONE_INDEX);
    view.entries[6].evictable = true;
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(evict_draw_entry(&view, 1), 6);
    view.entries[1].evictable = view.entries[2].evictable = view.entries[3].evictable = true;
    for (uint32_t i = 0; i < 40000; i++)
        drawn[evict_draw_entry(&view, 1)]++;
    for (uint32_t i = 0; i < 8; i++)
        assert_in_range(drawn[i], view.entries[i].evictable ? 9600 : 0, view.entries[i].evictable ? 10400 : 0); /* 4.6 deviations */
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ghosts_are_what_was_added_last_and_not_removed),
        cmocka_unit_test(a_view_that_moves_chooses_as_one_that_was_always_large),
        cmocka_unit_test(an_entry_that_is_drawn_may_leave_and_each_is_as_likely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
