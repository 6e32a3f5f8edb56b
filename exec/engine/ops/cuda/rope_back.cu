/* The way back of turning and, where a family has it, of the heads' norms: a warp a head of a row, a pair (i, i + d/2) a lane's, as in
 * rope.cu. The gains' gradients are a thread a number of the head, which walks rows and heads in order. */
#include "engine/ops/cuda/cuda_ops.h"

#define ROPE_WARPS 4
#define GAIN_THREADS 64

struct rope_gains {
    const void *q, *k;           /* [d], or NULL */
    enum dtype q_dtype, k_dtype;
};

struct rope_shape { int heads, kv_heads, head_dim; };

/* A pair before it was turned. */
DEVICE void turned_back(const float *dy, const float *angle, int i, int half, float *ret_low, float *ret_high)
{
    float low = dy[i], high = dy[half + i], cosine = angle[i], sine = angle[half + i];

    *ret_low = low * cosine + high * sine;
    *ret_high = high * cosine - low * sine;
}

/* dqkv act, dturned f32, qkv f32 or NULL: [T][(H+2K)d]; angles f32 [positions][d]; scales f32 [T][2H]: of heads that are normed */
template <class T> KERNEL __launch_bounds__(ROPE_WARPS * 32)
rope_back(T *dqkv, const float *dturned, const float *qkv, struct rope_gains gains, float eps, const float *angles, float *scales,
          struct rope_shape shape, const int32_t *position, const struct counts *now)
{
    int row = (int)blockIdx.x, lane = (int)threadIdx.x % 32, half = shape.head_dim / 2;
    int head = (int)blockIdx.y * ROPE_WARPS + (int)threadIdx.x / 32;
    bool is_query = head < shape.heads, is_value = head >= shape.heads + shape.kv_heads;
    const void *gain = is_query ? gains.q : is_value ? NULL : gains.k;
    enum dtype dtype = is_query ? gains.q_dtype : gains.k_dtype;
    float scale = 1, back = 0;

    if (row >= now->rows || head >= shape.heads + 2 * shape.kv_heads)
        return;

    int64_t at = ((int64_t)row * (shape.heads + 2 * shape.kv_heads) + head) * shape.head_dim;
    const float *angle = angles + (int64_t)position[row] * shape.head_dim, *dy = dturned + at;

    if (gain != NULL) {
        const float *x = qkv + at;
        float squares = 0, products = 0, low, high;

        for (int i = lane; i < shape.head_dim; i += 32)
            squares = fmaf(x[i], x[i], squares);
        for (int i = lane; i < half; i += 32) {
            turned_back(dy, angle, i, half, &low, &high);
            products = fmaf(low * load_number(dtype, gain, i), x[i], products);
            products = fmaf(high * load_number(dtype, gain, half + i), x[half + i], products);
        }
        scale = 1.0f / sqrtf(warp_sum(squares) / (float)shape.head_dim + eps);
        back = -scale * scale * scale * (warp_sum(products) / (float)shape.head_dim);
        if (lane == 0)
            scales[(int64_t)row * 2 * shape.heads + head] = scale;
    }
    for (int i = lane; i < half; i += 32) {
        float low = dy[i], high = dy[half + i];

        if (!is_value)
            turned_back(dy, angle, i, half, &low, &high);
        if (gain != NULL) {
            low = fmaf(back, qkv[at + i], scale * load_number(dtype, gain, i) * low);
            high = fmaf(back, qkv[at + half + i], scale * load_number(dtype, gain, half + i) * high);
        }
        act_store(&dqkv[at + i], low);
        act_store(&dqkv[at + half + i], high);
    }
}

/* dgain f32 [d] += of heads first .. first + count - 1. */
KERNEL __launch_bounds__(GAIN_THREADS)
rope_gain_back(float *dgain, const float *dturned, const float *qkv, const float *angles, const float *scales, int first, int count,
               struct rope_shape shape, const int32_t *position, const struct counts *now)
{
    int i = (int)(blockIdx.x * GAIN_THREADS + threadIdx.x), half = shape.head_dim / 2;

    if (i >= shape.head_dim)
        return;
    for (int row0 = 0; row0 < now->rows; row0 += TRAIN_ROWS) {
        float sum = 0;

        for (int row = row0; row < min(row0 + TRAIN_ROWS, now->rows); row++) {
            const float *angle = angles + (int64_t)position[row] * shape.head_dim;

            for (int head = first; head < first + count; head++) {
                int64_t at = ((int64_t)row * (shape.heads + 2 * shape.kv_heads) + head) * shape.head_dim;
                float low, high;

                turned_back(dturned + at, angle, i % half, half, &low, &high);
                sum = fmaf((i < half ? low : high) * qkv[at + i], scales[(int64_t)row * 2 * shape.heads + head], sum);
            }
        }
        dgain[i] += sum;
    }
}

void cuda_rope_back(struct dev *dev, act *dqkv, const float *dturned, const float *qkv, const struct weight *q_gain,
                    const struct weight *k_gain, float eps, const float *angles, float *dq_gain, float *dk_gain, const struct batch *batch)
{
    const struct dims *dims = &dev->config.dims;
    struct rope_gains gains = {q_gain->data, k_gain->data, q_gain->dtype, k_gain->dtype};
    struct rope_shape shape = {dims->heads, dims->kv_heads, dims->head_dim};
    dim3 grid((unsigned)batch->max.rows, (unsigned)div_up(dims->heads + 2 * dims->kv_heads, ROPE_WARPS)), block(ROPE_WARPS * 32);
    dim3 gain_grid((unsigned)div_up(dims->head_dim, GAIN_THREADS));
    cudaStream_t stream = dev->lane[LANE_COMPUTE];

    check((gains.q == NULL && gains.k == NULL) || qkv != NULL);
    if (batch->max.rows == 0)
        return;
    if (is_fast(dev))
        LAUNCH(rope_back<uint16_t>, grid, block, 0, stream, (uint16_t *)dqkv, dturned, qkv, gains, eps, angles, dev->back_stats, shape,
               batch->position, batch->now);
    else
        LAUNCH(rope_back<float>, grid, block, 0, stream, (float *)dqkv, dturned, qkv, gains, eps, angles, dev->back_stats, shape,
               batch->position, batch->now);
    if (dq_gain != NULL)
        LAUNCH(rope_gain_back, gain_grid, dim3(GAIN_THREADS), 0, stream, dq_gain, dturned, qkv, angles, dev->back_stats, 0, shape.heads, shape,
               batch->position, batch->now);
    if (dk_gain != NULL)
        LAUNCH(rope_gain_back, gain_grid, dim3(GAIN_THREADS), 0, stream, dk_gain, dturned, qkv, angles, dev->back_stats, shape.heads,
               shape.kv_heads, shape, batch->position, batch->now);
}
