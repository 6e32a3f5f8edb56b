/* Two different replicas by chance, the less loaded of them (Mitzenmacher 2001): maximum load log log n instead of
 * log n / log log n, for two looks instead of n. */
#include "policy/route.h"

static uint32_t pick(const struct fleet_view *view, const struct fleet_ask *ask)
{
    if (ask->pool_count == 1)
        return ask->pool[0];

    uint32_t first = route_below(route_chance(view, ask, ROUTE_CHANCE_FIRST), ask->pool_count);
    uint32_t second = route_below(route_chance(view, ask, ROUTE_CHANCE_SECOND), ask->pool_count - 1);

    if (second >= first)
        second++;
    /* A tie goes to the first drawn, which is as good as a coin. */
    if (route_outstanding(view, ask->pool[second]) < route_outstanding(view, ask->pool[first]))
        return ask->pool[second];
    return ask->pool[first];
}

const struct route_policy route_power_of_two = {
    .name = "power-of-two",
    .about = "two replicas by chance, the less loaded of them",
    .pick = pick,
};
