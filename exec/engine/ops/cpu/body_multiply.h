/* Matrix products over vec.h's words, compiled once a set of kernels. An output is one accumulator of sixteen lanes over k, summed by one
 * tree at the end, whatever tile computes it: that is why a row's bits know nothing of other rows, chunks and threads. No weight is
 * packed or copied; what hangs over the end of a row is loaded by mask, for the mapping may end there. */
#ifndef CPU_BODY_MULTIPLY_H
#define CPU_BODY_MULTIPLY_H

#include "engine/ops/cpu/kernels.h"

/* How far ahead of a streamed weight row to ask for it, in bytes: measured at one row and at eight, which stay on a line for longer. */
#define AHEAD_BYTES(rows) ((rows) <= 2 ? 4096 : 1024)

/* What is multiplied: the names are x's type, then w's. */
enum kind { KIND_BF16_BF16, KIND_F32_F32, KIND_F32_BF16, KIND_F32_F16, KIND_BF16_F32, KIND_BF16_F16 };

VEC vec load_x(enum kind kind, const char *x, int n)
{
    if (kind == KIND_BF16_F32 || kind == KIND_BF16_F16)
        return n == 16 ? vec_widen_bf16(x) : vec_widen_bf16_n(x, n);
    return n == 16 ? vec_load(x) : vec_load_n(x, n);
}

VEC vec load_w(enum kind kind, const char *w, int n)
{
    if (kind == KIND_F32_BF16)
        return n == 16 ? vec_widen_bf16(w) : vec_widen_bf16_n(w, n);
    if (kind == KIND_F32_F16 || kind == KIND_BF16_F16)
        return n == 16 ? vec_widen_f16(w) : vec_widen_f16_n(w, n);
    return n == 16 ? vec_load(w) : vec_load_n(w, n);
}

VEC int64_t x_bytes(enum kind kind)
{
    return kind == KIND_BF16_BF16 || kind == KIND_BF16_F32 || kind == KIND_BF16_F16 ? 2 : 4;
}

VEC int64_t w_bytes(enum kind kind)
{
    return kind == KIND_F32_F32 || kind == KIND_BF16_F32 ? 4 : 2;
}

struct at {
    const char *x, *w;      /* of the tile's first row and first output */
    int64_t x_stride, w_stride; /* bytes */
    int32_t in;
};

/* One step over k: n elements of each row. */
VEC void tile_step(vec sum[STREAM_ROWS][TILE_OUTS], struct at at, int64_t k, int n, enum kind kind, int rows, int outs)
{
    const char *x = at.x + k * x_bytes(kind);
    const char *w = at.w + k * w_bytes(kind);

    if (kind == KIND_BF16_BF16) {
        pairs b[TILE_OUTS];

        UNROLL for (int j = 0; j < outs; j++)
            b[j] = n == 32 ? pairs_load(w + j * at.w_stride) : pairs_load_n(w + j * at.w_stride, n);
        UNROLL for (int i = 0; i < rows; i++) {
            pairs a = n == 32 ? pairs_load(x + i * at.x_stride) : pairs_load_n(x + i * at.x_stride, n);

            UNROLL for (int j = 0; j < outs; j++)
                sum[i][j] = pairs_dot(sum[i][j], a, b[j]);
        }
    } else {
        vec b[TILE_OUTS];

        UNROLL for (int j = 0; j < outs; j++)
            b[j] = load_w(kind, w + j * at.w_stride, n);
        UNROLL for (int i = 0; i < rows; i++) {
            vec a = load_x(kind, x + i * at.x_stride, n);

            UNROLL for (int j = 0; j < outs; j++)
                sum[i][j] = vec_fma(a, b[j], sum[i][j]);
        }
    }
}

