/* The ops: the largest pieces that both kinds of device can fuse. model/ calls them in a straight list and never asks which device it
 * is on. Each has a definition in plain C with sums in double (ref/), a fast CPU file, and a .cu. OPS lists them once; every table is
 * made from it, so an op without a definition does not link.
 *
 * Bits: on the CPU an op sums over k in one order for every number of rows, and a row's result never depends on the other rows, on
 * how a prompt was cut into chunks, or on threads. On CUDA only a device opened deterministic promises that.
 * Ops do not fail: what could be wrong (shapes, counts) was refused when the model was opened, and check() stops on it. */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "engine/ops/values.h"

struct dev;

/* How positions turn: angles f32 [positions_max][d]: cos of pair i at [i], sin at [d/2 + i]; made once from the model's config. */

#define OPS(X) X(embed) X(norm) X(linear) X(head) X(rope_store) X(attend) X(swiglu) X(pick) X(all_reduce)

struct ops {
    /* x f32 [T][h] = table[token] */
    void (*embed)(struct dev *, float *x, const struct weight *table, const struct batch *);
    /* x f32 [T][h] += add f32 [T][h] (NULL: nothing); y act [T][h] = x * gain / sqrt(mean(x^2) + eps) */
    void (*norm)(struct dev *, act *y, float *x, const float *add, const struct weight *gain, float eps, const struct batch *);
    /* y f32 [T][sum of out] = W_i x + bias_i + B_i (A_i x) for the n <= 3 weights that share x act [T][in], side by side in y;
     * lora NULL: base only. The modules of lora->group, in order, are the n weights. */
    void (*linear)(struct dev *, float *y, const act *x, const struct weight *w, int n, const struct lora *, const struct batch *);
    /* logits f32 [outputs][V] = W x[out_row]; no adapter touches the head */
    void (*head)(struct dev *, float *logits, const act *x, const struct weight *w, const struct batch *);
    /* qkv f32 [T][(H+2K)d] -> q act [T][H][d], and k, v act into the blocks of one layer, [block][K][16][d] each, block
     * block_table[table][pos / 16]. q_gain, k_gain [d] (RMS norm of each head before turning, eps); data NULL: none.
     * Pairs are (i, i + d/2). angles: see above. */
    void (*rope_store)(struct dev *, act *q, act *k, act *v, const float *qkv, const struct weight *q_gain, const struct weight *k_gain,
                       float eps, const float *angles, const struct batch *);
    /* y act [T][H][d]: row t attends over positions 0 .. its own of its sequence, read from the blocks; scores times 1/sqrt(d);
     * masked by value, so what lies beyond in a block may be anything, NaN included. */
    void (*attend)(struct dev *, act *y, const act *q, const act *k, const act *v, const struct batch *);
    /* y act [T][F] = silu(gate) * up, gate_up f32 [T][2F] */
    void (*swiglu)(struct dev *, act *y, const float *gate_up, const struct batch *);
    /* For each output row: the log of the sum of exp of its logits, and its `best` largest logits in falling order, ids rising on
     * ties. ret_lse [outputs], ret_logit, ret_id [outputs][best]; best <= PICK_MAX, best <= V. A logit that is no number counts, and
     * is handed over, as -infinity; ret_lse is then no number, which tells. */
    void (*pick)(struct dev *, float *ret_lse, float *ret_logit, int32_t *ret_id, const float *logits, int best, const struct batch *);
    /* x f32 [n] = the sum over ranks, in rank order; nothing when tp = 1 */
    void (*all_reduce)(struct dev *, float *x, int64_t n);
};

#define PICK_MAX 256

/* --- training ------------------------------------------------------------------------------------------------------------
 * What goes back through a model, and what moves its weights: a list and a table of its own, for a device may serve without them. The
 * way forward is struct ops, unchanged; what the way back needs of it and serving does not keep (1 / rms, A x, softmax's totals) is
 * reckoned again from what went in, to the same bits. d... is the loss's gradient by ...; sequences begin at position 0 (before = 0).
 *
 * Bits: as above. Sums over rows (of A, B, weights, gains) run over one segment's rows, in pieces of TRAIN_ROWS counted from its first
 * row (of the batch's first for what has no segment), each piece summed on its own and then added: a job's gradient never depends on who
 * else is in the batch. */
#define TRAIN_OPS(X) X(loss) X(head_back) X(norm_back) X(linear_back) X(rope_back) X(attend_back) X(swiglu_back) X(embed_back) X(sumsq) \
    X(adamw) X(zero) X(round)
