/* What the ops work on. Plain values; pointers are the device's unless said otherwise. The same header is read by C and by
 * CUDA C. Letters: T rows of a batch, h hidden, H heads, K kv heads, d head size, F ffn, V vocabulary, r rank. */
#ifndef OPS_VALUES_H
#define OPS_VALUES_H

#include "engine/device/dtype.h"
#include "model/lora_modules.h"

/* exact: activations, KV and adapters are f32, weights are widened. fast: inputs of GEMM and attention, KV and adapters are
 * bf16; residual stream, norms, softmax and logits f32. Sums are f32 in both. Fixed when a device is opened. */
enum mode { MODE_EXACT, MODE_FAST };

/* f32 in exact, bf16 in fast. */
typedef void act;

static inline size_t act_bytes(enum mode mode)
{
    return mode == MODE_EXACT ? 4 : 2;
}

/* One shard's dimensions (tp = 1: the whole model's). */
struct dims {
    int32_t hidden;
    int32_t heads;
    int32_t kv_heads;    /* divides heads */
    int32_t head_dim;    /* even */
    int32_t ffn;
    int32_t vocabulary;
    int32_t layers;
};

/* [out][in] as in the file, at any byte alignment on the CPU; never copied there. */
struct weight {
    const void *data;    /* NULL: there is none (a gain or bias that a family lacks) */
    const void *bias;    /* [out], of the same dtype; NULL: none */
    const void *scales;  /* NULL unless quantised, which nothing here reads yet */
    int32_t group;       /* of scales */
    enum dtype dtype;
    int32_t out, in;
    int32_t stride;      /* elements from row to row, >= in */
};

#define KV_BLOCK_TOKENS 16
#define SEGMENT_NONE (-1)

/* The modules of model/lora_modules.h, in their order, as tensors are called, and the groups that share an input. */
#define LORA_MODULES(X) X(Q, "q_proj", QKV) X(K, "k_proj", QKV) X(V, "v_proj", QKV) X(O, "o_proj", O) \
    X(GATE, "gate_proj", GATE_UP) X(UP, "up_proj", GATE_UP) X(DOWN, "down_proj", DOWN)
enum lora_group { LORA_GROUP_QKV, LORA_GROUP_O, LORA_GROUP_GATE_UP, LORA_GROUP_DOWN, LORA_GROUP_COUNT };

/* Rank is padded with zeros to a multiple of this, an adapter at a time, never to a batch's largest. */
#define LORA_RANK_STEP 16
#define LORA_RANK_MAX 256

/* One adapter in the pool; in device memory, [slots]. */
struct lora_slot {
    int64_t offset;      /* bytes from the pool's start; a multiple of 256 */
    int32_t rank;        /* padded; 0: nobody is here */
    uint32_t generation; /* a new one each time something else is put here */
    uint32_t modules;    /* bit of enum lora_module: the others are absent and take no bytes */
};

/* Consecutive rows of one adapter; base rows are in none and come last. */
struct segment { int32_t row, rows, slot; };
/* `rows` new tokens, after `before` tokens that lie in KV already; `table` is its line of block_table. */
struct sequence { int32_t row, rows, before, table; };
/* At most TILE_ROWS rows of one segment: a CUDA block's work. */
struct tile { int32_t segment, row, rows; };
#define TILE_ROWS_DECODE 16
#define TILE_ROWS_PREFILL 64

struct counts { int32_t rows, outputs, sequences, segments, tiles; };

/* One step. `now` and the arrays lie in device memory at fixed addresses, so that a recorded graph sees new values. */
struct batch {
    struct counts max;               /* of the arrays; host memory: a grid is made for it */
    const struct counts *now;
    const int32_t *token;            /* [rows]; -1 - n: the best id of output n of the step before, as pick left it on the device */
    const int32_t *picked;           /* [outputs][picked_stride]: that; NULL: no token is below 0 */
    int32_t picked_stride;
    const int32_t *position;         /* [rows] */
    const int32_t *out_row;          /* [outputs]: rows whose logits are wanted, ascending */
    const int32_t *block_table;      /* [sequences][blocks_max] */
    int32_t blocks_max;
    const struct sequence *sequence; /* [sequences], in order of rows */
    const struct segment *segment;   /* [segments], in order of rows */
    const struct tile *tile;         /* [tiles] */
};

/* On the host's side of memory. */
static inline int32_t batch_token(const struct batch *batch, int32_t row)
{
    int32_t token = batch->token[row];

    return token >= 0 ? token : batch->picked[(int64_t)(-1 - token) * batch->picked_stride];
}

