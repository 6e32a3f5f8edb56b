#include "estimate/config_json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

struct reader {
    const char *path;
    FILE *errors;
    const json_t *root;
    const json_t *text; /* root, or its text_config */
};

static enum status refuse(const struct reader *reader, const char *field, const char *why)
{
    fprintf(reader->errors, "%s: %s: %s\n", reader->path, field, why);
    return STATUS_INVALID;
}

/* A field of the text part, or else of the root; null is as good as absent. */
static const json_t *field_of(const struct reader *reader, const char *name)
{
    const json_t *value = json_object_get(reader->text, name);

    if (value == NULL || json_is_null(value))
        value = json_object_get(reader->root, name);
    return value == NULL || json_is_null(value) ? NULL : value;
}

static bool is_true(const struct reader *reader, const char *name, bool fallback)
{
    const json_t *value = field_of(reader, name);

    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

static const char *text_of(const struct reader *reader, const char *name)
{
    const char *text = json_string_value(field_of(reader, name));

    return text != NULL ? text : "";
}

/* What we would reckon wrongly. */
static const struct {
    const char *field;
    int64_t most; /* harmless up to here */
    const char *why;
} strangers[] = {
    {"num_local_experts", 1, "mixture-of-experts models are not modelled"},
    {"num_experts", 1, "mixture-of-experts models are not modelled"},
    {"n_routed_experts", 1, "mixture-of-experts models are not modelled"},
    {"kv_lora_rank", 0, "latent attention is not modelled"},
    {"linear_num_value_heads", 0, "linear attention is not modelled"},
    {"state_size", 0, "state-space models are not modelled"},
    {"mamba_d_state", 0, "state-space models are not modelled"},
};

static const char *const ungated[] = {
    "bloom", "codegen", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "mpt", "nemotron", "opt",
    "persimmon", "phi", "starcoder2", "xglm",
};
static const char *const not_decoders[] = {
    "albert", "bart", "bert", "clip", "deberta-v2", "distilbert", "electra", "modernbert", "roberta", "siglip", "t5",
    "vit", "wav2vec2", "whisper", "xlm-roberta",
};

static enum status refuse_strangers(const struct reader *reader)
{
    const char *type = text_of(reader, "model_type");

    for (size_t i = 0; i < ARRAY_COUNT(strangers); i++) {
        const json_t *value = field_of(reader, strangers[i].field);

        if (json_is_integer(value) && json_integer_value(value) > strangers[i].most)
            return refuse(reader, strangers[i].field, strangers[i].why);
    }
    for (size_t i = 0; i < ARRAY_COUNT(ungated); i++)
        if (strcmp(type, ungated[i]) == 0)
            return refuse(reader, "model_type", "this family has no gated FFN, the only one we model");
    for (size_t i = 0; i < ARRAY_COUNT(not_decoders); i++)
        if (strcmp(type, not_decoders[i]) == 0)
            return refuse(reader, "model_type", "not a decoder of text");
    if (is_true(reader, "is_encoder_decoder", false))
        return refuse(reader, "is_encoder_decoder", "not a decoder alone");
    return STATUS_OK;
}

/* `fallback` 0: the field is required. */
static enum status read_number(const struct reader *reader, const char *name, uint32_t fallback, uint32_t *ret_number)
{
    const json_t *value = field_of(reader, name);

    if (value == NULL) {
        if (fallback == 0)
            return refuse(reader, name, reader->text == reader->root ? "missing" : "missing, here and in text_config");
        *ret_number = fallback;
        return STATUS_OK;
    }
    if (!json_is_integer(value))
        return refuse(reader, name, "must be a whole number");
    if (json_integer_value(value) < 1 || json_integer_value(value) > UINT32_MAX)
        return refuse(reader, name, "must be from 1 to 4294967295");
    *ret_number = (uint32_t)json_integer_value(value);
    return STATUS_OK;
}

static uint32_t bits_of_type(const char *type)
{
    static const struct {
        const char *begin;
        uint32_t bits;
    } types[] = {
        {"float32", 32}, {"float16", 16}, {"bfloat16", 16}, {"float8", 8}, {"int8", 8},
    };

    if (strncmp(type, "torch.", 6) == 0)
        type += 6;
    for (size_t i = 0; i < ARRAY_COUNT(types); i++)
        if (strncmp(type, types[i].begin, strlen(types[i].begin)) == 0)
            return types[i].bits;
    return 0;
}

/* compressed-tensors: config_groups: {group_0: {weights: {num_bits: 4}}} */
static const json_t *compressed_bits(const json_t *quantization)
{
    json_t *groups = json_object_get(quantization, "config_groups");
    void *first = json_object_iter(groups);

    return json_object_get(json_object_get(json_object_iter_value(first), "weights"), "num_bits");
}

/* 0 when the weights are not quantised. */
static enum status read_quantization(const struct reader *reader, uint32_t *ret_bits)
{
    const json_t *quantization = field_of(reader, "quantization_config");
    const json_t *bits = json_object_get(quantization, "bits");
    const char *method = json_string_value(json_object_get(quantization, "quant_method"));

    *ret_bits = 0;
    if (quantization == NULL)
        return STATUS_OK;
    if (bits == NULL)
        bits = compressed_bits(quantization);
    if (json_is_integer(bits)) {
        if (json_integer_value(bits) != 4 && json_integer_value(bits) != 8 && json_integer_value(bits) != 16)
            return refuse(reader, "quantization_config.bits", "must be 4, 8 or 16");
        *ret_bits = (uint32_t)json_integer_value(bits);
    } else if (json_is_true(json_object_get(quantization, "load_in_4bit")) ||
               (method != NULL && strcmp(method, "mxfp4") == 0)) {
        *ret_bits = 4;
    } else if (json_is_true(json_object_get(quantization, "load_in_8bit")) ||
               (method != NULL && (strcmp(method, "fp8") == 0 || strcmp(method, "fbgemm_fp8") == 0))) {
        *ret_bits = 8;
    } else {
        return refuse(reader, "quantization_config", "does not say its bits in a way we know");
    }
    return STATUS_OK;
}

static enum status read_weight_bits(const struct reader *reader, uint32_t *ret_bits)
{
    const json_t *type = field_of(reader, "torch_dtype");
    enum status status = read_quantization(reader, ret_bits);

    if (status != STATUS_OK || *ret_bits != 0)
        return status;
    if (type == NULL)
        type = field_of(reader, "dtype");
    if (type == NULL) {
        *ret_bits = 16;
        return STATUS_OK;
    }
    *ret_bits = json_is_string(type) ? bits_of_type(json_string_value(type)) : 0;
    return *ret_bits != 0 ? STATUS_OK : refuse(reader, "torch_dtype", "must be float32, float16, bfloat16 or float8");
}

static enum status read_numbers(const struct reader *reader, struct shape *shape)
{
    enum status status;

    if ((status = read_number(reader, "num_hidden_layers", 0, &shape->layers)) != STATUS_OK ||
        (status = read_number(reader, "hidden_size", 0, &shape->hidden)) != STATUS_OK ||
        (status = read_number(reader, "num_attention_heads", 0, &shape->heads)) != STATUS_OK ||
        (status = read_number(reader, "num_key_value_heads", shape->heads, &shape->kv_heads)) != STATUS_OK ||
        (status = read_number(reader, "intermediate_size", 0, &shape->ffn)) != STATUS_OK ||
        (status = read_number(reader, "vocab_size", 0, &shape->vocabulary)) != STATUS_OK ||
        (status = read_weight_bits(reader, &shape->weight_bits)) != STATUS_OK)
        return status;
    if (field_of(reader, "max_position_embeddings") != NULL &&
        (status = read_number(reader, "max_position_embeddings", 1, &shape->context_max)) != STATUS_OK)
        return status;
    if (field_of(reader, "head_dim") == NULL && shape->hidden % shape->heads != 0)
        return refuse(reader, "hidden_size", "must be a multiple of num_attention_heads when head_dim is not stated");
    return read_number(reader, "head_dim", shape->hidden / shape->heads, &shape->head_dim);
}

/* What the families do when the file is silent: Gemma ties, Qwen 2 has biases. */
static void read_habits(const struct reader *reader, struct shape *shape)
{
    const char *type = text_of(reader, "model_type");

    shape->tied_embeddings = is_true(reader, "tie_word_embeddings", strncmp(type, "gemma", 5) == 0);
    shape->qkv_bias = is_true(reader, "attention_bias", strncmp(type, "qwen2", 5) == 0);
}

static void read_name(const struct reader *reader, struct shape *shape)
{
    const char *name = text_of(reader, "_name_or_path");

    if (name[0] == '\0')
        name = text_of(reader, "model_type");
    snprintf(shape->name, sizeof(shape->name), "%s", name[0] != '\0' ? name : reader->path);
}

/* Our field's name -> the file's. */
static const char *file_field(const char *field)
{
    static const struct {
        const char *ours;
        const char *theirs;
    } names[] = {
        {"layers", "num_hidden_layers"},  {"hidden", "hidden_size"},      {"heads", "num_attention_heads"},
        {"kv_heads", "num_key_value_heads"}, {"ffn", "intermediate_size"}, {"vocabulary", "vocab_size"},
        {"context_max", "max_position_embeddings"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (strcmp(field, names[i].ours) == 0)
            return names[i].theirs;
    return field;
}

static enum status read_shape(const struct reader *reader, struct shape *ret_shape)
{
    struct shape shape;
    const char *field;
    const char *rule;
    enum status status;

    memset(&shape, 0, sizeof(shape));
    if ((status = refuse_strangers(reader)) != STATUS_OK || (status = read_numbers(reader, &shape)) != STATUS_OK)
        return status;
    read_habits(reader, &shape);
    read_name(reader, &shape);
    if (shape_validate(&shape, &field, &rule) != STATUS_OK)
        return refuse(reader, file_field(field), rule);
    *ret_shape = shape;
    return STATUS_OK;
}

static enum status read_root(json_t *root, const json_error_t *error, const char *path, FILE *errors,
                             struct shape *ret_shape)
{
    struct reader reader = {.path = path, .errors = errors, .root = root, .text = root};
    enum status status = STATUS_CORRUPT;

    if (root == NULL)
        fprintf(errors, "%s:%d:%d: %s\n", path, error->line, error->column, error->text);
    else if (!json_is_object(root))
        fprintf(errors, "%s: a config.json is an object\n", path);
    else {
        const json_t *text = json_object_get(root, "text_config");

        if (json_is_object(text))
            reader.text = text;
        status = read_shape(&reader, ret_shape);
    }
    json_decref(root);
    return status;
}

enum status config_json_parse(const char *text, const char *path, FILE *errors, struct shape *ret_shape)
{
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);

    return read_root(root, &error, path, errors, ret_shape);
}

enum status config_json_read(const char *path, FILE *errors, struct shape *ret_shape)
{
    json_error_t error;
    FILE *file = fopen(path, "rb");

    if (file == NULL) {
        fprintf(errors, "%s: %s\n", path, strerror(errno));
        return STATUS_IO;
    }

    json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);

    fclose(file);
    return read_root(root, &error, path, errors, ret_shape);
}
