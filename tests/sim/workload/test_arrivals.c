#include "support.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

#include "sim/workload/scene.h"
#include "workload/arrivals.h"

#define COUNT 200000
#define RADIANS_PER_H (6.28318530717958647692 / 24)

struct process {
    struct scenario scenario;
    struct rng_streams streams;
    struct arrivals arrivals;
};

static struct process process;
static double gaps[COUNT];

static struct keys_arrivals *keys_of_process(uint32_t kind)
{
    scene_default(&process.scenario);
    process.scenario.workload.arrivals.process = kind;
    return &process.scenario.workload.arrivals;
}

static void start(uint64_t seed)
{
    rng_streams_close(&process.streams);
    rng_streams_open(&process.streams, seed);
    arrivals_init(&process.arrivals, &process.scenario.workload.arrivals, &process.streams);
}

static double next_s(void)
{
    return (double)arrivals_next_ns(&process.arrivals) / (double)NS_PER_S;
}

static void fill_gaps(void)
{
    double last_s = 0;

    for (uint32_t i = 0; i < COUNT; i++) {
        double at_s = next_s();

        gaps[i] = at_s - last_s;
        last_s = at_s;
    }
}

static void assert_near(const char *what, double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%s is %.9g, not %.9g within %.3g", what, got, wanted, tolerance);
}

static void poisson_gaps_are_exponential(void **state)
{
    (void)state;
    double distance = 0;

    keys_of_process(KEY_PROCESS_POISSON);
    start(test_seed(11));
    fill_gaps();
    gsl_sort(gaps, 1, COUNT);
    /* Kolmogorov and Smirnov; 1.95 / sqrt(n) is passed by one true law in a thousand. */
    for (uint32_t i = 0; i < COUNT; i++) {
        double p = gsl_cdf_exponential_P(gaps[i], 0.1);

        distance = fmax(distance, fmax(fabs(p - (double)i / COUNT), fabs(p - (i + 1.0) / COUNT)));
    }
    assert_near("KS distance", distance, 0, 1.95 / sqrt(COUNT));
}

static void gamma_gaps_have_the_mean_and_cv_asked_for(void **state)
{
    (void)state;
    const double cvs[] = {0.25, 1, 2, 8};

    for (size_t i = 0; i < ARRAY_COUNT(cvs); i++) {
        double cv = cvs[i];
        double mean;
        /* Of a Gamma law of shape k = 1 / cv^2: excess kurtosis 6 / k, skewness 2 / sqrt(k). */
        double cv_error = cv * sqrt((2 + 6 * cv * cv) / 4 + cv * cv - 2 * cv * cv) / sqrt(COUNT);

        keys_of_process(KEY_PROCESS_GAMMA)->cv = cv;
        start(test_seed(12));
        fill_gaps();
        mean = gsl_stats_mean(gaps, 1, COUNT);
        assert_near("mean gap", mean, 0.1, 4 * 0.1 * cv / sqrt(COUNT));
        assert_near("cv", gsl_stats_sd(gaps, 1, COUNT) / mean, cv, 4 * cv_error + 1e-6);
    }
}

static void even_arrivals_stand_at_exact_multiples(void **state)
{
    (void)state;
    keys_of_process(KEY_PROCESS_EVEN)->rate_per_s = 3;
    start(1);
    for (int64_t k = 1; k <= COUNT; k++)
        assert_int_equal(arrivals_next_ns(&process.arrivals), (k * NS_PER_S * 2 + 3) / 6);
}

/* Variance over mean of the counts in windows; 1 for Poisson. */
static double dispersion(double window_s, uint32_t windows, double *ret_rate)
{
    double *counts = calloc(windows, sizeof(*counts));
    double at_s;
    double mean;
    double variance;

    while ((at_s = next_s()) < window_s * windows)
        counts[(uint32_t)(at_s / window_s)] += 1;
    mean = gsl_stats_mean(counts, 1, windows);
    variance = gsl_stats_variance(counts, 1, windows);
    free(counts);
    *ret_rate = mean / window_s;
    return variance / mean;
}

static void mmpp_keeps_the_mean_rate_and_bunches(void **state)
{
    (void)state;
    double rate;
    double bunched;
    /* Rates 7.14 and 35.7; autocovariance p(1-p)(r1-r0)^2 exp(-t/27). In windows of 60 s (Fischer and Meier-Hellstern):
     * 1 + 2 v tau / rate (1 - tau / t (1 - exp(-t / tau))) */
    double v = 0.1 * 0.9 * pow(50 / 1.4 - 10 / 1.4, 2);
    double wanted = 1 + 2 * v * 27 / 10 * (1 - 27.0 / 60 * (1 - exp(-60.0 / 27)));
    uint32_t windows = 20000;

    keys_of_process(KEY_PROCESS_MMPP);
    start(test_seed(13));
    bunched = dispersion(60, windows, &rate);
    /* The rate's error: the integrated autocovariance over the run. */
    assert_near("rate", rate, 10, 4 * sqrt((10 + 2 * v * 27) / (60.0 * windows)));
    assert_near("index of dispersion", bunched, wanted, 0.1 * wanted);
    keys_of_process(KEY_PROCESS_POISSON);
    start(test_seed(13));
    assert_near("index of dispersion of Poisson", dispersion(60, windows, &rate), 1, 4 * sqrt(2.0 / windows));
}

