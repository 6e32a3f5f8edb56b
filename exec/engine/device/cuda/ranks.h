/* Tensor parallel ranks on CUDA: a GPU and a thread each, joined by NCCL, which is looked for when it is needed. Each rank gathers the
 * others' parts and adds them in rank order itself, so that all of them hold the same bits, whatever NCCL's rings are. */
#ifndef CUDA_RANKS_H
#define CUDA_RANKS_H

#include "engine/ops/cuda/cuda_ops.h"

/* The GPU of this rank; 0 without ranks. */
static inline int cuda_gpu_of(const struct dev_config *config)
{
    return config->ranks != NULL ? config->rank : 0;
}

/* Waits for the other ranks of config->ranks. False: the reason is in ret_error. */
bool cuda_ranks_join(struct dev *dev, char *ret_error, size_t error_bytes);
void cuda_ranks_leave(struct dev *dev); /* of one that never joined: nothing */
void cuda_ranks_sum(struct dev *dev, float *x, int64_t n);

#endif
