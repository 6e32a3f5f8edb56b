/* Each eviction policy by hand on a few uses, then against a naive twin: a cache of plain arrays and scans, driven by
 * the same random history of uses, pins, holds, failed loads and retirements, in bytes and in slots. */
#include "cache/cache.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>

enum { TWIN_MAX = 16, IDS = 40, OPERATIONS = 20000 };

struct twin_entry {
    adapter_id adapter;
    uint64_t size, bytes, hits, used_at;
    uint128 key;
    uint32_t pins;
    uint32_t entry; /* which one it is in the cache: a doomed one cannot be found by name */
    bool ready, doomed, held, fresh, visited;
};

/* Entries in order of insertion, the oldest first; `hand` is SIEVE's place among them. */
struct twin {
    struct cache_config config;
    struct twin_entry entries[TWIN_MAX];
    uint32_t count, hand;
    uint64_t now;
    uint128 clock;
    struct cache_counts counts;
    uint32_t (*victim)(struct twin *twin);
};

static bool twin_may_leave(const struct twin_entry *entry)
{
    return entry->ready && entry->pins == 0 && !entry->held;
}

static uint32_t twin_victim_fifo(struct twin *twin)
{
    for (uint32_t i = 0; i < twin->count; i++)
        if (twin_may_leave(&twin->entries[i]))
            return i;
    return NONE_INDEX;
}

static uint32_t twin_victim_lru(struct twin *twin)
{
    uint32_t best = NONE_INDEX;

    for (uint32_t i = 0; i < twin->count; i++)
        if (twin_may_leave(&twin->entries[i]) &&
            (best == NONE_INDEX || twin->entries[i].used_at < twin->entries[best].used_at))
            best = i;
    return best;
}

static uint32_t twin_victim_lfu(struct twin *twin)
{
    uint32_t best = NONE_INDEX;

    for (uint32_t i = 0; i < twin->count; i++)
        if (twin_may_leave(&twin->entries[i]) &&
            (best == NONE_INDEX || twin->entries[i].hits < twin->entries[best].hits))
            best = i;
    return best;
}

static uint32_t twin_victim_gdsf(struct twin *twin)
{
    uint32_t best = NONE_INDEX;

    for (uint32_t i = 0; i < twin->count; i++)
        if (twin_may_leave(&twin->entries[i]) && (best == NONE_INDEX || twin->entries[i].key < twin->entries[best].key))
            best = i;
    if (best != NONE_INDEX && twin->entries[best].key > twin->clock)
        twin->clock = twin->entries[best].key;
    return best;
}

static uint32_t twin_victim_sieve(struct twin *twin)
{
    for (uint32_t turn = 0; turn < 3 * twin->count; turn++) {
        uint32_t at = twin->hand;

        if (twin_may_leave(&twin->entries[at]) && !twin->entries[at].visited)
            return at;
        if (twin_may_leave(&twin->entries[at]))
            twin->entries[at].visited = false;
        twin->hand = (at + 1) % twin->count;
    }
    return NONE_INDEX;
}

static const struct {
    const struct evict_policy *policy;
    uint32_t (*victim)(struct twin *twin);
} policies[] = {
    {&evict_lru, twin_victim_lru},
    {&evict_fifo, twin_victim_fifo},
    {&evict_lfu, twin_victim_lfu},
    {&evict_sieve, twin_victim_sieve},
    {&evict_gdsf, twin_victim_gdsf},
};

static uint32_t twin_find(const struct twin *twin, adapter_id adapter)
{
    for (uint32_t i = 0; i < twin->count; i++)
        if (!twin->entries[i].doomed && adapter_id_equal(twin->entries[i].adapter, adapter))
            return i;
    return NONE_INDEX;
}

