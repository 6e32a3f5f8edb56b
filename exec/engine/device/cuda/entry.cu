/* The one door of libberth-cuda.so, see cuda_load.h. */
#include "engine/device/cuda_load.h"
#include "engine/device/cuda/device_cuda.h"

static cuda_failed *failed;

extern "C" void check_failed(const char *condition, const char *file, int line)
{
    failed(condition, file, line);
    __builtin_unreachable();
}

extern "C" __attribute__((visibility("default"))) const struct device *berth_cuda_entry(const struct cuda_terms *terms, cuda_failed *host_failed)
{
    const struct cuda_terms own = CUDA_TERMS;

    if (memcmp(terms, &own, sizeof(own)) != 0)
        return NULL;
    failed = host_failed;
    return &device_cuda;
}
