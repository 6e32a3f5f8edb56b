#include "engine/device/cuda/scratch.h"

#include "engine/device/cuda/weights.h"

/* Of a device that trains, behind those of all. */
#define BACK_PIECES 5

/* By dev->config. */
static uint32_t pieces_of(struct dev *dev, struct dev_piece ret_pieces[DEV_PIECES_MAX])
{
    const struct dev_config *config = &dev->config;
    const struct dims *dims = &config->dims;
    const int64_t size = (int64_t)act_bytes(config->mode), rows = config->rows_max, heads = rows * dims->heads;
    const int64_t item = (int64_t)dims->heads * dev->attend_splits;
    const struct dev_piece pieces[] = {
        {(void **)&dev->attend_o, dev->attend_items * item * dims->head_dim * 4},
        {(void **)&dev->attend_ml, dev->attend_items * item * 8},
        {(void **)&dev->lora_u, SHRINK_SPLITS_MAX * rows * dev->u_width * 4},
        {&dev->gathered, (int64_t)config->outputs_max * dims->hidden * size},
        {(void **)&dev->bounce, BOUNCE_BYTES},
        {&dev->blas_workspace, is_fast(dev) && !config->deterministic ? BLAS_WORKSPACE_BYTES : 0},
        {&dev->back_u, rows * dev->u_width * size},
        {&dev->back_du, rows * dev->u_width * size},
        {(void **)&dev->back_stats, heads * 2 * 4},
        {(void **)&dev->back_dy, is_fast(dev) ? heads * dims->head_dim * 2 : 0},
        {(void **)&dev->back_sums, SUMS_MAX * 8},
    };
    const uint32_t count = ARRAY_COUNT(pieces);

    memcpy(ret_pieces, pieces, sizeof(pieces));
    return config->trains ? count : count - BACK_PIECES;
}

void cuda_scratch_plan(struct dev *dev, const struct dev_config *config)
{
    int64_t items;

    dev->config = *config;
    dev->u_width = 3 * config->lora_rank_max;
    dev->attend_splits = div_up(config->positions_max, ATTEND_SPLIT_KEYS);
    items = ATTEND_SCRATCH_BYTES / ((int64_t)config->dims.heads * dev->attend_splits * config->dims.head_dim * 4);
    dev->attend_items = (int32_t)min_i64(items > 0 ? items : 1, config->rows_max);
}

int64_t cuda_ops_bytes(const struct dev_config *config)
{
    struct dev_piece pieces[DEV_PIECES_MAX];
    struct dev dev = {};
    int64_t bytes = 0;
    uint32_t count;

    cuda_scratch_plan(&dev, config);
    count = pieces_of(&dev, pieces);
    for (uint32_t i = 0; i < count; i++)
        bytes += dev_piece_bytes(pieces[i].bytes);
    return bytes;
}

bool cuda_scratch_reserve(struct dev *dev)
{
    struct dev_piece pieces[DEV_PIECES_MAX];
    const uint32_t count = pieces_of(dev, pieces);

    for (uint32_t i = 0; i < count; i++) {
        *pieces[i].at = cuda_memory_clear(dev, (size_t)(pieces[i].bytes > 0 ? pieces[i].bytes : 1));
        if (*pieces[i].at == NULL)
            return false;
    }
    return true;
}

void cuda_scratch_free(struct dev *dev)
{
    struct dev_piece pieces[DEV_PIECES_MAX];
    const uint32_t count = pieces_of(dev, pieces);

    for (uint32_t i = 0; i < count; i++)
        MUST(cudaFree(*pieces[i].at));
}