static void twin_use(struct twin *twin, struct twin_entry *entry)
{
    uint128 cost = (uint128)1 << 24;

    if (twin->config.cost_fixed_ns > 0 || twin->config.cost_ns_per_mib > 0)
        cost = (uint128)entry->bytes * (uint64_t)twin->config.cost_ns_per_mib / 1048576 +
               (uint64_t)twin->config.cost_fixed_ns;
    entry->key = entry->hits * cost * 65536 / entry->size;
    if (entry->key > INT64_MAX / 2)
        entry->key = INT64_MAX / 2;
    entry->key += twin->clock;
    entry->used_at = ++twin->now;
}

static void twin_remove(struct twin *twin, uint32_t at)
{
    twin->count--;
    memmove(&twin->entries[at], &twin->entries[at + 1], (twin->count - at) * sizeof(twin->entries[0]));
    if (at < twin->hand)
        twin->hand--;
    if (twin->hand == twin->count)
        twin->hand = 0;
}

static void twin_insert(struct twin *twin, adapter_id adapter, uint64_t bytes, uint32_t in_cache)
{
    struct twin_entry *entry = &twin->entries[twin->count++];

    *entry = (struct twin_entry){.adapter = adapter, .bytes = bytes, .hits = 1, .entry = in_cache, .fresh = true};
    entry->size = twin->config.unit == CACHE_BYTES ? bytes : 1;
    twin->counts.misses++;
    twin->counts.loaded_bytes += bytes;
    twin_use(twin, entry);
}

static void twin_touch(struct twin *twin, struct twin_entry *entry)
{
    if (entry->fresh) {
        entry->fresh = false;
        return;
    }
    entry->hits++;
    entry->visited = true;
    twin_use(twin, entry);
    if (entry->ready)
        twin->counts.hits++;
    else
        twin->counts.coalesced++;
}

static uint64_t twin_sum(const struct twin *twin, bool (*counts)(const struct twin_entry *entry))
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < twin->count; i++)
        if (counts(&twin->entries[i]))
            sum += twin->entries[i].size;
    return sum;
}

static bool is_any(const struct twin_entry *entry) { return entry != NULL; }
static bool is_pinned(const struct twin_entry *entry) { return entry->pins > 0; }

static enum cache_room twin_room(const struct twin *twin, uint64_t bytes)
{
    uint64_t size = twin->config.unit == CACHE_BYTES ? bytes : 1;
    uint64_t used = twin_sum(twin, is_any);
    uint64_t stays = used - twin_sum(twin, twin_may_leave);
    bool any = twin_victim_fifo((struct twin *)(uintptr_t)twin) != NONE_INDEX;
    bool full = twin->count == twin->config.entries_max;

    if (size > twin->config.capacity)
        return CACHE_OVERSIZE;
    if (used + size <= twin->config.capacity && !full)
        return CACHE_FITS;
    return stays + size <= twin->config.capacity && (!full || any) ? CACHE_EVICTABLE : CACHE_BLOCKED;
}

/* One cache and its twin, and what names a failure. */
struct pair {
    struct cache *cache;
    struct twin twin;
    uint64_t random;
    uint64_t seed;
    uint32_t turn;
    uint32_t ids;
    bool quiet; /* loads end at once and pins do not last */
};

#define expect_equal(pair, got, expected)                                                                          \
    do {                                                                                                           \
        uint64_t got_ = (got), expected_ = (expected);                                                             \
        if (got_ != expected_)                                                                                     \
            fail_msg("%s, seed %llu, turn %u: %s is %llu, %s is %llu", (pair)->twin.config.evict->name,            \
                     (unsigned long long)(pair)->seed, (pair)->turn, #got, (unsigned long long)got_, #expected,    \
                     (unsigned long long)expected_);                                                               \
    } while (0)

/* Sizes differ by adapter alone; some exceed the byte mode's capacity of 100. */
static uint64_t bytes_of(adapter_id adapter)
{
    return adapter.index % 13 == 12 ? 101 : 1 + adapter.index * 7 % 40;
}

