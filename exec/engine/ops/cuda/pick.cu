/* Log-sum-exp and the largest logits of a row: a block a row. The largest are found by their bits: a float's bits,
 * turned so that order is the order of integers, are narrowed down eight at a time by counting; what is above the
 * threshold is taken, of those equal to it the lowest ids, and a bitonic network sorts. Counting is of integers and the
 * sort's order is total, so the answer has no choice. */
#include "engine/ops/cuda/cuda_ops.h"

#define PICK_THREADS 512
#define PICK_WARPS (PICK_THREADS / 32)

struct pick_shared {
    float part[PICK_WARPS];
    int count[256];
    int warp_count[PICK_WARPS];
    uint32_t key[PICK_MAX];
    int32_t id[PICK_MAX];
    uint32_t prefix;      /* of the threshold, the bits found so far */
    int above, taken;     /* surely among the best; written to key and id */
};

/* Falls and rises as the float does; -0 is 0, and a NaN is -infinity. */
DEVICE uint32_t order_key(float value)
{
    uint32_t bits = __float_as_uint(value == value ? value + 0.0f : -INFINITY);

    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

DEVICE float key_order(uint32_t key)
{
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* One round: of the numbers that begin with the prefix, which next eight bits has the one that is `best`-th of all? */
DEVICE void narrow(struct pick_shared *shared, const float *logits, int vocabulary, int best, int shift)
{
    int thread = (int)threadIdx.x;
    uint32_t prefix;

    for (int i = thread; i < 256; i += PICK_THREADS)
        shared->count[i] = 0;
    __syncthreads();
    prefix = shared->prefix;
    for (int i = thread; i < vocabulary; i += PICK_THREADS) {
        uint32_t key = order_key(logits[i]);

        if (shift == 24 || key >> (shift + 8) == prefix >> (shift + 8))
            atomicAdd(&shared->count[key >> shift & 255], 1);
    }
    __syncthreads();
    if (thread == 0) {
        int digit = 255, above = shared->above;

        while (digit > 0 && above + shared->count[digit] < best)
            above += shared->count[digit--];
        shared->above = above;
        shared->prefix = prefix | (uint32_t)digit << shift;
    }
    __syncthreads();
}

/* Those above the threshold, in any order, then the first ids of those at it. */
DEVICE void collect(struct pick_shared *shared, const float *logits, int vocabulary, int best)
{
    int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32, taken = shared->above;
    uint32_t threshold = shared->prefix;

    for (int i = thread; i < vocabulary; i += PICK_THREADS) {
        uint32_t key = order_key(logits[i]);

        if (key > threshold) {
            int at = atomicAdd(&shared->taken, 1);

            shared->key[at] = key;
            shared->id[at] = i;
        }
    }
    for (int start = 0; start < vocabulary && taken < best; start += PICK_THREADS) {
        int id = start + thread, before = taken;
        bool equal = id < vocabulary && order_key(logits[id]) == threshold;
        uint32_t lanes = __ballot_sync(0xffffffffu, equal);

        if (lane == 0)
            shared->warp_count[warp] = __popc(lanes);
        __syncthreads();
        for (int i = 0; i < PICK_WARPS; i++) {
            before += i < warp ? shared->warp_count[i] : 0;
            taken += shared->warp_count[i];
        }
        before += __popc(lanes & ((1u << lane) - 1));
        if (equal && before < best) {
            shared->key[before] = threshold;
            shared->id[before] = id;
        }
        __syncthreads();
    }
    __syncthreads();
}

DEVICE void sort_best(struct pick_shared *shared, int best)
{
    int i = (int)threadIdx.x;

    /* Filler goes last: smaller than every number, ids above all. */
    if (i < PICK_MAX && i >= best) {
        shared->key[i] = 0;
        shared->id[i] = INT32_MAX;
    }
    for (int size = 2; size <= PICK_MAX; size *= 2) {
        for (int step = size / 2; step > 0; step /= 2) {
            int other = i ^ step;

            __syncthreads();
            if (i < PICK_MAX && other > i) {
                uint32_t key = shared->key[i], other_key = shared->key[other];
                int32_t id = shared->id[i], other_id = shared->id[other];
                bool ahead = key > other_key || (key == other_key && id < other_id);

                if (ahead == ((i & size) != 0)) {
                    shared->key[i] = other_key;
                    shared->id[i] = other_id;
                    shared->key[other] = key;
                    shared->id[other] = id;
                }
            }
        }
    }
    __syncthreads();
}

/* lse f32 [outputs], logit f32 and id [outputs][best], logits f32 [outputs][V] */
KERNEL __launch_bounds__(PICK_THREADS)
pick(float *ret_lse, float *ret_logit, int32_t *ret_id, const float *logits, int vocabulary, int best, const struct counts *now)
{
    DYNAMIC_SHARED(struct pick_shared, shared);
    int thread = (int)threadIdx.x, row = (int)blockIdx.x;
    const float *own = logits + (int64_t)row * vocabulary;
    float most = -INFINITY, sum = 0;

    if (row >= now->outputs)
        return;
    for (int i = thread; i < vocabulary; i += PICK_THREADS)
        most = fmaxf(most, own[i]);
    most = block_reduce<PICK_THREADS, false>(shared->part, most);
    for (int i = thread; i < vocabulary; i += PICK_THREADS)
        sum += expf(own[i] - most);
    sum = block_reduce<PICK_THREADS, true>(shared->part, sum);
    if (thread == 0) {
        ret_lse[row] = most + logf(sum);
        shared->prefix = 0;
        shared->above = 0;
        shared->taken = 0;
    }
    for (int shift = 24; shift >= 0; shift -= 8)
        narrow(shared, own, vocabulary, best, shift);
    collect(shared, own, vocabulary, best);
    sort_best(shared, best);
    if (thread < best) {
        ret_logit[(int64_t)row * best + thread] = key_order(shared->key[thread]);
        ret_id[(int64_t)row * best + thread] = shared->id[thread];
    }
}

void cuda_pick(struct dev *dev, float *ret_lse, float *ret_logit, int32_t *ret_id, const float *logits, int best, const struct batch *batch)
{
    int vocabulary = dev->config.dims.vocabulary;

    check(best >= 1 && best <= PICK_MAX && best <= vocabulary);
    if (batch->max.outputs == 0)
        return;
    LAUNCH(pick, dim3((unsigned)batch->max.outputs), dim3(PICK_THREADS), sizeof(struct pick_shared), dev->lane[LANE_COMPUTE], ret_lse,
           ret_logit, ret_id, logits, vocabulary, best, batch->now);
}
