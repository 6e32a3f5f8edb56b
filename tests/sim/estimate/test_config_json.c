/* Reading a model's config.json: what authors write, what they leave out, and what is refused by name. */
#include "estimate/config_json.h"
#include "model/footprint.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>

static char said[512];

/* Parses with the errors kept in `said`. */
static enum status parse(const char *text, struct shape *ret_shape)
{
    char *buffer = NULL;
    size_t bytes = 0;
    FILE *errors = open_memstream(&buffer, &bytes);
    enum status status;

    assert_non_null(errors);
    status = config_json_parse(text, "config.json", errors, ret_shape);
    fclose(errors);
    snprintf(said, sizeof(said), "%s", buffer);
    free(buffer);
    return status;
}

static struct shape parsed(const char *text)
{
    struct shape shape;

    if (parse(text, &shape) != STATUS_OK)
        fail_msg("refused: %s", said);
    assert_string_equal(said, "");
    return shape;
}

/* The fields every file has, of a small model; `more` follows them. */
#define SMALL(more)                                                                                              \
    "{\"hidden_size\": 64, \"num_hidden_layers\": 5, \"num_attention_heads\": 8, \"intermediate_size\": 172, "   \
    "\"vocab_size\": 512" more "}"

/* As in the repository of Llama 3.1 8B. */
static const char llama_8b[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, \"attention_dropout\": 0.0,\n"
    " \"bos_token_id\": 128000, \"eos_token_id\": 128001, \"hidden_act\": \"silu\", \"hidden_size\": 4096,\n"
    " \"initializer_range\": 0.02, \"intermediate_size\": 14336, \"max_position_embeddings\": 131072,\n"
    " \"mlp_bias\": false, \"model_type\": \"llama\", \"num_attention_heads\": 32, \"num_hidden_layers\": 32,\n"
    " \"num_key_value_heads\": 8, \"pretraining_tp\": 1, \"rms_norm_eps\": 1e-05, \"rope_scaling\": {\"factor\": 8.0},\n"
    " \"rope_theta\": 500000.0, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\",\n"
    " \"transformers_version\": \"4.43.0.dev0\", \"use_cache\": true, \"vocab_size\": 128256}";

static void the_config_of_llama_8b_is_the_shape_we_ship(void **state)
{
    (void)state;
    struct shape shape = parsed(llama_8b);
    struct shape ours = *shape_find("llama-8b");

    /* But for the name, and the nominal size that only a name can state. */
    assert_int_equal(shape.parameters_nominal, 0);
    assert_string_equal(shape.name, "llama");
    ours.parameters_nominal = 0;
    memcpy(ours.name, shape.name, sizeof(ours.name));
    assert_int_equal(footprint_parameters(&shape), 8030261248);
    assert_memory_equal(&shape, &ours, sizeof(shape));
}

static void what_is_left_out_is_what_transformers_assume(void **state)
{
    (void)state;
    struct shape shape = parsed(SMALL(""));

    assert_int_equal(shape.kv_heads, 8);
    assert_int_equal(shape.head_dim, 8);
    assert_int_equal(shape.context_max, 0);
    assert_int_equal(shape.weight_bits, 16);
    assert_false(shape.tied_embeddings);
    assert_false(shape.qkv_bias);
    /* null is as good as absent */
    shape = parsed(SMALL(", \"num_key_value_heads\": null, \"head_dim\": null, \"quantization_config\": null"));
    assert_int_equal(shape.kv_heads, 8);
    assert_int_equal(shape.head_dim, 8);
    /* families that do otherwise unasked */
    assert_true(parsed(SMALL(", \"model_type\": \"qwen2\"")).qkv_bias);
    assert_false(parsed(SMALL(", \"model_type\": \"qwen3\"")).qkv_bias);
    assert_true(parsed(SMALL(", \"model_type\": \"gemma2\"")).tied_embeddings);
    assert_false(parsed(SMALL(", \"model_type\": \"gemma2\", \"tie_word_embeddings\": false")).tied_embeddings);
    /* a head dimension of its own, as in Mistral's 24B */
    shape = parsed(SMALL(", \"head_dim\": 32, \"num_key_value_heads\": 2, \"_name_or_path\": \"org/small\""));
    assert_int_equal(shape.head_dim, 32);
    assert_int_equal(shape.kv_heads, 2);
    assert_string_equal(shape.name, "org/small");
}

static void a_text_config_inside_is_found(void **state)
{
    (void)state;
    struct shape shape =
        parsed("{\"model_type\": \"mistral3\", \"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\",\n"
               " \"vision_config\": {\"hidden_size\": 1024, \"num_hidden_layers\": 24},\n"
               " \"text_config\": " SMALL(", \"num_key_value_heads\": 4") "}");

    assert_int_equal(shape.hidden, 64);
    assert_int_equal(shape.layers, 5);
    assert_int_equal(shape.kv_heads, 4);
    assert_true(shape.tied_embeddings);
}

static void bits_are_read_from_the_type_and_the_quantization(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t bits;
    } cases[] = {
        {SMALL(", \"torch_dtype\": \"float32\""), 32},
        {SMALL(", \"dtype\": \"bfloat16\""), 16},
        {SMALL(", \"torch_dtype\": \"torch.float16\""), 16},
        {SMALL(", \"torch_dtype\": \"float8_e4m3fn\""), 8},
        {SMALL(", \"torch_dtype\": \"float16\", \"quantization_config\": {\"bits\": 4, \"quant_method\": \"awq\"}"), 4},
        {SMALL(", \"quantization_config\": {\"quant_method\": \"fp8\"}"), 8},
        {SMALL(", \"quantization_config\": {\"load_in_4bit\": true, \"quant_method\": \"bitsandbytes\"}"), 4},
        {SMALL(", \"quantization_config\": {\"load_in_8bit\": true, \"load_in_4bit\": false}"), 8},
        {SMALL(", \"quantization_config\": {\"config_groups\": {\"group_0\": {\"weights\": {\"num_bits\": 8}}}}"), 8},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        if (parsed(cases[i].text).weight_bits != cases[i].bits)
            fail_msg("%s: %u bits", cases[i].text, parsed(cases[i].text).weight_bits);
}

static void a_refusal_names_the_field(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        {"{}", "num_hidden_layers: missing"},
        {"{\"num_hidden_layers\": 5}", "hidden_size: missing"},
        {"{\"text_config\": {\"num_hidden_layers\": 5}}", "hidden_size: missing, here and in text_config"},
        {"{\"num_hidden_layers\": \"5\"}", "num_hidden_layers: must be a whole number"},
        {"{\"num_hidden_layers\": 5.5}", "num_hidden_layers: must be a whole number"},
        {"{\"num_hidden_layers\": -5}", "num_hidden_layers: must be from 1"},
        {"{\"num_hidden_layers\": 5000000000}", "num_hidden_layers: must be from 1"},
        {SMALL(", \"num_key_value_heads\": 3"), "num_attention_heads: must be a multiple of kv_heads"},
        {SMALL(", \"num_key_value_heads\": 16"), "num_key_value_heads: must not exceed heads"},
        {SMALL(", \"num_key_value_heads\": 0"), "num_key_value_heads: must be from 1"},
        {SMALL(", \"max_position_embeddings\": \"long\""), "max_position_embeddings: must be a whole number"},
        {SMALL(", \"torch_dtype\": \"complex64\""), "torch_dtype: must be"},
        {SMALL(", \"torch_dtype\": 16"), "torch_dtype: must be"},
        {SMALL(", \"quantization_config\": {\"bits\": 3}"), "quantization_config.bits: must be"},
        {SMALL(", \"quantization_config\": {\"quant_method\": \"hqq\"}"), "quantization_config: does not say its bits"},
        {SMALL(", \"num_local_experts\": 8"), "num_local_experts: mixture-of-experts"},
        {SMALL(", \"kv_lora_rank\": 512"), "kv_lora_rank: latent attention"},
        {SMALL(", \"model_type\": \"gpt2\""), "model_type: this family has no gated FFN"},
        {SMALL(", \"model_type\": \"bert\""), "model_type: not a decoder"},
        {SMALL(", \"is_encoder_decoder\": true"), "is_encoder_decoder: not a decoder alone"},
        {"{\"hidden_size\": 65, \"num_hidden_layers\": 5, \"num_attention_heads\": 8, \"intermediate_size\": 172,"
         " \"vocab_size\": 512}",
         "hidden_size: must be a multiple of num_attention_heads"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct shape shape = {.layers = 77};

        if (parse(cases[i].text, &shape) != STATUS_INVALID || strstr(said, cases[i].says) == NULL)
            fail_msg("case %zu said \"%s\" instead of \"%s\"", i, said, cases[i].says);
        assert_true(strncmp(said, "config.json: ", 13) == 0);
        assert_int_equal(shape.layers, 77); /* untouched */
    }
}

static void what_is_not_json_is_refused_by_line(void **state)
{
    (void)state;
    struct shape shape;

    assert_int_equal(parse("{\"hidden_size\": 64,\n \"vocab_size\" 512}", &shape), STATUS_CORRUPT);
    assert_non_null(strstr(said, "config.json:2:"));
    assert_int_equal(parse("{\"hidden_size\": 64, \"hidden_size\": 65}", &shape), STATUS_CORRUPT);
    assert_int_equal(parse("", &shape), STATUS_CORRUPT);
    assert_int_equal(parse("[1, 2]", &shape), STATUS_CORRUPT);
}

static void a_missing_file_is_said(void **state)
{
    (void)state;
    struct shape shape;
    FILE *errors = tmpfile();
    char line[200] = "";

    assert_int_equal(config_json_read("no/such/config.json", errors, &shape), STATUS_IO);
    rewind(errors);
    assert_non_null(fgets(line, sizeof(line), errors));
    assert_non_null(strstr(line, "no/such/config.json: No such file"));
    fclose(errors);
}

static void a_real_file_is_read(void **state)
{
    (void)state;
    const char *path = test_shared_path("models/stories260k/config.json");
    struct shape shape;

    if (path == NULL) {
        print_message("skipped: ../shared/models/stories260k is not here\n");
        skip();
    }
    assert_int_equal(config_json_read(path, stderr, &shape), STATUS_OK);
    assert_int_equal(footprint_parameters(&shape), 260032);
    assert_int_equal(shape.weight_bits, 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_config_of_llama_8b_is_the_shape_we_ship),
        cmocka_unit_test(what_is_left_out_is_what_transformers_assume),
        cmocka_unit_test(a_text_config_inside_is_found),
        cmocka_unit_test(bits_are_read_from_the_type_and_the_quantization),
        cmocka_unit_test(a_refusal_names_the_field),
        cmocka_unit_test(what_is_not_json_is_refused_by_line),
        cmocka_unit_test(a_missing_file_is_said),
        cmocka_unit_test(a_real_file_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
