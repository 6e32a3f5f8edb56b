/* The inside of the CPU's device, for ops/ only. */
#ifndef DEVICE_CPU_H
#define DEVICE_CPU_H

#include "engine/device/device.h"
#include "engine/device/team.h"

struct kernels;
struct lora_part;
struct reserved;
struct train_memory;

struct dev {
    struct dev_config config;
    const struct ops *ops;
    const struct kernels *kernels;
    struct team *team;
    struct team *solo;          /* the calling thread alone: for work that is done before others would wake */
    struct reserved *reserved;
    /* Memory of a thread for the length of a task. */
    char *scratch;
    size_t scratch_bytes;
    /* A x of a step's rows, act [rows_max][u_stride]; NULL when lora_rank_max is 0. */
    char *u;
    int64_t u_stride;           /* elements */
    struct lora_part *parts;    /* [3 * rows_max] */
    struct train_memory *train; /* NULL: opened to serve */
    char *outputs;              /* act [outputs_max][hidden]: the rows that the head sees, side by side */
};

#endif