/* Popular ones often, and now and then the second version of one. */
static adapter_id draw_adapter(struct pair *pair)
{
    uint64_t bound = 1 + draw_below(&pair->random, pair->ids);

    return (adapter_id){1 + (uint32_t)draw_below(&pair->random, bound), 1 + (draw_below(&pair->random, 8) == 0)};
}

static adapter_id twin_evict(struct pair *pair)
{
    uint32_t at = pair->twin.victim(&pair->twin);
    adapter_id adapter = pair->twin.entries[at].adapter;

    pair->twin.counts.evictions++;
    pair->twin.counts.evicted_bytes += pair->twin.entries[at].bytes;
    twin_remove(&pair->twin, at);
    return adapter;
}

static void do_acquire(struct pair *pair)
{
    adapter_id adapter = draw_adapter(pair);
    uint64_t bytes = bytes_of(adapter);
    adapter_id victims[TWIN_MAX];
    uint32_t count = 0;
    uint32_t entry = NONE_INDEX;
    enum cache_answer answer = cache_acquire(pair->cache, adapter, bytes, victims, TWIN_MAX, &count, &entry);
    uint32_t at = twin_find(&pair->twin, adapter);

    if (at == NONE_INDEX) {
        enum cache_room room = twin_room(&pair->twin, bytes);

        expect_equal(pair, answer == CACHE_NEVER, room == CACHE_OVERSIZE);
        expect_equal(pair, answer == CACHE_WAIT, room == CACHE_BLOCKED);
        pair->twin.counts.blocked += room == CACHE_BLOCKED;
        if (answer == CACHE_NEVER || answer == CACHE_WAIT)
            return;
        expect_equal(pair, answer, CACHE_MISS);
        for (uint32_t i = 0; i < count; i++)
            expect_equal(pair, adapter_key(victims[i]), adapter_key(twin_evict(pair)));
        expect_equal(pair, twin_room(&pair->twin, bytes), CACHE_FITS);
        at = pair->twin.count;
        twin_insert(&pair->twin, adapter, bytes, entry);
    } else {
        expect_equal(pair, answer, pair->twin.entries[at].ready ? CACHE_HIT : CACHE_LOADING);
        expect_equal(pair, count, 0);
    }
    twin_touch(&pair->twin, &pair->twin.entries[at]);
    pair->twin.entries[at].pins++;
    if (!pair->quiet)
        return;
    if (answer == CACHE_MISS)
        cache_arrived(pair->cache, entry);
    cache_release(pair->cache, adapter);
    pair->twin.entries[at].ready = true;
    pair->twin.entries[at].pins--;
}

/* A doomed entry goes once nothing needs its room. */
static void go_if_over(struct twin *twin, uint32_t at)
{
    const struct twin_entry *entry = &twin->entries[at];

    if (entry->doomed && entry->ready && entry->pins == 0)
        twin_remove(twin, at);
}

/* Something happens to one entry: its load ends or fails, a pin ends, it is held, used or retired. */
static void do_one(struct pair *pair, uint32_t at)
{
    struct twin_entry *twin = &pair->twin.entries[at];
    uint32_t entry = twin->entry;

    switch (draw_below(&pair->random, 8)) {
    case 0:
    case 1:
        if (twin->ready)
            break;
        if (twin->pins == 0 && draw_below(&pair->random, 2) == 0) {
            cache_failed(pair->cache, entry);
            twin_remove(&pair->twin, at);
            break;
        }
        twin->ready = true;
        expect_equal(pair, cache_arrived(pair->cache, entry), twin->doomed && twin->pins == 0);
        go_if_over(&pair->twin, at);
        break;
    case 2:
    case 3:
    case 4:
        if (twin->pins == 0)
            break;
        twin->pins--;
        expect_equal(pair, cache_unpin(pair->cache, entry), twin->doomed && twin->ready && twin->pins == 0);
        go_if_over(&pair->twin, at);
        break;
    case 5:
        twin->held = true;
        cache_hold(pair->cache, entry);
        break;
    case 6:
        expect_equal(pair, cache_touch(pair->cache, entry), !twin->fresh && twin->ready);
        twin_touch(&pair->twin, twin);
        break;
    default:
        if (twin->doomed || draw_below(&pair->random, 4) != 0)
            break;
        expect_equal(pair, cache_drop(pair->cache, entry), twin->ready && twin->pins == 0);
        twin->doomed = true;
        go_if_over(&pair->twin, at);
    }
}

