/* What the ops of the CUDA device want besides what they are given: reserved when it opens, for its largest batch, so that no op asks for
 * memory. */
#ifndef CUDA_SCRATCH_H
#define CUDA_SCRATCH_H

#include "engine/ops/cuda/cuda_ops.h"

/* Takes the config, and how large the pieces will be. */
void cuda_scratch_plan(struct dev *dev, const struct dev_config *config);
/* False when there is no room; what was reserved goes with cuda_scratch_free(). */
bool cuda_scratch_reserve(struct dev *dev);
void cuda_scratch_free(struct dev *dev);
int64_t cuda_ops_bytes(const struct dev_config *config);

#endif
