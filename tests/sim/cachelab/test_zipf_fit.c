#include "support.h"

#include <math.h>
#include <stdlib.h>

#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>

#include "cachelab/zipf_fit.h"
#include "sim/cachelab/zipf_trace.h"

static uint64_t *counts_of(const struct zipf_trace *trace, uint64_t *ret_objects)
{
    uint64_t *counts = calloc(trace->objects, sizeof(*counts));

    for (uint32_t i = 0; i < trace->count; i++)
        counts[trace->ids[i] - 1]++;
    counts_sort(counts, trace->objects);
    for (*ret_objects = 0; *ret_objects < trace->objects && counts[*ret_objects] > 0;)
        ++*ret_objects;
    return counts;
}

/* Poisson counts of a law: what a trace of about so many requests has. */
static uint64_t draw_counts(gsl_rng *chance, uint64_t *counts, uint32_t objects, double requests, double alpha)
{
    double sum = 0;
    uint64_t seen = 0;

    for (uint32_t i = 0; i < objects; i++)
        sum += pow(i + 1, -alpha);
    for (uint32_t i = 0; i < objects; i++) {
        counts[seen] = gsl_ran_poisson(chance, requests * pow(i + 1, -alpha) / sum);
        seen += counts[seen] > 0;
    }
    counts_sort(counts, seen);
    return seen;
}

/* Means of many fits: alpha is off by less than the error on average, and spreads as the error says. */
static void the_fit_finds_the_exponent_and_its_error(void **state)
{
    (void)state;
    static const struct {
        uint32_t objects;
        double requests;
        double alpha;
        uint32_t rounds;
    } cases[] = {{5000, 1e7, 1, 60},  {100000, 1e6, 1, 20}, {100000, 1e5, 1, 60},  {1000, 1e5, 0.8, 200},
                 {200, 1e4, 1.2, 200}, {10000, 1e6, 1.5, 60}, {20, 1e4, 1, 200}, {1000, 1e7, 0.3, 100}};
    gsl_rng *chance = gsl_rng_alloc(gsl_rng_mt19937);
    uint64_t *counts = calloc(100000, sizeof(*counts));

    gsl_rng_set(chance, (unsigned long)test_seed(1));
    for (size_t c = 0; c < ARRAY_COUNT(cases); c++) {
        double sum = 0;
        double squares = 0;
        struct zipf_fit fit = {0};

        for (uint32_t round = 0; round < cases[c].rounds; round++) {
            const uint64_t seen = draw_counts(chance, counts, cases[c].objects, cases[c].requests, cases[c].alpha);

            assert_int_equal(zipf_fit(counts, seen, &fit), STATUS_OK);
            sum += (fit.alpha - cases[c].alpha) / fit.error;
            squares += (fit.alpha - cases[c].alpha) / fit.error * (fit.alpha - cases[c].alpha) / fit.error;
        }
        sum /= cases[c].rounds;
        squares = sqrt(squares / cases[c].rounds - sum * sum);
        print_message("%u objects, %g requests, alpha %g: %.4f +- %.4f over %llu ranks, off by %.2f errors, spread %.2f\n", cases[c].objects,
                      cases[c].requests, cases[c].alpha, fit.alpha, fit.error, (unsigned long long)fit.ranks, sum, squares);
        if (fabs(sum) > 1 || squares < 0.6 || squares > 1.4)
            fail_msg("that is not what the error says");
    }
    gsl_rng_free(chance);
    free(counts);
}

static void a_trace_of_the_references_law_has_its_exponent(void **state)
{
    (void)state;
    struct zipf_trace trace = zipf_trace_create(50000, 500000, 1, test_seed(42), true);
    struct zipf_fit fit;
    uint64_t objects;
    uint64_t *counts = counts_of(&trace, &objects);

    assert_int_equal(zipf_fit(counts, objects, &fit), STATUS_OK);
    print_message("%.4f +- %.4f\n", fit.alpha, fit.error);
    assert_true(fabs(fit.alpha - 1) < 4 * fit.error && fit.error < 0.002);
    assert_true(fit.share > 0.4 && fit.share < 1 && fit.misfit < 0.01);
    free(counts);
    zipf_trace_free(&trace);
}

/* Counts that are the law itself: nothing is left to chance. */
static void counts_of_the_law_itself_give_it_back(void **state)
{
    (void)state;
    uint64_t counts[100];
    struct zipf_fit fit;

    for (uint32_t i = 0; i < 100; i++)
        counts[i] = (uint64_t)llround(1e15 * pow(i + 1, -0.9));
    assert_int_equal(zipf_fit(counts, 100, &fit), STATUS_OK);
    assert_true(fabs(fit.alpha - 0.9) < 1e-9);
    assert_int_equal(fit.ranks, 100);
    assert_true(fit.share == 1 && fit.misfit < 1e-9);
}

static void a_law_that_is_none_shows_in_the_misfit(void **state)
{
    (void)state;
    uint64_t counts[100];
    struct zipf_fit fit;

    for (uint32_t i = 0; i < 100; i++)
        counts[i] = (uint64_t)(1e9 * exp(-0.1 * i));
    assert_int_equal(zipf_fit(counts, 100, &fit), STATUS_OK);
    assert_true(fit.misfit > 0.1);
}

static void ranks_that_are_chance_are_no_fit(void **state)
{
    (void)state;
    gsl_rng *chance = gsl_rng_alloc(gsl_rng_mt19937);
    uint64_t counts[1000];
    struct zipf_fit fit;

    for (uint32_t round = 0; round < 100; round++) {
        const uint64_t seen = draw_counts(chance, counts, 1000, 1e5, 0);

        assert_int_equal(zipf_fit(counts, seen, &fit), STATUS_INVALID);
    }
    for (uint32_t i = 0; i < 1000; i++)
        counts[i] = 7;
    assert_int_equal(zipf_fit(counts, 1000, &fit), STATUS_INVALID);
    assert_int_equal(zipf_fit(counts, 1, &fit), STATUS_INVALID);
    assert_int_equal(zipf_fit(counts, 0, &fit), STATUS_INVALID);
    gsl_rng_free(chance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fit_finds_the_exponent_and_its_error),
        cmocka_unit_test(a_trace_of_the_references_law_has_its_exponent),
        cmocka_unit_test(counts_of_the_law_itself_give_it_back),
        cmocka_unit_test(a_law_that_is_none_shows_in_the_misfit),
        cmocka_unit_test(ranks_that_are_chance_are_no_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
