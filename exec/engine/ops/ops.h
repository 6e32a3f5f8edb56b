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
     * ties. ret_lse [outputs], ret_logit, ret_id [outputs][best]; best <= PICK_MAX, best <= V. */
    void (*pick)(struct dev *, float *ret_lse, float *ret_logit, int32_t *ret_id, const float *logits, int best, const struct batch *);
    /* x f32 [n] = the sum over ranks, in rank order; nothing when tp = 1 */
    void (*all_reduce)(struct dev *, float *x, int64_t n);
};

#define PICK_MAX 256

#endif
