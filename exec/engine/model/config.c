/* Reading config.json: each field by its kind and range, every fault said at once, then what would change the numbers. */
#include "engine/model/config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "engine/files/file.h"
#include "host/words.h"

#define POSITIONS_MAX (1 << 24)

static const struct {
    const char *name;
    const char *architecture;
    int32_t head_dim;       /* where transformers has a default of its own; 0: hidden / heads */
    int32_t sliding_window; /* the same */
    bool qkv_bias_always;
    bool bias_optional;     /* attention_bias is heeded */
    bool mlp_bias_optional;
    bool qk_norm;
    bool window_switch;     /* use_sliding_window says whether sliding_window counts */
    bool windows;           /* sliding_window is a field of this family */
} families[] = {
    [FAMILY_LLAMA] = {"llama", "LlamaForCausalLM", .bias_optional = true, .mlp_bias_optional = true},
    [FAMILY_MISTRAL] = {"mistral", "MistralForCausalLM", .sliding_window = 4096, .windows = true},
    [FAMILY_QWEN2] = {"qwen2", "Qwen2ForCausalLM", .qkv_bias_always = true, .window_switch = true, .windows = true},
    [FAMILY_QWEN3] = {"qwen3", "Qwen3ForCausalLM", .head_dim = 128, .bias_optional = true, .qk_norm = true, .window_switch = true,
                      .windows = true},
};

static const char *const rope_kinds[] = {
#define X(name, text) text,
    ROPE_KINDS(X)
#undef X
};

const char *model_family_name(enum model_family family)
{
    check(family < FAMILY_COUNT);
    return families[family].name;
}

const char *rope_kind_name(enum rope_kind kind)
{
    check(kind < ROPE_KIND_COUNT);
    return rope_kinds[kind];
}

struct reader {
    const char *shown;
    const json_t *root;
    struct refusal *refusal;
    bool refused;
};

#define fault(reader, format, ...) \
    ((reader)->refused = true, (void)refuse_also((reader)->refusal, STATUS_INVALID, "%s: " format, (reader)->shown, __VA_ARGS__))

/* null is as good as absent. */
static const json_t *field_in(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return json_is_null(value) ? NULL : value;
}

/* `fallback` < 0: the field must be there. */
static int32_t read_count(struct reader *reader, const json_t *object, const char *name, int32_t least, int32_t most,
                          int32_t fallback)
{
    const json_t *value = field_in(object, name);

    if (value == NULL && fallback >= 0)
        return fallback;
    if (json_is_integer(value) && json_integer_value(value) >= least && json_integer_value(value) <= most)
        return (int32_t)json_integer_value(value);
    if (value == NULL)
        fault(reader, "%s is missing", name);
    else
        fault(reader, "%s must be a whole number from %d to %d", name, least, most);
    return least;
}

static double read_number(struct reader *reader, const json_t *object, const char *name, double least, double most, double fallback)
{
    const json_t *value = field_in(object, name);
    double number = json_number_value(value);

    if (value == NULL && fallback >= 0)
        return fallback;
    if (json_is_number(value) && number >= least && number <= most)
        return number;
    if (value == NULL)
        fault(reader, "%s is missing", name);
    else
        fault(reader, "%s must be a number from %g to %g", name, least, most);
    return least;
}

static bool read_flag(struct reader *reader, const char *name)
{
    const json_t *value = field_in(reader->root, name);

    if (value != NULL && !json_is_boolean(value))
        fault(reader, "%s must be true or false", name);
    return json_is_true(value);
}

/* "" when it is absent or no string. */
static const char *read_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(field_in(object, name));

    return text != NULL ? text : "";
}

/* The family by the architecture, which also says that it is a causal language model; by model_type where there is none. */
static bool read_family(struct reader *reader, struct model_config *config)
{
    const json_t *architectures = field_in(reader->root, "architectures");
    const char *architecture = json_string_value(json_array_get(architectures, 0));
    const char *type = read_text(reader->root, "model_type");
    char shown[EXCERPT_MAX];

    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (strcmp(architecture != NULL ? architecture : type,
                   architecture != NULL ? families[i].architecture : families[i].name) != 0)
            continue;
        config->family = (enum model_family)i;
        return true;
    }
    if (architecture == NULL)
        architecture = type[0] != '\0' ? type : "(none stated)";
    fault(reader, "the architecture %s is not supported; LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and "
          "Qwen3ForCausalLM are", excerpt(architecture, strlen(architecture), shown));
    return false;
}

