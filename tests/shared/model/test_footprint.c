/* Every size and time of the arithmetic that the platform's rules rest on, to the precision it is stated in; and the
 * parameter counts that the models' authors publish, which the shapes must meet to the last one. */
#include "model/footprint.h"
#include "support.h"

#include <math.h>
#include <stdio.h>

static const struct shape *shape(const char *name)
{
    const struct shape *found = shape_find(name);

    if (found == NULL)
        fail_msg("no shape %s", name);
    return found;
}

/* `got` rounds to `stated`, whose last digit is worth `unit`. */
static void stated(const char *what, double got, double figure, double unit)
{
    if (fabs(got - figure) > unit / 2)
        fail_msg("%s: got %.6g, stated %.6g", what, got, figure);
}

static void an_8b_adapter_of_rank_16_is_83_9_mb(void **state)
{
    (void)state;
    const struct shape *llama = shape("llama-8b");

    assert_int_equal(footprint_adapter_parameters_per_rank(llama, LORA_ALL_LINEAR), 81920 * 32);
    assert_int_equal(footprint_adapter_parameters(llama, LORA_ALL_LINEAR, 16), 41943040);
    assert_int_equal(footprint_adapter_bytes(llama, LORA_ALL_LINEAR, 16), 83886080);
    assert_int_equal(footprint_adapter_tensors(llama, LORA_ALL_LINEAR), 2 * 7 * 32);
    stated("MB", 83886080 / 1e6, 83.9, 0.1);
    stated("% of 16 GB", 100 * 83886080.0 / 16e9, 0.5, 0.1);
    /* Nothing is padded at rank 16; rank 17 takes the place of 32; f32 takes twice as much. */
    assert_int_equal(footprint_adapter_packed_bytes(llama, LORA_ALL_LINEAR, 16, 2), 83886080);
    assert_int_equal(footprint_adapter_packed_bytes(llama, LORA_ALL_LINEAR, 17, 2), 2 * 83886080);
    assert_int_equal(footprint_adapter_packed_bytes(llama, LORA_ALL_LINEAR, 1, 4), 2 * 83886080);
    /* q and o 8,192 each, k and v 5,120 each */
    assert_int_equal(footprint_adapter_parameters(llama, LORA_ATTENTION, 8), 8 * 26624 * 32);
    assert_int_equal(footprint_adapter_parameters(llama, 1u << LORA_Q | 1u << LORA_V, 8), 8 * 13312 * 32);
    assert_int_equal(footprint_adapter_parameters(llama, LORA_ALL_LINEAR, 0), 0);
}

static void a_24b_adapter_by_average_is_117_mb_and_by_its_config_185_mb(void **state)
{
    (void)state;
    const struct shape *average = shape("24b-average");
    struct shape made = shape_averaged("mine", 40, 13000);
    uint64_t rounded = footprint_adapter_parameters_rounded(average, LORA_ALL_LINEAR, 16);

    assert_true(average->averaged);
    stated("M parameters", (double)footprint_adapter_parameters(average, LORA_ALL_LINEAR, 16) / 1e6, 58.2, 0.1);
    assert_int_equal(footprint_adapter_parameters(average, LORA_ALL_LINEAR, 16),
                     footprint_adapter_parameters(&made, LORA_ALL_LINEAR, 16));
    assert_int_equal(rounded, 210000 * 7 * 40);
    stated("M parameters", (double)rounded / 1e6, 58.8, 0.1);
    stated("MB", 2 * (double)rounded / 1e6, 117.6, 0.1);
    /* The 117 MB that other figures start from lie between the exact bytes and the rounded ones. */
    stated("MB", (double)footprint_adapter_bytes(average, LORA_ALL_LINEAR, 16) / 1e6, 116.5, 0.1);

    const struct shape *mistral = shape("mistral-24b");

    assert_false(mistral->averaged);
    stated("M parameters", (double)footprint_adapter_parameters(mistral, LORA_ALL_LINEAR, 16) / 1e6, 92.4, 0.1);
    stated("MB", (double)footprint_adapter_bytes(mistral, LORA_ALL_LINEAR, 16) / 1e6, 185, 1);
    stated("GB in bf16", 2 * (double)mistral->parameters_nominal / 1e9, 48, 1);
    assert_true(footprint_weights_bytes(mistral) < UINT64_C(48000000000));
}

