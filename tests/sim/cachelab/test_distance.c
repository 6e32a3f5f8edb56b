#include "support.h"

#include <stdlib.h>

#include "cachelab/distance.h"
#include "cachelab/lru_curve.h"

#define OBJECTS_MAX 6000u

static struct distance *fresh(void)
{
    struct distance *distance = NULL;

    assert_int_equal(distance_create(&distance), STATUS_OK);
    return distance;
}

/* --- the naive twin: objects in the order of their last requests --- */

struct list {
    uint32_t objects[OBJECTS_MAX]; /* the last asked for first */
    uint64_t sizes[OBJECTS_MAX];
    uint32_t count;
};

static struct distance_answer list_request(struct list *list, uint32_t object, uint64_t size_bytes)
{
    struct distance_answer answer = {.bytes = 0, .objects = 0};
    uint32_t at = 0;

    while (at < list->count && list->objects[at] != object)
        answer.bytes += list->sizes[at++];
    answer.objects = at;
    answer.changed = at < list->count && list->sizes[at] != size_bytes;
    if (at == list->count)
        answer = (struct distance_answer){.bytes = UINT64_MAX, .objects = NONE_INDEX};
    list->count += at == list->count;
    memmove(list->objects + 1, list->objects, at * sizeof(*list->objects));
    memmove(list->sizes + 1, list->sizes, at * sizeof(*list->sizes));
    list->objects[0] = object;
    list->sizes[0] = size_bytes;
    return answer;
}

static void list_remove(struct list *list, uint32_t object)
{
    uint32_t at = 0;

    while (list->objects[at] != object)
        at++;
    list->count--;
    memmove(list->objects + at, list->objects + at + 1, (list->count - at) * sizeof(*list->objects));
    memmove(list->sizes + at, list->sizes + at + 1, (list->count - at) * sizeof(*list->sizes));
}

static void assert_same(const struct distance_answer *got, const struct distance_answer *wanted, uint64_t seed, uint64_t request)
{
    if (got->objects != wanted->objects || got->bytes != wanted->bytes || got->changed != wanted->changed)
        fail_msg("seed %llu, request %llu: %u objects, %llu bytes, changed %d; the list has %u, %llu, %d", (unsigned long long)seed,
                 (unsigned long long)request, got->objects, (unsigned long long)got->bytes, got->changed, wanted->objects,
                 (unsigned long long)wanted->bytes, wanted->changed);
}

/* A few objects are asked for most of the time; sizes are mostly an object's own, and often 0. */
static uint64_t draw_request(uint64_t *seed, uint32_t objects, uint32_t *ret_object)
{
    *ret_object = (uint32_t)draw_below(seed, draw_below(seed, 2) == 0 ? objects : objects / 10 + 1);
    return draw_below(seed, 50) == 0 ? draw_below(seed, 100) : *ret_object % 5 * 1000;
}

static void distances_are_those_of_a_list(void **state)
{
    (void)state;
    static struct list list;

    for (uint64_t round = 0; round < 40; round++) {
        const uint64_t first_seed = test_seed(1) + round;
        uint64_t seed = first_seed;
        const uint32_t objects = 1 + (uint32_t)draw_below(&seed, round % 8 == 0 ? OBJECTS_MAX - 1 : 200);
        struct distance *distance = fresh();

        list.count = 0;
        for (uint64_t request = 0; request < 12000;) {
            const uint32_t count = 1 + (uint32_t)draw_below(&seed, DISTANCE_BATCH_MAX);
            uint32_t asked[DISTANCE_BATCH_MAX];
            uint64_t sizes[DISTANCE_BATCH_MAX];
            struct distance_answer answers[DISTANCE_BATCH_MAX];

            for (uint32_t i = 0; i < count; i++)
                sizes[i] = draw_request(&seed, objects, &asked[i]);
            assert_int_equal(distance_requests(distance, asked, sizes, count, answers), STATUS_OK);
            for (uint32_t i = 0; i < count; i++, request++) {
                const struct distance_answer wanted = list_request(&list, asked[i], sizes[i]);

                assert_same(&answers[i], &wanted, first_seed, request);
            }
            if (round % 3 == 0) {
                distance_remove(distance, asked[0]);
                list_remove(&list, asked[0]);
            }
        }
        distance_free(distance);
    }
}

