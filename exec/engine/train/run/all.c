/* Runs together: one trainer, and at each turn a step of every run that goes on, all in one batch. One run is the case of one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/train/run/internal.h"

struct runs {
    const struct run_config *configs;
    int32_t count;
    struct trainer *trainer;
    struct run *run;                  /* [count]: number of its job, too */
    struct train_sample *samples;     /* of a step of all [the sum of batches] */
    double *rates;                    /* [count] */
    struct train_outcome *outcomes;   /* [count] */
};

static bool any_goes_on(const struct runs *runs)
{
    for (int32_t i = 0; i < runs->count; i++)
        if (run_goes_on(&runs->run[i]))
            return true;
    return false;
}

/* --- opening ---------------------------------------------------------------------------------------------------------------- */

/* What all of them want at most. */
static struct trainer_config limits_of(const struct runs *runs)
{
    struct trainer_config limits = runs->configs[0].trainer;
    struct run_settings settings = runs->configs[0].settings;

    for (int32_t i = 0; i < runs->count; i++) {
        const struct run_config *config = &runs->configs[i];

        check(config->model == runs->configs[0].model && config->stop == runs->configs[0].stop);
        check(config->settings.mode == settings.mode && config->settings.method == settings.method);
        check(config->settings.row_tokens == settings.row_tokens);
        settings.rank = max_i64(settings.rank, config->settings.rank);
    }
    run_limits(&settings, runs->count, &limits);
    limits.stop = runs->configs[0].stop;
    return limits;
}

static bool reserve(struct runs *runs)
{
    int64_t samples = 0;

    for (int32_t i = 0; i < runs->count; i++)
        samples += runs->configs[i].settings.batch;
    runs->run = calloc((size_t)runs->count, sizeof(*runs->run));
    runs->samples = calloc((size_t)samples, sizeof(*runs->samples));
    runs->rates = calloc((size_t)runs->count, sizeof(*runs->rates));
    runs->outcomes = calloc((size_t)runs->count, sizeof(*runs->outcomes));
    return runs->run != NULL && runs->samples != NULL && runs->rates != NULL && runs->outcomes != NULL;
}

/* What ends all of them. */
static void refuse_all(struct runs *runs, enum status status, const struct refusal *refusal)
{
    for (int32_t i = 0; i < runs->count; i++) {
        if (!run_goes_on(&runs->run[i]))
            continue;
        runs->run[i].result->status = status;
        runs->run[i].result->refusal = *refusal;
    }
}

/* A device's memory need not be known beforehand. */
static enum status open_trainer(struct runs *runs, enum recompute *ret_recompute, struct refusal *refusal)
{
    const struct run_config *config = &runs->configs[0];
    struct trainer_config limits = limits_of(runs);
    enum status status = trainer_open(config->model, &limits, &runs->trainer, refusal);
    char text[120];

    while (status == STATUS_FULL && config->recompute_rises && limits.recompute + 1 < RECOMPUTE_COUNT) {
        snprintf(text, sizeof(text), "the device %s has no room for recompute %s; taking %s", limits.device->name,
                 recompute_name(limits.recompute), recompute_name(limits.recompute + 1));
        config->said(config->listener, text);
        limits.recompute++;
        status = trainer_open(config->model, &limits, &runs->trainer, refusal);
    }
    *ret_recompute = limits.recompute;
    return status;
}

/* A borrowed base's was compared with the files' when it was borrowed. */
static enum status base_digest(const struct run_config *config, uint8_t ret_digest[DIGEST_BYTES])
{
    if (config->trainer.base == NULL)
        return safetensors_digest(config->model->files, config->stop, ret_digest);
    memcpy(ret_digest, config->trainer.base->digest, DIGEST_BYTES);
    return STATUS_OK;
}

static void open_jobs(struct runs *runs)
{
    const struct run_config *config = &runs->configs[0];
    uint8_t base[DIGEST_BYTES];
    struct refusal refusal = {{0}};
    enum recompute recompute;
    enum status status = open_trainer(runs, &recompute, &refusal);

    if (status == STATUS_OK) {
        status = base_digest(config, base);
        if (status != STATUS_OK)
            refuse(&refusal, status, status == STATUS_END ? "stopped before the first step" : "the base cannot be read");
    }
    if (status != STATUS_OK) {
        refuse_all(runs, status, &refusal);
        return;
    }
    for (int32_t i = 0; i < runs->count; i++) {
        if (!run_goes_on(&runs->run[i]))
            continue;
        runs->run[i].trainer = runs->trainer;
        runs->run[i].recompute = recompute;
        runs->run[i].job = i;
        run_open(&runs->run[i], base);
    }
}

