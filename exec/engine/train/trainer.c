/* Memory, opening and closing of a trainer. */
#include "engine/train/internal.h"

#include <stdlib.h>

#include "engine/model/place.h"
#include "engine/model/shard.h"

static const char *const recompute_names[RECOMPUTE_COUNT] = {
#define X(name, text, about) text,
    RECOMPUTES(X)
#undef X
};

const char *recompute_name(enum recompute recompute)
{
    check(recompute < RECOMPUTE_COUNT);
    return recompute_names[recompute];
}

bool recompute_find(const char *name, enum recompute *ret_recompute)
{
    for (enum recompute i = 0; i < RECOMPUTE_COUNT; i++)
        if (strcmp(recompute_names[i], name) == 0) {
            *ret_recompute = i;
            return true;
        }
    return false;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* --- memory ----------------------------------------------------------------------------------------------------------------- */

#define PIECES_MAX 48 /* of device memory, asked for its size or reserved */

static int64_t rounded(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Each sample may leave its last block half empty. */
static int32_t blocks_of(const struct trainer_config *config)
{
    return config->rows_max / KV_BLOCK_TOKENS + config->samples_max;
}

static const enum recompute kept_level[KEPT_COUNT] = {
#define X(type, name, bytes, level) level,
    KEPT(X)
#undef X
};

static bool kept_by_each(const struct trainer *trainer, enum kept_kind kind)
{
    return trainer->config.recompute < kept_level[kind];
}

static void kept_sizes(struct trainer *trainer)
{
    const struct dims *dims = &trainer->dims;
    const int64_t size = (int64_t)act_bytes(trainer->config.mode);
    const int64_t rows = trainer->config.rows_max;
    const int64_t stream = rows * dims->hidden;
    const int64_t heads = rows * dims->heads * dims->head_dim;
    const int64_t kv = (int64_t)(1 + blocks_of(&trainer->config)) * dims->kv_heads * KV_BLOCK_TOKENS * dims->head_dim;
    const int64_t qkv = qkv_width(dims);
    const int64_t ffn = dims->ffn;
    const int64_t normed_heads = trainer->normed_heads;
    const int64_t sizes[KEPT_COUNT] = {
#define X(type, name, bytes, level) bytes,
        KEPT(X)
#undef X
    };

    for (int i = 0; i < KEPT_COUNT; i++)
        trainer->kept_bytes[i] = rounded(sizes[i]);
}

static uint32_t pieces_of(struct trainer *trainer, struct dev_piece *ret_pieces)
{
    const struct trainer_config *config = &trainer->config;
    const struct dims *dims = &trainer->dims;
    const int64_t size = (int64_t)act_bytes(config->mode);
    const int64_t rows = config->rows_max;
    const int64_t stream = rows * dims->hidden;
    const int64_t qkv = qkv_width(dims);
    const int64_t heads = (int64_t)dims->heads * dims->head_dim;
    const struct counts *max = &trainer->host.max;
    struct batch *batch = &trainer->batch;
    const struct dev_piece pieces[] = {
        {(void **)&trainer->angles, (int64_t)config->positions_max * dims->head_dim * 4},
        {(void **)&trainer->pool, config->jobs_max * trainer->slot_bytes},
        {(void **)&trainer->slots, config->jobs_max * (int64_t)sizeof(struct lora_slot)},
        {(void **)&trainer->x_top, stream * 4},
        {(void **)&trainer->top, stream * size},
        {(void **)&trainer->wide, rows * larger(qkv, dims->hidden) * 4},
        {(void **)&trainer->dx, stream * 4},
        {(void **)&trainer->dx_act, stream * size},
        {(void **)&trainer->dwide, rows * larger(larger(dims->ffn, heads), dims->hidden) * 4},
        {(void **)&trainer->dact, rows * larger(2 * (int64_t)dims->ffn, qkv) * size},
        {(void **)&trainer->logits, (int64_t)config->head_rows * dims->vocabulary * 4},
        {(void **)&trainer->dlogits, (int64_t)config->head_rows * dims->vocabulary * size},
        {(void **)&trainer->logp, rows * 4},
        {(void **)&trainer->best, rows * 4},
        {(void **)&trainer->targets, rows * 4},
        {(void **)&trainer->coefs, rows * 4},
        {(void **)&trainer->sum, 8},
        {(void **)&trainer->norms, RANKS_MAX * 4},
        {(void **)&trainer->chunk_counts, (rows / config->head_rows + 1) * (int64_t)sizeof(struct counts)},
        {(void **)&trainer->grads, (int64_t)dims->layers * GRADS_A_LAYER * config->jobs_max * (int64_t)sizeof(struct lora_grad)},
        {(void **)(uintptr_t)&batch->now, sizeof(struct counts)},
        {(void **)(uintptr_t)&batch->token, max->rows * 4},
        {(void **)(uintptr_t)&batch->position, max->rows * 4},
        {(void **)(uintptr_t)&batch->out_row, max->outputs * 4},
        {(void **)(uintptr_t)&batch->block_table, (int64_t)max->sequences * batch->blocks_max * 4},
        {(void **)(uintptr_t)&batch->sequence, max->sequences * (int64_t)sizeof(struct sequence)},
        {(void **)(uintptr_t)&batch->segment, (max->segments + 1) * (int64_t)sizeof(struct segment)},
        {(void **)(uintptr_t)&batch->tile, max->tiles * (int64_t)sizeof(struct tile)},
    };
    uint32_t count = ARRAY_COUNT(pieces);

    memcpy(ret_pieces, pieces, sizeof(pieces));
    for (enum kept_kind kind = 0; kind < KEPT_COUNT; kind++)
        ret_pieces[count++] = (struct dev_piece){(void **)&trainer->kept_memory[kind],
                                             trainer->kept_bytes[kind] * (kept_by_each(trainer, kind) ? dims->layers : 1)};
    return count;
}

static void plan(struct trainer *trainer, const struct model *model, const struct trainer_config *config)
{
    trainer->config = *config;
    trainer->tp = config->ranks != NULL ? ranks_count(config->ranks) : 1;
    trainer->whole = model->config.dims;
    trainer->dims = shard_dims(&trainer->whole, trainer->tp);
    trainer->eps = model->config.norm_eps;
    trainer->normed_heads = model->config.qk_norm;
    trainer->slot_bytes = rounded(config->lora_rank_max == 0 ? 0 : lora_packed_bytes(&trainer->dims, config->mode, config->lora_rank_max,
                                                                                   (1u << LORA_MODULE_COUNT) - 1));
    trainer->host.max = (struct counts){.rows = config->rows_max,
                                        .outputs = config->rows_max,
                                        .sequences = config->samples_max,
                                        .segments = config->jobs_max,
                                        .tiles = batch_tiles_max(config->rows_max, config->jobs_max)};
    trainer->batch.max = trainer->host.max;
    trainer->batch.blocks_max = (config->positions_max + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    kept_sizes(trainer);
}

static struct dev_config dev_config_of(const struct trainer *trainer)
{
    const struct trainer_config *config = &trainer->config;

    return (struct dev_config){.dims = trainer->dims,
                               .mode = config->mode,
                               .threads = config->threads,
                               .kernels = config->kernels,
                               .deterministic = true,
                               .rows_max = config->rows_max,
                               .outputs_max = config->head_rows,
                               .lora_rank_max = config->lora_rank_max,
                               .positions_max = config->positions_max,
                               .ranks = config->ranks,
                               .rank = config->rank,
                               .ranks_count = trainer->tp,
                               .trains = true};
}

int64_t trainer_bytes(const struct model *model, const struct trainer_config *config)
{
    struct trainer trainer = {0};
    struct dev_piece pieces[PIECES_MAX];
    struct dev_config dev;
    int64_t bytes;
    uint32_t count;

    plan(&trainer, model, config);
    dev = dev_config_of(&trainer);
    bytes = config->device->ops_bytes(&dev);
    count = pieces_of(&trainer, pieces);
    for (uint32_t i = 0; i < count; i++)
        bytes += rounded(pieces[i].bytes);
    return bytes;
}

static bool reserve(struct trainer *trainer)
{
    struct dev_piece pieces[PIECES_MAX];
    uint32_t count = pieces_of(trainer, pieces);

    for (uint32_t i = 0; i < count; i++) {
        if (pieces[i].bytes == 0) /* heads that are not normed */
            continue;
        *pieces[i].at = trainer->device->reserve(trainer->dev, (size_t)pieces[i].bytes);
        if (*pieces[i].at == NULL)
            return false;
    }
    return true;
}

static void kept_spread(struct trainer *trainer)
{
    for (int32_t i = 0; i < trainer->dims.layers; i++) {
        struct kept *kept = &trainer->kept[i];

#define X(type, name, bytes, level)                                       \
    if (trainer->kept_memory[KEPT_##name] != NULL)                        \
        kept->name = (type *)(void *)(trainer->kept_memory[KEPT_##name] + \
                                      (kept_by_each(trainer, KEPT_##name) ? i * trainer->kept_bytes[KEPT_##name] : 0));
        KEPT(X)
#undef X
    }
}

static bool reserve_host(struct trainer *trainer)
{
    const struct counts max = trainer->host.max;
    const size_t rows = (size_t)max.rows;
    const int32_t blocks = 1 + blocks_of(&trainer->config);

    trainer->kept = calloc((size_t)trainer->dims.layers, sizeof(*trainer->kept));
    trainer->jobs = calloc((size_t)trainer->config.jobs_max, sizeof(*trainer->jobs));
    trainer->parts = calloc((size_t)max.sequences, sizeof(*trainer->parts));
    trainer->blocks = calloc((size_t)blocks, sizeof(*trainer->blocks));
    trainer->host_targets = calloc(rows, sizeof(*trainer->host_targets));
    trainer->host_coefs = calloc(rows, sizeof(*trainer->host_coefs));
    trainer->host_logp = calloc(rows, sizeof(*trainer->host_logp));
    trainer->host_best = calloc(rows, sizeof(*trainer->host_best));
    trainer->target_sample = calloc(rows, sizeof(*trainer->target_sample));
    trainer->host_counts = calloc(rows / (size_t)trainer->config.head_rows + 1, sizeof(*trainer->host_counts));
    trainer->host_grads = calloc((size_t)trainer->dims.layers * GRADS_A_LAYER * (size_t)max.segments, sizeof(*trainer->host_grads));
    if (!batch_arrays_create(&trainer->host, &max, trainer->batch.blocks_max) || trainer->kept == NULL || trainer->jobs == NULL ||
        trainer->parts == NULL || trainer->blocks == NULL || trainer->host_targets == NULL || trainer->host_coefs == NULL ||
        trainer->host_logp == NULL || trainer->host_best == NULL || trainer->target_sample == NULL || trainer->host_counts == NULL ||
        trainer->host_grads == NULL)
        return false;
    for (int32_t i = 0; i < blocks; i++)
        trainer->blocks[i] = i;
    return true;
}

/* --- opening ---------------------------------------------------------------------------------------------------------------- */

static enum status put_angles(struct trainer *trainer, const struct model *model)
{
    const size_t bytes = (size_t)trainer->config.positions_max * (size_t)trainer->dims.head_dim * sizeof(float);
    float *angles = malloc(bytes);

    if (angles == NULL)
        return STATUS_FULL;
    rope_angles(&model->config, trainer->config.positions_max, angles);
    trainer->device->put(trainer->dev, LANE_COMPUTE, trainer->angles, angles, bytes);
    trainer->device->finish(trainer->dev, LANE_COMPUTE);
    free(angles);
    return STATUS_OK;
}

static enum status place(struct trainer *trainer, const struct model *model, struct refusal *refusal)
{
    struct model_shard shard;
    enum status status = shard_open(&shard, model, trainer->config.rank, trainer->tp);

    if (status != STATUS_OK)
        return status;
    if (trainer->config.base != NULL)
        status = shared_base_place(trainer->config.base, trainer->device, trainer->dev, trainer->config.mode, &shard.weights,
                                   trainer->dims.layers, &trainer->weights, refusal);
    else
        status = weights_place(trainer->device, trainer->dev, &shard.weights, trainer->dims.layers, &trainer->weights);
    shard_close(&shard);
    return status;
}

static enum status open_parts(struct trainer *trainer, const struct model *model, struct refusal *refusal)
{
    const struct trainer_config *config = &trainer->config;
    const struct dev_config dev = dev_config_of(trainer);
    char why[256] = "";
    enum status status = STATUS_OK;

    if (config->full && !config->device->weights_in_place)
        return refuse(refusal, STATUS_INVALID, "the device %s trains adapters only", config->device->name);
    trainer->dev = config->device->open(&dev, why, sizeof(why));
    if (trainer->dev == NULL)
        return refuse(refusal, STATUS_INVALID, "the device %s cannot be opened: %s", config->device->name, why);
    trainer->ops = config->ops != NULL ? config->ops : config->device->ops(trainer->dev);
    trainer->train = config->train_ops != NULL ? config->train_ops : config->device->train_ops(trainer->dev);
    if (!reserve_host(trainer) || !reserve(trainer))
        status = STATUS_FULL;
    if (status == STATUS_OK) {
        kept_spread(trainer);
        status = place(trainer, model, refusal);
    }
    if (status == STATUS_OK)
        status = put_angles(trainer, model);
    if (status == STATUS_FULL)
        return refuse(refusal, STATUS_FULL, "the device %s has no room for %lld bytes of activations and adapters; fewer rows a pass or "
                                            "another level of recomputing may fit",
                      config->device->name, (long long)trainer_bytes(model, config));
    return status;
}

enum status trainer_open(const struct model *model, const struct trainer_config *config, struct trainer **ret_trainer,
                         struct refusal *refusal)
{
    struct trainer *trainer;
    enum status status;

    check(config->rows_max >= 1 && config->samples_max >= 1 && config->jobs_max >= 1 && config->head_rows >= 1);
    check(config->job_rows_max >= 1 && config->job_rows_max <= config->rows_max);
    check(config->job_samples_max >= 0 && config->job_samples_max <= config->samples_max);
    check(config->positions_max >= 1 && config->positions_max <= config->job_rows_max);
    check(config->recompute < RECOMPUTE_COUNT);
    check(config->stop == NULL || config->ranks == NULL);
    check(config->base == NULL || (config->ranks == NULL && !config->full));
    check(!config->full || (config->jobs_max == 1 && config->lora_rank_max == 0 && config->ranks == NULL));
    if (config->ranks != NULL && !shard_fits(&model->config.dims, ranks_count(config->ranks)))
        return refuse(refusal, STATUS_INVALID, "the model's heads and ffn cannot be cut into %d equal parts", ranks_count(config->ranks));
    if (config->positions_max > model->config.positions_max)
        return refuse(refusal, STATUS_INVALID, "samples of %d tokens are longer than the model's %d", config->positions_max,
                      model->config.positions_max);
    if (config->mode == MODE_FAST && model->dtype != DTYPE_BF16)
        return refuse(refusal, STATUS_INVALID, "fast mode computes in bfloat16 and wants a BF16 base; this one is %s: use exact mode",
                      model->dtype == DTYPE_F32 ? "F32" : "F16");
    trainer = calloc(1, sizeof(*trainer));
    if (trainer == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    plan(trainer, model, config);
    trainer->device = config->device;
    status = open_parts(trainer, model, refusal);
    if (status == STATUS_OK) {
        *ret_trainer = trainer;
        return STATUS_OK;
    }
    trainer_close(trainer);
    return status;
}

void trainer_close(struct trainer *trainer)
{
    if (trainer == NULL)
        return;
    for (int32_t i = 0; trainer->jobs != NULL && i < trainer->config.jobs_max; i++)
        trainer_job_close(trainer, i);
    if (trainer->dev != NULL)
        trainer->device->close(trainer->dev);
    batch_arrays_free(&trainer->host);
    free(trainer->weights.layer);
    free(trainer->jobs);
    free(trainer->kept);
    free(trainer->parts);
    free(trainer->blocks);
    free(trainer->host_targets);
    free(trainer->host_coefs);
    free(trainer->host_logp);
    free(trainer->host_best);
    free(trainer->target_sample);
    free(trainer->host_counts);
    free(trainer->host_grads);
    free(trainer);
}

const struct dims *trainer_dims(const struct trainer *trainer)
{
    return &trainer->dims;
}
