/* Positions and attention by their definitions. */
#include "engine/ops/ref/ref.h"

#include <math.h>
#include <stdlib.h>

/* One head of q or k: normed when there is a gain, then turned. */
static void head_turn(enum mode mode, act *y, int64_t at, const float *x, const struct weight *gain, float eps, const float *angle,
                      int32_t d)
{
    double scale = 1;
    double squares = 0;

    if (gain->data != NULL) {
        for (int32_t i = 0; i < d; i++)
            squares += (double)x[i] * (double)x[i];
        scale = 1 / sqrt(squares / d + (double)eps);
    }
    for (int32_t i = 0; i < d / 2; i++) {
        double low = (double)x[i] * scale * (gain->data != NULL ? weight_load(gain, 0, i) : 1);
        double high = (double)x[i + d / 2] * scale * (gain->data != NULL ? weight_load(gain, 0, i + d / 2) : 1);
        double cosine = (double)angle[i];
        double sine = (double)angle[d / 2 + i];

        act_store(mode, y, at + i, low * cosine - high * sine);
        act_store(mode, y, at + i + d / 2, high * cosine + low * sine);
    }
}

void ref_rope_store(struct dev *dev, act *q, act *k, act *v, const float *qkv, const struct weight *q_gain, const struct weight *k_gain,
                    float eps, const float *angles, const struct batch *batch)
{
    const enum mode mode = dev->config.mode;
    const int32_t d = dev->config.dims.head_dim;
    const int32_t heads = dev->config.dims.heads;
    const int32_t kv_heads = dev->config.dims.kv_heads;

    for (int32_t s = 0; s < batch->now->sequences; s++) {
        const struct sequence *sequence = &batch->sequence[s];

        for (int32_t row = sequence->row; row < sequence->row + sequence->rows; row++) {
            const float *from = qkv + (int64_t)row * (heads + 2 * kv_heads) * d;
            const int32_t position = batch->position[row];
            const float *angle = angles + (int64_t)position * d;
            int64_t block = batch->block_table[(int64_t)sequence->table * batch->blocks_max + position / KV_BLOCK_TOKENS];

            for (int32_t h = 0; h < heads; h++)
                head_turn(mode, q, ((int64_t)row * heads + h) * d, from + (int64_t)h * d, q_gain, eps, angle, d);
            for (int32_t h = 0; h < kv_heads; h++) {
                int64_t at = ((block * kv_heads + h) * KV_BLOCK_TOKENS + position % KV_BLOCK_TOKENS) * d;

                head_turn(mode, k, at, from + (int64_t)(heads + h) * d, k_gain, eps, angle, d);
                for (int32_t i = 0; i < d; i++)
                    act_store(mode, v, at + i, (double)from[(int64_t)(heads + kv_heads + h) * d + i]);
            }
        }
    }
}

/* Where position `j` of a kv head begins. */
static int64_t key_at(const struct batch *batch, const struct sequence *sequence, const struct dims *dims, int32_t kv_head, int32_t j)
{
    int64_t block = batch->block_table[(int64_t)sequence->table * batch->blocks_max + j / KV_BLOCK_TOKENS];

    return ((block * dims->kv_heads + kv_head) * KV_BLOCK_TOKENS + j % KV_BLOCK_TOKENS) * dims->head_dim;
}

void ref_attend(struct dev *dev, act *y, const act *q, const act *k, const act *v, const struct batch *batch)
{
    const enum mode mode = dev->config.mode;
    const struct dims *dims = &dev->config.dims;
    const int32_t d = dims->head_dim;
    double *weight = malloc((size_t)dev->config.positions_max * sizeof(*weight));

    check(weight != NULL);
    for (int32_t s = 0; s < batch->now->sequences; s++) {
        const struct sequence *sequence = &batch->sequence[s];

        for (int32_t i = 0; i < sequence->rows * dims->heads; i++) {
            const int64_t at = ((int64_t)sequence->row * dims->heads + i) * d;
            const int32_t keys = sequence->before + i / dims->heads + 1;
            const int32_t kv_head = i % dims->heads / (dims->heads / dims->kv_heads);
            double largest = -INFINITY;
            double total = 0;

            check(keys <= dev->config.positions_max);
            for (int32_t j = 0; j < keys; j++) {
                int64_t key = key_at(batch, sequence, dims, kv_head, j);

                weight[j] = 0;
                for (int32_t c = 0; c < d; c++)
                    weight[j] += act_load(mode, q, at + c) * act_load(mode, k, key + c);
                weight[j] /= sqrt((double)d);
                largest = fmax(largest, weight[j]);
            }
            for (int32_t j = 0; j < keys; j++) {
                weight[j] = exp(weight[j] - largest);
                total += weight[j];
            }
            for (int32_t c = 0; c < d; c++) {
                double sum = 0;

                for (int32_t j = 0; j < keys; j++)
                    sum += weight[j] * act_load(mode, v, key_at(batch, sequence, dims, kv_head, j) + c);
                act_store(mode, y, at + c, sum / total);
            }
        }
    }
    free(weight);
}
