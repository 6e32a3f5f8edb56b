/* Queries and keys are normed (where a family does), turned by their position, and stored with the values: a warp a
 * head of a row. A pair (i, i + d/2) is one lane's. A row that belongs to no sequence writes its query and touches no
 * block. */
#include "engine/ops/cuda/cuda_ops.h"

#define ROPE_WARPS 4

struct rope_gains {
    const void *q, *k;           /* [d], or NULL */
    enum dtype q_dtype, k_dtype;
};

struct rope_shape { int heads, kv_heads, head_dim, blocks_max; };

/* q act [T][H][d]; k, v act [block][K][16][d]; qkv f32 [T][(H+2K)d]; angles f32 [positions][d] */
template <class T> KERNEL __launch_bounds__(ROPE_WARPS * 32)
rope_store(T *q, T *k, T *v, const float *qkv, struct rope_gains gains, float eps, const float *angles, struct rope_shape shape,
           const int32_t *position, const int32_t *block_table, const struct sequence *sequence, const struct counts *now)
{
    int row = (int)blockIdx.x, lane = (int)threadIdx.x % 32, half = shape.head_dim / 2;
    int head = (int)blockIdx.y * ROPE_WARPS + (int)threadIdx.x / 32;
    int kv_head = head < shape.heads + shape.kv_heads ? head - shape.heads : head - shape.heads - shape.kv_heads;
    bool is_query = head < shape.heads, is_value = head >= shape.heads + shape.kv_heads;
    const void *gain = is_query ? gains.q : is_value ? NULL : gains.k;
    enum dtype dtype = is_query ? gains.q_dtype : gains.k_dtype;
    float scale = 1;
    T *to;

    if (row >= now->rows || head >= shape.heads + 2 * shape.kv_heads)
        return;

    int at = position[row];
    const float *from = qkv + ((int64_t)row * (shape.heads + 2 * shape.kv_heads) + head) * shape.head_dim;
    const float *angle = angles + (int64_t)at * shape.head_dim;

    if (is_query) {
        to = q + ((int64_t)row * shape.heads + head) * shape.head_dim;
    } else {
        int owner = sequence_of_row(sequence, now->sequences, row);

        if (owner < 0)
            return;
        int64_t block = block_table[(int64_t)sequence[owner].table * shape.blocks_max + at / KV_BLOCK_TOKENS];
        to = (is_value ? v : k) + ((block * shape.kv_heads + kv_head) * KV_BLOCK_TOKENS + at % KV_BLOCK_TOKENS) * shape.head_dim;
    }
    if (gain != NULL) {
        float sum = 0;

        for (int i = lane; i < shape.head_dim; i += 32)
            sum = fmaf(from[i], from[i], sum);
        scale = 1.0f / sqrtf(warp_sum(sum) / (float)shape.head_dim + eps);
    }
    for (int i = lane; i < half; i += 32) {
        float a = from[i], b = from[half + i], cosine = angle[i], sine = angle[half + i];

        if (gain != NULL) {
            a *= scale * load_number(dtype, gain, i);
            b *= scale * load_number(dtype, gain, half + i);
        }
        act_store(&to[i], is_value ? a : a * cosine - b * sine);
        act_store(&to[half + i], is_value ? b : b * cosine + a * sine);
    }
}

void cuda_rope_store(struct dev *dev, act *q, act *k, act *v, const float *qkv, const struct weight *q_gain, const struct weight *k_gain,
                     float eps, const float *angles, const struct batch *batch)
{
    const struct dims *dims = &dev->config.dims;
    struct rope_gains gains = {q_gain->data, k_gain->data, q_gain->dtype, k_gain->dtype};
    struct rope_shape shape = {dims->heads, dims->kv_heads, dims->head_dim, batch->blocks_max};
    dim3 grid((unsigned)batch->max.rows, (unsigned)div_up(dims->heads + 2 * dims->kv_heads, ROPE_WARPS)), block(ROPE_WARPS * 32);
    cudaStream_t stream = dev->lane[LANE_COMPUTE];

    if (batch->max.rows == 0)
        return;
    if (is_fast(dev))
        LAUNCH(rope_store<uint16_t>, grid, block, 0, stream, (uint16_t *)q, (uint16_t *)k, (uint16_t *)v, qkv, gains, eps, angles, shape,
               batch->position, batch->block_table, batch->sequence, batch->now);
    else
        LAUNCH(rope_store<float>, grid, block, 0, stream, (float *)q, (float *)k, (float *)v, qkv, gains, eps, angles, shape,
               batch->position, batch->block_table, batch->sequence, batch->now);
}
