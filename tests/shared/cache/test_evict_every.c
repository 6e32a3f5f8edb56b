/* What every eviction policy owes, whichever it is: each of the list is run by a host of nothing but a view. */
#include "cache/view.h"
#include "policy/policy.h"
#include "support.h"

#include <stdlib.h>

enum { OBJECTS = 100, REQUESTS = 20000 };

static const struct evict_policy *const policies[] = {
#define X(name) &evict_##name,
    EVICT_POLICIES(X)
    EVICT_BOUNDS(X)
#undef X
};

struct host {
    struct evict_view view;
    void *memory;
    uint32_t slot_of[OBJECTS];
    uint64_t used, misses;
};

static struct host host_begin(const struct evict_policy *policy, uint64_t capacity, uint32_t entries_max)
{
    const struct evict_setup setup = {.policy = policy, .entries_max = entries_max, .capacity = capacity, .salt = 5};
    struct host host = {.memory = malloc(evict_view_bytes(policy, entries_max))};

    memset(host.slot_of, 0xff, sizeof(host.slot_of));
    evict_view_begin(&host.view, host.memory, &setup);
    return host;
}

static void host_grow(struct host *host)
{
    const uint32_t max = 2 * host->view.entries_max;
    void *memory = malloc(evict_view_bytes(host->view.policy, max));

    evict_view_move(&host->view, memory, max);
    free(host->memory);
    host->memory = memory;
}

static void host_remove(struct host *host, uint32_t entry, bool evicted)
{
    host->used -= host->view.entries[entry].size;
    host->slot_of[host->view.entries[entry].name] = NONE_INDEX;
    host->view.policy->remove(&host->view, entry, evicted);
    evict_entry_give_back(&host->view, entry);
}

static void host_evict(struct host *host)
{
    const uint32_t entry = host->view.policy->victim(&host->view);

    if (entry >= host->view.entries_used || !host->view.entries[entry].evictable)
        fail_msg("%s, capacity %llu: %u is a victim that may not leave", host->view.policy->name,
                 (unsigned long long)host->view.capacity, entry);
    host_remove(host, entry, true);
}

static void host_use(struct host *host, uint64_t name, uint64_t size)
{
    struct evict_view *view = &host->view;
    uint32_t entry = host->slot_of[name];

    view->now++;
    if (entry != NONE_INDEX && view->entries[entry].size == size) {
        view->entries[entry].hits++;
        view->policy->touch(view, entry);
        return;
    }
    host->misses++;
    if (entry != NONE_INDEX)
        host_remove(host, entry, false);
    if (size > view->capacity || !evict_ask(view, name, size, size))
        return;
    while (host->used + size > view->capacity)
        host_evict(host);
    if (view->entries_free == NONE_INDEX && view->entries_used == view->entries_max)
        host_grow(host);
    entry = host->slot_of[name] = evict_entry_take(view, name, size, size);
    view->entries[entry].evictable = true;
    host->used += size;
    view->policy->insert(view, entry);
    view->asked.open = false;
}

/* The smaller the number the more popular. */
static uint64_t draw_name(uint64_t *random)
{
    return draw_below(random, 1 + draw_below(random, 1 + draw_below(random, OBJECTS)));
}

static double miss_ratio(const struct evict_policy *policy, uint64_t slots)
{
    static uint64_t names[REQUESTS], next_use[REQUESTS];
    uint64_t seen[OBJECTS], random = test_seed(31);
    struct host host = host_begin(policy, slots, 1);
    double ratio;

    memset(seen, 0xff, sizeof(seen));
    for (uint32_t i = 0; i < REQUESTS; i++)
        names[i] = draw_name(&random);
    for (uint32_t i = REQUESTS; i-- > 0; seen[names[i]] = i + 1)
        next_use[i] = seen[names[i]]; /* NONE_USE, as memset() left it, after the last */
    for (uint32_t i = 0; i < REQUESTS; i++) {
        host.view.next_use = next_use[i];
        host_use(&host, names[i], 1);
        assert_true(host.used <= slots);
        if (i % 16 == 0)
            evict_view_check(&host.view);
    }
    ratio = (double)host.misses / REQUESTS;
    free(host.memory);
    return ratio;
}

static void it_hits_at_least_a_third_as_often_as_lru_however_few_the_slots(void **state)
{
    static const uint32_t slots[] = {1, 2, 3, 4, 8, 16, 32, 64};

    (void)state;
    for (size_t s = 0; s < ARRAY_COUNT(slots); s++) {
        const double lru = miss_ratio(&evict_lru, slots[s]);

        for (size_t i = 0; i < ARRAY_COUNT(policies); i++) {
            const double misses = miss_ratio(policies[i], slots[s]);

            if (1 - misses < (1 - lru) / 3)
                fail_msg("%s: %.4f of requests miss in %u slots; lru: %.4f", policies[i]->name, misses, slots[s], lru);
        }
    }
}