#define TRAIN_ROWS 64
#define SUMSQ_PIECE 4096

struct train_ops {
    /* ret_logp f32 [outputs] = log p(target); ret_best [outputs] = the id of the largest logit, the lowest on ties, one that is no number
     * counting as -infinity. dlogits act [outputs][V] = coef * (softmax - onehot(target)), the gradient of -coef * log p(target); coef
     * NULL: not wanted. logits f32 [outputs][V], target [outputs], coef f32 [outputs]. */
    void (*loss)(struct dev *, float *ret_logp, int32_t *ret_best, act *dlogits, const float *logits, const int32_t *target,
                 const float *coef, const struct batch *);
    /* dx f32 [T][h]: row out_row[o] = dlogits[o] W, the others stay; dw f32 [V][h] += sum of dlogits[o]^T x[out_row[o]], NULL: not wanted.
     * dlogits act [outputs][V], x act [T][h]. */
    void (*head_back)(struct dev *, float *dx, float *dw, const act *dlogits, const act *x, const struct weight *w, const struct batch *);
    /* dx f32 [T][h] += the way back of y = x * gain / sqrt(mean(x^2) + eps), dy f32 [T][h]; ret_dx act [T][h] = dx after that, rounded,
     * NULL: not wanted. dgain f32 [h] +=, NULL: not wanted. (Zhang and Sennrich 2019, section 4) */
    void (*norm_back)(struct dev *, act *ret_dx, float *dx, const float *dy, const float *x, const struct weight *gain, float eps,
                      float *dgain, const struct batch *);
    /* The n <= 3 weights that share x act [T][in]; dy act [T][sum of out].
     * dx f32 [T][in] = sum over i of dy_i W_i + (dy_i B_i) A_i, NULL: not wanted; dy_i B_i is rounded to act.
     * grad [segments][n] in order of batch->segment: a += (dy_i B_i)^T x, b += scale * dy_i^T (A_i x) (Hu et al. 2021, section 4).
     * dw [n] (host memory, pointers into the device): += dy_i^T x, NULL: the base is frozen. lora and grad may be NULL. */
    void (*linear_back)(struct dev *, float *dx, const act *dy, const act *x, const struct weight *w, int n, const struct lora *,
                        const struct lora_grad *grad, const struct weight_grad *dw, const struct batch *);
    /* dqkv act [T][(H+2K)d] from dturned f32 [T][(H+2K)d]: turned back and, where there are gains, through the heads' norms, for which
     * qkv f32 [T][(H+2K)d] is what rope_store was given (NULL without gains). dq_gain, dk_gain f32 [d] +=, NULL: not wanted. */
    void (*rope_back)(struct dev *, act *dqkv, const float *dturned, const float *qkv, const struct weight *q_gain,
                      const struct weight *k_gain, float eps, const float *angles, float *dq_gain, float *dk_gain, const struct batch *);
    /* dturned f32 [T][(H+2K)d] from dy f32 [T][H][d], with q and the blocks of k and v as attend read them. No sum crosses a sequence
     * (Dao et al. 2022, appendix B.2). */
    void (*attend_back)(struct dev *, float *dturned, const float *dy, const act *q, const act *k, const act *v, const struct batch *);
    /* dgate_up act [T][2F], dy f32 [T][F], gate_up f32 [T][2F] */
    void (*swiglu_back)(struct dev *, act *dgate_up, const float *dy, const float *gate_up, const struct batch *);
    /* dtable f32 [V][h]: row token[t] += dx[t], t rising */
    void (*embed_back)(struct dev *, float *dtable, const float *dx, const struct batch *);
    /* ret_sum, one double in device memory = sum of g^2 in double: pieces of SUMSQ_PIECE in order, then their sums in order */
    void (*sumsq)(struct dev *, double *ret_sum, const float *g, int64_t n);
    /* g' = gradient_scale g; p -= rate decay p; m = beta1 m + (1 - beta1) g'; v = beta2 v + (1 - beta2) g'^2;
     * p -= rate / correction1 * m / (sqrt(v / correction2) + epsilon). All f32 [n]. */
    void (*adamw)(struct dev *, float *p, float *m, float *v, const float *g, int64_t n, const struct adamw *);
    /* x f32 [n] = 0 */
    void (*zero)(struct dev *, float *x, int64_t n);
    /* y act [n] = x f32 [n] */
    void (*round)(struct dev *, act *y, const float *x, int64_t n);
};

#endif
