/* Jobs against what is known exactly, through whole runs: M/M/c (Erlang C), non-preemptive priorities (Cobham 1954),
 * preemptive resume, time on failing machines (Daly 2006), time slicing; GPU time and money are conserved to the last unit.
 * Loads, starts and checkpoints are made free where theory has none. Tolerances: four standard errors of the theory, never
 * tighter than the floor given beside each case; seeds are fixed. */
#include <math.h>
#include <stdlib.h>

#include "model/footprint.h"
#include "sim/engine/jobs_rig.h"
#include "sim/engine/theory.h"
#include "support.h"

/* Under a sanitizer the runs are shorter, and the tolerances wider by what theory says. */
#ifdef __SANITIZE_ADDRESS__
#define SHORTER 10
#else
#define SHORTER 1
#endif

#define FREE_HOST                                                                                                  \
    "start_s: 0, clear_bytes_per_s: 1e30, disk_bytes_per_s: 1e30, page_cache_bytes_per_s: 1e30, "                  \
    "checkpoint_bytes_per_s: 1e30"

/* --- queues ------------------------------------------------------------------------------------------------------------ */

/* Mean service is 1,000 s. */
#define SERVICE_S 1000.0
struct queue_case {
    const char *kinds;     /* list items of jobs.kinds */
    const char *scheduler; /* further keys */
    const char *settings[4];
    double rate;           /* jobs a service time */
    uint32_t servers;
    double jobs;
};

static double services(const struct queue_case *test)
{
    return test->jobs / SHORTER / test->rate;
}

static double relative_error(const struct queue_case *test, double servers, double cv)
{
    return theory_relative_error(test->rate, servers, 0.9 * services(test), cv);
}

static void run_case(const struct queue_case *test, const char *source, struct summary *ret_summary)
{
    char text[4096];

    snprintf(text, sizeof(text),
             "name: queue\n"
             "duration_s: %.0f\n"
             "warmup_s: %.0f\n"
             "sample_s: 86400\n"
             "drain_max_s: 1e9\n"
             "workload: {source: none}\n"
             "jobs:\n"
             "  tenants: 1\n"
             "  rate_per_day: %.9g\n"
             "%s"
             "  kinds:\n"
             "%s"
             "capacity:\n"
             "  - {gpu: h100, nodes: 1, gpus_per_node: %u}\n"
             "scheduler: {%s, " FREE_HOST "}\n",
             services(test) * SERVICE_S, 0.1 * services(test) * SERVICE_S, test->rate * 86400 / SERVICE_S, source,
             test->kinds, test->servers, test->scheduler);
    rig_run_text(text, test->settings, NULL, ret_summary);
    assert_int_equal(ret_summary->jobs.refused + ret_summary->jobs.overload + ret_summary->jobs.unfinished, 0);
    assert_true((double)ret_summary->jobs.done > 0.8 * test->jobs / SHORTER);
}

#define SESSIONS "    - {name: one, stage: interactive, session_s: 1000}\n"

static void mmc_waits_as_erlang_c_says(void **state)
{
    (void)state;
    struct queue_case four = {SESSIONS, "order: fifo, victims_max: 0", {NULL}, 3.0, 4, 1e6};
    struct queue_case sixteen = {SESSIONS, "order: fifo, victims_max: 0", {NULL}, 14.4, 16, 6e5};
    static struct summary summary;

    run_case(&four, "  source: generated\n", &summary);
    theory_expect("M/M/4 wait, services", summary.jobs.wait.mean_s / SERVICE_S, theory_erlang_c(4, 3) / (4 - 3.0), 0.03,
                  relative_error(&four, 4, theory_wait_cv(theory_erlang_c(4, 3))));
    /* rho: allocated and used are the same where jobs do nothing but compute. */
    theory_expect("M/M/4 use", summary.jobs.allocated_share, 0.75, 0.01, relative_error(&four, 4, 1));
    theory_expect("M/M/4 computing", summary.jobs.used_share, summary.jobs.allocated_share, 1e-6, 0);
    summary_free(&summary);
    run_case(&sixteen, "  source: generated\n", &summary);
    theory_expect("M/M/16 wait at rho 0.9, services", summary.jobs.wait.mean_s / SERVICE_S,
                  theory_erlang_c(16, 14.4) / (16 - 14.4), 0.10,
                  relative_error(&sixteen, 16, theory_wait_cv(theory_erlang_c(16, 14.4))));
    summary_free(&summary);
}

