/* The fast CPU ops of training: how they give their work to threads. A task owns what it writes; the sums over rows in it run in one
 * order, so nothing depends on threads. */
#ifndef CPU_TRAIN_H
#define CPU_TRAIN_H

#include "engine/ops/cpu/train_kernels.h"
#include "engine/ops/cpu/work.h"

extern const struct train_ops train_ops_cpu;

struct back_part;

/* Pieces of sumsq() whose sums are kept at once. */
#define TRAIN_SUMS 1024

/* What a device that trains has besides. */
struct train_memory {
    const struct train_kernels *kernels;
    /* Of a step's rows, act [rows_max][3 * lora_rank_max]: dy B; and, turned over in pieces of TRAIN_ROWS rows, A x and dy B. A piece of
     * n rows from row t on takes the n lines from t on: each part's [rank][n] begins at n times its column. */
    char *du;
    char *u_turned, *du_turned;
    struct back_part *parts;    /* [3 * rows_max] */
    float *rows;                /* [outputs_max][hidden] */
    float *scales;              /* [rows_max] */
    double *sums;               /* [TRAIN_SUMS] */
};

/* With nothing in it; NULL: no memory. free() takes it. */
struct train_memory *train_memory_create(const struct dev_config *config);
/* What goes into it; how many pieces. */
uint32_t train_pieces(struct train_memory *memory, const struct dev_config *config, struct dev_piece *ret_pieces);
/* Bytes of one thread's scratch, at least what serving wants. */
size_t train_scratch_bytes(const struct dev_config *config);
size_t linear_back_scratch_bytes(const struct dev_config *config);
size_t attend_back_scratch_bytes(const struct dev_config *config);

void cpu_loss(struct dev *, float *ret_logp, int32_t *ret_best, act *dlogits, const float *logits, const int32_t *target,
              const float *coef, const struct batch *);
void cpu_head_back(struct dev *, float *dx, float *dw, const act *dlogits, const act *x, const struct weight *w, const struct batch *);
void cpu_norm_back(struct dev *, act *ret_dx, float *dx, const float *dy, const float *x, const struct weight *gain, float eps,
                   float *dgain, const struct batch *);
void cpu_linear_back(struct dev *, float *dx, const act *dy, const act *x, const struct weight *w, int n, const struct lora *,
                     const struct lora_grad *grad, const struct weight_grad *dw, const struct batch *);
void cpu_rope_back(struct dev *, act *dqkv, const float *dturned, const float *qkv, const struct weight *q_gain,
                   const struct weight *k_gain, float eps, const float *angles, float *dq_gain, float *dk_gain, const struct batch *);
void cpu_attend_back(struct dev *, float *dturned, const float *dy, const act *q, const act *k, const act *v, const struct batch *);
void cpu_swiglu_back(struct dev *, act *dgate_up, const float *dy, const float *gate_up, const struct batch *);
void cpu_embed_back(struct dev *, float *dtable, const float *dx, const struct batch *);
void cpu_sumsq(struct dev *, double *ret_sum, const float *g, int64_t n);
void cpu_adamw(struct dev *, float *p, float *m, float *v, const float *g, int64_t n, const struct adamw *);
void cpu_zero(struct dev *, float *x, int64_t n);
void cpu_round(struct dev *, act *y, const float *x, int64_t n);

static inline int64_t pieces(int64_t count, int64_t piece)
{
    return (count + piece - 1) / piece;
}

#endif
