/* The kernels for AVX2 and FMA; the Makefile lets the compiler use those instructions in this file alone. */
#if defined(__x86_64__)
#include "engine/ops/cpu/vec_avx2.h"

#include "engine/ops/cpu/body_multiply.h"

#include "engine/ops/cpu/body_attend.h"

#include "engine/ops/cpu/body_rows.h"

#include "engine/ops/cpu/body_panel.h"

#include "engine/ops/cpu/body_train.h"

const struct kernels kernels_avx2 = KERNELS_BODY;
const struct train_kernels train_kernels_avx2 = TRAIN_KERNELS_BODY;
#else
typedef int nothing_here;
#endif