/* Zero, small, larger than any queue's share, larger than the cache; and now and then another than last time. */
static uint64_t draw_size(uint64_t *random, uint64_t name, uint64_t capacity)
{
    if (draw_below(random, 50) == 0)
        return draw_below(random, capacity + 2);
    return name % 11 == 0 ? 0 : name % 17 == 0 ? capacity / 2 + name : 1 + name * 7 % 90;
}

static void pin_all_but(struct host *host, uint32_t but)
{
    for (uint32_t i = 0; i < host->view.entries_used; i++)
        host->view.entries[i].evictable = host->view.entries[i].present && (but == NONE_INDEX || i == but);
}

static void one_turn(struct host *host, uint64_t *random)
{
    struct evict_view *view = &host->view;
    const uint32_t entry = view->entries_used == 0 ? 0 : (uint32_t)draw_below(random, view->entries_used);
    const bool present = entry < view->entries_used && view->entries[entry].present;
    const uint64_t name = draw_name(random);

    switch (draw_below(random, 16)) {
    case 0: /* retired */
        if (present)
            host_remove(host, entry, false);
        break;
    case 1: /* all but one are pinned, and room is made for somebody who does not come */
        if (!present || !evict_ask(view, OBJECTS, 1, 1))
            break;
        pin_all_but(host, entry);
        assert_int_equal(view->policy->victim(view), entry);
        host_remove(host, entry, true);
        pin_all_but(host, view->entries_used);
        assert_int_equal(view->policy->victim(view), NONE_INDEX);
        pin_all_but(host, NONE_INDEX);
        break;
    default:
        view->next_use = view->now + 1 + draw_below(random, 100);
        host_use(host, name, draw_size(random, name, view->capacity));
    }
}

static void it_evicts_what_may_leave_and_keeps_its_bounds(void **state)
{
    static const uint64_t capacities[] = {1, 10, 300, 3000};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(policies); i++)
        for (size_t c = 0; c < ARRAY_COUNT(capacities); c++) {
            struct host host = host_begin(policies[i], capacities[c], 1);
            uint64_t random = test_seed(41 + c);

            for (uint32_t turn = 0; turn < REQUESTS / 4; turn++) {
                one_turn(&host, &random);
                assert_true(host.used <= capacities[c]);
                evict_view_check(&host.view);
            }
            free(host.memory);
        }
}

/* One host has room for all from the beginning, the other makes room as it must. A few large favourites fill most of the cache and
 * small ones pass by them, so more could be remembered than are there. */
static void it_chooses_alike_whatever_room_its_host_has(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(policies); i++) {
        struct host large = host_begin(policies[i], 100, OBJECTS);
        struct host grown = host_begin(policies[i], 100, 1);
        uint64_t random = test_seed(61);

        for (uint32_t turn = 0; turn < REQUESTS; turn++) {
            const uint64_t name = draw_below(&random, draw_below(&random, 2) == 0 ? 4 : OBJECTS);

            large.view.next_use = grown.view.next_use = large.view.now + 1 + draw_below(&random, 100);
            host_use(&large, name, name < 4 ? 20 : 1);
            host_use(&grown, name, name < 4 ? 20 : 1);
            if (memcmp(large.slot_of, grown.slot_of, sizeof(large.slot_of)) != 0)
                fail_msg("%s: turn %u: they choose differently", policies[i]->name, turn);
        }
        free(large.memory);
        free(grown.memory);
    }
}

/* The parameters' ends: a queue of nothing, a queue of all. */
static void it_stands_the_ends_of_its_parameters(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(policies); i++)
        for (uint32_t k = 0; k < policies[i]->keys_count; k++)
            for (uint32_t end = 0; end < 2; end++) {
                const struct evict_key *key = &policies[i]->keys[k];
                struct host host = host_begin(policies[i], 300, 1);
                uint64_t random = test_seed(51);
                double parameters[EVICT_PARAMETERS_MAX];
                struct evict_setup setup = {.policy = policies[i], .parameters = parameters, .entries_max = 1, .capacity = 300, .salt = 5};

                for (uint32_t j = 0; j < policies[i]->keys_count; j++)
                    parameters[j] = policies[i]->keys[j].value;
                parameters[k] = end == 0 ? key->min : key->max;
                evict_view_begin(&host.view, host.memory, &setup);
                for (uint32_t turn = 0; turn < REQUESTS / 10; turn++) {
                    one_turn(&host, &random);
                    assert_true(host.used <= 300);
                    evict_view_check(&host.view);
                }
                free(host.memory);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_hits_at_least_a_third_as_often_as_lru_however_few_the_slots),
        cmocka_unit_test(it_evicts_what_may_leave_and_keeps_its_bounds),
        cmocka_unit_test(it_chooses_alike_whatever_room_its_host_has),
        cmocka_unit_test(it_stands_the_ends_of_its_parameters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
