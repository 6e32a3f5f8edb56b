/* One run among those that share a trainer: from its folders and its checkpoint, step by step, to its adapter. */
#include "engine/train/run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/files/file.h"
#include "engine/train/run/internal.h"

/* --- samples ---------------------------------------------------------------------------------------------------------------- */

const struct data_sample *run_sample(const struct run *run, int64_t step, int32_t at)
{
    const int64_t unit = step % run->steps_per_epoch * run->config->settings.batch + at / run->unit;

    return &run->config->data->sample[run->order[unit] * run->unit + at % run->unit];
}

struct train_sample run_sample_of(const struct run *run, const struct data_set *set, int32_t index)
{
    const struct data_sample *sample = &set->sample[index];

    return (struct train_sample){
        .tokens = set->tokens + sample->at, .is_target = set->is_target + sample->at, .rows = sample->tokens, .job = run->job};
}

void run_step_begin(struct run *run)
{
    const struct data_set *data = run->config->data;
    const int64_t done = run->at.head.step;
    const int32_t epoch = (int32_t)(done / run->steps_per_epoch);
    const int64_t first = done % run->steps_per_epoch * run->config->settings.batch;

    if (run->order_epoch != epoch)
        data_order((uint64_t)run->config->settings.seed, epoch, run->units, run->order);
    run->order_epoch = epoch;
    run->count = run->unit * (int32_t)min_i64(run->config->settings.batch, run->units - first);
    run->step = (struct run_step){.step_ns = -run->config->now_ns(), .rate = schedule_rate(&run->schedule, done), .loss = NAN, .norm = NAN,
                                  .reward_margin = NAN};
    for (int32_t i = 0; i < run->count; i++) {
        run->samples[i] = run_sample_of(run, data, (int32_t)(run_sample(run, done, i) - data->sample));
        run->step.tokens += run->samples[i].rows;
    }
}

int32_t run_pass(struct run *run, const struct data_set *set, int32_t at)
{
    int32_t count = 0;
    int32_t rows = 0;

    for (; at + count < set->count && count + run->unit <= run->samples_max; count += run->unit) {
        for (int32_t i = 0; i < run->unit; i++) {
            run->samples[count + i] = run_sample_of(run, set, at + count + i);
            rows += run->samples[count + i].rows;
        }
        if (rows > run->rows_max)
            break;
    }
    check(count > 0); /* one unit always fits */
    return count;
}

/* --- validation ------------------------------------------------------------------------------------------------------------- */

bool run_is_dpo(const struct run *run)
{
    return run->config->settings.method == RUN_DPO;
}

bool run_is_stopped(const struct run *run)
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

        if (run_is_stopped(run))
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

    if (!(run_is_dpo(run) ? run_prefer_validate(run, row) : validate(run, row)))
        return STATUS_END;
    if (!isfinite(row->valid_loss))
        return refuse(refusal, STATUS_INVALID, "the validation loss after step %lld is %g. Nothing was written; a lower learning rate may help",
                      (long long)head->step, row->valid_loss);
    if (head->best_step > 0 && !(row->valid_loss < head->best_loss - run->config->settings.min_delta)) {
        head->stale++;
        return STATUS_OK;
    }
    trainer_get(run->trainer, run->job, TRAIN_MATRICES, run->at.best);
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

const enum train_state run_states[3] = {TRAIN_MATRICES, TRAIN_MOMENT1, TRAIN_MOMENT2};

static enum status save(struct run *run, struct refusal *refusal)
{
    struct run_saved saved = {.step = run->at.head.step, .bytes = checkpoint_bytes(&run->at.head)};
    enum status status;

    run->saved_at_ns = run->config->now_ns();
    for (int i = 0; i < 3; i++)
        trainer_get(run->trainer, run->job, run_states[i], run->at.state[i]);
    run->at.head.updates = trainer_updates(run->trainer, run->job);
    status = run->place->save(run, refusal);
    saved.took_ns = run->config->now_ns() - run->saved_at_ns;
    if (status == STATUS_OK)
        run->config->saved(run->config->listener, &saved);
    return status;
}

/* --- running ---------------------------------------------------------------------------------------------------------------- */

bool run_goes_on(const struct run *run)
{
    return run->result->status == STATUS_OK && !run->done;
}

static bool is_over(const struct run *run)
{
    const int64_t patience = run->config->settings.patience;

    return run->at.head.step == run->steps || (patience > 0 && run->at.head.stale >= patience);
}

/* As it would be written now. */
static struct run_outcome outcome_of(const struct run *run)
{
    const struct checkpoint_head *head = &run->at.head;
    const struct run_row *last = &run->at.rows[head->step - 1];

    return (struct run_outcome){.steps = head->step,
                                .best_step = head->best_step > 0 ? head->best_step : head->step,
                                .loss = last->loss,
                                .accuracy = last->accuracy,
                                .valid_loss = head->best_step > 0 ? head->best_loss : NAN,
                                .valid_accuracy = head->best_step > 0 ? run->at.rows[head->best_step - 1].valid_accuracy : NAN,
                                .stopped_early = head->step < run->steps,
                                .recompute = run->recompute};
}

static enum status finish(struct run *run, struct run_outcome *ret_outcome, struct refusal *refusal)
{
    const struct run_outcome outcome = outcome_of(run);
    enum status status;

