/* A base model: its config and its weights, which stay in the mapped files. Every tensor that the config promises is
 * there, in its shape; nothing else is, but buffers that can be reckoned (rotary_emb.inv_freq). */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "engine/model/config.h"
#include "engine/safetensors/safetensors.h"

/* Norm gains are weights of out = 1 and in = their length. `data` is NULL where the family has none (q_norm, k_norm). Weights that
 * share an input lie side by side, as ops->linear wants them. */
struct layer_weights {
    struct weight attn_norm;
    struct weight qkv[3];
    struct weight q_norm; /* [head_dim] */
    struct weight k_norm;
    struct weight o;
    struct weight mlp_norm;
    struct weight gate_up[2];
    struct weight down;
};

struct model_weights {
    struct weight embed;         /* [vocabulary][hidden] */
    struct layer_weights *layer; /* [layers] */
    struct weight norm;
    struct weight head;          /* [vocabulary][hidden]; tied: the same as embed */
};

/* A loaded base. Plain to read; owned by model_open and model_close. */
struct model {
    struct model_config config;
    struct model_weights weights;
    struct safetensors *files;
    int64_t weights_bytes;       /* of the tensors, a tied table once */
    enum dtype dtype;            /* of most bytes */
};

/* Config, files, shapes: all or nothing. The pages are read when they are first used. */
enum status model_open(const char *directory, struct model **ret_model, struct refusal *refusal);
void model_close(struct model *model); /* NULL is fine */

/* The names of the tensors of one linear module, "model.layers.3.self_attn.q_proj.weight"; also what adapters' names are made of.
 * suffix "": without. ret_name has TENSOR_NAME_MAX bytes and is returned. */
#define TENSOR_NAME_MAX 256
const char *model_linear_name(int32_t layer, enum lora_module module, const char *suffix, char *ret_name);
/* The weight of one linear module. */
const struct weight *model_linear(const struct model *model, int32_t layer, enum lora_module module);

/* All tensors of a model of this config, in no order, without data: what its file must hold. Calls `each` for each. */
typedef void model_tensor_seen(void *context, const char *name, const int64_t *shape, int32_t dims);
void model_tensors(const struct model_config *config, model_tensor_seen *each, void *context);

#endif
