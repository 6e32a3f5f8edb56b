/* Attention of single rows over long contexts: keys are cut every 512, by the row's own length, each piece a block, so
 * that a few rows fill a GPU. A block takes the (up to 16) query heads that share a kv head as the 16 rows of an
 * m16n8k16; each of its warps walks 128 keys, a KV block at a time, through two buffers of its own; then the warps'
 * results, and in a second kernel the pieces', are joined in order. Nothing depends on other rows. Head sizes are
 * padded to 16, 64 or 128 with zeros in shared memory. */
#include "engine/ops/cuda/attend.h"

#define ROWS_WARPS 4
#define ROWS_THREADS (ROWS_WARPS * 32)
#define ROWS_WARP_KEYS (ATTEND_SPLIT_KEYS / ROWS_WARPS)
#define ROWS_QUERIES 16

template <int D> struct rows_shared {
    uint16_t q[ROWS_QUERIES][D + 8];
    union {
        struct { uint16_t k[2][KV_BLOCK_TOKENS][D + 8], v[2][KV_BLOCK_TOKENS][D + 8]; } warp[ROWS_WARPS];
        float o[ROWS_WARPS][ROWS_QUERIES][D];
    };
    float most[ROWS_WARPS][ROWS_QUERIES], sum[ROWS_WARPS][ROWS_QUERIES];
};

/* One of a launch's rows. */
struct rows_item { int row, table, keys; };

/* Items are rows from `first` on, or, when not every row is asked for, sequences from `first` on that have one row. */
DEVICE bool rows_find(const struct attend_batch &batch, int index, bool every_row, struct rows_item *ret_item)
{
    int owner = index;

    if (index >= (every_row ? batch.now->rows : batch.now->sequences))
        return false;
    if (every_row)
        owner = sequence_of_row(batch.sequence, batch.now->sequences, index);
    if (owner < 0)
        return false;

    struct sequence sequence = batch.sequence[owner];
    if (!every_row && sequence.rows != 1)
        return false;
    ret_item->row = every_row ? index : sequence.row;
    ret_item->table = sequence.table;
    ret_item->keys = sequence.before + ret_item->row - sequence.row + 1;
    return true;
}

/* [16][D] of keys or values from one KV block; rows from `keys` on, and columns beyond the head, are zero. */
template <int D>
DEVICE void rows_load(uint16_t (*tile)[D + 8], const uint16_t *from, int head_dim, int keys)
{
    for (int i = (int)threadIdx.x % 32; i < KV_BLOCK_TOKENS * (D / 8); i += 32) {
        int key = i / (D / 8), column = i % (D / 8) * 8;
        bool inside = key < keys && column < head_dim;

        cp_async16(&tile[key][column], from + (inside ? key * head_dim + column : 0), inside ? 16 : 0);
    }
}

/* o f32 [items][H][splits][d], ml f32 [items][H][splits][2]; q bf16 [T][H][d]; k, v bf16 [block][K][16][d].
 * Block: (item, kv head and group of 16 queries, split). */
