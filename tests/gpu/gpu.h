/* The two programs for a machine with a GPU: libc, nvcc and make are all there is. */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include "world.h"

/* The CUDA device; NULL and a reason where there is no GPU. */
const struct device *gpu_device(char *ret_error, size_t error_bytes);
/* Microseconds that run() takes on the compute lane: the median of 25 after 5 to warm up. */
double gpu_median_us(struct world *world, void (*run)(void *context), void *context);
/* A weight in bf16 with some numbers in it, on the device. */
struct weight gpu_weight(struct world *world, int32_t out, int32_t in);

#endif
