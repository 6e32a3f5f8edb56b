/* The step formula term by term against arithmetic done by hand for an 8B model (32 layers, hidden 4,096, 32 heads of 128, 8
 * of them KV, FFN 14,336, vocabulary 128,256), and the shipped profiles against published measurements. */
#include <math.h>
#include <stdio.h>

#include "hardware/step.h"
#include "model/footprint.h"
#include "support.h"

/* Parameters that a token meets: 32 x (q 4096^2 + k, v 2 x 4096 x 1024 + o 4096^2 + 3 x 4096 x 14336), the head 4096 x 128256,
 * 65 norms of 4096. */
#define PARAMETERS 7504924672.0
#define WEIGHTS_BYTES 15009849344.0
#define KV_BYTES_PER_TOKEN 131072.0
#define RANK_PARAMETERS 2621440.0 /* all seven matrices, a unit of rank */

static struct gpu_profile profile_of(const char *name)
{
    struct gpu_profile profile;

    assert_int_equal(profile_read(name, "scenarios", stderr, &profile), STATUS_OK);
    return profile;
}

static struct step_model model_of(const char *gpu, const char *shape, uint32_t tp, enum lora_cost cost)
{
    struct gpu_profile profile = profile_of(gpu);
    struct step_model model;

    step_model_init(&model, &profile, shape_find(shape), tp, LORA_ALL_LINEAR, cost, 0);
    return model;
}

static void assert_near(const char *what, double got, double wanted, double share)
{
    if (!(fabs(got - wanted) <= fabs(wanted) * share))
        fail_msg("%s: %.9g, by hand %.9g", what, got, wanted);
}

#define EXACTLY 1e-12

/* What adding `more` to `load` adds to the step. */
static double difference_ns(const struct step_model *model, struct step_load load, struct step_load more)
{
    double before_ns = step_time_ns(model, &load);

    load.rows += more.rows;
    load.decode_rows += more.decode_rows;
    load.prefill_tokens += more.prefill_tokens;
    load.adapters += more.adapters;
    load.kv_tokens += more.kv_tokens;
    load.adapter_bytes += more.adapter_bytes;
    load.adapter_ranks += more.adapter_ranks;
    load.rank_tokens += more.rank_tokens;
    load.attention_area += more.attention_area;
    return step_time_ns(model, &load) - before_ns;
}

static void one_decode_step_reads_the_weights_once(void **state)
{
    (void)state;
    struct step_model model = model_of("h100", "llama-8b", 1, LORA_COST_OURS);
    struct step_load one = {.rows = 1, .decode_rows = 1};

    /* 15.0 GB at 80% of 3,350 GB/s are 5.6 ms; 1.5 ms and 30 us come on top. */
    assert_near("weights", model.weights_ns, WEIGHTS_BYTES / (3.35e12 * 0.80) * 1e9, EXACTLY);
    assert_near("weights, ms", model.weights_ns * 1e-6, 5.6007, 1e-5);
    assert_near("step", step_time_ns(&model, &one), model.weights_ns + 1500e3 + 30e3, EXACTLY);
    /* 21 rows more compute nothing that the weights' reading does not hide. */
    assert_near("rows", difference_ns(&model, one, (struct step_load){.rows = 21, .decode_rows = 21}), 21 * 30e3, 1e-9);
}

static void kv_is_read_at_its_own_efficiency(void **state)
{
    (void)state;
    struct step_model model = model_of("h100", "llama-8b", 1, LORA_COST_OURS);
    struct step_load load = {.rows = 12, .decode_rows = 12};
    double added_ns = difference_ns(&model, load, (struct step_load){.kv_tokens = 10000});

    assert_near("KV of 10,000 tokens", added_ns, 10000 * KV_BYTES_PER_TOKEN / (3.35e12 * 0.70) * 1e9, 1e-9);
    assert_near("in us", added_ns * 1e-3, 558.94, 1e-4);
}

static void a_long_prefill_is_bound_by_arithmetic(void **state)
{
    (void)state;
    struct step_model model = model_of("h100", "llama-8b", 1, LORA_COST_OURS);
    struct step_load load = {.rows = 1, .prefill_tokens = 2048, .attention_area = 2048 * (0 + 2048 / 2.0)};
    double linear_ns = 2 * PARAMETERS * 2048 / (989e12 * 0.55) * 1e9;
    double attention_ns = 4.0 * 32 * 32 * 128 * 2048 * 1024 / (989e12 * 0.40) * 1e9;

    assert_near("linear, ms", linear_ns * 1e-6, 56.513, 1e-4);
    assert_near("attention, ms", attention_ns * 1e-6, 2.7793, 1e-4);
    assert_near("step", step_time_ns(&model, &load), linear_ns + attention_ns + 1500e3 + 30e3, EXACTLY);
    /* Where arithmetic overtakes reading: below it the weights are the time of the linear layers, above it the FLOPs. */
    load.attention_area = 0;
    load.prefill_tokens = 202;
    assert_near("202 tokens", step_time_ns(&model, &load), WEIGHTS_BYTES / (3.35e12 * 0.80) * 1e9 + 1530e3, EXACTLY);
    load.prefill_tokens = 203;
    assert_near("203 tokens", step_time_ns(&model, &load), 2 * PARAMETERS * 203 / (989e12 * 0.55) * 1e9 + 1530e3, EXACTLY);
}

