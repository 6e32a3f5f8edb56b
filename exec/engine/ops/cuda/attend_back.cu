/* The way back of attention: which kernels; and the simple ones, for floats and for head sizes that the others do not take. With p the
 * softmax of a query's scores s and y = p v: ds_j = p_j (dy v_j - mean), mean = sum_j p_j dy v_j (Dao et al. 2022, appendix B.2). Softmaxes
 * are made again. One kernel owns queries: their totals, means and dq; the next one owns keys: dk and dv, from all queries that see them.
 * Nothing is added to by two, and every sum has one order, so no result depends on who else is in the batch. */
#include "engine/ops/cuda/attend.h"

#define SIMPLE_WARPS 4
#define SIMPLE_LANES 32
#define SIMPLE_HEAD_MAX 256
#define SIMPLE_EACH (SIMPLE_HEAD_MAX / SIMPLE_LANES)
#define TILES_HEAD_MAX 128

/* What a warp's lanes tell each other: ds and p of a query and a key each. */
struct simple_shared { float ds[SIMPLE_WARPS][SIMPLE_LANES], p[SIMPLE_WARPS][SIMPLE_LANES]; };

/* One query, one key and its value: q k and dy v. */
template <class T>
DEVICE void pair_products(const T *query, const float *dy, const T *key, const T *value, int head_dim, float *ret_score, float *ret_dp)
{
    float score = 0, dp = 0;

    for (int i = 0; i < head_dim; i++) {
        score = fmaf(act_load(&query[i]), act_load(&key[i]), score);
        dp = fmaf(dy[i], act_load(&value[i]), dp);
    }
    *ret_score = score;
    *ret_dp = dp;
}

/* dturned f32 [T][(H+2K)d]: dq; stats f32 [T][H][2]: log2 of the sum of exp2 of a query's scores, mean; dy f32 and q act [T][H][d]; k, v act
 * [block][K][16][d]. A warp a head of a row, keys in order, a lane each. scale: log2(e) / sqrt(d), scale_back: 1 / sqrt(d). */
template <class T> KERNEL __launch_bounds__(SIMPLE_WARPS * SIMPLE_LANES)
attend_back_rows(float *dturned, float *stats, const float *dy, const T *q, const T *k, const T *v, struct attend_shape shape,
                 struct attend_batch batch, float scale, float scale_back)
{
    DYNAMIC_SHARED(struct simple_shared, shared);
    int row = (int)blockIdx.x, warp = (int)threadIdx.x / SIMPLE_LANES, lane = (int)threadIdx.x % SIMPLE_LANES;
    int head = (int)blockIdx.y * SIMPLE_WARPS + warp, kv_head = head / (shape.heads / shape.kv_heads);
    float dq[SIMPLE_EACH] = {}, most = -INFINITY, sum = 0, mean = 0, lse;

    if (row >= batch.now->rows || head >= shape.heads)
        return;

    int owner = sequence_of_row(batch.sequence, batch.now->sequences, row);
    if (owner < 0)
        return;

    struct sequence sequence = batch.sequence[owner];
    int keys = row - sequence.row + 1;
    int64_t at = ((int64_t)row * shape.heads + head) * shape.head_dim;

    for (int key = lane; key - lane < keys; key += SIMPLE_LANES) {
        float score = -INFINITY, dp = 0, weight, shrink, before = most;

        if (key < keys) {
            int64_t from = kv_at(shape, batch, sequence.table, kv_head, key);

            pair_products(q + at, dy + at, k + from, v + from, shape.head_dim, &score, &dp);
            score *= scale;
        }
        most = fmaxf(most, warp_max(score));
        weight = weight_of(score, most);
        shrink = weight_of(before, most);
        sum = sum * shrink + warp_sum(weight);
        mean = mean * shrink + warp_sum(weight * dp);
    }
    lse = most + log2f(sum);
    mean /= sum;
    if (lane == 0) {
        stats[((int64_t)row * shape.heads + head) * 2] = lse;
        stats[((int64_t)row * shape.heads + head) * 2 + 1] = mean;
    }
    for (int key = lane; key - lane < keys; key += SIMPLE_LANES) {
        float score, dp, ds = 0;

        if (key < keys) {
            int64_t from = kv_at(shape, batch, sequence.table, kv_head, key);

            pair_products(q + at, dy + at, k + from, v + from, shape.head_dim, &score, &dp);
            ds = exp2f(score * scale - lse) * (dp - mean) * scale_back;
        }
        shared->ds[warp][lane] = ds;
        __syncwarp();
        for (int each = 0; each < min(keys - (key - lane), SIMPLE_LANES); each++) {
            const T *other = k + kv_at(shape, batch, sequence.table, kv_head, key - lane + each);
            float share = shared->ds[warp][each];

            UNROLL
            for (int i = 0; i < SIMPLE_EACH; i++) {
                if (i * SIMPLE_LANES + lane < shape.head_dim)
                    dq[i] = fmaf(share, act_load(&other[i * SIMPLE_LANES + lane]), dq[i]);
            }
        }
        __syncwarp();
    }
    dturned += ((int64_t)row * (shape.heads + 2 * shape.kv_heads) + head) * shape.head_dim;
    UNROLL
    for (int i = 0; i < SIMPLE_EACH; i++) {
        if (i * SIMPLE_LANES + lane < shape.head_dim)
            dturned[i * SIMPLE_LANES + lane] = dq[i];
    }
}

