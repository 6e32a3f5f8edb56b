/* Replicas with merged weights, whole runs: who gets one and when, what it serves and what that costs, and what always holds. */
#include <stdio.h>

#include "model/merge.h"
#include "replica/command.h"
#include "sim/engine/jobs_rig.h"
#include "support.h"

/* Two hours with a tide: a burst of a quarter of an hour in every half. The first of three adapters has two thirds of it. */
static const char tide[] =
    "seed: 5\nduration_s: 7200\nsample_s: 20\nslo: {ttft_ms: 2000, tpot_ms: 60}\n"
    "workload:\n"
    "  arrivals: {process: mmpp, rate_per_s: 8, burst_ratio: 8, burst_s: 900, calm_s: 900}\n"
    "  prompt: {mean_tokens: 200, max_tokens: 2000}\n"
    "  output: {mean_tokens: 300, max_tokens: 2000}\n"
    "  adapters: {count: 3, law: zipf, alpha: 2, ranks: [64]}\n"
    "pool: {base: llama-8b, gpu: h100, host_warm: true, replicas: 4, merge_rows: 32, merge_up_s: 30, merge_down_s: 120}\n";

static const char *const none[] = {NULL};
static const char *const merging[] = {"pool.merge_max=2", NULL};

static void one_hot_adapter_has_a_replica_by_day_and_none_by_night(void **state)
{
    (void)state;
    struct summary never;
    struct summary merge;

    rig_run_text(tide, none, NULL, &never);
    rig_run_text(tide, merging, NULL, &merge);
    print_message("break-even %.0f tokens/s: %llu starts, %llu drains, %.2f hours, %llu of %llu served merged; TPOT p50 %.2f ms, "
                  "%.2f without\n", (double)merge.facts.merge_break_even_milli / 1e3,
                  (unsigned long long)merge.facts.merge_starts, (unsigned long long)merge.facts.merge_drains,
                  (double)merge.facts.merged_replica_ns / 3600e9, (unsigned long long)merge.merged_requests,
                  (unsigned long long)merge.completed, (double)merge.latency[CLASS_ALL][METRIC_TPOT].p50_ns / 1e6,
                  (double)never.latency[CLASS_ALL][METRIC_TPOT].p50_ns / 1e6);
    assert_int_equal(never.facts.merge_break_even_milli, 0);
    assert_int_equal(never.facts.merge_starts, 0);
    assert_int_equal(never.merged_requests, 0);
    assert_int_equal(merge.arrived, never.arrived); /* the same luck */
    assert_int_equal(merge.completed, merge.arrived);
    assert_true(merge.facts.merge_starts >= 2);
    assert_true(merge.facts.merge_drains + 1 >= merge.facts.merge_starts && merge.facts.merge_drains >= 1);
    assert_int_equal(merge.facts.replica_starts, merge.facts.merge_starts);
    assert_true(merge.merged_requests > merge.completed / 4 && merge.merged_requests < merge.completed * 9 / 10);
    assert_true(merge.facts.merged_replica_ns > 1800 * (uint64_t)NS_PER_S);
    assert_true(merge.facts.merged_replica_ns < 6000 * (uint64_t)NS_PER_S);
    /* Four replicas that always stand, and what merging added. */
    assert_int_equal(merge.facts.serving_gpu_ns, 4 * (uint64_t)merge.facts.end_ns + merge.facts.merged_replica_ns);
    /* Tokens come faster where nothing is added to the base. */
    assert_true(merge.latency[CLASS_ALL][METRIC_TPOT].mean_ns < never.latency[CLASS_ALL][METRIC_TPOT].mean_ns);
    assert_int_equal(merge.tier_count[TIER_BASE], 0);
}

/* One adapter, and places for all: whatever comes while its replica is up is served there without any LoRA, by the steps of
 * the base itself. So a run with merged weights is one without adapters, from then on. */
static void merged_weights_are_served_as_the_base_is(void **state)
{
    (void)state;
    static const char *const base[] = {"workload.adapters.base_share=1", "pool.replicas=1", "warmup_s=3600", NULL};
    static const char *const merged[] = {"workload.adapters.count=1", "pool.merge_max=1", "pool.merge_rows=256", "pool.merge_up_ratio=1",
                                         "pool.merge_down_ratio=0", "pool.merge_context=1000000",
                                         "pool.replicas=1", "warmup_s=3600", NULL};
    static const char *const tpots[] = {"p50", "p99", "max"};
    struct summary runs[2];

    rig_run_text(tide, base, NULL, &runs[0]);
    rig_run_text(tide, merged, NULL, &runs[1]);
    assert_int_equal(runs[1].facts.merge_starts, 1);
    assert_int_equal(runs[1].facts.merge_drains, 0);
    assert_int_equal(runs[1].merged_requests, runs[1].completed);
    for (size_t i = 0; i < ARRAY_COUNT(tpots); i++) {
        const struct latency *a = &runs[0].latency[CLASS_BASE][METRIC_TPOT];
        const struct latency *b = &runs[1].latency[CLASS_WARM][METRIC_TPOT];
        int64_t values[2][3] = {{a->p50_ns, a->p99_ns, a->max_ns}, {b->p50_ns, b->p99_ns, b->max_ns}};

        if (values[0][i] != values[1][i])
            fail_msg("TPOT %s: %lld ns as the base, %lld ns merged", tpots[i], (long long)values[0][i], (long long)values[1][i]);
    }
}

