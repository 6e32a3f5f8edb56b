#include "engine/train/dpo.h"

#include <math.h>
#include <stdlib.h>

#include "engine/train/internal.h"

double dpo_add(struct dpo_sum *sum, double beta, const double policy[2], const double reference[2])
{
    const double margin = (policy[0] - reference[0]) - (policy[1] - reference[1]);
    const double x = beta * margin;

    sum->pairs++;
    sum->won += margin > 0;
    sum->reward_margin += x;
    /* log(1 + e^-x), whichever sign x has. */
    sum->loss += x > 0 ? log1p(exp(-x)) : log1p(exp(x)) - x;
    return beta / (1 + exp(x));
}

struct weighing {
    const double *reference;   /* of the pass's first sample on */
    double beta;
    int64_t pairs;             /* of the step */
    struct dpo_sum *sum;
};

static void weigh(void *context, struct train_sample *samples, const struct train_score *scores, int32_t count)
{
    const struct weighing *weighing = context;

    for (int32_t i = 0; i < count; i += 2) {
        const double policy[2] = {scores[i].logp, scores[i + 1].logp};
        const double slope = dpo_add(weighing->sum, weighing->beta, policy, weighing->reference + i);

        samples[i].coef = (float)(slope / (double)weighing->pairs);
        samples[i + 1].coef = -samples[i].coef;
    }
}

/* Samples of the next pass. */
static int32_t pass_take(const struct trainer *trainer, const struct train_sample *samples, int32_t count, struct train_sample *ret_pass)
{
    int32_t taken = 0;
    int32_t rows = 0;

    for (; taken + 1 < count && taken + 2 <= job_samples_max(&trainer->config); taken += 2) {
        rows += samples[taken].rows + samples[taken + 1].rows;
        if (rows > trainer->config.job_rows_max)
            break;
        ret_pass[taken] = samples[taken];
        ret_pass[taken + 1] = samples[taken + 1];
    }
    check(taken >= 2);
    return taken;
}

/* False: it was stopped between two passes. */
static bool passes_run(struct trainer *trainer, const struct train_sample *samples, int32_t count, const double *reference,
                       struct weighing *weighing)
{
    const size_t most = (size_t)trainer->config.samples_max;
    struct train_sample *pass = calloc(most, sizeof(*pass));
    struct train_score *scores = calloc(most, sizeof(*scores));
    int32_t at = 0;

    check(pass != NULL && scores != NULL);
    while (at < count && (trainer->config.stop == NULL || *trainer->config.stop == 0)) {
        const int32_t taken = pass_take(trainer, samples + at, count - at, pass);

        weighing->reference = reference + at;
        trainer_pass_weighed(trainer, pass, taken, weigh, weighing, scores);
        at += taken;
    }
    free(pass);
    free(scores);
    return at == count;
}

enum status trainer_dpo_step(struct trainer *trainer, const struct train_sample *samples, int32_t count, const double *reference,
                             double beta, double rate, struct dpo_sum *ret_sum, double *ret_norm)
{
    struct weighing weighing = {.beta = beta, .pairs = count / 2, .sum = ret_sum};
    const struct job *job = &trainer->jobs[samples[0].job];

    check(count >= 2 && count % 2 == 0);
    *ret_sum = (struct dpo_sum){0};
    if (passes_run(trainer, samples, count, reference, &weighing))
        return trainer_update(trainer, samples[0].job, rate, ret_norm);
    trainer->train->zero(trainer->dev, job->state[TRAIN_GRADIENTS], job->parameters);
    return STATUS_END;
}
