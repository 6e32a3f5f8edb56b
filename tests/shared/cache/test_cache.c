/* What a tier promises: pins, holds, rooms, identity, coalescing, and where it stops on a caller's mistake. */
#include "cache/cache.h"
#include "support.h"

#include <stdlib.h>

static const adapter_id A = {1, 1};
static const adapter_id B = {2, 1};
static const adapter_id C = {3, 1};
static const adapter_id D = {4, 1};

static struct cache *cache_new(enum cache_unit unit, uint64_t capacity, uint32_t entries_max,
                               const struct evict_policy *evict)
{
    struct cache_config config = {.unit = unit, .capacity = capacity, .entries_max = entries_max, .evict = evict};
    size_t bytes = cache_bytes(&config);

    return cache_create(malloc(bytes), bytes, &config);
}

/* Acquires with room for every victim; says which single one left, {0, 0} when none did. */
static enum cache_answer acquire(struct cache *cache, adapter_id adapter, uint64_t bytes, adapter_id *ret_victim,
                                 uint32_t *ret_entry)
{
    adapter_id victims[64];
    uint32_t count = 0;
    enum cache_answer answer = cache_acquire(cache, adapter, bytes, victims, 64, &count, ret_entry);

    assert_true(count <= 1);
    *ret_victim = count == 1 ? victims[0] : (adapter_id){0, 0};
    cache_check(cache);
    return answer;
}

/* Two slots, LRU, 5 ms a load: a history whose answer is known by hand. */
static void two_slots_give_one_hit_three_misses_and_15_ms(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_SLOTS, 2, 2, &evict_lru);
    adapter_id victim;
    uint32_t a, b, c, none = 77;
    int64_t load_ns = 0;

    assert_int_equal(acquire(cache, A, 100, &victim, &a), CACHE_MISS);
    load_ns += 5 * NS_PER_MS;
    cache_arrived(cache, a);
    assert_int_equal(acquire(cache, B, 100, &victim, &b), CACHE_MISS);
    load_ns += 5 * NS_PER_MS;
    cache_arrived(cache, b);
    cache_release(cache, B);
    assert_int_equal(acquire(cache, C, 100, &victim, &c), CACHE_MISS);
    assert_true(adapter_id_equal(victim, B));
    load_ns += 5 * NS_PER_MS;
    cache_arrived(cache, c);
    assert_int_equal(acquire(cache, D, 100, &victim, &none), CACHE_WAIT);
    assert_int_equal(none, 77);
    cache_release(cache, A);
    cache_release(cache, C);
    assert_int_equal(acquire(cache, C, 100, &victim, &c), CACHE_HIT);
    assert_int_equal(cache_counts(cache).hits, 1);
    assert_int_equal(cache_counts(cache).misses, 3);
    assert_int_equal(cache_counts(cache).blocked, 1);
    assert_int_equal(cache_counts(cache).evictions, 1);
    assert_int_equal(load_ns, 15 * NS_PER_MS);
    free(cache);
}

/* What a mistake is made with. */
struct act {
    struct cache *cache;
    uint32_t entry;
    adapter_id adapter;
    uint64_t bytes;
};

static void do_release(void *context)
{
    const struct act *act = context;

    cache_release(act->cache, act->adapter);
}

static void do_unpin(void *context)
{
    const struct act *act = context;

    cache_unpin(act->cache, act->entry);
}

static void do_pin(void *context)
{
    const struct act *act = context;

    cache_pin(act->cache, act->entry);
}

static void do_touch(void *context)
{
    const struct act *act = context;

    cache_touch(act->cache, act->entry);
}

static void do_hold(void *context)
{
    const struct act *act = context;

    cache_hold(act->cache, act->entry);
}

static void do_arrived(void *context)
{
    const struct act *act = context;

    cache_arrived(act->cache, act->entry);
}

static void do_failed(void *context)
{
    const struct act *act = context;

    cache_failed(act->cache, act->entry);
}

static void do_drop(void *context)
{
    const struct act *act = context;

    cache_drop(act->cache, act->entry);
}

static void do_insert(void *context)
{
    const struct act *act = context;

    cache_insert(act->cache, act->adapter, act->bytes);
}

static void do_evict(void *context)
{
    const struct act *act = context;
    uint32_t entry;
    uint64_t bytes;

    cache_evict_one(act->cache, act->adapter, act->bytes, &entry, &bytes);
}

