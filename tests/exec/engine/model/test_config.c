/* Configurations: each family's fields, each refusal by its name, and RoPE against numbers reckoned apart from it. */
#include "support.h"

#include <math.h>

#include "exec/scratch.h"

#define DIMS "\"hidden_size\": 64, \"num_hidden_layers\": 5, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, " \
             "\"intermediate_size\": 172, \"vocab_size\": 512, \"max_position_embeddings\": 512"
#define LLAMA "\"architectures\": [\"LlamaForCausalLM\"], " DIMS
#define MISTRAL "\"architectures\": [\"MistralForCausalLM\"], " DIMS
#define QWEN2 "\"architectures\": [\"Qwen2ForCausalLM\"], " DIMS
#define QWEN3 "\"architectures\": [\"Qwen3ForCausalLM\"], " DIMS

static struct model_config taken(const char *text)
{
    struct model_config config;
    struct refusal refusal = {""};

    if (model_config_parse(text, strlen(text), "config.json", &config, &refusal) != STATUS_OK)
        fail_msg("refused: %s", refusal.text);
    return config;
}

static void expect_refused(const char *text, const char *why)
{
    struct model_config config;
    struct refusal refusal = {""};

    assert_int_equal(model_config_parse(text, strlen(text), "config.json", &config, &refusal), STATUS_INVALID);
    if (strstr(refusal.text, why) == NULL)
        fail_msg("expected \"%s\" in: %s", why, refusal.text);
    assert_non_null(strstr(refusal.text, "config.json"));
}

static void each_family_has_its_own_defaults(void **state)
{
    struct model_config llama =
        taken("{" LLAMA ", \"eos_token_id\": [2, 3, 2], \"bos_token_id\": 1, \"torch_dtype\": \"bfloat16\"}");
    struct model_config mistral = taken("{" MISTRAL ", \"sliding_window\": null, \"rms_norm_eps\": 1e-05, \"head_dim\": 16}");
    struct model_config qwen2 =
        taken("{" QWEN2 ", \"use_sliding_window\": false, \"sliding_window\": 4, \"tie_word_embeddings\": true}");
    struct model_config qwen3 = taken("{" QWEN3 ", \"rope_theta\": 1000000, \"dtype\": \"float16\", \"eos_token_id\": 7}");

    (void)state;
    assert_int_equal(llama.dims.head_dim, 8);
    assert_int_equal(llama.eos_count, 2);
    assert_int_equal(llama.eos[1], 3);
    assert_int_equal(llama.bos, 1);
    assert_int_equal(llama.dtype, DTYPE_BF16);
    assert_true(llama.dtype_stated);
    assert_false(llama.qkv_bias || llama.tied_head || llama.qk_norm || llama.o_bias || llama.mlp_bias);
    assert_true(llama.norm_eps == 1e-6f);
    assert_true(llama.rope.theta == 10000);
    assert_int_equal(mistral.dims.head_dim, 16);
    assert_int_equal(mistral.bos, -1);
    assert_int_equal(mistral.eos_count, 0);
    assert_true(mistral.norm_eps == 1e-5f);
    assert_true(qwen2.qkv_bias);
    assert_false(qwen2.o_bias);
    assert_true(qwen2.tied_head);
    assert_true(qwen3.qk_norm);
    assert_false(qwen3.qkv_bias);
    assert_int_equal(qwen3.dims.head_dim, 128);
    assert_int_equal(qwen3.dtype, DTYPE_F16);
    assert_true(qwen3.rope.theta == 1000000);
    llama = taken("{" LLAMA ", \"attention_bias\": true, \"mlp_bias\": true}");
    assert_true(llama.qkv_bias && llama.o_bias && llama.mlp_bias);
    llama = taken("{\"model_type\": \"llama\", " DIMS "}");
    assert_int_equal(llama.family, FAMILY_LLAMA);
}

