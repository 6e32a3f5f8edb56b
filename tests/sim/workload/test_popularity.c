#include "support.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>

#include "sim/workload/scene.h"
#include "workload/popularity.h"
#include "workload/rng.h"

static void assert_near(const char *what, double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%s is %.9g, not %.9g within %.3g", what, got, wanted, tolerance);
}

/* Chi-square of draws against popularity_share(), cells of fewer than ten expected pooled with the next. */
static void assert_draws_follow_shares(const struct popularity *popularity, uint64_t seed)
{
    enum { DRAWS = 200000 };
    uint32_t *counts = calloc(popularity->count, sizeof(*counts));
    double chi = 0;
    double expected = 0;
    double observed = 0;
    uint32_t cells = 0;
    double shares = 0;
    double q;

    for (uint32_t i = 0; i < DRAWS; i++)
        counts[popularity_rank(popularity, draw_unit(&seed), 0)]++;
    for (uint32_t rank = 0; rank < popularity->count; rank++) {
        shares += popularity_share(popularity, rank);
        expected += DRAWS * popularity_share(popularity, rank);
        observed += counts[rank];
        if (expected < 10 && rank + 1 < popularity->count)
            continue;
        chi += expected > 0 ? (observed - expected) * (observed - expected) / expected : observed;
        cells++;
        expected = 0;
        observed = 0;
    }
    free(counts);
    assert_near("sum of shares", shares, 1, 1e-9);
    q = gsl_cdf_chisq_Q(chi, cells - 1);
    if (q < 1e-4)
        fail_msg("chi-square %g over %u cells: %g (law %u, alpha %g)", chi, cells, q, popularity->law,
                 popularity->alpha);
}

/* S-LoRA's generator, n = 200: the known shares of the top adapter and of the top ten. */
static void power_law_is_the_one_of_numpy(void **state)
{
    (void)state;
    const struct {
        double alpha;
        double top;
        double ten;
    } rows[] = {{0.1, 0.589, 0.741}, {0.3, 0.204, 0.407}, {0.6, 0.042, 0.166}, {1, 0.005, 0.050}};

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct popularity popularity;
        uint64_t random = test_seed(21);
        uint32_t top = 0;
        uint32_t ten = 0;

        assert_int_equal(popularity_open(&popularity, KEY_ADAPTER_POWER, rows[i].alpha, 200), STATUS_OK);
        for (uint32_t draws = 0; draws < 400000; draws++) {
            uint32_t rank = popularity_rank(&popularity, draw_unit(&random), 0);

            top += rank == 0;
            ten += rank < 10;
        }
        assert_near("share of the top", top / 4e5, rows[i].top, 0.003);
        assert_near("share of ten", ten / 4e5, rows[i].ten, 0.003);
        assert_draws_follow_shares(&popularity, test_seed(22));
        popularity_close(&popularity);
    }
}

static void power_law_above_one_still_counts_from_the_most_popular(void **state)
{
    (void)state;
    struct popularity popularity;

    assert_int_equal(popularity_open(&popularity, KEY_ADAPTER_POWER, 3, 50), STATUS_OK);
    assert_true(popularity_share(&popularity, 0) > popularity_share(&popularity, 1));
    assert_near("share of the top", popularity_share(&popularity, 0), 1 - pow(0.98, 3), 1e-12);
    assert_draws_follow_shares(&popularity, test_seed(23));
    popularity_close(&popularity);
}

static void zipf_draws_follow_their_shares(void **state)
{
    (void)state;
    const double alphas[] = {0.001, 0.5, 1, 1.5, 10};

    for (size_t i = 0; i < ARRAY_COUNT(alphas); i++) {
        struct popularity popularity;

        assert_int_equal(popularity_open(&popularity, KEY_ADAPTER_ZIPF, alphas[i], 1000), STATUS_OK);
        assert_near("ratio of the first two", popularity_share(&popularity, 0) / popularity_share(&popularity, 1),
                    pow(2, alphas[i]), 1e-9);
        assert_draws_follow_shares(&popularity, test_seed(24));
        popularity_close(&popularity);
    }
}

static void weights_are_followed_and_zero_is_never_drawn(void **state)
{
    (void)state;
    const double weights[] = {50, 30, 30, 7, 1, 0, 0};
    struct popularity popularity;
    uint64_t random = test_seed(25);

    assert_int_equal(popularity_open_weights(&popularity, weights, ARRAY_COUNT(weights)), STATUS_OK);
    assert_near("share", popularity_share(&popularity, 1), 30.0 / 118, 1e-12);
    for (uint32_t i = 0; i < 100000; i++)
        assert_true(popularity_rank(&popularity, draw_unit(&random), 0) < 5);
    assert_int_equal(popularity_rank(&popularity, 1 - 0x1p-53, 0), 4);
    assert_draws_follow_shares(&popularity, test_seed(26));
    popularity_close(&popularity);
}

static void distinct_goes_round(void **state)
{
    (void)state;
    struct popularity popularity;

    assert_int_equal(popularity_open(&popularity, KEY_ADAPTER_DISTINCT, 1, 3), STATUS_OK);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(popularity_rank(&popularity, 0.9, i), i % 3);
    popularity_close(&popularity);
}

