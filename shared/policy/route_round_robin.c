/* Each replica of the pool in its turn, whatever it holds and however loaded it is: the baseline that spreads every
 * adapter over every replica. */
#include "policy/route.h"

static uint32_t pick(const struct fleet_view *view, const struct fleet_ask *ask)
{
    (void)view;
    return ask->pool[ask->pool_ordinal % ask->pool_count];
}

const struct route_policy route_round_robin = {
    .name = "round-robin",
    .about = "each replica in its turn, blind to load and residency",
    .pick = pick,
};
