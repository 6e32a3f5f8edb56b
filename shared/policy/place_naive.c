#include "policy/policy.h"

const struct place_policy place_naive = {
    .name = "naive",
    .about = "best fit, blind to where bases are",
};
