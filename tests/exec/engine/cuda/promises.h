/* What a device promises beyond its ops' definitions. Each answers NULL, or what is wrong. */
#ifndef CUDA_TESTS_PROMISES_H
#define CUDA_TESTS_PROMISES_H

#include "world.h"

/* Deterministic: every row computed alone has the bits it has in the batch, whatever its prompt, its neighbours and its
 * segment. */
const char *promise_alone_or_mixed(struct world *world);
/* Rows of one adapter as one segment, or each as one of its own. */
const char *promise_one_segment_or_many(struct world *world);
/* A graph recorded while the batch is its first row alone serves the whole batch, and nobody. Sequence 0 must have one
 * row and a slot of its own. ret_skipped: the device has no graphs. */
const char *promise_graphs(struct world *world, bool *ret_skipped);
/* Lanes, marks, moves, weights. */
const char *promise_memory(const struct device *device);

#endif