static void two_gpus_halve_the_work_and_talk_twice_a_layer(void **state)
{
    (void)state;
    struct step_model one = model_of("h100", "llama-8b", 1, LORA_COST_OURS);
    struct step_model two = model_of("h100", "llama-8b", 2, LORA_COST_OURS);
    struct step_load load = {.rows = 12, .decode_rows = 12, .kv_tokens = 10000};
    /* 64 all-reduces of 12 x 4,096 x 2 bytes: 8 us each, and 2 (2 - 1) / 2 = 1 times their bytes over 450 GB/s. */
    double comm_ns = 64 * (8000 + 12 * 4096 * 2 / 450e9 * 1e9);

    assert_near("communication, us", comm_ns * 1e-3, 525.98, 1e-4);
    assert_near("step", step_time_ns(&two, &load),
                1500e3 + 12 * 30e3 + WEIGHTS_BYTES / 2 / (3.35e12 * 0.80) * 1e9 +
                    10000 * KV_BYTES_PER_TOKEN / 2 / (3.35e12 * 0.70) * 1e9 + comm_ns,
                EXACTLY);
    assert_near("attention", two.attention_ns_per_area * 2, one.attention_ns_per_area, EXACTLY);
    assert_near("LoRA's FLOPs", two.lora_ns_per_rank_token * 2, one.lora_ns_per_rank_token, EXACTLY);
    assert_near("LoRA's bytes", two.lora_ns_per_byte * 2, one.lora_ns_per_byte, EXACTLY);
    /* 8 KV heads on 16 GPUs: each holds one, so KV shrinks no further. */
    assert_near("KV heads", model_of("h100", "llama-8b", 16, LORA_COST_OURS).kv_ns_per_token,
                model_of("h100", "llama-8b", 8, LORA_COST_OURS).kv_ns_per_token, EXACTLY);
}

static void our_kernels_pay_launches_bytes_and_arithmetic_by_true_rank(void **state)
{
    (void)state;
    struct step_model model = model_of("h100", "llama-8b", 1, LORA_COST_OURS);
    struct step_load load = {.rows = 12, .decode_rows = 12};
    /* Three rows of rank 16 and one of rank 64: two adapters, 83,886,080 and 335,544,320 bytes. */
    struct step_load lora = {.adapters = 2, .adapter_bytes = 419430400, .adapter_ranks = 80, .rank_tokens = 3 * 16 + 64};
    double launches_ns = 8 * 32 * 2.25e3;
    double bytes_ns = 419430400 / (3.35e12 * 0.60) * 1e9;
    double flops_ns = 2 * RANK_PARAMETERS * 112 / (989e12 * 0.20) * 1e9;

    assert_near("launches, us", launches_ns * 1e-3, 576, EXACTLY);
    assert_near("bytes, us", bytes_ns * 1e-3, 208.67, 1e-4);
    assert_near("LoRA", difference_ns(&model, load, lora), launches_ns + bytes_ns + flops_ns, 1e-9);
    /* A second row of an adapter that is there already adds its tokens' arithmetic alone. */
    load.adapters = 2;
    assert_near("one row more", difference_ns(&model, load, (struct step_load){.rank_tokens = 16}),
                2 * RANK_PARAMETERS * 16 / (989e12 * 0.20) * 1e9, 1e-6);
}

/* ITL x (200.01 + 1.930 D) / 100, whatever the ranks. */
static void vllm_multiplies_a_decode_step(void **state)
{
    (void)state;
    struct step_model model = model_of("h100", "llama-8b", 1, LORA_COST_VLLM);
    struct step_load base = {.rows = 12, .decode_rows = 12, .kv_tokens = 10000};

    for (uint32_t distinct = 1; distinct <= 12; distinct++) {
        struct step_load load = base;

        load.adapters = distinct;
        load.adapter_bytes = distinct * UINT64_C(83886080);
        load.rank_tokens = 12 * 64;
        assert_near("factor", step_time_ns(&model, &load) / step_time_ns(&model, &base), 2.0001 + 0.0193 * distinct, 1e-12);
    }
}

