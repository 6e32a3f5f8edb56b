/* The published results are read and refused with their place; the benchmark's generator is numpy's, draw by draw; and the
 * predictions of the results, where they are beside the checkout, stay as good as they were measured to be. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support.h"
#include "validate/slora_draw.h"
#include "validate/slora_print.h"

#define SCENARIOS "scenarios/calibration"

#define CONFIG(rate) "\"config\": {\"num_adapters\": 200, \"alpha\": 1, \"req_rate\": " rate ", \"cv\": 1, \"duration\": 300, " \
                     "\"input_range\": [8, 512], \"output_range\": [8, 512]}"
#define RESULT(total, throughput) "\"result\": {\"total_time\": " total ", \"throughput\": " throughput ", " \
                                  "\"avg_latency\": 11.5, \"avg_first_token_latency\": 0.28}"
static const char good[] = "{" CONFIG("1") ", " RESULT("312.5", "0.96") "}";

static char said[1024];
static struct slora_rows rows;

/* A folder with one file of the given lines. */
static enum status read_folder(const char *name, const char *text)
{
    char folder[] = "/tmp/berth-test-XXXXXX";
    char path[256];
    char *buffer = NULL;
    size_t bytes = 0;
    FILE *errors = open_memstream(&buffer, &bytes);
    FILE *file;
    enum status status;

    assert_non_null(errors);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    status = slora_rows_read(folder, errors, &rows);
    fclose(errors);
    snprintf(said, sizeof(said), "%s", buffer);
    free(buffer);
    unlink(path);
    rmdir(folder);
    return status;
}

static void rows_are_read_with_what_the_file_name_says(void **state)
{
    (void)state;
    char text[4096];

    snprintf(text, sizeof(text), "%s\n%s", good, good); /* the last line may lack its end */
    assert_int_equal(read_folder("synthetic_req_rate_a10g_S2_slora.jsonl", text), STATUS_OK);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.items[1].line, 2);
    assert_int_equal(rows.items[1].gpu, SLORA_GPU_A10G);
    assert_int_equal(rows.items[1].setting, SLORA_SETTING_S2);
    assert_int_equal(rows.items[1].adapters, 200);
    assert_int_equal(rows.items[1].requests, 300);
    assert_int_equal(rows.items[1].output_below, 512);
    assert_true(fabs(rows.items[1].measured.of[SLORA_METRIC_THROUGHPUT] - 0.96) < 1e-12);
    assert_false(slora_is_overloaded(&rows.items[1]));
    assert_false(slora_is_calibration(&rows.items[1])); /* S2 is never fitted on */
}

static void ablations_are_left_out_by_name(void **state)
{
    (void)state;

    assert_int_equal(read_folder("ablation_mem_a10g_S1_no_mem.jsonl", good), STATUS_NOT_FOUND);
    assert_string_equal(rows.left_out, "ablation_mem_a10g_S1_no_mem.jsonl");
}

static void bad_rows_are_refused_with_file_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *second_line;
        const char *message;
    } cases[] = {
        {"", NULL},
        {"\n", "a10g_S1_x.jsonl:2: line: blank"},
        {"{\"config\"\n", "a10g_S1_x.jsonl:2:"},
        {"{}\n", "a10g_S1_x.jsonl:2: config: missing"},
        {"{" CONFIG("1") "}\n", "a10g_S1_x.jsonl:2: result: missing"},
        {"{" CONFIG("\"one\"") ", " RESULT("312.5", "0.96") "}\n", "a10g_S1_x.jsonl:2: req_rate: must be a number"},
        {"{" CONFIG("-1") ", " RESULT("312.5", "0.96") "}\n", "a10g_S1_x.jsonl:2: req_rate: -1 is not within"},
        {"{" CONFIG("1") ", " RESULT("300", "0.96") "}\n", "a10g_S1_x.jsonl:2: throughput: throughput x total_time is not"},
        {"{" CONFIG("1e6") ", " RESULT("300", "0.96") "}\n", "a10g_S1_x.jsonl:2: req_rate: req_rate x duration"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[4096];
        enum status status;

        snprintf(text, sizeof(text), "%s\n%s", good, cases[i].second_line);
        status = read_folder("a10g_S1_x.jsonl", text);
        if ((status == STATUS_OK) != (cases[i].message == NULL))
            fail_msg("case %zu: status %d, said: %s", i, status, said);
        if (cases[i].message != NULL && strstr(said, cases[i].message) == NULL)
            fail_msg("case %zu: wanted '%s', said: %s", i, cases[i].message, said);
    }
    assert_int_not_equal(read_folder("h100_S1_x.jsonl", good), STATUS_OK);
    assert_non_null(strstr(said, "h100_S1_x.jsonl:1: file name"));
    assert_int_not_equal(read_folder("a10g_S10_x.jsonl", good), STATUS_OK);
}

