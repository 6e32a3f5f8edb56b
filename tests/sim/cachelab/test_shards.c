#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/histogram.h"
#include "cachelab/intern.h"
#include "cachelab/lru_curve.h"
#include "cachelab/shards.h"
#include "sim/cachelab/zipf_trace.h"

static struct shards *shards_of(const struct zipf_trace *trace, const struct shards_config *config)
{
    struct shards *shards = NULL;

    assert_int_equal(shards_create(config, &shards), STATUS_OK);
    for (uint32_t i = 0; i < trace->count; i += 200)
        assert_int_equal(shards_add(shards, trace->ids + i, trace->sizes + i, min_u32(200, trace->count - i)), STATUS_OK);
    return shards;
}

static struct lru_curve *curve_of(const struct zipf_trace *trace)
{
    struct intern *intern = NULL;
    struct distance *distance = NULL;
    struct lru_curve *curve = NULL;

    assert_int_equal(intern_create(&intern), STATUS_OK);
    assert_int_equal(distance_create(&distance), STATUS_OK);
    assert_int_equal(lru_curve_create(&curve), STATUS_OK);
    for (uint32_t i = 0; i < trace->count; i += 200) {
        const uint32_t count = min_u32(200, trace->count - i);
        uint32_t numbers[200];
        struct distance_answer answers[200];

        assert_int_equal(intern_ids(intern, trace->ids + i, count, numbers), STATUS_OK);
        assert_int_equal(distance_requests(distance, numbers, trace->sizes + i, count, answers), STATUS_OK);
        assert_int_equal(lru_curve_add(curve, answers, trace->sizes + i, count), STATUS_OK);
    }
    distance_free(distance);
    intern_free(intern);
    return curve;
}

/* A sample of everything is the trace: equal wherever a bucket begins. */
static void assert_exact(const struct zipf_trace *trace, const struct shards_config *config)
{
    struct shards *shards = shards_of(trace, config);
    struct lru_curve *curve = curve_of(trace);
    double *ratios = calloc(trace->objects + 1, sizeof(*ratios));
    uint64_t *misses = calloc(trace->objects + 1, sizeof(*misses));

    shards_miss_ratios(shards, ratios, trace->objects + 1);
    lru_curve_misses(curve, misses, trace->objects + 1);
    for (uint32_t i = 0; i <= trace->objects; i++)
        if (histogram_bucket_low(histogram_bucket(i)) == i && fabs(ratios[i] - (double)misses[i] / trace->count) > 1e-12)
            fail_msg("%u objects: %.9f, not %.9f", i, ratios[i], (double)misses[i] / trace->count);
    for (int power = 20; power < 45; power++) {
        const double wanted = (double)lru_curve_misses_bytes(curve, UINT64_C(1) << power) / trace->count;

        if (fabs(shards_miss_ratio_bytes(shards, UINT64_C(1) << power) - wanted) > 1e-12)
            fail_msg("2^%d bytes: %.9f, not %.9f", power, shards_miss_ratio_bytes(shards, UINT64_C(1) << power), wanted);
    }
    assert_true(shards_rate(shards) == 1);
    assert_int_equal(shards_requests(shards), trace->count);
    free(ratios);
    free(misses);
    lru_curve_free(curve);
    shards_free(shards);
}

static void a_sample_of_everything_is_exact(void **state)
{
    (void)state;
    struct zipf_trace trace = zipf_trace_create(3000, 50000, 0.9, test_seed(1), true);

    assert_exact(&trace, &(struct shards_config){.rate = 1, .seed = 1});
    assert_exact(&trace, &(struct shards_config){.rate = 1, .seed = 1, .objects_max = 3000});
    zipf_trace_free(&trace);
}

/* --- the twin: the paper's steps as they are written, with lists --- */

struct twin {
    uint64_t ids[512]; /* the last asked for first */
    uint32_t count;
    double threshold;
    double at[HISTOGRAM_BUCKETS];
    double weight; /* of all that were counted */
};

static uint32_t hash_of(uint64_t id, uint64_t seed) { return (uint32_t)(hash_mix(id ^ hash_mix(seed)) % SHARDS_STEPS); }

static void twin_shrink(struct twin *twin, uint64_t seed)
{
    uint32_t largest = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < twin->count; i++)
        largest = max_u32(largest, hash_of(twin->ids[i], seed));
    for (uint32_t i = 0; i < twin->count; i++)
        if (hash_of(twin->ids[i], seed) < largest)
            twin->ids[kept++] = twin->ids[i];
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        twin->at[i] *= largest / twin->threshold;
    twin->weight *= largest / twin->threshold;
    twin->threshold = largest;
    twin->count = kept;
}

static void twin_request(struct twin *twin, uint64_t id, uint64_t seed, uint32_t objects_max)
{
    uint32_t at = 0;

    if (hash_of(id, seed) >= twin->threshold)
        return;
    while (at < twin->count && twin->ids[at] != id)
        at++;
    twin->weight += 1;
    if (at < twin->count)
        twin->at[histogram_bucket((uint64_t)(at / (twin->threshold / SHARDS_STEPS)))] += 1;
    twin->count += at == twin->count;
    memmove(twin->ids + 1, twin->ids, at * sizeof(*twin->ids));
    twin->ids[0] = id;
    if (twin->count > objects_max)
        twin_shrink(twin, seed);
}

