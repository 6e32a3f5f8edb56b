/* x = table[token]: a block a row. A token below 0 is read where the step before picked it. */
#include "engine/ops/cuda/cuda_ops.h"

#define EMBED_THREADS 256

/* x f32 [T][width], table [V][stride], token [T], picked [outputs][picked_stride] */
KERNEL __launch_bounds__(EMBED_THREADS)
embed(float *x, const void *table, enum dtype dtype, int64_t stride, int width, const int32_t *token, const int32_t *picked,
      int picked_stride, const struct counts *now)
{
    int row = (int)blockIdx.x;
    int64_t id;

    if (row >= now->rows)
        return;
    id = token[row];
    if (id < 0)
        id = picked[(-1 - id) * picked_stride];
    for (int i = (int)threadIdx.x; i < width; i += EMBED_THREADS)
        x[(int64_t)row * width + i] = load_number(dtype, table, id * stride + i);
}

void cuda_embed(struct dev *dev, float *x, const struct weight *table, const struct batch *batch)
{
    check(table->in == dev->config.dims.hidden);
    if (batch->max.rows == 0)
        return;
    LAUNCH(embed, dim3((unsigned)batch->max.rows), dim3(EMBED_THREADS), 0, dev->lane[LANE_COMPUTE], x, table->data, table->dtype,
           (int64_t)table->stride, table->in, batch->token, batch->picked,
           batch->picked_stride, batch->now);
}