static void season_inverse_undoes_the_integral(void **state)
{
    (void)state;
    const struct {
        double amplitude;
        double peak_h;
        double weekend_ratio;
    } shapes[] = {{0, 15, 1}, {0.5, 15, 1}, {1, 15, 0.4}, {1, 0, 3}, {0.8, 24, 0}, {0, 12, 0.5}};
    uint64_t random = test_seed(14);

    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        struct season season;
        double last_s = 0;

        season_init(&season, shapes[i].amplitude, shapes[i].peak_h, shapes[i].weekend_ratio);
        assert_near("integral of a week", season_integral(&season, 604800), 604800, 1e-6);
        assert_near("integral of three weeks", season_integral(&season, 3 * 604800), 3 * 604800, 1e-5);
        for (uint32_t draws = 0; draws < 20000; draws++) {
            /* Jumps and small steps, which is how it is used. */
            double mean_s = draws % 2 == 0 ? draw_unit(&random) * 2e6 : last_s + draw_unit(&random);
            double at_s = season_inverse(&season, mean_s);

            last_s = mean_s;
            assert_near("integral of the inverse", season_integral(&season, at_s), mean_s, 2e-8);
        }
    }
}

static void arrivals_never_step_back(void **state)
{
    (void)state;
    struct keys_arrivals *keys = keys_of_process(KEY_PROCESS_POISSON);
    int64_t last_ns = 0;

    keys->diurnal_amplitude = 1;
    keys->weekend_ratio = 0;
    keys->rate_per_s = 1e6;
    start(test_seed(15));
    for (uint32_t i = 0; i < COUNT; i++) {
        int64_t at_ns = arrivals_next_ns(&process.arrivals);

        assert_true(at_ns >= last_ns);
        last_ns = at_ns;
    }
}

static void the_day_peaks_at_its_hour_and_the_weekend_is_lower(void **state)
{
    (void)state;
    struct keys_arrivals *keys = keys_of_process(KEY_PROCESS_POISSON);
    double hours[168] = {0};
    double total = 0;
    double chi = 0;
    double workday = 0;
    double weekend = 0;

    keys->diurnal_amplitude = 0.5;
    keys->weekend_ratio = 0.4;
    keys->rate_per_s = 1;
    start(test_seed(16));
    for (double at_s; (at_s = next_s()) < 604800; total++)
        hours[(uint32_t)(at_s / 3600)] += 1;
    for (uint32_t hour = 0; hour < 168; hour++) {
        /* The weekly mean of five days of 1 and two of 0.4 is 5.8 / 7. */
        double height = (hour / 24 < 5 ? 1 : 0.4) * 7 / 5.8;
        double from = RADIANS_PER_H * (hour % 24 - 15.0);
        double swing = 0.5 / RADIANS_PER_H * (sin(from + RADIANS_PER_H) - sin(from));
        double wanted = 3600 * height * (1 + swing);

        chi += (hours[hour] - wanted) * (hours[hour] - wanted) / wanted;
        if (hour / 24 < 5)
            workday += hours[hour];
        else
            weekend += hours[hour];
    }
    assert_near("requests of a week", total, 604800, 4 * sqrt(604800));
    assert_true(gsl_cdf_chisq_Q(chi, 168) > 1e-4);
    assert_near("weekend over workdays", weekend / 2 / (workday / 5), 0.4, 0.01);
    assert_near("hour of 15 over hour of 3", (hours[14] + hours[15]) / (hours[2] + hours[3]), 3, 0.15);
}

/* Thinning would turn the gaps of a regular process into nearly exponential ones; the change of time does not. */
static void gamma_keeps_its_cv_through_the_day(void **state)
{
    (void)state;
    struct keys_arrivals *keys = keys_of_process(KEY_PROCESS_GAMMA);
    double last_s = 0;
    uint32_t count = 0;

    keys->cv = 0.1;
    keys->diurnal_amplitude = 0.8;
    start(test_seed(17));
    for (uint32_t i = 0; i < COUNT && count < 20000; i++) {
        double at_s = next_s();

        /* Around three in the morning the rate is a fifth, and flat. */
        if (at_s > 2.9 * 3600 && at_s < 3.1 * 3600)
            gaps[count++] = at_s - last_s;
        last_s = at_s;
    }
    assert_true(count > 1000);
    assert_near("mean gap at night", gsl_stats_mean(gaps, 1, count), 0.5, 0.01);
    assert_near("cv at night", gsl_stats_sd(gaps, 1, count) / gsl_stats_mean(gaps, 1, count), 0.1, 0.01);
}

static int close_process(void **state)
{
    (void)state;
    rng_streams_close(&process.streams);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(poisson_gaps_are_exponential),
        cmocka_unit_test(gamma_gaps_have_the_mean_and_cv_asked_for),
        cmocka_unit_test(even_arrivals_stand_at_exact_multiples),
        cmocka_unit_test(mmpp_keeps_the_mean_rate_and_bunches),
        cmocka_unit_test(season_inverse_undoes_the_integral),
        cmocka_unit_test(arrivals_never_step_back),
        cmocka_unit_test(the_day_peaks_at_its_hour_and_the_weekend_is_lower),
        cmocka_unit_test(gamma_keeps_its_cv_through_the_day),
    };

    return cmocka_run_group_tests_name("arrivals", tests, NULL, close_process);
}
