/* The way back of y = x gain s, s = 1 / sqrt(mean(x^2) + eps): dx += s (gain dy - x s^2 mean(x gain dy)), a block a row, s by the very sum
 * of norm.cu. The gain's gradient is a thread a column, which walks the rows in pieces of TRAIN_ROWS. */
#include "engine/ops/cuda/cuda_ops.h"

#define NORM_THREADS 256
#define GAIN_THREADS 64

struct norm_shared { float part[NORM_THREADS / 32]; };

/* dx, dy, x f32 [T][width], ret_dx act [T][width] or NULL, gain [width], scales f32 [T] */
template <class T> KERNEL __launch_bounds__(NORM_THREADS)
norm_back(T *ret_dx, float *dx, const float *dy, const float *x, const void *gain, enum dtype dtype, float eps, float *scales, int width,
          const struct counts *now)
{
    DYNAMIC_SHARED(struct norm_shared, shared);
    int thread = (int)threadIdx.x;
    int64_t at = (int64_t)blockIdx.x * width;
    float squares = 0, products = 0, scale, back;

    if ((int)blockIdx.x >= now->rows)
        return;
    for (int i = thread; i < width; i += NORM_THREADS) {
        squares = fmaf(x[at + i], x[at + i], squares);
        products = fmaf(x[at + i] * load_number(dtype, gain, i), dy[at + i], products);
    }
    scale = 1.0f / sqrtf(block_reduce<NORM_THREADS, true>(shared->part, squares) / (float)width + eps);
    back = -scale * scale * scale * (block_reduce<NORM_THREADS, true>(shared->part, products) / (float)width);
    if (thread == 0)
        scales[blockIdx.x] = scale;
    for (int i = thread; i < width; i += NORM_THREADS) {
        float sum = dx[at + i] + fmaf(back, x[at + i], scale * load_number(dtype, gain, i) * dy[at + i]);

        dx[at + i] = sum;
        if (ret_dx != NULL)
            act_store(&ret_dx[at + i], sum);
    }
}

/* dgain f32 [width] += */
KERNEL __launch_bounds__(GAIN_THREADS)
norm_gain_back(float *dgain, const float *dy, const float *x, const float *scales, int width, const struct counts *now)
{
    int column = (int)(blockIdx.x * GAIN_THREADS + threadIdx.x);

    if (column >= width)
        return;
    for (int first = 0; first < now->rows; first += TRAIN_ROWS) {
        float sum = 0;

        for (int row = first; row < min(first + TRAIN_ROWS, now->rows); row++)
            sum = fmaf(dy[(int64_t)row * width + column] * x[(int64_t)row * width + column], scales[row], sum);
        dgain[column] += sum;
    }
}

void cuda_norm_back(struct dev *dev, act *ret_dx, float *dx, const float *dy, const float *x, const struct weight *gain, float eps,
                    float *dgain, const struct batch *batch)
{
    dim3 grid((unsigned)batch->max.rows), block(NORM_THREADS);
    size_t bytes = sizeof(struct norm_shared);
    int width = dev->config.dims.hidden;
    cudaStream_t stream = dev->lane[LANE_COMPUTE];

    if (batch->max.rows == 0)
        return;
    if (is_fast(dev))
        LAUNCH(norm_back<uint16_t>, grid, block, bytes, stream, (uint16_t *)ret_dx, dx, dy, x, gain->data, gain->dtype, eps, dev->back_stats,
               width, batch->now);
    else
        LAUNCH(norm_back<float>, grid, block, bytes, stream, (float *)ret_dx, dx, dy, x, gain->data, gain->dtype, eps, dev->back_stats, width,
               batch->now);
    if (dgain != NULL)
        LAUNCH(norm_gain_back, dim3((unsigned)div_up(width, GAIN_THREADS)), dim3(GAIN_THREADS), 0, stream, dgain, dy, x, dev->back_stats,
               width, batch->now);
}
