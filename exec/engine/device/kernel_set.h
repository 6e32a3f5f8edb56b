/* Which set of CPU kernels this machine runs. Bits belong to a set: two sets may differ in the last place, one never does. */
#ifndef DEVICE_KERNEL_SET_H
#define DEVICE_KERNEL_SET_H

#include "base/base.h"

#define KERNEL_SETS(X)                                                        \
    X(SCALAR, "cpu-scalar", "plain C, for any machine")                       \
    X(AVX2, "cpu-avx2", "AVX2 and FMA")                                       \
    X(AVX512BF16, "cpu-avx512bf16", "AVX-512 with dot products of bfloat16")

enum kernel_set {
#define X(name, text, about) KERNELS_##name,
    KERNEL_SETS(X)
#undef X
    KERNELS_COUNT
};

const char *kernel_set_name(enum kernel_set set);
const char *kernel_set_about(enum kernel_set set);
bool kernel_set_runs_here(enum kernel_set set);
/* The best one that runs here. */
enum kernel_set kernel_set_best(void);
/* STATUS_NOT_FOUND when the name is unknown, STATUS_INVALID when this machine lacks it. */
enum status kernel_set_find(const char *name, enum kernel_set *ret_set);

#endif
