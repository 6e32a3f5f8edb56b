/* Linear layers by their definition: a base, and the adapter of each row's segment on top. */
#include "engine/ops/ref/ref.h"

#include <stdlib.h>

static double dot(enum mode mode, const act *x, const struct weight *w, int32_t out)
{
    double sum = 0;

    for (int32_t i = 0; i < w->in; i++)
        sum += act_load(mode, x, i) * weight_load(w, out, i);
    if (w->bias != NULL)
        sum += (double)dtype_load(w->dtype, w->bias, (size_t)out);
    return sum;
}

/* u = A x, rounded to act; then B u. */
static void adapter_row(enum mode mode, const struct weight *w, const char *a, const char *b, int32_t rank, const act *x, float *y)
{
    char u[LORA_RANK_MAX * sizeof(float)];

    for (int32_t i = 0; i < rank; i++) {
        double sum = 0;

        for (int32_t k = 0; k < w->in; k++)
            sum += act_load(mode, a, (int64_t)i * w->in + k) * act_load(mode, x, k);
        act_store(mode, u, i, sum);
    }
    for (int32_t out = 0; out < w->out; out++) {
        double sum = 0;

        for (int32_t i = 0; i < rank; i++) {
            int64_t pair = ((int64_t)(i / 2) * w->out + out) * 2 + i % 2;

            sum += act_load(mode, u, i) * act_load(mode, b, mode == MODE_EXACT ? (int64_t)out * rank + i : pair);
        }
        y[out] = (float)((double)y[out] + sum);
    }
}

static void adapters(struct dev *dev, float *y, int32_t width, const act *x, const struct weight *w, int n, const struct lora *lora,
                     const struct batch *batch)
{
    const enum mode mode = dev->config.mode;
    struct lora_layout layout;

    for (int32_t s = 0; s < batch->now->segments; s++) {
        const struct segment *segment = &batch->segment[s];
        const struct lora_slot *slot = &lora->slot[segment->slot];
        int64_t layer_bytes = lora_layout_of(&dev->config.dims, mode, slot->rank, slot->modules, &layout);
        const char *layer = (const char *)lora->pool + slot->offset + lora->layer * layer_bytes;
        int32_t column = 0;
        int64_t present = 0;
        int i = 0;

        for (int module = 0; module < LORA_MODULE_COUNT; module++) {
            if (lora_group_of((enum lora_module)module) != lora->group)
                continue;
            check(i < n);
            if ((slot->modules >> module & 1) != 0) {
                const char *a = layer + layout.a[lora->group] + present * slot->rank * w[i].in * (int64_t)act_bytes(mode);

                for (int32_t row = segment->row; row < segment->row + segment->rows; row++)
                    adapter_row(mode, &w[i], a, layer + layout.b[module], slot->rank,
                                (const char *)x + (int64_t)row * w[i].in * (int64_t)act_bytes(mode), y + (int64_t)row * width + column);
                present++;
            }
            column += w[i++].out;
        }
        check(i == n);
    }
}

void ref_linear(struct dev *dev, float *y, const act *x, const struct weight *w, int n, const struct lora *lora, const struct batch *batch)
{
    const enum mode mode = dev->config.mode;
    int32_t width = 0;
    int32_t column = 0;

    for (int i = 0; i < n; i++)
        width += w[i].out;
    for (int i = 0; i < n; i++) {
        for (int32_t row = 0; row < batch->now->rows; row++)
            for (int32_t out = 0; out < w[i].out; out++)
                y[(int64_t)row * width + column + out] =
                    (float)dot(mode, (const char *)x + (int64_t)row * w[i].in * (int64_t)act_bytes(mode), &w[i], out);
        column += w[i].out;
    }
    if (lora != NULL)
        adapters(dev, y, width, x, w, n, lora, batch);
}

void ref_head(struct dev *dev, float *logits, const act *x, const struct weight *w, const struct batch *batch)
{
    const enum mode mode = dev->config.mode;

    for (int32_t o = 0; o < batch->now->outputs; o++)
        for (int32_t out = 0; out < w->out; out++)
            logits[(int64_t)o * w->out + out] =
                (float)dot(mode, (const char *)x + (int64_t)batch->out_row[o] * w->in * (int64_t)act_bytes(mode), w, out);
}