/* The adapters of a step, for one layer and group. NULL in place of it: base only. */
struct lora {
    const void *pool;
    const struct lora_slot *slot;    /* [slots] */
    int32_t layer;
    enum lora_group group;
};

/* --- where things are in a packed adapter --------------------------------------------------------------------------------
 * Per layer, in order of use: A_qkv [n r][in] (the present ones of q, k, v one under the other), B_q, B_k, B_v, A_o, B_o,
 * A_gate_up, B_gate, B_up, A_down, B_down; every matrix begins at a multiple of 64 bytes. A is row-major. B is [out][r] on CUDA and
 * for f32, [r/2][out][2] for bf16 on the CPU. alpha/r is folded into B in f32, before its only rounding. */
static inline enum lora_group lora_group_of(enum lora_module module)
{
    return module <= LORA_V ? LORA_GROUP_QKV : module == LORA_O ? LORA_GROUP_O : module <= LORA_UP ? LORA_GROUP_GATE_UP : LORA_GROUP_DOWN;
}

static inline int32_t lora_module_in(const struct dims *dims, enum lora_module module)
{
    return module == LORA_O ? dims->heads * dims->head_dim : module == LORA_DOWN ? dims->ffn : dims->hidden;
}

static inline int32_t lora_module_out(const struct dims *dims, enum lora_module module)
{
    switch (module) {
    case LORA_Q: return dims->heads * dims->head_dim;
    case LORA_K: case LORA_V: return dims->kv_heads * dims->head_dim;
    case LORA_GATE: case LORA_UP: return dims->ffn;
    default: return dims->hidden;
    }
}

static inline int64_t lora_aligned(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* The offsets of one layer's pieces from the layer's start; -1: absent. Returns the layer's bytes. */
struct lora_layout {
    int64_t a[LORA_GROUP_COUNT];
    int64_t b[LORA_MODULE_COUNT];
};
static inline int64_t lora_layout_of(const struct dims *dims, enum mode mode, int32_t rank, uint32_t modules, struct lora_layout *ret_layout)
{
    const int64_t size = (int64_t)act_bytes(mode);
    int64_t at = 0;

    for (int group = 0; group < LORA_GROUP_COUNT; group++) {
        int64_t rows = 0;
        int32_t in = 0;

        ret_layout->a[group] = -1;
        for (int module = 0; module < LORA_MODULE_COUNT; module++) {
            if (lora_group_of((enum lora_module)module) != (enum lora_group)group || (modules >> module & 1) == 0)
                continue;
            rows += rank;
            in = lora_module_in(dims, (enum lora_module)module);
        }
        if (rows > 0) {
            ret_layout->a[group] = at;
            at += lora_aligned(rows * in * size);
        }
        for (int module = 0; module < LORA_MODULE_COUNT; module++) {
            if (lora_group_of((enum lora_module)module) != (enum lora_group)group)
                continue;
            ret_layout->b[module] = -1;
            if ((modules >> module & 1) == 0)
                continue;
            ret_layout->b[module] = at;
            at += lora_aligned((int64_t)lora_module_out(dims, (enum lora_module)module) * rank * size);
        }
    }
    return at;
}

/* Bytes of a packed adapter: what caches count. */
static inline int64_t lora_packed_bytes(const struct dims *dims, enum mode mode, int32_t rank, uint32_t modules)
{
    struct lora_layout layout;

    return dims->layers * lora_layout_of(dims, mode, rank, modules, &layout);
}

/* --- training ------------------------------------------------------------------------------------------------------------
 * Gradients and moments are f32 in both modes, in the shapes of PEFT's files: A [rank][in], B [out][rank], rank as it is stated. */

/* Where the gradient of one module of one segment goes; the ops add to it. */
struct lora_grad {
    float *a;            /* [rank][in]; NULL: nobody wants it */
    float *b;            /* [out][rank] */
    int32_t rank;        /* <= the slot's */
    float scale;         /* that was folded into the packed B */
};

/* The same for a weight of the base, when all weights train. */
struct weight_grad {
    float *weight;       /* [out][in] */
    float *bias;         /* [out]; NULL: there is none */
};

/* One step of AdamW (Loshchilov and Hutter 2019, algorithm 2, as torch.optim.AdamW computes it). */
struct adamw {
    float rate;
    float beta1, beta2;
    float epsilon;
    float decay;
    float gradient_scale; /* what clipping multiplies the gradient by */
    float correction1;    /* 1 - beta1^k at the k-th step, k from 1 */
    float correction2;    /* 1 - beta2^k */
};

#endif