static void read_dims(struct reader *reader, struct model_config *config)
{
    struct dims *dims = &config->dims;
    int32_t head_dim;

    dims->hidden = read_count(reader, reader->root, "hidden_size", 1, 1 << 20, -1);
    dims->layers = read_count(reader, reader->root, "num_hidden_layers", 1, MODEL_LAYERS_MAX, -1);
    dims->heads = read_count(reader, reader->root, "num_attention_heads", 1, 4096, -1);
    dims->kv_heads = read_count(reader, reader->root, "num_key_value_heads", 1, 4096, dims->heads);
    dims->ffn = read_count(reader, reader->root, "intermediate_size", 1, 1 << 20, -1);
    dims->vocabulary = read_count(reader, reader->root, "vocab_size", 1, 1 << 24, -1);
    if (dims->heads % dims->kv_heads != 0)
        fault(reader, "num_key_value_heads %d does not divide num_attention_heads %d", dims->kv_heads, dims->heads);
    head_dim = families[config->family].head_dim != 0 ? families[config->family].head_dim : dims->hidden / dims->heads;
    if (field_in(reader->root, "head_dim") == NULL && families[config->family].head_dim == 0 && dims->hidden % dims->heads != 0)
        fault(reader, "num_attention_heads %d does not divide hidden_size %d, and head_dim is not stated", dims->heads,
              dims->hidden);
    dims->head_dim = read_count(reader, reader->root, "head_dim", 1, 4096, head_dim);
    if (dims->head_dim % 2 != 0)
        fault(reader, "head_dim %d is odd; RoPE turns pairs", dims->head_dim);
}

static void read_rope(struct reader *reader, struct model_config *config)
{
    const json_t *parameters = field_in(reader->root, "rope_parameters");
    const json_t *scaling = parameters != NULL ? parameters : field_in(reader->root, "rope_scaling");
    const char *kind = read_text(scaling, "rope_type");
    struct rope *rope = &config->rope;
    char shown[EXCERPT_MAX];
    int32_t trained;

    rope->theta = read_number(reader, field_in(scaling, "rope_theta") != NULL ? scaling : reader->root, "rope_theta", 1,
                              1e12, 10000);
    rope->factor = 1;
    if (read_number(reader, field_in(scaling, "partial_rotary_factor") != NULL ? scaling : reader->root,
                    "partial_rotary_factor", 0, 1, 1) != 1)
        fault(reader, "%s", "partial_rotary_factor is not 1: turning a part of each head is not supported");
    if (scaling == NULL)
        return;
    if (!json_is_object(scaling)) {
        fault(reader, "%s must be an object", parameters != NULL ? "rope_parameters" : "rope_scaling");
        return;
    }
    if (kind[0] == '\0')
        kind = read_text(scaling, "type");
    if (kind[0] == '\0' && parameters != NULL && field_in(scaling, "factor") == NULL && field_in(scaling, "rope_theta") != NULL)
        kind = "default";
    for (int i = 0; i < ROPE_KIND_COUNT; i++)
        if (strcmp(kind, rope_kinds[i]) == 0)
            rope->kind = (enum rope_kind)i;
    if (strcmp(kind, rope_kinds[rope->kind]) != 0) {
        fault(reader, "RoPE scaling of type %s is not supported; linear, dynamic and llama3 are",
              kind[0] == '\0' ? "(none stated)" : excerpt(kind, strlen(kind), shown));
        return;
    }
    if (rope->kind == ROPE_PLAIN)
        return;
    rope->factor = read_number(reader, scaling, "factor", 1, 1e6, -1);
    trained = read_count(reader, scaling, "original_max_position_embeddings", 1, POSITIONS_MAX, rope->kind == ROPE_LLAMA3 ? -1 : 0);
    rope->positions_trained = trained > 0 ? trained : config->positions_max;
    if (rope->kind == ROPE_LLAMA3) {
        rope->low_freq_factor = read_number(reader, scaling, "low_freq_factor", 1e-6, 1e6, -1);
        rope->high_freq_factor = read_number(reader, scaling, "high_freq_factor", 1e-6, 1e6, -1);
        if (!reader->refused && rope->high_freq_factor <= rope->low_freq_factor)
            fault(reader, "high_freq_factor %g must be above low_freq_factor %g", rope->high_freq_factor, rope->low_freq_factor);
    } else if (trained == 0) {
        /* max_position_embeddings is then what the model was trained on. */
        double stretched = config->positions_max * rope->factor;

        config->positions_max = stretched < POSITIONS_MAX ? (int32_t)stretched : POSITIONS_MAX;
    }
}

