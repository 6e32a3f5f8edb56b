/* The bound on hits: by hand, above the best that there is on tiny traces, and above what policies reach on longer ones. */
#include "cachelab/bound.h"

#include <stdlib.h>

#include "cachelab/cell.h"
#include "support.h"

enum { REQUESTS_MAX = 1024, OBJECTS = 40, SETS = 1 << 5 };

struct trace {
    uint32_t count;
    uint32_t objects[REQUESTS_MAX];
    uint64_t sizes[REQUESTS_MAX];
};

static struct bound_answer bound_of(const struct trace *trace, bool by_bytes, uint64_t capacity, uint64_t warmup)
{
    struct bound_answer answer;
    struct bound *bound;

    assert_int_equal(bound_create(warmup, &bound), STATUS_OK);
    assert_int_equal(bound_requests(bound, trace->objects, trace->sizes, trace->count / 2), STATUS_OK);
    assert_int_equal(bound_requests(bound, trace->objects + trace->count / 2, trace->sizes + trace->count / 2,
                                    trace->count - trace->count / 2), STATUS_OK);
    assert_int_equal(bound_answers(bound, by_bytes, &capacity, 1, &answer), STATUS_OK);
    bound_free(bound);
    return answer;
}

/* --- by hand --- */

static void spans_are_taken_cheapest_first_until_the_room_is_spent(void **state)
{
    /* Spans: b 1 request of 5 bytes; a 4 of 2; c 3 of 3. The areas are 5, 8 and 9; at each of 6 steps there is the capacity. */
    const struct trace trace = {.count = 7, .objects = {0, 1, 1, 2, 0, 3, 2}, .sizes = {2, 5, 5, 3, 2, 9, 3}};

    (void)state;
    assert_int_equal(bound_of(&trace, true, 2, 0).hits, 1);  /* 12: b and c are larger than the cache */
    assert_int_equal(bound_of(&trace, true, 3, 0).hits, 2);  /* 18: a and c, 17 */
    assert_int_equal(bound_of(&trace, true, 5, 0).hits, 3);  /* 30: all, 22 */
    assert_int_equal(bound_of(&trace, true, 5, 5).hits, 1);  /* c's is the only one after the fifth request */
    assert_int_equal(bound_of(&trace, true, 0, 0).hits, 0);
    assert_true(bound_of(&trace, true, 2, 0).hit_bytes == 2);
    assert_true(bound_of(&trace, true, 3, 0).hit_bytes == 5);
    assert_int_equal(bound_of(&trace, false, 1, 0).hits, 2); /* 6: 1 and 3 */
    assert_int_equal(bound_of(&trace, false, 2, 0).hits, 3); /* 12: 8 */
    assert_true(bound_of(&trace, false, 1, 0).hit_bytes == 9); /* 5 for 1, 3 for 3, and half of 2 for 2 of 4 */
    assert_true(bound_of(&trace, false, 2, 0).hit_bytes == 10);
}

static void a_part_of_an_object_counts_its_bytes(void **state)
{
    /* Spans of 2 requests, of 4 bytes each: 16, and there is room for 12 (3 steps of 4 bytes). */
    const struct trace trace = {.count = 4, .objects = {0, 1, 0, 1}, .sizes = {4, 4, 4, 4}};

    (void)state;
    assert_int_equal(bound_of(&trace, true, 4, 0).hits, 1);
    assert_true(bound_of(&trace, true, 4, 0).hit_bytes == 6);
}

