/* The definitions of the ops: scalar, one thread, sums in double, one rounding to the output's type. They read the mode and the dims of
 * the CPU's device that they are given and use none of its scratch. */
#ifndef REF_REF_H
#define REF_REF_H

#include "engine/device/cpu.h"

extern const struct ops ops_ref;

void ref_embed(struct dev *, float *x, const struct weight *table, const struct batch *);
void ref_norm(struct dev *, act *y, float *x, const float *add, const struct weight *gain, float eps, const struct batch *);
void ref_linear(struct dev *, float *y, const act *x, const struct weight *w, int n, const struct lora *, const struct batch *);
void ref_head(struct dev *, float *logits, const act *x, const struct weight *w, const struct batch *);
void ref_rope_store(struct dev *, act *q, act *k, act *v, const float *qkv, const struct weight *q_gain, const struct weight *k_gain,
                    float eps, const float *angles, const struct batch *);
void ref_attend(struct dev *, act *y, const act *q, const act *k, const act *v, const struct batch *);
void ref_swiglu(struct dev *, act *y, const float *gate_up, const struct batch *);
void ref_pick(struct dev *, float *ret_lse, float *ret_logit, int32_t *ret_id, const float *logits, int best, const struct batch *);
void ref_all_reduce(struct dev *, float *x, int64_t n);

/* One number of an act array. */
static inline double act_load(enum mode mode, const act *data, int64_t index)
{
    return (double)dtype_load(mode == MODE_EXACT ? DTYPE_F32 : DTYPE_BF16, data, (size_t)index);
}

static inline void act_store(enum mode mode, act *data, int64_t index, double value)
{
    if (mode == MODE_EXACT)
        ((float *)data)[index] = (float)value;
    else
        ((uint16_t *)data)[index] = bf16_round((float)value);
}

static inline double weight_load(const struct weight *w, int32_t row, int32_t column)
{
    return (double)dtype_load(w->dtype, w->data, (size_t)row * (size_t)w->stride + (size_t)column);
}

#endif
