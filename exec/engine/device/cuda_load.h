/* The CUDA device lies in a library of its own, libberth-cuda.so, so that berth-exec starts where there is neither CUDA
 * nor a GPU. */
#ifndef DEVICE_CUDA_LOAD_H
#define DEVICE_CUDA_LOAD_H

#include "engine/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What both sides must have been built with; CUDA_TERMS_VERSION grows when values.h, ops.h or device.h change their
 * meaning. */
#define CUDA_TERMS_VERSION 3
struct cuda_terms { uint32_t version, device_bytes, ops_bytes, config_bytes, batch_bytes, train_ops_bytes; };
#define CUDA_TERMS                                                                                                        \
    {CUDA_TERMS_VERSION, (uint32_t)sizeof(struct device), (uint32_t)sizeof(struct ops), (uint32_t)sizeof(struct dev_config), \
     (uint32_t)sizeof(struct batch), (uint32_t)sizeof(struct train_ops)}

typedef void cuda_failed(const char *condition, const char *file, int line);
/* The library's one symbol, "berth_cuda_entry"; NULL when the terms differ. `failed` must not return. */
typedef const struct device *cuda_entry(const struct cuda_terms *terms, cuda_failed *failed);

/* Loads it from BERTH_CUDA_LIBRARY, or from ../lib beside this program's real folder; it stays loaded. NULL: ret_error
 * says why. That there is a GPU which will do shows only when the device is opened. */
const struct device *cuda_load(char *ret_error, size_t error_bytes);
/* Whether it loads and a device opens; if not, ret_error says why. */
bool cuda_runs_here(char *ret_error, size_t error_bytes);
/* How many GPUs will do, and the memory of the smallest; 0: ret_error says why. The first of them was opened. */
uint32_t cuda_gpus_here(uint64_t *ret_bytes, char *ret_error, size_t error_bytes);
/* From now on this process sees one GPU, which CUDA_VISIBLE_DEVICES would have by this name; before anything of CUDA is called. */
void cuda_see(const char *gpu);
/* Whether a base on it can be mapped by several processes (device/share.h). */
bool cuda_shares_here(char *ret_error, size_t error_bytes);

#ifdef __cplusplus
}
#endif

#endif