static void slora_pays_the_sum_of_ranks(void **state)
{
    (void)state;
    struct step_model model = model_of("a10g", "llama-7b", 1, LORA_COST_SLORA);
    struct gpu_profile profile = profile_of("a10g");
    struct step_load load = {.rows = 12, .decode_rows = 12};
    struct step_load first = {.adapters = 1, .adapter_ranks = 8};
    double first_ns = difference_ns(&model, load, first);

    assert_near("one adapter", first_ns, profile.slora_fixed_us * 1e3 + 8 * profile.slora_rank_us * 1e3, 1e-9);
    load.adapters = 1;
    assert_near("another of rank 64", difference_ns(&model, load, (struct step_load){.adapters = 1, .adapter_ranks = 64}),
                64 * profile.slora_rank_us * 1e3, 1e-6);
}

static void a_step_without_adapters_costs_the_same_whoever_made_the_kernels(void **state)
{
    (void)state;
    struct step_load load = {.rows = 3, .decode_rows = 2, .prefill_tokens = 100, .kv_tokens = 5000, .attention_area = 5000};
    struct step_model ours = model_of("h100", "llama-8b", 2, LORA_COST_OURS);
    struct step_model vllm = model_of("h100", "llama-8b", 2, LORA_COST_VLLM);
    struct step_model slora = model_of("h100", "llama-8b", 2, LORA_COST_SLORA);

    assert_true(step_time_ns(&ours, &load) == step_time_ns(&vllm, &load));
    assert_true(step_time_ns(&ours, &load) == step_time_ns(&slora, &load));
}

/* The line that folding uses is the formula itself, to the last bit. */
static void the_line_over_kv_is_the_formula(void **state)
{
    (void)state;
    static const enum lora_cost costs[] = {LORA_COST_OURS, LORA_COST_VLLM, LORA_COST_SLORA};
    uint64_t random = test_seed(11);

    for (size_t c = 0; c < ARRAY_COUNT(costs); c++) {
        struct step_model model = model_of("a100-80", "llama-8b", 1, costs[c]);

        for (uint32_t i = 0; i < 1000; i++) {
            struct step_load load = {.rows = 1 + (uint32_t)draw_below(&random, 64), .adapters = (uint32_t)draw_below(&random, 5)};
            struct step_line line;

            load.decode_rows = load.rows;
            load.adapter_bytes = load.adapters * UINT64_C(83886080);
            load.rank_tokens = load.adapters * 16;
            line = step_line(&model, &load);
            load.kv_tokens = draw_below(&random, 1000000);
            assert_true(step_time_ns(&model, &load) == step_line_ns(&line, load.kv_tokens));
        }
    }
}

static void jitter_stays_in_its_width_and_hangs_on_the_step_alone(void **state)
{
    (void)state;
    enum { STEPS = 100000 };
    struct step_model model = model_of("h100", "llama-8b", 1, LORA_COST_OURS);
    double first[100];
    double sum = 0;
    double least = 2;
    double most = 0;

    model.jitter = 0.2;
    for (uint64_t step = 0; step < STEPS; step++) {
        double factor = step_jitter(&model, 7, step);

        if (step < ARRAY_COUNT(first))
            first[step] = factor;
        least = fmin(least, factor);
        most = fmax(most, factor);
        sum += factor;
    }
    assert_true(least >= 0.9 && least < 0.9001 && most <= 1.1 && most > 1.0999);
    assert_near("mean", sum / STEPS, 1, 4 * 0.2 / sqrt(12.0 * STEPS));
    for (uint64_t step = ARRAY_COUNT(first); step-- > 0;)
        assert_true(step_jitter(&model, 7, step) == first[step]);
    assert_true(step_jitter(&model, 8, 0) != first[0]);
    model.jitter = 0;
    assert_true(step_jitter(&model, 7, 3) == 1);
}

static double decode_ms(const struct step_model *model, uint32_t rows, uint32_t context_tokens)
{
    struct step_load load = {.rows = rows, .decode_rows = rows, .kv_tokens = (uint64_t)rows * context_tokens};

    return step_time_ns(model, &load) * 1e-6;
}

static void within(const char *what, double predicted, double measured, double share)
{
    print_message("%s: predicted %.2f, measured %.2f (%+.0f%%)\n", what, predicted, measured, (predicted / measured - 1) * 100);
    assert_near(what, predicted, measured, share);
}

/* Measured with engines of their day and untouched by calibration except where the profile says so; the tolerance is what is
 * claimed, no more. */
