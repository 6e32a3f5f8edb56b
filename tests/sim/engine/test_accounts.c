/* What a run says of itself, against numbers worked out by hand: where two requests' time went through every tier, what
 * the measured window holds, that whatever a step's kernels cost folding changes nothing. */
#include <stdio.h>

#include "sim/engine/rig.h"
#include "support.h"

/* A rank-16 adapter of llama-8b: 83,886,080 bytes. This GPU's links take 10 ms for it, the store 100 ms after 100 ms to its
 * first byte, decryption 10 ms; a step takes 1 ms. */
static const char *round_gpu(void)
{
    static char path[128];
    struct gpu_profile gpu;
    FILE *file;

    assert_int_equal(profile_read("ideal", "scenarios", stderr, &gpu), STATUS_OK);
    gpu.host_bytes_per_s = 83886080 / 0.010;
    gpu.store_bytes_per_s = 83886080 / 0.100;
    gpu.store_connection_bytes_per_s = gpu.store_bytes_per_s;
    gpu.store_first_byte_ms = 100;
    gpu.decrypt_bytes_per_s = 83886080 / 0.010;
    gpu.load_fixed_us = 50;
    snprintf(path, sizeof(path), "%s/round.yaml", rig_folder());
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "title: round numbers\n");
#define X(field, min, max, about) fprintf(file, #field ": {value: %.17g, source: test}\n", gpu.field);
    PROFILE_KEYS(X)
#undef X
    assert_int_equal(fclose(file), 0);
    return path;
}

static void expect_ms(const struct summary *summary, enum blame part, double ms)
{
    double got_ms = summary->blame[0].mean_ns[part] * 1e-6;

    if (!(got_ms >= ms - 1e-5 && got_ms <= ms + 1e-5))
        fail_msg("blame %u: %.6f ms, by hand %.6f ms", (unsigned)part, got_ms, ms);
}

/* Requests at 1 and 2 ms want different adapters, the node fetches one at a time, each request is 1 prompt and 3 output
 * tokens in steps of 1 ms:
 *   first   fetch 1 - 201, decrypted 211, copied 221.05, first token 222.05, done 224.05
 *   second  fetch 211 - 411 (held back until the first was there), decrypted 421, copied 431.05, done 434.05 */
static void time_is_blamed_on_the_tier_that_took_it(void **state)
{
    (void)state;
    static struct summary summary;
    char text[1024];

    snprintf(text, sizeof(text),
             "duration_s: 10\n"
             "workload:\n"
             "  requests_max: 2\n"
             "  arrivals: {process: even, rate_per_s: 1000}\n"
             "  prompt: {law: constant, mean_tokens: 1}\n"
             "  output: {law: constant, mean_tokens: 3}\n"
             "  adapters: {count: 3, law: distinct, ranks: [16]}\n"
             "pool: {gpu: %s, fetches_max: 1, rows_max: 8, slots_count: 3}\n",
             round_gpu());
    rig_run_text(text, NULL, NULL, &summary);
    assert_int_equal(summary.completed, 2);
    assert_int_equal(summary.facts.end_ns, 434050000);
    expect_ms(&summary, BLAME_QUEUE, 0);
    expect_ms(&summary, BLAME_SLOT_WAIT, 0);
    expect_ms(&summary, BLAME_STORE, 200);
    expect_ms(&summary, BLAME_HOST, (10 + 209 + 10) / 2.0);
    expect_ms(&summary, BLAME_LINK, 10.05);
    expect_ms(&summary, BLAME_PREFILL, 1);
    expect_ms(&summary, BLAME_DECODE, 2);
    expect_ms(&summary, BLAME_INTERFERENCE, 0);
    expect_ms(&summary, BLAME_RECOMPUTE, 0);
}

static const char busy_scenario[] = "seed: 3\n"
                                    "duration_s: 40\n"
                                    "workload:\n"
                                    "  arrivals: {process: even, rate_per_s: 8}\n"
                                    "  prompt: {mean_tokens: 200, max_tokens: 2000}\n"
                                    "  output: {mean_tokens: 60, max_tokens: 250}\n"
                                    "  adapters: {count: 12, ranks: [8, 64], base_share: 0.2}\n"
                                    "pool: {gpu: h100, replicas: 2, rows_max: 16, slots_count: 4, max_loras: 4}\n";