/* numpy.random.seed(42): random_sample() begins 0.3745401188473625, 0.9507143064162014, 0.7319939418311051. */
static void the_draws_are_those_of_numpy(void **state)
{
    (void)state;
    static const double units[] = {0.3745401188473625, 0.9507143064162014, 0.7319939418311051};
    static struct slora_request requests[750];
    struct slora_row row = {.adapters = 1000000, .requests = 3, .alpha = 1, .rate_per_s = 1, .cv = 1, .prompt_from = 8,
                            .prompt_below = 512, .output_from = 8, .output_below = 512};

    assert_int_equal(slora_draw(&row, requests), STATUS_OK);
    for (uint32_t i = 0; i < row.requests; i++)
        assert_int_equal(requests[i].adapter, (uint32_t)(units[i] * 1e6) + 1);

    /* The runs whose rate kept up ended 12 to 14 s, a long answer, after the last arrival: 311.6 and 328.3 s. */
    row.requests = 300;
    assert_int_equal(slora_draw(&row, requests), STATUS_OK);
    assert_true(fabs((double)requests[299].at_ns * 1e-9 - 299.5) < 0.1);
    row.requests = 450;
    row.rate_per_s = 1.5;
    assert_int_equal(slora_draw(&row, requests), STATUS_OK);
    assert_true(fabs((double)requests[449].at_ns * 1e-9 - 314.4) < 0.1);
    /* And the bursty one, with Gamma gaps, in 482.8 s. */
    row.requests = 600;
    row.rate_per_s = 2;
    row.cv = 8;
    assert_int_equal(slora_draw(&row, requests), STATUS_OK);
    assert_true(fabs((double)requests[599].at_ns * 1e-9 - 432.5) < 0.1);
    for (uint32_t i = 0; i < row.requests; i++) {
        assert_in_range(requests[i].prompt_tokens, 8, 511);
        assert_in_range(requests[i].output_tokens, 8, 511);
    }
    row.adapters = 0;
    assert_int_equal(slora_draw(&row, requests), STATUS_OK);
    assert_int_equal(requests[599].adapter, 0);
}

static void a_prediction_leaves_no_file_behind(void **state)
{
    (void)state;
    struct slora_row row = {.gpu = SLORA_GPU_A10G, .setting = SLORA_SETTING_S2, .adapters = 20, .requests = 20, .alpha = 1,
                            .rate_per_s = 1, .cv = 2, .prompt_from = 8, .prompt_below = 512, .output_from = 8,
                            .output_below = 512};
    struct slora_outcome outcome;
    struct slora_case test;
    char path[256];

    assert_int_equal(slora_case_open(&row, SCENARIOS, stderr, &test), STATUS_OK);
    memcpy(path, test.trace_path, sizeof(path));
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(slora_case_run(&test, NULL, stderr, &outcome), STATUS_OK);
    /* Its 20 adapters' room is taken from the pool of 14,500 tokens. */
    assert_in_range(outcome.kv_tokens, 14500 - 20 * 4 * 64, 14500 - 4 * 64);
    assert_true(outcome.predicted.of[SLORA_METRIC_TTFT] > 0);
    assert_true(outcome.predicted.of[SLORA_METRIC_LATENCY] > outcome.predicted.of[SLORA_METRIC_TTFT]);
    slora_case_close(&test);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* Measured: see README, Validation. The bounds leave half as much again. */
static void predictions_are_as_good_as_the_readme_says(void **state)
{
    (void)state;
    static const struct {
        enum slora_gpu gpu;
        enum slora_setting setting;
        enum slora_metric metric;
        double mean;
        double worst;
    } bounds[] = {
        {SLORA_GPU_A10G, SLORA_SETTING_S1, SLORA_METRIC_THROUGHPUT, 0.008, 0.015},
        {SLORA_GPU_A10G, SLORA_SETTING_S1, SLORA_METRIC_LATENCY, 0.025, 0.05},
        {SLORA_GPU_A10G, SLORA_SETTING_S2, SLORA_METRIC_THROUGHPUT, 0.018, 0.05},
        {SLORA_GPU_A10G, SLORA_SETTING_S2, SLORA_METRIC_LATENCY, 0.08, 0.30},
        {SLORA_GPU_A100_80, SLORA_SETTING_S1, SLORA_METRIC_THROUGHPUT, 0.02, 0.03},
        {SLORA_GPU_A100_80, SLORA_SETTING_S2, SLORA_METRIC_THROUGHPUT, 0.10, 0.25},
    };
    static struct slora_outcome outcomes[SLORA_ROWS_MAX];
    const char *directory = test_shared_path("traces/slora-results");

#ifdef __SANITIZE_ADDRESS__
    print_message("skipped under a sanitizer: 56 runs\n");
    skip();
#endif
    if (directory == NULL) {
        print_message("skipped: ../shared/traces/slora-results is not there\n");
        skip();
    }
    assert_int_equal(slora_rows_read(directory, stderr, &rows), STATUS_OK);
    for (uint32_t i = 0; i < rows.count; i++) {
        struct slora_case test;

        assert_int_equal(slora_case_open(&rows.items[i], SCENARIOS, stderr, &test), STATUS_OK);
        assert_int_equal(slora_case_run(&test, NULL, stderr, &outcomes[i]), STATUS_OK);
        slora_case_close(&test);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bounds); i++) {
        struct slora_error error =
            slora_error_of(&rows, outcomes, bounds[i].gpu, bounds[i].setting, bounds[i].metric, false);

        print_message("%s %s %s: %u rows, mean %.2f%%, worst %+.2f%%\n", slora_gpu_name(bounds[i].gpu),
                      slora_setting_name(bounds[i].setting), slora_metric_name(bounds[i].metric), error.count,
                      error.mean * 100, error.worst * 100);
        assert_true(error.count >= 2);
        assert_true(error.mean <= bounds[i].mean);
        assert_true(fabs(error.worst) <= bounds[i].worst);
    }
}

