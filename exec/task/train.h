/* The inside of the trainer's task: what START wants, the run, what it hands over. */
#ifndef TASK_TRAIN_H
#define TASK_TRAIN_H

#include "engine/lora/peft.h"
#include "engine/train/run/choose.h"
#include "task/internal.h"
#include "worker/worker.h"

struct training {
    struct task *task;
    struct grant *training;
    struct grant *held;             /* NULL: no validation file */
    struct grant *parent;           /* NULL: it begins from the base */
    struct grant *resume;           /* NULL: it begins */
    struct grant *result;
    struct grant *results;          /* NULL: nobody wants results.csv */
    char base[NAME_BYTES];
    struct model *model;
    struct tokenizer *tokenizer;
    struct worker_config machine;   /* device, kernels, threads */
    int64_t memory_bytes;           /* of the host; 0: not known */
    struct run_wishes wishes;

    void *parent_bytes;
    struct peft *parent_adapter;
    struct data_set *data;
    struct data_set *validation;
    struct run_config run;
    struct run_memory memory;
    void *state;                    /* resumed from */
    bool epoch_due;                 /* the adapter of the epoch that has ended was not taken yet */
    bool has_stepped;
    int64_t step;                   /* done */
    int64_t steps;
    int64_t tokens;                 /* by this attempt, as is the next */
    int64_t compute_ns;
    struct sealing results_written;
};

/* From START's hyperparameters and the parent. */
enum status train_wishes(struct training *training, struct refusal *refusal);

/* --- what it hands over: train_out.c -------------------------------------------------------------------------------------------- */

/* run_memory's and run_config's; owner and listener are the training. */
enum status train_save(void *owner, const struct checkpoint *checkpoint, struct refusal *refusal);
enum status train_epoch(void *owner, const struct run_made *made, struct refusal *refusal);
enum status train_finish(void *owner, const struct run_made *made, struct refusal *refusal);
void train_stepped(void *listener, const struct run_step *step);
/* A state as it was sealed: the checkpoint's bytes, then a number. */
enum status train_take_state(struct training *training, int64_t bytes, struct refusal *refusal);

#endif