static void refuse_windows(struct reader *reader, const struct model_config *config)
{
    const json_t *kinds = field_in(reader->root, "layer_types");
    int32_t window = read_count(reader, reader->root, "sliding_window", 1, POSITIONS_MAX, families[config->family].sliding_window);
    bool used = families[config->family].windows && window > 0;

    /* null says that there is none, where absence would mean a default. */
    if (json_object_get(reader->root, "sliding_window") != NULL && field_in(reader->root, "sliding_window") == NULL)
        used = false;
    if (families[config->family].window_switch && !read_flag(reader, "use_sliding_window"))
        used = false;
    if (used && window < config->positions_max)
        fault(reader, "sliding_window %d is below the %d positions of max_position_embeddings: attention through a window "
              "is not supported. Up to position %d the model is the same without it: set sliding_window to null and "
              "max_position_embeddings to %d", window, config->positions_max, window, window);
    for (size_t i = 0; !used && i < json_array_size(kinds); i++) {
        const char *kind = json_string_value(json_array_get(kinds, i));

        if (kind != NULL && strcmp(kind, "full_attention") == 0)
            continue;
        fault(reader, "layer_types: layer %zu is not of full_attention, which is all that is supported", i);
        return;
    }
}

static void refuse_quantised(struct reader *reader)
{
    const json_t *about = field_in(reader->root, "quantization_config");
    const char *method = read_text(about, "quant_method");
    const char *kind = read_text(about, "bnb_4bit_quant_type");
    char shown[2][EXCERPT_MAX];

    if (about == NULL && (about = field_in(reader->root, "compression_config")) == NULL)
        return;
    if (method[0] == '\0')
        method = json_is_true(field_in(about, "load_in_4bit")) || json_is_true(field_in(about, "load_in_8bit"))
                     ? "bitsandbytes"
                     : "unknown";
    if (json_is_true(field_in(about, "load_in_8bit")))
        kind = "int8";
    fault(reader, "quantised weights (%s%s%s) are not supported; take the model's original in 16 or 32 bits",
          excerpt(method, strlen(method), shown[0]), kind[0] != '\0' ? " " : "", excerpt(kind, strlen(kind), shown[1]));
}

static void add_eos(struct reader *reader, struct model_config *config, const json_t *value)
{
    int64_t id = json_integer_value(value);

    if (!json_is_integer(value) || id >= config->dims.vocabulary) {
        fault(reader, "eos_token_id must be ids below vocab_size %d", config->dims.vocabulary);
        return;
    }
    /* -1 is how some say that there is none. */
    if (id < 0)
        return;
    for (int32_t i = 0; i < config->eos_count; i++)
        if (config->eos[i] == id)
            return;
    if (config->eos_count == MODEL_EOS_MAX) {
        fault(reader, "eos_token_id names more than %d ids", MODEL_EOS_MAX);
        return;
    }
    config->eos[config->eos_count++] = (int32_t)id;
}

static void read_eos(struct reader *reader, struct model_config *config)
{
    const json_t *value = field_in(reader->root, "eos_token_id");

    if (json_is_array(value))
        for (size_t i = 0; i < json_array_size(value); i++)
            add_eos(reader, config, json_array_get(value, i));
    else if (value != NULL)
        add_eos(reader, config, value);
}

