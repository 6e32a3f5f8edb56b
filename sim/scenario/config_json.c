/* config.json through jansson. Names of keys differ between model families; each of ours lists the ones it goes by, the
 * common one first. Multimodal models keep the language model's keys in text_config. */
#include "scenario/config_json.h"

#include <jansson.h>
#include <stdlib.h>

#include "scenario/document.h"
#include "scenario/words.h"

struct config {
    const char *path;
    FILE *errors;
    const json_t *text; /* text_config, or the root */
    const json_t *root;
};

__attribute__((format(printf, 2, 3))) static enum status refuse(const struct config *config, const char *format, ...)
{
    va_list arguments;

    fprintf(config->errors, "%s: error: ", config->path);
    va_start(arguments, format);
    vfprintf(config->errors, format, arguments);
    va_end(arguments);
    fputc('\n', config->errors);
    return STATUS_INVALID;
}

/* In text_config first, then at the root; NULL when absent or null. */
static const json_t *config_get(const struct config *config, const char *key)
{
    const json_t *value = json_object_get(config->text, key);

    if (value == NULL || json_is_null(value))
        value = json_object_get(config->root, key);
    return value != NULL && json_is_null(value) ? NULL : value;
}

#define NAMES_MAX 4
struct dimension {
    const char *names[NAMES_MAX]; /* NULL ends */
    uint32_t *field;
    bool is_required;
};

static enum status read_dimension(const struct config *config, const struct dimension *dimension)
{
    for (uint32_t i = 0; i < NAMES_MAX && dimension->names[i] != NULL; i++) {
        const json_t *value = config_get(config, dimension->names[i]);

        if (value == NULL)
            continue;
        if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > 100000000)
            return refuse(config, "%s must be a whole number from 1 to 1e8", dimension->names[i]);
        *dimension->field = (uint32_t)json_integer_value(value);
        return STATUS_OK;
    }
    if (!dimension->is_required)
        return STATUS_OK;
    return refuse(config, "%s is missing: is it the config.json of a decoder-only language model?", dimension->names[0]);
}

/* Keys whose presence (with a number above `harmless`) says that our formulas do not hold. */
static const struct {
    const char *key;
    json_int_t harmless;
    const char *what;
} unsupported[] = {
    {"num_local_experts", 1, "a mixture of experts"},
    {"num_experts", 1, "a mixture of experts"},
    {"n_routed_experts", 1, "a mixture of experts"},
    {"kv_lora_rank", 0, "a model with latent attention"},
    {"d_state", 0, "a state-space model"},
    {"state_size", 0, "a state-space model"},
};

static enum status refuse_unsupported(const struct config *config)
{
    for (size_t i = 0; i < ARRAY_COUNT(unsupported); i++) {
        const json_t *value = config_get(config, unsupported[i].key);

        if (json_is_integer(value) && json_integer_value(value) > unsupported[i].harmless)
            return refuse(config, "%s says that this is %s; only dense decoders are reckoned", unsupported[i].key,
                          unsupported[i].what);
    }
    if (json_is_true(config_get(config, "is_encoder_decoder")))
        return refuse(config, "is_encoder_decoder: only dense decoders are reckoned");
    return STATUS_OK;
}

static bool text_is(const json_t *value, const char *prefix)
{
    return json_is_string(value) && strncmp(json_string_value(value), prefix, strlen(prefix)) == 0;
}

/* Bits of a stored weight by quantization_config; 0 when it does not say. */
static uint32_t quantized_bits(const json_t *quantization)
{
    const json_t *bits = json_object_get(quantization, "bits");
    const json_t *method = json_object_get(quantization, "quant_method");
    const json_t *groups = json_object_get(quantization, "config_groups");
    const json_t *weights = json_object_get(json_object_get(groups, "group_0"), "weights");

    if (json_object_get(weights, "num_bits") != NULL)
        bits = json_object_get(weights, "num_bits");
    if (json_is_integer(bits) && json_integer_value(bits) >= 1 && json_integer_value(bits) <= 16)
        return (uint32_t)json_integer_value(bits);
    if (json_is_true(json_object_get(quantization, "load_in_4bit")) || text_is(method, "mxfp4"))
        return 4;
    if (json_is_true(json_object_get(quantization, "load_in_8bit")) || text_is(method, "fp8") || text_is(method, "fbgemm_fp8"))
        return 8;
    return 0;
}

static enum status read_weight_bits(const struct config *config, uint32_t *ret_bits)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } types[] = {{"bfloat16", 16}, {"float16", 16}, {"float32", 16}, {"float8_e4m3fn", 8}, {"float8_e5m2", 8}};
    const json_t *quantization = config_get(config, "quantization_config");
    const json_t *type = config_get(config, "torch_dtype");

    if (type == NULL)
        type = config_get(config, "dtype");
    *ret_bits = 16;
    if (quantization != NULL) {
        *ret_bits = quantized_bits(quantization);
        return *ret_bits != 0 ? STATUS_OK : refuse(config, "quantization_config does not say how many bits a weight has");
    }
    for (size_t i = 0; i < ARRAY_COUNT(types) && type != NULL; i++) {
        /* float32 checkpoints are served in 16 bits, as every engine does unless told otherwise. */
        if (text_is(type, types[i].name)) {
            *ret_bits = types[i].bits;
            return STATUS_OK;
        }
    }
    return type == NULL ? STATUS_OK : refuse(config, "torch_dtype is none that is known");
}