static void another_size_is_another_object_and_nothing_weighs_nothing(void **state)
{
    const struct trace changed = {.count = 3, .objects = {0, 0, 0}, .sizes = {4, 5, 5}};
    const struct trace empty = {.count = 3, .objects = {0, 1, 0}, .sizes = {0, 9, 0}};
    const struct trace large = {.count = 2, .objects = {0, 0}, .sizes = {INT64_MAX, INT64_MAX}};
    const struct trace none = {.count = 0};

    (void)state;
    assert_int_equal(bound_of(&changed, true, 100, 0).hits, 1);
    assert_int_equal(bound_of(&changed, false, 1, 0).hits, 2);
    assert_int_equal(bound_of(&empty, true, 0, 0).hits, 1);
    assert_int_equal(bound_of(&large, true, INT64_MAX, 0).hits, 1);
    assert_true(bound_of(&large, true, INT64_MAX, 0).hit_bytes == INT64_MAX);
    assert_int_equal(bound_of(&large, true, INT64_MAX - 1, 0).hits, 0);
    assert_int_equal(bound_of(&none, true, 10, 0).hits, 0);
}

/* --- the best there is --- */

static uint64_t size_of_set(uint32_t set, const uint64_t *sizes)
{
    uint64_t size = 0;

    for (uint32_t object = 0; set >> object != 0; object++)
        size += (set >> object & 1) != 0 ? sizes[object] : 0;
    return size;
}

/* Over all that a cache may hold after each request: a subset of what it held, and the object; or not it. */
static uint64_t best_of(const struct trace *trace, const uint64_t *sizes, uint64_t capacity, bool bytes)
{
    int64_t best[SETS], next[SETS];
    int64_t most = 0;

    for (uint32_t set = 0; set < SETS; set++)
        best[set] = set == 0 ? 0 : INT64_MIN;
    for (uint32_t i = 0; i < trace->count; i++) {
        const uint32_t object = UINT32_C(1) << trace->objects[i];

        for (uint32_t set = 0; set < SETS; set++)
            next[set] = INT64_MIN;
        for (uint32_t held = 0; held < SETS; held++)
            for (uint32_t set = 0; best[held] >= 0 && set < SETS; set++)
                if ((set & ~(held | object)) == 0 && size_of_set(set, sizes) <= capacity)
                    next[set] = max_i64(next[set], best[held] + ((held & object) == 0 ? 0 : bytes ? (int64_t)trace->sizes[i] : 1));
        memcpy(best, next, sizeof(best));
    }
    for (uint32_t set = 0; set < SETS; set++)
        most = max_i64(most, best[set]);
    return (uint64_t)most;
}

/* Hits of a policy that runs over it all. */
static uint64_t hits_of(const struct trace *trace, const struct evict_policy *evict, bool by_bytes, uint64_t capacity)
{
    static struct lab_block block;
    struct lab_policy policy = {.evict = evict};
    struct lab_size size = {.unit = by_bytes ? LAB_BYTES : LAB_OBJECTS, .capacity = capacity};
    struct lab_cell_setup setup = {.policy = &policy, .size = &size, .seed = 1};
    struct lab_counts counts;
    struct lab_cell *cell;

    block = (struct lab_block){.count = trace->count, .objects_count = OBJECTS};
    for (uint32_t i = trace->count; i-- > 0;) {
        block.objects[i] = trace->objects[i];
        block.sizes_bytes[i] = trace->sizes[i];
        block.bytes += trace->sizes[i];
        block.next[i] = NONE_USE;
        for (uint32_t j = i + 1; j < trace->count && block.next[i] == NONE_USE; j++)
            if (trace->objects[j] == trace->objects[i])
                block.next[i] = j;
    }
    assert_int_equal(lab_cell_create(&setup, &cell), STATUS_OK);
    assert_int_equal(lab_cell_requests(cell, &block), STATUS_OK);
    counts = lab_cell_counts(cell);
    lab_cell_free(cell);
    return counts.requests - lab_misses(&counts);
}

