/* The words that the kernels are written in, in plain C: sixteen floats (vec) and thirty-two bfloat16 (pairs). Every set of kernels is
 * the same text over one of these headers, so all have one order of summation. Loads and stores take any alignment; those with _n touch
 * the first n lanes only (0 < n < all), the others load as zero. */
#ifndef CPU_VEC_SCALAR_H
#define CPU_VEC_SCALAR_H

#include "engine/device/dtype.h"
#include "engine/ops/cpu/unroll.h"

#define EACH_LANE for (int i = 0; i < 16; i++)

typedef struct { float lane[16]; } vec;
typedef struct { uint16_t half[32]; } pairs;

/* Register tiles: rows by outputs when there are many rows, and rows by one weight row that is streamed. */
#define TILE_ROWS 1
#define TILE_OUTS 2
#define STREAM_ROWS 2
/* Rows by two words of columns, over a packed panel. */
#define PANEL_ROWS 1

VEC vec vec_zero(void)
{
    return (vec){{0}};
}

VEC vec vec_set1(float value)
{
    vec to;

    EACH_LANE to.lane[i] = value;
    return to;
}

VEC vec vec_load(const void *from)
{
    vec to;

    memcpy(&to, from, sizeof(to));
    return to;
}

VEC vec vec_load_n(const void *from, int n)
{
    vec to = vec_zero();

    memcpy(&to, from, (size_t)n * 4);
    return to;
}

VEC void vec_store(void *to, vec a)
{
    memcpy(to, &a, sizeof(a));
}

VEC void vec_store_n(void *to, vec a, int n)
{
    memcpy(to, &a, (size_t)n * 4);
}

#define VEC_TWO(name, expression)      \
    VEC vec name(vec a, vec b)         \
    {                                  \
        vec to;                        \
                                       \
        EACH_LANE                      \
        {                              \
            float x = a.lane[i];       \
            float y = b.lane[i];       \
                                       \
            to.lane[i] = (expression); \
        }                              \
        return to;                     \
    }
VEC_TWO(vec_add, x + y)
VEC_TWO(vec_sub, x - y)
VEC_TWO(vec_mul, x * y)
VEC_TWO(vec_div, x / y)
/* The second when either is no number, as the instructions have it. */
VEC_TWO(vec_max, x > y ? x : y)
VEC_TWO(vec_min, x < y ? x : y)
#undef VEC_TWO

/* a * b + c; one rounding where the machine has that. */
VEC vec vec_fma(vec a, vec b, vec c)
{
    EACH_LANE c.lane[i] += a.lane[i] * b.lane[i];
    return c;
}

/* To the nearest whole number, for |a| < 2^22. */
VEC vec vec_nearest(vec a)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23 */

    EACH_LANE
    {
        float moved = a.lane[i] + shift;

        a.lane[i] = moved - shift;
    }
    return a;
}

/* a * 2^n for whole n from -126 to 127. */
VEC vec vec_scale(vec a, vec n)
{
    EACH_LANE a.lane[i] *= float_from_bits(n.lane[i] != n.lane[i] ? 0 : (uint32_t)((int32_t)n.lane[i] + 127) << 23);
    return a;
}

/* The first n lanes of a (0 <= n <= 16), the rest of the other. */
VEC vec vec_keep(vec a, int n, vec other)
{
    EACH_LANE a.lane[i] = i < n ? a.lane[i] : other.lane[i];
    return a;
}

/* A bit a lane: a > b; no number is above nothing. */
VEC uint32_t vec_above(vec a, vec b)
{
    uint32_t bits = 0;

    EACH_LANE bits |= (uint32_t)(a.lane[i] > b.lane[i]) << i;
    return bits;
}

/* The largest lane; lanes that are no number may be passed over. */
VEC float vec_largest(vec a)
{
    float largest = a.lane[0];

    for (int i = 1; i < 16; i++)
        largest = a.lane[i] > largest ? a.lane[i] : largest;
    return largest;
}

/* The tree: lanes eight apart, four apart, two apart, neighbours. */
VEC float vec_sum(vec a)
{
    for (int apart = 8; apart > 0; apart /= 2)
        for (int i = 0; i < apart; i++)
            a.lane[i] += a.lane[i + apart];
    return a.lane[0];
}

VEC void vec_sum4(float *to, vec a, vec b, vec c, vec d)
{
    to[0] = vec_sum(a);
    to[1] = vec_sum(b);
    to[2] = vec_sum(c);
    to[3] = vec_sum(d);
}

VEC vec vec_widen_bf16_n(const void *from, int n)
{
    uint16_t half[16] = {0};
    vec to;

    memcpy(half, from, (size_t)n * 2);
    EACH_LANE to.lane[i] = bf16_widen(half[i]);
    return to;
}

VEC vec vec_widen_bf16(const void *from)
{
    return vec_widen_bf16_n(from, 16);
}

VEC vec vec_widen_f16_n(const void *from, int n)
{
    uint16_t half[16] = {0};
    vec to;

    memcpy(half, from, (size_t)n * 2);
    EACH_LANE to.lane[i] = f16_widen(half[i]);
    return to;
}

VEC vec vec_widen_f16(const void *from)
{
    return vec_widen_f16_n(from, 16);
}

VEC void vec_round_bf16_n(void *to, vec a, int n)
{
    uint16_t half[16];

    EACH_LANE half[i] = bf16_round(a.lane[i]);
    memcpy(to, half, (size_t)n * 2);
}

VEC void vec_round_bf16(void *to, vec a)
{
    vec_round_bf16_n(to, a, 16);
}

VEC pairs pairs_load_n(const void *from, int n)
{
    pairs to = {{0}};

    memcpy(&to, from, (size_t)n * 2);
    return to;
}

VEC pairs pairs_load(const void *from)
{
    return pairs_load_n(from, 32);
}

VEC void pairs_store(void *to, pairs a)
{
    memcpy(to, &a, sizeof(a));
}

/* Sixteen of one row and sixteen of another become pairs. */
VEC pairs pairs_zip(const void *first, const void *second)
{
    uint16_t a[16];
    uint16_t b[16];
    pairs to;

    memcpy(a, first, sizeof(a));
    memcpy(b, second, sizeof(b));
    EACH_LANE
    {
        to.half[2 * i] = a[i];
        to.half[2 * i + 1] = b[i];
    }
    return to;
}

/* One pair in all lanes. */
VEC pairs pairs_set1(const void *from)
{
    pairs to;

    for (int i = 0; i < 16; i++)
        memcpy(&to.half[2 * i], from, 4);
    return to;
}

/* Lane i: sum + the second of pair i, then the first. */
VEC vec pairs_dot(vec sum, pairs a, pairs b)
{
    EACH_LANE
    {
        sum.lane[i] += bf16_widen(a.half[2 * i + 1]) * bf16_widen(b.half[2 * i + 1]);
        sum.lane[i] += bf16_widen(a.half[2 * i]) * bf16_widen(b.half[2 * i]);
    }
    return sum;
}

/* Sixteen rows of sixteen words of 32 bits become columns; words are moved, not read as numbers. */
VEC void vec_transpose(vec row[16])
{
    uint32_t from[16][16];
    uint32_t to[16][16];

    memcpy(from, row, sizeof(from));
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++)
            to[j][i] = from[i][j];
    memcpy(row, to, sizeof(to));
}

#undef EACH_LANE
#endif
