/* The emulation has one memory: ranks are refused. */
#include "engine/device/cuda/ranks.h"

#include <stdio.h>

bool cuda_ranks_join(struct dev *, char *ret_error, size_t error_bytes)
{
    snprintf(ret_error, error_bytes, "the emulation joins no GPUs");
    return false;
}

void cuda_ranks_leave(struct dev *)
{
}

void cuda_ranks_sum(struct dev *, float *, int64_t)
{
    check(false && "nobody has joined");
}