static void a_sample_of_fixed_size_follows_the_paper_step_by_step(void **state)
{
    (void)state;
    enum { OBJECTS = 4000, MOST = 150 };
    static struct twin twin;
    const uint64_t seed = test_seed(2);
    struct zipf_trace trace = zipf_trace_create(OBJECTS, 60000, 0.7, seed, true);
    struct shards *shards = shards_of(&trace, &(struct shards_config){.rate = 1, .seed = seed, .objects_max = MOST});
    static double ratios[OBJECTS];
    double wanted_requests;
    double misses;

    twin.threshold = SHARDS_STEPS;
    for (uint32_t i = 0; i < trace.count; i++)
        twin_request(&twin, trace.ids[i], seed, MOST);
    assert_true(shards_rate(shards) == twin.threshold / SHARDS_STEPS && twin.threshold < SHARDS_STEPS / 10);
    assert_int_equal(shards_objects(shards), twin.count);
    /* SHARDS_adj: what the sample has too few goes to the first bucket. */
    wanted_requests = trace.count * twin.threshold / SHARDS_STEPS;
    twin.at[0] += wanted_requests - twin.weight;
    misses = wanted_requests;
    shards_miss_ratios(shards, ratios, OBJECTS);
    for (uint32_t bucket = 0; histogram_bucket_low(bucket + 1) < OBJECTS; bucket++) {
        const uint64_t objects = histogram_bucket_low(bucket + 1);

        misses -= twin.at[bucket];
        if (fabs(ratios[objects] - fmin(1, misses / wanted_requests)) > 1e-9)
            fail_msg("%llu objects: %.12f, not %.12f", (unsigned long long)objects, ratios[objects], misses / wanted_requests);
    }
    shards_free(shards);
    zipf_trace_free(&trace);
}

/* --- how wrong it is --- */

static double mean_error(const struct zipf_trace *trace, const struct shards_config *config)
{
    struct shards *shards = shards_of(trace, config);
    struct lru_curve *curve = curve_of(trace);
    double *ratios = calloc(trace->objects, sizeof(*ratios));
    uint64_t *misses = calloc(trace->objects, sizeof(*misses));
    double sum = 0;

    shards_miss_ratios(shards, ratios, trace->objects);
    lru_curve_misses(curve, misses, trace->objects);
    for (uint32_t i = 0; i < trace->objects; i++)
        sum += fabs(ratios[i] - (double)misses[i] / trace->count);
    free(ratios);
    free(misses);
    lru_curve_free(curve);
    shards_free(shards);
    return sum / trace->objects;
}

static void a_sample_errs_little_and_less_the_larger_it_is(void **state)
{
    (void)state;
    struct zipf_trace trace = zipf_trace_create(50000, 400000, 1, test_seed(3), true);
    double errors[3] = {0};
    double of_fixed_size = 0;

    for (uint64_t seed = 1; seed <= 8; seed++) {
        errors[0] += mean_error(&trace, &(struct shards_config){.rate = 0.003, .seed = seed}) / 8;
        errors[1] += mean_error(&trace, &(struct shards_config){.rate = 0.03, .seed = seed}) / 8;
        errors[2] += mean_error(&trace, &(struct shards_config){.rate = 0.3, .seed = seed}) / 8;
        of_fixed_size += mean_error(&trace, &(struct shards_config){.rate = 1, .seed = seed, .objects_max = 1000}) / 8;
    }
    print_message("mean error at rates 0.003, 0.03, 0.3: %.4f %.4f %.4f; 1,000 objects: %.4f\n", errors[0], errors[1], errors[2], of_fixed_size);
    assert_true(errors[0] > errors[1] && errors[1] > errors[2]);
    assert_true(errors[1] < 0.01 && errors[2] < 0.003 && of_fixed_size < 0.015);
    zipf_trace_free(&trace);
}

static void a_sample_of_fixed_size_stays_in_its_memory(void **state)
{
    (void)state;
    struct shards *shards = NULL;
    uint64_t bytes = 0;

    assert_int_equal(shards_create(&(struct shards_config){.rate = 1, .objects_max = 500, .seed = 1}, &shards), STATUS_OK);
    for (uint64_t id = 0; id < 400000; id++) {
        const uint64_t size = 1;

        assert_int_equal(shards_add(shards, &id, &size, 1), STATUS_OK);
        if (id == 20000)
            bytes = shards_memory_bytes(shards);
    }
    assert_int_equal(shards_memory_bytes(shards), bytes);
    assert_in_range(shards_objects(shards), 490, 500);
    /* 500 of 400,000 ids. */
    assert_true(fabs(shards_rate(shards) * 400000 - 500) < 100);
    shards_free(shards);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_of_everything_is_exact),
        cmocka_unit_test(a_sample_of_fixed_size_follows_the_paper_step_by_step),
        cmocka_unit_test(a_sample_errs_little_and_less_the_larger_it_is),
        cmocka_unit_test(a_sample_of_fixed_size_stays_in_its_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