static void read_tokens(struct reader *reader, struct model_config *config)
{
    const json_t *bos = field_in(reader->root, "bos_token_id");

    config->bos = -1;
    if (json_is_integer(bos) && json_integer_value(bos) < config->dims.vocabulary)
        config->bos = json_integer_value(bos) < 0 ? -1 : (int32_t)json_integer_value(bos);
    else if (bos != NULL)
        fault(reader, "bos_token_id must be an id below vocab_size %d", config->dims.vocabulary);
    read_eos(reader, config);
}

static void read_dtype(struct reader *reader, struct model_config *config)
{
    static const char *const names[DTYPE_COUNT] = {[DTYPE_F32] = "float32", [DTYPE_F16] = "float16", [DTYPE_BF16] = "bfloat16"};
    const char *text = read_text(reader->root, field_in(reader->root, "dtype") != NULL ? "dtype" : "torch_dtype");
    char shown[EXCERPT_MAX];

    config->dtype = DTYPE_F32;
    if (strncmp(text, "torch.", 6) == 0)
        text += 6;
    if (text[0] == '\0')
        return;
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(text, names[i]) == 0) {
            config->dtype = (enum dtype)i;
            config->dtype_stated = true;
            return;
        }
    fault(reader, "torch_dtype %s is not supported; float32, float16 and bfloat16 are", excerpt(text, strlen(text), shown));
}

static void read_flags(struct reader *reader, struct model_config *config)
{
    const json_t *activation = field_in(reader->root, "hidden_act");
    const char *name = json_string_value(activation);
    bool attention_bias = read_flag(reader, "attention_bias") && families[config->family].bias_optional;

    config->tied_head = read_flag(reader, "tie_word_embeddings");
    config->qkv_bias = families[config->family].qkv_bias_always || attention_bias;
    config->o_bias = attention_bias;
    config->mlp_bias = families[config->family].mlp_bias_optional && read_flag(reader, "mlp_bias");
    config->qk_norm = families[config->family].qk_norm;
    config->norm_eps = (float)read_number(reader, reader->root, "rms_norm_eps", 1e-30, 1, 1e-6);
    if (activation != NULL && (name == NULL || (strcmp(name, "silu") != 0 && strcmp(name, "swish") != 0)))
        fault(reader, "hidden_act must be silu; %s is not supported", name != NULL ? name : "what stands there");
}

static enum status read_all(struct reader *reader, struct model_config *ret_config)
{
    struct model_config config;

    memset(&config, 0, sizeof(config));
    reader->refusal->text[0] = '\0';
    if (!read_family(reader, &config))
        return STATUS_INVALID;
    refuse_quantised(reader);
    read_dims(reader, &config);
    config.positions_max = read_count(reader, reader->root, "max_position_embeddings", 1, POSITIONS_MAX, -1);
    read_rope(reader, &config);
    refuse_windows(reader, &config);
    read_flags(reader, &config);
    read_tokens(reader, &config);
    read_dtype(reader, &config);
    if (reader->refused)
        return STATUS_INVALID;
    *ret_config = config;
    return STATUS_OK;
}

enum status model_config_parse(const char *text, size_t bytes, const char *shown, struct model_config *ret_config,
                               struct refusal *refusal)
{
    struct reader reader = {.shown = shown, .refusal = refusal};
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    enum status status;

    if (!json_is_object(root)) {
        json_decref(root);
        return refuse(refusal, STATUS_INVALID, "%s: is not a JSON object%s%s", shown, root == NULL ? ": " : "",
                      root == NULL ? error.text : "");
    }
    reader.root = root;
    status = read_all(&reader, ret_config);
    json_decref(root);
    return status;
}

enum status model_config_read(const char *directory, struct model_config *ret_config, struct refusal *refusal)
{
    struct reader reader = {.refusal = refusal};
    char path[4096 + 64];
    json_t *root = NULL;
    enum status status;

    if (strlen(directory) > 4096)
        return refuse(refusal, STATUS_INVALID, "the name of the model's folder is too long");
    snprintf(path, sizeof(path), "%s/config.json", directory);
    status = file_read_json(AT_FDCWD, path, path, CONFIG_BYTES_MAX, &root, refusal);
    if (status != STATUS_OK)
        return status;
    reader.root = root;
    reader.shown = path;
    status = read_all(&reader, ret_config);
    json_decref(root);
    return status;
}
