/* A step of several jobs: their samples cut into passes, then an update each. */
#include "engine/train/internal.h"

#include <math.h>
#include <stdlib.h>

/* Memory of one call. */
struct step {
    const struct train_sample *samples;
    int32_t count;
    int32_t *next;                  /* [jobs]: the first sample of a job that is not done */
    int64_t *targets;               /* [jobs] */
    struct train_score *sum;        /* [jobs] */
    struct train_sample *pass;      /* [samples_max] */
    struct train_score *scores;     /* [samples_max] */
};

static int32_t next_of(const struct step *step, int32_t job, int32_t from)
{
    while (from < step->count && step->samples[from].job != job)
        from++;
    return from;
}

static int64_t targets_of(const struct train_sample *sample)
{
    int64_t targets = 0;

    for (int32_t t = 0; t < sample->rows; t++)
        targets += sample->is_target[t] != 0;
    return targets;
}

/* Samples of a job's next piece: as many as fit job_rows_max and job_samples_max, whatever else is in the pass. */
static int32_t piece_of(const struct trainer *trainer, const struct step *step, int32_t job, int32_t *ret_rows)
{
    const int32_t most = job_samples_max(&trainer->config);
    int32_t samples = 0;
    int32_t rows = 0;

    for (int32_t at = step->next[job]; at < step->count; at = next_of(step, job, at + 1)) {
        if (samples == most || rows + step->samples[at].rows > trainer->config.job_rows_max)
            break;
        samples++;
        rows += step->samples[at].rows;
    }
    *ret_rows = rows;
    return samples;
}

/* Adds the piece if it fits what the pass has left; returns the pass's samples after it. */
static int32_t piece_add(const struct trainer *trainer, struct step *step, int32_t job, int32_t in_pass, int32_t *pass_rows)
{
    int32_t rows;
    int32_t samples = piece_of(trainer, step, job, &rows);

    if (in_pass + samples > trainer->config.samples_max || *pass_rows + rows > trainer->config.rows_max)
        return in_pass;
    *pass_rows += rows;
    for (; samples > 0; samples--) {
        step->pass[in_pass] = step->samples[step->next[job]];
        step->pass[in_pass++].coef = 1.0f / (float)step->targets[job];
        step->next[job] = next_of(step, job, step->next[job] + 1);
    }
    return in_pass;
}

/* False: it was stopped between two passes. */
static bool passes_run(struct trainer *trainer, struct step *step)
{
    const int32_t jobs = trainer->config.jobs_max;
    int32_t in_pass;

    do {
        int32_t rows = 0;

        if (trainer->config.stop != NULL && *trainer->config.stop != 0)
            return false;
        in_pass = 0;
        for (int32_t job = 0; job < jobs; job++)
            if (step->next[job] < step->count && step->targets[job] > 0)
                in_pass = piece_add(trainer, step, job, in_pass, &rows);
        if (in_pass > 0)
            trainer_pass(trainer, step->pass, in_pass, step->scores);
        for (int32_t i = 0; i < in_pass; i++) {
            step->sum[step->pass[i].job].logp += step->scores[i].logp;
            step->sum[step->pass[i].job].hits += step->scores[i].hits;
        }
    } while (in_pass > 0);
    return true;
}

/* What a step that was stopped has gathered. */
static void gradients_drop(struct trainer *trainer, const struct step *step)
{
    for (int32_t job = 0; job < trainer->config.jobs_max; job++)
        if (next_of(step, job, 0) < step->count)
            trainer->train->zero(trainer->dev, trainer->jobs[job].state[TRAIN_GRADIENTS], trainer->jobs[job].parameters);
}

static enum status updates_run(struct trainer *trainer, const struct step *step, const double *rates, struct train_outcome *ret_outcomes)
{
    enum status worst = STATUS_OK;

    for (int32_t job = 0; job < trainer->config.jobs_max; job++) {
        struct train_outcome *outcome = &ret_outcomes[job];

        if (next_of(step, job, 0) == step->count)
            continue;
        *outcome = (struct train_outcome){.loss = NAN, .norm = NAN, .targets = step->targets[job], .hits = step->sum[job].hits};
        if (step->targets[job] == 0) {
            worst = STATUS_INVALID;
            continue;
        }
        check(step->next[job] == step->count); /* a piece always fits an empty pass */
        outcome->loss = -step->sum[job].logp / (double)step->targets[job];
        if (trainer_update(trainer, job, rates[job], &outcome->norm) != STATUS_OK)
            worst = STATUS_INVALID;
    }
    return worst;
}

enum status trainer_step(struct trainer *trainer, const struct train_sample *samples, int32_t count, const double *rates,
                         struct train_outcome *ret_outcomes)
{
    const size_t jobs = (size_t)trainer->config.jobs_max;
    const size_t most = (size_t)trainer->config.samples_max;
    struct step step = {.samples = samples,
                        .count = count,
                        .next = calloc(jobs, sizeof(int32_t)),
                        .targets = calloc(jobs, sizeof(int64_t)),
                        .sum = calloc(jobs, sizeof(struct train_score)),
                        .pass = calloc(most, sizeof(struct train_sample)),
                        .scores = calloc(most, sizeof(struct train_score))};
    enum status status;

    check(step.next != NULL && step.targets != NULL && step.sum != NULL && step.pass != NULL && step.scores != NULL);
    for (int32_t i = 0; i < count; i++) {
        check(samples[i].job >= 0 && samples[i].job < trainer->config.jobs_max);
        step.targets[samples[i].job] += targets_of(&samples[i]);
    }
    for (int32_t job = 0; job < trainer->config.jobs_max; job++)
        step.next[job] = next_of(&step, job, 0);
    if (passes_run(trainer, &step)) {
        status = updates_run(trainer, &step, rates, ret_outcomes);
    } else {
        gradients_drop(trainer, &step);
        status = STATUS_END;
    }
    free(step.next);
    free(step.targets);
    free(step.sum);
    free(step.pass);
    free(step.scores);
    return status;
}
