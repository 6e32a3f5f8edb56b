/* The table of definitions. */
#include "engine/ops/ref/ref.h"

const struct ops ops_ref = {
#define X(name) .name = ref_##name,
    OPS(X)
#undef X
};
