/* The way back of attention by tiles of m16n8k16 (FlashAttention-2, arXiv 2307.08691, Algorithm 2, in two kernels without atomics). The
 * first takes 64 queries of a head, a warp 16, and walks the keys up to its last query twice, 32 at a time through two buffers: for the
 * softmaxes' totals and means, then for dq. The second takes 64 keys of a kv head, a warp 16, and walks the queries from them on, of each of
 * its query heads in turn. dy, p and ds are rounded to bf16 where they are multiplied. */
#include "engine/ops/cuda/attend.h"

#define BACK_WARPS 4
#define BACK_THREADS (BACK_WARPS * 32)
#define BACK_OWN (BACK_WARPS * 16)   /* rows that a block owns */
#define BACK_STEP 32                 /* rows that it walks by */

template <int D> struct queries_shared {
    uint16_t q[BACK_OWN][D + 8], dy[BACK_OWN][D + 8];
    uint16_t k[2][BACK_STEP][D + 8], v[2][BACK_STEP][D + 8];
};

template <int D> struct keys_shared {
    uint16_t k[BACK_OWN][D + 8], v[BACK_OWN][D + 8];
    uint16_t q[2][BACK_STEP][D + 8], dy[2][BACK_STEP][D + 8];
    float lse[2][BACK_STEP], mean[2][BACK_STEP];
};

/* One head of rows first .. first + ROWS - 1 of bf16 [T][H][d], from `from` on; what is not below `end` is zeros. */
template <int D, int ROWS>
DEVICE void rows_load(uint16_t (*tile)[D + 8], const uint16_t *from, const struct attend_shape &shape, int first, int end)
{
    for (int i = (int)threadIdx.x; i < ROWS * (D / 8); i += BACK_THREADS) {
        int row = i / (D / 8), column = i % (D / 8) * 8;
        bool inside = first + row < end && column < shape.head_dim;

        cp_async16(&tile[row][column], from + (inside ? (int64_t)(first + row) * shape.heads * shape.head_dim + column : 0), inside ? 16 : 0);
    }
}

/* The same of keys, or values, of one kv head. */
template <int D, int ROWS>
DEVICE void keys_load(uint16_t (*tile)[D + 8], const uint16_t *from, const struct attend_shape &shape, const struct attend_batch &batch,
                      int table, int kv_head, int first, int end)
{
    for (int i = (int)threadIdx.x; i < ROWS * (D / 8); i += BACK_THREADS) {
        int key = first + i / (D / 8), column = i % (D / 8) * 8;
        bool inside = key < end && column < shape.head_dim;

        cp_async16(&tile[key - first][column], from + (inside ? kv_at(shape, batch, table, kv_head, key) + column : 0), inside ? 16 : 0);
    }
}

/* dy f32 [T][H][d] as bf16, to shared memory and to `rounded`, for the second kernel. */
template <int D>
DEVICE void dy_round(uint16_t (*tile)[D + 8], uint16_t *rounded, const float *dy, const struct attend_shape &shape, int rows)
{
    for (int i = (int)threadIdx.x; i < BACK_OWN * (D / 8); i += BACK_THREADS) {
        int row = i / (D / 8), column = i % (D / 8) * 8;
        int64_t at = (int64_t)row * shape.heads * shape.head_dim + column;
        uint4 eight = make_uint4(0, 0, 0, 0);

        if (row < rows && column < shape.head_dim) {
            uint4 low = load16(dy + at), high = load16(dy + at + 4);

            eight = make_uint4(bf16_pair(__uint_as_float(low.x), __uint_as_float(low.y)), bf16_pair(__uint_as_float(low.z), __uint_as_float(low.w)),
                               bf16_pair(__uint_as_float(high.x), __uint_as_float(high.y)),
                               bf16_pair(__uint_as_float(high.z), __uint_as_float(high.w)));
            store16(rounded + at, eight);
        }
        *reinterpret_cast<uint4 *>(&tile[row][column]) = eight;
    }
}

/* c [16][BACK_STEP] = rows `row` .. row + 15 of `left` times `right` [BACK_STEP][D], turned. */
template <int D> DEVICE void products(float (&c)[BACK_STEP / 8][4], const uint16_t (*left)[D + 8], int row, const uint16_t (*right)[D + 8])
{
    UNROLL
    for (int i = 0; i < BACK_STEP / 8; i++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            c[i][j] = 0;
    }
    UNROLL
    for (int column = 0; column < D; column += 16) {
        uint32_t a[4];

        left_load<D + 8>(a, left, row, column);
        UNROLL
        for (int n = 0; n < BACK_STEP; n += 16) {
            uint32_t b[4];

            right_load<D + 8>(b, right, n, column);
            mma_bf16(c[n / 8], a, b[0], b[2]);
            mma_bf16(c[n / 8 + 1], a, b[1], b[3]);
        }
    }
}

