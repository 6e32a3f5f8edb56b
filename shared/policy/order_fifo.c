#include "policy/policy.h"

const struct order_policy order_fifo = {
    .name = "fifo",
    .about = "oldest job first",
};
