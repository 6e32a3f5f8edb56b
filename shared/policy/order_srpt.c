#include "policy/policy.h"

const struct order_policy order_srpt = {
    .name = "srpt",
    .about = "least remaining GPU time first: short mean waits, long jobs may starve",
    .by_size = true,
};
