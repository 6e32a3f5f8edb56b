/* Full fine-tuning: one job whose numbers are all weights of the base, one after the other. The trainer's weights point into them (in
 * exact mode) or into a rounded copy (in fast mode), at the same elements, so a weight's place says where its gradient goes. */
#include "engine/train/internal.h"

#include <stdlib.h>

#include "engine/model/place.h"

typedef void weight_seen(void *context, struct weight *weight);

/* In the order of trainer_full_open(); what a family lacks has no data, and a tied head is not seen. */
static void walk(struct model_weights *weights, int32_t layers, bool tied, weight_seen *each, void *context)
{
    each(context, &weights->embed);
    for (int32_t i = 0; i < layers; i++) {
        struct layer_weights *layer = &weights->layer[i];
        struct weight *const all[] = {&layer->attn_norm, &layer->qkv[0],  &layer->qkv[1],     &layer->qkv[2],     &layer->q_norm, &layer->k_norm,
                                      &layer->o,         &layer->mlp_norm, &layer->gate_up[0], &layer->gate_up[1], &layer->down};

        for (size_t j = 0; j < ARRAY_COUNT(all); j++)
            if (all[j]->data != NULL)
                each(context, all[j]);
    }
    each(context, &weights->norm);
    if (!tied)
        each(context, &weights->head);
}

static void count(void *context, struct weight *weight)
{
    int64_t *parameters = context;

    *parameters += (int64_t)weight->out * weight->in + (weight->bias != NULL ? weight->out : 0);
}

struct filling {
    float *values;      /* host */
    int64_t at;
    char *base;         /* where the weights will be on the device */
    enum dtype dtype;
};

/* Copies a weight's numbers and makes it point to where they go. */
static void move_in(void *context, struct weight *weight)
{
    struct filling *filling = context;
    const int64_t size = (int64_t)dtype_bytes(filling->dtype);
    const struct weight from = *weight;

    weight->data = filling->base + filling->at * size;
    for (int32_t row = 0; row < from.out; row++)
        for (int32_t i = 0; i < from.in; i++)
            filling->values[filling->at++] = dtype_load(from.dtype, from.data, (size_t)row * (size_t)from.stride + (size_t)i);
    if (from.bias != NULL)
        weight->bias = filling->base + filling->at * size;
    for (int32_t row = 0; from.bias != NULL && row < from.out; row++)
        filling->values[filling->at++] = dtype_load(from.dtype, from.bias, (size_t)row);
    weight->dtype = filling->dtype;
    weight->stride = from.in;
}

enum status trainer_full_open(struct trainer *trainer, const struct model *model, const struct optimizer *optimizer)
{
    const bool fast = trainer->config.mode == MODE_FAST;
    const bool tied = model->weights.head.data == model->weights.embed.data;
    struct filling filling = {.dtype = fast ? DTYPE_BF16 : DTYPE_F32};
    struct job *job = &trainer->jobs[0];

    check(trainer->config.full && !job->open);
    free(trainer->weights.layer); /* they may be those of a job that was closed */
    trainer->weights.layer = NULL;
    if (weights_place(trainer->device, trainer->dev, &model->weights, trainer->dims.layers, &trainer->weights) != STATUS_OK)
        return STATUS_FULL;
    *job = (struct job){.open = true, .optimizer = *optimizer};
    walk(&trainer->weights, trainer->dims.layers, tied, count, &job->parameters);
    filling.values = malloc((size_t)job->parameters * sizeof(float));
    if (filling.values == NULL || !job_reserve_states(trainer, job))
        goto no_room;
    trainer->full_weights = fast ? trainer->device->reserve(trainer->dev, (size_t)job->parameters * 2) : (char *)job->state[TRAIN_MATRICES];
    if (trainer->full_weights == NULL)
        goto no_room;
    filling.base = trainer->full_weights;
    walk(&trainer->weights, trainer->dims.layers, tied, move_in, &filling);
    if (tied)
        trainer->weights.head = trainer->weights.embed;
    check(filling.at == job->parameters);
    trainer_put(trainer, 0, TRAIN_MATRICES, filling.values);
    free(filling.values);
    return STATUS_OK;

no_room:
    free(filling.values);
    trainer_job_close(trainer, 0);
    return STATUS_FULL;
}

void full_pack(struct trainer *trainer)
{
    const struct job *job = &trainer->jobs[0];

    if (trainer->config.mode == MODE_FAST)
        trainer->train->round(trainer->dev, trainer->full_weights, job->state[TRAIN_MATRICES], job->parameters);
}

void full_drop(struct trainer *trainer)
{
    if (trainer->config.mode == MODE_FAST)
        trainer->device->release(trainer->dev, trainer->full_weights);
    trainer->full_weights = NULL;
}

int64_t trainer_full_bytes(const struct model *model, enum mode mode)
{
    const int64_t parameters = (int64_t)model_parameters(&model->config);

    return TRAIN_STATE_COUNT * ((parameters * 4 + 255) / 256 * 256) + (mode == MODE_FAST ? (parameters * 2 + 255) / 256 * 256 : 0);
}

float *full_grad(const struct trainer *trainer, const void *weight_data)
{
    if (!trainer->config.full || weight_data == NULL)
        return NULL;
    return trainer->jobs[0].state[TRAIN_GRADIENTS] +
           ((const char *)weight_data - trainer->full_weights) / (int64_t)act_bytes(trainer->config.mode);
}