static void kv_cache_of_8b_is_131072_bytes_a_token(void **state)
{
    (void)state;
    assert_int_equal(footprint_kv_bytes_per_token(shape("llama-8b")), 131072);
    assert_int_equal(footprint_kv_bytes_per_token_gpu(shape("llama-8b"), 1), 131072);
    assert_int_equal(footprint_kv_bytes_per_token_gpu(shape("llama-8b"), 2), 65536);
    assert_int_equal(footprint_kv_bytes_per_token_gpu(shape("llama-8b"), 8), 16384);
    /* A head is never cut: more GPUs than heads hold copies. */
    assert_int_equal(footprint_kv_bytes_per_token_gpu(shape("llama-8b"), 16), 16384);
    assert_int_equal(footprint_kv_bytes_per_token(shape("llama-7b")), 2 * 32 * 4096 * 2);
}

static void slots_host_and_store_hold_what_they_are_said_to(void **state)
{
    (void)state;
    assert_int_equal(footprint_fit_count(UINT64_C(12000000000), 117000000), 102);
    assert_int_equal(footprint_fit_count(UINT64_C(1000000000000), 117000000), 8547);
    assert_int_equal(footprint_fit_count(99, 100), 0);
    assert_int_equal(footprint_fit_count(100, 100), 1);
    stated("GB", 5000 * 84e6 / 1e9, 420, 1);

    double adapter = (double)footprint_adapter_bytes(shape("llama-8b"), LORA_ALL_LINEAR, 16);

    stated("GB, unrounded", 5000 * adapter / 1e9, 419.4, 0.1);
    stated("GB", 100 * adapter / 1e9, 8.4, 0.1);
}

static void a_decode_step_of_8b_reads_15_0_gb(void **state)
{
    (void)state;
    const struct shape *llama = shape("llama-8b");
    const struct shape *tied = shape("llama-1b");

    stated("GB", (double)footprint_step_weights_bytes(llama) / 1e9, 15.0, 0.1);
    assert_int_equal(footprint_parameters(llama) - footprint_step_parameters(llama),
                     footprint_embedding_parameters(llama));
    assert_int_equal(footprint_embedding_parameters(llama), 128256 * 4096);
    /* A tied table is read as the head. */
    assert_int_equal(footprint_parameters(tied), footprint_step_parameters(tied));
}

static void quantised_weights_keep_their_embeddings_at_16_bits(void **state)
{
    (void)state;
    struct shape four = *shape("llama-8b");
    uint64_t tables = 2 * footprint_embedding_parameters(&four);
    uint64_t norms = (2 * 32 + 1) * 4096;
    uint64_t matrices = footprint_parameters(&four) - tables - norms;

    four.weight_bits = 4;
    assert_int_equal(footprint_weights_bytes(&four), matrices / 2 + 2 * (tables + norms));
    four.weight_bits = 32;
    assert_int_equal(footprint_weights_bytes(&four), 4 * footprint_parameters(&four));
}

static void serving_activations_follow_the_budget(void **state)
{
    (void)state;
    assert_int_equal(footprint_serving_activation_bytes_gpu(shape("llama-8b"), 2048, 1),
                     UINT64_C(2048) * (4 * 4096 + 3 * 14336) * 2);
    assert_int_equal(footprint_serving_activation_bytes_gpu(shape("llama-8b"), 2048, 4),
                     UINT64_C(2048) * (4 * 4096 + 3 * 3584) * 2);
}

