/* The replica with the fewest requests routed and not yet done; ties rotate by a hash of the request. */
#include "policy/route.h"

const struct route_policy route_least_loaded = {
    .name = "least-loaded",
    .about = "the fewest outstanding requests; blind to residency",
    .pick = route_least_loaded_of,
};
