#include "engine/ops/cpu/train.h"
#include "engine/ops/ref/train.h"
const struct train_ops train_ops_cpu = {
#define X(name) .name = ref_##name,
    TRAIN_OPS(X)
#undef X
};
