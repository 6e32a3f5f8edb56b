/* x += add; y = x gain / sqrt(mean(x^2) + eps): a block a row, which it reads once from memory and once from the cache.
 * The sum of squares has one order for a width. */
#include "engine/ops/cuda/cuda_ops.h"

#define NORM_THREADS 256

struct norm_shared { float part[NORM_THREADS / 32]; };

/* y act [T][width], x f32 [T][width], add f32 [T][width] or NULL, gain [width] */
template <class T> KERNEL __launch_bounds__(NORM_THREADS)
norm(T *y, float *x, const float *add, const void *gain, enum dtype dtype, float eps, int width, const struct counts *now)
{
    DYNAMIC_SHARED(struct norm_shared, shared);
    int thread = (int)threadIdx.x;
    int64_t at = (int64_t)blockIdx.x * width;
    float sum = 0;

    if ((int)blockIdx.x >= now->rows)
        return;
    for (int i = thread; i < width; i += NORM_THREADS) {
        float value = x[at + i];

        if (add != NULL) {
            value += add[at + i];
            x[at + i] = value;
        }
        sum = fmaf(value, value, sum);
    }
    sum = warp_sum(sum);
    if (thread % 32 == 0)
        shared->part[thread / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < NORM_THREADS / 32; i++)
        sum += shared->part[i];

    /* Each thread reads what it has written itself. */
    float scale = 1.0f / sqrtf(sum / (float)width + eps);
    for (int i = thread; i < width; i += NORM_THREADS)
        act_store(&y[at + i], x[at + i] * scale * load_number(dtype, gain, i));
}

void cuda_norm(struct dev *dev, act *y, float *x, const float *add, const struct weight *gain, float eps, const struct batch *batch)
{
    dim3 grid((unsigned)batch->max.rows);
    size_t bytes = sizeof(struct norm_shared);
    int width = dev->config.dims.hidden;

    if (batch->max.rows == 0)
        return;
    if (is_fast(dev))
        LAUNCH(norm<uint16_t>, grid, dim3(NORM_THREADS), bytes, dev->lane[LANE_COMPUTE], (uint16_t *)y, x, add, gain->data, gain->dtype, eps,
               width, batch->now);
    else
        LAUNCH(norm<float>, grid, dim3(NORM_THREADS), bytes, dev->lane[LANE_COMPUTE], (float *)y, x, add, gain->data, gain->dtype, eps, width,
               batch->now);
}