#define TWO_CLASSES(more)                                                       \
    "    - {name: high, priority: 1, share: 1, session_s: 1000" more "}\n"        \
    "    - {name: low, priority: 0, share: 1, session_s: 1000" more "}\n"

/* W_k = R / ((1 - s_(k-1)) (1 - s_k)), R the mean residual service. */
static void priorities_wait_as_cobham_says(void **state)
{
    (void)state;
    struct queue_case test = {TWO_CLASSES(", stage: interactive"), "order: fifo, victims_max: 0", {NULL}, 0.8, 1, 6e5};
    static struct summary summary;

    run_case(&test, "  source: generated\n", &summary);
    theory_expect("Cobham, high: sojourn, services", summary.jobs.kinds[0].completion.mean_s / SERVICE_S, 1 + 0.8 / 0.6, 0.03,
                  relative_error(&test, 1, 1.5) / 2);
    theory_expect("Cobham, low: sojourn, services", summary.jobs.kinds[1].completion.mean_s / SERVICE_S,
                  1 + 0.8 / (0.6 * 0.2), 0.03, relative_error(&test, 1, 1.5));
    assert_int_equal(summary.jobs.preempts, 0);
    summary_free(&summary);
}

/* Exponential interarrivals and run times, half of each class, as a trace: jobs that train keep what they did when stopped. */
static void write_trace(const struct queue_case *test)
{
    uint64_t luck = 5;
    char path[128];
    double at_s = 0;
    double until_s = services(test) * SERVICE_S;
    FILE *file;

    snprintf(path, sizeof(path), "%s/jobs.csv", rig_folder());
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "time,runtime,class\n");
    for (;;) {
        at_s -= log(draw_unit(&luck)) * SERVICE_S / test->rate;
        if (at_s > until_s)
            break;
        fprintf(file, "%.6f,%.6f,%s\n", at_s, 1e-6 - log(draw_unit(&luck)) * SERVICE_S,
                draw_below(&luck, 2) == 0 ? "high" : "low");
    }
    assert_int_equal(fclose(file), 0);
}

#define TRACE                                                                                                    \
    "  source: trace\n  trace_format: csv\n  trace_path: jobs.csv\n  trace_time_column: time\n"                    \
    "  trace_runtime_column: runtime\n  trace_class_column: class\n"

/* T_k = E[S] / (1 - s_(k-1)) + sum l_i E[S_i^2] / 2 / ((1 - s_(k-1)) (1 - s_k)). */
static void preempted_jobs_resume_where_they_were(void **state)
{
    (void)state;
    struct queue_case test = {TWO_CLASSES(""), "order: fifo, preempt_delay_s: 0, checkpoint_s: 1e7", {NULL}, 0.8, 1, 6e5};
    static struct summary summary;

    write_trace(&test);
    run_case(&test, TRACE, &summary);
    theory_expect("preemptive resume, high: sojourn, services", summary.jobs.kinds[0].completion.mean_s / SERVICE_S, 1 / 0.6,
                  0.03, relative_error(&test, 1, 1) / 2);
    theory_expect("preemptive resume, low: sojourn, services", summary.jobs.kinds[1].completion.mean_s / SERVICE_S,
                  1 / 0.6 + 0.8 / (0.6 * 0.2), 0.03, relative_error(&test, 1, 1.5));
    /* Each high job that finds a low one at work stops it: P = s_low of those who come while no high job is there. */
    assert_true(summary.jobs.preempts > 0);
    assert_true(summary.jobs.lost_gpu_hours <= 0);
    summary_free(&summary);
}

/* Jobs of one tenant that take turns on one GPU are an egalitarian processor while there are no more than may share it; eight
 * at half the load are nearly never all there (0.5^8). */
static void time_slicing_is_processor_sharing(void **state)
{
    (void)state;
    struct queue_case test = {"    - {name: one, stage: evaluate, isolation: time-slice, rank: 8}\n",
                              "order: fifo, victims_max: 0, sharers_max: 8, eta: [1]",
                              {"capacity.0.gpu=h200", NULL}, 0.4, 1, 4e5};
    static struct summary summary;

    write_trace(&test);
    run_case(&test, TRACE, &summary);
    theory_expect("M/M/1-PS sojourn, services", summary.jobs.completion.mean_s / SERVICE_S, 1 / 0.6, 0.03,
                  relative_error(&test, 1, 1.5));
    summary_free(&summary);
}

