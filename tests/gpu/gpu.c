#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/device/cuda_load.h"

void check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
    abort();
}

const struct device *gpu_device(char *ret_error, size_t error_bytes)
{
    return cuda_runs_here(ret_error, error_bytes) ? cuda_load(ret_error, error_bytes) : NULL;
}
