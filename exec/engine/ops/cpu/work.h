/* How ops give their work to threads. */
#ifndef CPU_WORK_H
#define CPU_WORK_H

#include "engine/device/cpu.h"
#include "engine/ops/cpu/kernels.h"

extern const struct ops ops_cpu;


/* Work of fewer multiplications than this is done by the caller: about what a thread does while another is told. */
#define WORK_WORTH_A_TEAM 100000

static inline struct team *work_team(const struct dev *dev, int64_t multiplications)
{
    return multiplications < WORK_WORTH_A_TEAM ? dev->solo : dev->team;
}

static inline void *work_scratch(const struct dev *dev, uint32_t thread)
{
    return dev->scratch + thread * dev->scratch_bytes;
}

/* Rows of x at a time against A, and of y against B. */
#define LORA_ROWS 64

/* Bytes of one thread's scratch. */
size_t work_scratch_bytes(const struct dev_config *config);

/* act_on(dev, context, row) for each of the rows, by whoever comes to it; `cost`: about how many multiplications a row is worth. */
typedef void row_act(struct dev *dev, const void *context, int32_t row);
void work_rows(struct dev *dev, int32_t rows, int64_t cost, row_act *act_on, const void *context);

void cpu_linear(struct dev *, float *y, const act *x, const struct weight *w, int n, const struct lora *, const struct batch *);
void cpu_head(struct dev *, float *logits, const act *x, const struct weight *w, const struct batch *);
void cpu_attend(struct dev *, act *y, const act *q, const act *k, const act *v, const struct batch *);
void cpu_embed(struct dev *, float *x, const struct weight *table, const struct batch *);
void cpu_norm(struct dev *, act *y, float *x, const float *add, const struct weight *gain, float eps, const struct batch *);
void cpu_rope_store(struct dev *, act *q, act *k, act *v, const float *qkv, const struct weight *q_gain, const struct weight *k_gain,
                    float eps, const float *angles, const struct batch *);
void cpu_swiglu(struct dev *, act *y, const float *gate_up, const struct batch *);
void cpu_pick(struct dev *, float *ret_lse, float *ret_logit, int32_t *ret_id, const float *logits, int best, const struct batch *);
void cpu_all_reduce(struct dev *, float *x, int64_t n);

/* One module of one segment's adapter. */
struct lora_part {
    int64_t shrink;             /* number of its first task that makes u, and of its first that uses it */
    int64_t expand;
    const char *a;              /* act [rank][in] */
    const char *b;
    int32_t row, rows, rank;
    int32_t weight;             /* index among the weights that share x */
    int32_t column;             /* of y */
    int32_t u_column;
};

#endif
