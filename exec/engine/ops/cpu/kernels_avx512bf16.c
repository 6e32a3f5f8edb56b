/* The kernels for AVX-512 with dot products of bfloat16; the Makefile lets the compiler use those instructions in this file alone. */
#if defined(__x86_64__)
#include "engine/ops/cpu/vec_avx512bf16.h"

#include "engine/ops/cpu/body_multiply.h"

#include "engine/ops/cpu/body_attend.h"

#include "engine/ops/cpu/body_rows.h"

#include "engine/ops/cpu/body_panel.h"

#include "engine/ops/cpu/body_train.h"

const struct kernels kernels_avx512bf16 = KERNELS_BODY;
const struct train_kernels train_kernels_avx512bf16 = TRAIN_KERNELS_BODY;
#else
typedef int nothing_here;
#endif
