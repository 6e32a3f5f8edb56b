/* Runs of numbers: the norm of a gradient, AdamW, zeros, rounding. A sum has one order for a length. */
#include "engine/ops/cuda/cuda_ops.h"

#define UPDATE_THREADS 256
#define ROUND_NUMBERS 1024

struct sums_shared { double part[UPDATE_THREADS]; };

/* sums [pieces]: of the squares of g's pieces. A thread takes every 256th number, the first one adds the threads' sums. */
KERNEL __launch_bounds__(UPDATE_THREADS)
sumsq_pieces(double *sums, const float *g, int64_t n)
{
    DYNAMIC_SHARED(struct sums_shared, shared);
    int thread = (int)threadIdx.x;
    int64_t first = (int64_t)blockIdx.x * SUMSQ_PIECE;
    double sum = 0;

    for (int64_t i = first + thread; i < n && i < first + SUMSQ_PIECE; i += UPDATE_THREADS)
        sum += (double)g[i] * (double)g[i];
    shared->part[thread] = sum;
    __syncthreads();
    if (thread > 0)
        return;
    for (int i = 1; i < UPDATE_THREADS; i++)
        sum += shared->part[i];
    sums[blockIdx.x] = sum;
}

/* ret_sum = the sum before (is_first: 0) and of the pieces, in order. */
KERNEL __launch_bounds__(UPDATE_THREADS)
sumsq_join(double *ret_sum, const double *sums, int pieces, bool is_first)
{
    DYNAMIC_SHARED(struct sums_shared, shared);
    int thread = (int)threadIdx.x;
    double sum = is_first ? 0 : *ret_sum;

    for (int first = 0; first < pieces; first += UPDATE_THREADS) {
        if (first + thread < pieces)
            shared->part[thread] = sums[first + thread];
        __syncthreads();
        for (int i = 0; thread == 0 && i < min(UPDATE_THREADS, pieces - first); i++)
            sum += shared->part[i];
        __syncthreads();
    }
    if (thread == 0)
        *ret_sum = sum;
}

void cuda_sumsq(struct dev *dev, double *ret_sum, const float *g, int64_t n)
{
    cudaStream_t stream = dev->lane[LANE_COMPUTE];
    int64_t at = 0;

    do {
        int64_t count = min_i64(n - at, (int64_t)SUMS_MAX * SUMSQ_PIECE);
        int pieces = div_up(count, SUMSQ_PIECE);

        if (pieces > 0)
            LAUNCH(sumsq_pieces, dim3((unsigned)pieces), dim3(UPDATE_THREADS), sizeof(struct sums_shared), stream, dev->back_sums, g + at,
                   count);
        LAUNCH(sumsq_join, dim3(1), dim3(UPDATE_THREADS), sizeof(struct sums_shared), stream, ret_sum, dev->back_sums, pieces, at == 0);
        at += count;
    } while (at < n);
}

/* p, m, v, g f32 [n] */
KERNEL __launch_bounds__(UPDATE_THREADS)
adamw(float *p, float *m, float *v, const float *g, int64_t n, struct adamw step)
{
    int64_t i = (int64_t)blockIdx.x * UPDATE_THREADS + threadIdx.x;

    if (i >= n)
        return;

    float gradient = step.gradient_scale * g[i];
    float first = step.beta1 * m[i] + (1.0f - step.beta1) * gradient;
    float second = step.beta2 * v[i] + (1.0f - step.beta2) * gradient * gradient;

    m[i] = first;
    v[i] = second;
    p[i] = (1.0f - step.rate * step.decay) * p[i] -
           step.rate / step.correction1 * first / (sqrtf(second / step.correction2) + step.epsilon);
}

void cuda_adamw(struct dev *dev, float *p, float *m, float *v, const float *g, int64_t n, const struct adamw *step)
{
    if (n == 0)
        return;
    LAUNCH(adamw, dim3((unsigned)div_up(n, UPDATE_THREADS)), dim3(UPDATE_THREADS), 0, dev->lane[LANE_COMPUTE], p, m, v, g, n, *step);
}

void cuda_zero(struct dev *dev, float *x, int64_t n)
{
    MUST(cudaMemsetAsync(x, 0, (size_t)n * sizeof(*x), dev->lane[LANE_COMPUTE]));
}

/* y bf16 [n] = x f32 [n]; a block takes 1,024 numbers. */
KERNEL __launch_bounds__(UPDATE_THREADS)
round_numbers(uint16_t *y, const float *x, int64_t n)
{
    int64_t first = (int64_t)blockIdx.x * ROUND_NUMBERS;

    for (int64_t i = first + threadIdx.x; i < n && i < first + ROUND_NUMBERS; i += UPDATE_THREADS)
        act_store(&y[i], x[i]);
}

void cuda_round(struct dev *dev, act *y, const float *x, int64_t n)
{
    if (n == 0)
        return;
    if (is_fast(dev))
        LAUNCH(round_numbers, dim3((unsigned)div_up(n, ROUND_NUMBERS)), dim3(UPDATE_THREADS), 0, dev->lane[LANE_COMPUTE], (uint16_t *)y, x, n);
    else
        MUST(cudaMemcpyAsync(y, x, (size_t)n * sizeof(*x), cudaMemcpyDeviceToDevice, dev->lane[LANE_COMPUTE]));
}
