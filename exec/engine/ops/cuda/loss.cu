/* Cross-entropy of a row: a block a row, which reads its logits three times: for the largest, for its id and the sum of exp, and for the
 * gradient. Sums have one order for a vocabulary. */
#include "engine/ops/cuda/cuda_ops.h"

#define LOSS_THREADS 512

struct loss_shared {
    float part[LOSS_THREADS / 32];
    int least[LOSS_THREADS / 32];
};

/* The least of all threads' numbers, for the first one. */
DEVICE int block_least(int *least, int number)
{
    int thread = (int)threadIdx.x;

    for (int with = 16; with > 0; with /= 2)
        number = min(number, __shfl_xor_sync(0xffffffffu, number, with));
    if (thread % 32 == 0)
        least[thread / 32] = number;
    __syncthreads();
    for (int i = 0; thread == 0 && i < LOSS_THREADS / 32; i++)
        number = min(number, least[i]);
    return number;
}

/* logp f32 and best [outputs], dlogits act [outputs][V], logits f32 [outputs][V], target [outputs], coef f32 [outputs] or NULL */
template <class T> KERNEL __launch_bounds__(LOSS_THREADS)
loss(float *ret_logp, int32_t *ret_best, T *dlogits, const float *logits, const int32_t *target, const float *coef, int vocabulary,
     const struct counts *now)
{
    DYNAMIC_SHARED(struct loss_shared, shared);
    int thread = (int)threadIdx.x, row = (int)blockIdx.x, best = INT32_MAX;
    const float *own = logits + (int64_t)row * vocabulary;
    float most = -INFINITY, sum = 0;

    if (row >= now->outputs)
        return;
    for (int i = thread; i < vocabulary; i += LOSS_THREADS)
        most = fmaxf(most, own[i]);
    most = block_reduce<LOSS_THREADS, false>(shared->part, most);
    for (int i = thread; i < vocabulary; i += LOSS_THREADS) {
        float value = own[i];

        sum += expf(value - most);
        if ((value == value ? value : -INFINITY) == most)
            best = min(best, i);
    }
    best = block_least(shared->least, best);
    sum = block_reduce<LOSS_THREADS, true>(shared->part, sum);
    if (thread == 0) {
        ret_logp[row] = own[target[row]] - most - logf(sum);
        ret_best[row] = best;
    }
    if (coef == NULL)
        return;
    for (int i = thread; i < vocabulary; i += LOSS_THREADS)
        act_store(&dlogits[(int64_t)row * vocabulary + i], coef[row] * (expf(own[i] - most) / sum - (i == target[row] ? 1.0f : 0.0f)));
}

void cuda_loss(struct dev *dev, float *ret_logp, int32_t *ret_best, act *dlogits, const float *logits, const int32_t *target,
               const float *coef, const struct batch *batch)
{
    dim3 grid((unsigned)batch->max.outputs), block(LOSS_THREADS);
    size_t bytes = sizeof(struct loss_shared);
    int vocabulary = dev->config.dims.vocabulary;
    cudaStream_t stream = dev->lane[LANE_COMPUTE];

    if (batch->max.outputs == 0)
        return;
    if (is_fast(dev))
        LAUNCH(loss<uint16_t>, grid, block, bytes, stream, ret_logp, ret_best, (uint16_t *)dlogits, logits, target, coef, vocabulary,
               batch->now);
    else
        LAUNCH(loss<float>, grid, block, bytes, stream, ret_logp, ret_best, (float *)dlogits, logits, target, coef, vocabulary, batch->now);
}
