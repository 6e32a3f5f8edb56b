#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu/train_kernels.h"

const struct kernels *kernels_of(enum kernel_set set)
{
    check(kernel_set_runs_here(set));
#if defined(__x86_64__)
    if (set == KERNELS_AVX512BF16)
        return &kernels_avx512bf16;
    if (set == KERNELS_AVX2)
        return &kernels_avx2;
#endif
    return &kernels_scalar;
}

const struct train_kernels *train_kernels_of(enum kernel_set set)
{
    check(kernel_set_runs_here(set));
#if defined(__x86_64__)
    if (set == KERNELS_AVX512BF16)
        return &train_kernels_avx512bf16;
    if (set == KERNELS_AVX2)
        return &train_kernels_avx2;
#endif
    return &train_kernels_scalar;
}