/* Half of the sessions are left halfway: those hold their GPU for as long again, or for the time-out, and use nothing. A slice
 * is as long as a whole GPU to the one who sits before it. */
static void a_session_left_idle_holds_what_it_does_not_use(void **state)
{
    (void)state;
    struct queue_case test = {SESSIONS, "order: fifo, victims_max: 0, idle_share: 0.5", {NULL, NULL, NULL}, 3, 16, 2e5};
    static struct summary summary;

    run_case(&test, "  source: generated\n", &summary);
    theory_expect("idle sessions: allocated", summary.jobs.allocated_share, 3.0 / 16, 0.02, 0);
    theory_expect("idle sessions: used", summary.jobs.used_share, 0.75 * 3.0 / 16, 0.02, 0);
    summary_free(&summary);
    test.settings[0] = "scheduler.idle_timeout_s=100";
    run_case(&test, "  source: generated\n", &summary);
    theory_expect("idle sessions, time-out: used", summary.jobs.used_share, 0.75 * 3.0 / 16, 0.02, 0);
    /* min(S / 2, 100 s) of S exponential with mean 1,000 s: 500 (1 - e^(-0.2)). */
    theory_expect("idle sessions, time-out: allocated", summary.jobs.allocated_share,
                  (0.75 + 0.5 * 0.5 * (1 - exp(-0.2))) * 3.0 / 16, 0.02, 0);
    summary_free(&summary);
}

/* --- machines that fail ------------------------------------------------------------------------------------------------- */

#define FAIL_MEAN_S 7200.0
#define REPAIR_MEAN_S 120.0
#define START_S 55.0
#define CHECKPOINT_S 5.0
#define TRAIN_S 36000.0

/* What Daly's formula says, exactly for what is simulated: a segment of w seconds that fails with mean M is tried until it
 * comes through, each failure costs the repair D (in which nothing fails) and a restart R (in which it may): E = e^(R/M)
 * (M + D) (e^(w/M) - 1). The last segment writes no checkpoint, the first one begins with a start. */
static double daly_s(double interval_s)
{
    double restart_s = START_S + CHECKPOINT_S;
    double whole = ceil(TRAIN_S / interval_s - 1e-9) - 1; /* segments that end in a checkpoint */
    double last_s = TRAIN_S - whole * interval_s;
    double a = FAIL_MEAN_S + REPAIR_MEAN_S;

    /* Before the first checkpoint there is nothing to read: its restart is its start. */
    return a * (exp((START_S + interval_s + CHECKPOINT_S) / FAIL_MEAN_S) - 1) +
           exp(restart_s / FAIL_MEAN_S) * a *
               ((whole - 1) * (exp((interval_s + CHECKPOINT_S) / FAIL_MEAN_S) - 1) + exp(last_s / FAIL_MEAN_S) - 1);
}

/* So many equal jobs, one after the other on one GPU: the end of the last is the sum of what each took. */
static double mean_on_failing_machine_s(double checkpoint_every_s, uint32_t count)
{
    const struct shape *shape = shape_find("llama-8b");
    struct training_bytes bytes = footprint_training_bytes(shape, LORA_ALL_LINEAR, 16, 8192);
    char text[2048];
    char path[128];
    static struct summary summary;
    double last_s;
    FILE *file;

    snprintf(path, sizeof(path), "%s/same.csv", rig_folder());
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "time,runtime\n");
    for (uint32_t i = 0; i < count; i++)
        fprintf(file, "0,%.0f\n", TRAIN_S);
    assert_int_equal(fclose(file), 0);
    snprintf(text, sizeof(text),
             "name: daly\n"
             "duration_s: 1\n"
             "drain_max_s: 1e9\n"
             "sample_s: 86400\n"
             "workload: {source: none}\n"
             "jobs: {source: trace, tenants: 1, trace_format: csv, trace_path: same.csv, trace_time_column: time,\n"
             "       trace_runtime_column: runtime}\n"
             "capacity:\n"
             "  - {gpu: h100, nodes: 1, gpus_per_node: 1, fail_mean_h: %.9g, repair_mean_h: %.9g}\n"
             "scheduler: {order: fifo, start_s: %g, checkpoint_s: %g, checkpoint_bytes_per_s: %.17g, clear_bytes_per_s: 1e30,\n"
             "            disk_bytes_per_s: 1e30, page_cache_bytes_per_s: 1e30}\n",
             FAIL_MEAN_S / 3600, REPAIR_MEAN_S / 3600, START_S, checkpoint_every_s,
             (double)(bytes.adapter + bytes.moments) / CHECKPOINT_S);
    rig_run_text(text, NULL, NULL, &summary);
    assert_int_equal(summary.jobs.done, count);
    assert_true(summary.jobs.losses > count / 2);
    last_s = summary.jobs.completion.max_s;
    summary_free(&summary);
    return last_s / count;
}

