/* What every GEMM kernel is made of: one block's 64 x 64 results, in bf16 by m16n8k16 with k in steps of 64 through three buffers of
 * cp.async, or in float by one fused chain over k. Factors are read as they lie, turned over on their way to the registers. No cut of k
 * but the one that is asked for: a result's bits depend on its row and its column. */
#ifndef CUDA_PRODUCT_H
#define CUDA_PRODUCT_H

#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/tile.h"

#define PRODUCT_TILE 64
#define PRODUCT_STAGES 3
#define EXACT_K 16

/* How the factors lie: a "row" holds successive k of one row (left) or column (right) of the result, a "turned" one successive rows or
 * columns at one k. */
enum product {
    PRODUCT_FORWARD,    /* x W^T: both in rows */
    PRODUCT_BACK,       /* dy W: the right one turned */
    PRODUCT_GRADIENT    /* dy^T x: both turned; k is rows, and each TRAIN_ROWS of them are summed on their own, then added */
};

/* What a block sees of a factor; number i at k is data[i * stride + k], turned: data[k * stride + i]. */
struct factor {
    const void *data;
    int64_t stride;
    int32_t count;       /* of i, 1 .. 64; the rest counts as zeros and is not read */
    enum dtype dtype;    /* bf16, where the block is */
};

DEVICE const void *number_at(enum dtype dtype, const void *data, int64_t at)
{
    return static_cast<const char *>(data) + at * (dtype == DTYPE_F32 ? 4 : 2);
}

DEVICE enum dtype dtype_of(const float *) { return DTYPE_F32; }
DEVICE enum dtype dtype_of(const uint16_t *) { return DTYPE_BF16; }

/* A part of an activation [..][stride]. */
template <class T> DEVICE struct factor factor_of(const T *data, int64_t stride, int count)
{
    return {data, stride, min(count, PRODUCT_TILE), dtype_of(data)};
}

/* One thread's part of the results: number i is at row block_row(i), column block_column(i), value c[i / 4][i % 4]. */
template <class T> struct block_sums;
template <class T> struct block_shared;

/* --- bf16 --------------------------------------------------------------------------------------------------------- */
template <> struct block_sums<uint16_t> {
    static constexpr int THREADS = 128, BLOCKS = 3, NUMBERS = 32;
    float c[8][4];
};

template <> struct block_shared<uint16_t> {
    tile_row left[PRODUCT_STAGES][PRODUCT_TILE];
    tile_row right[PRODUCT_STAGES][PRODUCT_TILE];
};

/* A warp has 32 rows and 32 columns. */
DEVICE int block_row(const struct block_sums<uint16_t> &, int i)
{
    return (int)threadIdx.x / 64 * 32 + i / 16 * 16 + (int)threadIdx.x % 32 / 4 + i % 4 / 2 * 8;
}

DEVICE int block_column(const struct block_sums<uint16_t> &, int i)
{
    return (int)threadIdx.x / 32 % 2 * 32 + i / 4 % 4 * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
}

template <bool TURNED> DEVICE void block_fetch(tile_row *tile, const struct factor &factor, int k, int k_end)
{
    const uint16_t *data = static_cast<const uint16_t *>(factor.data);
    bool aligned = (((uintptr_t)data | (uintptr_t)factor.stride * 2) & 15) == 0;

    if (TURNED)
        tile_load<PRODUCT_TILE, block_sums<uint16_t>::THREADS>(tile, data + k * factor.stride, factor.stride, k_end - k, 0, factor.count, aligned);
    else
        tile_load<PRODUCT_TILE, block_sums<uint16_t>::THREADS>(tile, data, factor.stride, factor.count, k, k_end, aligned);
}

/* 64 of k. */
template <enum product HOW> DEVICE void block_step(struct block_sums<uint16_t> &sums, const tile_row *left, const tile_row *right)
{
    const bool turned = HOW != PRODUCT_FORWARD;
    int row = (int)threadIdx.x / 64 * 32, column = (int)threadIdx.x / 32 % 2 * 32;

    UNROLL
    for (int k = 0; k < TILE_K; k += 16) {
        uint32_t a[2][4], b[2][4];

        UNROLL
        for (int i = 0; i < 2; i++) {
            if (HOW == PRODUCT_GRADIENT)
                left_load_trans<TILE_STRIDE>(a[i], left, k, row + i * 16);
            else
                left_load<TILE_STRIDE>(a[i], left, row + i * 16, k);
            if (turned)
                right_load_trans<TILE_STRIDE>(b[i], right, k, column + i * 16);
            else
                right_load<TILE_STRIDE>(b[i], right, column + i * 16, k);
        }
        UNROLL
        for (int i = 0; i < 2; i++) {
            UNROLL
            for (int j = 0; j < 4; j++)
                mma_bf16(sums.c[i * 4 + j], a[i], b[j / 2][turned ? j % 2 * 2 : j % 2], b[j / 2][turned ? j % 2 * 2 + 1 : j % 2 + 2]);
        }
    }
}

