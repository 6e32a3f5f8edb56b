/* A transformer's dimensions: the numbers of a Hugging Face config.json that decide bytes and FLOPs. */
#ifndef MODEL_SHAPE_H
#define MODEL_SHAPE_H

#include "base/base.h"

#define SHAPE_NAME_MAX 64

struct shape {
    char name[SHAPE_NAME_MAX];
    uint32_t layers;
    uint32_t hidden;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t ffn;          /* intermediate_size; gate, up and down each hidden x ffn */
    uint32_t vocabulary;
    uint32_t context_max;  /* max_position_embeddings; 0: not stated */
    uint32_t weight_bits;  /* 16 for bf16/f16, 8, 4: of the stored weights */
    bool tied_embeddings;  /* lm_head is the embedding table */
    bool qkv_bias;
    bool averaged;         /* not a real config: reckoned by mean d_in + d_out, see shape_averaged() */
    uint32_t averaged_sum; /* mean d_in + d_out of one of the seven matrices; only when averaged */
    uint64_t parameters_nominal; /* what the name promises, 8e9 for an "8B"; 0: none stated */
};

/* The shapes we ship (llama-7b, llama-8b, llama-13b, llama-70b, mistral-24b, qwen-7b, ...); NULL when unknown. */
const struct shape *shape_find(const char *name);
/* For listings: NULL past the end. */
const struct shape *shape_at(size_t index);

/* A model known only by its size: `layers` x seven matrices of mean d_in + d_out. Of its other dimensions nothing is
 * known (0), so only its adapters can be reckoned. Estimates say when they used it. `name` is cut to fit. */
struct shape shape_averaged(const char *name, uint32_t layers, uint32_t averaged_sum);

/* Every field in its range and consistent (heads a multiple of kv_heads ...). On failure `ret_field` names the first
 * bad field and `ret_rule` says what it must be; both are constants. */
enum status shape_validate(const struct shape *shape, const char **ret_field, const char **ret_rule);

#endif
