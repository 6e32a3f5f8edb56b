/* Sixteen floats (vec) and thirty-two bfloat16 (pairs) in one register of AVX-512. vec_scalar.h tells what each word means. */
#ifndef CPU_VEC_AVX512BF16_H
#define CPU_VEC_AVX512BF16_H

#include <immintrin.h>

#include "engine/device/dtype.h"
#include "engine/ops/cpu/unroll.h"

typedef __m512 vec;
typedef __m512i pairs;

/* Register tiles: rows by outputs when there are many rows, and rows by one weight row that is streamed. */
#define TILE_ROWS 6
#define TILE_OUTS 4
#define STREAM_ROWS 8
/* Rows by two words of columns, over a packed panel. */
#define PANEL_ROWS 12

VEC __mmask16 vec_lanes(int n)
{
    return (__mmask16)((1u << n) - 1);
}

VEC vec vec_zero(void)
{
    return _mm512_setzero_ps();
}

VEC vec vec_set1(float value)
{
    return _mm512_set1_ps(value);
}

VEC vec vec_load(const void *from)
{
    return _mm512_loadu_ps(from);
}

VEC vec vec_load_n(const void *from, int n)
{
    return _mm512_maskz_loadu_ps(vec_lanes(n), from);
}

VEC void vec_store(void *to, vec a)
{
    _mm512_storeu_ps(to, a);
}

VEC void vec_store_n(void *to, vec a, int n)
{
    _mm512_mask_storeu_ps(to, vec_lanes(n), a);
}

VEC vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

VEC vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

VEC vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

VEC vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

VEC vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

VEC vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

VEC vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

VEC vec vec_nearest(vec a)
{
    const vec shift = _mm512_set1_ps(12582912.0f); /* 1.5 * 2^23 */

    return _mm512_sub_ps(_mm512_add_ps(a, shift), shift);
}

VEC vec vec_scale(vec a, vec n)
{
    return _mm512_scalef_ps(a, n);
}

VEC vec vec_keep(vec a, int n, vec other)
{
    return _mm512_mask_mov_ps(other, vec_lanes(n), a);
}

VEC uint32_t vec_above(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

VEC float vec_largest(vec a)
{
    __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));

    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

VEC float vec_sum(vec a)
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));

    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

/* The same tree for four at once: each step adds the same lanes as vec_sum does. */
VEC void vec_sum4(float *to, vec a, vec b, vec c, vec d)
{
    vec ab = vec_add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    vec cd = vec_add(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    vec all = vec_add(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));

    all = vec_add(all, _mm512_permute_ps(all, 0x4e));
    all = vec_add(all, _mm512_permute_ps(all, 0xb1));
    _mm_storeu_ps(to, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, all)));
}

VEC vec vec_widen_bf16(const void *from)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from)), 16));
}

VEC vec vec_widen_bf16_n(const void *from, int n)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(vec_lanes(n), from)), 16));
}

VEC vec vec_widen_f16(const void *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(from));
}

VEC vec vec_widen_f16_n(const void *from, int n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vec_lanes(n), from));
}

VEC void vec_round_bf16(void *to, vec a)
{
    _mm256_storeu_si256(to, (__m256i)_mm512_cvtneps_pbh(a));
}

VEC void vec_round_bf16_n(void *to, vec a, int n)
{
    _mm256_mask_storeu_epi16(to, vec_lanes(n), (__m256i)_mm512_cvtneps_pbh(a));
}

VEC pairs pairs_load(const void *from)
{
    return _mm512_loadu_si512(from);
}

VEC pairs pairs_load_n(const void *from, int n)
{
    return _mm512_maskz_loadu_epi16((__mmask32)((1u << n) - 1), from);
}

VEC void pairs_store(void *to, pairs a)
{
    _mm512_storeu_si512(to, a);
}

VEC pairs pairs_zip(const void *first, const void *second)
{
    __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(first));

    return _mm512_or_si512(low, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(second)), 16));
}

VEC pairs pairs_set1(const void *from)
{
    int32_t pair;

    memcpy(&pair, from, sizeof(pair));
    return _mm512_set1_epi32(pair);
}

VEC vec pairs_dot(vec sum, pairs a, pairs b)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

/* Sixteen rows of sixteen words of 32 bits become columns. */
VEC void vec_transpose(vec row[16])
{
    vec t[16];

    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(row[i], row[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(row[i], row[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        row[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        row[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        row[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
        row[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(row[i], row[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(row[i], row[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(row[i + 8], row[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(row[i + 8], row[i + 12], 0xdd);
    }
    for (int i = 0; i < 8; i++) {
        row[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        row[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    }
}

#endif