static void do_acquire_without_room_for_victims(void *context)
{
    const struct act *act = context;
    uint32_t count, entry;

    cache_acquire(act->cache, act->adapter, act->bytes, NULL, 0, &count, &entry);
}

static void cache_stops_at_a_release_of_what_is_not_pinned(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_SLOTS, 2, 2, &evict_lru);
    struct act act = {.cache = cache, .adapter = A};
    adapter_id victim;

    assert_true(check_stops(do_release, &act)); /* absent */
    acquire(cache, A, 1, &victim, &act.entry);
    assert_false(check_stops(do_release, &act));
    assert_true(check_stops(do_release, &act)); /* present, pins 0 */
    assert_true(check_stops(do_unpin, &act));
    free(cache);
}

static void cache_stops_at_an_entry_that_is_absent(void **state)
{
    (void)state;
    void (*const acts[])(void *) = {do_unpin, do_pin, do_touch, do_hold, do_arrived, do_failed, do_drop};
    struct cache *cache = cache_new(CACHE_SLOTS, 2, 2, &evict_lru);
    struct act act = {.cache = cache};

    for (size_t i = 0; i < ARRAY_COUNT(acts); i++) {
        act.entry = 1; /* never used */
        assert_true(check_stops(acts[i], &act));
        act.entry = 2; /* past the end */
        assert_true(check_stops(acts[i], &act));
        act.entry = NONE_INDEX;
        assert_true(check_stops(acts[i], &act));
    }
    free(cache);
}

static void cache_stops_at_a_load_that_ends_twice(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_SLOTS, 2, 2, &evict_lru);
    struct act act = {.cache = cache, .entry = cache_insert(cache, A, 1)};

    cache_pin(cache, act.entry);
    assert_true(check_stops(do_failed, &act)); /* pinned: its users must be told first */
    cache_unpin(cache, act.entry);
    cache_arrived(cache, act.entry);
    assert_true(check_stops(do_arrived, &act));
    assert_true(check_stops(do_failed, &act));
    free(cache);
}

static void cache_stops_at_an_insertion_without_room_or_of_what_is_present(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_BYTES, 100, 4, &evict_lru);
    struct act act = {.cache = cache, .adapter = A, .bytes = 10};

    cache_arrived(cache, cache_insert(cache, A, 60));
    assert_true(check_stops(do_insert, &act)); /* present */
    free(cache);
    cache = cache_new(CACHE_BYTES, 100, 4, &evict_lru);
    act = (struct act){.cache = cache, .adapter = B, .bytes = 41};
    cache_arrived(cache, cache_insert(cache, A, 60));
    assert_true(check_stops(do_insert, &act)); /* room only after evicting */
    act.bytes = 40;
    assert_false(check_stops(do_insert, &act));
    act = (struct act){.cache = cache, .adapter = {0, 0}, .bytes = 0};
    assert_true(check_stops(do_insert, &act)); /* the base itself is no adapter */
    free(cache);
}

static void cache_stops_at_an_eviction_when_nothing_may_leave(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_SLOTS, 2, 2, &evict_lru);
    struct act act = {.cache = cache};

    assert_true(check_stops(do_evict, &act)); /* empty */
    act.entry = cache_insert(cache, A, 1);
    assert_true(check_stops(do_evict, &act)); /* loading */
    cache_arrived(cache, act.entry);
    cache_pin(cache, act.entry);
    assert_true(check_stops(do_evict, &act)); /* pinned */
    cache_unpin(cache, act.entry);
    cache_hold(cache, act.entry);
    assert_true(check_stops(do_evict, &act)); /* held */
    cache_hold_begin(cache);
    assert_false(check_stops(do_evict, &act));
    free(cache);
}

static void cache_stops_at_more_victims_than_the_caller_can_take(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_SLOTS, 1, 1, &evict_lru);
    struct act act = {.cache = cache, .adapter = B, .bytes = 1};

    cache_arrived(cache, cache_insert(cache, A, 1));
    assert_true(check_stops(do_acquire_without_room_for_victims, &act));
    free(cache);
}

static void cache_never_takes_what_exceeds_its_whole_capacity(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_BYTES, 100, 4, &evict_lru);
    adapter_id victim;
    uint32_t entry = 77;

    assert_int_equal(cache_room(cache, 101), CACHE_OVERSIZE);
    assert_int_equal(acquire(cache, A, 101, &victim, &entry), CACHE_NEVER);
    assert_int_equal(entry, 77);
    assert_int_equal(cache_count(cache), 0);
    assert_int_equal(acquire(cache, B, 100, &victim, &entry), CACHE_MISS);
    assert_int_equal(cache_room(cache, 101), CACHE_OVERSIZE); /* full, and still never */
    assert_int_equal(cache_room(cache, 1), CACHE_BLOCKED);
    free(cache);
}

