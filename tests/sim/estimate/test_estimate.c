/* The lines of an estimate and how they are written: numbers, arithmetic, what is left out, what is assumed. The
 * formulas themselves are tested beside shared/model. */
#include "estimate/estimate.h"
#include "support.h"

#include <math.h>

static struct estimate estimate;

static struct estimate_question question_of(const char *name)
{
    return (struct estimate_question){
        .shape = *shape_find(name), .rank = 16, .modules = LORA_ALL_LINEAR, .tp = 1, .epochs = 1, .gpus = 1,
        .utilization = 0.4, .host_bytes_per_s = 25e9, .store_bytes_per_s = 1e9,
    };
}

static const struct estimate_line *line(const char *key)
{
    const struct estimate_line *found = estimate_find(&estimate, key);

    if (found == NULL)
        fail_msg("no line %s", key);
    return found;
}

static void near(const char *key, double expected, double tolerance)
{
    if (fabs(line(key)->value - expected) > tolerance)
        fail_msg("%s: got %.9g, expected %.9g", key, line(key)->value, expected);
}

static void written(const char *key, const char *how, const char *value)
{
    char text[ESTIMATE_TEXT_MAX];

    assert_string_equal(line(key)->how, how);
    assert_string_equal(estimate_text(text, line(key)->unit, line(key)->value), value);
}

static void an_8b_estimate_shows_its_arithmetic(void **state)
{
    (void)state;
    struct estimate_question question = question_of("llama-8b");

    question.train_tokens = 30000000;
    question.flops_per_s = 989e12;
    question.resident_jobs = 3;
    estimate_make(&question, &estimate);
    assert_true(line("adapter_parameters")->whole);
    assert_int_equal(line("adapter_parameters")->count, 41943040);
    assert_int_equal(line("adapter_bytes")->count, 83886080);
    assert_int_equal(line("kv_bytes_per_token")->count, 131072);
    near("train_seconds", 2427, 0.5);
    near("train_gpu_hours", 0.674, 0.001);
    near("training_state_bytes", 0.5e9, 0.01e9);
    assert_int_equal(line("shared_base_bytes")->count, UINT64_C(16060522496) + 3 * UINT64_C(503316480));
    written("adapter_parameters", "16 x 81,920 x 32", "41,943,040");
    written("adapter_bytes", "41,943,040 x 2 bytes", "83.9 MB");
    written("adapter_percent_of_base", "83.9 MB / 16.1 GB", "0.52%");
    written("step_weights_bytes", "7,504,924,672 without the input embedding", "15.0 GB");
    written("weights_nominal_bytes", "8,000,000,000 x 16 bits", "16.0 GB");
    written("kv_bytes_per_token", "2 x 32 layers x 8 heads x 128 x 2 bytes", "131,072");
    written("train_flops", "4ND: 4 x 8,000,000,000 x 30,000,000", "960.0 PFLOP");
    written("train_seconds", "960.0 PFLOP / (1 x 989.0 TFLOP/s x 0.4)", "2,427 s (40.4 min)");
    /* It says which N, and why 4. */
    assert_non_null(strstr(estimate.notes[0], "8,000,000,000, nominal"));
    assert_non_null(strstr(estimate.notes[1], "4ND"));
}

static void a_24b_by_average_says_so_and_rounds_openly(void **state)
{
    (void)state;
    struct estimate_question question = question_of("24b-average");

    question.tp = 2;
    question.train_tokens = 10000000;
    question.epochs = 3;
    question.full = true;
    question.gpus = 8;
    question.flops_per_s = 1e15;
    estimate_make(&question, &estimate);
    assert_non_null(strstr(estimate.notes[0], "average"));
    assert_int_equal(line("adapter_parameters")->count, 58240000);
    written("adapter_parameters_rounded", "16 x 13,000 = 208,000, say 210,000, x 280", "58,800,000");
    written("adapter_bytes_rounded", "58,800,000 x 2 bytes", "117.6 MB");
    written("weights_nominal_bytes", "24,000,000,000 x 16 bits", "48.0 GB");
    written("weights_bytes_per_gpu", "48.0 GB / tp 2", "24.0 GB");
    near("train_seconds", 1350, 0.5);
    written("train_tokens", "10,000,000 tokens x 3 epochs", "30,000,000");
    /* Nothing is said of what an average does not know. */
    assert_null(estimate_find(&estimate, "kv_bytes_per_token"));
    assert_null(estimate_find(&estimate, "parameters"));

    question.batch_tokens = 4096;
    estimate_make(&question, &estimate);
    assert_null(estimate_find(&estimate, "training_state_bytes"));
}

