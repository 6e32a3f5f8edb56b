#include "engine/train/run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/files/file.h"
#include "engine/train/run/internal.h"

#define HEAD_ROWS 256
#define PASS_SAMPLES_MAX 512
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

/* --- samples ---------------------------------------------------------------------------------------------------------------- */

const struct data_sample *run_sample(const struct run *run, int64_t step, int32_t at)
{
    const int64_t unit = step % run->steps_per_epoch * run->config->settings.batch + at / run->unit;

    return &run->config->data->sample[run->order[unit] * run->unit + at % run->unit];
}

struct train_sample run_sample_of(const struct data_set *set, int32_t index)
{
    const struct data_sample *sample = &set->sample[index];

    return (struct train_sample){.tokens = set->tokens + sample->at, .is_target = set->is_target + sample->at, .rows = sample->tokens};
}

/* How many samples the step has; they are in run->samples. */
static int32_t step_samples(struct run *run, int64_t step, int64_t *ret_tokens)
{
    const int32_t epoch = (int32_t)(step / run->steps_per_epoch);
    const int64_t first = step % run->steps_per_epoch * run->config->settings.batch;
    const int32_t count = run->unit * (int32_t)min_i64(run->config->settings.batch, run->units - first);
    const struct data_set *data = run->config->data;

    if (run->order_epoch != epoch)
        data_order((uint64_t)run->config->settings.seed, epoch, run->units, run->order);
    run->order_epoch = epoch;
    *ret_tokens = 0;
    for (int32_t i = 0; i < count; i++) {
        run->samples[i] = run_sample_of(data, (int32_t)(run_sample(run, step, i) - data->sample));
        *ret_tokens += run->samples[i].rows;
    }
    return count;
}

int32_t run_pass(struct run *run, const struct data_set *set, int32_t at)
{
    int32_t count = 0;
    int32_t rows = 0;

    for (; at + count < set->count && count + run->unit <= run->limits.samples_max; count += run->unit) {
        for (int32_t i = 0; i < run->unit; i++) {
            run->samples[count + i] = run_sample_of(set, at + count + i);
            rows += run->samples[count + i].rows;
        }
        if (rows > run->limits.rows_max)
            break;
    }
    check(count > 0); /* one unit always fits */
    return count;
}

/* --- validation ------------------------------------------------------------------------------------------------------------- */

static bool is_dpo(const struct run *run)
{
    return run->config->settings.method == RUN_DPO;
}

static bool is_stopped(const struct run *run)
{
    return *run->config->stop != 0;
}

/* Means over all targets, into the step's row. False: it was stopped. */
static bool validate(struct run *run, struct run_row *row)
{
    const struct data_set *set = run->config->validation;
    struct train_score sum = {0};

    for (int32_t at = 0; at < set->count;) {
        const int32_t count = run_pass(run, set, at);

        if (is_stopped(run))
            return false;
        trainer_logp(run->trainer, run->samples, count, run->scores);
        for (int32_t i = 0; i < count; i++) {
            sum.logp += run->scores[i].logp;
            sum.hits += run->scores[i].hits;
        }
        at += count;
    }
    row->valid_loss = -sum.logp / (double)set->targets_count;
    row->valid_accuracy = (double)sum.hits / (double)set->targets_count;
    return true;
}

/* After step head.step; keeps the best. END: stopped, and the step's row says that its evaluation is still to come. */
static enum status evaluate(struct run *run, struct refusal *refusal)
{
    struct checkpoint_head *head = &run->at.head;
    struct run_row *row = &run->at.rows[head->step - 1];

    if (!(is_dpo(run) ? run_prefer_validate(run, row) : validate(run, row)))
        return STATUS_END;
    if (!isfinite(row->valid_loss))
        return refuse(refusal, STATUS_INVALID, "the validation loss after step %lld is %g. Nothing was written; a lower learning rate may help",
                      (long long)head->step, row->valid_loss);
    if (head->best_step > 0 && !(row->valid_loss < head->best_loss)) {
        head->stale++;
        return STATUS_OK;
    }
    trainer_get(run->trainer, 0, TRAIN_MATRICES, run->at.best);
    head->best_step = head->step;
    head->best_loss = row->valid_loss;
    head->stale = 0;
    return STATUS_OK;
}

