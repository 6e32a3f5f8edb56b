/* What serving costs: its GPUs are on the bill of whoever runs jobs beside it, or on one of their own, to the last unit. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/engine/jobs_rig.h"
#include "support.h"

#define HOUR_NS INT64_C(3600000000000)

static const char serving[] =
    "seed: 5\nduration_s: 1200\nwarmup_s: 60\nsample_s: 20\ndrain_max_s: 300\n"
    "workload:\n"
    "  tenants: 8\n"
    "  arrivals: {process: mmpp, rate_per_s: 4, burst_ratio: 8, burst_s: 200, calm_s: 200}\n"
    "  prompt: {mean_tokens: 400, max_tokens: 2000}\n"
    "  output: {mean_tokens: 300, max_tokens: 1000}\n"
    "  adapters: {count: 40}\n"
    "pool: {base: llama-8b, host_warm: true, replicas: 2, tp: 2, price_per_h: 2.4999999, target_outstanding: 20, scale_up_s: 5,\n"
    "  scale_down_s: 30}\n";

static const char training[] =
    "jobs:\n"
    "  source: generated\n  rate_per_day: 2000\n  tenants: 8\n"
    "  kind: {base: llama-8b, tokens_mean: 2e6, tokens_sigma: 0.5, epochs: 1}\n"
    "capacity: [{gpu: h100, nodes: 1, gpus_per_node: 4, serve_ok: true, price_per_h: 1.2345678}]\n";

static int64_t bill_nano(double price_per_h, int64_t ns)
{
    return (int64_t)((uint128)(uint64_t)(price_per_h * 1e9 + 0.5) * (uint64_t)ns / HOUR_NS);
}

static int64_t sum_nano(const struct serving_bill *bill)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < CHARGE_COUNT; i++)
        sum += bill->cost_nano[i];
    return sum;
}

/* As machines read it: money is digits, what is not known is null. */
static void json_says(const struct summary *summary, const char *format, ...)
{
    char wanted[256];
    char *said = NULL;
    size_t bytes;
    FILE *out = open_memstream(&said, &bytes);
    va_list values;

    summary_json(out, summary);
    fclose(out);
    va_start(values, format);
    vsnprintf(wanted, sizeof(wanted), format, values);
    va_end(values);
    if (strstr(said, wanted) == NULL)
        fail_msg("no %s in %s", wanted, said);
    free(said);
}

static void serving_alone_pays_for_its_gpus_to_the_last_unit(void **state)
{
    (void)state;
    static struct summary summary;
    const struct serving_bill *bill = &summary.facts.serving;
    int64_t gpu_nano;

    rig_run_text(serving, NULL, NULL, &summary);
    gpu_nano = bill_nano(2.4999999, summary.facts.end_ns);
    assert_true(bill->known);
    assert_false(summary.jobs.present);
    assert_int_equal(bill->total_nano, 4 * gpu_nano);
    assert_int_equal(sum_nano(bill), bill->total_nano);
    /* Half of each is for compute; of the other half the base has its part of the usable 72 GB, and the replica the rest. What
     * four GPUs' rounding leaves is idle, nano. */
    assert_true(bill->cost_nano[CHARGE_COMPUTE] >= 4 * (gpu_nano / 2) - 8 && bill->cost_nano[CHARGE_COMPUTE] <= 2 * gpu_nano);
    assert_in_range(bill->cost_nano[CHARGE_RESIDENCY], (uint64_t)(0.110 * 2 * (double)gpu_nano),
                    (uint64_t)(0.112 * 2 * (double)gpu_nano)); /* 16.06 GB / 2 of 72 */
    assert_int_equal(bill->cost_nano[CHARGE_LOADING], 0);
    assert_true(bill->cost_nano[CHARGE_IDLE] < 1000);
    assert_true(summary.tokens_served > 100000);
    assert_true(summary.serving_cost_per_million_tokens ==
                (double)bill->total_nano / 1e9 / ((double)summary.tokens_served / 1e6));
    json_says(&summary, "\"cost_serving_nano\": \"%lld\"", (long long)bill->total_nano);
    json_says(&summary, "\"compute\": \"%lld\"", (long long)bill->cost_nano[CHARGE_COMPUTE]);
    summary_free(&summary);
}