static void what_is_not_supported_is_refused_by_name(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"{\"architectures\": [\"MixtralForCausalLM\"], " DIMS "}",
         "MixtralForCausalLM is not supported; LlamaForCausalLM"},
        {"{\"architectures\": [\"LlamaForSequenceClassification\"], \"model_type\": \"llama\", " DIMS "}",
         "LlamaForSequenceClassification"},
        {"{" DIMS "}", "(none stated)"},
        {"{\"model_type\": \"gpt2\"}", "gpt2"},
        {"[]", "not a JSON object"},
        {"{", "not a JSON object"},
        {"{" LLAMA ", \"hidden_size\": 64}", "duplicate"},
        {"{" LLAMA ", \"hidden_act\": \"gelu\"}", "hidden_act must be silu; gelu"},
        {"{" LLAMA ", \"quantization_config\": {\"load_in_4bit\": true, \"bnb_4bit_quant_type\": \"nf4\"}}",
         "(bitsandbytes nf4)"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}", "(gptq)"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_method\": \"awq\"}}", "(awq)"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_method\": \"fp8\"}}", "(fp8)"},
        {"{" LLAMA ", \"head_dim\": 7}", "head_dim 7 is odd"},
        {"{" LLAMA ", \"partial_rotary_factor\": 0.5}", "partial_rotary_factor"},
        {"{" LLAMA ", \"eos_token_id\": 512}", "eos_token_id must be ids below vocab_size 512"},
        {"{" LLAMA ", \"eos_token_id\": \"x\"}", "eos_token_id"},
        {"{" LLAMA ", \"torch_dtype\": \"int8\"}", "torch_dtype int8"},
        {"{" LLAMA ", \"tie_word_embeddings\": 1}", "tie_word_embeddings must be true or false"},
        {"{" LLAMA ", \"rms_norm_eps\": 0}", "rms_norm_eps"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}}",
         "type yarn is not supported; linear, dynamic and llama3 are"},
        {"{" LLAMA ", \"rope_scaling\": {\"rope_type\": \"longrope\"}}", "longrope"},
        {"{" LLAMA ", \"rope_scaling\": {\"factor\": 4}}", "(none stated)"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"linear\"}}", "factor is missing"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}}", "factor must be"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8}}",
         "original_max_position_embeddings is missing"},
        {"{" LLAMA
         ", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"original_max_position_embeddings\": 64, "
         "\"low_freq_factor\": 4, \"high_freq_factor\": 1}}",
         "must be above low_freq_factor"},
        {"{" LLAMA ", \"rope_scaling\": 4}", "rope_scaling must be an object"},
        {"{" MISTRAL ", \"sliding_window\": 256}", "sliding_window 256 is below the 512 positions"},
        {"{\"architectures\": [\"MistralForCausalLM\"], \"hidden_size\": 64, \"num_hidden_layers\": 5, \"num_attention_heads\": 8, "
         "\"intermediate_size\": 172, \"vocab_size\": 512, \"max_position_embeddings\": 32768}",
         "set sliding_window to null and max_position_embeddings to 4096"},
        {"{" QWEN2 ", \"use_sliding_window\": true, \"sliding_window\": 256}", "sliding_window 256"},
        {"{" QWEN3 ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
         "layer 1 is not of full_attention"},
        {"{\"architectures\": [\"LlamaForCausalLM\"]}", "hidden_size is missing"},
        {"{\"architectures\": [\"LlamaForCausalLM\"]}", "vocab_size is missing"},
        {"{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64, \"num_hidden_layers\": 5, \"num_attention_heads\": 8, "
         "\"num_key_value_heads\": 3, \"intermediate_size\": 172, \"vocab_size\": 512, \"max_position_embeddings\": 512}",
         "does not divide"},
        {"{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": -4}",
         "hidden_size must be a whole number from 1"},
        {"{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64.0}", "hidden_size must be a whole number"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        expect_refused(cases[i].text, cases[i].why);
    /* A window that never closes is none. */
    taken("{" MISTRAL ", \"sliding_window\": 512}");
    taken("{" QWEN2 ", \"use_sliding_window\": true, \"sliding_window\": 4096}");
    taken("{" QWEN3 ", \"layer_types\": [\"full_attention\", \"full_attention\"]}");
}

/* Not by bytes: a struct has holes. */
static void expect_equal_ropes(const struct rope *a, const struct rope *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_true(a->theta == b->theta && a->factor == b->factor);
    assert_true(a->low_freq_factor == b->low_freq_factor && a->high_freq_factor == b->high_freq_factor);
    assert_int_equal(a->positions_trained, b->positions_trained);
}

