/* Rendezvous hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2018, there on a ring): the replicas in the
 * adapter's own order, the first that is not busy. So no replica exceeds the bound while another is below it, and an
 * adapter that overflows goes to the same second choice every time. Base requests have no order: least-loaded. */
#include "policy/route.h"

/* The replica with the highest weight that is at most `most`. */
static uint32_t next_in_order(const struct fleet_ask *ask, uint64_t seed, uint64_t most, uint64_t *ret_weight)
{
    uint32_t best = NONE_INDEX;
    uint64_t best_weight = 0;

    for (uint32_t i = 0; i < ask->pool_count; i++) {
        uint64_t weight = route_weight(seed, ask->pool[i]);

        if (weight <= most && (best == NONE_INDEX || weight > best_weight)) {
            best = ask->pool[i];
            best_weight = weight;
        }
    }
    *ret_weight = best_weight;
    return best;
}

static uint32_t pick(const struct fleet_view *view, const struct fleet_ask *ask)
{
    if (adapter_is_base(ask->adapter))
        return route_least_loaded_of(view, ask);

    uint64_t seed = route_weight_seed(view, ask->adapter);
    uint64_t weight;
    uint32_t replica = next_in_order(ask, seed, UINT64_MAX, &weight);

    *ask->reason = ROUTE_HOME;
    /* Ends: one of the pool is not busy. Most requests stop at the first or second, so order is sought, not sorted. */
    while (route_busy(view, ask, replica)) {
        *ask->reason = ROUTE_OVERFLOW_ANY;
        replica = next_in_order(ask, seed, weight - 1, &weight);
        check(replica != NONE_INDEX);
    }
    return replica;
}

const struct route_policy route_bounded = {
    .name = "bounded",
    .about = "rendezvous hashing with bounded loads: the first in the adapter's order that is not busy",
    .pick = pick,
};
