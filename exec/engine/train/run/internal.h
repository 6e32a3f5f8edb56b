/* The inside of a run, for run/ only. */
#ifndef TRAIN_RUN_INTERNAL_H
#define TRAIN_RUN_INTERNAL_H

#include "engine/train/run/checkpoint.h"

struct run {
    const struct run_config *config;
    struct trainer *trainer;
    struct trainer_config limits;
    struct checkpoint_folder folder;
    struct checkpoint at;               /* where it is; its matrices and moments are of the last save or load */
    struct schedule schedule;
    int64_t steps;                      /* at most */
    int64_t steps_per_epoch;
    int64_t evaluate_every;
    int32_t unit;                       /* samples that stay together: 2 of dpo, else 1 */
    int32_t units;                      /* of the data */
    int32_t *order;                     /* [units]: of order_epoch */
    int32_t order_epoch;                /* -1: of none yet */
    struct train_sample *samples;       /* of a step [unit * batch], or of an evaluation's pass [samples_max] */
    struct train_score *scores;         /* [samples_max] */
    double *reference;                  /* dpo: log p of the data's targets by the base, [data->count] */
    double *reference_valid;            /* and of the validation's */
    double *reference_step;             /* of run->samples, of a step */
    int64_t saved_at_ns;
    int64_t begun_at_ns;
    int64_t begun_step;
};

/* The adapter as it is, in a PEFT folder with the losses of all steps: there whole, or not at all. */
enum status run_write(struct run *run, float *values, struct refusal *refusal);
/* Matrices to begin from: A uniform within 1 / sqrt(in), as PEFT's Kaiming with sqrt(5) is, from the seed; B zero. */
enum status run_initial(struct run *run, const struct optimizer *optimizer, struct refusal *refusal);
/* Which samples a step has, which gradient is the largest: for a step that is not finite. Gradients of the job are lost. */
enum status run_diagnose(struct run *run, const struct train_sample *samples, int32_t count, double loss, struct refusal *refusal);
/* The sample `at` of a step's, unit after unit. */
const struct data_sample *run_sample(const struct run *run, int64_t step, int32_t at);

struct train_sample run_sample_of(const struct data_set *set, int32_t index);
/* Samples from `at` on that make a pass, in whole units, into run->samples; returns how many. */
int32_t run_pass(struct run *run, const struct data_set *set, int32_t at);

/* Of dpo only. What the base makes of all samples; END: it was stopped. */
enum status run_reference(struct run *run, struct refusal *refusal);
/* A step of run->samples [count], step head.step; see run_step() for what comes back. */
enum status run_prefer(struct run *run, int32_t count, struct run_step *step);
/* Into the step's row. False: it was stopped. */
bool run_prefer_validate(struct run *run, struct run_row *row);

#endif
