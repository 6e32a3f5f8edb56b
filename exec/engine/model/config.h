/* A model's config.json as Hugging Face writes it, for the families whose forward pass is ours: Llama, Mistral, Qwen2,
 * Qwen3. Fields that are absent have the defaults of transformers' configuration classes. What would change the numbers
 * and is not done here (windows, other scalings of RoPE, quantised weights, other activations) is refused by its name.
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "engine/files/refusal.h"
#include "engine/ops/values.h"

/* model_type, architecture */
#define MODEL_FAMILIES(X)                                \
    X(LLAMA, "llama", "LlamaForCausalLM")                \
    X(MISTRAL, "mistral", "MistralForCausalLM")          \
    X(QWEN2, "qwen2", "Qwen2ForCausalLM")                \
    X(QWEN3, "qwen3", "Qwen3ForCausalLM")
enum model_family {
#define X(name, text, architecture) FAMILY_##name,
    MODEL_FAMILIES(X)
#undef X
    FAMILY_COUNT
};
const char *model_family_name(enum model_family family);

#define ROPE_KINDS(X) X(PLAIN, "default") X(LINEAR, "linear") X(DYNAMIC, "dynamic") X(LLAMA3, "llama3")
enum rope_kind {
#define X(name, text) ROPE_##name,
    ROPE_KINDS(X)
#undef X
    ROPE_KIND_COUNT
};
const char *rope_kind_name(enum rope_kind kind);

struct rope {
    enum rope_kind kind;
    double theta;
    double factor;              /* >= 1; of all kinds but plain */
    double low_freq_factor;     /* llama3 */
    double high_freq_factor;    /* llama3; above low */
    int32_t positions_trained;  /* dynamic, llama3: what the model was trained on before it was stretched */
};

#define MODEL_EOS_MAX 16
#define MODEL_LAYERS_MAX 1024

struct model_config {
    enum model_family family;
    struct dims dims;
    float norm_eps;
    int32_t positions_max;  /* max_position_embeddings; times factor when linear or dynamic stretch it */
    struct rope rope;
    bool tied_head;         /* the head is the embedding table */
    bool qkv_bias;
    bool o_bias;
    bool mlp_bias;
    bool qk_norm;
    bool dtype_stated;
    enum dtype dtype;       /* torch_dtype or dtype; F32 when not stated. The tensors' own is what counts */
    int32_t bos;            /* -1: none */
    int32_t eos_count;      /* 0: none */
    int32_t eos[MODEL_EOS_MAX];
};

#define CONFIG_BYTES_MAX (1 << 20)

/* DIRECTORY/config.json; what generation_config.json says of ends is for generation.h. */
enum status model_config_read(const char *directory, struct model_config *ret_config, struct refusal *refusal);
/* The text of one; `shown` is its name in messages. */
enum status model_config_parse(const char *text, size_t bytes, const char *shown, struct model_config *ret_config,
                               struct refusal *refusal);

uint64_t model_parameters(const struct model_config *config); /* a tied table once */

/* How fast pair i (0 .. d/2 - 1) turns, in radians a position, for sequences of at most `positions` positions.
 *   plain    theta^(-2i/d)                             (Su et al. 2021, RoFormer, 3.2.2)
 *   linear   plain / factor                            (Chen et al. 2023, position interpolation)
 *   dynamic  plain with theta' = theta * (factor * L / trained - (factor - 1))^(d / (d - 2)), L = max(positions, trained)
 *            ("NTK-aware", transformers' _compute_dynamic_ntk_parameters). transformers makes L the longest sequence
 *            so far, so that keys of one sequence are turned by several thetas; a table has one: that of the longest
 *            sequence it is made for.
 *   llama3   wavelength w = 2 pi / plain; w < trained / high: plain; w > trained / low: plain / factor; between, with
 *            s = (trained / w - low) / (high - low): (1 - s) * plain / factor + s * plain
 *            (meta-llama/llama-models, apply_scaling; transformers' _compute_llama3_parameters) */
double rope_frequency(const struct model_config *config, int32_t positions, int32_t pair);
/* ret_angles f32 [positions][d]: cos of pair i at [i], sin at [d/2 + i]; reckoned in double. */
void rope_angles(const struct model_config *config, int32_t positions, float *ret_angles);

#endif
