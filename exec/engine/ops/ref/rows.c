/* The ops that stay inside a row, by their definitions. */
#include "engine/ops/ref/ref.h"

#include <math.h>

#include "engine/device/ranks.h"

void ref_embed(struct dev *dev, float *x, const struct weight *table, const struct batch *batch)
{
    (void)dev;
    for (int32_t row = 0; row < batch->now->rows; row++)
        for (int32_t i = 0; i < table->in; i++)
            x[(int64_t)row * table->in + i] = (float)weight_load(table, batch_token(batch, row), i);
}

void ref_norm(struct dev *dev, act *y, float *x, const float *add, const struct weight *gain, float eps, const struct batch *batch)
{
    const int32_t hidden = dev->config.dims.hidden;

    for (int32_t row = 0; row < batch->now->rows; row++) {
        const int64_t at = (int64_t)row * hidden;
        double squares = 0;
        double scale;

        for (int32_t i = 0; i < hidden; i++) {
            if (add != NULL)
                x[at + i] += add[at + i];
            squares += (double)x[at + i] * (double)x[at + i];
        }
        scale = 1 / sqrt(squares / hidden + (double)eps);
        for (int32_t i = 0; i < hidden; i++)
            act_store(dev->config.mode, y, at + i, (double)x[at + i] * scale * weight_load(gain, 0, i));
    }
}

void ref_swiglu(struct dev *dev, act *y, const float *gate_up, const struct batch *batch)
{
    const int32_t ffn = dev->config.dims.ffn;

    for (int32_t row = 0; row < batch->now->rows; row++) {
        const float *gate = gate_up + (int64_t)row * 2 * ffn;

        for (int32_t i = 0; i < ffn; i++)
            act_store(dev->config.mode, y, (int64_t)row * ffn + i, (double)gate[i] / (1 + exp(-(double)gate[i])) * (double)gate[ffn + i]);
    }
}

/* Whether id a goes before id b: larger, or equal and a lower id; a NaN counts as -infinity. */
static bool goes_before(const float *logits, int32_t a, int32_t b)
{
    float left = isnan(logits[a]) ? -INFINITY : logits[a];
    float right = isnan(logits[b]) ? -INFINITY : logits[b];

    return left > right || (left == right && a < b);
}

void ref_pick(struct dev *dev, float *ret_lse, float *ret_logit, int32_t *ret_id, const float *logits, int best, const struct batch *batch)
{
    const int32_t vocabulary = dev->config.dims.vocabulary;

    check(best >= 0 && best <= PICK_MAX && best <= vocabulary);
    for (int32_t o = 0; o < batch->now->outputs; o++) {
        const float *row = logits + (int64_t)o * vocabulary;
        float *logit = ret_logit + (int64_t)o * best;
        int32_t *id = ret_id + (int64_t)o * best;
        double largest = -INFINITY;
        double total = 0;

        for (int32_t i = 0; i < vocabulary; i++)
            largest = fmax(largest, (double)row[i]);
        for (int32_t i = 0; i < vocabulary; i++)
            total += exp((double)row[i] - largest);
        ret_lse[o] = (float)(largest + log(total));
        for (int rank = 0; rank < best; rank++) {
            int32_t next = -1;

            for (int32_t i = 0; i < vocabulary; i++)
                if ((rank == 0 || goes_before(row, id[rank - 1], i)) && (next < 0 || goes_before(row, i, next)))
                    next = i;
            id[rank] = next;
            logit[rank] = isnan(row[next]) ? -INFINITY : row[next];
        }
    }
}

void ref_all_reduce(struct dev *dev, float *x, int64_t n)
{
    if (dev->config.ranks != NULL)
        ranks_sum(dev->config.ranks, dev->config.rank, x, n);
}
