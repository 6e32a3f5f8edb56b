/* Training runs of a real model that other people's automatic differentiation and optimizer did, from ../shared, done again. */
#ifndef TESTS_TRAIN_RECORDED_H
#define TESTS_TRAIN_RECORDED_H

#include "engine/train/train.h"

struct found {
    double loss;     /* the largest differences */
    double norm;
    double gradient;
    double final;
};

/* Skips the test when the folder is not there. */
struct model *recorded_model(const char *relative);
#define RECORDED_STEPS 20

/* The first steps of a case, which has the matrices after all of them; suffix "_bf16_base": of the same matrices over a base in bf16, which has no gradients and no final matrices. */
struct found recorded_run(const char *name, const struct model *model, const struct trainer_config *config, const char *suffix,
                          int32_t steps);

#endif