/* Each stay is a bill of its own, rounded down: starts, drains and the standing between. */
static void replicas_that_come_and_go_pay_from_start_to_drain(void **state)
{
    (void)state;
    static const char *const settings[] = {"pool.replicas_max=5", "pool.tp=1", "pool.replica_start_s=7", NULL};
    static struct summary summary;
    const struct serving_bill *bill = &summary.facts.serving;
    const struct run_facts *facts = &summary.facts;
    int64_t all_nano;
    int64_t loading_nano;

    rig_run_text(serving, settings, NULL, &summary);
    all_nano = bill_nano(2.4999999, (int64_t)facts->serving_gpu_ns);
    /* Seven seconds of start, and 16.06 GB at 5 GB/s. */
    loading_nano = (int64_t)(2.4999999 * (7 + 3.212) / 3600 * 1e9 * (double)facts->replica_starts);
    print_message("%llu starts, %llu drains, %lld of %lld nano\n", (unsigned long long)facts->replica_starts,
                  (unsigned long long)facts->replica_drains, (long long)bill->total_nano, (long long)all_nano);
    assert_true(facts->replica_starts > 1 && facts->replica_drains > 1);
    assert_true(bill->total_nano <= all_nano);
    assert_true(bill->total_nano >= all_nano - (int64_t)(2 + facts->replica_starts));
    assert_int_equal(sum_nano(bill), bill->total_nano);
    assert_in_range(bill->cost_nano[CHARGE_LOADING], (uint64_t)((double)loading_nano * 0.99), (uint64_t)((double)loading_nano * 1.01));
    summary_free(&summary);
}

static void without_a_price_nothing_is_said_to_cost(void **state)
{
    (void)state;
    static struct summary summary;

    rig_run_text(serving, (const char *const[]){"pool.price_per_h=0", NULL}, NULL, &summary);
    assert_false(summary.facts.serving.known);
    assert_int_equal(summary.facts.serving.total_nano, 0);
    json_says(&summary, "\"cost_serving_nano\": null");
    json_says(&summary, "\"serving_cost_per_million_tokens\": null");
    assert_true(summary.serving_cost_per_million_tokens != summary.serving_cost_per_million_tokens);
    summary_free(&summary);
}

/* Beside jobs: the bill grows by what serving costs, no tenant pays a unit more, and nothing happens otherwise. */
static void price_of_serving_changes_its_part_of_the_bill_alone(void **state)
{
    (void)state;
    static const char *const unpriced[] = {"pool.price_per_h=0", NULL};
    struct jobs_run with;
    struct jobs_run without;
    const struct jobs_summary *jobs = &with.summary.jobs;
    char text[4096];

    snprintf(text, sizeof(text), "%s%s", serving, training);
    jobs_run_text(text, NULL, &with);
    jobs_run_text(text, unpriced, &without);
    assert_true(with.summary.facts.serving.known);
    assert_false(without.summary.facts.serving.known);
    assert_int_equal(with.summary.facts.digest, without.summary.facts.digest);
    assert_int_equal(with.summary.facts.events, without.summary.facts.events);
    assert_int_equal(without.summary.jobs.cost_serving_nano, 0);
    assert_int_equal(jobs->cost_serving_nano, 4 * bill_nano(2.4999999, with.summary.facts.end_ns));
    assert_int_equal(jobs->cost_total_nano, without.summary.jobs.cost_total_nano + jobs->cost_serving_nano);
    for (uint32_t i = 0; i < jobs->tenants_count; i++)
        assert_int_equal(jobs_account_nano(jobs, i), jobs_account_nano(&without.summary.jobs, i));
    json_says(&with.summary, "\"cost_total_nano\": \"%lld\"", (long long)jobs->cost_total_nano);
    json_says(&with.summary, "\"cost_without_serving_nano\": \"%lld\"", (long long)without.summary.jobs.cost_total_nano);
    assert_true(jobs->cost_per_million_tokens == without.summary.jobs.cost_per_million_tokens);
    jobs_run_close(&with);
    jobs_run_close(&without);
}

/* A replica on the GPUs of jobs is the platform's only claim there, so its part can be told apart. */
static void shared_pool_tells_the_part_of_serving(void **state)
{
    (void)state;
    static const char *const settings[] = {"pool.shared=true", "pool.tp=1", "pool.replicas_min=1", "pool.replicas_max=2", NULL};
    struct jobs_run run;
    const struct serving_bill *bill = &run.summary.facts.serving;
    char text[4096];
    int64_t held_nano;

    snprintf(text, sizeof(text), "%s%s", serving, training);
    jobs_run_text(text, settings, &run);
    held_nano = bill_nano(1.2345678, (int64_t)run.summary.facts.serving_gpu_ns);
    assert_true(bill->known && run.summary.facts.replica_starts > 0);
    assert_int_equal(bill->total_nano, run.summary.jobs.cost_serving_nano);
    assert_true(bill->cost_nano[CHARGE_COMPUTE] > 0 && bill->cost_nano[CHARGE_EXCLUSIVE] > 0);
    /* It pays for the base's load as well, and not for compute before it is up. */
    assert_in_range(bill->total_nano, (uint64_t)((double)held_nano * 0.98), (uint64_t)((double)held_nano * 1.02));
    jobs_run_close(&run);
}

