/* Our own GEMM: y f32 = x W^T + bias. One shape of block for every number of rows, and no cut of k. */
#include "engine/ops/cuda/product.h"

/* y f32 [T][width], out columns of it; x act [T][in]; w [out][stride]; bias [out] or NULL */
template <class T> KERNEL __launch_bounds__(block_sums<T>::THREADS, block_sums<T>::BLOCKS)
gemm(float *y, int64_t width, const T *x, const void *w, const void *bias, enum dtype dtype, int out, int in, int64_t stride,
     const int32_t *rows_now)
{
    DYNAMIC_SHARED(struct block_shared<T>, shared);
    int row0 = (int)blockIdx.y * PRODUCT_TILE, column0 = (int)blockIdx.x * PRODUCT_TILE, rows = *rows_now - row0, columns = out - column0;
    struct block_sums<T> sums = {};

    if (rows <= 0)
        return;
    struct factor left = factor_of(x + (int64_t)row0 * in, in, rows);
    struct factor right = {number_at(dtype, w, column0 * stride), stride, min(columns, PRODUCT_TILE), dtype};

    block_add<PRODUCT_FORWARD>(sums, shared, left, right, 0, in, 1);
    UNROLL
    for (int i = 0; i < sums.NUMBERS; i++) {
        int row = block_row(sums, i), column = block_column(sums, i);

        if (row < rows && column < columns)
            y[(int64_t)(row0 + row) * width + column0 + column] =
                sums.c[i / 4][i % 4] + (bias != NULL ? load_number(dtype, bias, column0 + column) : 0.0f);
    }
}

void cuda_gemm_setup(void)
{
    MUST(cudaFuncSetAttribute(gemm<uint16_t>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(struct block_shared<uint16_t>)));
}

void cuda_gemm(struct dev *dev, float *y, int64_t width, const act *x, const struct weight *w, const int32_t *rows_now, int rows_max)
{
    dim3 grid((unsigned)div_up(w->out, PRODUCT_TILE), (unsigned)div_up(rows_max, PRODUCT_TILE));
    cudaStream_t compute = dev->lane[LANE_COMPUTE];

    if (is_fast(dev))
        LAUNCH(gemm<uint16_t>, grid, dim3(block_sums<uint16_t>::THREADS), sizeof(struct block_shared<uint16_t>), compute, y, width,
               (const uint16_t *)x, w->data, w->bias, w->dtype, w->out, w->in, (int64_t)w->stride, rows_now);
    else
        LAUNCH(gemm<float>, grid, dim3(block_sums<float>::THREADS), sizeof(struct block_shared<float>), compute, y, width, (const float *)x,
               w->data, w->bias, w->dtype, w->out, w->in, (int64_t)w->stride, rows_now);
}
