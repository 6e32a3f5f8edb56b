/* attend: which kernel; and the simple one, for floats and for head sizes that the others do not take: a warp a head of
 * a row, keys in order, 32 at a time. */
#include "engine/ops/cuda/attend.h"

#define SIMPLE_WARPS 4
#define SIMPLE_KEYS 32
#define SIMPLE_HEAD_MAX 256
#define FAST_HEAD_MAX 128

/* y, q act [T][H][d]; k, v act [block][K][16][d]. A lane a key for the scores, a lane every 32nd number of the head for
 * the values. */
template <class T> KERNEL __launch_bounds__(SIMPLE_WARPS * 32)
attend_simple(T *y, const T *q, const T *k, const T *v, struct attend_shape shape, struct attend_batch batch, float scale)
{
    int row = (int)blockIdx.x, head = (int)blockIdx.y * SIMPLE_WARPS + (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int kv_head = head / (shape.heads / shape.kv_heads);
    float o[SIMPLE_HEAD_MAX / 32] = {}, most = -INFINITY, sum = 0;

    if (row >= batch.now->rows || head >= shape.heads)
        return;

    int owner = sequence_of_row(batch.sequence, batch.now->sequences, row);
    if (owner < 0)
        return;

    struct sequence sequence = batch.sequence[owner];
    int keys = sequence.before + row - sequence.row + 1;
    const T *query = q + ((int64_t)row * shape.heads + head) * shape.head_dim;

    for (int key0 = 0; key0 < keys; key0 += SIMPLE_KEYS) {
        float score = -INFINITY, weight, shrink, before = most;

        if (key0 + lane < keys) {
            const T *key = k + kv_at(shape, batch, sequence.table, kv_head, key0 + lane);

            score = 0;
            for (int i = 0; i < shape.head_dim; i++)
                score = fmaf(act_load(&query[i]), act_load(&key[i]), score);
            score *= scale;
        }
        most = fmaxf(most, warp_max(score));
        weight = weight_of(score, most);
        shrink = weight_of(before, most);
        sum = sum * shrink + warp_sum(weight);
        UNROLL
        for (int i = 0; i < SIMPLE_HEAD_MAX / 32; i++)
            o[i] *= shrink;
        for (int each = 0; each < min(keys - key0, SIMPLE_KEYS); each++) {
            const T *value = v + kv_at(shape, batch, sequence.table, kv_head, key0 + each);
            float share = __shfl_sync(0xffffffffu, weight, each);

            UNROLL
            for (int i = 0; i < SIMPLE_HEAD_MAX / 32; i++) {
                if (i * 32 + lane < shape.head_dim)
                    o[i] = fmaf(share, act_load(&value[i * 32 + lane]), o[i]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < SIMPLE_HEAD_MAX / 32; i++) {
        if (i * 32 + lane < shape.head_dim)
            act_store(&y[((int64_t)row * shape.heads + head) * shape.head_dim + i * 32 + lane], o[i] / sum);
    }
}

void cuda_attend_simple(struct dev *dev, act *y, const act *q, const act *k, const act *v, const struct batch *batch)
{
    struct attend_shape shape = attend_shape_of(dev, batch);
    struct attend_batch of = attend_batch_of(batch);
    dim3 grid((unsigned)batch->max.rows, (unsigned)div_up(shape.heads, SIMPLE_WARPS)), block(SIMPLE_WARPS * 32);
    float scale = 1.44269504f / sqrtf((float)shape.head_dim);
    cudaStream_t stream = dev->lane[LANE_COMPUTE];

    check(shape.head_dim <= SIMPLE_HEAD_MAX);
    if (is_fast(dev))
        LAUNCH(attend_simple<uint16_t>, grid, block, 0, stream, (uint16_t *)y, (const uint16_t *)q, (const uint16_t *)k, (const uint16_t *)v,
               shape, of, scale);
    else
        LAUNCH(attend_simple<float>, grid, block, 0, stream, (float *)y, (const float *)q, (const float *)k, (const float *)v, shape, of, scale);
}

/* Decode has a row a sequence: one kernel. A mixed batch takes two, each of which leaves the other's sequences alone.
 * Deterministic takes the kernel of single rows for all, so that a row's bits do not tell how its prompt was cut; what trains cuts
 * none, and its rows' tiles are their sequence's own. */
void cuda_attend(struct dev *dev, act *y, const act *q, const act *k, const act *v, const struct batch *batch)
{
    int head_dim = dev->config.dims.head_dim;

    if (batch->max.rows == 0)
        return;
    if (!is_fast(dev) || head_dim > FAST_HEAD_MAX || head_dim % 8 != 0)
        cuda_attend_simple(dev, y, q, k, v, batch);
    else if ((dev->config.deterministic && !dev->config.trains) || batch->max.rows <= batch->max.sequences)
        cuda_attend_rows(dev, y, q, k, v, true, batch);
    else {
        cuda_attend_rows(dev, y, q, k, v, false, batch);
        cuda_attend_prefill(dev, y, q, k, v, batch);
    }
}