/* Variants with other laws share their luck only if more luck is never a more popular adapter. */
static void every_law_is_monotone_and_stays_in_range(void **state)
{
    (void)state;
    const uint32_t laws[] = {KEY_ADAPTER_ZIPF, KEY_ADAPTER_POWER, KEY_ADAPTER_UNIFORM};
    const double alphas[] = {0.01, 0.7, 1, 3, 10};
    const uint32_t counts[] = {1, 2, 37, 5000};

    for (size_t i = 0; i < 60; i++) {
        struct popularity popularity;
        uint32_t count = counts[i % 4];
        uint32_t last = 0;

        assert_int_equal(popularity_open(&popularity, laws[i % 3], alphas[i % 5], count), STATUS_OK);
        for (uint32_t step = 0; step <= 2000; step++) {
            double unit = step == 0 ? 0x1p-53 : step == 2000 ? 1 - 0x1p-53 : step / 2000.0;
            uint32_t rank = popularity_rank(&popularity, unit, 0);

            assert_true(rank < count);
            assert_true(rank >= last);
            last = rank;
        }
        popularity_close(&popularity);
    }
}

static const char *weights_refusal(const char *content, uint32_t count, enum status status)
{
    static char message[512];
    const char *path = scene_file("weights", content);
    FILE *errors = fmemopen(message, sizeof(message), "w");
    double *weights = NULL;

    assert_int_equal(popularity_read_weights(path, count, errors, &weights), status);
    assert_true((weights != NULL) == (status == STATUS_OK));
    fclose(errors);
    free(weights);
    scene_remove(path);
    return message;
}

static void a_weights_file_is_read_or_refused_with_its_line(void **state)
{
    (void)state;
    weights_refusal("3\n2.5e1\r\n0\n\n", 3, STATUS_OK);
    weights_refusal("3\n1", 2, STATUS_OK);
    assert_non_null(strstr(weights_refusal("3\nmany\n", 2, STATUS_INVALID), ":2: not a weight"));
    assert_non_null(strstr(weights_refusal("3\n-1\n", 2, STATUS_INVALID), ":2: not a weight"));
    assert_non_null(strstr(weights_refusal("3\nnan\n", 2, STATUS_INVALID), ":2: not a weight"));
    assert_non_null(strstr(weights_refusal("3 4\n", 1, STATUS_INVALID), ":1: not a weight"));
    assert_non_null(strstr(weights_refusal("3\n\n4\n", 2, STATUS_INVALID), ":2: blank line"));
    assert_non_null(strstr(weights_refusal("3\n4\n5\n", 2, STATUS_INVALID), "holds 3 weights"));
    assert_non_null(strstr(weights_refusal("3\n", 2, STATUS_INVALID), "holds 1 weights"));
    assert_non_null(strstr(weights_refusal("0\n0\n", 2, STATUS_INVALID), "above 0"));
}

static void streams_are_even_and_do_not_meet(void **state)
{
    (void)state;
    enum { DRAWS = 100000, CELLS = 100 };
    struct rng_streams streams;
    uint64_t seed = test_seed(27);

    rng_streams_open(&streams, seed);
    for (uint32_t purpose = 0; purpose < RNG_COUNT; purpose++) {
        uint32_t counts[2][CELLS] = {{0}};
        double covariance = 0;

        for (uint32_t i = 0; i < DRAWS; i++) {
            double next = rng_unit(&streams.of[purpose]);
            double keyed = rng_unit_at(&streams.of[purpose], i);
            double other = rng_unit_at(&streams.of[(purpose + 1) % RNG_COUNT], i);

            assert_true(next > 0 && next < 1 && keyed > 0 && keyed < 1);
            counts[0][(uint32_t)(next * CELLS)]++;
            counts[1][(uint32_t)(keyed * CELLS)]++;
            covariance += (next - 0.5) * (other - 0.5) + (keyed - 0.5) * (other - 0.5);
        }
        assert_near("covariance", covariance / DRAWS, 0, 5 * sqrt(2.0 / DRAWS) / 12);
        for (uint32_t kind = 0; kind < 2; kind++) {
            double chi = 0;

            for (uint32_t cell = 0; cell < CELLS; cell++)
                chi += pow((double)counts[kind][cell] - DRAWS / CELLS, 2) / (DRAWS / CELLS);
            if (gsl_cdf_chisq_Q(chi, CELLS - 1) < 1e-5)
                fail_msg("stream %u, kind %u, seed %llu: chi-square %g", purpose, kind, (unsigned long long)seed, chi);
        }
    }
    rng_streams_close(&streams);
}

static void a_seed_gives_the_same_stream_and_another_another(void **state)
{
    (void)state;
    gsl_rng *a = rng_split(5, "arrivals");
    gsl_rng *b = rng_split(5, "arrivals");
    gsl_rng *other_seed = rng_split(6, "arrivals");
    gsl_rng *other_name = rng_split(5, "adapters");
    uint32_t equal = 0;

    for (uint32_t i = 0; i < 1000; i++) {
        unsigned long x = gsl_rng_get(a);

        assert_int_equal(x, gsl_rng_get(b));
        equal += x == gsl_rng_get(other_seed);
        equal += x == gsl_rng_get(other_name);
    }
    assert_true(equal < 3);
    gsl_rng_free(a);
    gsl_rng_free(b);
    gsl_rng_free(other_seed);
    gsl_rng_free(other_name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_law_is_the_one_of_numpy),
        cmocka_unit_test(power_law_above_one_still_counts_from_the_most_popular),
        cmocka_unit_test(zipf_draws_follow_their_shares),
        cmocka_unit_test(weights_are_followed_and_zero_is_never_drawn),
        cmocka_unit_test(distinct_goes_round),
        cmocka_unit_test(every_law_is_monotone_and_stays_in_range),
        cmocka_unit_test(a_weights_file_is_read_or_refused_with_its_line),
        cmocka_unit_test(streams_are_even_and_do_not_meet),
        cmocka_unit_test(a_seed_gives_the_same_stream_and_another_another),
    };

    return cmocka_run_group_tests_name("popularity", tests, NULL, NULL);
}