static void failing_machines_take_as_long_as_daly_says(void **state)
{
    (void)state;
    uint32_t count = SHORTER > 1 ? 200 : 4000;
    /* A job meets about five failures that cost it about ten minutes each, give or take as much. */
    double error = sqrt(5.0) * 600 / TRAIN_S / sqrt(count);
    double best_s = sqrt(2 * CHECKPOINT_S * FAIL_MEAN_S);
    double sparse_s = mean_on_failing_machine_s(3 * best_s, count);
    double dense_s = mean_on_failing_machine_s(best_s / 4, count);
    double own_s = mean_on_failing_machine_s(0, count);

    theory_expect("failing machine, checkpoint every 600 s: seconds", mean_on_failing_machine_s(600, count), daly_s(600), 0.005,
                  error);
    theory_expect("failing machine, Young's interval: seconds", own_s, daly_s(best_s), 0.005, error);
    theory_expect("failing machine, three times that: seconds", sparse_s, daly_s(3 * best_s), 0.005, 2 * error);
    theory_expect("failing machine, a quarter: seconds", dense_s, daly_s(best_s / 4), 0.005, error);
    assert_true(own_s < sparse_s && own_s < dense_s);
}

/* --- orders ------------------------------------------------------------------------------------------------------------ */

/* What needs no model of goodput of the published comparison: on the mean, who is shortest first waits least. */
static void shortest_first_is_fastest_on_the_sia_samples(void **state)
{
    (void)state;
    static const char *const files[] = {"newtrace-1.csv", "philly-1.csv"};

    for (uint32_t i = 0; i < ARRAY_COUNT(files); i++) {
        struct scenario_set set = {0};
        double mean_s[3];
        char shared[64];
        char setting[128];

        snprintf(shared, sizeof(shared), "traces/sia/%s", files[i]);
        if (test_shared_path(shared) == NULL) {
            print_message("skipped: ../shared/%s is not here\n", shared);
            skip();
        }
        snprintf(setting, sizeof(setting), "jobs.trace_path=../../shared/%s", shared);
        assert_int_equal(scenario_read("scenarios/sia-newtrace.yaml", (const char *const[]){setting}, 1, stderr, &set), STATUS_OK);
        assert_int_equal(set.count, 3);
        for (uint32_t k = 0; k < 3; k++) {
            static struct summary summary;

            assert_int_equal(rig_run(&set.items[k], NULL, &summary), STATUS_OK);
            assert_int_equal(summary.jobs.done, summary.jobs.submitted);
            assert_true(summary.jobs.done >= (i == 0 ? 960u : 160u));
            mean_s[k] = summary.jobs.completion.mean_s;
            print_message("%s, %s: mean completion %.0f s\n", files[i], set.items[k].variant, mean_s[k]);
            summary_free(&summary);
        }
        assert_string_equal(set.items[1].variant, "srpt");
        assert_true(mean_s[1] < mean_s[0] && mean_s[1] < mean_s[2]);
        scenario_set_free(&set);
    }
}

/* --- conservation ------------------------------------------------------------------------------------------------------- */

#define MIXED                                                                                                           \
    "name: mixed\n"                                                                                                     \
    "duration_s: 172800\n"                                                                                              \
    "sample_s: 600\n"                                                                                                   \
    "workload: {source: none}\n"                                                                                        \
    "jobs:\n"                                                                                                           \
    "  source: generated\n"                                                                                             \
    "  rate_per_day: 300\n"                                                                                             \
    "  tenants: 20\n"                                                                                                   \
    "  kinds:\n"                                                                                                        \
    "    - {name: small, share: 6, tokens_mean: 6e6}\n"                                                                 \
    "    - {name: other, share: 2, tokens_mean: 6e6, base: mistral-24b}\n"                                              \
    "    - {name: node, share: 1, base: llama-70b, gpus: 8, tokens_mean: 6e6}\n"                                        \
    "capacity:\n"                                                                                                       \
    "  - {gpu: h100, nodes: 2, gpus_per_node: 8, price_per_h: 2.4999999, fail_mean_h: 30}\n"                             \
    "scheduler: {evaluate: true, fail_share: 0.05, usage_factor: 0.37}\n"