/* Whether the last step done wants an evaluation that it has not had. */
static bool evaluates_now(const struct run *run)
{
    const int64_t step = run->at.head.step;

    return run->config->validation != NULL && step > 0 && (step % run->evaluate_every == 0 || step == run->steps) &&
           isnan(run->at.rows[step - 1].valid_loss);
}

/* --- checkpoints ------------------------------------------------------------------------------------------------------------ */

static const enum train_state states[3] = {TRAIN_MATRICES, TRAIN_MOMENT1, TRAIN_MOMENT2};

static enum status save(struct run *run, struct refusal *refusal)
{
    struct run_saved saved = {.step = run->at.head.step, .bytes = checkpoint_bytes(&run->at.head)};
    enum status status;

    run->saved_at_ns = run->config->now_ns();
    for (int i = 0; i < 3; i++)
        trainer_get(run->trainer, 0, states[i], run->at.state[i]);
    run->at.head.updates = trainer_updates(run->trainer, 0);
    status = checkpoint_save(&run->folder, &run->at, refusal);
    saved.took_ns = run->config->now_ns() - run->saved_at_ns;
    if (status == STATUS_OK)
        run->config->saved(run->config->listener, &saved);
    return status;
}

static enum status load(struct run *run, struct refusal *refusal)
{
    const struct run_config *config = run->config;
    enum status status = checkpoint_load(&run->folder, &run->at, config->listener, config->said, refusal);
    char text[120];

    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status != STATUS_OK)
        return status;
    for (int i = 0; i < 3; i++)
        trainer_put(run->trainer, 0, states[i], run->at.state[i]);
    trainer_set_updates(run->trainer, 0, run->at.head.updates);
    snprintf(text, sizeof(text), "goes on from the checkpoint after step %lld of %lld", (long long)run->at.head.step, (long long)run->steps);
    config->said(config->listener, text);
    return STATUS_OK;
}

/* --- opening ---------------------------------------------------------------------------------------------------------------- */

void run_limits(const struct run_settings *settings, struct trainer_config *config)
{
    config->mode = (enum mode)settings->mode;
    config->rows_max = (int32_t)settings->row_tokens * (settings->method == RUN_DPO ? 2 : 1);
    config->job_rows_max = config->rows_max;
    config->positions_max = (int32_t)settings->row_tokens;
    config->samples_max = (int32_t)min_i64(PASS_SAMPLES_MAX, config->rows_max / 2 + 1);
    config->jobs_max = 1;
    config->lora_rank_max = lora_rank_padded((int32_t)settings->rank);
    config->head_rows = (int32_t)min_i64(HEAD_ROWS, settings->row_tokens);
}

static void plan(struct run *run)
{
    const struct run_settings *settings = &run->config->settings;
    const struct data_set *data = run->config->data;

    run->unit = is_dpo(run) ? 2 : 1;
    run->units = data->count / run->unit;
    check(data->count % run->unit == 0);
    run->steps_per_epoch = (run->units + settings->batch - 1) / settings->batch;
    run->steps = min_i64(run->steps_per_epoch * settings->epochs, STEPS_MAX);
    run->evaluate_every = settings->evaluate_every > 0 ? settings->evaluate_every : run->steps_per_epoch;
    run->schedule = (struct schedule){.kind = (enum schedule_kind)settings->schedule, .peak = settings->rate, .warmup_steps = run->steps / 20,
                                      .steps = run->steps};
    run->order_epoch = -1;
    run->limits = run->config->trainer;
    run->limits.stop = run->config->stop;
    run_limits(settings, &run->limits);
}

