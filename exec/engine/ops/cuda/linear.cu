/* linear and head: the base by cuBLAS, or by our own GEMM when deterministic or exact; an adapter's first half runs
 * beside the base, since it needs only x, its second half after both. */
#include "engine/device/cuda/ranks.h"
#include "engine/ops/cuda/cuda_ops.h"

#define LINEAR_THREADS 256

/* y f32 [T][width], out columns of it, = bias [out] */
KERNEL __launch_bounds__(LINEAR_THREADS)
fill_bias(float *y, int64_t width, const void *bias, enum dtype dtype, int out, const int32_t *rows_now)
{
    int column = (int)(blockIdx.y * LINEAR_THREADS + threadIdx.x);

    if ((int)blockIdx.x < *rows_now && column < out)
        y[blockIdx.x * width + column] = load_number(dtype, bias, column);
}

/* to act [outputs][width] = x[out_row] */
template <class T> KERNEL __launch_bounds__(LINEAR_THREADS)
gather(T *to, const T *x, int width, const int32_t *out_row, const struct counts *now)
{
    int column = (int)(blockIdx.y * LINEAR_THREADS + threadIdx.x);

    if ((int)blockIdx.x < now->outputs && column < width)
        to[(int64_t)blockIdx.x * width + column] = x[(int64_t)out_row[blockIdx.x] * width + column];
}

/* Rows beyond *rows_now are computed too, from whatever lies there: their results are nobody's. */
static void blas_gemm(struct dev *dev, float *y, int64_t width, const act *x, const struct weight *w, const int32_t *rows_now, int rows_max)
{
    const float one = 1, keep = w->bias != NULL ? 1 : 0;

    if (w->bias != NULL)
        LAUNCH(fill_bias, dim3((unsigned)rows_max, (unsigned)div_up(w->out, LINEAR_THREADS)), dim3(LINEAR_THREADS), 0,
               dev->lane[LANE_COMPUTE], y, width, w->bias, w->dtype, w->out, rows_now);
    /* Column-major: y^T [out][T] = (W^T)^T [out][in] x^T [in][T]. */
    check(cublasGemmEx(dev->blas, CUBLAS_OP_T, CUBLAS_OP_N, w->out, rows_max, w->in, &one, w->data, CUDA_R_16BF, w->stride, x, CUDA_R_16BF,
                       w->in, &keep, y, CUDA_R_32F, (int)width, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
}

static void gemm(struct dev *dev, float *y, int64_t width, const act *x, const struct weight *w, const int32_t *rows_now, int rows_max)
{
    if (is_fast(dev) && !dev->config.deterministic)
        blas_gemm(dev, y, width, x, w, rows_now, rows_max);
    else
        cuda_gemm(dev, y, width, x, w, rows_now, rows_max);
}

/* Weights that stand one under the other are one weight. */
static bool adjoins(const struct weight *w, const struct weight *next)
{
    return (const char *)w->data + (int64_t)w->out * w->stride * (int64_t)dtype_bytes(w->dtype) == (const char *)next->data &&
           w->dtype == next->dtype && w->stride == next->stride && w->bias == NULL && next->bias == NULL;
}

void cuda_linear(struct dev *dev, float *y, const act *x, const struct weight *w, int n, const struct lora *lora, const struct batch *batch)
{
    int64_t width = 0, column = 0;
    bool has_lora = lora != NULL && batch->max.tiles > 0;
    cudaStream_t compute = dev->lane[LANE_COMPUTE];

    check(n >= 1 && n <= 3);
    if (batch->max.rows == 0)
        return;
    for (int i = 0; i < n; i++) {
        check(w[i].in == w[0].in);
        width += w[i].out;
    }
    if (has_lora) {
        MUST(cudaEventRecord(dev->fork, compute));
        MUST(cudaStreamWaitEvent(dev->side, dev->fork, 0));
        cuda_lora_shrink(dev, dev->side, x, lora, batch);
        MUST(cudaEventRecord(dev->join, dev->side));
    }
    for (int i = 0; i < n;) {
        struct weight joined = w[i++];

        for (; i < n && adjoins(&joined, &w[i]); i++)
            joined.out += w[i].out;
        gemm(dev, y + column, width, x, &joined, &batch->now->rows, batch->max.rows);
        column += joined.out;
    }
    if (has_lora) {
        MUST(cudaStreamWaitEvent(compute, dev->join, 0));
        cuda_lora_expand(dev, y, lora, batch);
    }
}

void cuda_gather_outputs(struct dev *dev, const act *x, int width, const struct batch *batch)
{
    dim3 grid((unsigned)batch->max.outputs, (unsigned)div_up(width, LINEAR_THREADS)), block(LINEAR_THREADS);
    cudaStream_t compute = dev->lane[LANE_COMPUTE];

    if (is_fast(dev))
        LAUNCH(gather<uint16_t>, grid, block, 0, compute, (uint16_t *)dev->gathered, (const uint16_t *)x, width, batch->out_row, batch->now);
    else
        LAUNCH(gather<float>, grid, block, 0, compute, (float *)dev->gathered, (const float *)x, width, batch->out_row, batch->now);
}

void cuda_head(struct dev *dev, float *logits, const act *x, const struct weight *w, const struct batch *batch)
{
    if (batch->max.outputs == 0)
        return;
    cuda_gather_outputs(dev, x, w->in, batch);
    gemm(dev, logits, w->out, dev->gathered, w, &batch->now->outputs, batch->max.outputs);
}

void cuda_all_reduce(struct dev *dev, float *x, int64_t n)
{
    if (dev->ranks != NULL)
        cuda_ranks_sum(dev, x, n);
}