static void do_hold_begin(struct pair *pair)
{
    cache_hold_begin(pair->cache);
    for (uint32_t i = 0; i < pair->twin.count; i++)
        pair->twin.entries[i].held = false;
}

static void do_evict(struct pair *pair)
{
    uint32_t entry;
    uint64_t bytes;
    adapter_id adapter;

    if (twin_victim_fifo(&pair->twin) == NONE_INDEX)
        return;
    adapter = cache_evict_one(pair->cache, (adapter_id){IDS + 1, 1}, 1, &entry, &bytes);
    expect_equal(pair, bytes, bytes_of(adapter));
    expect_equal(pair, adapter_key(adapter), adapter_key(twin_evict(pair)));
}

static void pair_compare(struct pair *pair)
{
    struct cache_counts counts = cache_counts(pair->cache);
    const struct cache_counts *expected = &pair->twin.counts;

    cache_check(pair->cache);
    expect_equal(pair, cache_count(pair->cache), pair->twin.count);
    expect_equal(pair, cache_used(pair->cache), twin_sum(&pair->twin, is_any));
    expect_equal(pair, cache_pinned(pair->cache), twin_sum(&pair->twin, is_pinned));
    for (uint64_t bytes = 1; bytes <= 101; bytes += 25)
        expect_equal(pair, cache_room(pair->cache, bytes), twin_room(&pair->twin, bytes));
    for (uint32_t i = 0; i < pair->twin.count; i++) {
        const struct twin_entry *twin = &pair->twin.entries[i];

        expect_equal(pair, cache_find(pair->cache, twin->adapter) == twin->entry, !twin->doomed);
        expect_equal(pair, adapter_key(cache_adapter(pair->cache, twin->entry)), adapter_key(twin->adapter));
        expect_equal(pair, cache_pins(pair->cache, twin->entry), twin->pins);
        expect_equal(pair, cache_is_ready(pair->cache, twin->entry), twin->ready);
        expect_equal(pair, cache_entry_bytes(pair->cache, twin->entry), twin->bytes);
    }
    expect_equal(pair, counts.hits, expected->hits);
    expect_equal(pair, counts.misses, expected->misses);
    expect_equal(pair, counts.coalesced, expected->coalesced);
    expect_equal(pair, counts.evictions, expected->evictions);
    expect_equal(pair, counts.blocked, expected->blocked);
    expect_equal(pair, counts.loaded_bytes, expected->loaded_bytes);
    expect_equal(pair, counts.evicted_bytes, expected->evicted_bytes);
}

static void pair_turn(struct pair *pair)
{
    uint64_t what = draw_below(&pair->random, 16);

    if (what < 5 || pair->quiet || pair->twin.count == 0)
        do_acquire(pair);
    else if (what == 5)
        do_hold_begin(pair);
    else if (what == 6)
        do_evict(pair);
    else
        do_one(pair, (uint32_t)draw_below(&pair->random, pair->twin.count));
}

