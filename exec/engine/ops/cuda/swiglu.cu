/* y = silu(gate) up, number by number. */
#include "engine/ops/cuda/cuda_ops.h"

#define SWIGLU_THREADS 256

/* y act [T][ffn], gate_up f32 [T][2 ffn] */
template <class T> KERNEL __launch_bounds__(SWIGLU_THREADS)
swiglu(T *y, const float *gate_up, int ffn, const struct counts *now)
{
    int row = (int)blockIdx.x, i = (int)(blockIdx.y * SWIGLU_THREADS + threadIdx.x);
    const float *from = gate_up + (int64_t)row * 2 * ffn;

    if (row >= now->rows || i >= ffn)
        return;
    act_store(&y[(int64_t)row * ffn + i], from[i] / (1.0f + expf(-from[i])) * from[ffn + i]);
}

void cuda_swiglu(struct dev *dev, act *y, const float *gate_up, const struct batch *batch)
{
    int ffn = dev->config.dims.ffn;
    dim3 grid((unsigned)batch->max.rows, (unsigned)div_up(ffn, SWIGLU_THREADS));

    if (batch->max.rows == 0)
        return;
    if (is_fast(dev))
        LAUNCH(swiglu<uint16_t>, grid, dim3(SWIGLU_THREADS), 0, dev->lane[LANE_COMPUTE], (uint16_t *)y, gate_up, ffn, batch->now);
    else
        LAUNCH(swiglu<float>, grid, dim3(SWIGLU_THREADS), 0, dev->lane[LANE_COMPUTE], (float *)y, gate_up, ffn, batch->now);
}
