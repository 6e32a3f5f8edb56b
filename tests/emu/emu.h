/* CUDA C under a C++ compiler: a kernel's threads are fibers of one host thread, run in an order that a test chooses,
 * and what a GPU leaves open is answered in the most unhelpful way. Barriers, shuffles and matrix instructions are
 * meetings: lanes that come to different ones, or do not come, stop the run and say where. It refuses static shared
 * memory (there is no __shared__), blocks that are no whole warps, and what control.h lists. runtime.h is the part of
 * the host. */
#ifndef EMU_EMU_H
#define EMU_EMU_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint3 { unsigned x, y, z; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

#include "emu/control.h"
#include "emu/driver.h"
#include "emu/runtime.h"

namespace emu {

constexpr int THREADS_MAX = 1024;
constexpr int SHARED_MAX = 163 * 1024;     /* of a block on sm_80 */
constexpr int SHARED_PLAIN = 48 * 1024;

/* Of the thread that runs. */
uint3 thread_index();
uint3 block_index();
dim3 block_size();
dim3 grid_size();
void *shared_memory();
int lane();

void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The lanes in mask wait for each other; the last to come acts on all their arguments, then all go on. */
void meet(const char *what, int site, unsigned mask, void *argument, void (*act)(void **arguments, unsigned mask));
void barrier(int site);

void launch_now(const char *name, dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &thread);
void launch_check(const char *name, const void *kernel, dim3 grid, dim3 block, size_t shared_bytes);

template <class T> void argument_check(const char *name, const T &argument)
{
    if constexpr (std::is_pointer_v<T>) {
        if (argument != nullptr && !on_device((const void *)argument))
            refuse("%s: an argument is host memory", name);
    }
}

template <class... Parameters, class... Arguments>
void launch(const char *name, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
            Arguments... arguments)
{
    std::tuple<Parameters...> values(arguments...);

    launch_check(name, (const void *)kernel, grid, block, shared_bytes);
    std::apply([&](const Parameters &...each) { (argument_check(name, each), ...); }, values);
    enqueue(stream, [=] { launch_now(name, grid, block, shared_bytes, [&] { std::apply(kernel, values); }); });
}

/* The bodies of cuda_prims.h. */
void cp_async16(void *shared, const void *global, int bytes, int site);
void cp_async_commit();
void cp_async_wait(int groups_left);
void ldmatrix_x4(uint32_t *r, const void *row, bool trans, int site);
void mma_bf16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1, int site);
uint4 load16(const void *global, int site);
void store16(void *global, uint4 value, int site);

struct shuffle { uint32_t value, result; int source; };
void shuffle_act(void **arguments, unsigned mask);

template <class T> T shuffle_from(unsigned mask, T value, int source, int site)
{
    struct shuffle each;
    T result;

    static_assert(sizeof(T) == 4);
    memcpy(&each.value, &value, 4);
    each.source = source;
    meet("shuffle", site, mask, &each, shuffle_act);
    memcpy(&result, &each.result, 4);
    return result;
}

unsigned ballot(unsigned mask, bool yes, int site);

} /* namespace emu */

#define threadIdx (emu::thread_index())
#define blockIdx (emu::block_index())
#define blockDim (emu::block_size())
#define gridDim (emu::grid_size())
#define __syncthreads() emu::barrier(__LINE__)
#define __syncwarp() emu::meet("syncwarp", __LINE__, ~0u, nullptr, nullptr)

template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int with, int site = __builtin_LINE())
{
    return emu::shuffle_from(mask, value, emu::lane() ^ with, site);
}
template <class T> static inline T __shfl_sync(unsigned mask, T value, int from, int site = __builtin_LINE())
{
    return emu::shuffle_from(mask, value, from & 31, site);
}
static inline unsigned __ballot_sync(unsigned mask, bool yes, int site = __builtin_LINE())
{
    return emu::ballot(mask, yes, site);
}
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
static inline unsigned __float_as_uint(float value)
{
    unsigned bits;

    memcpy(&bits, &value, 4);
    return bits;
}
static inline float __uint_as_float(unsigned bits)
{
    float value;

    memcpy(&value, &bits, 4);
    return value;
}
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
/* Of integers only: sums of floats in the order of arrival are not wanted anywhere. */
static inline int atomicAdd(int *at, int value)
{
    int before = *at;

    *at += value;
    return before;
}

#endif
