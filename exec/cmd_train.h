/* What berth-exec train's files share: the command line, taken apart. */
#ifndef EXEC_CMD_TRAIN_H
#define EXEC_CMD_TRAIN_H

#include "cmd.h"
#include "engine/model/weights.h"
#include "engine/train/train.h"

struct train_arguments {
    const char *model;
    const char *reference;
    bool json;
    struct trainer_config trainer; /* device, threads, kernels; the rest is for who opens it */
    bool mode_chosen;
};

/* --reference. An exit code; what is wrong has been said. */
int train_reference(const struct train_arguments *arguments);

#endif
