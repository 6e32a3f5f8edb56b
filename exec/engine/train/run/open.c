/* The beginning of a run: what it asks of a trainer, what is refused before there is one, and its checkpoint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/train/run/internal.h"

#define HEAD_ROWS 256
#define PASS_SAMPLES_MAX 512
#define PASS_ROWS 4096       /* of several runs; one may ask for more */
#define STEPS_MAX (INT64_C(1) << 31)

static const char *const methods[RUN_METHOD_COUNT] = {
#define X(name, text, about) text,
    RUN_METHODS(X)
#undef X
};

const char *run_method_name(enum run_method method)
{
    check(method < RUN_METHOD_COUNT);
    return methods[method];
}

bool run_method_find(const char *name, enum run_method *ret_method)
{
    for (enum run_method i = 0; i < RUN_METHOD_COUNT; i++)
        if (strcmp(methods[i], name) == 0) {
            *ret_method = i;
            return true;
        }
    return false;
}

void run_limits(const struct run_settings *settings, int32_t runs, struct trainer_config *config)
{
    const int64_t rows = settings->row_tokens * (settings->method == RUN_DPO ? 2 : 1);

    check(runs >= 1 && runs <= RUNS_MAX);
    config->mode = (enum mode)settings->mode;
    config->job_rows_max = (int32_t)rows;
    config->rows_max = (int32_t)min_i64(rows * runs, max_i64(rows, PASS_ROWS));
    config->positions_max = (int32_t)settings->row_tokens;
    config->job_samples_max = (int32_t)min_i64(PASS_SAMPLES_MAX, rows / 2 + 1);
    config->samples_max = (int32_t)min_i64((int64_t)config->job_samples_max * runs, max_i64(config->rows_max / 2 + 1, config->job_samples_max));
    config->jobs_max = runs;
    config->lora_rank_max = lora_rank_padded((int32_t)settings->rank);
    config->head_rows = (int32_t)min_i64(HEAD_ROWS, settings->row_tokens);
}

static void plan(struct run *run)
{
    const struct run_settings *settings = &run->config->settings;
    const struct data_set *data = run->config->data;
    struct trainer_config alone;

    run_limits(settings, 1, &alone);
    run->samples_max = alone.samples_max;
    run->rows_max = alone.rows_max;
    run->unit = run_is_dpo(run) ? 2 : 1;
    run->units = data->count / run->unit;
    check(data->count % run->unit == 0);
    run->steps_per_epoch = (run->units + settings->batch - 1) / settings->batch;
    run->steps = min_i64(run->steps_per_epoch * settings->epochs, STEPS_MAX);
    run->evaluate_every = settings->evaluate_every > 0 ? settings->evaluate_every : run->steps_per_epoch;
    run->schedule = (struct schedule){.kind = (enum schedule_kind)settings->schedule, .peak = settings->rate, .warmup_steps = run->steps / 20,
                                      .steps = run->steps};
    run->order_epoch = -1;
}

static enum status reserve(struct run *run, struct refusal *refusal)
{
    const size_t parameters = (size_t)trainer_parameters(run->trainer, run->job);
    const size_t samples = (size_t)max_i64(run->unit * run->config->settings.batch, run->samples_max);

    run->order = calloc((size_t)run->units, sizeof(*run->order));
    run->samples = calloc(samples, sizeof(*run->samples));
    run->scores = calloc(samples, sizeof(*run->scores));
    run->at.rows = calloc((size_t)run->steps, sizeof(*run->at.rows));
    run->at.rows_max = run->steps;
    run->at.best = calloc(parameters, sizeof(float));
    for (int i = 0; i < 3; i++)
        run->at.state[i] = calloc(parameters, sizeof(float));
    if (run->order == NULL || run->samples == NULL || run->scores == NULL || run->at.rows == NULL || run->at.best == NULL ||
        run->at.state[0] == NULL || run->at.state[1] == NULL || run->at.state[2] == NULL)
        return refuse(refusal, STATUS_FULL, "no memory for the run's numbers");
    return STATUS_OK;
}

void run_identify(struct run *run, const uint8_t base[DIGEST_BYTES])
{
    const struct run_config *config = run->config;
    struct checkpoint_head *head = &run->at.head;
    const bool cpu = config->trainer.device == &device_cpu;

    snprintf(head->magic, sizeof(head->magic), "%s", CHECKPOINT_MAGIC);
    head->numerics = RUN_NUMERICS;
    snprintf(head->computes, sizeof(head->computes), "%s", cpu ? kernel_set_name(config->trainer.kernels) : config->trainer.device->name);
    memcpy(head->base, base, DIGEST_BYTES);
    memcpy(head->data, config->data->digest, DIGEST_BYTES);
    if (config->validation != NULL)
        memcpy(head->validation, config->validation->digest, DIGEST_BYTES);
    head->settings = config->settings;
}

void run_begin(struct run *run)
{
    const struct run_config *config = run->config;
    const struct run_settings *settings = &config->settings;
    struct run_result *result = run->result;

    check(settings->batch >= 1 && settings->epochs >= 1 && config->data->count >= 1);
    check(settings->method < RUN_METHOD_COUNT);
    check(settings->rank >= 1 && settings->rank <= LORA_RANK_MAX && settings->row_tokens >= 2);
    run->folder.file = -1;
    plan(run);
    run->place = config->memory != NULL ? &run_held : &run_disk;
    result->status = run->place->begin(run, &result->refusal);
}

static enum status load(struct run *run, struct refusal *refusal)
{
    const struct run_config *config = run->config;
    enum status status = run->place->load(run, refusal);
    char text[120];

    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status != STATUS_OK)
        return status;
    for (int i = 0; i < 3; i++)
        trainer_put(run->trainer, run->job, run_states[i], run->at.state[i]);
    trainer_set_updates(run->trainer, run->job, run->at.head.updates);
    snprintf(text, sizeof(text), "goes on from the checkpoint after step %lld of %lld", (long long)run->at.head.step, (long long)run->steps);
    config->said(config->listener, text);
    return STATUS_OK;
}

enum status run_load(struct run *run, struct refusal *refusal)
{
    const struct run_config *config = run->config;
    struct optimizer optimizer = OPTIMIZER_DEFAULT;
    enum status status;

    optimizer.decay = (float)config->settings.decay;
    optimizer.clip = (float)config->settings.clip;
    status = run_initial(run, &optimizer, refusal);
    if (status == STATUS_OK)
        status = reserve(run, refusal);
    if (status != STATUS_OK)
        return status;
    run->at.head.parameters = trainer_parameters(run->trainer, run->job);
    /* Before the state: what is preferred against are the matrices that it began from. */
    if (run_is_dpo(run))
        status = run_reference(run, refusal);
    return status == STATUS_OK ? load(run, refusal) : status;
}
