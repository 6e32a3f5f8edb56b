/* Attention of prompts, for sequences of more than one new row: a block takes 64 rows of one head, a warp 16 of them,
 * and walks the keys up to its last row, 64 at a time through two buffers (FlashAttention-2, arXiv 2307.08691,
 * Algorithm 1). Keys beyond a row's own position weigh nothing; keys beyond the block's last row are never read, they
 * are zeros in shared memory. */
#include "engine/ops/cuda/attend.h"

#define PREFILL_WARPS 4
#define PREFILL_THREADS (PREFILL_WARPS * 32)
#define PREFILL_ROWS (PREFILL_WARPS * 16)
#define PREFILL_KEYS 64

template <int D> struct prefill_shared {
    uint16_t q[PREFILL_ROWS][D + 8];
    uint16_t k[2][PREFILL_KEYS][D + 8], v[2][PREFILL_KEYS][D + 8];
};

template <int D>
DEVICE void prefill_load(uint16_t (*tile)[D + 8], const uint16_t *from, const struct attend_shape &shape, const struct attend_batch &batch,
                         int table, int kv_head, int key0, int keys)
{
    for (int i = (int)threadIdx.x; i < PREFILL_KEYS * (D / 8); i += PREFILL_THREADS) {
        int key = key0 + i / (D / 8), column = i % (D / 8) * 8;
        bool inside = key < keys && column < shape.head_dim;

        cp_async16(&tile[key - key0][column], from + (inside ? kv_at(shape, batch, table, kv_head, key) + column : 0), inside ? 16 : 0);
    }
}

/* y, q bf16 [T][H][d]; k, v bf16 [block][K][16][d]. Block: (tile of rows, head). */
template <int D> KERNEL __launch_bounds__(PREFILL_THREADS, 2)
attend_prefill(uint16_t *y, const uint16_t *q, const uint16_t *k, const uint16_t *v, struct attend_shape shape, struct attend_batch batch,
               float scale)
{
    DYNAMIC_SHARED(struct prefill_shared<D>, shared);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, head = (int)blockIdx.y;
    int kv_head = head / (shape.heads / shape.kv_heads), row0;
    struct sequence sequence;
    attend_state<D> state;
    uint32_t left[D / 16][4];

    if (!attend_find<PREFILL_ROWS>(batch, (int)blockIdx.x, 2, &sequence, &row0))
        return;

    int rows = min(sequence.rows - row0, PREFILL_ROWS), keys = sequence.before + row0 + rows;
    int tiles = (keys + PREFILL_KEYS - 1) / PREFILL_KEYS;
    int position = sequence.before + row0 + warp * 16 + lane / 4;
    int64_t base = ((int64_t)(sequence.row + row0) * shape.heads + head) * shape.head_dim, stride = (int64_t)shape.heads * shape.head_dim;

    for (int i = (int)threadIdx.x; i < PREFILL_ROWS * (D / 8); i += PREFILL_THREADS) {
        int row = i / (D / 8), column = i % (D / 8) * 8;
        bool inside = row < rows && column < shape.head_dim;

        cp_async16(&shared->q[row][column], q + (inside ? base + row * stride + column : 0), inside ? 16 : 0);
    }
    cp_async_commit();
    prefill_load<D>(shared->k[0], k, shape, batch, sequence.table, kv_head, 0, keys);
    prefill_load<D>(shared->v[0], v, shape, batch, sequence.table, kv_head, 0, keys);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    UNROLL
    for (int column = 0; column < D; column += 16)
        left_load<D + 8>(left[column / 16], shared->q, warp * 16, column);
    attend_begin<D>(state);
    for (int tile = 0; tile < tiles; tile++) {
        int key0 = tile * PREFILL_KEYS, stage = tile % 2;
        float s[PREFILL_KEYS / 8][4];

        cp_async_wait<0>();
        /* This stage has come for everyone, and everyone is done with the other one, which is filled next. */
        __syncthreads();
        if (tile + 1 < tiles) {
            prefill_load<D>(shared->k[1 - stage], k, shape, batch, sequence.table, kv_head, key0 + PREFILL_KEYS, keys);
            prefill_load<D>(shared->v[1 - stage], v, shape, batch, sequence.table, kv_head, key0 + PREFILL_KEYS, keys);
        }
        cp_async_commit();
        attend_scores<D, PREFILL_KEYS, D + 8>(s, left, shared->k[stage]);
        UNROLL
        for (int i = 0; i < PREFILL_KEYS / 8; i++) {
            UNROLL
            for (int j = 0; j < 4; j++)
                s[i][j] = key0 + i * 8 + lane % 4 * 2 + j % 2 <= position + j / 2 * 8 ? s[i][j] * scale : -INFINITY;
        }
        attend_step<D, PREFILL_KEYS, D + 8>(state, s, shared->v[stage]);
    }
    cp_async_wait<0>();
    UNROLL
    for (int i = 0; i < D / 8; i++) {
        UNROLL
        for (int j = 0; j < 4; j++) {
            int row = warp * 16 + lane / 4 + j / 2 * 8, column = i * 8 + lane % 4 * 2 + j % 2;

            if (row < rows && column < shape.head_dim)
                act_store(&y[base + row * stride + column], state.o[i][j] / state.sum[j / 2]);
        }
    }
}

template <int D> static void setup(void)
{
    MUST(cudaFuncSetAttribute(attend_prefill<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(struct prefill_shared<D>)));
}

void cuda_attend_prefill_setup(void)
{
    setup<16>();
    setup<64>();
    setup<128>();
}

template <int D> static void launch(struct dev *dev, act *y, const act *q, const act *k, const act *v, const struct batch *batch)
{
    /* Every sequence may end in a tile that is not full. */
    dim3 grid((unsigned)(div_up(batch->max.rows, PREFILL_ROWS) + batch->max.sequences), (unsigned)dev->config.dims.heads);

    LAUNCH(attend_prefill<D>, grid, dim3(PREFILL_THREADS), sizeof(struct prefill_shared<D>), dev->lane[LANE_COMPUTE], (uint16_t *)y,
           (const uint16_t *)q, (const uint16_t *)k, (const uint16_t *)v, attend_shape_of(dev, batch), attend_batch_of(batch),
           1.44269504f / sqrtf((float)dev->config.dims.head_dim));
}

void cuda_attend_prefill(struct dev *dev, act *y, const act *q, const act *k, const act *v, const struct batch *batch)
{
    int head_dim = dev->config.dims.head_dim;

    if (head_dim <= 16)
        launch<16>(dev, y, q, k, v, batch);
    else if (head_dim <= 64)
        launch<64>(dev, y, q, k, v, batch);
    else
        launch<128>(dev, y, q, k, v, batch);
}