static void shipped_profiles_are_near_published_measurements(void **state)
{
    (void)state;
    struct gpu_profile a100_40 = profile_of("a100-80");
    struct step_model model;
    struct step_load prompt = {.rows = 1, .prefill_tokens = 2048, .attention_area = 2048 * 1024.0};

    a100_40.memory_bytes_per_s = 1555e9;
    step_model_init(&model, &a100_40, shape_find("llama-8b"), 1, LORA_ALL_LINEAR, LORA_COST_OURS, 0);
    within("8B, A100-40, batch 1, ms a token (vLLM 0.23)", decode_ms(&model, 1, 1088), 13.3, 0.03);
    model = model_of("h100", "llama-8b", 1, LORA_COST_OURS);
    within("8B, H100, batch 1, ms a token (vLLM Sep 2024)", decode_ms(&model, 1, 100), 7.1, 0.03);
    within("8B, H100, batch 10, ms a token (vLLM Sep 2024)", decode_ms(&model, 10, 100), 7.4, 0.03);
    within("8B, H100, prompt tokens a ms, 32 to 38 reported", 2048 / (step_time_ns(&model, &prompt) * 1e-6), 35, 0.09);
    /* The batch's whole latency over its 128 tokens, so its prefill is in the measured number. */
    model = model_of("h200", "llama-8b", 1, LORA_COST_OURS);
    within("8B, H200, batch 8, ms a token (vLLM)", decode_ms(&model, 8, 96), 6.5, 0.10);
    model = model_of("h200", "llama-70b", 4, LORA_COST_OURS);
    within("70B, H200 x 4, batch 8, ms a token (vLLM)", decode_ms(&model, 8, 96), 16.2, 0.25);
}

/* The step of model/merge.h is the step with its rows, its adapters and its prompts' share; merged, it has no adapters. */
static void a_pools_typical_step_is_the_formulas(void **state)
{
    (void)state;
    struct step_model model = model_of("h100", "llama-8b", 1, LORA_COST_OURS);
    struct merge_load load = {.rows = 32, .adapters = 8, .context_tokens = 1200, .rank = 16,
                              .adapter_bytes = 16 * 2 * (uint64_t)RANK_PARAMETERS};
    struct step_load step = {.rows = 32, .decode_rows = 32, .kv_tokens = 32 * 1200};
    struct merge_steps steps = step_merge(&model, &load);

    assert_int_equal(steps.rows, 32);
    assert_near("merged", (double)steps.step_merged_ns, step_time_ns(&model, &step), 1e-7);
    step.adapters = 8;
    step.adapter_bytes = 8 * load.adapter_bytes;
    step.adapter_ranks = 8 * 16;
    step.rank_tokens = 32 * 16;
    assert_near("with LoRA", (double)steps.step_lora_ns, step_time_ns(&model, &step), 1e-7);
    /* Answers of 600 tokens to prompts of 900: 1.5 prompt tokens for each, and 900 + 300 behind a row. */
    load.prompt_ratio = 1.5;
    steps = step_merge(&model, &load);
    step.prefill_tokens = 48;
    step.attention_area = 48 * 450;
    step.rank_tokens = 80 * 16;
    assert_near("with LoRA and prompts", (double)steps.step_lora_ns, step_time_ns(&model, &step), 1e-7);
    step.adapters = 0;
    assert_near("merged, with prompts", (double)steps.step_merged_ns, step_time_ns(&model, &step), 1e-7);
}

/* 8B on an H100: 2 x 16.06 GB at 2.68 TB/s is 12.0 ms, 2 x 64 x 8.03e9 at 198 TFLOP/s another 5.2. */
static void merging_is_a_pass_over_the_weights(void **state)
{
    (void)state;
    struct gpu_profile profile = profile_of("h100");
    double pass_ns = step_merge_pass_ns(&profile, shape_find("llama-8b"), 1, 64);

    assert_near("merge pass", pass_ns, 17.2e6, 0.01);
    assert_near("on two GPUs", step_merge_pass_ns(&profile, shape_find("llama-8b"), 2, 64), pass_ns / 2, EXACTLY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_decode_step_reads_the_weights_once),
        cmocka_unit_test(kv_is_read_at_its_own_efficiency),
        cmocka_unit_test(a_long_prefill_is_bound_by_arithmetic),
        cmocka_unit_test(two_gpus_halve_the_work_and_talk_twice_a_layer),
        cmocka_unit_test(our_kernels_pay_launches_bytes_and_arithmetic_by_true_rank),
        cmocka_unit_test(vllm_multiplies_a_decode_step),
        cmocka_unit_test(slora_pays_the_sum_of_ranks),
        cmocka_unit_test(a_step_without_adapters_costs_the_same_whoever_made_the_kernels),
        cmocka_unit_test(the_line_over_kv_is_the_formula),
        cmocka_unit_test(jitter_stays_in_its_width_and_hangs_on_the_step_alone),
        cmocka_unit_test(a_pools_typical_step_is_the_formulas),
        cmocka_unit_test(merging_is_a_pass_over_the_weights),
        cmocka_unit_test(shipped_profiles_are_near_published_measurements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
