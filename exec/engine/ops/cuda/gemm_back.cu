/* The GEMMs of the way back through weights, beside gemm.cu: dx = dy W with W as it lies, and dW += dy^T x. Sums over rows run in pieces
 * of TRAIN_ROWS from the first, so neither depends on how many rows a batch has room for. */
#include "engine/ops/cuda/product.h"

#define BIAS_THREADS 256

struct back_weights {
    const void *data[3];
    int64_t stride[3];
    int32_t out[3];
    enum dtype dtype[3];
    int32_t n;
};

/* dx f32 [..][in]: row t, or out_row[t] where that is not NULL, = the sum over i, in order, of dy_i [out_i] W_i [out_i][stride];
 * dy act [T][width], dy_i side by side */
template <class T> KERNEL __launch_bounds__(block_sums<T>::THREADS, block_sums<T>::BLOCKS)
back_base(float *dx, const T *dy, int64_t width, const __grid_constant__ struct back_weights weights, int in, const int32_t *out_row, const int32_t *rows_now)
{
    DYNAMIC_SHARED(struct block_shared<T>, shared);
    int row0 = (int)blockIdx.y * PRODUCT_TILE, column0 = (int)blockIdx.x * PRODUCT_TILE, rows = *rows_now - row0, columns = in - column0;
    struct block_sums<T> sums = {};

    if (rows <= 0)
        return;
    dy += row0 * width;
    for (int i = 0; i < weights.n; i++) {
        struct factor right = {number_at(weights.dtype[i], weights.data[i], column0), weights.stride[i], min(columns, PRODUCT_TILE),
                               weights.dtype[i]};

        block_add<PRODUCT_BACK>(sums, shared, factor_of(dy, width, rows), right, 0, weights.out[i], 1);
        dy += weights.out[i];
    }
    UNROLL
    for (int i = 0; i < sums.NUMBERS; i++) {
        int row = block_row(sums, i), column = block_column(sums, i);

        if (row < rows && column < columns)
            dx[(int64_t)(out_row != NULL ? out_row[row0 + row] : row0 + row) * in + column0 + column] = sums.c[i / 4][i % 4];
    }
}

/* dw f32 [out][in] += dy^T x; dy act [T][width], out columns of it, x act [T][in] */
template <class T> KERNEL __launch_bounds__(block_sums<T>::THREADS, block_sums<T>::BLOCKS)
grad_weight(float *dw, const T *dy, int64_t width, const T *x, int out, int in, const int32_t *rows_now)
{
    DYNAMIC_SHARED(struct block_shared<T>, shared);
    int out0 = (int)blockIdx.y * PRODUCT_TILE, column0 = (int)blockIdx.x * PRODUCT_TILE, outs = out - out0, columns = in - column0;
    struct block_sums<T> sums = {};

    dw += (int64_t)out0 * in + column0;
    UNROLL
    for (int i = 0; i < sums.NUMBERS; i++) {
        int row = block_row(sums, i), column = block_column(sums, i);

        sums.c[i / 4][i % 4] = row < outs && column < columns ? dw[(int64_t)row * in + column] : 0.0f;
    }
    block_add<PRODUCT_GRADIENT>(sums, shared, factor_of(dy + out0, width, outs), factor_of(x + column0, in, columns), 0, *rows_now, 1);
    UNROLL
    for (int i = 0; i < sums.NUMBERS; i++) {
        int row = block_row(sums, i), column = block_column(sums, i);

        if (row < outs && column < columns)
            dw[(int64_t)row * in + column] = sums.c[i / 4][i % 4];
    }
}

/* dbias f32 [out] += the sum of dy's rows */
template <class T> KERNEL __launch_bounds__(BIAS_THREADS)
grad_bias(float *dbias, const T *dy, int64_t width, int out, const int32_t *rows_now)
{
    int column = (int)(blockIdx.x * BIAS_THREADS + threadIdx.x), rows = *rows_now;
    float sum;

    if (column >= out)
        return;
    sum = dbias[column];
    for (int from = 0; from < rows; from += TRAIN_ROWS) {
        float piece = 0;

        for (int row = from; row < min(rows, from + TRAIN_ROWS); row++)
            piece += act_load(dy + row * width + column);
        sum += piece;
    }
    dbias[column] = sum;
}

/* --- launches ----------------------------------------------------------------------------------------------------- */
void cuda_gemm_back_setup(void)
{
    const int bytes = (int)sizeof(struct block_shared<uint16_t>);

    MUST(cudaFuncSetAttribute(back_base<uint16_t>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    MUST(cudaFuncSetAttribute(grad_weight<uint16_t>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

void cuda_back_base(struct dev *dev, float *dx, const act *dy, int64_t width, const struct weight *w, int n, const int32_t *out_row,
                    const int32_t *rows_now, int rows_max)
{
    dim3 grid((unsigned)div_up(w->in, PRODUCT_TILE), (unsigned)div_up(rows_max, PRODUCT_TILE));
    struct back_weights weights = {};

    for (; weights.n < n; weights.n++) {
        weights.data[weights.n] = w[weights.n].data;
        weights.stride[weights.n] = w[weights.n].stride;
        weights.out[weights.n] = w[weights.n].out;
        weights.dtype[weights.n] = w[weights.n].dtype;
    }
    if (is_fast(dev))
        LAUNCH(back_base<uint16_t>, grid, dim3(block_sums<uint16_t>::THREADS), sizeof(struct block_shared<uint16_t>),
               dev->lane[LANE_COMPUTE], dx, (const uint16_t *)dy, width, weights, w->in, out_row, rows_now);
    else
        LAUNCH(back_base<float>, grid, dim3(block_sums<float>::THREADS), sizeof(struct block_shared<float>), dev->lane[LANE_COMPUTE], dx,
               (const float *)dy, width, weights, w->in, out_row, rows_now);
}

void cuda_grad_weight(struct dev *dev, float *dw, const act *dy, int64_t width, const act *x, int out, int in, const int32_t *rows_now)
{
    dim3 grid((unsigned)div_up(in, PRODUCT_TILE), (unsigned)div_up(out, PRODUCT_TILE));

    if (is_fast(dev))
        LAUNCH(grad_weight<uint16_t>, grid, dim3(block_sums<uint16_t>::THREADS), sizeof(struct block_shared<uint16_t>),
               dev->lane[LANE_COMPUTE], dw, (const uint16_t *)dy, width, (const uint16_t *)x, out, in, rows_now);
    else
        LAUNCH(grad_weight<float>, grid, dim3(block_sums<float>::THREADS), sizeof(struct block_shared<float>), dev->lane[LANE_COMPUTE], dw,
               (const float *)dy, width, (const float *)x, out, in, rows_now);
}

void cuda_grad_bias(struct dev *dev, float *dbias, const act *dy, int64_t width, int out, const int32_t *rows_now)
{
    dim3 grid((unsigned)div_up(out, BIAS_THREADS)), block(BIAS_THREADS);

    if (is_fast(dev))
        LAUNCH(grad_bias<uint16_t>, grid, block, 0, dev->lane[LANE_COMPUTE], dbias, (const uint16_t *)dy, width, out, rows_now);
    else
        LAUNCH(grad_bias<float>, grid, block, 0, dev->lane[LANE_COMPUTE], dbias, (const float *)dy, width, out, rows_now);
}
