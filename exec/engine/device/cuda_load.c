#include "engine/device/cuda_load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LIBRARY "libberth-cuda.so"

/* build/MODE/bin/berth-exec -> build/MODE/lib/libberth-cuda.so; links are followed first. False when the path does not
 * fit. */
static bool library_path(char *ret_path, size_t path_bytes)
{
    const char *named = getenv("BERTH_CUDA_LIBRARY");
    char program[2048];
    ssize_t length;
    char *slash;

    if (named != NULL)
        return (size_t)snprintf(ret_path, path_bytes, "%s", named) < path_bytes;
    length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length <= 0)
        return false;
    program[length] = 0;
    slash = strrchr(program, '/');
    if (slash == NULL)
        return false;
    *slash = 0;
    return (size_t)snprintf(ret_path, path_bytes, "%s/../lib/%s", program, LIBRARY) < path_bytes;
}

const struct device *cuda_load(char *ret_error, size_t error_bytes)
{
    const struct cuda_terms terms = CUDA_TERMS;
    const struct device *device;
    char path[4096];
    cuda_entry *entry = NULL;
    void *library, *symbol;

    if (!library_path(path, sizeof(path))) {
        snprintf(ret_error, error_bytes, "the path of %s is too long", LIBRARY);
        return NULL;
    }
    if (access(path, R_OK) != 0) {
        snprintf(ret_error, error_bytes, "%s is not there; `make cuda` builds it where nvcc is", path);
        return NULL;
    }
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(ret_error, error_bytes, "%s", dlerror());
        return NULL;
    }
    symbol = dlsym(library, "berth_cuda_entry");
    /* ISO C has no cast from an object's pointer to a function's. */
    memcpy(&entry, &symbol, sizeof(entry));
    if (entry == NULL) {
        snprintf(ret_error, error_bytes, "%s is no such library: it has no berth_cuda_entry", path);
        dlclose(library);
        return NULL;
    }
    device = entry(&terms, check_failed);
    if (device == NULL) {
        snprintf(ret_error, error_bytes, "%s was built from other sources than this program: `make cuda` builds it anew", path);
        dlclose(library);
    }
    return device;
}

/* The least that opens; NULL: ret_error says why. */
static struct dev *open_least(const struct device *device, char *ret_error, size_t error_bytes)
{
    const struct dev_config config = {.dims = {.hidden = 16, .heads = 1, .kv_heads = 1, .head_dim = 16, .ffn = 16, .vocabulary = 16, .layers = 1},
                                      .mode = MODE_EXACT, .rows_max = 1, .outputs_max = 1, .positions_max = 1};

    return device->open(&config, ret_error, error_bytes);
}

bool cuda_runs_here(char *ret_error, size_t error_bytes)
{
    const struct device *device = cuda_load(ret_error, error_bytes);
    struct dev *dev = device != NULL ? open_least(device, ret_error, error_bytes) : NULL;

    if (dev == NULL)
        return false;
    device->close(dev);
    return true;
}

uint32_t cuda_gpus_here(uint64_t *ret_bytes, char *ret_error, size_t error_bytes)
{
    return cuda_runs_here(ret_error, error_bytes) ? cuda_load(ret_error, error_bytes)->gpus(ret_bytes) : 0;
}

void cuda_see(const char *gpu)
{
    check(setenv("CUDA_VISIBLE_DEVICES", gpu, 1) == 0);
}

bool cuda_shares_here(char *ret_error, size_t error_bytes)
{
    const struct device *device = cuda_load(ret_error, error_bytes);
    struct dev *dev = device != NULL ? open_least(device, ret_error, error_bytes) : NULL;
    bool can;

    if (dev == NULL)
        return false;
    can = device->share->can(dev, ret_error, error_bytes);
    device->close(dev);
    return can;
}
