/* What berth-exec train's files share: the command line, taken apart. */
#ifndef EXEC_CMD_TRAIN_H
#define EXEC_CMD_TRAIN_H

#include <jansson.h>

#include "cmd.h"
#include "engine/train/run/choose.h"

struct train_arguments {
    const char *model;
    const char *reference;
    const char *data;
    const char *validation;
    const char *out;
    const char *jobs;              /* NULL: one job, of the command line */
    const char *base_socket;       /* where the base is lent; NULL: a copy of its own */
    const char *checkpoints;       /* NULL: beside out */
    struct run_wishes wishes;
    int64_t validation_percent;    /* 0: no split */
    int64_t checkpoint_every_s;
    bool restart;
    bool json;
    bool quiet;
    bool recompute_chosen;         /* else by the memory there is */
    bool dry_run;
    int64_t tp;                    /* devices that the model is cut for; only to plan */
    double memory_gib;             /* 0: what the machine has */
    struct trainer_config trainer; /* device, threads, kernels, recompute; the rest is for who opens it */
};

/* Jobs that train together, a line of a file each. */
struct train_jobs {
    int32_t count;
    int32_t line[RUNS_MAX];
    json_t *object[RUNS_MAX];
};
/* Also what was refused is to be closed. */
enum status train_jobs_open(const char *path, struct train_jobs *ret_jobs, struct refusal *refusal);
void train_jobs_close(struct train_jobs *jobs);
/* A field's value as the command line would have it, in `buffer` where it is no text; NULL: neither text nor number. */
const char *train_job_value(const json_t *value, char *buffer, size_t size);

struct train_choice {
    struct plan plan;
    int32_t jobs;                  /* in this process */
    int32_t pass_tokens;
    enum recompute recompute;
    int64_t memory_bytes;
    bool known;                    /* memory_bytes is */
    bool fits;                     /* as far as is known */
};
/* The level that was named, or the one that fits the memory there is; for so many jobs in this process, of which the one with the largest rank
 * has these settings. */
enum status train_recompute(const struct train_arguments *arguments, const struct model_config *model, enum dtype dtype,
                            const struct run_settings *settings, int32_t jobs, struct train_choice *ret_choice, struct refusal *refusal);
/* The job with the largest rank. */
const struct train_arguments *train_largest(const struct train_arguments *jobs, int32_t count);
/* What training takes, the base among it. */
int64_t train_bytes(const struct train_arguments *arguments, const struct train_choice *choice, enum recompute recompute);

/* loss.svg in the adapter's folder, from its results.csv; without gnuplot a line on stderr instead. */
void train_plot(const struct train_arguments *arguments, const struct run_outcome *outcome);

/* --reference, --dry-run, --data and --jobs. An exit code; what is wrong has been said. jobs [count]: what is asked for each; `arguments`
 * holds for what they share. */
int train_reference(const struct train_arguments *arguments);
int train_plan(const struct train_arguments *arguments, const struct train_arguments *jobs, int32_t count);
int train_data(const struct train_arguments *arguments, const struct train_arguments *jobs, int32_t count);

#endif
