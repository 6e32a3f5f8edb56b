/* Steps and evaluations of preferences. What the base, or the adapter that the run goes on from, makes of the samples is reckoned once, at the beginning or when a run goes on: it
 * never changes, to the bit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/train/dpo.h"
#include "engine/train/run/internal.h"

static enum status set_reference(struct run *run, const struct data_set *set, double **ret_reference, struct refusal *refusal)
{
    double *reference = calloc((size_t)set->count, sizeof(*reference));

    if (reference == NULL)
        return refuse(refusal, STATUS_FULL, "no memory for the base's log-probabilities of %d samples", set->count);
    *ret_reference = reference;
    for (int32_t at = 0; at < set->count;) {
        const int32_t count = run_pass(run, set, at);

        if (run_is_stopped(run))
            return refuse(refusal, STATUS_END, "stopped before the next step, while the base's log-probabilities were reckoned; the same command "
                                               "goes on");
        for (int32_t i = 0; i < count; i++)
            run->samples[i].job = run->config->initial != NULL ? run->job : SEGMENT_NONE;
        trainer_logp(run->trainer, run->samples, count, run->scores);
        for (int32_t i = 0; i < count; i++)
            reference[at + i] = run->scores[i].logp;
        at += count;
    }
    return STATUS_OK;
}

enum status run_reference(struct run *run, struct refusal *refusal)
{
    const struct run_config *config = run->config;
    enum status status;

    run->reference_step = calloc((size_t)(2 * config->settings.batch), sizeof(double));
    if (run->reference_step == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    status = set_reference(run, config->data, &run->reference, refusal);
    if (status == STATUS_OK && config->validation != NULL)
        status = set_reference(run, config->validation, &run->reference_valid, refusal);
    return status;
}

enum status run_prefer(struct run *run)
{
    struct run_step *step = &run->step;
    struct dpo_sum sum;
    enum status status;

    for (int32_t i = 0; i < run->count; i++)
        run->reference_step[i] = run->reference[run_sample(run, run->at.head.step, i) - run->config->data->sample];
    status = trainer_dpo_step(run->trainer, run->samples, run->count, run->reference_step, run->config->settings.beta, step->rate, &sum, &step->norm);
    if (status == STATUS_END)
        return status;
    step->loss = sum.loss / (double)sum.pairs;
    step->accuracy = (double)sum.won / (double)sum.pairs;
    step->reward_margin = sum.reward_margin / (double)sum.pairs;
    return status;
}

bool run_prefer_validate(struct run *run, struct run_row *row)
{
    const struct data_set *set = run->config->validation;
    struct dpo_sum sum = {0};

    for (int32_t at = 0; at < set->count;) {
        const int32_t count = run_pass(run, set, at);

        if (run_is_stopped(run))
            return false;
        trainer_logp(run->trainer, run->samples, count, run->scores);
        for (int32_t i = 0; i < count; i += 2) {
            const double policy[2] = {run->scores[i].logp, run->scores[i + 1].logp};

            dpo_add(&sum, run->config->settings.beta, policy, run->reference_valid + at + i);
        }
        at += count;
    }
    row->valid_loss = sum.loss / (double)sum.pairs;
    row->valid_accuracy = (double)sum.won / (double)sum.pairs;
    return true;
}
