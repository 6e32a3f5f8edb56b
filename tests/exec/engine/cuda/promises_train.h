/* What a device that trains promises beyond its ops' definitions; NULL, or what is wrong. */
#ifndef CUDA_TESTS_PROMISES_TRAIN_H
#define CUDA_TESTS_PROMISES_TRAIN_H

#include "world.h"

/* Loss, norms, SwiGLU, attention and turning: the way back of a sequence has the bits that it has as a batch of its own. */
const char *promise_rows_back_alone(struct world *world);

#endif