static void random_pools_and_prices_add_up(void **state)
{
    (void)state;
    uint64_t random = test_seed(41);

    for (uint32_t i = 0; i < 6; i++) {
        char text[2048];
        struct jobs_run run;
        double price = (double)(1 + draw_below(&random, 99999999)) * 1e-7;
        /* One after the other: compilers choose the order of arguments. */
        unsigned duration_s = (unsigned)(600 + draw_below(&random, 500));
        unsigned drain_s = (unsigned)draw_below(&random, 60);
        unsigned tp = (unsigned)(1 + draw_below(&random, 2));
        unsigned replicas_max = (unsigned)(1 + draw_below(&random, 4));
        bool shared = draw_below(&random, 2) != 0;

        snprintf(text, sizeof(text),
                 "seed: %u\nduration_s: %u\nsample_s: 10\ndrain_max_s: %u\n"
                 "workload: {arrivals: {process: mmpp, rate_per_s: 3, burst_ratio: 20, burst_s: 60, calm_s: 120}, adapters: {count: 9},\n"
                 "  output: {mean_tokens: 150, max_tokens: 600}}\n"
                 "pools:\n"
                 "  - {base: llama-8b, tp: %u, replicas: 1, replicas_max: %u, price_per_h: %.7f, target_outstanding: 6, scale_up_s: 2,\n"
                 "     scale_down_s: 15, replica_start_s: 3}\n"
                 "  - {base: mistral-7b, %s, price_per_h: %.7f, target_outstanding: 6, scale_up_s: 2, scale_down_s: 15}\n"
                 "jobs: {source: generated, rate_per_day: 6000, tenants: 4, kind: {base: llama-8b, tokens_mean: 2e6, epochs: 1}}\n"
                 "capacity: [{nodes: 1, gpus_per_node: 4, serve_ok: true, price_per_h: %.7f}]\n"
                 "scheduler: {preempt_delay_s: 5}\n",
                 i + 1, duration_s, drain_s, tp, replicas_max, price, shared ? "shared: true, replicas_max: 2" : "replicas: 2",
                 price * 1.7, price / 3);
        jobs_run_text(text, NULL, &run);
        assert_true(run.summary.facts.serving.known && run.summary.jobs.cost_serving_nano > 0);
        jobs_run_close(&run);
    }
}

/* The shipped comparison of two pools with one: the first hours of it. */
static void night_shift_bills_both_variants_whole(void **state)
{
    (void)state;
    static const char *const shorter[] = {"duration_s=14400"};
    struct scenario_set set = {0};

    assert_int_equal(scenario_read("scenarios/night-shift.yaml", shorter, 1, stderr, &set), STATUS_OK);
    assert_int_equal(set.count, 2);
    for (uint32_t k = 0; k < set.count; k++) {
        struct jobs_run run;
        int64_t gpus_nano;

        jobs_run_scenario(&set.items[k], &run);
        jobs_run_check(&set.items[k], &run);
        /* Sixteen GPUs, whoever uses them. */
        gpus_nano = run.summary.jobs.cost_total_nano - jobs_component_nano(&run.summary.jobs, CHARGE_STORAGE);
        assert_int_equal(gpus_nano, 16 * bill_nano(2.5, run.summary.facts.end_ns));
        assert_true(run.summary.jobs.cost_serving_nano > 0);
        jobs_run_close(&run);
    }
    scenario_set_free(&set);
}

static int end(void **state)
{
    (void)state;
    rig_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serving_alone_pays_for_its_gpus_to_the_last_unit),
        cmocka_unit_test(replicas_that_come_and_go_pay_from_start_to_drain),
        cmocka_unit_test(without_a_price_nothing_is_said_to_cost),
        cmocka_unit_test(price_of_serving_changes_its_part_of_the_bill_alone),
        cmocka_unit_test(shared_pool_tells_the_part_of_serving),
        cmocka_unit_test(random_pools_and_prices_add_up),
        cmocka_unit_test(night_shift_bills_both_variants_whole),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
