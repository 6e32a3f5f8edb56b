#include "policy/policy.h"

const struct place_policy place_residency = {
    .name = "residency",
    .about = "where its base is resident, or is coming; loads one where queued work pays",
    .resident_first = true,
};
