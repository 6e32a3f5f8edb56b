/* Serving and training on one pool, whole runs: what it gains on the same GPUs, and what always holds, whatever comes when. */
#include <stdio.h>
#include <stdlib.h>

#include "replica/command.h"
#include "sim/engine/jobs_rig.h"
#include "support.h"

/* Two hours, eight GPUs: bursts of chat for a quarter of an hour at a time, and more training than fits. */
static const char night[] =
    "seed: 5\nduration_s: 7200\nwarmup_s: 300\nsample_s: 20\ndrain_max_s: 900\nslo: {ttft_ms: 2000, tpot_ms: 60}\n"
    "workload:\n"
    "  arrivals: {process: mmpp, rate_per_s: 4, burst_ratio: 8, burst_s: 800, calm_s: 800}\n"
    "  prompt: {mean_tokens: 800, max_tokens: 4000}\n"
    "  output: {mean_tokens: 900, max_tokens: 3000}\n"
    "  adapters: {count: 40}\n"
    "pool: {base: llama-8b, host_warm: true, target_outstanding: 40, scale_up_s: 10, scale_down_s: 120}\n"
    "jobs:\n"
    "  source: generated\n  rate_per_day: 800\n  tenants: 8\n"
    "  kind: {base: llama-8b, tokens_mean: 6e6, tokens_sigma: 0.5, epochs: 2}\n"
    "capacity: [{gpu: h100, nodes: 1, gpus_per_node: 8, serve_ok: true}]\n";

static const char *const separate[] = {"pool.replicas=4", "capacity.0.gpus_per_node=4", NULL};
static const char *const shared[] = {"pool.shared=true", "pool.replicas_min=1", "pool.replicas_max=5", NULL};

static double good_share(const struct summary *summary)
{
    return (double)summary->good / (double)summary->arrived;
}

static void one_pool_trains_more_and_serves_as_promised(void **state)
{
    (void)state;
    struct jobs_run apart;
    struct jobs_run together;

    jobs_run_text(night, separate, &apart);
    jobs_run_text(night, shared, &together);
    print_message("GPU-hours of jobs a day: %.1f apart, %.1f together; good %.4f, %.4f; %llu starts, %llu stopped\n",
                  apart.summary.jobs.held_gpu_hours_per_day, together.summary.jobs.held_gpu_hours_per_day,
                  good_share(&apart.summary), good_share(&together.summary),
                  (unsigned long long)together.summary.facts.replica_starts,
                  (unsigned long long)together.summary.jobs.serving_stops);
    assert_int_equal(apart.summary.arrived, together.summary.arrived); /* the same luck */
    assert_true(together.summary.jobs.held_gpu_hours_per_day > 1.2 * apart.summary.jobs.held_gpu_hours_per_day);
    assert_true(together.summary.jobs.done > apart.summary.jobs.done);
    assert_true(good_share(&apart.summary) > 0.99);
    assert_true(good_share(&together.summary) > 0.99);
    assert_int_equal(together.summary.refused, 0);
    assert_int_equal(together.summary.unfinished, 0);
    assert_true(together.summary.jobs.serving_stops > 0);
    assert_true(together.summary.facts.replica_drains > 0);
    jobs_run_close(&apart);
    jobs_run_close(&together);
}

static void folded_and_single_steps_are_equal(void **state)
{
    (void)state;
    static const char *const single[] = {"pool.shared=true", "pool.replicas_min=1", "pool.replicas_max=5", "single_step=true",
                                         "duration_s=2200", NULL};
    static const char *const folded[] = {"pool.shared=true", "pool.replicas_min=1", "pool.replicas_max=5", "duration_s=2200", NULL};
    struct summary runs[3];

    rig_run_text(night, folded, NULL, &runs[0]);
    rig_run_text(night, folded, NULL, &runs[1]);
    rig_run_text(night, single, NULL, &runs[2]);
    assert_true(runs[0].facts.replica_starts > 1);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(runs[i].facts.digest, runs[0].facts.digest);
        assert_int_equal(runs[i].good, runs[0].good);
        assert_int_equal(runs[i].facts.serving_gpu_ns, runs[0].facts.serving_gpu_ns);
        assert_int_equal(runs[i].jobs.cost_total_nano, runs[0].jobs.cost_total_nano);
        assert_true(runs[i].jobs.held_gpu_hours_per_day == runs[0].jobs.held_gpu_hours_per_day);
    }
    for (int i = 0; i < 3; i++)
        summary_free(&runs[i]);
}

