/* The table of the CUDA device. berth-exec does not link it: it lies in libberth-cuda.so, and cuda_load.h fetches it. */
#ifndef CUDA_DEVICE_CUDA_H
#define CUDA_DEVICE_CUDA_H

#include "engine/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif
extern const struct device device_cuda;
#ifdef __cplusplus
}
#endif

#endif
