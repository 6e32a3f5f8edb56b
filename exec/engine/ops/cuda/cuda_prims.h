/* The instructions that CUDA C has no word for, and the three spellings that differ between nvcc and a C++ compiler.
 * PTX stands here and nowhere else; beside each instruction stands what the emulation does instead, so that no kernel
 * asks who compiles it. sm_80 has all of them. Places of rows, columns and k in the registers are those of the PTX
 * manual for m16n8k16. */
#ifndef CUDA_CUDA_PRIMS_H
#define CUDA_CUDA_PRIMS_H

#include <stdint.h>

#ifdef __CUDACC__
#include <cuda.h>
#include <cuda_runtime.h>
#include <cublas_v2.h>
#define DEVICE static __device__ __forceinline__
#define KERNEL static __global__ void
/* `kernel` is a name or a pointer. UNROLL stands before loops that index registers. */
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                    \
    do {                                                                          \
        kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__);               \
        cuda_must(cudaGetLastError(), #kernel, __FILE__, __LINE__);               \
    } while (0)
#define UNROLL _Pragma("unroll")
#define DYNAMIC_SHARED(type, name)                                                \
    extern __shared__ __align__(16) unsigned char dynamic_shared[];               \
    type *name = reinterpret_cast<type *>(dynamic_shared)
#else
#include "emu/emu.h"
#define DEVICE static __forceinline__
#define KERNEL static void
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...) emu::launch(#kernel, kernel, grid, block, shared_bytes, stream, __VA_ARGS__)
#define UNROLL
#define DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(emu::shared_memory())
#endif

/* Stops unless the answer is cudaSuccess. */
void cuda_must(cudaError_t error, const char *what, const char *file, int line);
#define MUST(call) cuda_must(call, #call, __FILE__, __LINE__)

/* The line of the caller; the emulation tells accesses apart by it. */
#define SITE int site = __builtin_LINE()

/* 16 bytes from device memory to shared memory, both 16-byte aligned; what is beyond `bytes` (0 .. 16) arrives as
 * zeros. Not there before cp_async_wait() and a barrier. */
DEVICE void cp_async16(void *shared, const void *global, int bytes, SITE)
{
#ifdef __CUDACC__
    uint32_t to = (uint32_t)__cvta_generic_to_shared(shared);

    (void)site;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
#else
    emu::cp_async16(shared, global, bytes, site);
#endif
}

DEVICE void cp_async_commit(void)
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    emu::cp_async_commit();
#endif
}

/* Until at most LEFT of this thread's groups are on their way. */
template <int LEFT> DEVICE void cp_async_wait(void)
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#else
    emu::cp_async_wait(LEFT);
#endif
}

/* Four 8 x 8 matrices of 16-bit numbers; lane i gives the address of row i % 8 of matrix i / 8. */
DEVICE void ldmatrix_x4(uint32_t (&r)[4], const void *row, SITE)
{
#ifdef __CUDACC__
    uint32_t from = (uint32_t)__cvta_generic_to_shared(row);

    (void)site;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
#else
    emu::ldmatrix_x4(r, row, false, site);
#endif
}

DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], const void *row, SITE)
{
#ifdef __CUDACC__
    uint32_t from = (uint32_t)__cvta_generic_to_shared(row);

    (void)site;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
#else
    emu::ldmatrix_x4(r, row, true, site);
#endif
}

/* c [16][8] += a [16][16] b [16][8], bf16 in, f32 out. */
DEVICE void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, SITE)
{
#ifdef __CUDACC__
    (void)site;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    emu::mma_bf16(c, a, b0, b1, site);
#endif
}

/* Two floats to bf16, to nearest even; `low` in the lower half. */
DEVICE uint32_t bf16_pair(float low, float high)
{
#ifdef __CUDACC__
    uint32_t pair;

    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    uint32_t bits[2] = {__float_as_uint(low), __float_as_uint(high)};

    for (uint32_t &each : bits)
        each = (each & 0x7fffffffu) > 0x7f800000u ? 0x7fff : (each + 0x7fff + (each >> 16 & 1)) >> 16;
    return bits[0] | bits[1] << 16;
#endif
}

/* 16 bytes of device memory at once. */
DEVICE uint4 load16(const void *global, SITE)
{
#ifdef __CUDACC__
    (void)site;
    return *static_cast<const uint4 *>(global);
#else
    return emu::load16(global, site);
#endif
}

DEVICE void store16(void *global, uint4 value, SITE)
{
#ifdef __CUDACC__
    (void)site;
    *static_cast<uint4 *>(global) = value;
#else
    emu::store16(global, value, site);
#endif
}

/* --- what follows from them --------------------------------------------------------------------------------------- */
DEVICE float bf16_float(uint32_t half)
{
    return __uint_as_float(half << 16);
}

DEVICE uint16_t float_bf16(float value)
{
    return (uint16_t)bf16_pair(value, 0.0f);
}

/* Sum and maximum over the 32 lanes, in one order; every lane has the result. */
DEVICE float warp_sum(float value)
{
    for (int with = 16; with > 0; with /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, with);
    return value;
}

DEVICE float warp_max(float value)
{
    for (int with = 16; with > 0; with /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, with));
    return value;
}

/* The same over all THREADS of a block; part [THREADS / 32] lies in shared memory and is free again at the next meeting. */
template <int THREADS, bool SUM> DEVICE float block_reduce(float *part, float value)
{
    int thread = (int)threadIdx.x;
    float result;

    value = SUM ? warp_sum(value) : warp_max(value);
    __syncthreads();
    if (thread % 32 == 0)
        part[thread / 32] = value;
    __syncthreads();
    result = part[0];
    for (int i = 1; i < THREADS / 32; i++)
        result = SUM ? result + part[i] : fmaxf(result, part[i]);
    return result;
}

#endif
