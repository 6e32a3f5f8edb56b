/* Every adapter has one home, its index modulo the size of the pool (the first adapter, index 1, on the first replica),
 * and goes there at any load. The identity is the hash, so a pool of another size moves nearly every home: that is what
 * rendezvous hashing (bounded, affinity) is for. Base requests have no home: least-loaded. */
#include "policy/route.h"

static uint32_t pick(const struct fleet_view *view, const struct fleet_ask *ask)
{
    if (adapter_is_base(ask->adapter))
        return route_least_loaded_of(view, ask);
    *ask->reason = ROUTE_HOME;
    return ask->pool[(ask->adapter.index - 1) % ask->pool_count];
}

const struct route_policy route_sticky = {
    .name = "sticky",
    .about = "the adapter's one home, index modulo pool size, at any load",
    .pick = pick,
};
