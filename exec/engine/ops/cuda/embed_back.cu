/* dtable[token] += dx, rows in order: a block a row, of which the first of each token adds all rows of that token and the others leave. */
#include "engine/ops/cuda/cuda_ops.h"

#define EMBED_THREADS 256

/* dtable f32 [V][width], dx f32 [T][width], token [T] */
KERNEL __launch_bounds__(EMBED_THREADS)
embed_back(float *dtable, const float *dx, int width, const int32_t *token, const struct counts *now)
{
    int first = (int)blockIdx.x;
    int64_t id;

    if (first >= now->rows)
        return;
    id = token[first];
    for (int row = 0; row < first; row++) {
        if (token[row] == id)
            return;
    }
    for (int row = first; row < now->rows; row++) {
        for (int i = (int)threadIdx.x; token[row] == id && i < width; i += EMBED_THREADS)
            dtable[id * width + i] += dx[(int64_t)row * width + i];
    }
}

void cuda_embed_back(struct dev *dev, float *dtable, const float *dx, const struct batch *batch)
{
    if (batch->max.rows == 0)
        return;
    LAUNCH(embed_back, dim3((unsigned)batch->max.rows), dim3(EMBED_THREADS), 0, dev->lane[LANE_COMPUTE], dtable, dx, dev->config.dims.hidden,
           batch->token, batch->now);
}
