/* The simulator against what is known exactly about queues, through whole runs of scenario files: M/M/1, M/M/c (Erlang C),
 * M/G/1 (Pollaczek-Khinchine), M/G/1 processor sharing, and Little's law to the nanosecond. One replica with rows_max servers
 * and constant steps of 1 ms is the queue; the bias is at most one step, 0.1% of the mean service of 1 s. Tolerances: four
 * standard errors of the theory, never tighter than the floor given beside each case; seeds are fixed. */
#include <math.h>
#include <stdio.h>

#include "engine/sim.h"
#include "sim/engine/theory.h"
#include "support.h"

/* Under a sanitizer the runs are shorter, and the tolerances wider by what theory says. */
#ifdef __SANITIZE_ADDRESS__
#define SHORTER 40
#else
#define SHORTER 1
#endif

#define SETTINGS_MAX 16

struct queue_case {
    const char *scenario;
    const char *settings[SETTINGS_MAX];
    double rate_per_s;
    double jobs;
};

static double duration_s(const struct queue_case *test)
{
    return test->jobs / SHORTER / test->rate_per_s;
}

static struct summary run_case(const struct queue_case *test)
{
    struct scenario_set set = {0};
    struct sim_options options = {0};
    struct summary summary = {0};
    char duration[64];
    char warmup[64];
    char rate[64];
    const char *settings[SETTINGS_MAX + 3] = {duration, warmup, rate};
    uint32_t count = 3;

    snprintf(duration, sizeof(duration), "duration_s=%.0f", duration_s(test));
    snprintf(warmup, sizeof(warmup), "warmup_s=%.0f", 0.1 * duration_s(test));
    snprintf(rate, sizeof(rate), "workload.arrivals.rate_per_s=%g", test->rate_per_s);
    for (uint32_t i = 0; i < SETTINGS_MAX && test->settings[i] != NULL; i++)
        settings[count++] = test->settings[i];
    assert_int_equal(scenario_read(test->scenario, settings, count, stderr, &set), STATUS_OK);
    assert_int_equal(sim_run(&set.items[0], NULL, &options, stderr, &summary), STATUS_OK);
    assert_int_equal(summary.facts.little_area_ns, summary.facts.little_sum_ns);
    assert_int_equal(summary.refused + summary.overload + summary.unfinished, 0);
    assert_true((double)summary.completed > 0.8 * test->jobs / SHORTER);
    scenario_set_free(&set);
    return summary;
}

/* Of a mean over the measured nine tenths. */
static double relative_error(const struct queue_case *test, double servers, double cv)
{
    return theory_relative_error(test->rate_per_s, servers, 0.9 * duration_s(test), cv);
}

static double mean_wait_s(const struct summary *summary)
{
    return summary->blame[0].mean_ns[BLAME_QUEUE] * 1e-9;
}

static void mm1_waits_rho_over_mu_minus_lambda(void **state)
{
    (void)state;
    struct queue_case test = {"scenarios/mm1.yaml", {NULL}, 0.8, 1e6};
    struct summary summary = run_case(&test);

    theory_expect("M/M/1 wait, s", mean_wait_s(&summary), 4.0, 0.03, relative_error(&test, 1, theory_wait_cv(0.8)));
    assert_false(summary.saturated);
}

static void mmc_waits_as_erlang_c_says(void **state)
{
    (void)state;
    struct queue_case four = {"scenarios/mmc.yaml", {"pool.rows_max=4"}, 3.0, 1e6};
    struct queue_case sixteen = {"scenarios/mmc.yaml", {"pool.rows_max=16"}, 14.4, 2e6};
    struct summary summary = run_case(&four);

    theory_expect("M/M/4 wait, s", mean_wait_s(&summary), theory_erlang_c(4, 3) / (4 - 3.0), 0.03,
                  relative_error(&four, 4, theory_wait_cv(theory_erlang_c(4, 3))));
    summary = run_case(&sixteen);
    theory_expect("M/M/16 wait at rho 0.9, s", mean_wait_s(&summary), theory_erlang_c(16, 14.4) / (16 - 14.4), 0.10,
                  relative_error(&sixteen, 16, theory_wait_cv(theory_erlang_c(16, 14.4))));
}

static void mg1_waits_as_pollaczek_khinchine_say(void **state)
{
    (void)state;
    struct queue_case constant = {"scenarios/mm1.yaml", {"workload.output.law=constant"}, 0.8, 1e6};
    struct queue_case lognormal = {"scenarios/mm1.yaml",
                                   {"workload.output.law=lognormal", "workload.output.sigma=1",
                                    "workload.output.max_tokens=1000000"},
                                   0.5, 1e6};
    struct summary summary = run_case(&constant);

    theory_expect("M/D/1 wait, s", mean_wait_s(&summary), 2.0, 0.05, relative_error(&constant, 1, theory_wait_cv(0.8)));
    summary = run_case(&lognormal);
    /* Heavier than exponential: e^(3/2) stands for the third moment's growth. */
    theory_expect("M/LN/1 wait, s", mean_wait_s(&summary), 1.3591, 0.05,
                  relative_error(&lognormal, 1, 4.5 * theory_wait_cv(0.5)));
}

/* Each of n rows advances a token in n ms: an egalitarian processor. E[T] = E[S] / (1 - rho), whatever the law of S. */
static void processor_sharing_takes_service_over_one_minus_rho(void **state)
{
    (void)state;
    struct queue_case geometric = {"scenarios/ps.yaml", {"workload.output.law=geometric"}, 0.6, 2e5};
    struct queue_case constant = {"scenarios/ps.yaml", {"workload.output.law=constant"}, 0.6, 2e5};
    struct summary summary = run_case(&geometric);

    theory_expect("M/M/1-PS sojourn, s", summary.latency[CLASS_ALL][METRIC_E2E].mean_ns * 1e-9, 2.5, 0.03,
                  relative_error(&geometric, 1, 1.5));
    summary = run_case(&constant);
    theory_expect("M/D/1-PS sojourn, s", summary.latency[CLASS_ALL][METRIC_E2E].mean_ns * 1e-9, 2.5, 0.03,
                  relative_error(&constant, 1, 1.5));
}

static void an_overloaded_queue_is_called_unstable(void **state)
{
    (void)state;
    struct scenario_set set = {0};
    struct sim_options options = {0};
    static struct summary summary;
    const char *settings[] = {"duration_s=4000", "workload.arrivals.rate_per_s=1.2", "pool.waiting_max=100000"};

    assert_int_equal(scenario_read("scenarios/mm1.yaml", settings, ARRAY_COUNT(settings), stderr, &set), STATUS_OK);
    assert_int_equal(sim_run(&set.items[0], NULL, &options, stderr, &summary), STATUS_OK);
    assert_true(summary.saturated);
    assert_true(summary.rho > 1.05);
    assert_true(summary.backlog_slope_per_s > 0.1 && summary.backlog_slope_per_s < 0.3);
    scenario_set_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mm1_waits_rho_over_mu_minus_lambda),
        cmocka_unit_test(mmc_waits_as_erlang_c_says),
        cmocka_unit_test(mg1_waits_as_pollaczek_khinchine_say),
        cmocka_unit_test(processor_sharing_takes_service_over_one_minus_rho),
        cmocka_unit_test(an_overloaded_queue_is_called_unstable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
