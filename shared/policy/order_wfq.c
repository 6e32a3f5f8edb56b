#include "policy/policy.h"

const struct order_policy order_wfq = {
    .name = "wfq",
    .about = "weighted fair share: the tenant with the least decayed usage per weight first",
    .by_share = true,
};
