/* One op with everything around it: inputs as plain numbers, the way forward to one number, and the way back to a gradient of each input.
 * The number is the sum of the outputs, each times a random weight. */
#ifndef TESTS_TRAIN_SCENE_H
#define TESTS_TRAIN_SCENE_H

#include "engine/device/cpu.h"
#include "engine/ops/ref/train.h"
#include "rig.h"

#define SCENE_SEQUENCES 5
#define SCENE_SEGMENTS 3

enum scene_kind { SCENE_NORM, SCENE_QKV, SCENE_O, SCENE_GATE_UP, SCENE_ATTENTION, SCENE_SWIGLU, SCENE_HEAD, SCENE_EMBED, SCENE_KINDS };

struct scene_config {
    enum scene_kind kind;
    struct dims dims;
    enum mode mode;
    enum kernel_set kernels;
    uint32_t threads;
    int32_t sequence_rows[SCENE_SEQUENCES]; /* 0: no more */
    int32_t segment_rows[SCENE_SEGMENTS];   /* of jobs 0, 1, 2; what is left is the base's */
    bool gains;                             /* of heads */
    uint64_t seed;
};

struct scene_input {
    const char *name;
    int64_t count;
    float *values;
    float *gradient;
};
#define SCENE_INPUTS 32

struct scene {
    struct scene_config config;
    struct dev *dev;
    struct counts now;
    struct batch batch;
    int32_t *token, *position, *out_row, *target;
    int32_t block_table[SCENE_SEQUENCES][64];
    struct sequence sequence[SCENE_SEQUENCES];
    struct segment segment[SCENE_SEGMENTS];
    float *angles;
    struct scene_input input[SCENE_INPUTS];
    int inputs;
    float *out_weight;         /* [outputs] */
    int64_t outputs;
    /* adapters of the group, packed */
    struct lora_slot slot[SCENE_SEGMENTS];
    char *pool;
    struct lora lora;
};

void scene_open(struct scene *scene, const struct scene_config *config);
void scene_close(struct scene *scene);
double scene_forward(struct scene *scene, const struct ops *ops);
/* Fills all inputs' gradients. */
void scene_back(struct scene *scene, const struct train_ops *ops);

#endif
