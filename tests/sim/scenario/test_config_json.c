/* Shapes from config.json: what families leave out, and what is refused. */
#include <stdlib.h>

#include "model/footprint.h"
#include "scenario/config_json.h"
#include "sim/scenario/rig.h"
#include "support.h"

static enum status read_config(const char *text, struct shape *ret_shape, char **ret_messages)
{
    size_t count;
    FILE *errors = open_memstream(ret_messages, &count);
    enum status status = shape_from_config_json(rig_file("config.json", text, strlen(text)), errors, ret_shape);

    fclose(errors);
    rig_strip(*ret_messages);
    return status;
}

static struct shape read_well(const char *text)
{
    struct shape shape;
    char *messages;

    if (read_config(text, &shape, &messages) != STATUS_OK || messages[0] != '\0')
        fail_msg("%s", messages);
    free(messages);
    return shape;
}

static void assert_refused(const char *text, const char *wanted)
{
    struct shape shape = {.layers = 77};
    char *messages;

    assert_int_equal(read_config(text, &shape, &messages), STATUS_INVALID);
    assert_string_equal(messages, wanted);
    assert_int_equal(shape.layers, 77);
    free(messages);
}

static void llama_8b_is_the_shape_we_ship(void **state)
{
    (void)state;
    struct shape shape = read_well(
        "{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, \"head_dim\": null, \"hidden_size\": 4096,"
        " \"intermediate_size\": 14336, \"max_position_embeddings\": 131072, \"model_type\": \"llama\","
        " \"num_attention_heads\": 32, \"num_hidden_layers\": 32, \"num_key_value_heads\": 8, \"rms_norm_eps\": 1e-05,"
        " \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", \"vocab_size\": 128256}");
    const struct shape *ours = shape_find("llama-8b");

    assert_non_null(ours);
    assert_int_equal(shape.head_dim, 128);
    assert_int_equal(footprint_weights_bytes(&shape), footprint_weights_bytes(ours));
    assert_int_equal(footprint_kv_bytes_per_token(&shape), 131072);
    assert_int_equal(footprint_adapter_bytes(&shape, LORA_ALL_LINEAR, 16), 83886080);
    assert_string_equal(shape.name, "llama");
}

#define DIMENSIONS "\"num_hidden_layers\": 4, \"hidden_size\": 64, \"num_attention_heads\": 4, \"intermediate_size\": 96, \"vocab_size\": 500"

static void what_is_absent_has_the_default_of_its_family(void **state)
{
    (void)state;
    struct shape plain = read_well("{" DIMENSIONS "}");
    struct shape qwen = read_well("{\"model_type\": \"qwen2\", " DIMENSIONS "}");
    struct shape gemma = read_well("{\"model_type\": \"gemma2\", \"head_dim\": 32, " DIMENSIONS "}");

    assert_int_equal(plain.kv_heads, 4);
    assert_int_equal(plain.head_dim, 16);
    assert_int_equal(plain.weight_bits, 16);
    assert_int_equal(plain.context_max, 0);
    assert_false(plain.tied_embeddings);
    assert_false(plain.qkv_bias);
    assert_true(qwen.qkv_bias);
    assert_true(gemma.tied_embeddings);
    assert_int_equal(gemma.head_dim, 32);
}

static void a_multimodal_model_keeps_its_language_model_in_text_config(void **state)
{
    (void)state;
    struct shape shape = read_well("{\"_name_or_path\": \"some/where/Seer-4\", \"tie_word_embeddings\": true, \"hidden_size\": 9,"
                                   " \"text_config\": {" DIMENSIONS ", \"num_key_value_heads\": 2}}");

    assert_int_equal(shape.hidden, 64);
    assert_int_equal(shape.kv_heads, 2);
    assert_true(shape.tied_embeddings);
    assert_string_equal(shape.name, "Seer-4");
}

