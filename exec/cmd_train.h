/* What berth-exec train's files share: the command line, taken apart. */
#ifndef EXEC_CMD_TRAIN_H
#define EXEC_CMD_TRAIN_H

#include "cmd.h"
#include "engine/train/run/run.h"

struct train_arguments {
    const char *model;
    const char *reference;
    const char *data;
    const char *validation;
    const char *out;
    const char *checkpoints;       /* NULL: beside out */
    struct run_settings settings;  /* batch, epochs, alpha, row_tokens: 0 is for who reads the data to choose */
    double rate_multiplier;
    int64_t validation_percent;    /* 0: no split */
    int64_t checkpoint_every_s;
    bool restart;
    bool json;
    bool quiet;
    bool mode_chosen;
    struct trainer_config trainer; /* device, threads, kernels, recompute; the rest is for who opens it */
};

/* --reference, --data. An exit code; what is wrong has been said. */
int train_reference(const struct train_arguments *arguments);
int train_data(const struct train_arguments *arguments);

#endif