/* dturned: dk and dv, from what the kernel before left. A warp a kv head of a row, its query heads in order, their queries in order. */
template <class T> KERNEL __launch_bounds__(SIMPLE_WARPS * SIMPLE_LANES)
attend_back_columns(float *dturned, const float *stats, const float *dy, const T *q, const T *k, const T *v, struct attend_shape shape,
                    struct attend_batch batch, float scale, float scale_back)
{
    DYNAMIC_SHARED(struct simple_shared, shared);
    int row = (int)blockIdx.x, warp = (int)threadIdx.x / SIMPLE_LANES, lane = (int)threadIdx.x % SIMPLE_LANES;
    int kv_head = (int)blockIdx.y * SIMPLE_WARPS + warp, group = shape.heads / shape.kv_heads;
    float dk[SIMPLE_EACH] = {}, dv[SIMPLE_EACH] = {};

    if (row >= batch.now->rows || kv_head >= shape.kv_heads)
        return;

    int owner = sequence_of_row(batch.sequence, batch.now->sequences, row);
    if (owner < 0)
        return;

    struct sequence sequence = batch.sequence[owner];
    int end = sequence.row + sequence.rows;
    int64_t from = kv_at(shape, batch, sequence.table, kv_head, row - sequence.row);

    for (int head = kv_head * group; head < (kv_head + 1) * group; head++) {
        for (int query = row + lane; query - lane < end; query += SIMPLE_LANES) {
            float score, dp, p = 0, ds = 0;

            if (query < end) {
                int64_t at = (int64_t)query * shape.heads + head;

                pair_products(q + at * shape.head_dim, dy + at * shape.head_dim, k + from, v + from, shape.head_dim, &score, &dp);
                p = exp2f(score * scale - stats[at * 2]);
                ds = p * (dp - stats[at * 2 + 1]) * scale_back;
            }
            shared->p[warp][lane] = p;
            shared->ds[warp][lane] = ds;
            __syncwarp();
            for (int each = 0; each < min(end - (query - lane), SIMPLE_LANES); each++) {
                int64_t other = ((int64_t)(query - lane + each) * shape.heads + head) * shape.head_dim;
                float share = shared->p[warp][each], share_back = shared->ds[warp][each];

                UNROLL
                for (int i = 0; i < SIMPLE_EACH; i++) {
                    if (i * SIMPLE_LANES + lane < shape.head_dim) {
                        dk[i] = fmaf(share_back, act_load(&q[other + i * SIMPLE_LANES + lane]), dk[i]);
                        dv[i] = fmaf(share, dy[other + i * SIMPLE_LANES + lane], dv[i]);
                    }
                }
            }
            __syncwarp();
        }
    }
    dturned += ((int64_t)row * (shape.heads + 2 * shape.kv_heads) + shape.heads + kv_head) * shape.head_dim;
    UNROLL
    for (int i = 0; i < SIMPLE_EACH; i++) {
        if (i * SIMPLE_LANES + lane < shape.head_dim) {
            dturned[i * SIMPLE_LANES + lane] = dk[i];
            dturned[shape.kv_heads * shape.head_dim + i * SIMPLE_LANES + lane] = dv[i];
        }
    }
}

template <class T>
static void launch(struct dev *dev, float *dturned, const float *dy, const T *q, const T *k, const T *v, const struct batch *batch)
{
    struct attend_shape shape = attend_shape_of(dev, batch);
    struct attend_batch of = attend_batch_of(batch);
    dim3 block(SIMPLE_WARPS * SIMPLE_LANES);
    dim3 rows((unsigned)batch->max.rows, (unsigned)div_up(shape.heads, SIMPLE_WARPS));
    dim3 columns((unsigned)batch->max.rows, (unsigned)div_up(shape.kv_heads, SIMPLE_WARPS));
    float scale_back = 1.0f / sqrtf((float)shape.head_dim), scale = 1.44269504f * scale_back;
    size_t bytes = sizeof(struct simple_shared);

    check(shape.head_dim <= SIMPLE_HEAD_MAX);
    LAUNCH(attend_back_rows<T>, rows, block, bytes, dev->lane[LANE_COMPUTE], dturned, dev->back_stats, dy, q, k, v, shape, of, scale, scale_back);
    LAUNCH(attend_back_columns<T>, columns, block, bytes, dev->lane[LANE_COMPUTE], dturned, dev->back_stats, dy, q, k, v, shape, of, scale,
           scale_back);
}

void cuda_attend_back_simple(struct dev *dev, float *dturned, const float *dy, const act *q, const act *k, const act *v,
                             const struct batch *batch)
{
    if (is_fast(dev))
        launch(dev, dturned, dy, (const uint16_t *)q, (const uint16_t *)k, (const uint16_t *)v, batch);
    else
        launch(dev, dturned, dy, (const float *)q, (const float *)k, (const float *)v, batch);
}

void cuda_attend_back(struct dev *dev, float *dturned, const float *dy, const act *q, const act *k, const act *v, const struct batch *batch)
{
    int head_dim = dev->config.dims.head_dim;

    if (batch->max.rows == 0)
        return;
    if (!is_fast(dev) || head_dim > TILES_HEAD_MAX || head_dim % 8 != 0)
        cuda_attend_back_simple(dev, dturned, dy, q, k, v, batch);
    else
        cuda_attend_back_tiles(dev, dturned, dy, q, k, v, batch);
}