static enum status reserve(struct run *run, struct refusal *refusal)
{
    const size_t parameters = (size_t)trainer_parameters(run->trainer, 0);
    const size_t samples = (size_t)max_i64(run->unit * run->config->settings.batch, run->limits.samples_max);

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

static enum status identify(struct run *run, struct refusal *refusal)
{
    const struct run_config *config = run->config;
    struct checkpoint_head *head = &run->at.head;
    const bool cpu = config->trainer.device == &device_cpu;
    enum status status = safetensors_digest(config->model->files, config->stop, head->base);

    if (status != STATUS_OK)
        return refuse(refusal, status, status == STATUS_END ? "stopped before the first step" : "the base cannot be read");
    snprintf(head->magic, sizeof(head->magic), "%s", CHECKPOINT_MAGIC);
    head->numerics = RUN_NUMERICS;
    snprintf(head->computes, sizeof(head->computes), "%s", cpu ? kernel_set_name(config->trainer.kernels) : config->trainer.device->name);
    memcpy(head->data, config->data->digest, DIGEST_BYTES);
    if (config->validation != NULL)
        memcpy(head->validation, config->validation->digest, DIGEST_BYTES);
    head->settings = config->settings;
    head->parameters = trainer_parameters(run->trainer, 0);
    return STATUS_OK;
}

/* Said before hours of work rather than after them. */
static enum status check_out(const struct run_config *config, struct refusal *refusal)
{
    struct folder folder;
    enum status status = folder_begin(&folder, config->out, refusal);

    if (status == STATUS_OK)
        folder_abandon(&folder);
    else if (access(config->checkpoints, F_OK) == 0)
        refuse_also(refusal, status, "%s: if that adapter is this run's, these checkpoints of it are no longer needed", config->checkpoints);
    return status;
}

static enum status open_run(struct run *run, struct refusal *refusal)
{
    const struct run_config *config = run->config;
    struct optimizer optimizer = OPTIMIZER_DEFAULT;
    enum status status = check_out(config, refusal);

    plan(run);
    optimizer.decay = (float)config->settings.decay;
    optimizer.clip = (float)config->settings.clip;
    if (status == STATUS_OK)
        status = checkpoint_folder_open(config->checkpoints, &run->folder, refusal);
    if (status == STATUS_OK)
        status = trainer_open(config->model, &run->limits, &run->trainer, refusal);
    if (status == STATUS_OK)
        status = run_initial(run, &optimizer, refusal);
    if (status == STATUS_OK)
        status = reserve(run, refusal);
    if (status == STATUS_OK)
        status = identify(run, refusal);
    if (status == STATUS_OK && config->restart)
        checkpoint_folder_clear(&run->folder);
    if (status == STATUS_OK)
        status = load(run, refusal);
    return status == STATUS_OK && is_dpo(run) ? run_reference(run, refusal) : status;
}

/* --- running ---------------------------------------------------------------------------------------------------------------- */

static void tell(const struct run *run, struct run_step *step)
{
    const int64_t done = run->at.head.step - run->begun_step;

    step->step = run->at.head.step;
    step->steps = run->steps;
    step->epoch = 1 + (int32_t)((run->at.head.step - 1) / run->steps_per_epoch);
    step->left_ns = (run->config->now_ns() - run->begun_at_ns) / done * (run->steps - run->at.head.step);
    run->config->stepped(run->config->listener, step);
}

static enum status imitate(struct run *run, int32_t count, struct run_step *step)
{
    struct train_outcome outcome = {.loss = NAN, .targets = 1};
    const enum status status = trainer_step(run->trainer, run->samples, count, &step->rate, &outcome);

    step->loss = outcome.loss;
    step->accuracy = (double)outcome.hits / (double)outcome.targets;
    step->norm = outcome.norm;
    return status;
}

static enum status run_step(struct run *run, struct refusal *refusal)
{
    struct checkpoint_head *head = &run->at.head;
    const int64_t begun_at_ns = run->config->now_ns();
    struct run_step step = {.reward_margin = NAN, .rate = schedule_rate(&run->schedule, head->step)};
    const int32_t count = step_samples(run, head->step, &step.tokens);
    enum status status = is_dpo(run) ? run_prefer(run, count, &step) : imitate(run, count, &step);

