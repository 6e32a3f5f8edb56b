/* The way back of linear layers and of the head against its definitions, and what it promises of a job's bits. Each answers NULL, or what
 * is wrong. What no batch has a row for is NaN: it must neither be read nor written. */
#ifndef CUDA_TESTS_CASES_BACK_H
#define CUDA_TESTS_CASES_BACK_H

#include "world.h"

/* Every group: with all that may be there (adapters, gradients, dx, gradients of weights), and with less. */
const char *case_linear_back(struct world *world);
const char *case_head_back(struct world *world);
/* The rows of every segment, and its gradients, have the bits that they have when the segment is a batch of its own, in tiles of another
 * height; when it comes in batches of TRAIN_ROWS; and when everybody else is NaN. */
const char *promise_back_alone(struct world *world);

#endif
