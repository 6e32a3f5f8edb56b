/* How large a step of an optimizer is, over a job's steps. */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include "engine/model/config.h"

#define SCHEDULES(X)                                                              \
    X(CONSTANT, "constant", "the peak to the end")                                \
    X(LINEAR, "linear", "straight down to nothing at the last step's end")        \
    X(COSINE, "cosine", "half a cosine down to nothing at the last step's end")
enum schedule_kind {
#define X(name, text, about) SCHEDULE_##name,
    SCHEDULES(X)
#undef X
    SCHEDULE_COUNT
};
const char *schedule_kind_name(enum schedule_kind kind);
/* False: there is no such kind. */
bool schedule_kind_find(const char *name, enum schedule_kind *ret_kind);

struct schedule {
    enum schedule_kind kind;
    double peak;             /* learning rate after warming up */
    int64_t warmup_steps;    /* 0 <= warmup_steps <= steps */
    int64_t steps;           /* of the whole job, >= 1 */
};

/* The rate of step `step`, counted from 0. Warming up: peak * (step + 1) / warmup_steps. Then, with x = (step - warmup_steps) /
 * (steps - warmup_steps): peak, peak * (1 - x), or peak * (1 + cos(pi x)) / 2 (Loshchilov and Hutter 2017, equation 5, without
 * restarts); so the first step after warming up is a whole peak's and none is nothing. Behind the last step: 0, but constant stays. */
double schedule_rate(const struct schedule *schedule, int64_t step);

/* A peak for LoRA by the model's family and hidden size h: 10 * 5e-5 * (2000 / h)^p, p fitted for Llama and for Qwen (Tinker's cookbook,
 * hyperparam_utils). False: nobody has fitted this family. */
bool rate_fitted(enum model_family family, int32_t hidden, double *ret_rate);

#endif