/* Arrivals are 125 ms apart, an exact binary fraction, so number 80 (from 0) has an instant that can be written. */
static void a_warmup_by_count_ends_where_the_same_by_time_does(void **state)
{
    (void)state;
    static struct summary by_count;
    static struct summary by_time;
    static const char *const count_settings[] = {"warmup_requests=80", NULL};
    char warmup[64];
    const char *const time_settings[] = {warmup, NULL};

    rig_run_text(busy_scenario, count_settings, NULL, &by_count);
    snprintf(warmup, sizeof(warmup), "warmup_s=%.9f", (double)by_count.facts.warmup_until_ns * 1e-9);
    rig_run_text(busy_scenario, time_settings, NULL, &by_time);
    assert_true(by_count.facts.warmup_until_ns > 9 * NS_PER_S && by_count.facts.warmup_until_ns < 11 * NS_PER_S);
    assert_true(by_count.facts.busy_ns > 0);
    assert_memory_equal(&by_count, &by_time, sizeof(by_count));
}

/* 50 requests come in 0.05 s and take seconds to serve: until the last arrival the one replica was busy, and what it does
 * after it is outside of the window. */
static void work_after_the_last_arrival_is_not_measured(void **state)
{
    (void)state;
    static struct summary summary;
    static const char *const settings[] = {"workload.requests_max=50", "workload.arrivals.rate_per_s=1000",
                                           "pool.replicas=1", NULL};

    rig_run_text(busy_scenario, settings, NULL, &summary);
    assert_int_equal(summary.completed, 50);
    assert_true(summary.facts.end_ns > 2 * NS_PER_S);
    assert_true(summary.measured_s <= 0.051);
    assert_true(summary.facts.busy_ns <= (double)summary.facts.arrivals_end_ns);
    assert_true(summary.facts.busy_ns > 0);
}

/* What is in flight when the run gives up has its row, and the run ends at that very instant. */
static void a_run_that_gives_up_says_what_was_left(void **state)
{
    (void)state;
    static struct summary summary;
    static const char *const settings[] = {"workload.arrivals.rate_per_s=400", "drain_max_s=0.25", NULL};

    rig_run_text(busy_scenario, settings, NULL, &summary);
    assert_true(summary.unfinished > 0);
    assert_int_equal(summary.facts.end_ns, 40 * NS_PER_S + NS_PER_S / 4);
    assert_int_equal(summary.arrived, summary.completed + summary.refused + summary.overload + summary.unfinished);
    assert_int_equal(summary.facts.little_area_ns, summary.facts.little_sum_ns);
}

static void folding_changes_nothing_whatever_kernels_cost(void **state)
{
    (void)state;
    static const char *const costs[] = {"pool.lora_cost=ours", "pool.lora_cost=vllm", "pool.lora_cost=slora"};
    static const char *const noises[] = {"pool.step_jitter=0", "pool.step_jitter=0.5"};
    static struct summary folded;
    static struct summary single;

    for (size_t i = 0; i < ARRAY_COUNT(costs); i++) {
        for (size_t j = 0; j < ARRAY_COUNT(noises); j++) {
            const char *const together[] = {costs[i], noises[j], NULL};
            const char *const alone[] = {costs[i], noises[j], "single_step=true", NULL};

            rig_run_text(busy_scenario, together, NULL, &folded);
            rig_run_text(busy_scenario, alone, NULL, &single);
            assert_true(folded.facts.runs < single.facts.runs);
            assert_int_equal(single.facts.runs, single.facts.engine_steps);
            folded.facts.runs = single.facts.runs;
            folded.facts.events = single.facts.events;
            if (memcmp(&folded, &single, sizeof(folded)) != 0)
                fail_msg("%s, %s: folded and single steps differ", costs[i], noises[j]);
        }
    }
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
        cmocka_unit_test(time_is_blamed_on_the_tier_that_took_it),
        cmocka_unit_test(a_warmup_by_count_ends_where_the_same_by_time_does),
        cmocka_unit_test(work_after_the_last_arrival_is_not_measured),
        cmocka_unit_test(a_run_that_gives_up_says_what_was_left),
        cmocka_unit_test(folding_changes_nothing_whatever_kernels_cost),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