static void shapes_have_the_parameters_their_authors_publish(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t parameters;
    } published[] = {
        {"tinyllama-1.1b", 1100048384},  {"llama-1b", 1235814400},      {"llama-3b", 3212749824},
        {"llama-7b", 6738415616},        {"llama-8b", 8030261248},      {"llama-13b", 13015864320},
        {"llama-30b", 32528943616},      {"llama2-70b", 68976648192},   {"llama-70b", 70553706496},
        {"llama-405b", 405853388800},    {"mistral-7b", 7241732096},    {"mistral-24b", 23572403200},
        {"qwen2.5-0.5b", 494032768},     {"qwen2.5-1.5b", 1543714304},  {"qwen2.5-7b", 7615616512},
        {"qwen2.5-14b", 14770033664},    {"qwen2.5-32b", 32763876352},  {"qwen2.5-72b", 72706203648},
        {"phi-3-mini", 3821079552},
    };

    for (size_t i = 0; i < ARRAY_COUNT(published); i++) {
        uint64_t got = footprint_parameters(shape(published[i].name));

        if (got != published[i].parameters)
            fail_msg("%s: got %llu, published %llu", published[i].name, (unsigned long long)got,
                     (unsigned long long)published[i].parameters);
    }
    /* All but the averaged one are in the list above. */
    assert_null(shape_at(ARRAY_COUNT(published) + 1));
}

static void every_shape_we_ship_is_valid_and_found_by_its_name(void **state)
{
    (void)state;
    size_t count = 0;

    for (const struct shape *each; (each = shape_at(count)) != NULL; count++) {
        const char *field = "";
        const char *rule = "";

        if (shape_validate(each, &field, &rule) != STATUS_OK)
            fail_msg("%s: %s %s", each->name, field, rule);
        assert_ptr_equal(shape_find(each->name), each);
        if (each->averaged)
            continue;
        /* A name promises roughly the truth; Llama's 1B, with 1.24, is the furthest off. */
        double promise = (double)each->parameters_nominal / (double)footprint_parameters(each);

        if (promise < 0.8 || promise > 1.1)
            fail_msg("%s promises %.3f of itself", each->name, promise);
    }
    assert_true(count > 10);
    assert_null(shape_find("llama-9b"));
    assert_null(shape_find(""));
}

static void a_bad_shape_is_refused_by_its_field(void **state)
{
    (void)state;
    struct shape cases[9];
    static const char *const fields[ARRAY_COUNT(cases)] = {
        "layers", "hidden", "kv_heads", "heads", "weight_bits", "ffn", "vocabulary", "averaged_sum", "head_dim",
    };
    const char *field;
    const char *rule;

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        cases[i] = *shape("llama-8b");
    cases[0].layers = 0;
    cases[1].hidden = 2000000;
    cases[2].kv_heads = 33;
    cases[3].kv_heads = 5;
    cases[4].weight_bits = 15;
    cases[5].ffn = 0;
    cases[6].vocabulary = UINT32_MAX;
    cases[7] = shape_averaged("x", 40, 0);
    cases[8].head_dim = 0;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        field = rule = NULL;
        assert_int_equal(shape_validate(&cases[i], &field, &rule), STATUS_INVALID);
        assert_string_equal(field, fields[i]);
        assert_true(strncmp(rule, "must", 4) == 0 || strncmp(rule, "times", 5) == 0);
    }
}

static void a_long_name_is_cut(void **state)
{
    (void)state;
    char name[100];

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(strlen(shape_averaged(name, 1, 1).name), SHAPE_NAME_MAX - 1);
}

static void loads_take_4_7_ms_from_the_host_and_117_ms_from_the_store(void **state)
{
    (void)state;
    stated("ms", (double)footprint_transfer_ns(117000000, 25e9, 0) / 1e6, 4.7, 0.1);
    stated("ms", (double)footprint_transfer_ns(117000000, 1e9, 0) / 1e6, 117, 1);
    assert_int_equal(footprint_transfer_ns(117000000, 1e9, 30 * NS_PER_MS), 147 * NS_PER_MS);
    /* Up to a whole nanosecond, and nothing takes nothing. */
    assert_int_equal(footprint_transfer_ns(1, 3e9, 0), 1);
    assert_int_equal(footprint_transfer_ns(0, 3e9, 0), 0);
    assert_int_equal(footprint_transfer_ns(3, 1e9, 0), 3);
}

static double train_seconds(uint64_t parameters, uint64_t tokens, uint32_t per, uint32_t gpus, double flops_per_s)
{
    return footprint_training_seconds(footprint_training_flops(parameters, tokens, per), gpus, flops_per_s, 0.4);
}