static void scalings_are_read_in_both_forms(void **state)
{
    struct model_config old =
        taken("{" LLAMA ", \"rope_theta\": 500000.0, \"rope_scaling\": {\"factor\": 8.0, \"low_freq_factor\": 1.0, "
              "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64, \"rope_type\": \"llama3\"}}");
    struct model_config new =
        taken("{" LLAMA ", \"rope_parameters\": {\"rope_theta\": 500000.0, \"factor\": 8.0, \"low_freq_factor\": 1.0, "
              "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64, \"rope_type\": \"llama3\"}}");
    struct model_config plain = taken("{" LLAMA ", \"rope_parameters\": {\"rope_theta\": 5000, \"rope_type\": \"default\"}}");
    struct model_config linear = taken("{" LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}");
    struct model_config dynamic = taken("{" LLAMA ", \"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 4.0, "
                                        "\"original_max_position_embeddings\": 128}}");

    (void)state;
    expect_equal_ropes(&old.rope, &new.rope);
    assert_int_equal(old.rope.kind, ROPE_LLAMA3);
    assert_int_equal(old.rope.positions_trained, 64);
    assert_int_equal(old.positions_max, 512);
    assert_int_equal(plain.rope.kind, ROPE_PLAIN);
    assert_true(plain.rope.theta == 5000);
    assert_int_equal(linear.rope.kind, ROPE_LINEAR);
    assert_int_equal(linear.positions_max, 1024);
    assert_int_equal(dynamic.positions_max, 512);
    assert_int_equal(dynamic.rope.positions_trained, 128);
}

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12 * fabs(want)))
        fail_msg("got %.17g, want %.17g", got, want);
}

/* theta 10000, head of 8: 1, 1/10, 1/100, 1/1000. */
static void frequencies_equal_what_was_reckoned_by_hand(void **state)
{
    struct model_config config = {
        .dims = {.head_dim = 8}, .positions_max = 64, .rope = {.kind = ROPE_PLAIN, .theta = 10000, .factor = 1}};

    (void)state;
    near(rope_frequency(&config, 64, 0), 1);
    near(rope_frequency(&config, 64, 1), 0.1);
    near(rope_frequency(&config, 64, 3), 0.001);
    config.rope = (struct rope){.kind = ROPE_LINEAR, .theta = 10000, .factor = 4};
    near(rope_frequency(&config, 64, 0), 0.25);
    near(rope_frequency(&config, 64, 2), 0.0025);
    /* factor 2, trained on 32: at most 32 positions change nothing; at 64 theta' = 10000 * (2 * 2 - 1)^(8/6) = 43267.487109222245,
     * so pair 1 turns by theta'^(-1/4) = 3^(-1/3) / 10 = 0.0693361274350634... */
    config.rope = (struct rope){.kind = ROPE_DYNAMIC, .theta = 10000, .factor = 2, .positions_trained = 32};
    near(rope_frequency(&config, 20, 1), 0.1);
    near(rope_frequency(&config, 32, 3), 0.001);
    near(rope_frequency(&config, 64, 0), 1);
    near(rope_frequency(&config, 64, 1), 0.069336127435063470);
    near(rope_frequency(&config, 64, 3), 0.001 / 3);
    /* factor 8, low 1, high 4, trained on 512: wavelengths 6.28, 62.8, 628, 6283; plain below 512 / 4 = 128, divided by
     * 8 above 512. */
    config.rope = (struct rope){.kind = ROPE_LLAMA3, .theta = 10000, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4,
                                .positions_trained = 512};
    near(rope_frequency(&config, 64, 0), 1);
    near(rope_frequency(&config, 64, 1), 0.1);
    near(rope_frequency(&config, 64, 2), 0.00125);
    near(rope_frequency(&config, 64, 3), 0.000125);
    /* Between: trained on 2048, pair 2 has 2048 / (200 pi) = 3.2594932345220167, s = 0.7531644115073389, 1/100 * (s +
     * (1 - s) / 8). */
    config.rope.positions_trained = 2048;
    near(rope_frequency(&config, 64, 2), 0.0078401886006892155);
}

