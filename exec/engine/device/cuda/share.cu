/* The driver's virtual memory: an allocation that other processes can map is made, exported and mapped here. Its calls are looked for when
 * somebody shares, so that the library loads where the driver is missing or too old to have them. */
#include "engine/device/cuda/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/device/cuda/ranks.h"
#include "engine/device/cuda/weights.h"

/* The meaning of a call is that of CUDA 12.0. */
#define CALLS_VERSION 12000
#define CALLS(X)                                                                                                             \
    X(cuDeviceGet) X(cuDeviceGetAttribute) X(cuDeviceGetUuid) X(cuMemGetAllocationGranularity) X(cuMemCreate) X(cuMemRelease) \
    X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) X(cuMemExportToShareableHandle)    \
    X(cuMemImportFromShareableHandle)

static struct {
#define X(name) decltype(&name) name##_call;
    CALLS(X)
#undef X
} driver;

struct cuda_shared {
    char *data;
    size_t bytes;
};

static bool calls_find(char *ret_error, size_t error_bytes)
{
    static const struct { const char *name; void **at; } calls[] = {
#define X(name) {#name, (void **)&driver.name##_call},
        CALLS(X)
#undef X
    };

    for (const auto &each : calls) {
        cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;

        if (cudaGetDriverEntryPointByVersion(each.name, each.at, CALLS_VERSION, cudaEnableDefault, &found) != cudaSuccess ||
            found != cudaDriverEntryPointSuccess || *each.at == NULL) {
            (void)cudaGetLastError();
            snprintf(ret_error, error_bytes, "the driver has no %s: it is older than CUDA 12", each.name);
            return false;
        }
    }
    return true;
}

/* What the driver refuses is told; nothing is lost by it. */
static bool did(CUresult result, const char *what, char *ret_error, size_t error_bytes)
{
    if (result != CUDA_SUCCESS)
        snprintf(ret_error, error_bytes, "%s: the driver answers %d", what, (int)result);
    return result == CUDA_SUCCESS;
}
#define DID(name, ...) did(driver.name##_call(__VA_ARGS__), #name, ret_error, error_bytes)

static bool gpu_find(struct dev *dev, CUdevice *ret_gpu, char *ret_error, size_t error_bytes)
{
    int maps = 0, exports = 0;

    if (!calls_find(ret_error, error_bytes) || !DID(cuDeviceGet, ret_gpu, cuda_gpu_of(&dev->config)) ||
        !DID(cuDeviceGetAttribute, &maps, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, *ret_gpu) ||
        !DID(cuDeviceGetAttribute, &exports, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, *ret_gpu))
        return false;
    if (maps != 0 && exports != 0)
        return true;
    snprintf(ret_error, error_bytes, "the GPU and its driver cannot give memory to other processes as a file descriptor");
    return false;
}

static bool share_can(struct dev *dev, char *ret_error, size_t error_bytes)
{
    CUdevice gpu;

    return gpu_find(dev, &gpu, ret_error, error_bytes);
}

static bool gpu_id(CUdevice gpu, uint8_t ret_id[GPU_ID_BYTES], char *ret_error, size_t error_bytes)
{
    CUuuid id;

    static_assert(sizeof(id.bytes) == GPU_ID_BYTES);
    if (!DID(cuDeviceGetUuid, &id, gpu))
        return false;
    memcpy(ret_id, id.bytes, GPU_ID_BYTES);
    return true;
}

/* An address for all of `handle`, with these rights, in dev->shared. */
static bool shared_map(struct dev *dev, CUdevice gpu, CUmemGenericAllocationHandle handle, size_t bytes, CUmemAccess_flags flags,
                       char *ret_error, size_t error_bytes)
{
    CUmemAccessDesc access = {};
    CUdeviceptr at = 0;
    bool mapped;

    check(dev->shared == NULL);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = gpu;
    access.flags = flags;
    if (!DID(cuMemAddressReserve, &at, bytes, 0, 0, 0))
        return false;
    mapped = DID(cuMemMap, at, bytes, 0, handle, 0);
    if (!mapped || !DID(cuMemSetAccess, at, bytes, &access, 1)) {
        if (mapped)
            check(driver.cuMemUnmap_call(at, bytes) == CUDA_SUCCESS);
        check(driver.cuMemAddressFree_call(at, bytes) == CUDA_SUCCESS);
        return false;
    }
    dev->shared = (struct cuda_shared *)calloc(1, sizeof(*dev->shared));
    check(dev->shared != NULL);
    dev->shared->data = (char *)(uintptr_t)at;
    dev->shared->bytes = bytes;
    return true;
}

