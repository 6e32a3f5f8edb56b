/* A job's matrices, gradients and moments: one run of numbers each, so that a norm is one sum and an update one call. */
#include "engine/train/internal.h"

#include <math.h>
#include <stdlib.h>

#include "engine/lora/pack.h"
#include "engine/model/shard.h"

/* Lays a job's pairs out; returns the number of its parameters. */
static int64_t places_of(const struct lora_source *source, const struct dims *dims, struct pair_place *ret_place)
{
    int64_t at = 0;

    for (int32_t layer = 0; layer < source->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            const struct lora_pair *pair = lora_source_pair(source, layer, module);
            struct pair_place place = {.there = pair->a != NULL};

            if (place.there) {
                place.rank = pair->rank;
                place.scale = pair->scale;
                place.a = at;
                place.b = at + (int64_t)pair->rank * lora_module_in(dims, module);
                at = place.b + (int64_t)pair->rank * lora_module_out(dims, module);
            }
            if (ret_place != NULL)
                ret_place[layer * LORA_MODULE_COUNT + (int32_t)module] = place;
        }
    return at;
}

int64_t trainer_job_bytes(const struct lora_source *initial, const struct dims *dims)
{
    return TRAIN_STATE_COUNT * ((places_of(initial, dims, NULL) * 4 + 255) / 256 * 256);
}

static struct job *job_of(const struct trainer *trainer, int32_t job)
{
    check(job >= 0 && job < trainer->config.jobs_max && trainer->jobs[job].open);
    return &trainer->jobs[job];
}

static void widen(float *to, enum dtype dtype, const void *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = dtype_load(dtype, from, (size_t)i);
}

static void matrices_take(struct job *job, const struct lora_source *initial, const struct dims *dims)
{
    job->lowest = initial->layers;
    for (int32_t i = 0; i < initial->layers * LORA_MODULE_COUNT; i++) {
        const struct pair_place *place = &job->place[i];
        const struct lora_pair *pair = &initial->pair[i];
        const enum lora_module module = (enum lora_module)(i % LORA_MODULE_COUNT);

        if (!place->there)
            continue;
        if (i / LORA_MODULE_COUNT < job->lowest)
            job->lowest = i / LORA_MODULE_COUNT;
        widen(job->values + place->a, pair->a_dtype, pair->a, (int64_t)pair->rank * lora_module_in(dims, module));
        widen(job->values + place->b, pair->b_dtype, pair->b, (int64_t)pair->rank * lora_module_out(dims, module));
    }
}

bool job_reserve_states(struct trainer *trainer, struct job *job)
{
    bool all = true;

    for (int i = 0; i < TRAIN_STATE_COUNT; i++) {
        job->state[i] = trainer->device->reserve(trainer->dev, (size_t)job->parameters * sizeof(float));
        all = all && job->state[i] != NULL;
    }
    return all;
}

static bool job_reserve(struct trainer *trainer, struct job *job)
{
    const size_t pairs = (size_t)trainer->dims.layers * LORA_MODULE_COUNT;
    const size_t bytes = (size_t)job->parameters * sizeof(float);

    job->place = calloc(pairs, sizeof(*job->place));
    job->pairs = calloc(pairs, sizeof(*job->pairs));
    job->values = malloc(bytes);
    job->packed = malloc((size_t)job->packed_bytes);
    return job_reserve_states(trainer, job) && job->place != NULL && job->pairs != NULL && job->values != NULL && job->packed != NULL;
}

/* The matrices are this rank's. */
static enum status job_fill(struct trainer *trainer, int32_t index, const struct lora_source *initial, const struct optimizer *optimizer)
{
    struct job *job = &trainer->jobs[index];

    *job = (struct job){.open = true, .optimizer = *optimizer, .rank = initial->rank, .modules = initial->modules};
    job->parameters = places_of(initial, &trainer->dims, NULL);
    job->packed_bytes = lora_pack_bytes(initial, &trainer->dims, trainer->config.mode);
    check(job->parameters > 0 && job->packed_bytes <= trainer->slot_bytes);
    if (!job_reserve(trainer, job)) {
        trainer_job_close(trainer, index);
        return STATUS_FULL;
    }
    places_of(initial, &trainer->dims, job->place);
    matrices_take(job, initial, &trainer->dims);
    trainer->device->put(trainer->dev, LANE_COMPUTE, job->state[TRAIN_MATRICES], job->values, (size_t)job->parameters * sizeof(float));
    job_pack(trainer, index);
    return STATUS_OK;
}

enum status trainer_job_open(struct trainer *trainer, int32_t index, const struct lora_source *initial, const struct optimizer *optimizer)
{
    struct lora_shard shard;
    enum status status;