static void angles_lie_where_the_ops_look(void **state)
{
    struct model_config config = {
        .dims = {.head_dim = 4}, .positions_max = 3, .rope = {.kind = ROPE_PLAIN, .theta = 10000, .factor = 1}};
    float angles[3][4];

    (void)state;
    rope_angles(&config, 3, &angles[0][0]);
    assert_true(angles[0][0] == 1 && angles[0][1] == 1 && angles[0][2] == 0 && angles[0][3] == 0);
    /* cos 2, cos 0.02, sin 2, sin 0.02. */
    assert_true(angles[2][0] == (float)-0.4161468365471424);
    assert_true(angles[2][1] == (float)0.9998000066665778);
    assert_true(angles[2][2] == (float)0.9092974268256817);
    assert_true(angles[2][3] == (float)0.01999866669333308);
}

static void what_is_written_is_parsed_to_the_same(void **state)
{
    (void)state;
    for (enum model_family family = 0; family < FAMILY_COUNT; family++)
        for (enum rope_kind kind = 0; kind < ROPE_KIND_COUNT; kind++) {
            struct model_config config = tiny_config(family);
            struct model_config again;
            char *text;

            config.rope.kind = kind;
            if (kind != ROPE_PLAIN) {
                config.rope.factor = 2.5;
                config.rope.positions_trained = 64;
            }
            if (kind == ROPE_LLAMA3) {
                config.rope.low_freq_factor = 1;
                config.rope.high_freq_factor = 4;
            }
            config.tied_head = kind == ROPE_LINEAR;
            config.dtype_stated = true;
            config.dtype = DTYPE_BF16;
            text = model_config_text(&config, DTYPE_BF16);
            again = taken(text);
            assert_memory_equal(&again.dims, &config.dims, sizeof(config.dims));
            expect_equal_ropes(&again.rope, &config.rope);
            assert_int_equal(again.family, family);
            assert_int_equal(again.positions_max, config.positions_max);
            assert_true(again.norm_eps == config.norm_eps);
            assert_true(again.tied_head == config.tied_head && again.qkv_bias == config.qkv_bias &&
                        again.qk_norm == config.qk_norm);
            assert_int_equal(again.dtype, DTYPE_BF16);
            assert_int_equal(again.eos_count, 1);
            assert_int_equal(again.bos, 1);
            free(text);
        }
}

static void a_folder_without_one_is_not_found(void **state)
{
    struct scratch scratch;
    struct model_config config;
    struct refusal refusal;

    (void)state;
    scratch_begin(&scratch);
    assert_int_equal(model_config_read(scratch.path, &config, &refusal), STATUS_NOT_FOUND);
    scratch_text(&scratch, "config.json", "{" LLAMA ", \"eos_token_id\": 2}");
    assert_int_equal(model_config_read(scratch.path, &config, &refusal), STATUS_OK);
    assert_int_equal(config.eos_count, 1);
    scratch_end(&scratch);
}

static void the_reference_models_are_read(void **state)
{
    static const char *const folders[] = {"models/stories260k", "models/stories260k-bf16", "models/stories260k-sharded"};
    struct refusal refusal = {""};
    struct model_config config;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(folders); i++) {
        const char *path = test_shared_path(folders[i]);

        if (path == NULL) {
            print_message("skipped: ../shared/models is not there\n");
            skip();
        }
        if (model_config_read(path, &config, &refusal) != STATUS_OK)
            fail_msg("%s", refusal.text);
        assert_int_equal(config.dims.ffn, 172);
        assert_int_equal(config.dtype, i == 1 ? DTYPE_BF16 : DTYPE_F32);
        assert_true(config.tied_head);
        assert_int_equal(model_parameters(&config), 260032);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_family_has_its_own_defaults),
        cmocka_unit_test(what_is_not_supported_is_refused_by_name),
        cmocka_unit_test(scalings_are_read_in_both_forms),
        cmocka_unit_test(frequencies_equal_what_was_reckoned_by_hand),
        cmocka_unit_test(angles_lie_where_the_ops_look),
        cmocka_unit_test(what_is_written_is_parsed_to_the_same),
        cmocka_unit_test(a_folder_without_one_is_not_found),
        cmocka_unit_test(the_reference_models_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
