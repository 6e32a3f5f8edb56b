#include "engine/model/forward.h"

#include <stdlib.h>

#include "engine/model/batch.h"
#include "engine/model/place.h"
#include "engine/model/shard.h"

/* Larger steps are launched one by one: their launches are hidden behind their work. */
#define GRAPH_BUCKETS 8
#define GRAPH_ROWS_MAX (1 << (GRAPH_BUCKETS - 1))

/* Device memory of one step. */
struct activations {
    float *x;      /* [rows][hidden]: the residual stream */
    float *wide;   /* [rows][the widest output of linear] */
    act *y;        /* [rows][the widest input of linear] */
    act *q;        /* [rows][heads * head_dim] */
    float *logits; /* [outputs][vocabulary] */
    float *lse;    /* [outputs] */
    float *best_logits;
    int32_t *best_ids;
};

struct forward {
    struct forward_config config;
    const struct device *device;
    struct dev *dev;
    const struct ops *ops;
    struct dims dims; /* of this rank */
    struct model_shard shard; /* host descriptors of this rank's weights */
    struct model_weights weights; /* as the device wants them */
    float eps;
    float *angles;
    char *kv;      /* [layer][2][1 + blocks][kv_heads][16][head_dim] act */
    int64_t kv_bytes; /* of one of the two of one layer */
    char *pool;
    struct lora_slot *slots; /* on the device */
    struct activations at;
    struct batch_arrays host;
    struct batch batch;      /* on the device */
    float *ret_lse;          /* host copies of what pick said */
    float *ret_logits;
    int32_t *ret_ids;
    int32_t *row_of_output;  /* [outputs]: the caller's order -> ours */
    int32_t outputs_before;  /* of the last step */
    uint32_t graphs[GRAPH_BUCKETS]; /* of decode steps of 1 << i rows; 0: not recorded yet */
    bool warm[GRAPH_BUCKETS]; /* a step of that many rows was launched: libraries that start late have started */
    bool no_graphs;          /* the device has none */
};

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t qkv_width(const struct dims *dims)
{
    return (dims->heads + 2 * dims->kv_heads) * dims->head_dim;
}

enum mode forward_default_mode(const struct model *model)
{
    return model->dtype == DTYPE_BF16 ? MODE_FAST : MODE_EXACT;
}

/* --- memory ----------------------------------------------------------------------------------------------------------------- */

/* Every piece of device memory, once: asked for its size, or reserved. */
struct piece {
    void **at;
    int64_t bytes;
};

static uint32_t pieces_of(struct forward *forward, struct piece *ret_pieces)
{
    const struct forward_config *config = &forward->config;
    const struct dims *dims = &forward->dims;
    const int64_t size = (int64_t)act_bytes(config->mode);
    const int64_t rows = config->rows_max;
    const int64_t outputs = config->outputs_max;
    const struct counts *max = &forward->host.max;
    struct activations *at = &forward->at;
    struct batch *batch = &forward->batch;
    const struct piece pieces[] = {
        {(void **)&at->x, rows * dims->hidden * 4},
        {(void **)&at->wide, rows * larger(larger(qkv_width(dims), 2 * dims->ffn), dims->hidden) * 4},
        {(void **)&at->y, rows * larger(larger(dims->hidden, dims->ffn), dims->heads * dims->head_dim) * size},
        {(void **)&at->q, rows * dims->heads * dims->head_dim * size},
        {(void **)&at->logits, outputs * dims->vocabulary * 4},
        {(void **)&at->lse, outputs * 4},
        {(void **)&at->best_logits, outputs * config->best * 4},
        {(void **)&at->best_ids, outputs * config->best * 4},
        {(void **)&forward->angles, (int64_t)config->positions_max * dims->head_dim * 4},
        {(void **)&forward->kv, 2 * dims->layers * forward->kv_bytes},
        {(void **)&forward->pool, config->pool_bytes},
        {(void **)&forward->slots, (int64_t)config->slots * (int64_t)sizeof(struct lora_slot)},
        {(void **)(uintptr_t)&batch->now, sizeof(struct counts)},
        {(void **)(uintptr_t)&batch->token, max->rows * (int64_t)sizeof(int32_t)},
        {(void **)(uintptr_t)&batch->position, max->rows * (int64_t)sizeof(int32_t)},
        {(void **)(uintptr_t)&batch->out_row, max->outputs * (int64_t)sizeof(int32_t)},
        {(void **)(uintptr_t)&batch->block_table, (int64_t)max->sequences * batch->blocks_max * (int64_t)sizeof(int32_t)},
        {(void **)(uintptr_t)&batch->sequence, max->sequences * (int64_t)sizeof(struct sequence)},
        {(void **)(uintptr_t)&batch->segment, (max->segments + 1) * (int64_t)sizeof(struct segment)},
        {(void **)(uintptr_t)&batch->tile, max->tiles * (int64_t)sizeof(struct tile)},
    };

    memcpy(ret_pieces, pieces, sizeof(pieces));
    return ARRAY_COUNT(pieces);
}
#define PIECES_MAX 32

