/* A replica by chance. The maximum load of n requests on n replicas grows like log n / log log n, which is the line
 * that power-of-two has to beat. */
#include "policy/route.h"

static uint32_t pick(const struct fleet_view *view, const struct fleet_ask *ask)
{
    return ask->pool[route_below(route_chance(view, ask, ROUTE_CHANCE_RANDOM), ask->pool_count)];
}

const struct route_policy route_random = {
    .name = "random",
    .about = "any replica, by a hash of the request",
    .pick = pick,
};