static void training_takes_1350_2427_and_2654_seconds(void **state)
{
    (void)state;
    uint64_t n24 = shape("24b-average")->parameters_nominal;
    uint64_t n8 = shape("llama-8b")->parameters_nominal;
    uint64_t n70 = shape("llama-70b")->parameters_nominal;

    stated("24B full", train_seconds(n24, 3 * UINT64_C(10000000), TRAIN_FLOPS_FULL, 8, 1e15), 1350, 1);
    stated("8B LoRA", train_seconds(n8, 30000000, TRAIN_FLOPS_LORA, 1, 989e12), 2427, 1);
    stated("70B LoRA", train_seconds(n70, 30000000, TRAIN_FLOPS_LORA, 8, 989e12), 2654, 1);
}

static void a_job_beside_a_resident_base_needs_half_a_gigabyte(void **state)
{
    (void)state;
    const struct shape *llama = shape("llama-8b");
    struct training_bytes bytes = footprint_training_bytes(llama, LORA_ALL_LINEAR, 16, 0);

    stated("MB of weights", (double)bytes.adapter / 1e6, 84, 1);
    stated("MB of gradients", (double)bytes.gradients / 1e6, 84, 1);
    stated("MB of moments", (double)bytes.moments / 1e6, 336, 1);
    stated("GB", (double)bytes.total / 1e9, 0.5, 0.1);
    assert_int_equal(bytes.activations, 0);

    uint64_t one = footprint_shared_base_bytes(llama, 1, bytes.total);
    uint64_t four = footprint_shared_base_bytes(llama, 4, bytes.total);

    assert_int_equal(four - one, 3 * bytes.total);
    assert_int_equal(one - bytes.total, footprint_weights_bytes(llama));

    struct training_bytes live = footprint_training_bytes(llama, LORA_ALL_LINEAR, 16, 4096);

    assert_int_equal(live.total, bytes.total + live.activations);
    assert_int_equal(live.activations, UINT64_C(4096) * (2 * (4 * 4096 + 3 * 14336) + 2 * 32 * 4096 + 4 * 128256));
}

static void ask_weights(void *context)
{
    footprint_weights_bytes(context);
}
static void ask_kv(void *context)
{
    footprint_kv_bytes_per_token(context);
}
static void ask_unknown_module(void *context)
{
    footprint_adapter_parameters(context, 1u << LORA_MODULE_COUNT, 1);
}
static void ask_rounded(void *context)
{
    footprint_adapter_parameters_rounded(context, LORA_ALL_LINEAR, 16);
}

static void what_an_average_does_not_know_is_not_answered(void **state)
{
    (void)state;
    struct shape average = *shape("24b-average");
    struct shape real = *shape("llama-8b");

    assert_true(check_stops(ask_weights, &average));
    assert_true(check_stops(ask_kv, &average));
    assert_true(check_stops(ask_unknown_module, &average));
    assert_true(check_stops(ask_unknown_module, &real));
    assert_true(check_stops(ask_rounded, &real));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_8b_adapter_of_rank_16_is_83_9_mb),
        cmocka_unit_test(a_24b_adapter_by_average_is_117_mb_and_by_its_config_185_mb),
        cmocka_unit_test(kv_cache_of_8b_is_131072_bytes_a_token),
        cmocka_unit_test(slots_host_and_store_hold_what_they_are_said_to),
        cmocka_unit_test(a_decode_step_of_8b_reads_15_0_gb),
        cmocka_unit_test(quantised_weights_keep_their_embeddings_at_16_bits),
        cmocka_unit_test(serving_activations_follow_the_budget),
        cmocka_unit_test(shapes_have_the_parameters_their_authors_publish),
        cmocka_unit_test(every_shape_we_ship_is_valid_and_found_by_its_name),
        cmocka_unit_test(a_bad_shape_is_refused_by_its_field),
        cmocka_unit_test(a_long_name_is_cut),
        cmocka_unit_test(loads_take_4_7_ms_from_the_host_and_117_ms_from_the_store),
        cmocka_unit_test(training_takes_1350_2427_and_2654_seconds),
        cmocka_unit_test(a_job_beside_a_resident_base_needs_half_a_gigabyte),
        cmocka_unit_test(what_an_average_does_not_know_is_not_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