static void quantized_weights_have_their_bits(void **state)
{
    (void)state;
    static const struct {
        const char *quantization;
        uint32_t bits;
    } cases[] = {
        {"{\"quant_method\": \"gptq\", \"bits\": 4}", 4},
        {"{\"quant_method\": \"awq\", \"bits\": 8}", 8},
        {"{\"quant_method\": \"fp8\"}", 8},
        {"{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true, \"load_in_8bit\": false}", 4},
        {"{\"quant_method\": \"bitsandbytes\", \"load_in_8bit\": true}", 8},
        {"{\"config_groups\": {\"group_0\": {\"weights\": {\"num_bits\": 8}}}}", 8},
    };
    char text[512];

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        snprintf(text, sizeof(text), "{\"torch_dtype\": \"float16\", \"quantization_config\": %s, " DIMENSIONS "}",
                 cases[i].quantization);
        assert_int_equal(read_well(text).weight_bits, cases[i].bits);
    }
}

static void what_our_formulas_do_not_hold_for_is_refused(void **state)
{
    (void)state;
    assert_refused("{\"num_local_experts\": 8, " DIMENSIONS "}",
                   "config.json: error: num_local_experts says that this is a mixture of experts; only dense decoders are reckoned\n");
    assert_refused("{\"kv_lora_rank\": 512, " DIMENSIONS "}",
                   "config.json: error: kv_lora_rank says that this is a model with latent attention; only dense decoders are reckoned\n");
    assert_refused("{\"is_encoder_decoder\": true, " DIMENSIONS "}",
                   "config.json: error: is_encoder_decoder: only dense decoders are reckoned\n");
    assert_refused("{\"quantization_config\": {\"quant_method\": \"new\"}, " DIMENSIONS "}",
                   "config.json: error: quantization_config does not say how many bits a weight has\n");
    assert_refused("{\"torch_dtype\": \"int3\", " DIMENSIONS "}", "config.json: error: torch_dtype is none that is known\n");
}

static void broken_files_say_where(void **state)
{
    (void)state;
    assert_refused("{\"hidden_size\": 4,\n \"x\" 3}",
                   "config.json:2:6: error: is not JSON: ':' expected near '3'\n"
                   "    2 |  \"x\" 3}\n"
                   "      |      ^\n");
    assert_refused("[1]", "config.json: error: must be a JSON object\n");
    assert_refused("{}", "config.json: error: num_hidden_layers is missing: is it the config.json of a decoder-only language "
                         "model?\n");
    assert_refused("{\"num_hidden_layers\": \"4\"}", "config.json: error: num_hidden_layers must be a whole number from 1 to 1e8\n");
    assert_refused("{\"num_hidden_layers\": -4}", "config.json: error: num_hidden_layers must be a whole number from 1 to 1e8\n");
    assert_refused("{\"num_hidden_layers\": 4, \"hidden_size\": 65, \"num_attention_heads\": 4, \"intermediate_size\": 9,"
                   " \"vocab_size\": 9}",
                   "config.json: error: head_dim is missing, and hidden_size 65 is not a multiple of num_attention_heads 4\n");
}

static void a_config_that_is_not_there_is_told(void **state)
{
    (void)state;
    struct shape shape;
    char *messages;
    size_t count;
    FILE *errors = open_memstream(&messages, &count);

    assert_int_equal(shape_from_config_json("nowhere/config.json", errors, &shape), STATUS_NOT_FOUND);
    fclose(errors);
    assert_string_equal(messages, "nowhere/config.json: error: cannot be opened: No such file or directory\n");
    free(messages);
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
        cmocka_unit_test(llama_8b_is_the_shape_we_ship),
        cmocka_unit_test(what_is_absent_has_the_default_of_its_family),
        cmocka_unit_test(a_multimodal_model_keeps_its_language_model_in_text_config),
        cmocka_unit_test(quantized_weights_have_their_bits),
        cmocka_unit_test(what_our_formulas_do_not_hold_for_is_refused),
        cmocka_unit_test(broken_files_say_where),
        cmocka_unit_test(a_config_that_is_not_there_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
