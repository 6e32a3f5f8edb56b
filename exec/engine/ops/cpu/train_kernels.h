/* What one thread does at a time on the way back, in each set of kernels. Products whose weights lie the wrong way round (sums over rows,
 * or over a weight's outputs) go through panels: PANEL_COLUMNS columns of the second factor, copied into the order in which they are
 * used, small enough for the second cache. */
#ifndef CPU_TRAIN_KERNELS_H
#define CPU_TRAIN_KERNELS_H

#include "engine/device/kernel_set.h"
#include "engine/ops/values.h"

#define PANEL_COLUMNS 32
/* Elements of k in a panel at once; longer sums are added up in memory, panel by panel, in order. */
#define PANEL_K 1024

/* Bytes of a panel of k elements: a word of 32 bits for each float, or each pair of bf16. */
static inline size_t panel_bytes(bool bf16, int64_t k)
{
    return (size_t)(bf16 ? (k + 1) / 2 : k) * PANEL_COLUMNS * 4;
}

/* y [rows][columns] = or += x [rows][k] times the first k of `packed` elements of panels, which lie panel_bytes() apart. Strides are
 * elements. */
struct panel_product {
    float *y;
    int64_t y_stride;
    const void *x;          /* act */
    int64_t x_stride;
    const void *panels;
    int32_t rows, columns, k, packed;
    bool bf16;
    bool add;
};

struct train_kernels {
    /* Panels of w [k][columns], of any dtype; bf16 only from bf16. */
    void (*panel_rows)(void *panels, bool bf16, const void *w, enum dtype dtype, int64_t stride, int32_t k, int32_t columns);
    /* Panels of w [columns][k], act. */
    void (*panel_columns)(void *panels, bool bf16, const void *w, int64_t stride, int32_t k, int32_t columns);
    void (*panel_multiply)(const struct panel_product *);
    /* to act [columns][rows] = from f32 [rows][columns] */
    void (*transpose)(enum mode mode, act *to, int64_t to_stride, const float *from, int64_t from_stride, int32_t rows, int32_t columns);
    /* One row of each; see ops.h. */
    void (*norm_back)(enum mode mode, act *ret_dx, float *dx, const float *dy, const float *x, const struct weight *gain, float eps,
                      int32_t n);
    void (*turn_back)(enum mode mode, act *dx, const float *dy, const float *x, const struct weight *gain, float eps, const float *angle,
                      int32_t d);
    void (*swiglu_back)(enum mode mode, act *dgate, act *dup, const float *dy, const float *gate, const float *up, int32_t n);
    /* Returns log p(target); dlogits NULL: no gradient. */
    float (*loss)(enum mode mode, int32_t *ret_best, act *dlogits, const float *logits, int32_t target, float coef, int32_t n);
    /* Scores [n] become probabilities of the first `keys`, the rest zero. */
    void (*softmax)(float *scores, float scale, int32_t keys, int32_t n);
    /* ds [n] = p (dp - sum of p dp) scale, in place of dp */
    void (*softmax_back)(float *dp, const float *p, float scale, int32_t n);
    void (*adamw)(float *p, float *m, float *v, const float *g, int64_t n, const struct adamw *);
    double (*sumsq)(const float *g, int64_t n);
};

extern const struct train_kernels train_kernels_scalar;
#if defined(__x86_64__)
extern const struct train_kernels train_kernels_avx2;
extern const struct train_kernels train_kernels_avx512bf16;
#endif
const struct train_kernels *train_kernels_of(enum kernel_set set);

#endif
