/* A run: one adapter learned from a file of examples, from the first step to a PEFT folder. Epochs in seeded orders, validation, early
 * stopping with the best kept, checkpoints. Several runs go over one base in one batch, and each is as it would be alone, to the byte. A run that was killed at any moment and begun again ends in the same bytes as one that was
 * not: an order is a hash of seed and epoch, so a step's number is all that there is to remember of chance. */
#ifndef TRAIN_RUN_RUN_H
#define TRAIN_RUN_RUN_H

#include <signal.h>

#include "engine/train/data/data.h"
#include "engine/train/schedule.h"
#include "engine/train/train.h"

#define RUN_METHODS(X)                                                                             \
    X(SUPERVISED, "supervised", "what the examples' answers say")                                  \
    X(DPO, "dpo", "which of two answers is preferred, by the base as reference: dpo.h")
enum run_method {
#define X(name, text, about) RUN_##name,
    RUN_METHODS(X)
#undef X
    RUN_METHOD_COUNT
};
const char *run_method_name(enum run_method method);
/* False: there is no such method. */
bool run_method_find(const char *name, enum run_method *ret_method);

/* Of what the numbers depend on beside a run's settings: ops, orders, initial matrices. A change of any is another version. */
#define RUN_NUMERICS 1

/* What must agree for a run to go on from a checkpoint: type, name, what a person calls it. */
#define RUN_SETTINGS(X)                                                          \
    X(int64_t, method, "method")                 /* enum run_method */           \
    X(double, beta, "beta")                      /* of dpo; else 0 */            \
    X(int64_t, rank, "rank")                                                     \
    X(double, alpha, "alpha")                                                    \
    X(double, rate, "learning rate")                                             \
    X(int64_t, schedule, "schedule")             /* enum schedule_kind */        \
    X(int64_t, epochs, "epochs")                                                 \
    X(int64_t, batch, "batch size")              /* samples a step, or pairs */   \
    X(int64_t, evaluate_every, "steps between evaluations") /* 0: each epoch */  \
    X(int64_t, patience, "patience")             /* evaluations without a better one before it stops; 0: never */ \
    X(double, min_delta, "least gain")           /* a better evaluation's loss is lower by more than this */ \
    X(int64_t, seed, "seed")                                                     \
    X(double, decay, "weight decay")                                             \
    X(double, clip, "largest gradient norm")                                     \
    X(int64_t, mode, "mode")                     /* enum mode */                 \
    X(int64_t, row_tokens, "context")            /* tokens of a pass, and of a sample at most; a pass of dpo has twice as many */
struct run_settings {
#define X(type, name, about) type name;
    RUN_SETTINGS(X)
#undef X
};

#define RUNS_MAX 64 /* at once */

/* What the trainer of so many such runs is asked for; device, threads, kernels and recompute are the caller's. `settings` are of the run with
 * the largest rank; mode and row_tokens are all runs'. Passes have room for all of them up to 4,096 tokens, or for one. */
void run_limits(const struct run_settings *settings, int32_t runs, struct trainer_config *config);

struct run_step {
    int64_t step;          /* done, of steps */
    int64_t steps;
    int32_t epoch;         /* from 1 */
    int64_t tokens;        /* of this step */
    int64_t step_ns;
    int64_t left_ns;       /* a guess: the rest at the pace so far */
    double loss;           /* mean over targets, or pairs */
    double accuracy;       /* the share of targets that were the likeliest token, or of pairs with a margin above 0; before the update */
    double reward_margin;  /* dpo: mean over pairs; else NAN */
    double norm;
    double rate;
    double valid_loss;     /* NAN: not evaluated after this step */
    double valid_accuracy;
};

struct run_saved {
    int64_t step;          /* that the checkpoint is after */
    int64_t bytes;
    int64_t took_ns;
};

struct peft_write;
struct run_outcome;
struct checkpoint;

/* What a run has made; it lives until the call returns. */
struct run_made {
    const struct peft_write *adapter;    /* lora/peft.h */
    const char *results;                 /* results.csv, of all steps so far */
    size_t results_bytes;
    const struct run_outcome *outcome;
};

/* In place of folders: states and results are handed to the caller, and no byte of the run is in a file. What a function returns other than
 * OK ends the run with it and the refusal. */
struct run_memory {
    void *owner;
    const void *state;                   /* what save() was given as bytes (checkpoint_write()), to go on from; NULL: none */
    int64_t state_bytes;
    bool epoch_due;                      /* it was saved at an epoch's end whose epoch() had returned END */
    enum status (*save)(void *owner, const struct checkpoint *checkpoint, struct refusal *refusal); /* run/checkpoint.h */
    /* After each epoch but the last: the adapter as it is. END: it was stopped, and the adapter not taken. NULL: nobody wants it. */
    enum status (*epoch)(void *owner, const struct run_made *made, struct refusal *refusal);
    enum status (*finish)(void *owner, const struct run_made *made, struct refusal *refusal);
};

struct run_config {
    const struct model *model;
    const struct data_set *data;
    const struct data_set *validation;  /* NULL: none */
    struct run_settings settings;
    struct trainer_config trainer;      /* device, threads, kernels, recompute; the rest follows from the settings */
    bool recompute_rises;               /* where the device has no room, the next level is tried, and said */
    const char *base;                   /* the base's name in the adapter's config */
    const struct lora_source *initial;  /* matrices to begin from, all modules in all layers, of settings.rank and alpha; by dpo they are what
                                           is preferred against; NULL: A drawn from the seed, B zero */
    const struct run_memory *memory;    /* NULL: folders, which are the next two */
    const char *out;                    /* a folder that is not there yet */
    const char *checkpoints;            /* a folder, made if need be; removed when the adapter is written */
    int64_t checkpoint_every_ns;        /* 0: after each step */
    bool done_counts;                   /* folders only: an adapter of this very run in `out` is not refused: the run is done */
    bool restart;                       /* folders only: remove the checkpoints that are there and begin anew */
    const volatile sig_atomic_t *stop;  /* not 0: checkpoint and end, at the latest after the pass that is running */
    int64_t (*now_ns)(void);
    void *listener;
    void (*stepped)(void *listener, const struct run_step *step);
    void (*saved)(void *listener, const struct run_saved *saved); /* a checkpoint is on disk, or was handed over */
    void (*said)(void *listener, const char *text); /* something a person should know */
};

struct run_outcome {
    int64_t steps;         /* done */
    int64_t best_step;     /* whose matrices were written */
    double loss;           /* of the last step */
    double accuracy;
    double valid_loss;     /* of the best; NAN without validation */
    double valid_accuracy;
    bool stopped_early;
    enum recompute recompute; /* the level that there was room for */
};

/* END: it was stopped, and checkpoints hold it. INVALID: a refusal, or a number that is not finite, with the step, the lines of its samples and
 * the largest gradient; files are as they were. */
enum status run_train(const struct run_config *config, struct run_outcome *ret_outcome, struct refusal *refusal);

struct run_result {
    enum status status;
    struct run_outcome outcome;  /* of OK */
    struct refusal refusal;      /* of all others */
};
/* Several runs, step by step together: model, trainer, method, mode, row_tokens, stop and now_ns of all configs are the same, their folders are not.
 * Each ends on its own: done, early, or refused, while the others go on. ret_results [count]; returns OK when all are, else what the first
 * failed with, else END. */
enum status run_train_all(const struct run_config *configs, int32_t count, struct run_result *ret_results);

#endif
