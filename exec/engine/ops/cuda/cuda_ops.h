/* The inside of the CUDA device: what its ops share. Every op enqueues on the compute lane and returns. Kernels read
 * how much there is to do from device memory (batch->now) and make their grids for the most (batch->max), so a recorded
 * graph serves any batch that fits. Activations are float in exact and bf16 (uint16_t here) in fast; rows are dense, as
 * ops.h says, also where that breaks 16-byte alignment: then tiles are filled number by number. */
#ifndef CUDA_CUDA_OPS_H
#define CUDA_CUDA_OPS_H

#include "engine/device/device.h"
#include "engine/ops/cuda/cuda_prims.h"

/* K of a LoRA shrink is cut into at most so many pieces, by K alone. */
#define SHRINK_SPLITS_MAX 8
/* Keys are cut every so many, by a row's own length alone. */
#define ATTEND_SPLIT_KEYS 512
/* Partial results of attention; longer contexts take rows in smaller groups. */
#define ATTEND_SCRATCH_BYTES ((int64_t)64 << 20)
/* Pieces of sumsq() whose sums are kept at once. */
#define SUMS_MAX 1024
#define MARKS_KEPT 256
#define BLAS_WORKSPACE_BYTES ((int64_t)32 << 20)
#define STAGE_BYTES ((size_t)1 << 20)
#define BOUNCE_BYTES ((int64_t)4 << 20)

struct dev_memory;
struct cuda_ranks;
struct cuda_shared;

struct dev {
    struct dev_config config;
    cudaStream_t lane[LANE_COUNT];
    cudaStream_t side;                        /* a shrink beside the base's GEMM */
    cudaEvent_t fork, join;
    cudaEvent_t mark[LANE_COUNT][MARKS_KEPT];
    uint64_t marks[LANE_COUNT];
    cublasHandle_t blas;
    void *blas_workspace;
    float *lora_u;                            /* [SHRINK_SPLITS_MAX][rows_max][u_width] */
    int32_t u_width;                          /* 3 x lora_rank_max */
    float *attend_o;                          /* [items][H][splits][d] */
    float *attend_ml;                         /* [items][H][splits][2]: maximum, sum */
    int32_t attend_items, attend_splits;
    void *gathered;                           /* act [outputs_max][h] */
    float *back_stats;                        /* [rows_max][H][2]: of norms and softmaxes; where it trains, as the next ones */
    uint16_t *back_dy;                        /* [rows_max][H][d], fast alone: attention's, rounded */
    double *back_sums;                        /* [SUMS_MAX] */
    void *back_u, *back_du;                   /* act [rows_max][u_width]: A x and dy B; where it trains */
    char *bounce;                             /* for a move onto itself */
    char *staged[LANE_COUNT];                 /* pinned; puts take their bytes through it */
    size_t staged_at[LANE_COUNT];
    struct dev_memory *matrices, *vectors;    /* chunks of weights, the one that is filled first */
    struct dev_memory *reserved;
    cudaGraphExec_t *graph;
    uint32_t graphs;
    bool recording;
    struct cuda_ranks *ranks;                 /* NULL: one GPU a model */
    struct cuda_shared *shared;               /* NULL: no weights for, or of, other processes */
};

/* One number of a weight. */
DEVICE float load_number(enum dtype dtype, const void *data, int64_t at)
{
    if (dtype == DTYPE_F32)
        return static_cast<const float *>(data)[at];

    uint32_t half = static_cast<const uint16_t *>(data)[at];
    uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;

    if (dtype == DTYPE_BF16)
        return bf16_float(half);
    if (exponent == 0x1f)
        return __uint_as_float(sign | 0x7f800000u | fraction << 13);
    if (exponent != 0)
        return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
    return __uint_as_float(sign | __float_as_uint((float)fraction * 0x1p-24f));
}

DEVICE float act_load(const float *from) { return *from; }
DEVICE float act_load(const uint16_t *from) { return bf16_float(*from); }
DEVICE void act_store(float *to, float value) { *to = value; }
DEVICE void act_store(uint16_t *to, float value) { *to = float_bf16(value); }

/* The sequence of a row; -1: none. Sequences stand in order of rows. */
DEVICE int sequence_of_row(const struct sequence *sequence, int count, int row)
{
    int low = 0, high = count;

    while (low < high) {
        int middle = (low + high) / 2;

        if (sequence[middle].row <= row)
            low = middle + 1;
        else
            high = middle;
    }
    /* Empty sequences share their row with the next one, which comes later. */
    return low > 0 && row < sequence[low - 1].row + sequence[low - 1].rows ? low - 1 : -1;
}

static inline int div_up(int64_t a, int64_t b)
{
    return (int)((a + b - 1) / b);
}

static inline bool is_fast(const struct dev *dev)
{
    return dev->config.mode == MODE_FAST;
}

/* The ops, a file each. */
void cuda_embed(struct dev *, float *x, const struct weight *table, const struct batch *);
void cuda_norm(struct dev *, act *y, float *x, const float *add, const struct weight *gain, float eps, const struct batch *);
void cuda_linear(struct dev *, float *y, const act *x, const struct weight *w, int n, const struct lora *, const struct batch *);
void cuda_head(struct dev *, float *logits, const act *x, const struct weight *w, const struct batch *);
void cuda_rope_store(struct dev *, act *q, act *k, act *v, const float *qkv, const struct weight *q_gain, const struct weight *k_gain,
                     float eps, const float *angles, const struct batch *);