static void run_pair(struct cache_config config, size_t policy, uint32_t ids, bool quiet, uint64_t seed)
{
    struct pair pair = {.random = seed, .seed = seed, .ids = ids, .quiet = quiet};
    size_t bytes;
    void *memory;

    config.evict = policies[policy].policy;
    bytes = cache_bytes(&config);
    memory = malloc(bytes);
    pair.cache = cache_create(memory, bytes, &config);
    pair.twin.config = config;
    pair.twin.victim = policies[policy].victim;
    for (pair.turn = 0; pair.turn < OPERATIONS; pair.turn++) {
        pair_turn(&pair);
        pair_compare(&pair);
    }
    /* A history that evicted nothing would have shown nothing. */
    assert_true(cache_counts(pair.cache).evictions > 100);
    assert_true(cache_counts(pair.cache).hits > 100);
    free(memory);
}

static void each_policy_agrees_with_its_twin_in_bytes(void **state)
{
    (void)state;
    struct cache_config config = {.unit = CACHE_BYTES, .capacity = 100, .entries_max = 12};

    for (size_t i = 0; i < ARRAY_COUNT(policies); i++)
        run_pair(config, i, IDS, false, test_seed(11 + i));
}

static void each_policy_agrees_with_its_twin_in_slots(void **state)
{
    (void)state;
    struct cache_config config = {.unit = CACHE_SLOTS, .capacity = 7, .entries_max = 8};

    for (size_t i = 0; i < ARRAY_COUNT(policies); i++)
        run_pair(config, i, 16, false, test_seed(21 + i));
}

/* entries_max binds before the bytes do. */
static void each_policy_agrees_with_its_twin_when_entries_run_out(void **state)
{
    (void)state;
    struct cache_config config = {.unit = CACHE_BYTES, .capacity = 100, .entries_max = 3};

    for (size_t i = 0; i < ARRAY_COUNT(policies); i++)
        run_pair(config, i, IDS, false, test_seed(31 + i));
}

static void gdsf_agrees_with_its_twin_when_reloads_cost(void **state)
{
    (void)state;
    struct cache_config config = {.unit = CACHE_BYTES, .capacity = 100, .entries_max = 12, .cost_fixed_ns = 5000000,
                                  .cost_ns_per_mib = 41943040};

    run_pair(config, 4, IDS, false, test_seed(41));
    config.cost_fixed_ns = 0;
    run_pair(config, 4, IDS, false, test_seed(42));
    config.unit = CACHE_SLOTS;
    config.capacity = 6;
    run_pair(config, 4, IDS, false, test_seed(43));
}

/* A load of 2^40 ns is worth 2^56: values saturate after 64 uses, and L outgrows 2^62 every few score evictions, so
 * the origin moves hundreds of times. The twin counts in 128 bits and never moves it. */
static void gdsf_agrees_with_its_twin_when_keys_outgrow_their_bits(void **state)
{
    (void)state;
    struct cache_config config = {.unit = CACHE_SLOTS, .capacity = 6, .entries_max = 6,
                                  .cost_fixed_ns = INT64_C(1) << 40};

    run_pair(config, 4, 16, true, test_seed(51));
    run_pair(config, 4, IDS, true, test_seed(52));
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

static void lfu_evicts_the_least_used_and_of_equals_the_older(void **state)
{
    (void)state;
    assert_string_equal(history(&evict_lfu, 3, "abbcaade"), "cd");
    assert_string_equal(history(&evict_lfu, 3, "aabcd"), "b");
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
        cmocka_unit_test(lfu_evicts_the_least_used_and_of_equals_the_older),
        cmocka_unit_test(sieve_spares_what_was_visited_and_keeps_its_hand),
        cmocka_unit_test(gdsf_evicts_the_large_first_and_forgets_old_fame),
        cmocka_unit_test(each_policy_agrees_with_its_twin_in_bytes),
        cmocka_unit_test(each_policy_agrees_with_its_twin_in_slots),
        cmocka_unit_test(each_policy_agrees_with_its_twin_when_entries_run_out),
        cmocka_unit_test(gdsf_agrees_with_its_twin_when_reloads_cost),
        cmocka_unit_test(gdsf_agrees_with_its_twin_when_keys_outgrow_their_bits),
        cmocka_unit_test(gdsf_takes_the_greatest_cost_there_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