static void distances_in_bytes_end_where_all_objects_outgrow_them(void **state)
{
    (void)state;
    struct distance *distance = fresh();
    const uint32_t objects[] = {0, 1, 0, 2, 0};
    const uint64_t sizes[] = {INT64_MAX - 5, 5, INT64_MAX - 5, 1, INT64_MAX - 5};
    struct distance_answer answers[5];

    assert_int_equal(distance_requests(distance, objects, sizes, 3, answers), STATUS_OK);
    assert_true(distance_bytes_known(distance));
    assert_int_equal(answers[2].bytes, 5);
    assert_int_equal(distance_requests(distance, objects + 3, sizes + 3, 2, answers), STATUS_OK);
    assert_false(distance_bytes_known(distance));
    assert_true(answers[1].bytes == UINT64_MAX);
    assert_int_equal(answers[1].objects, 1);
    distance_free(distance);
}

static void memory_is_proportional_to_objects(void **state)
{
    (void)state;
    enum { OBJECTS = 100000 };
    struct distance *distance = fresh();
    uint64_t seed = 1;
    uint64_t before = 0;

    for (uint32_t request = 0; request < 30 * OBJECTS; request++) {
        const uint32_t object = request < OBJECTS ? request : (uint32_t)draw_below(&seed, OBJECTS);
        const uint64_t size = 1;
        struct distance_answer answer;

        assert_int_equal(distance_requests(distance, &object, &size, 1, &answer), STATUS_OK);
        if (request == 3 * OBJECTS)
            before = distance_memory_bytes(distance);
    }
    assert_in_range(before, 20 * OBJECTS, 40 * OBJECTS);
    assert_int_equal(distance_memory_bytes(distance), before);
    distance_free(distance);
}

/* --- the curve against a simulated cache --- */

/* LRU of `capacity` units: an object larger than it passes by unseen; a copy of another size is removed first. Misses. */
static uint64_t simulate(const uint32_t *objects, const uint64_t *sizes, uint32_t count, uint64_t capacity)
{
    static struct list list;
    uint64_t used = 0;
    uint64_t misses = 0;

    list.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = 0;

        misses++;
        if (sizes[i] > capacity)
            continue;
        while (at < list.count && list.objects[at] != objects[i])
            at++;
        if (at < list.count) {
            misses -= list.sizes[at] == sizes[i];
            used -= list.sizes[at];
            list_remove(&list, objects[i]);
        }
        while (used + sizes[i] > capacity)
            used -= list.sizes[--list.count];
        used += sizes[i];
        list_request(&list, objects[i], sizes[i]);
    }
    return misses;
}

enum { REQUESTS = 20000, OBJECTS = 300 };

struct trace {
    uint32_t objects[REQUESTS];
    uint64_t sizes[REQUESTS];
};

static struct lru_curve *curve_of(const struct trace *trace)
{
    static struct distance_answer answers[REQUESTS];
    struct lru_curve *curve = NULL;
    struct distance *distance = fresh();

    for (uint32_t i = 0; i < REQUESTS; i += 100)
        assert_int_equal(distance_requests(distance, trace->objects + i, trace->sizes + i, 100, answers + i), STATUS_OK);
    assert_int_equal(lru_curve_create(&curve), STATUS_OK);
    assert_int_equal(lru_curve_add(curve, answers, trace->sizes, REQUESTS), STATUS_OK);
    distance_free(distance);
    return curve;
}

/* Sizes of 0 to 99,000; `large`: some of 1 to 3 million; `changing`: they change. */
static struct trace *draw_trace(uint64_t seed, bool large, bool changing)
{
    static struct trace trace;