void cuda_attend(struct dev *, act *y, const act *q, const act *k, const act *v, const struct batch *);
void cuda_swiglu(struct dev *, act *y, const float *gate_up, const struct batch *);
void cuda_pick(struct dev *, float *ret_lse, float *ret_logit, int32_t *ret_id, const float *logits, int best, const struct batch *);
void cuda_all_reduce(struct dev *, float *x, int64_t n);

/* Those of training. */
void cuda_loss(struct dev *, float *ret_logp, int32_t *ret_best, act *dlogits, const float *logits, const int32_t *target,
               const float *coef, const struct batch *);
void cuda_head_back(struct dev *, float *dx, float *dw, const act *dlogits, const act *x, const struct weight *w, const struct batch *);
void cuda_norm_back(struct dev *, act *ret_dx, float *dx, const float *dy, const float *x, const struct weight *gain, float eps,
                    float *dgain, const struct batch *);
void cuda_linear_back(struct dev *, float *dx, const act *dy, const act *x, const struct weight *w, int n, const struct lora *,
                      const struct lora_grad *grad, const struct weight_grad *dw, const struct batch *);
void cuda_rope_back(struct dev *, act *dqkv, const float *dturned, const float *qkv, const struct weight *q_gain,
                    const struct weight *k_gain, float eps, const float *angles, float *dq_gain, float *dk_gain, const struct batch *);
void cuda_attend_back(struct dev *, float *dturned, const float *dy, const act *q, const act *k, const act *v, const struct batch *);
void cuda_swiglu_back(struct dev *, act *dgate_up, const float *dy, const float *gate_up, const struct batch *);
void cuda_embed_back(struct dev *, float *dtable, const float *dx, const struct batch *);
void cuda_sumsq(struct dev *, double *ret_sum, const float *g, int64_t n);
void cuda_adamw(struct dev *, float *p, float *m, float *v, const float *g, int64_t n, const struct adamw *);
void cuda_zero(struct dev *, float *x, int64_t n);
void cuda_round(struct dev *, act *y, const float *x, int64_t n);

/* y f32 [rows][width], columns from y on, = x act [rows][w->in] times w, plus its bias; *rows_now rows, at most
 * rows_max. */
void cuda_gemm(struct dev *, float *y, int64_t width, const act *x, const struct weight *w, const int32_t *rows_now, int rows_max);
/* The two halves of an adapter's part: u = A x on `stream`, then y += B u on the compute lane. */
void cuda_lora_shrink(struct dev *, cudaStream_t stream, const act *x, const struct lora *, const struct batch *);
void cuda_lora_expand(struct dev *, float *y, const struct lora *, const struct batch *);
/* The way back: dx f32 [..][w->in] = the sum over i of dy_i W_i, row t going to out_row[t], or to t where that is NULL; */
void cuda_back_base(struct dev *, float *dx, const act *dy, int64_t width, const struct weight *w, int n, const int32_t *out_row,
                    const int32_t *rows_now, int rows_max);
/* then dx += (dy_i B_i) A_i and the adapters' gradients, as linear_back says; */
void cuda_lora_back(struct dev *, float *dx, const act *dy, int64_t width, const act *x, const struct lora *, const struct lora_grad *grad,
                    const struct batch *);
/* dw f32 [out][in] += dy^T x, dbias f32 [out] += the sum of dy, over *rows_now rows of dy act [..][width], out columns of it. */
void cuda_grad_weight(struct dev *, float *dw, const act *dy, int64_t width, const act *x, int out, int in, const int32_t *rows_now);
void cuda_grad_bias(struct dev *, float *dbias, const act *dy, int64_t width, int out, const int32_t *rows_now);
/* dev->gathered = x[out_row], x act [T][width]. */
void cuda_gather_outputs(struct dev *, const act *x, int width, const struct batch *);
/* Of keys: every row by itself, whatever the mode; for head sizes without a faster kernel. */
void cuda_attend_simple(struct dev *, act *y, const act *q, const act *k, const act *v, const struct batch *);
void cuda_attend_rows(struct dev *, act *y, const act *q, const act *k, const act *v, bool every_row, const struct batch *);
void cuda_attend_prefill(struct dev *, act *y, const act *q, const act *k, const act *v, const struct batch *);
/* Of the way back: by tiles in bf16, for head sizes that are multiples of 8 up to 128; or a warp a row and a head. */
void cuda_attend_back_tiles(struct dev *, float *dturned, const float *dy, const act *q, const act *k, const act *v, const struct batch *);
void cuda_attend_back_simple(struct dev *, float *dturned, const float *dy, const act *q, const act *k, const act *v, const struct batch *);
/* What kernels need said once: shared memory above 48 KB. */
void cuda_gemm_setup(void);
void cuda_gemm_back_setup(void);
void cuda_lora_setup(void);
void cuda_lora_back_setup(void);
void cuda_attend_rows_setup(void);
void cuda_attend_prefill_setup(void);
void cuda_attend_back_setup(void);

#endif