static void the_best_cache_is_below_the_bound_and_above_each_policy(void **state)
{
    uint64_t random = test_seed(8);
    uint32_t reached = 0;

    (void)state;
    for (uint32_t round = 0; round < 400; round++) {
        struct trace trace = {.count = 14};
        const uint64_t capacity = 1 + draw_below(&random, 8);
        uint64_t sizes[5];
        struct bound_answer bound;
        uint64_t best;

        for (uint32_t i = 0; i < 5; i++)
            sizes[i] = round % 4 == 0 ? 1 : draw_below(&random, 6);
        for (uint32_t i = 0; i < trace.count; i++) {
            trace.objects[i] = (uint32_t)draw_below(&random, 5);
            trace.sizes[i] = sizes[trace.objects[i]];
        }
        bound = bound_of(&trace, true, capacity, 0);
        best = best_of(&trace, sizes, capacity, false);
        if (best > bound.hits || best_of(&trace, sizes, capacity, true) > bound.hit_bytes)
            fail_msg("round %u: the best cache has %llu hits, the bound is %llu", round, (unsigned long long)best, (unsigned long long)bound.hits);
        assert_true(hits_of(&trace, &evict_belady_size, true, capacity) <= best);
        assert_true(hits_of(&trace, &evict_lru, true, capacity) <= best);
        if (round % 4 == 0) /* MIN lets nothing pass by, which costs it a hit now and then */
            assert_true(hits_of(&trace, &evict_belady, false, capacity) <= best);
        reached += best == bound.hits;
    }
    assert_in_range(reached, 200, 399); /* near, and not always */
}

static void policies_are_below_the_bound(void **state)
{
    uint64_t random = test_seed(9);

    (void)state;
    for (uint32_t round = 0; round < 40; round++) {
        static struct trace trace;
        const uint64_t capacity = 20 + draw_below(&random, 300);
        const bool by_bytes = round % 2 == 0;
        uint64_t bound, belady, lru;

        trace.count = REQUESTS_MAX;
        for (uint32_t i = 0; i < REQUESTS_MAX; i++) {
            trace.objects[i] = (uint32_t)draw_below(&random, 1 + draw_below(&random, OBJECTS));
            trace.sizes[i] = 1 + trace.objects[i] * 7 % 50;
        }
        bound = bound_of(&trace, by_bytes, by_bytes ? capacity : capacity / 20, 0).hits;
        belady = hits_of(&trace, by_bytes ? &evict_belady_size : &evict_belady, by_bytes, by_bytes ? capacity : capacity / 20);
        lru = hits_of(&trace, &evict_lru, by_bytes, by_bytes ? capacity : capacity / 20);
        if (bound < belady || belady < lru)
            fail_msg("round %u: bound %llu, belady %llu, lru %llu", round, (unsigned long long)bound, (unsigned long long)belady,
                     (unsigned long long)lru);
    }
}

static void in_slots_bytes_have_a_bound_of_their_own(void **state)
{
    const uint64_t slots[5] = {1, 1, 1, 1, 1};
    uint64_t random = test_seed(10);
    uint32_t reached = 0;

    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        struct trace trace = {.count = 14};
        const uint64_t capacity = 1 + draw_below(&random, 3);
        struct bound_answer bound;
        uint64_t bytes;

        for (uint32_t i = 0; i < trace.count; i++) {
            trace.objects[i] = (uint32_t)draw_below(&random, 5);
            trace.sizes[i] = round % 2 == 0 ? 1 + 3 * trace.objects[i] : draw_below(&random, 9); /* in slots sizes may change */
        }
        bound = bound_of(&trace, false, capacity, 0);
        bytes = best_of(&trace, slots, capacity, true);
        if (bytes > bound.hit_bytes)
            fail_msg("round %u: the best cache hits %llu bytes, the bound is %llu", round, (unsigned long long)bytes,
                     (unsigned long long)bound.hit_bytes);
        reached += bytes == bound.hit_bytes;
    }
    assert_in_range(reached, 10, 199); /* not always: rarely do whole objects fill all the room */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_slots_bytes_have_a_bound_of_their_own),
        cmocka_unit_test(spans_are_taken_cheapest_first_until_the_room_is_spent),
        cmocka_unit_test(a_part_of_an_object_counts_its_bytes),
        cmocka_unit_test(another_size_is_another_object_and_nothing_weighs_nothing),
        cmocka_unit_test(the_best_cache_is_below_the_bound_and_above_each_policy),
        cmocka_unit_test(policies_are_below_the_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
