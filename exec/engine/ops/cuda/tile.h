/* Tiles of bf16 in shared memory, 64 numbers of k a row, padded so that the eight rows of an ldmatrix lie in eight
 * different groups of banks; and the registers of m16n8k16 from them. */
#ifndef CUDA_TILE_H
#define CUDA_TILE_H

#include "engine/ops/cuda/cuda_prims.h"

#define TILE_K 64
#define TILE_STRIDE 72
typedef uint16_t tile_row[TILE_STRIDE];

/* Rows 0 .. rows-1 of `from`, k .. min(k + 64, k_end)-1 of each; the rest of the ROWS x 64 is zero. Complete after
 * cp_async_wait() and a barrier. `aligned`: every row begins at a multiple of 16 bytes. */
template <int ROWS, int THREADS>
DEVICE void tile_load(tile_row *tile, const uint16_t *from, int64_t stride, int rows, int k, int k_end, bool aligned)
{
    for (int i = (int)threadIdx.x; i < ROWS * (TILE_K / 8); i += THREADS) {
        int row = i / (TILE_K / 8), column = i % (TILE_K / 8) * 8;
        int count = row < rows ? max(min(k_end - k - column, 8), 0) : 0;
        const uint16_t *source = from + (count > 0 ? (int64_t)row * stride + k + column : 0);

        if (aligned) {
            cp_async16(&tile[row][column], source, count * 2);
        } else {
            for (int j = 0; j < 8; j++)
                tile[row][column + j] = j < count ? source[j] : (uint16_t)0;
        }
    }
}

/* The left factor: rows row .. row+15, k .. k+15. */
template <int STRIDE> DEVICE void left_load(uint32_t (&a)[4], const uint16_t (*tile)[STRIDE], int row, int k)
{
    int lane = (int)threadIdx.x % 32;

    ldmatrix_x4(a, &tile[row + lane % 16][k + lane / 16 * 8]);
}

/* The left factor from rows of k: rows row .. row+15, k .. k+15. */
template <int STRIDE> DEVICE void left_load_trans(uint32_t (&a)[4], const uint16_t (*tile)[STRIDE], int k, int row)
{
    int lane = (int)threadIdx.x % 32;

    ldmatrix_x4_trans(a, &tile[k + lane / 16 * 8 + lane % 8][row + lane / 8 % 2 * 8]);
}

/* The right factor from rows of n: columns n .. n+15, k .. k+15; columns n .. n+7 take b[0], b[2], the others b[1],
 * b[3]. */
template <int STRIDE> DEVICE void right_load(uint32_t (&b)[4], const uint16_t (*tile)[STRIDE], int n, int k)
{
    int lane = (int)threadIdx.x % 32;

    ldmatrix_x4(b, &tile[n + lane % 16][k + lane / 16 * 8]);
}

/* The right factor from rows of k: columns n .. n+15; columns n .. n+7 take b[0], b[1], the others b[2], b[3]. */
template <int STRIDE> DEVICE void right_load_trans(uint32_t (&b)[4], const uint16_t (*tile)[STRIDE], int k, int n)
{
    int lane = (int)threadIdx.x % 32;

    ldmatrix_x4_trans(b, &tile[k + lane % 16][n + lane / 16 * 8]);
}

#endif
