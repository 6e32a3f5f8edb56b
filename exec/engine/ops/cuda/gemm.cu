/* Our own GEMM for bf16: y f32 = x W^T + bias, blocks of 64 rows by 64 columns, k in steps of 64 through three buffers
 * of cp.async, m16n8k16. One shape for every number of rows, and no cut of k: a row's bits depend on the row and on W. */
#include "engine/ops/cuda/tile.h"
#include "engine/ops/cuda/cuda_ops.h"

#define GEMM_ROWS 64
#define GEMM_COLUMNS 64
#define GEMM_STAGES 3
#define GEMM_THREADS 128

struct gemm_shared {
    tile_row x[GEMM_STAGES][GEMM_ROWS];
    tile_row w[GEMM_STAGES][GEMM_COLUMNS];
};

/* y f32 [T][width], out columns of it; x bf16 [T][in]; w bf16 [out][stride], zero from in to stride; bias [out] or NULL */
KERNEL __launch_bounds__(GEMM_THREADS, 3)
gemm(float *y, int64_t width, const uint16_t *x, const uint16_t *w, const void *bias, enum dtype dtype, int out, int in, int64_t stride,
     const int32_t *rows_now)
{
    DYNAMIC_SHARED(struct gemm_shared, shared);
    int row0 = (int)blockIdx.y * GEMM_ROWS, column0 = (int)blockIdx.x * GEMM_COLUMNS;
    int rows = min(*rows_now - row0, GEMM_ROWS), columns = min(out - column0, GEMM_COLUMNS);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
    int steps = (in + TILE_K - 1) / TILE_K;
    bool aligned = in % 8 == 0;
    float c[2][4][4] = {};

    if (rows <= 0)
        return;
    x += (int64_t)row0 * in;
    w += column0 * stride;
    for (int step = 0; step < GEMM_STAGES - 1; step++) {
        if (step < steps) {
            tile_load<GEMM_ROWS, GEMM_THREADS>(shared->x[step], x, in, rows, step * TILE_K, in, aligned);
            tile_load<GEMM_COLUMNS, GEMM_THREADS>(shared->w[step], w, stride, columns, step * TILE_K, in, true);
        }
        cp_async_commit();
    }
    for (int step = 0; step < steps; step++) {
        int ahead = step + GEMM_STAGES - 1, stage = step % GEMM_STAGES;

        cp_async_wait<GEMM_STAGES - 2>();
        /* This stage has come for everyone, and everyone is done with the one before, which is filled next. */
        __syncthreads();
        if (ahead < steps) {
            tile_load<GEMM_ROWS, GEMM_THREADS>(shared->x[ahead % GEMM_STAGES], x, in, rows, ahead * TILE_K, in, aligned);
            tile_load<GEMM_COLUMNS, GEMM_THREADS>(shared->w[ahead % GEMM_STAGES], w, stride, columns, ahead * TILE_K, in, true);
        }
        cp_async_commit();
        UNROLL
        for (int k = 0; k < TILE_K; k += 16) {
            uint32_t a[2][4], b[2][4];

            UNROLL
            for (int i = 0; i < 2; i++) {
                left_load<TILE_STRIDE>(a[i], shared->x[stage], warp_row + i * 16, k);
                right_load<TILE_STRIDE>(b[i], shared->w[stage], warp_column + i * 16, k);
            }
            UNROLL
            for (int i = 0; i < 2; i++) {
                UNROLL
                for (int j = 0; j < 4; j++)
                    mma_bf16(c[i][j], a[i], b[j / 2][j % 2], b[j / 2][j % 2 + 2]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < 2; i++) {
        UNROLL
        for (int j = 0; j < 4; j++) {
            UNROLL
            for (int part = 0; part < 4; part++) {
                int row = warp_row + i * 16 + lane / 4 + part / 2 * 8;
                int column = warp_column + j * 8 + lane % 4 * 2 + part % 2;

                if (row < rows && column < columns)
                    y[(int64_t)(row0 + row) * width + column0 + column] =
                        c[i][j][part] + (bias != NULL ? load_number(dtype, bias, column0 + column) : 0.0f);
            }
        }
    }
}

void cuda_gemm_setup(void)
{
    MUST(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(struct gemm_shared)));
}

void cuda_gemm(struct dev *dev, float *y, int64_t width, const act *x, const struct weight *w, const int32_t *rows_now, int rows_max)
{
    dim3 grid((unsigned)div_up(w->out, GEMM_COLUMNS), (unsigned)div_up(rows_max, GEMM_ROWS));

    LAUNCH(gemm, grid, dim3(GEMM_THREADS), sizeof(struct gemm_shared), dev->lane[LANE_COMPUTE], y, width, (const uint16_t *)x,
           (const uint16_t *)w->data, w->bias, w->dtype, w->out, w->in, (int64_t)w->stride, rows_now);
}