static void slots_weigh_one_whatever_their_bytes(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_SLOTS, 2, 2, &evict_lru);
    uint32_t entry;
    uint64_t bytes;

    cache_arrived(cache, cache_insert(cache, A, UINT64_MAX / 4));
    assert_int_equal(cache_room(cache, UINT64_MAX), CACHE_FITS);
    cache_arrived(cache, cache_insert(cache, B, 1));
    assert_int_equal(cache_used(cache), 2);
    assert_true(cache_used_bytes(cache) == UINT64_MAX / 4 + 1);
    cache_evict_one(cache, C, 1, &entry, &bytes);
    assert_true(bytes == UINT64_MAX / 4);
    assert_true(cache_counts(cache).evicted_bytes == UINT64_MAX / 4);
    free(cache);
}

static void capacity_zero_takes_nothing(void **state)
{
    (void)state;
    struct cache *bytes = cache_new(CACHE_BYTES, 0, 1, &evict_lru);
    struct cache *slots = cache_new(CACHE_SLOTS, 0, 1, &evict_lru);

    assert_int_equal(cache_room(bytes, 1), CACHE_OVERSIZE);
    assert_int_equal(cache_room(slots, 1), CACHE_OVERSIZE);
    free(bytes);
    free(slots);
}

static void room_does_not_wrap_at_the_greatest_capacity(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_BYTES, UINT64_MAX, 2, &evict_lru);

    cache_arrived(cache, cache_insert(cache, A, UINT64_MAX - 10));
    assert_int_equal(cache_room(cache, 10), CACHE_FITS);
    assert_int_equal(cache_room(cache, 11), CACHE_EVICTABLE);
    assert_int_equal(cache_room(cache, UINT64_MAX), CACHE_EVICTABLE);
    cache_pin(cache, cache_find(cache, A));
    assert_int_equal(cache_room(cache, UINT64_MAX), CACHE_BLOCKED);
    assert_int_equal(cache_room(cache, 11), CACHE_BLOCKED);
    free(cache);
}

static void a_large_adapter_evicts_as_many_small_ones_as_it_needs(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_BYTES, 100, 20, &evict_lru);
    adapter_id victims[20];
    uint32_t count, entry;

    for (uint32_t i = 1; i <= 10; i++)
        cache_arrived(cache, cache_insert(cache, (adapter_id){i, 1}, 10));
    cache_pin(cache, cache_find(cache, (adapter_id){2, 1}));
    assert_int_equal(cache_room(cache, 90), CACHE_EVICTABLE);
    assert_int_equal(cache_room(cache, 91), CACHE_BLOCKED);
    assert_int_equal(cache_acquire(cache, (adapter_id){99, 1}, 35, victims, 20, &count, &entry), CACHE_MISS);
    assert_int_equal(count, 4);
    assert_int_equal(victims[0].index, 1);
    assert_int_equal(victims[1].index, 3);
    assert_int_equal(victims[2].index, 4);
    assert_int_equal(victims[3].index, 5);
    assert_int_equal(cache_used(cache), 95);
    assert_int_equal(cache_pinned(cache), 45);
    assert_int_equal(cache_counts(cache).evicted_bytes, 40);
    cache_check(cache);
    free(cache);
}

static void many_uses_of_an_absent_adapter_cause_one_load(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_BYTES, 100, 4, &evict_lru);
    adapter_id victim;
    uint32_t first, other;

    assert_int_equal(acquire(cache, A, 30, &victim, &first), CACHE_MISS);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(acquire(cache, A, 30, &victim, &other), CACHE_LOADING);
        assert_int_equal(other, first);
    }
    cache_arrived(cache, first);
    assert_int_equal(acquire(cache, A, 30, &victim, &other), CACHE_HIT);
    assert_int_equal(cache_pins(cache, first), 11);
    assert_int_equal(cache_counts(cache).misses, 1);
    assert_int_equal(cache_counts(cache).coalesced, 9);
    assert_int_equal(cache_counts(cache).hits, 1);
    assert_int_equal(cache_counts(cache).loaded_bytes, 30);
    free(cache);
}