/* Small and hurried: every run is whole, whatever serves, trains, is stopped or turned away. */
static void random_shared_pools_account_for_everything(void **state)
{
    (void)state;
    uint64_t random = test_seed(99);
    uint64_t starts = 0;
    uint64_t drains = 0;
    uint64_t stops = 0;

    for (uint32_t i = 0; i < 7; i++) {
        char text[2048];
        struct jobs_run run;

        snprintf(text, sizeof(text),
                 "seed: %llu\nduration_s: 1500\nsample_s: 5\nreport_ms: 500\ndrain_max_s: 100\n"
                 "workload:\n  timeout_s: %d\n  arrivals: {process: mmpp, rate_per_s: 3, burst_ratio: 20, burst_s: 60, calm_s: 120}\n"
                 "  prompt: {mean_tokens: 200}\n  output: {mean_tokens: 150, max_tokens: 600}\n  adapters: {count: 12, ranks: [16, 64]}\n"
                 "pool: {base: %s, shared: true, replicas_min: %d, replicas_max: %d, target_outstanding: %d, scale_up_s: 2,\n"
                 "  scale_down_s: 15, replica_start_s: %d}\n"
                 "jobs:\n  source: generated\n  rate_per_day: 6000\n  tenants: 4\n"
                 "  kinds:\n    - {base: llama-8b, tokens_mean: 2.5e6, epochs: 1, isolation: %s, runtime_min_s: %d}\n"
                 "    - {base: llama-8b, share: 0.3, tokens_mean: 1e6, epochs: 1, gpus: 2, preemptible: %s}\n"
                 "capacity: [{nodes: 2, gpus_per_node: %d, serve_ok: true}, {nodes: 1, gpus_per_node: 2}]\n"
                 "scheduler: {sharers_max: 2, preempt_delay_s: 5, page_cache_bytes: %s}\n",
                 (unsigned long long)(i + 1), (int)(5 + draw_below(&random, 60)),
                 draw_below(&random, 2) ? "llama-8b" : "mistral-7b", (int)(1 + draw_below(&random, 2)),
                 (int)(3 + draw_below(&random, 4)), (int)(4 + draw_below(&random, 10)), (int)draw_below(&random, 5),
                 draw_below(&random, 2) ? "exclusive" : "mps", (int)draw_below(&random, 2) * 60,
                 draw_below(&random, 2) ? "true" : "false", (int)(2 + draw_below(&random, 3)),
                 draw_below(&random, 2) ? "0" : "2e11");
        jobs_run_text(text, NULL, &run);
        assert_int_equal(run.summary.arrived, run.summary.completed + run.summary.refused + run.summary.overload +
                                                  run.summary.timeouts + run.summary.unfinished);
        assert_int_equal(run.summary.by_reason[REFUSE_DRAINING], 0);
        assert_int_equal(run.summary.facts.little_area_ns, run.summary.facts.little_sum_ns);
        starts += run.summary.facts.replica_starts;
        drains += run.summary.facts.replica_drains;
        stops += run.summary.jobs.serving_stops;
        jobs_run_close(&run);
    }
    print_message("%llu starts, %llu drains, %llu jobs stopped for serving\n", (unsigned long long)starts,
                  (unsigned long long)drains, (unsigned long long)stops);
    assert_true(starts > 7 && drains > 0 && stops > 0);
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
        cmocka_unit_test(one_pool_trains_more_and_serves_as_promised),
        cmocka_unit_test(folded_and_single_steps_are_equal),
        cmocka_unit_test(random_shared_pools_account_for_everything),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