/* Families that leave out what their code takes for granted. */
static void read_flags(const struct config *config, struct shape *shape)
{
    const json_t *type = config_get(config, "model_type");
    const json_t *tied = config_get(config, "tie_word_embeddings");
    const json_t *bias = config_get(config, "attention_bias");

    shape->tied_embeddings = tied != NULL ? json_is_true(tied) : text_is(type, "gemma");
    if (bias == NULL)
        bias = config_get(config, "qkv_bias");
    shape->qkv_bias = bias != NULL ? json_is_true(bias) : text_is(type, "qwen2");
}

static void read_name(const struct config *config, struct shape *shape)
{
    const json_t *path = config_get(config, "_name_or_path");
    const json_t *type = config_get(config, "model_type");
    const char *name = "config.json";

    if (json_is_string(path) && json_string_length(path) > 0) {
        const char *slash = strrchr(json_string_value(path), '/');

        name = slash != NULL && slash[1] != '\0' ? slash + 1 : json_string_value(path);
    } else if (json_is_string(type) && json_string_length(type) > 0) {
        name = json_string_value(type);
    }
    excerpt(name, min_u64(strlen(name), SHAPE_NAME_MAX - 1), shape->name);
}

static enum status read_shape(const struct config *config, struct shape *ret_shape)
{
    struct shape shape = {0};
    const struct dimension dimensions[] = {
        {{"num_hidden_layers", "n_layer", "num_layers", "n_layers"}, &shape.layers, true},
        {{"hidden_size", "n_embd", "d_model", "dim"}, &shape.hidden, true},
        {{"num_attention_heads", "n_head", "n_heads", NULL}, &shape.heads, true},
        {{"num_key_value_heads", "num_kv_heads", "n_kv_heads", NULL}, &shape.kv_heads, false},
        {{"head_dim", NULL}, &shape.head_dim, false},
        {{"intermediate_size", "n_inner", "ffn_hidden_size", NULL}, &shape.ffn, true},
        {{"vocab_size", "padded_vocab_size", NULL}, &shape.vocabulary, true},
        {{"max_position_embeddings", "n_positions", "seq_length", NULL}, &shape.context_max, false},
    };
    enum status status = refuse_unsupported(config);
    const char *field;
    const char *rule;

    for (size_t i = 0; i < ARRAY_COUNT(dimensions) && status == STATUS_OK; i++)
        status = read_dimension(config, &dimensions[i]);
    if (status == STATUS_OK)
        status = read_weight_bits(config, &shape.weight_bits);
    if (status != STATUS_OK)
        return status;
    if (shape.kv_heads == 0)
        shape.kv_heads = shape.heads;
    if (shape.head_dim == 0 && shape.hidden % shape.heads != 0)
        return refuse(config, "head_dim is missing, and hidden_size %u is not a multiple of num_attention_heads %u",
                      shape.hidden, shape.heads);
    if (shape.head_dim == 0)
        shape.head_dim = shape.hidden / shape.heads;
    read_flags(config, &shape);
    read_name(config, &shape);
    if (shape_validate(&shape, &field, &rule) != STATUS_OK)
        return refuse(config, "%s must be %s", field, rule);
    *ret_shape = shape;
    return STATUS_OK;
}

enum status shape_from_config_json(const char *path, FILE *errors, struct shape *ret_shape)
{
    struct config config = {.path = path, .errors = errors};
    struct messages *messages = calloc(1, sizeof(*messages));
    struct text text;
    json_error_t error;
    json_t *root;
    enum status status;

    if (messages == NULL) {
        refuse(&config, "no memory to read it");
        return STATUS_IO;
    }
    status = text_read(path, messages, &text);
    if (status != STATUS_OK) {
        messages_print(messages, 0, errors);
        free(messages);
        return status;
    }
    root = json_loadb(text.bytes, text.count, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        size_t after = error.position > 0 ? (size_t)error.position : 1;
        struct location at = {.text = &text, .at = min_u64(after - 1, text.count), .count = 1};

        messages_add(messages, SEVERITY_ERROR, at, "is not JSON: %s", error.text);
        messages_print(messages, 0, errors);
        status = STATUS_INVALID;
    } else if (!json_is_object(root)) {
        status = refuse(&config, "must be a JSON object");
    } else {
        config.root = root;
        config.text = json_object_get(root, "text_config");
        if (!json_is_object(config.text))
            config.text = root;
        status = read_shape(&config, ret_shape);
    }
    json_decref(root);
    free(text.bytes);
    free(messages);
    return status;
}