static void a_70b_on_8_gpus_trains_in_44_minutes(void **state)
{
    (void)state;
    struct estimate_question question = question_of("llama-70b");

    question.train_tokens = 30000000;
    question.flops_per_s = 989e12;
    question.gpus = 8;
    estimate_make(&question, &estimate);
    near("train_seconds", 2654, 0.5);
}

static void tiers_count_adapters_of_the_size_that_is_given(void **state)
{
    (void)state;
    struct estimate_question question = question_of("mistral-24b");

    question.adapter_bytes = 117000000;
    question.slots_bytes = UINT64_C(12000000000);
    question.host_bytes = UINT64_C(1000000000000);
    question.adapters = 100;
    question.store_first_byte_ms = 30;
    estimate_make(&question, &estimate);
    assert_int_equal(line("adapters_in_slots")->count, 102);
    assert_int_equal(line("adapters_in_host")->count, 8547);
    assert_int_equal(line("adapters_bytes")->count, UINT64_C(11700000000));
    written("load_host_seconds", "117.0 MB / 25.0 GB/s", "4.68 ms");
    written("load_store_seconds", "117.0 MB / 1.00 GB/s + first byte 30.0 ms", "147.0 ms");
    assert_non_null(strstr(estimate.notes[0], "117.0 MB each, as given"));
    /* What the adapter really weighs is still said. */
    written("adapter_bytes", "92,405,760 x 2 bytes", "184.8 MB");

    question = question_of("llama-8b");
    question.adapters = 5000;
    estimate_make(&question, &estimate);
    written("adapters_bytes", "5,000 x 83.9 MB", "419.4 GB");
}

static void demand_adds_up_to_352_gpu_hours_and_14_7_gpus(void **state)
{
    (void)state;
    struct estimate_question question = question_of("llama-8b");

    question.demands_count = 2;
    question.demands[0] = (struct estimate_demand){160, 0.7};
    question.demands[1] = (struct estimate_demand){40, 6};
    estimate_make(&question, &estimate);
    written("demand_gpu_hours_per_day", "160 x 0.7 + 40 x 6", "352.0 GPU-h");
    written("demand_gpus", "352 / 24", "14.7 GPUs");
}

static void a_given_parameter_count_wins_and_a_config_without_a_name_counts(void **state)
{
    (void)state;
    struct estimate_question question = question_of("llama-8b");

    question.train_tokens = 1000;
    question.flops_per_s = 1e15;
    question.shape.parameters_nominal = 0;
    estimate_make(&question, &estimate);
    assert_int_equal(line("train_parameters")->count, 8030261248);
    assert_non_null(strstr(estimate.notes[0], "counted from the config"));
    assert_null(estimate_find(&estimate, "weights_nominal_bytes"));
    question.parameters = 9000000000;
    estimate_make(&question, &estimate);
    assert_int_equal(line("train_parameters")->count, 9000000000);
    assert_non_null(strstr(estimate.notes[0], "as given"));
}

