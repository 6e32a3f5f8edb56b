/* The kernels in plain C. */
#include "engine/ops/cpu/vec_scalar.h"

#include "engine/ops/cpu/body_multiply.h"

#include "engine/ops/cpu/body_attend.h"

#include "engine/ops/cpu/body_rows.h"

#include "engine/ops/cpu/body_panel.h"

#include "engine/ops/cpu/body_train.h"

const struct kernels kernels_scalar = KERNELS_BODY;
const struct train_kernels train_kernels_scalar = TRAIN_KERNELS_BODY;
