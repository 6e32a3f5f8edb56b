/* What the routing policies share: chance, rendezvous order, the busy line, and the least loaded of a pool.
 * All of it is arithmetic on the view; nothing here keeps anything. */
#ifndef POLICY_ROUTE_H
#define POLICY_ROUTE_H

#include "base/hash.h"
#include "fleet/view.h"
#include "policy/policy.h"

/* Each purpose is a stream of its own, so that a new use of chance moves no other. */
enum route_purpose {
    ROUTE_CHANCE_RANDOM = 1,
    ROUTE_CHANCE_FIRST,
    ROUTE_CHANCE_SECOND,
    ROUTE_CHANCE_TIES,
    ROUTE_CHANCE_HOMES,
};

/* A draw that needs no state: the same request draws the same number wherever and whenever it is replayed. */
static inline uint64_t route_chance(const struct fleet_view *view, const struct fleet_ask *ask,
                                    enum route_purpose purpose)
{
    return hash_mix(hash_mix(view->salt + purpose) ^ request_ordinal(ask->request));
}

/* chance -> 0 .. below - 1 by multiplication; the bias is below / 2^32. */
static inline uint32_t route_below(uint64_t chance, uint32_t below)
{
    return (uint32_t)(((chance >> 32) * below) >> 32);
}

static inline uint32_t route_outstanding(const struct fleet_view *view, uint32_t replica)
{
    return view->replicas[replica].outstanding;
}

/* Rendezvous hashing (Thaler and Ravishankar 1998): every adapter ranks all replicas by a hash of the pair, and the
 * highest present is its home, so a replica that comes or goes moves only the adapters that rank it first. The version
 * is left out: new weights stay at home. hash_mix is a bijection, so an adapter's weights never tie. */
static inline uint64_t route_weight_seed(const struct fleet_view *view, adapter_id adapter)
{
    return hash_mix(hash_mix(view->salt + ROUTE_CHANCE_HOMES) ^ adapter.index);
}
static inline uint64_t route_weight(uint64_t seed, uint32_t replica) { return hash_mix(seed ^ replica); }

/* outstanding > bound * mean of the pool + add, without a division. The least loaded replica is at or below the mean,
 * so with bound_milli >= 1000 (which fleet_create demands) at least one replica of a pool is not busy. */
static inline bool route_busy(const struct fleet_view *view, const struct fleet_ask *ask, uint32_t replica)
{
    uint64_t mine = (uint64_t)route_outstanding(view, replica) * ask->pool_count * 1000;

    return mine > view->bound_milli * ask->pool_outstanding + (uint64_t)view->bound_add * 1000 * ask->pool_count;
}

/* The replica with the fewest outstanding; ties go to the first at or after a place drawn for this request, so that an
 * idle pool does not pile up on its first replica. */
static inline uint32_t route_least_loaded_of(const struct fleet_view *view, const struct fleet_ask *ask)
{
    uint32_t start = route_below(route_chance(view, ask, ROUTE_CHANCE_TIES), ask->pool_count);
    uint32_t best = ask->pool[start];

    for (uint32_t i = start + 1; i < ask->pool_count; i++)
        if (route_outstanding(view, ask->pool[i]) < route_outstanding(view, best))
            best = ask->pool[i];
    for (uint32_t i = 0; i < start; i++)
        if (route_outstanding(view, ask->pool[i]) < route_outstanding(view, best))
            best = ask->pool[i];
    return best;
}

static inline bool route_bit(const uint64_t *bits, uint32_t replica)
{
    return bits != NULL && (bits[replica / 64] >> replica % 64 & 1) != 0;
}

#endif