template <int D> KERNEL __launch_bounds__(ROWS_THREADS)
attend_rows(float *o, float *ml, const uint16_t *q, const uint16_t *k, const uint16_t *v, struct attend_shape shape, struct attend_batch batch,
            float scale, int first, bool every_row)
{
    DYNAMIC_SHARED(struct rows_shared<D>, shared);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int group = shape.heads / shape.kv_heads, parts = (group + ROWS_QUERIES - 1) / ROWS_QUERIES;
    int kv_head = (int)blockIdx.y / parts, head0 = kv_head * group + (int)blockIdx.y % parts * ROWS_QUERIES;
    int heads = min((kv_head + 1) * group - head0, ROWS_QUERIES);
    int split = (int)blockIdx.z, splits = (int)gridDim.z;
    int key0 = split * ATTEND_SPLIT_KEYS + warp * ROWS_WARP_KEYS;
    struct rows_item item;
    attend_state<D> state;
    uint32_t left[D / 16][4];

    if (!rows_find(batch, first + (int)blockIdx.x, every_row, &item) || split * ATTEND_SPLIT_KEYS >= item.keys)
        return;

    int tiles = (max(min(item.keys - key0, ROWS_WARP_KEYS), 0) + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;

    for (int i = (int)threadIdx.x; i < ROWS_QUERIES * (D / 8); i += ROWS_THREADS) {
        int row = i / (D / 8), column = i % (D / 8) * 8;
        bool inside = row < heads && column < shape.head_dim;

        cp_async16(&shared->q[row][column],
                   q + (inside ? ((int64_t)item.row * shape.heads + head0 + row) * shape.head_dim + column : 0), inside ? 16 : 0);
    }
    cp_async_commit();
    if (tiles > 0) {
        int64_t at = kv_at(shape, batch, item.table, kv_head, key0);

        rows_load<D>(shared->warp[warp].k[0], k + at, shape.head_dim, item.keys - key0);
        rows_load<D>(shared->warp[warp].v[0], v + at, shape.head_dim, item.keys - key0);
    }
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    UNROLL
    for (int column = 0; column < D; column += 16)
        left_load<D + 8>(left[column / 16], shared->q, 0, column);
    attend_begin<D>(state);
    for (int tile = 0; tile < tiles; tile++) {
        int key = key0 + tile * KV_BLOCK_TOKENS, next = key + KV_BLOCK_TOKENS, stage = tile % 2;
        float s[KV_BLOCK_TOKENS / 8][4];

        if (tile + 1 < tiles) {
            int64_t at = kv_at(shape, batch, item.table, kv_head, next);

            rows_load<D>(shared->warp[warp].k[1 - stage], k + at, shape.head_dim, item.keys - next);
            rows_load<D>(shared->warp[warp].v[1 - stage], v + at, shape.head_dim, item.keys - next);
        }
        cp_async_commit();
        cp_async_wait<1>();
        __syncwarp();
        attend_scores<D, KV_BLOCK_TOKENS, D + 8>(s, left, shared->warp[warp].k[stage]);
        UNROLL
        for (int i = 0; i < KV_BLOCK_TOKENS / 8; i++) {
            UNROLL
            for (int j = 0; j < 4; j++)
                s[i][j] = key + i * 8 + lane % 4 * 2 + j % 2 < item.keys ? s[i][j] * scale : -INFINITY;
        }
        attend_step<D, KV_BLOCK_TOKENS, D + 8>(state, s, shared->warp[warp].v[stage]);
        /* The buffer just read is the next to be filled. */
        __syncwarp();
    }
    cp_async_wait<0>();
    /* The warps' results take the place of their buffers. */
    __syncthreads();
    UNROLL
    for (int i = 0; i < D / 8; i++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            shared->o[warp][lane / 4 + j / 2 * 8][i * 8 + lane % 4 * 2 + j % 2] = state.o[i][j];
    }
    if (lane % 4 == 0) {
        UNROLL
        for (int half = 0; half < 2; half++) {
            shared->most[warp][lane / 4 + half * 8] = state.most[half];
            shared->sum[warp][lane / 4 + half * 8] = state.sum[half];
        }
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < heads * D; i += ROWS_THREADS) {
        int row = i / D, column = i % D;
        int64_t at = ((int64_t)blockIdx.x * shape.heads + head0 + row) * splits + split;
        float most = shared->most[0][row], value = 0, sum = 0;

        for (int each = 1; each < ROWS_WARPS; each++)
            most = fmaxf(most, shared->most[each][row]);
        for (int each = 0; each < ROWS_WARPS; each++) {
            float share = weight_of(shared->most[each][row], most);

            value += share * shared->o[each][row][column];
            sum += share * shared->sum[each][row];
        }
        if (column < shape.head_dim)
            o[at * shape.head_dim + column] = value;
        if (column == 0) {
            ml[at * 2] = most;
            ml[at * 2 + 1] = sum;
        }
    }
}

/* y bf16 [T][H][d]. Block: (item, head). */
KERNEL __launch_bounds__(ROWS_THREADS)
attend_join(uint16_t *y, const float *o, const float *ml, struct attend_shape shape, struct attend_batch batch, int splits, int first,
            bool every_row)
{
    int head = (int)blockIdx.y;
    int64_t base = ((int64_t)blockIdx.x * shape.heads + head) * splits;
    float most = -INFINITY, sum = 0;
    struct rows_item item;

    if (!rows_find(batch, first + (int)blockIdx.x, every_row, &item))
        return;

    int pieces = (item.keys + ATTEND_SPLIT_KEYS - 1) / ATTEND_SPLIT_KEYS;
    for (int i = 0; i < pieces; i++)
        most = fmaxf(most, ml[(base + i) * 2]);
    for (int i = 0; i < pieces; i++)
        sum += weight_of(ml[(base + i) * 2], most) * ml[(base + i) * 2 + 1];
    for (int column = (int)threadIdx.x; column < shape.head_dim; column += ROWS_THREADS) {
        float value = 0;

        for (int i = 0; i < pieces; i++)
            value += weight_of(ml[(base + i) * 2], most) * o[(base + i) * shape.head_dim + column];
        act_store(&y[((int64_t)item.row * shape.heads + head) * shape.head_dim + column], value / sum);
    }
}

template <int D> static void setup(void)
{
    MUST(cudaFuncSetAttribute(attend_rows<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(struct rows_shared<D>)));
}

void cuda_attend_rows_setup(void)
{
    setup<16>();
    setup<64>();
    setup<128>();
}

template <int D>
static void launch(struct dev *dev, act *y, const act *q, const act *k, const act *v, bool every_row, const struct batch *batch)
{
    struct attend_shape shape = attend_shape_of(dev, batch);
    struct attend_batch of = attend_batch_of(batch);
    int keys_max = (int)min_i64(dev->config.positions_max, (int64_t)batch->blocks_max * KV_BLOCK_TOKENS);
    int splits = div_up(keys_max, ATTEND_SPLIT_KEYS), items = every_row ? batch->max.rows : batch->max.sequences;
    int parts = div_up(shape.heads / shape.kv_heads, ROWS_QUERIES);
    float scale = 1.44269504f / sqrtf((float)shape.head_dim);
    cudaStream_t stream = dev->lane[LANE_COMPUTE];

    for (int first = 0; first < items; first += dev->attend_items) {
        unsigned count = (unsigned)(items - first < dev->attend_items ? items - first : dev->attend_items);

        LAUNCH(attend_rows<D>, dim3(count, (unsigned)(shape.kv_heads * parts), (unsigned)splits), dim3(ROWS_THREADS),
               sizeof(struct rows_shared<D>), stream, dev->attend_o, dev->attend_ml, (const uint16_t *)q, (const uint16_t *)k,
               (const uint16_t *)v, shape, of, scale, first, every_row);
        LAUNCH(attend_join, dim3(count, (unsigned)shape.heads), dim3(ROWS_THREADS), 0, stream, (uint16_t *)y, (const float *)dev->attend_o,
               (const float *)dev->attend_ml, shape, of, splits, first, every_row);
    }
}

void cuda_attend_rows(struct dev *dev, act *y, const act *q, const act *k, const act *v, bool every_row, const struct batch *batch)
{
    int head_dim = dev->config.dims.head_dim;

    if (head_dim <= 16)
        launch<16>(dev, y, q, k, v, every_row, batch);
    else if (head_dim <= 64)
        launch<64>(dev, y, q, k, v, every_row, batch);
    else
        launch<128>(dev, y, q, k, v, every_row, batch);
}
