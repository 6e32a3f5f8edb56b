/* Each eviction policy by hand on a few uses, then against its naive twin. */
#include "pair.h"

#include <stdlib.h>

static uint32_t victim_fifo(struct twin *twin)
{
    for (uint32_t i = 0; i < twin->count; i++)
        if (twin_may_leave(&twin->entries[i]))
            return i;
    return NONE_INDEX;
}

static uint32_t victim_lru(struct twin *twin)
{
    uint32_t best = NONE_INDEX;

    for (uint32_t i = 0; i < twin->count; i++)
        if (twin_may_leave(&twin->entries[i]) &&
            (best == NONE_INDEX || twin->entries[i].used_at < twin->entries[best].used_at))
            best = i;
    return best;
}

/* The least used; of equals the one whose last use is the oldest. */
static uint32_t victim_lfu(struct twin *twin)
{
    uint32_t best = NONE_INDEX;

    for (uint32_t i = 0; i < twin->count; i++) {
        const struct twin_entry *entry = &twin->entries[i];

        if (twin_may_leave(entry) &&
            (best == NONE_INDEX || entry->hits < twin->entries[best].hits ||
             (entry->hits == twin->entries[best].hits && entry->used_at < twin->entries[best].used_at)))
            best = i;
    }
    return best;
}

static void use_gdsf(struct twin *twin, struct twin_entry *entry)
{
    uint128 cost = (uint128)1 << 24;

    if (twin->config.cost_fixed_ns > 0 || twin->config.cost_ns_per_mib > 0)
        cost = (uint128)entry->bytes * (uint64_t)twin->config.cost_ns_per_mib / 1048576 +
               (uint64_t)twin->config.cost_fixed_ns;
    entry->key = entry->hits * cost * 65536 / entry->size;
    if (entry->key > INT64_MAX / 2)
        entry->key = INT64_MAX / 2;
    entry->key += twin->clock;
}

static uint32_t victim_gdsf(struct twin *twin)
{
    uint32_t best = NONE_INDEX;

    for (uint32_t i = 0; i < twin->count; i++)
        if (twin_may_leave(&twin->entries[i]) && (best == NONE_INDEX || twin->entries[i].key < twin->entries[best].key))
            best = i;
    if (best != NONE_INDEX && twin->entries[best].key > twin->clock)
        twin->clock = twin->entries[best].key;
    return best;
}

static void touch_sieve(struct twin *twin, struct twin_entry *entry)
{
    (void)twin;
    entry->mark = 1;
}

static uint32_t victim_sieve(struct twin *twin)
{
    for (uint32_t turn = 0; turn < 3 * twin->count; turn++) {
        uint32_t at = twin->hand;

        if (twin_may_leave(&twin->entries[at]) && twin->entries[at].mark == 0)
            return at;
        if (twin_may_leave(&twin->entries[at]))
            twin->entries[at].mark = 0;
        twin->hand = (at + 1) % twin->count;
    }
    return NONE_INDEX;
}

static const struct twin_policy gdsf = {.policy = &evict_gdsf, .victim = victim_gdsf, .insert = use_gdsf, .touch = use_gdsf};

static void each_policy_agrees_with_its_twin(void **state)
{
    static const struct twin_policy twins[] = {
        {.policy = &evict_lru, .victim = victim_lru},
        {.policy = &evict_fifo, .victim = victim_fifo},
        {.policy = &evict_lfu, .victim = victim_lfu},
        {.policy = &evict_sieve, .victim = victim_sieve, .touch = touch_sieve},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(twins); i++)
        run_pairs(&twins[i], test_seed(11 + 100 * i));
    run_pairs(&gdsf, test_seed(511));
}

static void gdsf_agrees_with_its_twin_when_reloads_cost(void **state)
{
    struct pair_run run = {.config = {.unit = CACHE_BYTES, .capacity = 100, .entries_max = 12, .cost_fixed_ns = 5000000,
                                      .cost_ns_per_mib = 41943040},
                           .ids = 40, .turns = 20000, .seed = test_seed(41)};

    (void)state;
    run_pair(&gdsf, &run);
    run.config.cost_fixed_ns = 0;
    run_pair(&gdsf, &run);
    run.config.unit = CACHE_SLOTS;
    run.config.capacity = 6;
    run_pair(&gdsf, &run);
}

/* A load of 2^40 ns is worth 2^56: values saturate after 64 uses, and L outgrows 2^62 every few score evictions, so
 * the origin moves hundreds of times. The twin counts in 128 bits and never moves it. */
static void gdsf_agrees_with_its_twin_when_keys_outgrow_their_bits(void **state)
{
    struct pair_run run = {.config = {.unit = CACHE_SLOTS, .capacity = 6, .entries_max = 6, .cost_fixed_ns = INT64_C(1) << 40},
                           .ids = 16, .turns = 20000, .seed = test_seed(51), .quiet = true};

    (void)state;
    run_pair(&gdsf, &run);
    run.ids = 40;
    run_pair(&gdsf, &run);
}