    for (uint32_t i = 0; i < REQUESTS; i++) {
        const uint32_t object = (uint32_t)(draw_unit(&seed) * draw_unit(&seed) * OBJECTS);

        trace.objects[i] = object;
        trace.sizes[i] = large && object % 7 == 3 ? 1000000 * (1 + object % 3) : object % 100 * 1000;
        if (changing && draw_below(&seed, 20) == 0)
            trace.sizes[i] = 500 * draw_below(&seed, 100);
    }
    return &trace;
}

static void the_curve_is_that_of_simulated_caches_at_every_number_of_objects(void **state)
{
    (void)state;
    struct trace *trace = draw_trace(test_seed(3), true, true);
    struct lru_curve *curve = curve_of(trace);
    uint64_t misses[OBJECTS + 2];

    for (uint32_t i = 0; i < REQUESTS; i++)
        trace->sizes[i] = 1;
    lru_curve_misses(curve, misses, ARRAY_COUNT(misses));
    assert_int_equal(misses[0], REQUESTS);
    for (uint32_t objects = 1; objects < ARRAY_COUNT(misses); objects++)
        if (misses[objects] != simulate(trace->objects, trace->sizes, REQUESTS, objects))
            fail_msg("%u objects: %llu misses, a cache has %llu", objects, (unsigned long long)misses[objects],
                     (unsigned long long)simulate(trace->objects, trace->sizes, REQUESTS, objects));
    assert_int_equal(misses[OBJECTS + 1], lru_curve_first(curve));
    assert_int_equal(lru_curve_requests(curve), REQUESTS);
    lru_curve_free(curve);
}

static const uint64_t capacities[] = {1, 64, 4096, 96u << 10, 97u << 10, 127u << 10, 1u << 20, 3u << 20, 5u << 20, 100u << 17, 1u << 30};

struct differences {
    double least;
    double most;
};

/* Of the miss ratios: the curve's less that of simulated caches of at least `from` bytes. */
static struct differences differences(const struct trace *trace, uint64_t from)
{
    struct lru_curve *curve = curve_of(trace);
    struct differences found = {0, 0};

    for (size_t i = 0; i < ARRAY_COUNT(capacities); i++) {
        const double simulated = (double)simulate(trace->objects, trace->sizes, REQUESTS, capacities[i]);
        const double more = ((double)lru_curve_misses_bytes(curve, capacities[i]) - simulated) / REQUESTS;

        if (capacities[i] >= from) {
            found.least = more < found.least ? more : found.least;
            found.most = more > found.most ? more : found.most;
        }
    }
    lru_curve_free(curve);
    return found;
}

static void by_bytes_it_is_exact_from_the_largest_object_on(void **state)
{
    (void)state;
    const struct differences from_largest = differences(draw_trace(test_seed(4), true, false), 3000000);
    const struct differences all = differences(draw_trace(test_seed(4), true, false), 1);

    print_message("from the largest on %g to %g, everywhere %g to %g\n", from_largest.least, from_largest.most, all.least, all.most);
    assert_true(from_largest.least == 0 && from_largest.most == 0);
    /* What a small cache never takes pushes out nothing there, and here it does. */
    assert_true(all.least == 0 && all.most > 0.01 && all.most < 0.1);
}

static void by_bytes_it_is_a_lower_bound_where_sizes_change(void **state)
{
    (void)state;
    const struct differences found = differences(draw_trace(test_seed(4), false, true), 100u << 10);

    print_message("one request in 20 with another size: %g to %g\n", found.least, found.most);
    /* Where a copy shrinks, the run would take in the next object, and a cache has forgotten it. */
    assert_true(found.most == 0 && found.least < 0 && found.least > -0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_are_those_of_a_list),
        cmocka_unit_test(distances_in_bytes_end_where_all_objects_outgrow_them),
        cmocka_unit_test(memory_is_proportional_to_objects),
        cmocka_unit_test(the_curve_is_that_of_simulated_caches_at_every_number_of_objects),
        cmocka_unit_test(by_bytes_it_is_exact_from_the_largest_object_on),
        cmocka_unit_test(by_bytes_it_is_a_lower_bound_where_sizes_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