    if (run->at.head.best_step > 0)
        trainer_put(run->trainer, run->job, TRAIN_MATRICES, run->at.best);
    status = run_give(run, run->at.state[0], &outcome, run->place->finish, refusal);
    if (status != STATUS_OK)
        return status;
    *ret_outcome = outcome;
    run->done = true;
    return STATUS_OK;
}

/* At an epoch's end but the last. */
static enum status give_epoch(struct run *run, struct refusal *refusal)
{
    const struct run_outcome outcome = outcome_of(run);

    if (run->place->epoch == NULL || run->at.head.step % run->steps_per_epoch != 0 || is_over(run))
        return STATUS_OK;
    return run_give(run, run->at.state[0], &outcome, run->place->epoch, refusal);
}

/* Between two steps, after `status`: the adapter when it is over, a checkpoint when it is stopped or when it is time. */
static enum status go_on(struct run *run, enum status status, struct run_result *result)
{
    if (status == STATUS_OK && run_is_stopped(run))
        status = STATUS_END;
    if (status == STATUS_OK && run->config->now_ns() - run->saved_at_ns >= run->config->checkpoint_every_ns)
        status = save(run, &result->refusal);
    if (status == STATUS_OK && is_over(run))
        return finish(run, &result->outcome, &result->refusal);
    if (status != STATUS_END)
        return status;
    status = save(run, &result->refusal);
    return status != STATUS_OK ? status : refuse(&result->refusal, STATUS_END, "stopped after step %lld of %lld; the same command goes on from there",
                                                 (long long)run->at.head.step, (long long)run->steps);
}

/* After a step and its evaluation. */
static enum status step_done(struct run *run, enum status status, struct run_result *result)
{
    if (status == STATUS_OK)
        status = give_epoch(run, &result->refusal);
    return go_on(run, status, result);
}

/* An adapter is there already; result->refusal says so. */
static void take_found(struct run *run, struct run_result *result)
{
    struct refusal ignored;

    run->done = run_record_is_mine(run, &result->outcome);
    result->status = run->done ? STATUS_OK : STATUS_INVALID;
    if (!run->done)
        return;
    run->config->said(run->config->listener, "the adapter is there already, and is this run's: there is nothing to do");
    if (access(run->config->checkpoints, F_OK) == 0) /* it was killed before they went */
        (void)checkpoint_folder_open(run->config->checkpoints, &run->folder, &ignored);
}

void run_open(struct run *run, const uint8_t base[DIGEST_BYTES])
{
    struct run_result *result = run->result;

    run_identify(run, base);
    if (run->found) {
        take_found(run, result);
        return;
    }
    result->status = run_load(run, &result->refusal);
    if (result->status != STATUS_OK)
        return;
    run->begun_at_ns = run->config->now_ns();
    run->saved_at_ns = run->begun_at_ns;
    run->begun_step = run->at.head.step;
    if (evaluates_now(run)) /* it was stopped before that */
        result->status = step_done(run, evaluate(run, &result->refusal), result);
    else if (is_over(run))
        result->status = finish(run, &result->outcome, &result->refusal);
    else if (run->config->memory != NULL && run->config->memory->epoch_due && run->at.head.step > 0)
        result->status = step_done(run, STATUS_OK, result);
}

static void tell(struct run *run)
{
    struct run_step *step = &run->step;
    const int64_t done = run->at.head.step - run->begun_step;

    step->step = run->at.head.step;
    step->steps = run->steps;
    step->epoch = 1 + (int32_t)((run->at.head.step - 1) / run->steps_per_epoch);
    step->left_ns = (run->config->now_ns() - run->begun_at_ns) / done * (run->steps - run->at.head.step);
    run->config->stepped(run->config->listener, step);
}

/* The step's row, its evaluation if it wants one, and what is said of it. */
static enum status step_note(struct run *run, struct refusal *refusal)
{
    struct checkpoint_head *head = &run->at.head;
    struct run_step *step = &run->step;
    struct run_row *row = &run->at.rows[head->step];
    enum status status = STATUS_OK;

    head->step++;
    step->step_ns += run->config->now_ns();
    *row = (struct run_row){step->loss, step->accuracy, NAN, NAN};
    if (evaluates_now(run))
        status = evaluate(run, refusal);
    step->valid_loss = row->valid_loss;
    step->valid_accuracy = row->valid_accuracy;
    if (status != STATUS_INVALID)
        tell(run);
    return status;
}

void run_step_end(struct run *run, enum status status)
{
    struct run_result *result = run->result;

    if (status == STATUS_OK)
        status = step_note(run, &result->refusal);
    else if (status == STATUS_INVALID)
        status = run_diagnose(run, run->step.loss, &result->refusal);
    result->status = step_done(run, status, result);
}

void run_close(struct run *run)
{
    if (run->trainer != NULL)
        trainer_job_close(run->trainer, run->job);
    run->trainer = NULL;
    run->place->close(run);
    free(run->order);
    free(run->samples);
    free(run->scores);
    free(run->reference);
    free(run->reference_valid);
    free(run->reference_step);
    free(run->at.rows);
    free(run->at.best);
    for (int i = 0; i < 3; i++)
        free(run->at.state[i]);
    run->at = (struct checkpoint){.head = {.step = 0}};
    run->order = NULL;
    run->samples = NULL;
    run->scores = NULL;
    run->reference = NULL;
    run->reference_valid = NULL;
    run->reference_step = NULL;
}