static void the_use_that_caused_a_load_is_not_a_hit(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_SLOTS, 2, 2, &evict_lfu);
    uint32_t a = cache_insert(cache, A, 1);

    cache_arrived(cache, a);
    assert_false(cache_touch(cache, a));
    assert_true(cache_touch(cache, a));
    assert_int_equal(cache_counts(cache).hits, 1);
    assert_int_equal(cache_counts(cache).misses, 1);
    free(cache);
}

static void a_failed_load_gives_its_room_back_and_can_be_tried_again(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_BYTES, 100, 4, &evict_lru);
    adapter_id victim;
    uint32_t a;

    acquire(cache, A, 100, &victim, &a);
    assert_int_equal(cache_room(cache, 1), CACHE_BLOCKED);
    cache_release(cache, A);
    assert_int_equal(cache_room(cache, 1), CACHE_BLOCKED); /* loading, pinned or not */
    cache_failed(cache, a);
    assert_int_equal(cache_find(cache, A), NONE_INDEX);
    assert_int_equal(cache_room(cache, 100), CACHE_FITS);
    assert_int_equal(acquire(cache, A, 100, &victim, &a), CACHE_MISS);
    assert_int_equal(cache_counts(cache).evictions, 0);
    free(cache);
}

static void a_new_version_is_never_served_from_the_old_weights(void **state)
{
    (void)state;
    const adapter_id newer = {A.index, A.version + 1};
    struct cache *cache = cache_new(CACHE_BYTES, 100, 4, &evict_lru);
    adapter_id victim;
    uint32_t old, new;

    acquire(cache, A, 30, &victim, &old);
    cache_arrived(cache, old);
    assert_int_equal(acquire(cache, newer, 30, &victim, &new), CACHE_MISS);
    assert_int_not_equal(old, new);
    assert_false(cache_drop(cache, old)); /* its last batch still runs */
    assert_int_equal(cache_find(cache, A), NONE_INDEX);
    assert_int_equal(cache_find(cache, newer), new);
    assert_int_equal(cache_used(cache), 60);
    assert_int_equal(cache_room(cache, 71), CACHE_BLOCKED);
    cache_check(cache);
    assert_true(cache_unpin(cache, old));
    assert_int_equal(cache_used(cache), 30);
    assert_int_equal(cache_counts(cache).evictions, 0); /* retired, not evicted */
    cache_check(cache);
    free(cache);
}

static void an_adapter_retired_while_it_loads_goes_when_load_and_pins_have_ended(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_BYTES, 100, 4, &evict_lru);
    uint32_t entry = cache_insert(cache, A, 30);

    assert_false(cache_drop(cache, entry));
    assert_int_equal(cache_find(cache, A), NONE_INDEX);
    assert_true(cache_arrived(cache, entry)); /* unpinned: with the load */
    assert_int_equal(cache_count(cache), 0);

    entry = cache_insert(cache, A, 30);
    cache_pin(cache, entry);
    assert_false(cache_drop(cache, entry));
    assert_false(cache_arrived(cache, entry));
    assert_int_equal(cache_count(cache), 1);
    assert_true(cache_unpin(cache, entry)); /* arrived: with the last pin */
    assert_int_equal(cache_count(cache), 0);

    entry = cache_insert(cache, A, 30);
    cache_pin(cache, entry);
    assert_false(cache_drop(cache, entry));
    assert_false(cache_unpin(cache, entry)); /* the copy is still under way */
    cache_failed(cache, entry);
    assert_int_equal(cache_used(cache), 0);
    cache_check(cache);
    free(cache);
}

static void release_by_name_finds_the_doomed_before_their_successor(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_BYTES, 100, 4, &evict_lru);
    adapter_id victim;
    uint32_t old, new;

    acquire(cache, A, 30, &victim, &old);
    cache_arrived(cache, old);
    cache_drop(cache, old);
    assert_int_equal(acquire(cache, A, 30, &victim, &new), CACHE_MISS);
    cache_release(cache, A);
    assert_int_equal(cache_count(cache), 1);
    assert_int_equal(cache_pins(cache, new), 1);
    cache_release(cache, A);
    assert_int_equal(cache_pins(cache, new), 0);
    cache_check(cache);
    free(cache);
}

