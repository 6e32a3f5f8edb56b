/* The way back of y = gate s(gate) up, s the logistic function: dgate = dy up s (1 + gate (1 - s)), dup = dy gate s; number by number. */
#include "engine/ops/cuda/cuda_ops.h"

#define SWIGLU_THREADS 256

/* dgate_up act [T][2 ffn], dy f32 [T][ffn], gate_up f32 [T][2 ffn] */
template <class T> KERNEL __launch_bounds__(SWIGLU_THREADS)
swiglu_back(T *dgate_up, const float *dy, const float *gate_up, int ffn, const struct counts *now)
{
    int row = (int)blockIdx.x, i = (int)(blockIdx.y * SWIGLU_THREADS + threadIdx.x);
    int64_t at = (int64_t)row * 2 * ffn + i;

    if (row >= now->rows || i >= ffn)
        return;

    float gate = gate_up[at], back = dy[(int64_t)row * ffn + i], s = 1.0f / (1.0f + expf(-gate));

    act_store(&dgate_up[at], back * gate_up[at + ffn] * (s * fmaf(gate, 1.0f - s, 1.0f)));
    act_store(&dgate_up[at + ffn], back * (gate * s));
}

void cuda_swiglu_back(struct dev *dev, act *dgate_up, const float *dy, const float *gate_up, const struct batch *batch)
{
    int ffn = dev->config.dims.ffn;
    dim3 grid((unsigned)batch->max.rows, (unsigned)div_up(ffn, SWIGLU_THREADS)), block(SWIGLU_THREADS);
    cudaStream_t stream = dev->lane[LANE_COMPUTE];

    if (batch->max.rows == 0)
        return;
    if (is_fast(dev))
        LAUNCH(swiglu_back<uint16_t>, grid, block, 0, stream, (uint16_t *)dgate_up, dy, gate_up, ffn, batch->now);
    else
        LAUNCH(swiglu_back<float>, grid, block, 0, stream, (float *)dgate_up, dy, gate_up, ffn, batch->now);
}
