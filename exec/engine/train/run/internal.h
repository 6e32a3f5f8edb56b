/* The inside of runs, for run/ only. */
#ifndef TRAIN_RUN_INTERNAL_H
#define TRAIN_RUN_INTERNAL_H

#include "engine/train/run/checkpoint.h"

struct run;

/* Where states and results go; what comes back as states. */
struct run_place {
    enum status (*begin)(struct run *run, struct refusal *refusal); /* before there is a trainer */
    enum status (*load)(struct run *run, struct refusal *refusal);  /* as checkpoint_load() */
    enum status (*save)(struct run *run, struct refusal *refusal);  /* run->at */
    enum status (*epoch)(struct run *run, const struct run_made *made, struct refusal *refusal);  /* NULL: nobody wants it */
    enum status (*finish)(struct run *run, const struct run_made *made, struct refusal *refusal);
    void (*close)(struct run *run);
};
extern const struct run_place run_disk;
extern const struct run_place run_held;  /* by the caller, in memory */

/* One run among those that share a trainer. */
struct run {
    const struct run_config *config;
    struct run_result *result;          /* status OK: it goes on, or is done */
    bool done;
    bool found;                         /* an adapter is there: the run is done if it is its own */
    struct trainer *trainer;            /* of all */
    enum recompute recompute;           /* its level */
    int32_t job;                        /* the trainer's number of it */
    const struct run_place *place;
    struct checkpoint_folder folder;    /* of run_disk only */
    struct checkpoint at;               /* where it is; its matrices and moments are of the last save or load */
    struct schedule schedule;
    int64_t steps;                      /* at most */
    int64_t steps_per_epoch;
    int64_t evaluate_every;
    int32_t samples_max;                /* of a pass of its own */
    int32_t rows_max;                   /* likewise */
    int32_t unit;                       /* samples that stay together: 2 of dpo, else 1 */
    int32_t units;                      /* of the data */
    int32_t *order;                     /* [units]: of order_epoch */
    int32_t order_epoch;                /* -1: of none yet */
    struct train_sample *samples;       /* of a step [unit * batch], or of an evaluation's pass [samples_max] */
    int32_t count;                      /* of the step's */
    struct run_step step;               /* that is being done */
    struct train_score *scores;         /* [samples_max] */
    double *reference;                  /* dpo: log p of the data's targets by the base, [data->count] */
    double *reference_valid;            /* and of the validation's */
    double *reference_step;             /* of run->samples, of a step */
    int64_t saved_at_ns;
    int64_t begun_at_ns;
    int64_t begun_step;
};

/* --- a run's life: each sets run->result when the run cannot go on ----------------------------------------------------------------- */

/* Before there is a trainer: what can be known and refused at once. */
void run_begin(struct run *run);
/* Fills the head of run->at but for the parameters. */
void run_identify(struct run *run, const uint8_t base[DIGEST_BYTES]);
/* Its job of the trainer, from its checkpoint if there is one. `base`: the digest of the base. */
void run_open(struct run *run, const uint8_t base[DIGEST_BYTES]);
/* Of that: matrices, the run's own memory, and what its checkpoint has. */
enum status run_load(struct run *run, struct refusal *refusal);
/* Lists the samples of the next step in run->samples and begins run->step. */
void run_step_begin(struct run *run);
/* Behind it, with its loss, accuracy and norm in run->step: evaluation, checkpoint, the adapter after the last step. `status`: what the step
 * ended with. */
void run_step_end(struct run *run, enum status status);
/* Frees all but what is in run->result; checkpoints go when the adapter is there. */
void run_close(struct run *run);
bool run_goes_on(const struct run *run);

extern const enum train_state run_states[3]; /* of checkpoint.state */

/* --- its ends ------------------------------------------------------------------------------------------------------------------ */

/* The adapter as it is and the losses of all steps, to one of the place's. `values`: room for its numbers. */
enum status run_give(struct run *run, float *values, const struct run_outcome *outcome,
                     enum status (*take)(struct run *run, const struct run_made *made, struct refusal *refusal), struct refusal *refusal);
enum status run_record_write(const struct run *run, const char *folder, const struct run_outcome *outcome, struct refusal *refusal);
/* Whether the adapter that is there is this very run's, and what came of it then. */
bool run_record_is_mine(const struct run *run, struct run_outcome *ret_outcome);
/* Matrices to begin from: the config's, or A uniform within 1 / sqrt(in), as PEFT's Kaiming with sqrt(5) is, from the seed; B zero. */
enum status run_initial(struct run *run, const struct optimizer *optimizer, struct refusal *refusal);
/* Which samples a step has, which gradient is the largest: for a step that is not finite. Gradients of the job are lost. */
enum status run_diagnose(struct run *run, double loss, struct refusal *refusal);
/* The sample `at` of a step's, unit after unit. */
const struct data_sample *run_sample(const struct run *run, int64_t step, int32_t at);
struct train_sample run_sample_of(const struct run *run, const struct data_set *set, int32_t index);
/* Samples from `at` on that make a pass, in whole units, into run->samples; returns how many. */
int32_t run_pass(struct run *run, const struct data_set *set, int32_t at);
bool run_is_stopped(const struct run *run);

/* --- dpo only ------------------------------------------------------------------------------------------------------------------ */

bool run_is_dpo(const struct run *run);
/* What the base makes of all samples; END: it was stopped. */
enum status run_reference(struct run *run, struct refusal *refusal);
/* The step of run->samples, head.step; its loss, accuracy and norm go to run->step. */
enum status run_prefer(struct run *run);
/* Into the step's row. False: it was stopped. */
bool run_prefer_validate(struct run *run, struct run_row *row);

#endif