static void held_entries_stay_until_the_next_scan(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_SLOTS, 3, 3, &evict_lru);
    uint32_t a = cache_insert(cache, A, 1);
    uint32_t b = cache_insert(cache, B, 1);
    uint32_t c = cache_insert(cache, C, 1);
    uint32_t entry;
    uint64_t bytes;

    cache_arrived(cache, a);
    cache_arrived(cache, b);
    cache_arrived(cache, c);
    cache_hold_begin(cache);
    cache_hold(cache, a);
    cache_hold(cache, a); /* twice is once */
    cache_hold(cache, c);
    assert_int_equal(cache_pinned(cache), 0);
    cache_pin(cache, a); /* pinned and unpinned while held: still held */
    cache_unpin(cache, a);
    cache_check(cache);
    assert_true(adapter_id_equal(cache_evict_one(cache, D, 1, &entry, &bytes), B));
    assert_int_equal(cache_room(cache, 1), CACHE_FITS);
    b = cache_insert(cache, B, 1);
    assert_int_equal(cache_room(cache, 1), CACHE_BLOCKED);
    assert_true(cache_drop(cache, c)); /* retirement does not wait for a scan */
    cache_check(cache);
    cache_hold_begin(cache);
    c = cache_insert(cache, C, 1);
    assert_int_equal(cache_room(cache, 1), CACHE_EVICTABLE);
    assert_true(adapter_id_equal(cache_evict_one(cache, D, 1, &entry, &bytes), A));
    cache_check(cache);
    free(cache);
}

/* The pins, the readiness and the order of use are seen; a hold, which lasts for one scan, is not. */
static void digest_tells_states_and_orders_apart(void **state)
{
    (void)state;
    struct cache *one = cache_new(CACHE_SLOTS, 3, 3, &evict_lru);
    struct cache *two = cache_new(CACHE_SLOTS, 3, 3, &evict_lru);
    struct cache *const both[] = {one, two};
    uint64_t before;

    for (size_t i = 0; i < ARRAY_COUNT(both); i++) {
        cache_insert(both[i], A, 1);
        cache_insert(both[i], B, 1);
        cache_touch(both[i], 0);
        cache_touch(both[i], 1);
    }
    assert_true(cache_digest(one) == cache_digest(two));
    before = cache_digest(one);
    cache_pin(one, 0);
    assert_true(cache_digest(one) != before);
    cache_unpin(one, 0);
    assert_true(cache_digest(one) == before);
    cache_hold(one, 0);
    assert_true(cache_digest(one) == before);
    cache_arrived(one, 0);
    assert_true(cache_digest(one) != before);
    cache_arrived(two, 0);
    assert_true(cache_digest(one) == cache_digest(two));
    cache_touch(one, 0);
    cache_touch(one, 1);
    cache_touch(two, 1);
    cache_touch(two, 0);
    assert_true(cache_digest(one) != cache_digest(two));
    free(one);
    free(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_slots_give_one_hit_three_misses_and_15_ms),
        cmocka_unit_test(cache_stops_at_a_release_of_what_is_not_pinned),
        cmocka_unit_test(cache_stops_at_an_entry_that_is_absent),
        cmocka_unit_test(cache_stops_at_a_load_that_ends_twice),
        cmocka_unit_test(cache_stops_at_an_insertion_without_room_or_of_what_is_present),
        cmocka_unit_test(cache_stops_at_an_eviction_when_nothing_may_leave),
        cmocka_unit_test(cache_stops_at_more_victims_than_the_caller_can_take),
        cmocka_unit_test(cache_never_takes_what_exceeds_its_whole_capacity),
        cmocka_unit_test(slots_weigh_one_whatever_their_bytes),
        cmocka_unit_test(capacity_zero_takes_nothing),
        cmocka_unit_test(room_does_not_wrap_at_the_greatest_capacity),
        cmocka_unit_test(a_large_adapter_evicts_as_many_small_ones_as_it_needs),
        cmocka_unit_test(many_uses_of_an_absent_adapter_cause_one_load),
        cmocka_unit_test(the_use_that_caused_a_load_is_not_a_hit),
        cmocka_unit_test(a_failed_load_gives_its_room_back_and_can_be_tried_again),
        cmocka_unit_test(a_new_version_is_never_served_from_the_old_weights),
        cmocka_unit_test(an_adapter_retired_while_it_loads_goes_when_load_and_pins_have_ended),
        cmocka_unit_test(release_by_name_finds_the_doomed_before_their_successor),
        cmocka_unit_test(held_entries_stay_until_the_next_scan),
        cmocka_unit_test(digest_tells_states_and_orders_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
