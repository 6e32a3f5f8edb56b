/* config.json from a config: the way back. */
#include <jansson.h>

#include "engine/model/random.h"

static json_t *rope_scaling(const struct model_config *config)
{
    const struct rope *rope = &config->rope;

    switch (rope->kind) {
    case ROPE_LLAMA3:
        return json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor", rope->factor, "low_freq_factor",
                         rope->low_freq_factor, "high_freq_factor", rope->high_freq_factor,
                         "original_max_position_embeddings", (int)rope->positions_trained);
    case ROPE_LINEAR: case ROPE_DYNAMIC:
        return json_pack("{s:s, s:f, s:i}", "rope_type", rope_kind_name(rope->kind), "factor", rope->factor,
                         "original_max_position_embeddings", (int)rope->positions_trained);
    default:
        return json_null();
    }
}

static json_t *eos(const struct model_config *config)
{
    json_t *list = json_array();

    for (int32_t i = 0; i < config->eos_count; i++)
        json_array_append_new(list, json_integer(config->eos[i]));
    return list;
}

char *model_config_text(const struct model_config *config, enum dtype dtype)
{
    static const char *const dtypes[DTYPE_COUNT] = {[DTYPE_F32] = "float32", [DTYPE_F16] = "float16", [DTYPE_BF16] = "bfloat16"};
    static const char *const architectures[FAMILY_COUNT] = {
#define X(name, text, architecture) architecture,
        MODEL_FAMILIES(X)
#undef X
    };
    const struct dims *dims = &config->dims;
    json_t *root =
        json_pack("{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f, s:b, s:b, s:b, s:s, s:o, s:o}",
                  "architectures", architectures[config->family], "model_type", model_family_name(config->family),
                  "hidden_size", (int)dims->hidden, "num_hidden_layers", (int)dims->layers, "num_attention_heads",
                  (int)dims->heads, "num_key_value_heads", (int)dims->kv_heads, "head_dim", (int)dims->head_dim,
                  "intermediate_size", (int)dims->ffn, "vocab_size", (int)dims->vocabulary, "max_position_embeddings",
                  (int)config->positions_max, "hidden_act", "silu", "rms_norm_eps", (double)config->norm_eps,
                  "rope_theta", config->rope.theta, "tie_word_embeddings", (int)config->tied_head, "attention_bias",
                  (int)config->o_bias, "mlp_bias", (int)config->mlp_bias, "torch_dtype", dtypes[dtype], "rope_scaling",
                  rope_scaling(config), "eos_token_id", eos(config));
    char *text;

    check(root != NULL);
    if (config->bos >= 0)
        json_object_set_new(root, "bos_token_id", json_integer(config->bos));
    if (config->family == FAMILY_MISTRAL)
        json_object_set_new(root, "sliding_window", json_null());
    text = json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(root);
    return text;
}