void cuda_share_close(struct dev *dev)
{
    if (dev->shared == NULL)
        return;
    check(driver.cuMemUnmap_call((CUdeviceptr)(uintptr_t)dev->shared->data, dev->shared->bytes) == CUDA_SUCCESS);
    check(driver.cuMemAddressFree_call((CUdeviceptr)(uintptr_t)dev->shared->data, dev->shared->bytes) == CUDA_SUCCESS);
    free(dev->shared);
    dev->shared = NULL;
}

/* The file and the mapping hold the memory; the handle is not needed after. */
static enum status share_create(struct dev *dev, const struct weight *const *weights, uint32_t count, struct dev_share *ret_share,
                                const char **ret_data, char *ret_error, size_t error_bytes)
{
    CUmemAllocationProp prop = {};
    CUmemGenericAllocationHandle handle;
    struct dev_share share = {};
    size_t matrices_bytes, vectors_bytes, step = 0, bytes;
    CUresult result;
    CUdevice gpu;
    bool good;

    if (!gpu_find(dev, &gpu, ret_error, error_bytes) || !gpu_id(gpu, share.gpu, ret_error, error_bytes))
        return STATUS_INVALID;
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = gpu;
    if (!DID(cuMemGetAllocationGranularity, &step, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM))
        return STATUS_INVALID;
    cuda_weights_room(weights, count, &matrices_bytes, &vectors_bytes);
    bytes = (matrices_bytes + vectors_bytes + step - 1) / step * step;
    result = driver.cuMemCreate_call(&handle, bytes, &prop, 0);
    if (!did(result, "cuMemCreate", ret_error, error_bytes))
        return result == CUDA_ERROR_OUT_OF_MEMORY ? STATUS_FULL : STATUS_INVALID;
    good = shared_map(dev, gpu, handle, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, ret_error, error_bytes) &&
           DID(cuMemExportToShareableHandle, &share.file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    check(driver.cuMemRelease_call(handle) == CUDA_SUCCESS);
    if (!good) {
        cuda_share_close(dev);
        return STATUS_INVALID;
    }
    /* What lay there before is nobody's to see. */
    MUST(cudaMemsetAsync(dev->shared->data, 0, bytes, dev->lane[LANE_COMPUTE]));
    cuda_weights_into(dev, dev->shared->data, matrices_bytes, vectors_bytes);
    share.bytes = (int64_t)bytes;
    *ret_share = share;
    *ret_data = dev->shared->data;
    return STATUS_OK;
}

static enum status share_map(struct dev *dev, const struct dev_share *share, const char **ret_data, char *ret_error, size_t error_bytes)
{
    CUmemGenericAllocationHandle handle;
    uint8_t id[GPU_ID_BYTES];
    CUdevice gpu;
    bool good;

    if (!gpu_find(dev, &gpu, ret_error, error_bytes) || !gpu_id(gpu, id, ret_error, error_bytes))
        return STATUS_INVALID;
    if (memcmp(id, share->gpu, sizeof(id)) != 0) {
        snprintf(ret_error, error_bytes, "it lies on another GPU than this process sees (CUDA_VISIBLE_DEVICES)");
        return STATUS_INVALID;
    }
    if (!DID(cuMemImportFromShareableHandle, &handle, (void *)(uintptr_t)share->file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return STATUS_INVALID;
    good = shared_map(dev, gpu, handle, (size_t)share->bytes, CU_MEM_ACCESS_FLAGS_PROT_READ, ret_error, error_bytes);
    check(driver.cuMemRelease_call(handle) == CUDA_SUCCESS);
    if (!good)
        return STATUS_INVALID;
    *ret_data = dev->shared->data;
    return STATUS_OK;
}

extern const struct device_share cuda_share = {
    .can = share_can,
    .create = share_create,
    .map = share_map,
};
