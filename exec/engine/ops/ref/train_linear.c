/* The way back of linear layers by its definition. */
#include "engine/ops/ref/train.h"

#include <stdlib.h>

/* One module of one segment. */
struct module {
    const char *a;     /* act [rank][in] */
    const char *b;     /* as packed */
    int32_t rank, in, out;
    int32_t column;    /* of dy */
};

static double b_load(enum mode mode, const struct module *module, int32_t out, int32_t i)
{
    int64_t pair = ((int64_t)(i / 2) * module->out + out) * 2 + i % 2;

    return act_load(mode, module->b, mode == MODE_EXACT ? (int64_t)out * module->rank + i : pair);
}

/* u = A x and du = dy B, both rounded to act; then what they add to dx. */
static void module_row(enum mode mode, const struct module *module, const act *x, const act *dy, act *u, act *du, float *dx)
{
    for (int32_t i = 0; i < module->rank; i++) {
        double sum = 0;
        double back = 0;

        for (int32_t k = 0; k < module->in; k++)
            sum += act_load(mode, module->a, (int64_t)i * module->in + k) * act_load(mode, x, k);
        for (int32_t out = 0; out < module->out; out++)
            back += act_load(mode, dy, module->column + out) * b_load(mode, module, out, i);
        act_store(mode, u, i, sum);
        act_store(mode, du, i, back);
    }
    for (int32_t k = 0; dx != NULL && k < module->in; k++) {
        double sum = 0;

        for (int32_t i = 0; i < module->rank; i++)
            sum += act_load(mode, du, i) * act_load(mode, module->a, (int64_t)i * module->in + k);
        dx[k] = (float)((double)dx[k] + sum);
    }
}

static void module_back(enum mode mode, const struct module *module, const struct segment *segment, const struct lora_grad *grad, float *dx,
                        const char *dy, int32_t width, const char *x)
{
    const int64_t size = (int64_t)act_bytes(mode);
    const int64_t row_bytes = module->rank * size;
    char *u = malloc((size_t)(segment->rows * row_bytes) + 1);
    char *du = malloc((size_t)(segment->rows * row_bytes) + 1);

    check(u != NULL && du != NULL);
    for (int32_t t = 0; t < segment->rows; t++) {
        const int64_t row = segment->row + t;

        module_row(mode, module, x + row * module->in * size, dy + row * width * size, u + t * row_bytes, du + t * row_bytes,
                   dx == NULL ? NULL : dx + row * module->in);
    }
    for (int32_t i = 0; grad != NULL && grad->a != NULL && i < grad->rank; i++) {
        for (int32_t k = 0; k < module->in; k++) {
            double sum = 0;

            for (int32_t t = 0; t < segment->rows; t++)
                sum += act_load(mode, du, (int64_t)t * module->rank + i) *
                       act_load(mode, x, (int64_t)(segment->row + t) * module->in + k);
            grad->a[(int64_t)i * module->in + k] = (float)((double)grad->a[(int64_t)i * module->in + k] + sum);
        }
        for (int32_t out = 0; out < module->out; out++) {
            float *b = &grad->b[(int64_t)out * grad->rank + i];
            double sum = 0;

            for (int32_t t = 0; t < segment->rows; t++)
                sum += act_load(mode, u, (int64_t)t * module->rank + i) *
                       act_load(mode, dy, (int64_t)(segment->row + t) * width + module->column + out);
            *b = (float)((double)*b + (double)grad->scale * sum);
        }
    }
    free(u);
    free(du);
}

static void adapters_back(struct dev *dev, float *dx, const act *dy, int32_t width, const act *x, const struct weight *w, int n,
                          const struct lora *lora, const struct lora_grad *grad, const struct batch *batch)
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
                const struct module it = {
                    .a = layer + layout.a[lora->group] + present++ * slot->rank * w[i].in * (int64_t)act_bytes(mode),
                    .b = layer + layout.b[module],
                    .rank = slot->rank,
                    .in = w[i].in,
                    .out = w[i].out,
                    .column = column,
                };

                module_back(mode, &it, segment, grad == NULL ? NULL : &grad[s * n + i], dx, dy, width, x);
            }
            column += w[i++].out;
        }
        check(i == n);
    }
}

static void weight_back(enum mode mode, const struct weight_grad *dw, const struct weight *w, const act *dy, int32_t width, int32_t column,
                        const act *x, int32_t rows)
{
    for (int32_t out = 0; out < w->out; out++) {
        double bias = 0;

        for (int32_t k = 0; dw->weight != NULL && k < w->in; k++) {
            float *to = &dw->weight[(int64_t)out * w->in + k];
            double sum = 0;

            for (int32_t row = 0; row < rows; row++)
                sum += act_load(mode, dy, (int64_t)row * width + column + out) * act_load(mode, x, (int64_t)row * w->in + k);
            *to = (float)((double)*to + sum);
        }
        for (int32_t row = 0; row < rows; row++)
            bias += act_load(mode, dy, (int64_t)row * width + column + out);
        if (dw->bias != NULL)
            dw->bias[out] = (float)((double)dw->bias[out] + bias);
    }
}

void ref_linear_back(struct dev *dev, float *dx, const act *dy, const act *x, const struct weight *w, int n, const struct lora *lora,
                     const struct lora_grad *grad, const struct weight_grad *dw, const struct batch *batch)
{
    const enum mode mode = dev->config.mode;
    const int32_t in = w[0].in;
    int32_t width = 0;
    int32_t column = 0;

    for (int i = 0; i < n; i++)
        width += w[i].out;
    for (int32_t row = 0; dx != NULL && row < batch->now->rows; row++)
        for (int32_t k = 0; k < in; k++) {
            double sum = 0;

            column = 0;
            for (int i = 0; i < n; column += w[i++].out)
                for (int32_t out = 0; out < w[i].out; out++)
                    sum += act_load(mode, dy, (int64_t)row * width + column + out) * weight_load(&w[i], out, k);
            dx[(int64_t)row * in + k] = (float)sum;
        }
    if (lora != NULL)
        adapters_back(dev, dx, dy, width, x, w, n, lora, grad, batch);
    column = 0;
    for (int i = 0; dw != NULL && i < n; column += w[i++].out)
        weight_back(mode, &dw[i], &w[i], dy, width, column, x, batch->now->rows);
}

void ref_head_back(struct dev *dev, float *dx, float *dw, const act *dlogits, const act *x, const struct weight *w, const struct batch *batch)
{
    const enum mode mode = dev->config.mode;

    for (int32_t o = 0; o < batch->now->outputs; o++)
        for (int32_t k = 0; k < w->in; k++) {
            double sum = 0;

            for (int32_t out = 0; out < w->out; out++)
                sum += act_load(mode, dlogits, (int64_t)o * w->out + out) * weight_load(w, out, k);
            dx[(int64_t)batch->out_row[o] * w->in + k] = (float)sum;
        }
    for (int32_t out = 0; dw != NULL && out < w->out; out++)
        for (int32_t k = 0; k < w->in; k++) {
            double sum = 0;

            for (int32_t o = 0; o < batch->now->outputs; o++)
                sum += act_load(mode, dlogits, (int64_t)o * w->out + out) * act_load(mode, x, (int64_t)batch->out_row[o] * w->in + k);
            dw[(int64_t)out * w->in + k] = (float)((double)dw[(int64_t)out * w->in + k] + sum);
        }
}