/* --- running ---------------------------------------------------------------------------------------------------------------- */

/* A step of all supervised runs, in one batch; what came of each goes to its own. */
static enum status imitate_all(struct runs *runs)
{
    int32_t count = 0;
    enum status status;

    for (int32_t i = 0; i < runs->count; i++) {
        const struct run *run = &runs->run[i];

        if (!run_goes_on(run))
            continue;
        memcpy(runs->samples + count, run->samples, (size_t)run->count * sizeof(*runs->samples));
        count += run->count;
        runs->rates[i] = run->step.rate;
    }
    status = trainer_step(runs->trainer, runs->samples, count, runs->rates, runs->outcomes);
    for (int32_t i = 0; i < runs->count && status != STATUS_END; i++) {
        const struct train_outcome *outcome = &runs->outcomes[i];
        struct run_step *step = &runs->run[i].step;

        if (!run_goes_on(&runs->run[i]))
            continue;
        step->loss = outcome->loss;
        step->accuracy = (double)outcome->hits / (double)outcome->targets;
        step->norm = outcome->norm;
    }
    return status;
}

/* A step may fail for one run only; `status` is what it ended with for all. */
static enum status status_of(enum status status, const struct run *run)
{
    if (status == STATUS_END)
        return STATUS_END;
    return isfinite(run->step.norm) && isfinite(run->step.loss) ? STATUS_OK : STATUS_INVALID;
}

/* Preferences are learned a run after the other: their coefficients need all of a pass's log-probabilities. */
static void step_all(struct runs *runs)
{
    const bool dpo = run_is_dpo(&runs->run[0]);
    enum status status = STATUS_OK;

    for (int32_t i = 0; i < runs->count; i++)
        if (run_goes_on(&runs->run[i]))
            run_step_begin(&runs->run[i]);
    if (!dpo)
        status = imitate_all(runs);
    for (int32_t i = 0; i < runs->count; i++) {
        struct run *run = &runs->run[i];

        if (run_goes_on(run))
            run_step_end(run, status_of(dpo ? run_prefer(run) : status, run));
        if (!run_goes_on(run))
            run_close(run);
    }
}

static enum status worst(const struct run_result *results, int32_t count)
{
    enum status status = STATUS_OK;

    for (int32_t i = 0; i < count; i++)
        if (results[i].status != STATUS_OK && (status == STATUS_OK || status == STATUS_END))
            status = results[i].status;
    return status;
}

enum status run_train_all(const struct run_config *configs, int32_t count, struct run_result *ret_results)
{
    struct runs runs = {.configs = configs, .count = count};
    const struct refusal no_memory = {"no memory for the runs' numbers"};

    check(count >= 1 && count <= RUNS_MAX);
    memset(ret_results, 0, (size_t)count * sizeof(*ret_results));
    if (reserve(&runs)) {
        for (int32_t i = 0; i < count; i++) {
            runs.run[i].config = &configs[i];
            runs.run[i].result = &ret_results[i];
            run_begin(&runs.run[i]);
        }
        if (any_goes_on(&runs))
            open_jobs(&runs);
        while (any_goes_on(&runs))
            step_all(&runs);
        for (int32_t i = 0; i < count; i++)
            run_close(&runs.run[i]);
    } else {
        for (int32_t i = 0; i < count; i++)
            ret_results[i] = (struct run_result){.status = STATUS_FULL, .refusal = no_memory};
    }
    trainer_close(runs.trainer);
    free(runs.run);
    free(runs.samples);
    free(runs.rates);
    free(runs.outcomes);
    return worst(ret_results, count);
}

enum status run_train(const struct run_config *config, struct run_outcome *ret_outcome, struct refusal *refusal)
{
    struct run_result result;
    enum status status = run_train_all(config, 1, &result);

    if (status == STATUS_OK)
        *ret_outcome = result.outcome;
    else
        *refusal = result.refusal;
    return status;
}