/* Four accumulators cost little more than one; a single output takes them from four rows. */
VEC void tile_sum(float ret_sum[STREAM_ROWS][4], vec sum[STREAM_ROWS][TILE_OUTS], int rows, int outs)
{
    int i = 0;

    if (outs == 1 && STREAM_ROWS >= 4)
        UNROLL for (; i + 4 <= rows; i += 4) {
            float four[4];

            vec_sum4(four, sum[i][0], sum[i + 1][0], sum[i + 2][0], sum[i + 3][0]);
            UNROLL for (int j = 0; j < 4; j++)
                ret_sum[i + j][0] = four[j];
        }
    UNROLL for (; i < rows; i++) {
        if (outs == 4)
            vec_sum4(ret_sum[i], sum[i][0], sum[i][1 % TILE_OUTS], sum[i][2 % TILE_OUTS], sum[i][3 % TILE_OUTS]);
        else
            UNROLL for (int j = 0; j < outs; j++)
                ret_sum[i][j] = vec_sum(sum[i][j]);
    }
}

/* rows <= STREAM_ROWS, outs <= TILE_OUTS: constants at every call. */
VEC void tile(float ret_sum[STREAM_ROWS][4], struct at at, enum kind kind, int rows, int outs)
{
    const int step = kind == KIND_BF16_BF16 ? 32 : 16;
    const int32_t whole = at.in / step * step;
    vec sum[STREAM_ROWS][TILE_OUTS];

    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < outs; j++)
            sum[i][j] = vec_zero();
    for (int32_t k = 0; k < whole; k += step) {
        if (outs == 1)
            __builtin_prefetch((const void *)((uintptr_t)at.w + (uintptr_t)(k * w_bytes(kind) + AHEAD_BYTES(rows))));
        tile_step(sum, at, k, step, kind, rows, outs);
    }
    if (whole < at.in)
        tile_step(sum, at, whole, at.in - whole, kind, rows, outs);
    tile_sum(ret_sum, sum, rows, outs);
}

/* 1 <= rows <= most; most and outs are constants. */
VEC void tile_of(float ret_sum[STREAM_ROWS][4], struct at at, enum kind kind, int rows, int outs, int most)
{
#define CASE(n)                                                \
    case n:                                                    \
        if (n <= most)                                         \
            tile(ret_sum, at, kind, n <= most ? n : 1, outs);  \
        break;
    switch (rows) {
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
    default:
        break;
    }
#undef CASE
}

VEC struct at product_at(const struct product *p, enum kind kind, int32_t row, int32_t out)
{
    return (struct at){.x = (const char *)p->x + row * p->x_stride * x_bytes(kind),
                       .w = (const char *)p->w + out * p->w_stride * w_bytes(kind),
                       .x_stride = p->x_stride * x_bytes(kind),
                       .w_stride = p->w_stride * w_bytes(kind),
                       .in = p->in};
}

VEC void put(const struct product *p, const float sum[STREAM_ROWS][4], int32_t row, int32_t out, int rows, int outs)
{
    float bias[4] = {0};

    if (p->bias != NULL)
        for (int j = 0; j < outs; j++)
            bias[j] = dtype_load(p->w_dtype, p->bias, (size_t)(out + j));
    for (int i = 0; i < rows; i++) {
        float *y = p->y + (row + i) * p->y_stride + out;

        for (int j = 0; j < outs; j++)
            y[j] = p->add ? y[j] + sum[i][j] : p->bias != NULL ? sum[i][j] + bias[j] : sum[i][j];
    }
}

/* A weight row stays in the first cache for all rows. */
VEC void stream(const struct product *p, enum kind kind, int32_t out, int32_t outs)
{
    float sum[STREAM_ROWS][4];

    for (; outs > 0; out++, outs--)
        for (int32_t row = 0; row < p->rows; row += STREAM_ROWS) {
            int rows = p->rows - row < STREAM_ROWS ? p->rows - row : STREAM_ROWS;

            tile_of(sum, product_at(p, kind, row, out), kind, rows, 1, STREAM_ROWS);
            put(p, (const float(*)[4])sum, row, out, rows, 1);
        }
}

