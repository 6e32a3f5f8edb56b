/* The GEMM of exact mode: floats, weights widened as they are read, blocks of 64 x 64, every sum one fused chain over
 * k. */
#include "engine/ops/cuda/cuda_ops.h"

#define EXACT_TILE 64
#define EXACT_K 16
#define EXACT_THREADS 256

struct exact_shared { float x[EXACT_K][EXACT_TILE + 1], w[EXACT_K][EXACT_TILE + 1]; };

/* y f32 [T][width], out columns of it; x f32 [T][in]; w [out][stride]; bias [out] or NULL */
KERNEL __launch_bounds__(EXACT_THREADS)
gemm_exact(float *y, int64_t width, const float *x, const void *w, const void *bias, enum dtype dtype, int out, int in, int64_t stride,
           const int32_t *rows_now)
{
    DYNAMIC_SHARED(struct exact_shared, shared);
    int row0 = (int)blockIdx.y * EXACT_TILE, column0 = (int)blockIdx.x * EXACT_TILE, rows = *rows_now;
    int thread = (int)threadIdx.x, down = thread / 16, across = thread % 16;
    float c[4][4] = {};

    if (row0 >= rows)
        return;
    for (int k0 = 0; k0 < in; k0 += EXACT_K) {
        for (int i = thread; i < EXACT_TILE * EXACT_K; i += EXACT_THREADS) {
            int row = i / EXACT_K, k = i % EXACT_K;
            bool inside = k0 + k < in;

            shared->x[k][row] = inside && row0 + row < rows ? x[(int64_t)(row0 + row) * in + k0 + k] : 0.0f;
            shared->w[k][row] = inside && column0 + row < out ? load_number(dtype, w, (column0 + row) * stride + k0 + k) : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < EXACT_K; k++) {
            for (int i = 0; i < 4; i++) {
                for (int j = 0; j < 4; j++)
                    c[i][j] = fmaf(shared->x[k][down + i * 16], shared->w[k][across + j * 16], c[i][j]);
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            int row = row0 + down + i * 16, column = column0 + across + j * 16;

            if (row < rows && column < out)
                y[row * width + column] = c[i][j] + (bias != NULL ? load_number(dtype, bias, column) : 0.0f);
        }
    }
}

void cuda_gemm_exact(struct dev *dev, float *y, int64_t width, const act *x, const struct weight *w, const int32_t *rows_now, int rows_max)
{
    dim3 grid((unsigned)div_up(w->out, EXACT_TILE), (unsigned)div_up(rows_max, EXACT_TILE));

    LAUNCH(gemm_exact, grid, dim3(EXACT_THREADS), sizeof(struct exact_shared), dev->lane[LANE_COMPUTE], y, width, (const float *)x, w->data,
           w->bias, w->dtype, w->out, w->in, (int64_t)w->stride, rows_now);
}
