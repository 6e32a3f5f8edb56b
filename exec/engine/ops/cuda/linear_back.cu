/* The way back of linear and of the head: through the base, through adapters, to weights. Always by our own kernels: no sum here depends
 * on how many rows or whose are in the batch. */
#include "engine/ops/cuda/cuda_ops.h"

void cuda_linear_back(struct dev *dev, float *dx, const act *dy, const act *x, const struct weight *w, int n, const struct lora *lora,
                      const struct lora_grad *grad, const struct weight_grad *dw, const struct batch *batch)
{
    const int32_t *rows_now = &batch->now->rows;
    int64_t width = 0, column = 0;

    check(n >= 1 && n <= 3);
    if (batch->max.rows == 0)
        return;
    for (int i = 0; i < n; i++) {
        check(w[i].in == w[0].in);
        width += w[i].out;
    }
    if (dx != NULL)
        cuda_back_base(dev, dx, dy, width, w, n, NULL, rows_now, batch->max.rows);
    if (lora != NULL && batch->max.tiles > 0 && (dx != NULL || grad != NULL))
        cuda_lora_back(dev, dx, dy, width, x, lora, grad, batch);
    for (int i = 0; dw != NULL && i < n; column += w[i++].out) {
        const act *dy_i = (const char *)dy + column * (int64_t)act_bytes(dev->config.mode);

        if (dw[i].weight != NULL)
            cuda_grad_weight(dev, dw[i].weight, dy_i, width, x, w[i].out, w[i].in, rows_now);
        if (dw[i].bias != NULL)
            cuda_grad_bias(dev, dw[i].bias, dy_i, width, w[i].out, rows_now);
    }
}

void cuda_head_back(struct dev *dev, float *dx, float *dw, const act *dlogits, const act *x, const struct weight *w, const struct batch *batch)
{
    if (batch->max.outputs == 0)
        return;
    cuda_back_base(dev, dx, dlogits, w->out, w, 1, batch->out_row, &batch->now->outputs, batch->max.outputs);
    if (dw == NULL)
        return;
    cuda_gather_outputs(dev, x, w->in, batch);
    cuda_grad_weight(dev, dw, dlogits, w->out, dev->gathered, w->out, w->in, &batch->now->outputs);
}