VEC void multiply_kind(const struct product *p, enum kind kind)
{
    const int32_t whole = p->outs / TILE_OUTS * TILE_OUTS;
    float sum[STREAM_ROWS][4];

    if (p->rows < MULTIPLY_MANY_ROWS) {
        stream(p, kind, 0, p->outs);
        return;
    }
    for (int32_t row = 0; row < p->rows; row += TILE_ROWS) {
        int rows = p->rows - row < TILE_ROWS ? p->rows - row : TILE_ROWS;

        for (int32_t out = 0; out < whole; out += TILE_OUTS) {
            if (rows == TILE_ROWS)
                tile(sum, product_at(p, kind, row, out), kind, TILE_ROWS, TILE_OUTS);
            else
                tile_of(sum, product_at(p, kind, row, out), kind, rows, TILE_OUTS, TILE_ROWS);
            put(p, (const float(*)[4])sum, row, out, rows, TILE_OUTS);
        }
    }
    stream(p, kind, whole, p->outs - whole);
}

#define MULTIPLY(name, kind)                           \
    static void multiply_##name(const struct product *p) \
    {                                                  \
        multiply_kind(p, kind);                        \
    }
MULTIPLY(bf16_bf16, KIND_BF16_BF16)
MULTIPLY(f32_f32, KIND_F32_F32)
MULTIPLY(f32_bf16, KIND_F32_BF16)
MULTIPLY(f32_f16, KIND_F32_F16)

/* Bases that are not bf16 in fast mode: right, and in no hurry. */
static void multiply_widened(const struct product *p)
{
    const enum kind kind = p->w_dtype == DTYPE_F32 ? KIND_BF16_F32 : KIND_BF16_F16;
    float sum[STREAM_ROWS][4];

    for (int32_t out = 0; out < p->outs; out++)
        for (int32_t row = 0; row < p->rows; row++) {
            if (kind == KIND_BF16_F32)
                tile(sum, product_at(p, KIND_BF16_F32, row, out), KIND_BF16_F32, 1, 1);
            else
                tile(sum, product_at(p, KIND_BF16_F16, row, out), KIND_BF16_F16, 1, 1);
            put(p, (const float(*)[4])sum, row, out, 1, 1);
        }
}

static void body_multiply(const struct product *p)
{
    if (p->x_bf16 && p->w_dtype == DTYPE_BF16)
        multiply_bf16_bf16(p);
    else if (p->x_bf16)
        multiply_widened(p);
    else if (p->w_dtype == DTYPE_F32)
        multiply_f32_f32(p);
    else if (p->w_dtype == DTYPE_BF16)
        multiply_f32_bf16(p);
    else
        multiply_f32_f16(p);
}

/* Lanes over outputs, one pair of ranks after another: `rows` rows, sixteen outputs. n = 16: all of them. */
VEC void expand_tile(const struct expansion *e, int32_t row, int32_t out, int n, int rows)
{
    const char *u = (const char *)e->u + row * e->u_stride * 2;
    const char *b = (const char *)e->b + (int64_t)out * 4;
    vec sum[STREAM_ROWS];

    UNROLL for (int i = 0; i < rows; i++)
        sum[i] = vec_zero();
    for (int32_t pair = 0; pair < e->rank / 2; pair++) {
        const char *at = b + pair * e->width * 4;
        pairs w = n == 16 ? pairs_load(at) : pairs_load_n(at, 2 * n);

        UNROLL for (int i = 0; i < rows; i++)
            sum[i] = pairs_dot(sum[i], pairs_set1(u + (i * e->u_stride + 2 * pair) * 2), w);
    }
    UNROLL for (int i = 0; i < rows; i++) {
        float *y = e->y + (row + i) * e->y_stride + out;

        if (n == 16)
            vec_store(y, vec_add(vec_load(y), sum[i]));
        else
            vec_store_n(y, vec_add(vec_load_n(y, n), sum[i]), n);
    }
}

static void body_expand(const struct expansion *e)
{
    for (int32_t out = 0; out < e->outs; out += 16) {
        int n = e->outs - out < 16 ? e->outs - out : 16;
        int32_t row = 0;

        for (; n == 16 && row + STREAM_ROWS <= e->rows; row += STREAM_ROWS)
            expand_tile(e, row, out, 16, STREAM_ROWS);
        for (; row < e->rows; row++)
            expand_tile(e, row, out, n, 1);
    }
}

#endif
