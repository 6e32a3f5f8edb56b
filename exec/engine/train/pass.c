/* One pass: all layers forward, the head in pieces over the rows that have a target, all layers back; and a step of several passes. */
#include "engine/train/internal.h"

#include <math.h>
#include <stdlib.h>

/* --- the batch -------------------------------------------------------------------------------------------------------------- */

/* Rows whose next token is a target, in order of rows. */
static void list_targets(struct trainer *trainer, const struct train_sample *samples)
{
    struct batch_arrays *host = &trainer->host;

    for (int32_t s = 0; s < host->now.sequences; s++) {
        const struct train_sample *sample = &samples[host->order[s]];

        check(!sample->is_target[0]);
        for (int32_t t = 1; t < sample->rows; t++) {
            const int32_t output = host->now.outputs;

            if (!sample->is_target[t])
                continue;
            host->out_row[output] = host->sequence[s].row + t - 1;
            trainer->host_targets[output] = sample->tokens[t];
            trainer->host_coefs[output] = sample->coef;
            trainer->target_sample[output] = host->order[s];
            host->now.outputs++;
        }
    }
}

static void list_chunks(struct trainer *trainer)
{
    const struct counts *now = &trainer->host.now;
    const int32_t most = trainer->config.head_rows;

    for (int32_t at = 0; at < now->outputs; at += most) {
        struct counts *chunk = &trainer->host_counts[at / most];

        *chunk = *now;
        chunk->outputs = now->outputs - at < most ? now->outputs - at : most;
    }
}

/* Where each segment's gradients go. */
static void list_grads(struct trainer *trainer)
{
    const int32_t segments = trainer->host.now.segments;

    trainer->lowest = trainer->config.full ? 0 : trainer->dims.layers;
    for (int32_t s = 0; s < segments; s++) {
        const struct job *job = &trainer->jobs[trainer->host.segment[s].slot];
        int32_t group_first = 0;

        if (job->lowest < trainer->lowest)
            trainer->lowest = job->lowest;
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            const enum lora_group group = lora_group_of(module);
            const int32_t n = group == LORA_GROUP_QKV ? 3 : group == LORA_GROUP_GATE_UP ? 2 : 1;

            if (module > 0 && lora_group_of((enum lora_module)(module - 1)) != group)
                group_first = (int32_t)module;
            for (int32_t layer = 0; layer < trainer->dims.layers; layer++) {
                const struct pair_place *place = &job->place[layer * LORA_MODULE_COUNT + (int32_t)module];
                struct lora_grad *grad = trainer->host_grads + ((int64_t)layer * GRADS_A_LAYER + group_first) * segments +
                                         (int64_t)s * n + ((int32_t)module - group_first);

                *grad = (struct lora_grad){0};
                if (place->there)
                    *grad = (struct lora_grad){.a = job->state[TRAIN_GRADIENTS] + place->a,
                                               .b = job->state[TRAIN_GRADIENTS] + place->b,
                                               .rank = place->rank,
                                               .scale = place->scale};
            }
        }
    }
}

static void put_all(struct trainer *trainer)
{
    const struct batch_arrays *host = &trainer->host;
    const struct batch *batch = &trainer->batch;
    const struct counts *now = &host->now;

#define PUT(to, from, count) \
    trainer->device->put(trainer->dev, LANE_COMPUTE, (void *)(uintptr_t)(to), from, (size_t)(count) * sizeof((from)[0]))
    PUT(batch->token, host->token, now->rows);
    PUT(batch->position, host->position, now->rows);
    PUT(batch->out_row, host->out_row, now->outputs);
    PUT(batch->block_table, host->block_table, now->sequences * host->blocks_max);
    PUT(batch->sequence, host->sequence, now->sequences);
    PUT(batch->segment, host->segment, now->segments);
    PUT(batch->tile, host->tile, now->tiles);
    PUT(batch->now, now, 1);
    PUT(trainer->targets, trainer->host_targets, now->outputs);
    PUT(trainer->coefs, trainer->host_coefs, now->outputs);
    PUT(trainer->chunk_counts, trainer->host_counts, (now->outputs + trainer->config.head_rows - 1) / trainer->config.head_rows);
    PUT(trainer->grads, trainer->host_grads, (int64_t)trainer->dims.layers * GRADS_A_LAYER * now->segments);
#undef PUT
}

