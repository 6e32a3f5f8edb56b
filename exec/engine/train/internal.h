/* The inside of the trainer, for train/ only. */
#ifndef TRAIN_INTERNAL_H
#define TRAIN_INTERNAL_H

#include "engine/device/ranks.h"
#include "engine/model/batch.h"
#include "engine/train/train.h"

/* What a layer leaves for the way back: type, name, bytes for T rows, the first level that makes it again (RECOMPUTE_COUNT: none).
 * Where a level makes it again, all layers have the same memory. The letters are trainer.c's. */
#define KEPT(X)                                                                                          \
    X(float, x, stream * 4, RECOMPUTE_COUNT)               /* [T][h]: the residual stream that comes in */ \
    X(act, attn_in, stream * size, RECOMPUTE_PARTIAL)      /* [T][h]: normed */                            \
    X(float, qkv, normed_heads * rows * qkv * 4, RECOMPUTE_LAYER) /* [T][(H+2K)d]: where heads are normed */ \
    X(act, q, heads * size, RECOMPUTE_LAYER)               /* [T][H][d] */                                 \
    X(act, k, kv * size, RECOMPUTE_LAYER)                  /* blocks */                                    \
    X(act, v, kv * size, RECOMPUTE_LAYER)                                                                \
    X(act, attended, heads * size, RECOMPUTE_LAYER)        /* [T][H][d] */                                 \
    X(float, middle, stream * 4, RECOMPUTE_LAYER)          /* [T][h]: the stream behind attention */       \
    X(act, mlp_in, stream * size, RECOMPUTE_PARTIAL)       /* [T][h]: normed */                            \
    X(float, gate_up, rows * 2 * ffn * 4, RECOMPUTE_LAYER) /* [T][2F] */                                   \
    X(act, gated, rows * ffn * size, RECOMPUTE_PARTIAL)    /* [T][F] */
struct kept {
#define X(type, name, bytes, level) type *name;
    KEPT(X)
#undef X
};
enum kept_kind {
#define X(type, name, bytes, level) KEPT_##name,
    KEPT(X)
#undef X
    KEPT_COUNT
};

struct pair_place {
    bool there;
    int32_t rank;
    float scale;
    int64_t a, b;    /* elements from a job's start */
};

struct job {
    bool open;
    struct optimizer optimizer;
    int64_t parameters;
    int64_t updates;
    int32_t rank;                           /* the largest */
    uint32_t modules;
    struct pair_place *place;               /* [layers][LORA_MODULE_COUNT] */
    struct lora_pair *pairs;                /* [layers][LORA_MODULE_COUNT], pointing into `values` when packed */
    int32_t lowest;                         /* layer with a pair */
    float *state[TRAIN_STATE_COUNT];        /* on the device, [parameters] each */
    float *values;                          /* host: the matrices, to be packed */
    void *packed;                           /* host */
    int64_t packed_bytes;
};

/* Grads of one layer's modules, in order of groups: QKV 3, O 1, GATE_UP 2, DOWN 1, times segments. */
#define GRADS_A_LAYER 7

struct trainer {
    struct trainer_config config;
    const struct device *device;
    struct dev *dev;
    const struct ops *ops;
    const struct train_ops *train;
    struct dims dims;                       /* this rank's */
    struct dims whole;                      /* the model's */
    int32_t tp;
    float eps;
    bool normed_heads;
    struct model_weights weights;
    struct job *jobs;                       /* [jobs_max] */
    int64_t slot_bytes;                     /* of one job's part of the pool */
    /* on the device */
    float *angles;
    char *pool;
    struct lora_slot *slots;
    struct kept *kept;                      /* [layers] */
    char *kept_memory[KEPT_COUNT];          /* [layers or 1][kept_bytes] */
    int64_t kept_bytes[KEPT_COUNT];         /* of one layer's */
    float *x_top;                           /* [T][h]: what leaves the last layer */
    act *top;                               /* [T][h]: normed */
    float *wide;                            /* [T][widest of (H+2K)d and h]: what linear gives, and dturned */
    float *dx;                              /* [T][h] */
    act *dx_act;                            /* [T][h] */
    float *dwide;                           /* [T][widest of F, Hd and h] */
    act *dact;                              /* [T][widest of 2F and (H+2K)d] */
    float *logits;                          /* [head_rows][V] */
    act *dlogits;                           /* [head_rows][V] */
    float *logp;                            /* [T] */
    int32_t *best;                          /* [T]: the likeliest token */
    int32_t *targets;                       /* [T] */
    float *coefs;                           /* [T] */
    double *sum;                            /* [1] */
    float *norms;                           /* [RANKS_MAX]: of each rank's part of a gradient */
    struct counts *chunk_counts;            /* [chunks]: `now` of each piece of the head's rows */
    struct lora_grad *grads;                /* [layers][GRADS_A_LAYER][jobs] */
    struct batch_arrays host;
    struct batch batch;
    /* on the host */
    struct forward_part *parts;             /* [samples_max] */
    int32_t *blocks;                        /* [1 + all]: 1, 2, ... */
    int32_t *host_targets;                  /* [T] */
    float *host_coefs;
    float *host_logp;
    int32_t *host_best;
    int32_t *target_sample;                 /* [T]: whose */
    struct counts *host_counts;
    struct lora_grad *host_grads;
    int32_t lowest;                         /* layer that a gradient is wanted in, of this pass */
    char *full_weights;                     /* on the device: all weights as act; in exact mode the matrices themselves */
};

static inline int32_t qkv_width(const struct dims *dims)
{
    return (dims->heads + 2 * dims->kv_heads) * dims->head_dim;
}

/* Samples of one job in a pass of several. */
static inline int32_t job_samples_max(const struct trainer_config *config)
{
    return config->job_samples_max > 0 ? config->job_samples_max : config->samples_max;
}

/* Makes a job's matrices into what the way forward reads. */
void job_pack(struct trainer *trainer, int32_t job);
bool job_reserve_states(struct trainer *trainer, struct job *job);

/* Full fine-tuning: makes matrices into weights again; where a weight's gradient goes, NULL when the base is frozen or there is none. */
void full_pack(struct trainer *trainer);
void full_drop(struct trainer *trainer);
float *full_grad(const struct trainer *trainer, const void *weight_data);

#endif