    check(index >= 0 && index < trainer->config.jobs_max && !trainer->jobs[index].open && !trainer->config.full);
    check(initial->layers == trainer->dims.layers && lora_rank_padded(initial->rank) <= trainer->config.lora_rank_max);
    status = lora_shard_open(&shard, initial, &trainer->whole, trainer->config.rank, trainer->tp);
    if (status == STATUS_OK)
        status = job_fill(trainer, index, &shard.source, optimizer);
    lora_shard_close(&shard);
    return status;
}

void trainer_job_close(struct trainer *trainer, int32_t index)
{
    struct job *job;

    check(index >= 0 && index < trainer->config.jobs_max);
    job = &trainer->jobs[index];
    if (!job->open)
        return;
    for (int i = 0; i < TRAIN_STATE_COUNT; i++)
        trainer->device->release(trainer->dev, job->state[i]);
    if (trainer->config.full)
        full_drop(trainer);
    free(job->place);
    free(job->pairs);
    free(job->values);
    free(job->packed);
    *job = (struct job){0};
}

int64_t trainer_parameters(const struct trainer *trainer, int32_t job)
{
    return job_of(trainer, job)->parameters;
}

void trainer_get(struct trainer *trainer, int32_t job, enum train_state state, float *ret_values)
{
    const struct job *it = job_of(trainer, job);

    check(state < TRAIN_STATE_COUNT);
    trainer->device->get(trainer->dev, LANE_COMPUTE, ret_values, it->state[state], (size_t)it->parameters * sizeof(float));
    trainer->device->finish(trainer->dev, LANE_COMPUTE);
}

void trainer_put(struct trainer *trainer, int32_t job, enum train_state state, const float *values)
{
    const struct job *it = job_of(trainer, job);

    check(state < TRAIN_STATE_COUNT);
    trainer->device->put(trainer->dev, LANE_COMPUTE, it->state[state], values, (size_t)it->parameters * sizeof(float));
    trainer->device->finish(trainer->dev, LANE_COMPUTE);
    if (state == TRAIN_MATRICES)
        job_pack(trainer, job);
}

int64_t trainer_updates(const struct trainer *trainer, int32_t job)
{
    return job_of(trainer, job)->updates;
}

void trainer_set_updates(struct trainer *trainer, int32_t job, int64_t updates)
{
    check(updates >= 0);
    job_of(trainer, job)->updates = updates;
}

/* Points the job's pairs into `values`. */
static struct lora_source source_of(const struct trainer *trainer, const struct job *job, const float *values)
{
    for (int32_t i = 0; i < trainer->dims.layers * LORA_MODULE_COUNT; i++) {
        const struct pair_place *place = &job->place[i];

        job->pairs[i] = (struct lora_pair){.a_dtype = DTYPE_F32, .b_dtype = DTYPE_F32};
        if (place->there)
            job->pairs[i] = (struct lora_pair){.a = values + place->a,
                                               .b = values + place->b,
                                               .a_dtype = DTYPE_F32,
                                               .b_dtype = DTYPE_F32,
                                               .rank = place->rank,
                                               .scale = place->scale};
    }
    return (struct lora_source){.layers = trainer->dims.layers, .rank = job->rank, .modules = job->modules, .pair = job->pairs};
}

struct lora_source trainer_source(struct trainer *trainer, int32_t job, float *values)
{
    check(!trainer->config.full);
    trainer_get(trainer, job, TRAIN_MATRICES, values);
    return source_of(trainer, job_of(trainer, job), values);
}

void job_pack(struct trainer *trainer, int32_t index)
{
    struct job *job = job_of(trainer, index);
    struct lora_source source;
    const struct lora_slot slot = {.offset = index * trainer->slot_bytes,
                                   .rank = lora_rank_padded(job->rank),
                                   .generation = (uint32_t)job->updates,
                                   .modules = job->modules};

    if (trainer->config.full) {
        full_pack(trainer);
        return;
    }
    source = trainer_source(trainer, index, job->values);
    lora_pack(&source, &trainer->dims, trainer->config.mode, trainer->device->b_in_pairs, job->packed);
    trainer->device->put(trainer->dev, LANE_COMPUTE, trainer->pool + slot.offset, job->packed, (size_t)job->packed_bytes);
    trainer->device->put(trainer->dev, LANE_COMPUTE, trainer->slots + index, &slot, sizeof(slot));
    trainer->device->finish(trainer->dev, LANE_COMPUTE);
}

/* --- updates ---------------------------------------------------------------------------------------------------------------- */

