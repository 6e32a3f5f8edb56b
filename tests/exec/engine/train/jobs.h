/* Three jobs with samples over one tiny model, and what they learn, bit by bit. */
#ifndef TESTS_TRAIN_JOBS_H
#define TESTS_TRAIN_JOBS_H

#include "rig.h"

enum { STEPS = 2, JOBS = 3 };

/* What a run leaves of one job. */
struct left {
    int64_t parameters;
    float *matrices;
    double loss[STEPS];
};

struct jobs {
    char directory[64];
    struct model *model;
    struct lora_source source[JOBS];
    struct rig_samples samples[JOBS];
};

/* Job 0 has so many samples, the others half as many more each. */
void jobs_open(struct jobs *jobs, int32_t head_dim, int32_t samples);
void jobs_close(struct jobs *jobs);
/* Trains the jobs of the mask together for some steps; ret_left [JOBS]. */
void jobs_train(const struct jobs *jobs, const struct trainer_config *config, uint32_t mask, struct left *ret_left);
void left_free(struct left *left);
/* Fails unless both are the same bits. */
void left_expect(const struct left *expected, const struct left *found, int32_t job, const char *what, enum kernel_set set);

#endif