static void folded_and_single_steps_are_equal(void **state)
{
    (void)state;
    static const char *const single[] = {"pool.merge_max=2", "single_step=true", NULL};
    struct summary runs[3];

    rig_run_text(tide, merging, NULL, &runs[0]);
    rig_run_text(tide, merging, NULL, &runs[1]);
    rig_run_text(tide, single, NULL, &runs[2]);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(runs[i].facts.digest, runs[0].facts.digest);
        assert_int_equal(runs[i].good, runs[0].good);
        assert_int_equal(runs[i].merged_requests, runs[0].merged_requests);
        assert_int_equal(runs[i].facts.merged_replica_ns, runs[0].facts.merged_replica_ns);
        assert_int_equal(runs[i].facts.little_area_ns, runs[0].facts.little_area_ns);
    }
}

/* Small and hurried, beside pools that scale, jobs, clients that give up, adapters that are renewed and replaced. */
static void random_pools_that_merge_account_for_everything(void **state)
{
    (void)state;
    uint64_t random = test_seed(7);
    uint64_t starts = 0;
    uint64_t drains = 0;
    uint64_t served = 0;

    for (uint32_t i = 0; i < 10; i++) {
        char text[2048];
        char scales[64] = "";
        struct summary run;

        if (draw_below(&random, 2))
            snprintf(scales, sizeof(scales), "replicas_max: 5, scale_up_s: 2, scale_down_s: 15, ");
        snprintf(text, sizeof(text),
                 "seed: %llu\nduration_s: 900\nsample_s: 5\nreport_ms: 500\ndrain_max_s: 100\nsingle_step: %s\n"
                 "fleet: {rate_half_life_s: 8}\n"
                 "workload:\n  timeout_s: %d\n  announced_output: %s\n"
                 "  arrivals: {process: mmpp, rate_per_s: 6, burst_ratio: 20, burst_s: 60, calm_s: 60}\n"
                 "  prompt: {mean_tokens: 200}\n  output: {mean_tokens: 150, max_tokens: 600}\n"
                 "  adapters: {count: 6, alpha: 2, ranks: [16, 64], update_per_h: %d, churn_per_h: %d, base_share: 0.2}\n"
                 "pool: {base: %s, %sreplicas: 2, tp: %d, merge_max: %d, merge_rows: %d, merge_up_s: 4, merge_down_s: 15, "
                 "replica_start_s: %d}\n%s",
                 (unsigned long long)(i + 1), draw_below(&random, 2) ? "true" : "false", (int)(5 + draw_below(&random, 60)),
                 draw_below(&random, 2) ? "exact" : "max", (int)draw_below(&random, 2) * 40, (int)draw_below(&random, 2) * 4,
                 draw_below(&random, 2) ? "llama-8b" : "mistral-7b", scales, (int)(1 + draw_below(&random, 2)),
                 (int)(1 + draw_below(&random, 3)), (int)(4 + draw_below(&random, 8)), (int)draw_below(&random, 5),
                 draw_below(&random, 2) ? "jobs: {source: generated, rate_per_day: 2000, tenants: 4}\ncapacity: [{nodes: 1}]\n" : "");
        rig_run_text(text, NULL, NULL, &run);
        assert_int_equal(run.arrived, run.completed + run.refused + run.overload + run.timeouts + run.unfinished);
        assert_int_equal(run.by_reason[REFUSE_DRAINING], 0);
        assert_int_equal(run.facts.little_area_ns, run.facts.little_sum_ns);
        assert_true(run.merged_requests <= run.completed);
        starts += run.facts.merge_starts;
        drains += run.facts.merge_drains;
        served += run.merged_requests;
        summary_free(&run);
    }
    print_message("%llu starts, %llu drains, %llu served merged\n", (unsigned long long)starts, (unsigned long long)drains,
                  (unsigned long long)served);
    assert_true(starts > 20 && drains > 10 && served > 1000);
}

static int finish(void **state)
{
    (void)state;
    rig_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_hot_adapter_has_a_replica_by_day_and_none_by_night),
        cmocka_unit_test(merged_weights_are_served_as_the_base_is),
        cmocka_unit_test(folded_and_single_steps_are_equal),
        cmocka_unit_test(random_pools_that_merge_account_for_everything),
    };

    return cmocka_run_group_tests(tests, NULL, finish);
}
