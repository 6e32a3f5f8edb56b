/* Tensor parallel ranks in one process: a device each, a thread each, one meeting place. The one collective is a sum. */
#ifndef DEVICE_RANKS_H
#define DEVICE_RANKS_H

#include "base/base.h"

#define RANKS_MAX 8

struct ranks;

/* 1 <= count <= RANKS_MAX; NULL when there is no memory. Every rank's device must be closed before the ranks. */
struct ranks *ranks_open(int32_t count);
void ranks_close(struct ranks *ranks);
int32_t ranks_count(const struct ranks *ranks);
/* Every rank calls this with memory of its own that the others may reach; returns the places of all, by rank, once all have come.
 * They stay readable until this rank calls it again. */
void *const *ranks_meet(struct ranks *ranks, int32_t rank, void *mine);
/* x f32 [n], host memory, becomes at every rank the sum over ranks, in rank order; n is the same at all. */
void ranks_sum(struct ranks *ranks, int32_t rank, float *x, int64_t n);

#endif