/* One matrix of a job, where its gradient is. A whole one is the same at all ranks, and each has a part of its gradient's sum: q, k, v,
 * gate and up know their own outputs' share of A's, o and down their own inputs' share of B's. */
struct piece_of_job {
    int64_t at;
    int64_t count;
    bool whole;
};

/* The pair's A and B; false: it has none. */
static bool pieces_of_pair(const struct trainer *trainer, const struct job *job, int32_t index, struct piece_of_job ret_piece[2])
{
    const struct pair_place *place = &job->place[index];
    const enum lora_module module = (enum lora_module)(index % LORA_MODULE_COUNT);

    ret_piece[0] = (struct piece_of_job){place->a, (int64_t)place->rank * lora_module_in(&trainer->dims, module), !shard_by_columns(module)};
    ret_piece[1] = (struct piece_of_job){place->b, (int64_t)place->rank * lora_module_out(&trainer->dims, module), shard_by_columns(module)};
    return place->there;
}

static double sum_of_squares(struct trainer *trainer, const float *values, int64_t count)
{
    double squares;

    trainer->train->sumsq(trainer->dev, trainer->sum, values, count);
    trainer->device->get(trainer->dev, LANE_COMPUTE, &squares, trainer->sum, sizeof(squares));
    trainer->device->finish(trainer->dev, LANE_COMPUTE);
    return squares;
}

/* Every rank's norm in a place of its own, so that adding them up is telling them. */
static double norm_of_ranks(struct trainer *trainer, double squares)
{
    float norms[RANKS_MAX] = {0};
    double sum = 0;

    norms[trainer->config.rank] = (float)sqrt(squares);
    trainer->device->put(trainer->dev, LANE_COMPUTE, trainer->norms, norms, sizeof(norms));
    trainer->ops->all_reduce(trainer->dev, trainer->norms, RANKS_MAX);
    trainer->device->get(trainer->dev, LANE_COMPUTE, norms, trainer->norms, sizeof(norms));
    trainer->device->finish(trainer->dev, LANE_COMPUTE);
    for (int32_t rank = 0; rank < trainer->tp; rank++)
        sum += (double)norms[rank] * (double)norms[rank];
    return sqrt(sum);
}

/* Sums what ranks share of the job's gradient, and returns the norm of all of it, in which whole matrices count once. */
static double gradient_join(struct trainer *trainer, const struct job *job)
{
    float *gradients = job->state[TRAIN_GRADIENTS];
    double squares = 0;

    if (trainer->tp == 1)
        return sqrt(sum_of_squares(trainer, gradients, job->parameters));
    for (int32_t i = 0; i < trainer->dims.layers * LORA_MODULE_COUNT; i++) {
        struct piece_of_job piece[2];

        if (!pieces_of_pair(trainer, job, i, piece))
            continue;
        for (int j = 0; j < 2; j++) {
            if (piece[j].whole)
                trainer->ops->all_reduce(trainer->dev, gradients + piece[j].at, piece[j].count);
            if (!piece[j].whole || trainer->config.rank == 0)
                squares += sum_of_squares(trainer, gradients + piece[j].at, piece[j].count);
        }
    }
    return norm_of_ranks(trainer, squares);
}

enum status trainer_update(struct trainer *trainer, int32_t index, double rate, double *ret_norm)
{
    struct job *job = job_of(trainer, index);
    const struct optimizer *optimizer = &job->optimizer;
    struct adamw adamw = {.rate = (float)rate,
                          .beta1 = optimizer->beta1,
                          .beta2 = optimizer->beta2,
                          .epsilon = optimizer->epsilon,
                          .decay = optimizer->decay,
                          .gradient_scale = 1};
    const double norm = gradient_join(trainer, job);

    *ret_norm = norm;
    if (!isfinite(norm)) {
        trainer->train->zero(trainer->dev, job->state[TRAIN_GRADIENTS], job->parameters);
        return STATUS_INVALID;
    }
    job->updates++;
    adamw.correction1 = (float)(1 - pow((double)optimizer->beta1, (double)job->updates));
    adamw.correction2 = (float)(1 - pow((double)optimizer->beta2, (double)job->updates));
    if (optimizer->clip > 0)
        adamw.gradient_scale = (float)fmin(1, (double)optimizer->clip / (norm + 1e-6));
    trainer->train->adamw(trainer->dev, job->state[TRAIN_MATRICES], job->state[TRAIN_MOMENT1], job->state[TRAIN_MOMENT2],
                          job->state[TRAIN_GRADIENTS], job->parameters, &adamw);
    trainer->train->zero(trainer->dev, job->state[TRAIN_GRADIENTS], job->parameters);
    job_pack(trainer, index);
    return STATUS_OK;
}
