/* What one thread does at a time, in each set of kernels. The ops cut their work into these and say nothing about instructions. */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include "engine/device/kernel_set.h"
#include "engine/ops/values.h"

/* From this many rows on a product is cut into tiles of several outputs; below, one weight row at a time is streamed past all rows:
 * interleaved rows of weights cost bandwidth, and there is little to reuse. */
#define MULTIPLY_MANY_ROWS 13

/* y [rows][outs] = x [rows][in] times w [outs][in] transposed, + bias; strides are elements. */
struct product {
    float *y;
    int64_t y_stride;
    const void *x;          /* f32, or bf16 when x_bf16 */
    int64_t x_stride;
    bool x_bf16;
    const void *w;
    enum dtype w_dtype;
    int64_t w_stride;
    const void *bias;       /* NULL: none; of w_dtype */
    int32_t rows, outs, in;
    bool add;               /* y += instead of y = */
};

/* y [rows][outs] += u [rows][rank] times B of [rank/2][width][2], bf16, columns 0 .. outs - 1 of B. */
struct expansion {
    float *y;
    int64_t y_stride;
    const void *u;
    int64_t u_stride;
    const void *b;
    int64_t width;
    int32_t rows, outs, rank;
};

/* Some queries of one sequence and one kv head over its keys. Query i is head i % group of row i / group. */
struct attention {
    void *y;                /* act; query i at row * row_stride + head * head_dim elements */
    const void *q;
    const void *k, *v;      /* act, one layer's blocks */
    int64_t row_stride;     /* of y and q, elements */
    int64_t block_stride;   /* of k and v, elements */
    const int32_t *blocks;  /* the sequence's line of block_table */
    int32_t before;         /* keys that row 0 sees besides its own */
    int32_t group;
    int32_t first, count;   /* queries; count <= ATTENTION_QUERIES */
    int32_t head_dim;
    enum mode mode;
    float *scratch;         /* attention_scratch_floats(head_dim), 64-byte aligned */
};
#define ATTENTION_QUERIES 32

struct kernels {
    void (*multiply)(const struct product *);
    void (*expand)(const struct expansion *);
    void (*attend)(const struct attention *);
    /* to act [n] = from */
    void (*round)(enum mode mode, act *to, const float *from, int64_t n);
    /* to f32 [n] = from at element `at` on */
    void (*widen)(float *to, enum dtype dtype, const void *from, int64_t at, int64_t n);
    /* x [n] += add (NULL: nothing); y = x * gain / sqrt(mean(x^2) + eps) */
    void (*norm)(enum mode mode, act *y, float *x, const float *add, const struct weight *gain, float eps, int32_t n);
    /* One head: normed when the gain has data, then turned by cos [d/2], sin [d/2]. */
    void (*turn)(enum mode mode, act *y, const float *x, const struct weight *gain, float eps, const float *angle, int32_t d);
    void (*swiglu)(enum mode mode, act *y, const float *gate, const float *up, int32_t n);
    /* The log of the sum of exp; and the `best` largest in falling order, ids rising on ties. */
    float (*pick)(float *ret_logit, int32_t *ret_id, const float *logit, int32_t n, int best);
};

static inline size_t attention_scratch_floats(int32_t head_dim)
{
    const size_t d = ((size_t)head_dim + 15) / 16 * 16;

    /* keys by columns, values, outputs, weights, largest, totals */
    return 16 * d + 16 * d + ATTENTION_QUERIES * (d + 16 + 16 + 16);
}

extern const struct kernels kernels_scalar;
#if defined(__x86_64__)
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512bf16;
#endif
const struct kernels *kernels_of(enum kernel_set set);

#endif
