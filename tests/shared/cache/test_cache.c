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

/* Two slots, LRU, 5 ms a load: the history of spec 3.1. */
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

static void release_a(void *cache)
{
    cache_release(cache, A);
}

static void cache_stops_at_a_release_of_what_is_not_pinned(void **state)
{
    (void)state;
    struct cache *cache = cache_new(CACHE_SLOTS, 2, 2, &evict_lru);
    adapter_id victim;
    uint32_t a;

    assert_true(check_stops(release_a, cache)); /* absent */
    acquire(cache, A, 1, &victim, &a);
    assert_false(check_stops(release_a, cache));
    assert_true(check_stops(release_a, cache)); /* present, pins 0 */
    free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_slots_give_one_hit_three_misses_and_15_ms),
        cmocka_unit_test(cache_stops_at_a_release_of_what_is_not_pinned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
