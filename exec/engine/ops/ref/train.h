/* The definitions of what goes back and of what moves weights: scalar, one thread, sums in double, one rounding to the output's type. */
#ifndef REF_TRAIN_H
#define REF_TRAIN_H

#include "engine/ops/ref/ref.h"

extern const struct train_ops train_ops_ref;

void ref_loss(struct dev *, float *ret_logp, int32_t *ret_best, act *dlogits, const float *logits, const int32_t *target,
              const float *coef, const struct batch *);
void ref_head_back(struct dev *, float *dx, float *dw, const act *dlogits, const act *x, const struct weight *w, const struct batch *);
void ref_norm_back(struct dev *, act *ret_dx, float *dx, const float *dy, const float *x, const struct weight *gain, float eps,
                   float *dgain, const struct batch *);
void ref_linear_back(struct dev *, float *dx, const act *dy, const act *x, const struct weight *w, int n, const struct lora *,
                     const struct lora_grad *grad, const struct weight_grad *dw, const struct batch *);
void ref_rope_back(struct dev *, act *dqkv, const float *dturned, const float *qkv, const struct weight *q_gain,
                   const struct weight *k_gain, float eps, const float *angles, float *dq_gain, float *dk_gain, const struct batch *);
void ref_attend_back(struct dev *, float *dturned, const float *dy, const act *q, const act *k, const act *v, const struct batch *);
void ref_swiglu_back(struct dev *, act *dgate_up, const float *dy, const float *gate_up, const struct batch *);
void ref_embed_back(struct dev *, float *dtable, const float *dx, const struct batch *);
void ref_sumsq(struct dev *, double *ret_sum, const float *g, int64_t n);
void ref_adamw(struct dev *, float *p, float *m, float *v, const float *g, int64_t n, const struct adamw *);
void ref_zero(struct dev *, float *x, int64_t n);
void ref_round(struct dev *, act *y, const float *x, int64_t n);

#endif
