#include "engine/device/kernel_set.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const struct {
    const char *name;
    const char *about;
} sets[] = {
#define X(name, text, about) {text, about},
    KERNEL_SETS(X)
#undef X
};

const char *kernel_set_name(enum kernel_set set)
{
    check(set < KERNELS_COUNT);
    return sets[set].name;
}

const char *kernel_set_about(enum kernel_set set)
{
    check(set < KERNELS_COUNT);
    return sets[set].about;
}

#if defined(__x86_64__)
/* Conversions of 16-bit floats, which not every compiler's list of features names. */
static bool has_f16c(void)
{
    unsigned int eax;
    unsigned int ebx;
    unsigned int ecx;
    unsigned int edx;

    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

bool kernel_set_runs_here(enum kernel_set set)
{
#if defined(__x86_64__)
    switch (set) {
    case KERNELS_AVX512BF16:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
    case KERNELS_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    default:
        break;
    }
#endif
    return set == KERNELS_SCALAR;
}

enum kernel_set kernel_set_best(void)
{
    enum kernel_set best = KERNELS_SCALAR;

    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++)
        if (kernel_set_runs_here(set))
            best = set;
    return best;
}

enum status kernel_set_find(const char *name, enum kernel_set *ret_set)
{
    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++) {
        if (strcmp(name, sets[set].name) != 0)
            continue;
        *ret_set = set;
        return kernel_set_runs_here(set) ? STATUS_OK : STATUS_INVALID;
    }
    return STATUS_NOT_FOUND;
}