static void gdsf_takes_the_greatest_cost_there_is(void **state)
{
    (void)state;
    struct cache_config config = {.unit = CACHE_BYTES, .capacity = UINT64_MAX, .entries_max = 2, .evict = &evict_gdsf,
                                  .cost_fixed_ns = INT64_MAX, .cost_ns_per_mib = INT64_MAX};
    size_t bytes = cache_bytes(&config);
    struct cache *cache = cache_create(malloc(bytes), bytes, &config);
    uint32_t small = cache_insert(cache, (adapter_id){1, 1}, 1);
    uint32_t large = cache_insert(cache, (adapter_id){2, 1}, UINT64_MAX - 1);
    uint32_t entry;
    uint64_t left;

    cache_arrived(cache, small);
    cache_arrived(cache, large);
    for (uint32_t i = 0; i < 10; i++)
        cache_touch(cache, large);
    cache_check(cache);
    assert_int_equal(cache_evict_one(cache, (adapter_id){3, 1}, 1, &entry, &left).index, 2);
    assert_true(left == UINT64_MAX - 1);
    cache_check(cache);
    free(cache);
}

/* By hand: letters are adapters; a lower-case letter is a use, which may load. Says what left, in order. */
static const char *history(const struct evict_policy *evict, uint64_t capacity, const char *uses)
{
    static char left[32];
    struct cache_config config = {.unit = CACHE_BYTES, .capacity = capacity, .entries_max = 8, .evict = evict};
    size_t bytes = cache_bytes(&config);
    struct cache *cache = cache_create(malloc(bytes), bytes, &config);
    uint32_t length = 0;

    for (; *uses != 0; uses++) {
        adapter_id adapter = {(uint32_t)*uses - 'a' + 1, 1};
        adapter_id victims[8];
        uint32_t count, entry;
        /* x, y, z are four times the others. */
        uint64_t size = *uses >= 'x' ? 4 : 1;
        enum cache_answer answer = cache_acquire(cache, adapter, size, victims, 8, &count, &entry);

        assert_true(answer == CACHE_HIT || answer == CACHE_MISS);
        if (answer == CACHE_MISS)
            cache_arrived(cache, entry);
        cache_release(cache, adapter);
        for (uint32_t i = 0; i < count; i++)
            left[length++] = (char)('a' + (int)victims[i].index - 1);
    }
    left[length] = 0;
    free(cache);
    return left;
}

static void lru_evicts_what_was_used_longest_ago(void **state)
{
    (void)state;
    assert_string_equal(history(&evict_lru, 3, "abcadae"), "bc");
}

static void fifo_evicts_the_oldest_used_or_not(void **state)
{
    (void)state;
    assert_string_equal(history(&evict_fifo, 3, "abcadae"), "abc");
}

/* Of a, b, c with two uses each b's second is the oldest. */
static void lfu_evicts_the_least_used_and_of_equals_the_one_used_longest_ago(void **state)
{
    (void)state;
    assert_string_equal(history(&evict_lfu, 3, "abbcaade"), "cd");
    assert_string_equal(history(&evict_lfu, 3, "aabcd"), "b");
    assert_string_equal(history(&evict_lfu, 3, "abcbacd"), "b");
}

/* The hand spares a (used), takes b, stands at c; then c and d were not used since. After e it begins anew at a. */
static void sieve_spares_what_was_visited_and_keeps_its_hand(void **state)
{
    (void)state;
    assert_string_equal(history(&evict_sieve, 3, "abcadefg"), "bcde");
    assert_string_equal(history(&evict_sieve, 3, "abcabcd"), "a");
}

/* Of equal use the larger leaves; what was once used much leaves when enough has passed. */
static void gdsf_evicts_the_large_first_and_forgets_old_fame(void **state)
{
    (void)state;
    assert_string_equal(history(&evict_gdsf, 6, "xabc"), "x");
    assert_string_equal(history(&evict_gdsf, 6, "xxxxxxabc"), "a");
    assert_string_equal(history(&evict_gdsf, 2, "aaabcdefg"), "bcade");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lru_evicts_what_was_used_longest_ago),
        cmocka_unit_test(fifo_evicts_the_oldest_used_or_not),
        cmocka_unit_test(lfu_evicts_the_least_used_and_of_equals_the_one_used_longest_ago),
        cmocka_unit_test(sieve_spares_what_was_visited_and_keeps_its_hand),
        cmocka_unit_test(gdsf_evicts_the_large_first_and_forgets_old_fame),
        cmocka_unit_test(each_policy_agrees_with_its_twin),
        cmocka_unit_test(gdsf_agrees_with_its_twin_when_reloads_cost),
        cmocka_unit_test(gdsf_agrees_with_its_twin_when_keys_outgrow_their_bits),
        cmocka_unit_test(gdsf_takes_the_greatest_cost_there_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
