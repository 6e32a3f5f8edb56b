/* Sixteen floats (vec) and thirty-two bfloat16 (pairs) in two registers of AVX. vec_scalar.h tells what each word means. */
#ifndef CPU_VEC_AVX2_H
#define CPU_VEC_AVX2_H

#include <immintrin.h>

#include "engine/device/dtype.h"
#include "engine/ops/cpu/unroll.h"

typedef struct { __m256 low, high; } vec;
typedef struct { __m256i low, high; } pairs;

#define TILE_ROWS 2
#define TILE_OUTS 2
#define STREAM_ROWS 4
/* Rows by two words of columns, over a packed panel. */
#define PANEL_ROWS 2

#define VEC_TWO(name, act)                                         \
    VEC vec name(vec a, vec b)                                     \
    {                                                              \
        return (vec){act(a.low, b.low), act(a.high, b.high)};      \
    }
VEC_TWO(vec_add, _mm256_add_ps)
VEC_TWO(vec_sub, _mm256_sub_ps)
VEC_TWO(vec_mul, _mm256_mul_ps)
VEC_TWO(vec_div, _mm256_div_ps)
VEC_TWO(vec_max, _mm256_max_ps)
VEC_TWO(vec_min, _mm256_min_ps)
#undef VEC_TWO

VEC vec vec_zero(void)
{
    return (vec){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

VEC vec vec_set1(float value)
{
    return (vec){_mm256_set1_ps(value), _mm256_set1_ps(value)};
}

VEC vec vec_load(const void *from)
{
    return (vec){_mm256_loadu_ps(from), _mm256_loadu_ps((const float *)((const char *)from + 32))};
}

VEC vec vec_load_n(const void *from, int n)
{
    float lane[16] = {0};

    memcpy(lane, from, (size_t)n * 4);
    return vec_load(lane);
}

VEC void vec_store(void *to, vec a)
{
    _mm256_storeu_ps(to, a.low);
    _mm256_storeu_ps((float *)((char *)to + 32), a.high);
}

VEC void vec_store_n(void *to, vec a, int n)
{
    float lane[16];

    vec_store(lane, a);
    memcpy(to, lane, (size_t)n * 4);
}

VEC vec vec_fma(vec a, vec b, vec c)
{
    return (vec){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

VEC vec vec_nearest(vec a)
{
    return (vec){_mm256_round_ps(a.low, 8), _mm256_round_ps(a.high, 8)};
}

VEC __m256 vec_scale_half(__m256 a, __m256 n)
{
    __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);

    return _mm256_mul_ps(a, _mm256_castsi256_ps(power));
}

VEC vec vec_scale(vec a, vec n)
{
    return (vec){vec_scale_half(a.low, n.low), vec_scale_half(a.high, n.high)};
}

VEC vec vec_keep(vec a, int n, vec other)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256 low = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
    __m256 high = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), lane));

    return (vec){_mm256_blendv_ps(other.low, a.low, low), _mm256_blendv_ps(other.high, a.high, high)};
}

VEC uint32_t vec_above(vec a, vec b)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a.low, b.low, _CMP_GT_OQ)) |
           (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a.high, b.high, _CMP_GT_OQ)) << 8;
}

VEC float vec_largest(vec a)
{
    __m256 b = _mm256_max_ps(a.low, a.high);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));

    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

VEC float vec_sum(vec a)
{
    __m256 b = _mm256_add_ps(a.low, a.high);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));

    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

VEC void vec_sum4(float *to, vec a, vec b, vec c, vec d)
{
    to[0] = vec_sum(a);
    to[1] = vec_sum(b);
    to[2] = vec_sum(c);
    to[3] = vec_sum(d);
}

VEC vec vec_widen_bf16(const void *from)
{
    __m256i all = _mm256_loadu_si256(from);

    return (vec){_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(all)), 16)),
                 _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(all, 1)), 16))};
}

VEC vec vec_widen_bf16_n(const void *from, int n)
{
    uint16_t lane[16] = {0};

    memcpy(lane, from, (size_t)n * 2);
    return vec_widen_bf16(lane);
}

VEC vec vec_widen_f16(const void *from)
{
    __m256i all = _mm256_loadu_si256(from);

    return (vec){_mm256_cvtph_ps(_mm256_castsi256_si128(all)), _mm256_cvtph_ps(_mm256_extracti128_si256(all, 1))};
}

VEC vec vec_widen_f16_n(const void *from, int n)
{
    uint16_t lane[16] = {0};

    memcpy(lane, from, (size_t)n * 2);
    return vec_widen_f16(lane);
}

/* bf16_round of each lane, as 32-bit words with the result below. */
VEC __m256i vec_round_half(__m256 a)
{
    __m256i bits = _mm256_castps_si256(a);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
    __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));

    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)));
}

VEC void vec_round_bf16(void *to, vec a)
{
    __m256i mixed = _mm256_packus_epi32(vec_round_half(a.low), vec_round_half(a.high));

    _mm256_storeu_si256(to, _mm256_permute4x64_epi64(mixed, 0xd8));
}

VEC void vec_round_bf16_n(void *to, vec a, int n)
{
    uint16_t lane[16];

    vec_round_bf16(lane, a);
    memcpy(to, lane, (size_t)n * 2);
}

VEC pairs pairs_load(const void *from)
{
    return (pairs){_mm256_loadu_si256(from), _mm256_loadu_si256((const __m256i *)(const void *)((const char *)from + 32))};
}

VEC pairs pairs_load_n(const void *from, int n)
{
    uint16_t lane[32] = {0};

    memcpy(lane, from, (size_t)n * 2);
    return pairs_load(lane);
}

VEC void pairs_store(void *to, pairs a)
{
    _mm256_storeu_si256(to, a.low);
    _mm256_storeu_si256((__m256i *)(void *)((char *)to + 32), a.high);
}

VEC __m256i pairs_zip_half(const void *first, const void *second)
{
    __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128(first));

    return _mm256_or_si256(low, _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(second)), 16));
}

VEC pairs pairs_zip(const void *first, const void *second)
{
    return (pairs){pairs_zip_half(first, second), pairs_zip_half((const char *)first + 16, (const char *)second + 16)};
}

VEC pairs pairs_set1(const void *from)
{
    int32_t pair;

    memcpy(&pair, from, sizeof(pair));
    return (pairs){_mm256_set1_epi32(pair), _mm256_set1_epi32(pair)};
}

VEC __m256 pairs_dot_half(__m256 sum, __m256i a, __m256i b)
{
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000u);

    sum = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(a, upper)), _mm256_castsi256_ps(_mm256_and_si256(b, upper)), sum);
    return _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16)), sum);
}

VEC vec pairs_dot(vec sum, pairs a, pairs b)
{
    return (vec){pairs_dot_half(sum.low, a.low, b.low), pairs_dot_half(sum.high, a.high, b.high)};
}

VEC void vec_transpose(vec row[16])
{
    float from[16][16];
    float to[16][16];

    for (int i = 0; i < 16; i++)
        vec_store(from[i], row[i]);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++)
            to[j][i] = from[i][j];
    for (int i = 0; i < 16; i++)
        row[i] = vec_load(to[i]);
}

#endif