/* sum [16][D] += c [16][BACK_STEP], as bf16, times `right` [BACK_STEP][D]. */
template <int D> DEVICE void products_add(float (&sum)[D / 8][4], const float (&c)[BACK_STEP / 8][4], const uint16_t (*right)[D + 8])
{
    UNROLL
    for (int k = 0; k < BACK_STEP; k += 16) {
        const float *low = c[k / 8], *high = c[k / 8 + 1];
        uint32_t a[4] = {bf16_pair(low[0], low[1]), bf16_pair(low[2], low[3]), bf16_pair(high[0], high[1]), bf16_pair(high[2], high[3])};

        UNROLL
        for (int column = 0; column < D; column += 16) {
            uint32_t b[4];

            right_load_trans<D + 8>(b, right, k, column);
            mma_bf16(sum[column / 8], a, b[0], b[1]);
            mma_bf16(sum[column / 8 + 1], a, b[2], b[3]);
        }
    }
}

/* A warp's 16 rows of a result, `to` f32 the first one's. */
template <int D>
DEVICE void result_store(float *to, const float (&sum)[D / 8][4], const struct attend_shape &shape, int rows)
{
    int64_t width = (int64_t)(shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    int lane = (int)threadIdx.x % 32;

    UNROLL
    for (int half = 0; half < 2; half++) {
        int row = lane / 4 + half * 8;
        float *own = to + row * width + lane % 4 * 2;

        UNROLL
        for (int i = 0; i < D / 8; i++) {
            if (row < rows && i * 8 < shape.head_dim) {
                own[i * 8] = sum[i][half * 2];
                own[i * 8 + 1] = sum[i][half * 2 + 1];
            }
        }
    }
}

/* A query's softmax as it grows: two rows a lane, each row's four lanes with parts of its sums. */
struct totals { float most[2], sum[2], mean[2]; };

DEVICE void totals_add(struct totals &totals, const float (&s)[BACK_STEP / 8][4], const float (&dp)[BACK_STEP / 8][4])
{
    UNROLL
    for (int half = 0; half < 2; half++) {
        float most = -INFINITY, shrink;

        UNROLL
        for (int i = 0; i < BACK_STEP / 8; i++)
            most = fmaxf(most, fmaxf(s[i][half * 2], s[i][half * 2 + 1]));
        most = fmaxf(totals.most[half], row_max(most));
        shrink = weight_of(totals.most[half], most);
        totals.most[half] = most;
        totals.sum[half] *= shrink;
        totals.mean[half] *= shrink;
        UNROLL
        for (int i = 0; i < BACK_STEP / 8; i++) {
            UNROLL
            for (int j = half * 2; j < half * 2 + 2; j++) {
                float weight = weight_of(s[i][j], most);

                totals.sum[half] += weight;
                totals.mean[half] = fmaf(weight, dp[i][j], totals.mean[half]);
            }
        }
    }
}

/* most becomes log2 of the sum of exp2, mean the mean. */
DEVICE void totals_end(struct totals &totals)
{
    UNROLL
    for (int half = 0; half < 2; half++) {
        float sum = row_sum(totals.sum[half]);

        totals.most[half] += log2f(sum);
        totals.mean[half] = row_sum(totals.mean[half]) / sum;
    }
}

/* dturned f32 [T][(H+2K)d]: dq; stats f32 [T][H][2]; rounded bf16, dy f32 and q bf16 [T][H][d]; k, v bf16 [block][K][16][d]. Block: (tile of
 * rows, head). scale: log2(e) / sqrt(d), scale_back: 1 / sqrt(d). */
template <int D> KERNEL __launch_bounds__(BACK_THREADS, 2)
attend_back_queries(float *dturned, float *stats, uint16_t *rounded, const float *dy, const uint16_t *q, const uint16_t *k, const uint16_t *v,
                    struct attend_shape shape, struct attend_batch batch, float scale, float scale_back)
{
    DYNAMIC_SHARED(struct queries_shared<D>, shared);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, head = (int)blockIdx.y;
    int kv_head = head / (shape.heads / shape.kv_heads), row0;
    struct totals totals = {{-INFINITY, -INFINITY}, {0, 0}, {0, 0}};
    struct sequence sequence;
    float dq[D / 8][4] = {};

    if (!attend_find<BACK_OWN>(batch, (int)blockIdx.x, 1, &sequence, &row0))
        return;

    int rows = min(sequence.rows - row0, BACK_OWN), keys = row0 + rows, tiles = (keys + BACK_STEP - 1) / BACK_STEP;
    int query = row0 + warp * 16 + lane / 4;
    int64_t first = (int64_t)sequence.row * shape.heads + head, own = first + (int64_t)row0 * shape.heads;

    rows_load<D, BACK_OWN>(shared->q, q + first * shape.head_dim, shape, row0, keys);
    dy_round<D>(shared->dy, rounded + own * shape.head_dim, dy + own * shape.head_dim, shape, rows);
    keys_load<D, BACK_STEP>(shared->k[0], k, shape, batch, sequence.table, kv_head, 0, keys);
    keys_load<D, BACK_STEP>(shared->v[0], v, shape, batch, sequence.table, kv_head, 0, keys);
    cp_async_commit();
    for (int step = 0; step < 2 * tiles; step++) {
        int key0 = step % tiles * BACK_STEP, next = (step + 1) % tiles * BACK_STEP, stage = step % 2;
        float s[BACK_STEP / 8][4], dp[BACK_STEP / 8][4];

        cp_async_wait<0>();
        /* This stage has come for everyone, and everyone is done with the other one, which is filled next. */
        __syncthreads();
        if (step + 1 < 2 * tiles) {
            keys_load<D, BACK_STEP>(shared->k[1 - stage], k, shape, batch, sequence.table, kv_head, next, keys);
            keys_load<D, BACK_STEP>(shared->v[1 - stage], v, shape, batch, sequence.table, kv_head, next, keys);
        }
        cp_async_commit();
        products<D>(s, shared->q, warp * 16, shared->k[stage]);
        products<D>(dp, shared->dy, warp * 16, shared->v[stage]);
        UNROLL
        for (int i = 0; i < BACK_STEP / 8; i++) {
            UNROLL
            for (int j = 0; j < 4; j++)
                s[i][j] = key0 + i * 8 + lane % 4 * 2 + j % 2 <= query + j / 2 * 8 ? s[i][j] * scale : -INFINITY;
        }
        if (step < tiles) {
            totals_add(totals, s, dp);
            if (step == tiles - 1)
                totals_end(totals);
            continue;
        }
        UNROLL
        for (int i = 0; i < BACK_STEP / 8; i++) {
            UNROLL
            for (int j = 0; j < 4; j++)
                s[i][j] = weight_of(s[i][j], totals.most[j / 2]) * (dp[i][j] - totals.mean[j / 2]) * scale_back;
        }
        products_add<D>(dq, s, shared->k[stage]);
    }
    cp_async_wait<0>();
    UNROLL
    for (int half = 0; half < 2; half++) {
        int row = warp * 16 + lane / 4 + half * 8;

        if (lane % 4 == 0 && row < rows) {
            stats[(own + (int64_t)row * shape.heads) * 2] = totals.most[half];
            stats[(own + (int64_t)row * shape.heads) * 2 + 1] = totals.mean[half];
        }
    }
    result_store<D>(dturned + ((int64_t)(sequence.row + row0 + warp * 16) * (shape.heads + 2 * shape.kv_heads) + head) * shape.head_dim, dq,
                    shape, rows - warp * 16);
}

/* A step of the walk over queries: of one head, from `query0` of the sequence on. */
template <int D>
DEVICE void queries_load(struct keys_shared<D> *shared, int stage, const float *stats, const uint16_t *dy, const uint16_t *q,
                         const struct attend_shape &shape, const struct sequence &sequence, int head, int query0)
{
    int64_t first = (int64_t)sequence.row * shape.heads + head;
    int query = query0 + (int)threadIdx.x;

    rows_load<D, BACK_STEP>(shared->q[stage], q + first * shape.head_dim, shape, query0, sequence.rows);
    rows_load<D, BACK_STEP>(shared->dy[stage], dy + first * shape.head_dim, shape, query0, sequence.rows);
    if (threadIdx.x < BACK_STEP) {
        bool inside = query < sequence.rows;

        shared->lse[stage][threadIdx.x] = inside ? stats[(first + (int64_t)query * shape.heads) * 2] : 0.0f;
        shared->mean[stage][threadIdx.x] = inside ? stats[(first + (int64_t)query * shape.heads) * 2 + 1] : 0.0f;
    }
}

/* dturned: dk and dv; stats and dy are what the kernel before left. Block: (tile of rows, kv head). */
template <int D> KERNEL __launch_bounds__(BACK_THREADS, 2)
attend_back_keys(float *dturned, const float *stats, const uint16_t *dy, const uint16_t *q, const uint16_t *k, const uint16_t *v,
                 struct attend_shape shape, struct attend_batch batch, float scale, float scale_back)
{
    DYNAMIC_SHARED(struct keys_shared<D>, shared);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, kv_head = (int)blockIdx.y, group = shape.heads / shape.kv_heads, row0;
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
    struct sequence sequence;

    if (!attend_find<BACK_OWN>(batch, (int)blockIdx.x, 1, &sequence, &row0))
        return;

    int key = row0 + warp * 16 + lane / 4, head = kv_head * group, head_end = head + group, query0 = row0, stage = 0;

    keys_load<D, BACK_OWN>(shared->k, k, shape, batch, sequence.table, kv_head, row0, sequence.rows);
    keys_load<D, BACK_OWN>(shared->v, v, shape, batch, sequence.table, kv_head, row0, sequence.rows);
    queries_load<D>(shared, 0, stats, dy, q, shape, sequence, head, row0);
    cp_async_commit();
    while (head < head_end) {
        bool is_last = query0 + BACK_STEP >= sequence.rows;
        int next_head = is_last ? head + 1 : head, next_query0 = is_last ? row0 : query0 + BACK_STEP;
        float s[BACK_STEP / 8][4], dp[BACK_STEP / 8][4];

        cp_async_wait<0>();
        __syncthreads();
        if (next_head < head_end)
            queries_load<D>(shared, 1 - stage, stats, dy, q, shape, sequence, next_head, next_query0);
        cp_async_commit();
        products<D>(s, shared->k, warp * 16, shared->q[stage]);
        UNROLL
        for (int i = 0; i < BACK_STEP / 8; i++) {
            UNROLL
            for (int j = 0; j < 4; j++) {
                int column = i * 8 + lane % 4 * 2 + j % 2;

                /* What is beyond the last query is zeros, and adds zeros. */
                s[i][j] = query0 + column >= key + j / 2 * 8 ? exp2f(s[i][j] * scale - shared->lse[stage][column]) : 0.0f;
            }
        }
        products_add<D>(dv, s, shared->dy[stage]);
        products<D>(dp, shared->v, warp * 16, shared->dy[stage]);
        UNROLL
        for (int i = 0; i < BACK_STEP / 8; i++) {
            UNROLL
            for (int j = 0; j < 4; j++)
                dp[i][j] = s[i][j] * (dp[i][j] - shared->mean[stage][i * 8 + lane % 4 * 2 + j % 2]) * scale_back;
        }
        products_add<D>(dk, dp, shared->q[stage]);
        head = next_head;
        query0 = next_query0;
        stage = 1 - stage;
    }
    cp_async_wait<0>();
    dturned += ((int64_t)(sequence.row + row0 + warp * 16) * (shape.heads + 2 * shape.kv_heads) + shape.heads + kv_head) * shape.head_dim;
    result_store<D>(dturned, dk, shape, sequence.rows - row0 - warp * 16);
    result_store<D>(dturned + shape.kv_heads * shape.head_dim, dv, shape, sequence.rows - row0 - warp * 16);
}

template <int D> static void setup(void)
{
    MUST(cudaFuncSetAttribute(attend_back_queries<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(struct queries_shared<D>)));
    MUST(cudaFuncSetAttribute(attend_back_keys<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(struct keys_shared<D>)));
}

void cuda_attend_back_setup(void)
{
    setup<16>();
    setup<64>();
    setup<128>();
}

template <int D>
static void launch(struct dev *dev, float *dturned, const float *dy, const uint16_t *q, const uint16_t *k, const uint16_t *v,
                   const struct batch *batch)
{
    struct attend_shape shape = attend_shape_of(dev, batch);
    struct attend_batch of = attend_batch_of(batch);
    /* Every sequence may end in a tile that is not full. */
    unsigned tiles = (unsigned)(div_up(batch->max.rows, BACK_OWN) + batch->max.sequences);
    float scale_back = 1.0f / sqrtf((float)shape.head_dim), scale = 1.44269504f * scale_back;

    LAUNCH(attend_back_queries<D>, dim3(tiles, (unsigned)shape.heads), dim3(BACK_THREADS), sizeof(struct queries_shared<D>),
           dev->lane[LANE_COMPUTE], dturned, dev->back_stats, dev->back_dy, dy, q, k, v, shape, of, scale, scale_back);
    LAUNCH(attend_back_keys<D>, dim3(tiles, (unsigned)shape.kv_heads), dim3(BACK_THREADS), sizeof(struct keys_shared<D>),
           dev->lane[LANE_COMPUTE], dturned, dev->back_stats, dev->back_dy, q, k, v, shape, of, scale, scale_back);
}

void cuda_attend_back_tiles(struct dev *dev, float *dturned, const float *dy, const act *q, const act *k, const act *v,
                            const struct batch *batch)
{
    int head_dim = dev->config.dims.head_dim;

    if (head_dim <= 16)
        launch<16>(dev, dturned, dy, (const uint16_t *)q, (const uint16_t *)k, (const uint16_t *)v, batch);
    else if (head_dim <= 64)
        launch<64>(dev, dturned, dy, (const uint16_t *)q, (const uint16_t *)k, (const uint16_t *)v, batch);
    else
        launch<128>(dev, dturned, dy, (const uint16_t *)q, (const uint16_t *)k, (const uint16_t *)v, batch);
}