/* The numbers in the files are those that the fit gives: nobody has turned them by hand since. */
static void the_committed_numbers_are_what_the_fit_gives(void **state)
{
    (void)state;
    struct slora_fit fit;
    struct slora_case test;
    const char *directory = test_shared_path("traces/slora-results");

#ifdef __SANITIZE_ADDRESS__
    print_message("skipped under a sanitizer: some 200 evaluations\n");
    skip();
#endif
    if (directory == NULL) {
        print_message("skipped: ../shared/traces/slora-results is not there\n");
        skip();
    }
    assert_int_equal(slora_rows_read(directory, stderr, &rows), STATUS_OK);
    for (uint32_t gpu = 0; gpu < SLORA_GPU_COUNT; gpu++) {
        const struct gpu_profile *profile;

        assert_int_equal(slora_fit(&rows, (enum slora_gpu)gpu, SCENARIOS, stderr, &fit), STATUS_OK);
        assert_int_equal(slora_case_open(fit.rows[0], SCENARIOS, stderr, &test), STATUS_OK);
        profile = &test.set.items[0].pools[0].profile;
        print_message("%s: rms %.4f after %u evaluations\n", slora_gpu_name((enum slora_gpu)gpu), fit.error, fit.evaluations);
        assert_true(fabs(profile->kv_efficiency / fit.profile.kv_efficiency - 1) < 0.01);
        assert_true(fabs(profile->flops_efficiency / fit.profile.flops_efficiency - 1) < 0.01);
        assert_true(fabs(profile->slora_fixed_us / fit.profile.slora_fixed_us - 1) < 0.01);
        assert_true(fabs(profile->slora_rank_us / fit.profile.slora_rank_us - 1) < 0.01);
        assert_true(fabs(profile->fixed_us / fit.profile.fixed_us - 1) < 0.01);
        assert_true(fit.error < 0.05);
        for (uint32_t i = 0; i < fit.rows_count; i++)
            assert_true(fit.rows[i]->setting == SLORA_SETTING_S1);
        slora_case_close(&test);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_read_with_what_the_file_name_says),
        cmocka_unit_test(ablations_are_left_out_by_name),
        cmocka_unit_test(bad_rows_are_refused_with_file_and_line),
        cmocka_unit_test(the_draws_are_those_of_numpy),
        cmocka_unit_test(a_prediction_leaves_no_file_behind),
        cmocka_unit_test(predictions_are_as_good_as_the_readme_says),
        cmocka_unit_test(the_committed_numbers_are_what_the_fit_gives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
