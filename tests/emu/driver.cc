#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "emu/driver.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <vector>

#include "emu/control.h"
#include "emu/emu.h"

using namespace emu;

/* Of a GPU: what an allocation is rounded to. */
constexpr size_t STEP_BYTES = (size_t)2 << 20;
constexpr size_t FILL_BYTES = 65536;

struct allocation {
    int file;
    bool exports;
};
struct range {
    size_t bytes;
    bool mapped;
};

static struct {
    std::map<CUmemGenericAllocationHandle, allocation> allocations;
    std::map<char *, range> ranges;
    CUmemGenericAllocationHandle last;
    bool no_driver;
    unsigned char gpu;
} d;

void emu_sharing(bool there, unsigned char gpu)
{
    d.no_driver = !there;
    d.gpu = gpu;
}

CUresult cuDeviceGet(CUdevice *ret_device, int ordinal)
{
    *ret_device = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetAttribute(int *ret_value, CUdevice_attribute, CUdevice)
{
    *ret_value = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *ret_id, CUdevice)
{
    memset(ret_id->bytes, 0, sizeof(ret_id->bytes));
    ret_id->bytes[0] = (char)d.gpu;
    return CUDA_SUCCESS;
}

static bool prop_fits(const CUmemAllocationProp *prop)
{
    return prop->type == CU_MEM_ALLOCATION_TYPE_PINNED && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop->location.id == 0;
}

CUresult cuMemGetAllocationGranularity(size_t *ret_bytes, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags)
{
    *ret_bytes = STEP_BYTES;
    return prop_fits(prop) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Fresh memory holds what somebody left. */
static bool file_fill(int file, size_t bytes)
{
    std::vector<char> left(FILL_BYTES, (char)0xff);

    for (size_t at = 0; at < bytes; at += FILL_BYTES) {
        if (pwrite(file, left.data(), FILL_BYTES, (off_t)at) != (ssize_t)FILL_BYTES)
            return false;
    }
    return true;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *ret_handle, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags)
{
    int file;

    if (!prop_fits(prop) || bytes == 0 || bytes % STEP_BYTES != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    file = memfd_create("gpu", MFD_CLOEXEC);
    if (file < 0 || !file_fill(file, bytes)) {
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    d.allocations[++d.last] = {file, prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    *ret_handle = d.last;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    auto found = d.allocations.find(handle);

    if (found == d.allocations.end())
        return CUDA_ERROR_INVALID_VALUE;
    close(found->second.file);
    d.allocations.erase(found);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *ret_at, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags)
{
    char *pages;

    if (bytes == 0 || bytes % STEP_BYTES != 0 || alignment != 0 || wish != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pages = pages_reserve(bytes);
    if (pages == nullptr)
        return CUDA_ERROR_OUT_OF_MEMORY;
    d.ranges[pages] = {bytes, false};
    *ret_at = (CUdeviceptr)(uintptr_t)pages;
    return CUDA_SUCCESS;
}

/* Calls are for whole ranges here. */
static range *range_of(CUdeviceptr at, size_t bytes)
{
    auto found = d.ranges.find((char *)(uintptr_t)at);

    return found != d.ranges.end() && found->second.bytes == bytes ? &found->second : nullptr;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes)
{
    range *range = range_of(at, bytes);

    if (range == nullptr || range->mapped)
        return CUDA_ERROR_INVALID_VALUE;
    pages_free((char *)(uintptr_t)at);
    d.ranges.erase((char *)(uintptr_t)at);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    auto found = d.allocations.find(handle);
    range *range = range_of(at, bytes);
    struct stat about;

    if (range == nullptr || range->mapped || found == d.allocations.end() || offset != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fstat(found->second.file, &about) != 0 || (size_t)about.st_size < bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (mmap((void *)(uintptr_t)at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second.file, 0) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range->mapped = true;
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes)
{
    range *range = range_of(at, bytes);

    if (range == nullptr || !range->mapped)
        return CUDA_ERROR_INVALID_VALUE;
    pages_allow((char *)(uintptr_t)at, PROT_NONE);
    if (mmap((void *)(uintptr_t)at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range->mapped = false;
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    range *range = range_of(at, bytes);

    if (range == nullptr || !range->mapped || count != 1 || access->location.type != CU_MEM_LOCATION_TYPE_DEVICE || access->location.id != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pages_allow((char *)(uintptr_t)at, access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ        ? PROT_READ
                                       : access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                                                                                             : PROT_NONE);
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *ret_handle, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    auto found = d.allocations.find(handle);

    if (found == d.allocations.end() || !found->second.exports || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *(int *)ret_handle = fcntl(found->second.file, F_DUPFD_CLOEXEC, 0);
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *ret_handle, void *file, CUmemAllocationHandleType type)
{
    int copy = fcntl((int)(intptr_t)file, F_DUPFD_CLOEXEC, 0);

    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || copy < 0 || fcntl(copy, F_GET_SEALS) < 0) {
        close(copy);
        return CUDA_ERROR_INVALID_HANDLE; /* no descriptor, or of no memory */
    }
    d.allocations[++d.last] = {copy, true};
    *ret_handle = d.last;
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **ret_function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult *ret_result)
{
    static const struct { const char *name; void *function; } calls[] = {
#define CALL(name) {#name, (void *)name}
        CALL(cuDeviceGet), CALL(cuDeviceGetAttribute), CALL(cuDeviceGetUuid), CALL(cuMemGetAllocationGranularity), CALL(cuMemCreate),
        CALL(cuMemRelease), CALL(cuMemAddressReserve), CALL(cuMemAddressFree), CALL(cuMemMap), CALL(cuMemUnmap), CALL(cuMemSetAccess),
        CALL(cuMemExportToShareableHandle), CALL(cuMemImportFromShareableHandle),
#undef CALL
    };

    *ret_function = nullptr;
    *ret_result = cudaDriverEntryPointSymbolNotFound;
    for (const auto &each : calls) {
        if (d.no_driver || strcmp(each.name, symbol) != 0)
            continue;
        *ret_function = each.function;
        *ret_result = cudaDriverEntryPointSuccess;
    }
    return cudaSuccess;
}
