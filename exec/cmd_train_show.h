/* Jobs of berth-exec train, and what is said of them: JSON lines on stdout, progress on stderr. */
#ifndef EXEC_CMD_TRAIN_SHOW_H
#define EXEC_CMD_TRAIN_SHOW_H

#include "cmd_train.h"
#include "hold/borrow.h"

/* What all jobs share. */
struct session {
    const struct train_arguments *arguments;
    struct model *model;
    struct loan loan;       /* LOAN_NONE: the base is this process's own */
    struct tokenizer *tokenizer;
    struct train_choice choice;
};

/* One job. */
struct training {
    const struct session *session;
    const struct train_arguments *arguments;
    struct data_set *data;
    struct data_set *validation;
    struct run_config run;
    char checkpoints[4096];
    char name[4200];        /* before each line on stderr: "berth-exec train: " or, among several, its out */
    char *json_job;         /* "\"job\":\"OUT\"," among several; owned */
};

/* Samples, or pairs of them. */
int32_t train_units(const struct training *training);

/* Listeners of a run; each is given its training. */
void train_say(void *listener, const char *text);
void train_show_saved(void *listener, const struct run_saved *saved);
void train_show_step(void *listener, const struct run_step *step);

void train_show_data(const struct training *training);
void train_show_memory(const struct session *session);
/* What was chosen, before the first step. */
void train_show_begin(const struct training *training);
void train_show_end(const struct training *training, const struct run_outcome *outcome);

#endif