/* Claims, as the host integrates them from the core's devices at every event, are the stays of the rows: to the nanosecond. */
static void gpu_time_is_conserved_to_the_nanosecond(void **state)
{
    (void)state;
    struct jobs_run run;
    const struct jobs_summary *jobs = &run.summary.jobs;
    uint64_t count;
    struct job_row *rows;
    int64_t held_ns = 0;
    int64_t up_ns;

    jobs_run_text(MIXED, (const char *const[]){"capacity.0.fail_mean_h=0", NULL}, &run);
    rows = jobs_rows(&run, &count);
    for (uint64_t i = 0; i < count; i++)
        held_ns += rows[i].held_gpu_ns;
    up_ns = 16 * run.summary.facts.end_ns;
    assert_true(up_ns < INT64_C(1) << 53); /* so that the share below gives its integer back */
    assert_true(count > 400);
    assert_true(llround(jobs->allocated_share * (double)up_ns) == held_ns);
    free(rows);
    jobs_run_close(&run);
}

/* What jobs_run_check() says, of the scenarios that we ship: every variant, every job, every unit of the bill. */
static void shipped_scenarios_account_for_every_job_and_unit(void **state)
{
    (void)state;
    static const char *const names[] = {"tenants-500",   "noisy-neighbour", "spot-third", "residency",
                                        "notebooks-300", "sia-newtrace",    "jobs-year"};
    /* Under a sanitizer the first day of each. */
    const char *const shorter[] = {"duration_s=86400"};

    for (uint32_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct scenario_set set = {0};
        char path[128];

        snprintf(path, sizeof(path), "scenarios/%s.yaml", names[i]);
        assert_int_equal(scenario_read(path, shorter, SHORTER > 1, stderr, &set), STATUS_OK);
        for (uint32_t k = 0; k < set.count; k++) {
            struct jobs_run run;

            jobs_run_scenario(&set.items[k], &run);
            jobs_run_check(&set.items[k], &run);
            assert_true(run.summary.jobs.done > 10);
            jobs_run_close(&run);
        }
        scenario_set_free(&set);
    }
}

/* The run again gives the same numbers and the same history, whether it keeps journals or not. */
static void runs_with_jobs_repeat(void **state)
{
    (void)state;
    static struct summary first;
    static struct summary second;
    char journals[128];

    snprintf(journals, sizeof(journals), "%s/journals", rig_folder());
    rig_run_text(MIXED, NULL, NULL, &first);
    rig_run_text(MIXED, NULL, journals, &second);
    assert_true(first.jobs.losses > 0 && first.jobs.submitted > 400);
    assert_int_equal(first.facts.digest, second.facts.digest);
    assert_int_equal(first.facts.events, second.facts.events);
    assert_int_equal(first.jobs.cost_total_nano, second.jobs.cost_total_nano);
    assert_memory_equal(first.jobs.cost_nano, second.jobs.cost_nano,
                        (first.jobs.tenants_count + 1) * CHARGE_COUNT * sizeof(int64_t));
    assert_true(memcmp(&first.jobs.completion, &second.jobs.completion, sizeof(first.jobs.completion)) == 0);
    summary_free(&second);
    rig_run_text(MIXED, (const char *const[]){"seed=2", NULL}, NULL, &second);
    assert_true(first.facts.digest != second.facts.digest);
    summary_free(&first);
    summary_free(&second);
}

static int end_rig(void **state)
{
    (void)state;
    rig_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mmc_waits_as_erlang_c_says),
        cmocka_unit_test(priorities_wait_as_cobham_says),
        cmocka_unit_test(preempted_jobs_resume_where_they_were),
        cmocka_unit_test(time_slicing_is_processor_sharing),
        cmocka_unit_test(a_session_left_idle_holds_what_it_does_not_use),
        cmocka_unit_test(failing_machines_take_as_long_as_daly_says),
        cmocka_unit_test(shortest_first_is_fastest_on_the_sia_samples),
        cmocka_unit_test(gpu_time_is_conserved_to_the_nanosecond),
        cmocka_unit_test(shipped_scenarios_account_for_every_job_and_unit),
        cmocka_unit_test(runs_with_jobs_repeat),
    };

    return cmocka_run_group_tests(tests, NULL, end_rig);
}