/* Each sample is a sequence of its own with blocks of its own, so attention cannot cross. */
static void batch_make(struct trainer *trainer, const struct train_sample *samples, int32_t count)
{
    int32_t block = 1;

    check(count >= 1 && count <= trainer->config.samples_max);
    for (int32_t i = 0; i < count; i++) {
        const struct train_sample *sample = &samples[i];

        check(sample->rows >= 1 && sample->rows <= trainer->config.positions_max);
        check(sample->job == SEGMENT_NONE ||
              (sample->job >= 0 && sample->job < trainer->config.jobs_max && trainer->jobs[sample->job].open));
        trainer->parts[i] = (struct forward_part){
            .tokens = sample->tokens, .blocks = trainer->blocks + block, .rows = sample->rows, .slot = trainer->config.full ? SEGMENT_NONE : sample->job};
        block += (sample->rows + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    }
    batch_fill(&trainer->host, trainer->parts, count);
    list_targets(trainer, samples);
    list_chunks(trainer);
    list_grads(trainer);
    put_all(trainer);
}

/* --- forward ---------------------------------------------------------------------------------------------------------------- */

static void lora_groups(const struct trainer *trainer, int32_t layer, struct lora ret_group[LORA_GROUP_COUNT])
{
    for (int i = 0; i < LORA_GROUP_COUNT; i++)
        ret_group[i] = (struct lora){.pool = trainer->pool, .slot = trainer->slots, .layer = layer, .group = (enum lora_group)i};
}

static void copy_stream(struct trainer *trainer, float *to, const float *from)
{
    trainer->device->move(trainer->dev, LANE_COMPUTE, to, from,
                          (size_t)trainer->host.now.rows * (size_t)trainer->dims.hidden * sizeof(float));
}

/* x f32 [T][h], of which each rank has a part; nothing when there is one. */
static void sum_ranks(struct trainer *trainer, float *x)
{
    trainer->ops->all_reduce(trainer->dev, x, (int64_t)trainer->host.now.rows * trainer->dims.hidden);
}

#define LORA(name) (trainer->host.now.segments > 0 ? &group[LORA_GROUP_##name] : NULL)

/* From kept->x plus `add` (NULL: nothing) to kept->gated: all but the last product. */
static void layer_forward(struct trainer *trainer, int32_t index, const float *add)
{
    const struct layer_weights *weights = &trainer->weights.layer[index];
    const struct kept *kept = &trainer->kept[index];
    const struct ops *ops = trainer->ops;
    const struct batch *batch = &trainer->batch;
    struct dev *dev = trainer->dev;
    float *qkv = trainer->normed_heads ? kept->qkv : trainer->wide;
    struct lora group[LORA_GROUP_COUNT];

    lora_groups(trainer, index, group);
    ops->norm(dev, kept->attn_in, kept->x, add, &weights->attn_norm, trainer->eps, batch);
    ops->linear(dev, qkv, kept->attn_in, weights->qkv, 3, LORA(QKV), batch);
    ops->rope_store(dev, kept->q, kept->k, kept->v, qkv, &weights->q_norm, &weights->k_norm, trainer->eps, trainer->angles, batch);
    ops->attend(dev, kept->attended, kept->q, kept->k, kept->v, batch);
    ops->linear(dev, trainer->wide, kept->attended, &weights->o, 1, LORA(O), batch);
    sum_ranks(trainer, trainer->wide);
    copy_stream(trainer, kept->middle, kept->x);
    ops->norm(dev, kept->mlp_in, kept->middle, trainer->wide, &weights->mlp_norm, trainer->eps, batch);
    ops->linear(dev, kept->gate_up, kept->mlp_in, weights->gate_up, 2, LORA(GATE_UP), batch);
    ops->swiglu(dev, kept->gated, kept->gate_up, batch);
}

static void model_forward(struct trainer *trainer)
{
    const int32_t layers = trainer->dims.layers;

    trainer->ops->embed(trainer->dev, trainer->kept[0].x, &trainer->weights.embed, &trainer->batch);
    for (int32_t i = 0; i < layers; i++) {
        const struct kept *kept = &trainer->kept[i];
        struct lora group[LORA_GROUP_COUNT];

        lora_groups(trainer, i, group);
        layer_forward(trainer, i, i == 0 ? NULL : trainer->wide);
        trainer->ops->linear(trainer->dev, trainer->wide, kept->gated, &trainer->weights.layer[i].down, 1, LORA(DOWN), &trainer->batch);
        sum_ranks(trainer, trainer->wide);
        copy_stream(trainer, i + 1 < layers ? trainer->kept[i + 1].x : trainer->x_top, kept->middle);
    }
    trainer->ops->norm(trainer->dev, trainer->top, trainer->x_top, trainer->wide, &trainer->weights.norm, trainer->eps, &trainer->batch);
}

/* Log-probabilities of all targets; with `back`, dwide becomes the gradient of `top`. */
static void head_pass(struct trainer *trainer, bool back)
{
    const struct counts *now = &trainer->host.now;
    const int32_t most = trainer->config.head_rows;

    if (back)
        trainer->train->zero(trainer->dev, trainer->dwide, (int64_t)now->rows * trainer->dims.hidden);
    for (int32_t at = 0; at < now->outputs; at += most) {
        struct batch chunk = trainer->batch;

        chunk.now = trainer->chunk_counts + at / most;
        chunk.out_row += at;
        chunk.max.outputs = most;
        trainer->ops->head(trainer->dev, trainer->logits, trainer->top, &trainer->weights.head, &chunk);
        trainer->train->loss(trainer->dev, trainer->logp + at, trainer->best + at, trainer->dlogits, trainer->logits,
                             trainer->targets + at, back ? trainer->coefs + at : NULL, &chunk);
        if (back)
            trainer->train->head_back(trainer->dev, trainer->dwide, full_grad(trainer, trainer->weights.head.data), trainer->dlogits,
                                      trainer->top, &trainer->weights.head, &chunk);
    }
}

/* --- back ------------------------------------------------------------------------------------------------------------------- */

/* What the level did not keep of a layer. */
static void layer_again(struct trainer *trainer, int32_t index)
{
    const struct kept *kept = &trainer->kept[index];
    const struct layer_weights *weights = &trainer->weights.layer[index];

    if (trainer->config.recompute == RECOMPUTE_LAYER)
        layer_forward(trainer, index, NULL);
    if (trainer->config.recompute != RECOMPUTE_PARTIAL)
        return;
    trainer->ops->norm(trainer->dev, kept->attn_in, kept->x, NULL, &weights->attn_norm, trainer->eps, &trainer->batch);
    trainer->ops->norm(trainer->dev, kept->mlp_in, kept->middle, NULL, &weights->mlp_norm, trainer->eps, &trainer->batch);
    trainer->ops->swiglu(trainer->dev, kept->gated, kept->gate_up, &trainer->batch);
}

/* The way back of one group of linear layers: dx NULL when nobody below asks. */
static void group_back(struct trainer *trainer, int32_t index, enum lora_group group, float *dx, const act *dy, const act *x,
                       const struct weight *w, int n)
{
    static const int first[LORA_GROUP_COUNT] = {LORA_Q, LORA_O, LORA_GATE, LORA_DOWN};
    const int64_t segments = trainer->host.now.segments;
    const struct lora lora = {.pool = trainer->pool, .slot = trainer->slots, .layer = index, .group = group};
    struct weight_grad dw[3] = {{0}};

    for (int i = 0; i < n; i++)
        dw[i] = (struct weight_grad){full_grad(trainer, w[i].data), full_grad(trainer, w[i].bias)};
    trainer->train->linear_back(trainer->dev, dx, dy, x, w, n, segments > 0 ? &lora : NULL,
                                trainer->grads + ((int64_t)index * GRADS_A_LAYER + first[group]) * segments,
                                trainer->config.full ? dw : NULL, &trainer->batch);
}

static void norm_back(struct trainer *trainer, const float *x, const struct weight *gain)
{
    trainer->train->norm_back(trainer->dev, trainer->dx_act, trainer->dx, trainer->dwide, x, gain, trainer->eps,
                              full_grad(trainer, gain->data), &trainer->batch);
}

/* dx, dx_act: the gradient behind the layer, then before it. Below the lowest matrix that learns nobody asks for one. Behind each norm are
 * weights cut by rows, and a rank knows its own outputs' share of that norm's gradient; o and down are cut by columns, and share nothing. */
static void layer_back(struct trainer *trainer, int32_t index)
{
    const struct layer_weights *weights = &trainer->weights.layer[index];
    const struct kept *kept = &trainer->kept[index];
    const struct train_ops *train = trainer->train;
    const struct batch *batch = &trainer->batch;
    const bool last = index == trainer->lowest && !trainer->config.full;
    struct dev *dev = trainer->dev;

    layer_again(trainer, index);
    group_back(trainer, index, LORA_GROUP_DOWN, trainer->dwide, trainer->dx_act, kept->gated, &weights->down, 1);
    train->swiglu_back(dev, trainer->dact, trainer->dwide, kept->gate_up, batch);
    group_back(trainer, index, LORA_GROUP_GATE_UP, trainer->dwide, trainer->dact, kept->mlp_in, weights->gate_up, 2);
    sum_ranks(trainer, trainer->dwide);
    norm_back(trainer, kept->middle, &weights->mlp_norm);
    group_back(trainer, index, LORA_GROUP_O, trainer->dwide, trainer->dx_act, kept->attended, &weights->o, 1);
    train->attend_back(dev, trainer->wide, trainer->dwide, kept->q, kept->k, kept->v, batch);
    train->rope_back(dev, trainer->dact, trainer->wide, trainer->normed_heads ? kept->qkv : NULL, &weights->q_norm, &weights->k_norm,
                     trainer->eps, trainer->angles, full_grad(trainer, weights->q_norm.data), full_grad(trainer, weights->k_norm.data),
                     batch);
    group_back(trainer, index, LORA_GROUP_QKV, last ? NULL : trainer->dwide, trainer->dact, kept->attn_in, weights->qkv, 3);
    if (last)
        return;
    sum_ranks(trainer, trainer->dwide);
    norm_back(trainer, kept->x, &weights->attn_norm);
}

static void model_back(struct trainer *trainer)
{
    trainer->train->zero(trainer->dev, trainer->dx, (int64_t)trainer->host.now.rows * trainer->dims.hidden);
    norm_back(trainer, trainer->x_top, &trainer->weights.norm);
    for (int32_t i = trainer->dims.layers - 1; i >= trainer->lowest; i--)
        layer_back(trainer, i);
    if (trainer->config.full)
        trainer->train->embed_back(trainer->dev, full_grad(trainer, trainer->weights.embed.data), trainer->dx, &trainer->batch);
}

/* --- passes ----------------------------------------------------------------------------------------------------------------- */

static void fetch_scores(struct trainer *trainer, int32_t count, struct train_score *ret_scores)
{
    const int32_t outputs = trainer->host.now.outputs;

    trainer->device->get(trainer->dev, LANE_COMPUTE, trainer->host_logp, trainer->logp, (size_t)outputs * sizeof(float));
    trainer->device->get(trainer->dev, LANE_COMPUTE, trainer->host_best, trainer->best, (size_t)outputs * sizeof(int32_t));
    trainer->device->finish(trainer->dev, LANE_COMPUTE);
    for (int32_t i = 0; i < count; i++)
        ret_scores[i] = (struct train_score){0};
    for (int32_t i = 0; i < outputs; i++) {
        struct train_score *score = &ret_scores[trainer->target_sample[i]];

        score->logp += (double)trainer->host_logp[i];
        score->hits += trainer->host_best[i] == trainer->host_targets[i];
    }
}

void trainer_logp(struct trainer *trainer, const struct train_sample *samples, int32_t count, struct train_score *ret_scores)
{
    batch_make(trainer, samples, count);
    model_forward(trainer);
    head_pass(trainer, false);
    fetch_scores(trainer, count, ret_scores);
}

void trainer_pass(struct trainer *trainer, const struct train_sample *samples, int32_t count, struct train_score *ret_scores)
{
    for (int32_t i = 0; i < count; i++)
        check(samples[i].job != SEGMENT_NONE);
    batch_make(trainer, samples, count);
    model_forward(trainer);
    head_pass(trainer, true);
    model_back(trainer);
    fetch_scores(trainer, count, ret_scores);
}

static void put_coefs(struct trainer *trainer, const struct train_sample *samples)
{
    const int32_t outputs = trainer->host.now.outputs;

    for (int32_t i = 0; i < outputs; i++)
        trainer->host_coefs[i] = samples[trainer->target_sample[i]].coef;
    trainer->device->put(trainer->dev, LANE_COMPUTE, trainer->coefs, trainer->host_coefs, (size_t)outputs * sizeof(float));
}

void trainer_pass_weighed(struct trainer *trainer, struct train_sample *samples, int32_t count, train_weigh *weigh, void *context,
                          struct train_score *ret_scores)
{
    trainer_logp(trainer, samples, count, ret_scores);
    for (int32_t i = 0; i < count; i++)
        check(samples[i].job != SEGMENT_NONE);
    weigh(context, samples, ret_scores, count);
    put_coefs(trainer, samples);
    head_pass(trainer, true);
    model_back(trainer);
}