    if (status == STATUS_END)
        return status;
    if (status != STATUS_OK || !isfinite(step.loss))
        return run_diagnose(run, run->samples, count, step.loss, refusal);
    step.step_ns = run->config->now_ns() - begun_at_ns;
    head->step++;
    run->at.rows[head->step - 1] = (struct run_row){step.loss, step.accuracy, NAN, NAN};
    if (evaluates_now(run))
        status = evaluate(run, refusal);
    step.valid_loss = run->at.rows[head->step - 1].valid_loss;
    step.valid_accuracy = run->at.rows[head->step - 1].valid_accuracy;
    if (status != STATUS_INVALID)
        tell(run, &step);
    return status;
}

static bool is_over(const struct run *run)
{
    const int64_t patience = run->config->settings.patience;

    return run->at.head.step == run->steps || (patience > 0 && run->at.head.stale >= patience);
}

static enum status run_steps(struct run *run, struct refusal *refusal)
{
    enum status status = evaluates_now(run) ? evaluate(run, refusal) : STATUS_OK; /* it was stopped before that */

    run->begun_at_ns = run->config->now_ns();
    run->saved_at_ns = run->begun_at_ns;
    run->begun_step = run->at.head.step;
    while (status == STATUS_OK && !is_over(run)) {
        status = run_step(run, refusal);
        if (status == STATUS_OK && is_stopped(run))
            status = STATUS_END;
        if (status == STATUS_OK && run->config->now_ns() - run->saved_at_ns >= run->config->checkpoint_every_ns)
            status = save(run, refusal);
    }
    if (status != STATUS_END)
        return status;
    status = save(run, refusal);
    return status != STATUS_OK ? status : refuse(refusal, STATUS_END, "stopped after step %lld of %lld; the same command goes on from there",
                                                 (long long)run->at.head.step, (long long)run->steps);
}

static enum status finish(struct run *run, struct run_outcome *ret_outcome, struct refusal *refusal)
{
    const struct checkpoint_head *head = &run->at.head;
    const struct run_row *last = &run->at.rows[head->step - 1];
    enum status status;

    if (head->best_step > 0)
        trainer_put(run->trainer, 0, TRAIN_MATRICES, run->at.best);
    status = run_write(run, run->at.state[0], refusal);
    if (status != STATUS_OK)
        return status;
    *ret_outcome = (struct run_outcome){.steps = head->step,
                                        .best_step = head->best_step > 0 ? head->best_step : head->step,
                                        .loss = last->loss,
                                        .accuracy = last->accuracy,
                                        .valid_loss = head->best_step > 0 ? head->best_loss : NAN,
                                        .valid_accuracy = head->best_step > 0 ? run->at.rows[head->best_step - 1].valid_accuracy : NAN,
                                        .stopped_early = head->step < run->steps};
    return STATUS_OK;
}

enum status run_train(const struct run_config *config, struct run_outcome *ret_outcome, struct refusal *refusal)
{
    struct run run = {.config = config, .folder = {.file = -1}};
    enum status status;

    check(config->settings.batch >= 1 && config->settings.epochs >= 1 && config->data->count >= 1);
    check(config->settings.method < RUN_METHOD_COUNT);
    check(config->settings.rank >= 1 && config->settings.rank <= LORA_RANK_MAX && config->settings.row_tokens >= 2);
    status = open_run(&run, refusal);
    if (status == STATUS_OK)
        status = run_steps(&run, refusal);
    if (status == STATUS_OK)
        status = finish(&run, ret_outcome, refusal);
    trainer_close(run.trainer);
    checkpoint_folder_close(&run.folder, status == STATUS_OK);
    free(run.order);
    free(run.samples);
    free(run.scores);
    free(run.reference);
    free(run.reference_valid);
    free(run.reference_step);
    free(run.at.rows);
    free(run.at.best);
    for (int i = 0; i < 3; i++)
        free(run.at.state[i]);
    return status;
}