static void plan(struct forward *forward, const struct model *model, const struct forward_config *config)
{
    forward->config = *config;
    forward->dims = shard_dims(&model->config.dims, config->tp);
    forward->eps = model->config.norm_eps;
    forward->kv_bytes = (int64_t)(1 + config->blocks) * forward->dims.kv_heads * KV_BLOCK_TOKENS * forward->dims.head_dim *
                        (int64_t)act_bytes(config->mode);
    forward->host.max = (struct counts){.rows = config->rows_max,
                                        .outputs = config->outputs_max,
                                        .sequences = config->sequences_max,
                                        .segments = config->segments_max,
                                        .tiles = batch_tiles_max(config->rows_max, config->segments_max)};
    forward->batch.max = forward->host.max;
    forward->batch.blocks_max = (config->positions_max + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
}

int64_t forward_bytes(const struct model *model, const struct forward_config *config)
{
    struct forward forward = {0};
    struct piece pieces[PIECES_MAX];
    int64_t bytes = 0;
    uint32_t count;

    plan(&forward, model, config);
    count = pieces_of(&forward, pieces);
    for (uint32_t i = 0; i < count; i++)
        bytes += (pieces[i].bytes + 255) / 256 * 256;
    return bytes;
}

static bool reserve(struct forward *forward)
{
    struct piece pieces[PIECES_MAX];
    uint32_t count = pieces_of(forward, pieces);

    for (uint32_t i = 0; i < count; i++) {
        *pieces[i].at = forward->device->reserve(forward->dev, (size_t)(pieces[i].bytes > 0 ? pieces[i].bytes : 1));
        if (*pieces[i].at == NULL)
            return false;
    }
    return true;
}

static bool reserve_host(struct forward *forward)
{
    const size_t outputs = (size_t)forward->config.outputs_max;
    const size_t best = (size_t)forward->config.best;
    const struct counts max = forward->host.max;

    forward->ret_lse = calloc(outputs, sizeof(float));
    forward->ret_logits = calloc(outputs * best, sizeof(float));
    forward->ret_ids = calloc(outputs * best, sizeof(int32_t));
    forward->row_of_output = calloc(outputs, sizeof(int32_t));
    return batch_arrays_create(&forward->host, &max, forward->batch.blocks_max) && forward->ret_lse != NULL &&
           forward->ret_logits != NULL && forward->ret_ids != NULL && forward->row_of_output != NULL;
}

/* --- opening ---------------------------------------------------------------------------------------------------------------- */

static enum status put_angles(struct forward *forward, const struct model *model)
{
    const size_t bytes = (size_t)forward->config.positions_max * (size_t)forward->dims.head_dim * sizeof(float);
    float *angles = malloc(bytes);

    if (angles == NULL)
        return STATUS_FULL;
    rope_angles(&model->config, forward->config.positions_max, angles);
    forward->device->put(forward->dev, LANE_COMPUTE, forward->angles, angles, bytes);
    forward->device->finish(forward->dev, LANE_COMPUTE);
    free(angles);
    return STATUS_OK;
}

static enum status open_parts(struct forward *forward, const struct model *model, struct refusal *refusal)
{
    const struct forward_config *config = &forward->config;
    struct dev_config dev = {.dims = forward->dims,
                             .mode = config->mode,
                             .threads = config->threads,
                             .kernels = config->kernels,
                             .deterministic = config->deterministic,
                             .rows_max = config->rows_max,
                             .outputs_max = config->outputs_max,
                             .lora_rank_max = config->lora_rank_max,
                             .positions_max = config->positions_max,
                             .ranks = config->ranks,
                             .rank = config->rank,
                             .ranks_count = config->tp};
    char why[256] = "";
    enum status status;

    forward->dev = config->device->open(&dev, why, sizeof(why));
    if (forward->dev == NULL)
        return refuse(refusal, STATUS_INVALID, "the device %s cannot be opened: %s", config->device->name, why);
    forward->ops = config->device->ops(forward->dev);
    status = shard_open(&forward->shard, model, config->rank, config->tp);
    if (status == STATUS_OK && !(reserve(forward) && reserve_host(forward)))
        status = STATUS_FULL;
    forward->batch.picked = forward->at.best_ids;
    forward->batch.picked_stride = config->best;
    if (status == STATUS_OK && config->base != NULL)
        status = shared_base_place(config->base, forward->device, forward->dev, config->mode, &forward->shard.weights, forward->dims.layers,
                                   &forward->weights, refusal);
    else if (status == STATUS_OK)
        status = weights_place(forward->device, forward->dev, &forward->shard.weights, forward->dims.layers, &forward->weights);
    if (status == STATUS_OK)
        status = put_angles(forward, model);
    if (status == STATUS_FULL)
        return refuse(refusal, STATUS_FULL, "the device %s has no room for %lld bytes of KV, adapters and activations; fewer KV blocks "
                                            "or a smaller adapter pool may fit",
                      config->device->name, (long long)forward_bytes(model, config));
    return status;
}

enum status forward_open(const struct model *model, const struct forward_config *config, struct forward **ret_forward,
                         struct refusal *refusal)
{
    struct forward *forward;
    enum status status;

    check(config->rows_max >= 1 && config->outputs_max >= 1 && config->sequences_max >= 1 && config->blocks >= 1);
    check(config->best >= 1 && config->best <= PICK_MAX && config->best <= model->config.dims.vocabulary);
    check(config->tp >= 1 && config->rank >= 0 && config->rank < config->tp);
    check(config->base == NULL || config->tp == 1);
    if (config->positions_max > model->config.positions_max)
        return refuse(refusal, STATUS_INVALID, "sequences of %d tokens are longer than the model's %d", config->positions_max,
                      model->config.positions_max);
    if (config->mode == MODE_FAST && model->dtype != DTYPE_BF16)
        return refuse(refusal, STATUS_INVALID, "fast mode computes in bfloat16 and wants a BF16 base; this one is %s: use exact mode",
                      model->dtype == DTYPE_F32 ? "F32" : "F16");
    if (!shard_fits(&model->config.dims, config->tp))
        return refuse(refusal, STATUS_INVALID, "the model's heads and ffn cannot be cut into %d equal parts", config->tp);
    forward = calloc(1, sizeof(*forward));
    if (forward == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    plan(forward, model, config);
    forward->device = config->device;
    status = open_parts(forward, model, refusal);
    if (status == STATUS_OK) {
        *ret_forward = forward;
        return STATUS_OK;
    }
    forward_close(forward);
    return status;
}

void forward_close(struct forward *forward)
{
    if (forward == NULL)
        return;
    if (forward->dev != NULL)
        forward->device->close(forward->dev);
    batch_arrays_free(&forward->host);
    shard_close(&forward->shard);
    free(forward->weights.layer);
    free(forward->ret_lse);
    free(forward->ret_logits);
    free(forward->ret_ids);
    free(forward->row_of_output);
    free(forward);
}

/* --- adapters --------------------------------------------------------------------------------------------------------------- */

void forward_slot(struct forward *forward, int32_t slot, const struct lora_slot *value)
{
    check(slot >= 0 && slot < forward->config.slots && value->rank <= forward->config.lora_rank_max);
    forward->device->put(forward->dev, LANE_COMPUTE, forward->slots + slot, value, sizeof(*value));
    forward->device->finish(forward->dev, LANE_COMPUTE);
}

void forward_put(struct forward *forward, int64_t offset, const void *packed, int64_t bytes)
{
    check(offset >= 0 && bytes >= 0 && offset + bytes <= forward->config.pool_bytes);
    forward->device->put(forward->dev, LANE_COPY, forward->pool + offset, packed, (size_t)bytes);
    forward->device->finish(forward->dev, LANE_COPY);
}

void forward_move(struct forward *forward, int64_t to, int64_t from, int64_t bytes)
{
    forward->device->move(forward->dev, LANE_COMPUTE, forward->pool + to, forward->pool + from, (size_t)bytes);
    forward->device->finish(forward->dev, LANE_COMPUTE);
}

/* --- a step ----------------------------------------------------------------------------------------------------------------- */

/* Greedy ids feed the next step on the device. */
static void follow(struct forward *forward, const struct forward_part *parts)
{
    struct batch_arrays *host = &forward->host;

    for (int32_t i = 0; i < host->now.sequences; i++) {
        const struct forward_part *part = &parts[host->order[i]];

        if (part->follows == 0)
            continue;
        check(part->rows == 1 && part->follows >= 1 && part->follows <= forward->outputs_before);
        host->token[host->sequence[i].row] = -1 - forward->row_of_output[part->follows - 1];
    }
}

static void put_batch(struct forward *forward)
{
    const struct batch_arrays *host = &forward->host;
    struct batch *batch = &forward->batch;
    const struct counts *now = &host->now;

#define PUT(field, count)                                                                                            \
    forward->device->put(forward->dev, LANE_COMPUTE, (void *)(uintptr_t)batch->field, host->field, (size_t)(count) * sizeof(host->field[0]))
    PUT(token, now->rows);
    PUT(position, now->rows);
    PUT(out_row, now->outputs);
    PUT(block_table, now->sequences * host->blocks_max);
    PUT(sequence, now->sequences);
    PUT(segment, now->segments);
    PUT(tile, now->tiles);
#undef PUT
    forward->device->put(forward->dev, LANE_COMPUTE, (void *)(uintptr_t)batch->now, now, sizeof(*now));
}

static void layer(struct forward *forward, int32_t index, const float *add, const struct lora *lora, const struct batch *batch)
{
    const struct layer_weights *weights = &forward->weights.layer[index];
    const struct ops *ops = forward->ops;
    const struct activations *at = &forward->at;
    struct dev *dev = forward->dev;
    act *k = forward->kv + 2 * index * forward->kv_bytes;
    act *v = forward->kv + (2 * index + 1) * forward->kv_bytes;
    const int64_t stream = (int64_t)batch->max.rows * forward->dims.hidden;
    struct lora group[LORA_GROUP_COUNT];

    for (int i = 0; lora != NULL && i < LORA_GROUP_COUNT; i++) {
        group[i] = *lora;
        group[i].layer = index;
        group[i].group = (enum lora_group)i;
    }
#define LORA(name) (lora != NULL ? &group[LORA_GROUP_##name] : NULL)
    ops->norm(dev, at->y, at->x, add, &weights->attn_norm, forward->eps, batch);
    ops->linear(dev, at->wide, at->y, weights->qkv, 3, LORA(QKV), batch);
    ops->rope_store(dev, at->q, k, v, at->wide, &weights->q_norm, &weights->k_norm, forward->eps, forward->angles, batch);
    ops->attend(dev, at->y, at->q, k, v, batch);
    ops->linear(dev, at->wide, at->y, &weights->o, 1, LORA(O), batch);
    ops->all_reduce(dev, at->wide, stream);
    ops->norm(dev, at->y, at->x, at->wide, &weights->mlp_norm, forward->eps, batch);
    ops->linear(dev, at->wide, at->y, weights->gate_up, 2, LORA(GATE_UP), batch);
    ops->swiglu(dev, at->y, at->wide, batch);
    ops->linear(dev, at->wide, at->y, &weights->down, 1, LORA(DOWN), batch);
    ops->all_reduce(dev, at->wide, stream);
#undef LORA
}

/* All of a step; batch->max is what there may be, and what is recorded is right for all that is no more. */
static void run(struct forward *forward, const struct batch *batch, bool lora_wanted)
{
    const struct activations *at = &forward->at;
    const struct ops *ops = forward->ops;
    struct dev *dev = forward->dev;
    const struct lora lora = {.pool = forward->pool, .slot = forward->slots};

    ops->embed(dev, at->x, &forward->weights.embed, batch);
    for (int32_t i = 0; i < forward->dims.layers; i++)
        layer(forward, i, i == 0 ? NULL : at->wide, lora_wanted ? &lora : NULL, batch);
    if (batch->max.outputs == 0)
        return;
    ops->norm(dev, at->y, at->x, at->wide, &forward->weights.norm, forward->eps, batch);
    ops->head(dev, at->logits, at->y, &forward->weights.head, batch);
    ops->pick(dev, at->lse, at->best_logits, at->best_ids, at->logits, forward->config.best, batch);
}

/* --- graphs ----------------------------------------------------------------------------------------------------------------- */

/* Steps that only decode are recorded, once for each power of two of their rows, with as many segments as there may be. */
static bool is_for_graph(const struct forward *forward)
{
    const struct counts *now = &forward->host.now;

    return !forward->no_graphs && now->rows == now->sequences && now->outputs == now->rows &&
           now->rows <= min_i64(GRAPH_ROWS_MAX, forward->config.outputs_max);
}

static void run_graph(struct forward *forward)
{
    struct batch batch = forward->batch;
    int32_t bucket = 0;
    int32_t rows;

    while (1 << bucket < forward->host.now.rows)
        bucket++;
    rows = (int32_t)min_i64(1 << bucket, forward->config.outputs_max);
    rows = (int32_t)min_i64(rows, forward->config.sequences_max);
    batch.max = (struct counts){.rows = rows, .outputs = rows, .sequences = rows,
                                .segments = (int32_t)min_i64(rows, forward->config.segments_max)};
    batch.max.tiles = batch_tiles_max(rows, batch.max.segments);
    if (!forward->warm[bucket]) {
        forward->warm[bucket] = true;
        run(forward, &batch, forward->config.lora_rank_max > 0);
        return;
    }
    if (forward->graphs[bucket] == 0) {
        forward->device->record(forward->dev);
        run(forward, &batch, forward->config.lora_rank_max > 0);
        forward->graphs[bucket] = forward->device->recorded(forward->dev);
        forward->no_graphs = forward->graphs[bucket] == 0;
        if (forward->no_graphs) /* it has been done */
            return;
    }
    forward->device->replay(forward->dev, forward->graphs[bucket]);
}

static void run_once(struct forward *forward)
{
    struct batch batch = forward->batch;

    batch.max = forward->host.now;
    run(forward, &batch, forward->host.now.segments > 0);
}

static void fetch_outputs(struct forward *forward)
{
    const struct activations *at = &forward->at;
    const size_t outputs = (size_t)forward->host.now.outputs;
    const size_t best = (size_t)forward->config.best;

    forward->device->get(forward->dev, LANE_COMPUTE, forward->ret_lse, at->lse, outputs * sizeof(float));
    forward->device->get(forward->dev, LANE_COMPUTE, forward->ret_logits, at->best_logits, outputs * best * sizeof(float));
    forward->device->get(forward->dev, LANE_COMPUTE, forward->ret_ids, at->best_ids, outputs * best * sizeof(int32_t));
    for (int32_t i = 0; i < forward->host.now.outputs; i++)
        forward->row_of_output[forward->host.output_of[i]] = i;
}

void forward_step(struct forward *forward, const struct forward_part *parts, int32_t count)
{
    batch_fill(&forward->host, parts, count);
    follow(forward, parts);
    forward->outputs_before = forward->host.now.outputs;
    put_batch(forward);
    if (is_for_graph(forward))
        run_graph(forward);
    else
        run_once(forward);
    if (forward->host.now.outputs > 0)
        fetch_outputs(forward);
    forward->device->finish(forward->dev, LANE_COMPUTE);
}

struct forward_output forward_output(const struct forward *forward, int32_t output)
{
    int32_t row;

    check(output >= 0 && output < forward->host.now.outputs);
    row = forward->row_of_output[output];
    return (struct forward_output){.lse = forward->ret_lse[row],
                                   .logits = forward->ret_logits + (size_t)row * (size_t)forward->config.best,
                                   .ids = forward->ret_ids + (size_t)row * (size_t)forward->config.best};
}

void forward_logits(struct forward *forward, int32_t output, float *ret_logits)
{
    const size_t vocabulary = (size_t)forward->dims.vocabulary;

    check(output >= 0 && output < forward->host.now.outputs);
    forward->device->get(forward->dev, LANE_COMPUTE, ret_logits,
                         forward->at.logits + (size_t)forward->row_of_output[output] * vocabulary, vocabulary * sizeof(float));
    forward->device->finish(forward->dev, LANE_COMPUTE);
}

const struct dims *forward_dims(const struct forward *forward)
{
    return &forward->dims;
}

enum mode forward_mode(const struct forward *forward)
{
    return forward->config.mode;
}

bool forward_b_in_pairs(const struct forward *forward)
{
    return forward->device->b_in_pairs;
}