static void every_key_is_unique_with_everything_asked(void **state)
{
    (void)state;
    for (size_t i = 0; shape_at(i) != NULL; i++) {
        struct estimate_question question = question_of(shape_at(i)->name);

        question.tp = 2;
        question.adapter_bytes = 1;
        question.adapters = 1;
        question.slots_bytes = question.host_bytes = 1;
        question.train_tokens = 1;
        question.flops_per_s = 1;
        question.memory_bytes = 80e9;
        question.resident_jobs = 1;
        question.batch_tokens = 1;
        question.demands_count = 1;
        question.merge = (struct merge_steps){.rows = 1, .step_lora_ns = 1, .step_merged_ns = 1};
        estimate_make(&question, &estimate);
        for (uint32_t a = 0; a < estimate.count; a++)
            for (uint32_t b = a + 1; b < estimate.count; b++)
                assert_string_not_equal(estimate.lines[a].key, estimate.lines[b].key);
    }
}

/* 32 rows, 12.5 ms with LoRA, 10 ms merged. */
static void merging_pays_from_the_traffic_that_fills_a_replica(void **state)
{
    (void)state;
    struct estimate_question question = question_of("llama-8b");

    question.merge = (struct merge_steps){.rows = 32, .step_lora_ns = 12500000, .step_merged_ns = 10000000};
    question.merge_adapters = 32;
    question.merge_context = 1024;
    estimate_make(&question, &estimate);
    near("merge_break_even_tokens_per_s", 2560, 1e-9);
    near("merge_carries_tokens_per_s", 3200, 1e-9);
    near("merge_busy_percent", 80, 1e-9);
    near("merge_saves_percent", 25, 1e-9);
}

static void memory_left_is_never_less_than_nothing(void **state)
{
    (void)state;
    struct estimate_question question = question_of("llama-70b");

    question.memory_bytes = 80e9;
    estimate_make(&question, &estimate);
    near("memory_left_bytes_per_gpu", 0, 0);
    question.tp = 4;
    estimate_make(&question, &estimate);
    near("memory_left_bytes_per_gpu", 72e9 - 141107412992.0 / 4, 1e6);
}

static void numbers_are_written_for_people(void **state)
{
    (void)state;
    static const struct {
        enum estimate_unit unit;
        double value;
        const char *text;
    } cases[] = {
        {ESTIMATE_BYTES, 0, "0.00 bytes"},      {ESTIMATE_BYTES, 83886080, "83.9 MB"},
        {ESTIMATE_BYTES, 999.96e6, "1,000 MB"}, {ESTIMATE_BYTES, 1e12, "1.00 TB"},
        {ESTIMATE_SECONDS, 0.00468, "4.68 ms"}, {ESTIMATE_SECONDS, 119.9, "119.9 s"},
        {ESTIMATE_SECONDS, 1350, "1,350 s (22.5 min)"}, {ESTIMATE_SECONDS, 7200, "7,200 s (2.00 h)"},
        {ESTIMATE_SECONDS, 0, "0.00 ns"},       {ESTIMATE_COUNT, 1234567, "1,234,567"},
        {ESTIMATE_COUNT, 12, "12"},             {ESTIMATE_COUNT, 123, "123"},
        {ESTIMATE_GPU_HOURS, 0.674, "0.67 GPU-h"},
    };
    char text[ESTIMATE_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_string_equal(estimate_text(text, cases[i].unit, cases[i].value), cases[i].text);
    assert_string_equal(estimate_count_text(text, UINT64_MAX), "18,446,744,073,709,551,615");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_8b_estimate_shows_its_arithmetic),
        cmocka_unit_test(a_24b_by_average_says_so_and_rounds_openly),
        cmocka_unit_test(a_70b_on_8_gpus_trains_in_44_minutes),
        cmocka_unit_test(tiers_count_adapters_of_the_size_that_is_given),
        cmocka_unit_test(demand_adds_up_to_352_gpu_hours_and_14_7_gpus),
        cmocka_unit_test(a_given_parameter_count_wins_and_a_config_without_a_name_counts),
        cmocka_unit_test(every_key_is_unique_with_everything_asked),
        cmocka_unit_test(merging_pays_from_the_traffic_that_fills_a_replica),
        cmocka_unit_test(memory_left_is_never_less_than_nothing),
        cmocka_unit_test(numbers_are_written_for_people),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
