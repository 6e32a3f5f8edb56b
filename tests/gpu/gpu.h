/* The two programs for a machine with a GPU: libc, nvcc and make are all there is. */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include "engine/device/device.h"

/* The CUDA device; NULL and a reason where there is no GPU. */
const struct device *gpu_device(char *ret_error, size_t error_bytes);

#endif
