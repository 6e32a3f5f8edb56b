/* What the attention kernels share. */
#ifndef CUDA_ATTEND_H
#define CUDA_ATTEND_H

#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/tile.h"

struct attend_shape { int heads, kv_heads, head_dim, blocks_max; };

/* What a kernel needs of a batch. */
struct attend_batch {
    const int32_t *block_table;
    const struct sequence *sequence;
    const struct counts *now;
};

static inline struct attend_shape attend_shape_of(const struct dev *dev, const struct batch *batch)
{
    const struct dims *dims = &dev->config.dims;
    struct attend_shape shape = {dims->heads, dims->kv_heads, dims->head_dim, batch->blocks_max};

    return shape;
}

static inline struct attend_batch attend_batch_of(const struct batch *batch)
{
    struct attend_batch of = {batch->block_table, batch->sequence, batch->now};

    return of;
}

/* Where a key (or value) of a head lies in [block][K][16][d]. */
DEVICE int64_t kv_at(const struct attend_shape &shape, const struct attend_batch &batch, int table, int kv_head, int key)
{
    int64_t block = batch.block_table[(int64_t)table * shape.blocks_max + key / KV_BLOCK_TOKENS];

    return ((block * shape.kv_heads + kv_head) * KV_BLOCK_TOKENS + key % KV_BLOCK_TOKENS) * shape.head_dim;
}

/* The index-th tile of ROWS rows, counted over all sequences of at least `least` rows. */
template <int ROWS> DEVICE bool attend_find(const struct attend_batch &batch, int index, int least, struct sequence *ret_sequence, int *ret_row0)
{
    for (int i = 0; i < batch.now->sequences; i++) {
        struct sequence sequence = batch.sequence[i];
        int tiles = sequence.rows >= least ? (sequence.rows + ROWS - 1) / ROWS : 0;

        if (index < tiles) {
            *ret_sequence = sequence;
            *ret_row0 = index * ROWS;
            return true;
        }
        index -= tiles;
    }
    return false;
}

/* exp2(score - most), 0 for what is masked also where nothing was seen yet. */
DEVICE float weight_of(float score, float most)
{
    return score == -INFINITY ? 0.0f : exp2f(score - most);
}

/* The larger of four neighbouring lanes: they hold a row of a result of m16n8k16. */
DEVICE float row_max(float value)
{
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

DEVICE float row_sum(float value)
{
    value += __shfl_xor_sync(0xffffffffu, value, 1);
    return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

/* A warp's online softmax over 16 queries: lane i holds rows i / 4 and i / 4 + 8. */
template <int D> struct attend_state {
    float o[D / 8][4];
    float most[2], sum[2];
};

template <int D> DEVICE void attend_begin(attend_state<D> &state)
{
    UNROLL
    for (int i = 0; i < D / 8; i++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            state.o[i][j] = 0;
    }
    UNROLL
    for (int i = 0; i < 2; i++) {
        state.most[i] = -INFINITY;
        state.sum[i] = 0;
    }
}

/* 16 x KEYS scores, already scaled by log2(e)/sqrt(d) and masked with -inf, become weights; then o += weights V, V
 * [KEYS][D] in shared memory. The sum is of the weights as they are multiplied, in bf16. */
template <int D, int KEYS, int STRIDE>
DEVICE void attend_step(attend_state<D> &state, float (&s)[KEYS / 8][4], const uint16_t (*v)[STRIDE])
{
    UNROLL
    for (int half = 0; half < 2; half++) {
        float most = -INFINITY, sum = 0, shrink;

        UNROLL
        for (int i = 0; i < KEYS / 8; i++)
            most = fmaxf(most, fmaxf(s[i][half * 2], s[i][half * 2 + 1]));
        most = fmaxf(state.most[half], row_max(most));
        shrink = weight_of(state.most[half], most);
        UNROLL
        for (int i = 0; i < KEYS / 8; i++) {
            uint32_t pair = bf16_pair(weight_of(s[i][half * 2], most), weight_of(s[i][half * 2 + 1], most));

            s[i][half * 2] = __uint_as_float(pair);
            sum += bf16_float(pair & 0xffff) + bf16_float(pair >> 16);
        }
        state.most[half] = most;
        state.sum[half] = state.sum[half] * shrink + row_sum(sum);
        UNROLL
        for (int i = 0; i < D / 8; i++) {
            state.o[i][half * 2] *= shrink;
            state.o[i][half * 2 + 1] *= shrink;
        }
    }
    UNROLL
    for (int key = 0; key < KEYS; key += 16) {
        uint32_t weights[4] = {__float_as_uint(s[key / 8][0]), __float_as_uint(s[key / 8][2]), __float_as_uint(s[key / 8 + 1][0]),
                               __float_as_uint(s[key / 8 + 1][2])};

        UNROLL
        for (int column = 0; column < D; column += 16) {
            uint32_t right[4];

            right_load_trans<STRIDE>(right, v, key, column);
            mma_bf16(state.o[column / 8], weights, right[0], right[1]);
            mma_bf16(state.o[column / 8 + 1], weights, right[2], right[3]);
        }
    }
}

/* s = q K^T for 16 queries whose factors lie in registers, K [KEYS][D] in shared memory. */
template <int D, int KEYS, int STRIDE>
DEVICE void attend_scores(float (&s)[KEYS / 8][4], const uint32_t (&q)[D / 16][4], const uint16_t (*k)[STRIDE])
{
    UNROLL
    for (int i = 0; i < KEYS / 8; i++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            s[i][j] = 0;
    }
    UNROLL
    for (int column = 0; column < D; column += 16) {
        UNROLL
        for (int key = 0; key < KEYS; key += 16) {
            uint32_t right[4];

            right_load<STRIDE>(right, k, key, column);
            mma_bf16(s[key / 8], q[column / 16], right[0], right[2]);
            mma_bf16(s[key / 8 + 1], q[column / 16], right[1], right[3]);
        }
    }
}

#endif
