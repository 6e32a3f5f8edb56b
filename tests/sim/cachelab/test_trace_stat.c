#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "cachelab/trace_stat.h"
#include "sim/cachelab/zipf_trace.h"

static const struct shards_config everything = {.rate = 1, .seed = 1};

static struct trace_stat *stat_of(const struct object_request *requests, uint32_t count, const struct trace_facts **ret_facts)
{
    struct trace_stat *stat = NULL;

    assert_int_equal(trace_stat_create(&everything, &stat), STATUS_OK);
    for (uint32_t i = 0; i < count; i += TRACE_STAT_BATCH_MAX)
        assert_int_equal(trace_stat_add(stat, requests + i, min_u32(TRACE_STAT_BATCH_MAX, count - i)), STATUS_OK);
    assert_int_equal(trace_stat_facts(stat, ret_facts), STATUS_OK);
    return stat;
}

static void a_trace_of_six_requests_is_told_by_hand(void **state)
{
    (void)state;
    const struct object_request requests[] = {
        {.id = 7, .size_bytes = 10, .at_ns = 5 * NS_PER_S},  {.id = 8, .size_bytes = 0, .at_ns = 6 * NS_PER_S},
        {.id = 9, .size_bytes = 30, .at_ns = 7 * NS_PER_S},  {.id = 7, .size_bytes = 10, .at_ns = 9 * NS_PER_S},
        {.id = 9, .size_bytes = 40, .at_ns = 3 * NS_PER_S},  {.id = 9, .size_bytes = 40, .at_ns = 12 * NS_PER_S},
    };
    const struct trace_facts *facts;
    struct trace_stat *stat = stat_of(requests, ARRAY_COUNT(requests), &facts);

    assert_int_equal(facts->requests, 6);
    assert_int_equal(facts->objects, 3);
    assert_int_equal(facts->one_hit_objects, 1);
    assert_true(facts->from_ns == 3 * NS_PER_S && facts->until_ns == 12 * NS_PER_S);
    assert_true(facts->requested_bytes == 130 && facts->objects_bytes == 50);
    assert_int_equal(facts->largest_bytes, 40);
    assert_int_equal(facts->size_changes, 1);
    assert_int_equal(facts->object_sizes.count, 3);
    assert_int_equal(facts->object_sizes.min, 0);
    /* 7 after three requests and two others; 9 after two and one, and after one and none. */
    assert_true(facts->reuse[REUSE_REQUESTS].count == 3 && facts->reuse[REUSE_REQUESTS].sum == 6);
    assert_true(facts->reuse[REUSE_OBJECTS].sum == 3 && facts->reuse[REUSE_OBJECTS].max == 2);
    assert_true(facts->reuse[REUSE_BYTES].sum == 30 + 10 && facts->reuse[REUSE_BYTES].max == 30);
    /* 4 s; back by 4; 9 s. */
    assert_true(facts->reuse[REUSE_TIME].sum == 13 * NS_PER_S && facts->reuse[REUSE_TIME].min == 0);
    assert_true(facts->counts[0] == 3 && facts->counts[1] == 2 && facts->counts[2] == 1);
    assert_true(facts->lru_misses[0] == 6 && facts->lru_misses[1] == 5 && facts->lru_misses[2] == 4 && facts->lru_misses[3] == 3);
    assert_true(facts->bytes_known);
    assert_int_equal(lru_curve_misses_bytes(facts->curve, 1 << 20), 4); /* three first, one in another size */
    assert_true(facts->shards_most_error == 0);
    assert_int_equal(facts->windows_count, 1);
    assert_true(facts->windows[0].objects == 3 && facts->windows[0].new_objects == 3 && facts->windows[0].bytes == 40);
    trace_stat_free(stat);
}

