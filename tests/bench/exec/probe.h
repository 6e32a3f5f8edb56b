/* What the machine gives while we measure: its rate of multiplications from registers, and its rate of reading. Both are taken right
 * before and right after what is measured, for such machines halve their speed for minutes. */
#ifndef BENCH_PROBE_H
#define BENCH_PROBE_H

#include <time.h>

#include "engine/device/kernel_set.h"
#include "engine/device/team.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

struct probe {
    struct team *team;
    enum kernel_set set;
    const char *memory;   /* what is read */
    size_t bytes;
    double gflops;        /* of the last look, all threads together */
    double bytes_per_s;
};

static volatile float probe_sink;
/* Accumulators have to be registers. */
#if defined(__clang__)
#define PROBE_UNROLL _Pragma("unroll")
#else
#define PROBE_UNROLL _Pragma("GCC unroll 16")
#endif
#define PROBE_STEPS 500000

/* One thread alone is measured by its own time, which a neighbour on its core does not touch; several by the wall. */
static inline double probe_now_s(const struct probe *probe)
{
    struct timespec now;

    clock_gettime(team_threads(probe->team) == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#if defined(__x86_64__)
__attribute__((noinline, target("avx512f,avx512bf16"))) static void probe_peak_avx512bf16(void *context, uint32_t thread)
{
    __m512 sum[16];
    __m512i a = _mm512_set1_epi32((int)thread);
    float total = 0;

    (void)context;
    PROBE_UNROLL for (int i = 0; i < 16; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (int step = 0; step < PROBE_STEPS; step++) {
        PROBE_UNROLL for (int i = 0; i < 16; i++)
            sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)a, (__m512bh)a);
        __asm__ volatile("" : "+v"(a));
    }
    PROBE_UNROLL for (int i = 0; i < 16; i++)
        total += _mm512_reduce_add_ps(sum[i]);
    probe_sink = total;
}

__attribute__((noinline, target("avx2,fma"))) static void probe_peak_avx2(void *context, uint32_t thread)
{
    __m256 sum[12];
    __m256 a = _mm256_set1_ps((float)thread * 1e-20f);

    (void)context;
    PROBE_UNROLL for (int i = 0; i < 12; i++)
        sum[i] = _mm256_set1_ps((float)i);
    for (int step = 0; step < PROBE_STEPS; step++) {
        PROBE_UNROLL for (int i = 0; i < 12; i++)
            sum[i] = _mm256_fmadd_ps(a, a, sum[i]);
        __asm__ volatile("" : "+v"(a));
    }
    PROBE_UNROLL for (int i = 1; i < 12; i++)
        sum[0] = _mm256_add_ps(sum[0], sum[i]);
    probe_sink = _mm256_cvtss_f32(sum[0]);
}
#endif

static void probe_peak_scalar(void *context, uint32_t thread)
{
    float sum[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    volatile float a = (float)thread;

    (void)context;
    for (int step = 0; step < PROBE_STEPS; step++) {
        float b = a;

        PROBE_UNROLL for (int i = 0; i < 8; i++)
            sum[i] += b * b;
    }
    probe_sink = sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

#if defined(__x86_64__)
__attribute__((noinline, target("avx512f"))) static void probe_read_avx512(void *context, uint32_t thread)
{
    const struct probe *probe = context;
    const size_t bytes = probe->bytes / team_threads(probe->team) / 256 * 256;
    const char *from = probe->memory + thread * bytes;
    __m512i sum[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};

    for (size_t i = 0; i < bytes; i += 256)
        PROBE_UNROLL for (int j = 0; j < 4; j++)
            sum[j] = _mm512_xor_si512(sum[j], _mm512_loadu_si512(from + i + 64 * j));
    PROBE_UNROLL for (int j = 0; j < 4; j++)
        probe_sink = (float)_mm512_reduce_add_epi32(sum[j]);
}

/* Without asking ahead, which is the fastest where the hardware does that. */
__attribute__((noinline, target("avx2"))) static void probe_read(void *context, uint32_t thread)
{
    const struct probe *probe = context;
    const size_t bytes = probe->bytes / team_threads(probe->team) / 256 * 256;
    const char *from = probe->memory + thread * bytes;
    __m256i sum[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};

    for (size_t i = 0; i < bytes; i += 128)
        PROBE_UNROLL for (int j = 0; j < 4; j++)
            sum[j] = _mm256_xor_si256(sum[j], _mm256_loadu_si256((const __m256i *)(const void *)(from + i + 32 * j)));
    PROBE_UNROLL for (int j = 0; j < 4; j++)
        probe_sink = (float)_mm256_extract_epi32(sum[j], 0);
}
#else
static void probe_read(void *context, uint32_t thread)
{
    const struct probe *probe = context;
    const size_t words = probe->bytes / team_threads(probe->team) / 64 * 8;
    const uint64_t *from = (const uint64_t *)(const void *)probe->memory + thread * words;
    uint64_t sum = 0;

    for (size_t i = 0; i < words; i++)
        sum ^= from[i];
    probe_sink = (float)sum;
}
#endif

/* The ways to look that suit a set of kernels. */
static void (*probe_peak(enum kernel_set set, double *ret_flops))(void *, uint32_t)
{
#if defined(__x86_64__)
    if (set == KERNELS_AVX512BF16) {
        *ret_flops = 16.0 * 64 * PROBE_STEPS;
        return probe_peak_avx512bf16;
    }
    if (set == KERNELS_AVX2) {
        *ret_flops = 12.0 * 16 * PROBE_STEPS;
        return probe_peak_avx2;
    }
#else
    (void)set;
#endif
    *ret_flops = 16.0 * PROBE_STEPS;
    return probe_peak_scalar;
}

/* The fastest of a few looks: others use the machine too, and what they take is nobody's speed. */
static inline void probe_look(struct probe *probe)
{
    double flops;
    void (*peak)(void *, uint32_t) = probe_peak(probe->set, &flops);

    probe->gflops = 0;
    probe->bytes_per_s = 0;
    for (int i = 0; i < 4; i++) {
        double from_s = probe_now_s(probe);
        double middle_s;
        double gflops;
        double bytes_per_s;

        team_run(probe->team, peak, probe);
        middle_s = probe_now_s(probe);
#if defined(__x86_64__)
        if (probe->set == KERNELS_AVX512BF16)
            team_run(probe->team, probe_read_avx512, probe);
        else
#endif
            team_run(probe->team, probe_read, probe);
        gflops = flops * team_threads(probe->team) / (middle_s - from_s) * 1e-9;
        bytes_per_s = (double)probe->bytes / (probe_now_s(probe) - middle_s);
        probe->gflops = gflops > probe->gflops ? gflops : probe->gflops;
        probe->bytes_per_s = bytes_per_s > probe->bytes_per_s ? bytes_per_s : probe->bytes_per_s;
    }
}

#endif
