/* The kernels in plain C. */
#include "engine/ops/cpu/vec_scalar.h"

#include "engine/ops/cpu/body_multiply.h"

#include "engine/ops/cpu/body_attend.h"

#include "engine/ops/cpu/body_rows.h"

const struct kernels kernels_scalar = KERNELS_BODY;