/* sums += left right over k .. k_end-1; gradients: += scale times each piece. */
template <enum product HOW> DEVICE void block_add(struct block_sums<uint16_t> &sums, struct block_shared<uint16_t> *shared, const struct factor &left,
                                                  const struct factor &right, int k, int k_end, float scale)
{
    const bool left_turned = HOW == PRODUCT_GRADIENT, right_turned = HOW != PRODUCT_FORWARD;
    int steps = (k_end - k + TILE_K - 1) / TILE_K;
    bool busy = (int)threadIdx.x / 64 * 32 < left.count && (int)threadIdx.x / 32 % 2 * 32 < right.count;

    static_assert(TILE_K == TRAIN_ROWS, "a step of a gradient is a piece of rows");
    /* Of a product before this one somebody may still read. */
    __syncthreads();
    for (int step = 0; step < PRODUCT_STAGES - 1; step++) {
        if (step < steps) {
            block_fetch<left_turned>(shared->left[step], left, k + step * TILE_K, k_end);
            block_fetch<right_turned>(shared->right[step], right, k + step * TILE_K, k_end);
        }
        cp_async_commit();
    }
    for (int step = 0; step < steps; step++) {
        int ahead = step + PRODUCT_STAGES - 1, stage = step % PRODUCT_STAGES;

        cp_async_wait<PRODUCT_STAGES - 2>();
        /* This stage has come for everyone, and everyone is done with the one before, which is filled next. */
        __syncthreads();
        if (ahead < steps) {
            block_fetch<left_turned>(shared->left[ahead % PRODUCT_STAGES], left, k + ahead * TILE_K, k_end);
            block_fetch<right_turned>(shared->right[ahead % PRODUCT_STAGES], right, k + ahead * TILE_K, k_end);
        }
        cp_async_commit();
        if (!busy)
            continue;
        if (HOW == PRODUCT_GRADIENT) {
            struct block_sums<uint16_t> piece = {};

            block_step<HOW>(piece, shared->left[stage], shared->right[stage]);
            UNROLL
            for (int i = 0; i < sums.NUMBERS; i++)
                sums.c[i / 4][i % 4] = fmaf(scale, piece.c[i / 4][i % 4], sums.c[i / 4][i % 4]);
        } else {
            block_step<HOW>(sums, shared->left[stage], shared->right[stage]);
        }
    }
}

/* --- float -------------------------------------------------------------------------------------------------------- */
template <> struct block_sums<float> {
    static constexpr int THREADS = 256, BLOCKS = 3, NUMBERS = 16;
    float c[4][4];
};

template <> struct block_shared<float> { float left[EXACT_K][PRODUCT_TILE + 1], right[EXACT_K][PRODUCT_TILE + 1]; };

DEVICE int block_row(const struct block_sums<float> &, int i)
{
    return (int)threadIdx.x / 16 + i / 4 * 16;
}

DEVICE int block_column(const struct block_sums<float> &, int i)
{
    return (int)threadIdx.x % 16 + i % 4 * 16;
}

template <bool TURNED> DEVICE void block_fetch(float (*to)[PRODUCT_TILE + 1], const struct factor &factor, int k, int k_end)
{
    for (int i = (int)threadIdx.x; i < PRODUCT_TILE * EXACT_K; i += block_sums<float>::THREADS) {
        int at = TURNED ? i % PRODUCT_TILE : i / EXACT_K, own = TURNED ? i / PRODUCT_TILE : i % EXACT_K;
        bool inside = at < factor.count && k + own < k_end;

        to[own][at] = inside ? load_number(factor.dtype, factor.data, TURNED ? (k + own) * factor.stride + at : at * factor.stride + k + own)
                             : 0.0f;
    }
}

template <enum product HOW> DEVICE void block_add(struct block_sums<float> &sums, struct block_shared<float> *shared, const struct factor &left,
                                                  const struct factor &right, int k, int k_end, float scale)
{
    const int length = HOW == PRODUCT_GRADIENT ? TRAIN_ROWS : INT32_MAX;
    int row = block_row(sums, 0), column = block_column(sums, 0);
    bool busy = row < left.count && column < right.count;

    while (k < k_end) {
        int piece_end = k_end - k < length ? k_end : k + length;
        struct block_sums<float> piece = {};

        if (HOW != PRODUCT_GRADIENT)
            piece = sums;
        for (; k < piece_end; k += EXACT_K) {
            block_fetch<HOW == PRODUCT_GRADIENT>(shared->left, left, k, piece_end);
            block_fetch<HOW != PRODUCT_FORWARD>(shared->right, right, k, piece_end);
            __syncthreads();
            for (int own = 0; own < EXACT_K && busy; own++) {
                for (int i = 0; i < sums.NUMBERS; i++)
                    piece.c[i / 4][i % 4] = fmaf(shared->left[own][row + i / 4 * 16], shared->right[own][column + i % 4 * 16],
                                                 piece.c[i / 4][i % 4]);
            }
            __syncthreads();
        }
        for (int i = 0; i < sums.NUMBERS; i++)
            sums.c[i / 4][i % 4] = HOW == PRODUCT_GRADIENT ? fmaf(scale, piece.c[i / 4][i % 4], sums.c[i / 4][i % 4]) : piece.c[i / 4][i % 4];
    }
}

#endif