static void a_trace_of_nothing_has_no_number_that_is_none(void **state)
{
    (void)state;
    const struct trace_facts *facts;
    struct trace_stat *stat = stat_of(NULL, 0, &facts);

    assert_int_equal(facts->objects, 0);
    assert_false(facts->has_zipf);
    assert_true(facts->shards_mean_error == 0 && facts->shards_most_error == 0);
    trace_stat_free(stat);
}

static void one_object_of_the_largest_size_is_no_overflow(void **state)
{
    (void)state;
    struct object_request requests[1000];
    const struct trace_facts *facts;
    struct trace_stat *stat;

    for (uint32_t i = 0; i < ARRAY_COUNT(requests); i++)
        requests[i] = (struct object_request){.id = 1, .size_bytes = OBJECT_SIZE_MAX, .at_ns = i};
    stat = stat_of(requests, ARRAY_COUNT(requests), &facts);
    assert_true(facts->requested_bytes == (uint128)1000 * OBJECT_SIZE_MAX);
    assert_true(facts->bytes_known && !facts->has_zipf);
    assert_int_equal(facts->lru_misses[1], 1);
    trace_stat_free(stat);
    requests[500].id = 2;
    stat = stat_of(requests, ARRAY_COUNT(requests), &facts);
    assert_false(facts->bytes_known);
    assert_int_equal(facts->lru_misses[1], 3);
    assert_int_equal(facts->lru_misses[2], 2);
    trace_stat_free(stat);
}

/* Che, Tung, Wang 2002: an object is in an LRU cache of C if it was asked for within T, where T is such that C are. */
static double che(const struct zipf_trace *trace, double alpha, double objects)
{
    double sum = 0;
    double low = 0;
    double high = 1e12;
    double misses = 0;

    for (uint32_t i = 1; i <= trace->objects; i++)
        sum += pow(i, -alpha);
    for (int step = 0; step < 200; step++) {
        const double requests = (low + high) / 2;
        double inside = 0;

        for (uint32_t i = 1; i <= trace->objects; i++)
            inside += 1 - exp(-pow(i, -alpha) / sum * requests);
        *(inside < objects ? &low : &high) = requests;
    }
    for (uint32_t i = 1; i <= trace->objects; i++)
        misses += pow(i, -alpha) / sum * exp(-pow(i, -alpha) / sum * low);
    return misses;
}

static void a_zipf_trace_has_its_exponent_and_ches_miss_ratios(void **state)
{
    (void)state;
    enum { REQUESTS = 1000000 };
    struct zipf_trace trace = zipf_trace_create(2000, REQUESTS, 0.9, test_seed(6), true);
    struct object_request *requests = calloc(REQUESTS, sizeof(*requests));
    const struct trace_facts *facts;
    struct trace_stat *stat;

    for (uint32_t i = 0; i < REQUESTS; i++)
        requests[i] = (struct object_request){.id = trace.ids[i], .size_bytes = trace.sizes[i], .at_ns = i};
    stat = stat_of(requests, REQUESTS, &facts);
    assert_true(facts->has_zipf && fabs(facts->zipf.alpha - 0.9) < 4 * facts->zipf.error);
    for (uint32_t objects = 50; objects <= 800; objects *= 4) {
        const double ratio = (double)facts->lru_misses[objects] / REQUESTS;
        const double wanted = che(&trace, 0.9, objects);

        print_message("%u objects: %.4f, Che %.4f\n", objects, ratio, wanted);
        /* The cache begins empty: so many requests more miss at most. */
        if (ratio < wanted - 0.002 || ratio > wanted + 0.002 + (double)objects / REQUESTS)
            fail_msg("seed %llu", (unsigned long long)test_seed(6));
    }
    trace_stat_free(stat);
    free(requests);
    zipf_trace_free(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_of_six_requests_is_told_by_hand),
        cmocka_unit_test(a_trace_of_nothing_has_no_number_that_is_none),
        cmocka_unit_test(one_object_of_the_largest_size_is_no_overflow),
        cmocka_unit_test(a_zipf_trace_has_its_exponent_and_ches_miss_ratios),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
