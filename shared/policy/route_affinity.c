/* The production default. An adapter's homes are the first of its rendezvous order, as many as its rate needs; the
 * least loaded of them serves it. When that one is busy, so are all homes, and the request overflows to a replica that
 * is not: one that holds the adapter in a GPU slot, else one whose host memory holds it, else the least loaded of all.
 * Whenever several are as good the adapter's own order decides, so that what overflows lands where it landed before.
 * Base requests have no home: least-loaded. */
#include "policy/route.h"

/* Weights of the pool, once a request. The fleet core has at most this many replicas. */
#define POOL_MAX 1024

struct ranked {
    uint32_t replica;
    uint64_t weight;
};

/* The replica with the highest weight that is at most `most`; there is one. */
static struct ranked next_home(const struct fleet_ask *ask, const uint64_t *weights, uint64_t most)
{
    struct ranked best = {NONE_INDEX, 0};

    for (uint32_t i = 0; i < ask->pool_count; i++)
        if (weights[i] <= most && (best.replica == NONE_INDEX || weights[i] > best.weight))
            best = (struct ranked){ask->pool[i], weights[i]};
    check(best.replica != NONE_INDEX);
    return best;
}

static uint32_t best_home(const struct fleet_view *view, const struct fleet_ask *ask, const uint64_t *weights)
{
    struct ranked home = next_home(ask, weights, UINT64_MAX);
    uint32_t best = home.replica;

    for (uint32_t k = 1; k < ask->homes; k++) {
        home = next_home(ask, weights, home.weight - 1);
        if (route_outstanding(view, home.replica) < route_outstanding(view, best))
            best = home.replica;
    }
    return best;
}

static enum route_reason overflow_class(const struct fleet_ask *ask, uint32_t replica)
{
    if (route_bit(ask->gpu_bits, replica))
        return ROUTE_OVERFLOW_GPU;
    return route_bit(ask->host_bits, replica) ? ROUTE_OVERFLOW_HOST : ROUTE_OVERFLOW_ANY;
}

/* Among those not busy: the warmest tier, then the fewest outstanding, then the adapter's order. */
static uint32_t overflow(const struct fleet_view *view, const struct fleet_ask *ask, const uint64_t *weights)
{
    uint32_t best = NONE_INDEX;
    uint64_t best_key = 0;
    uint64_t best_weight = 0;

    for (uint32_t i = 0; i < ask->pool_count; i++) {
        uint32_t replica = ask->pool[i];

        if (route_busy(view, ask, replica))
            continue;

        /* ROUTE_OVERFLOW_* stand in order of preference. */
        uint64_t key = (uint64_t)overflow_class(ask, replica) << 32 | route_outstanding(view, replica);

        if (best == NONE_INDEX || key < best_key || (key == best_key && weights[i] > best_weight)) {
            best = replica;
            best_key = key;
            best_weight = weights[i];
        }
    }
    check(best != NONE_INDEX); /* see route_busy */
    return best;
}

static uint32_t pick(const struct fleet_view *view, const struct fleet_ask *ask)
{
    if (adapter_is_base(ask->adapter))
        return route_least_loaded_of(view, ask);
    check(ask->pool_count <= POOL_MAX);
    check(ask->homes >= 1 && ask->homes <= ask->pool_count);

    uint64_t weights[POOL_MAX];
    uint64_t seed = route_weight_seed(view, ask->adapter);

    for (uint32_t i = 0; i < ask->pool_count; i++)
        weights[i] = route_weight(seed, ask->pool[i]);

    uint32_t home = best_home(view, ask, weights);

    if (!route_busy(view, ask, home)) {
        *ask->reason = ROUTE_HOME;
        return home;
    }
    home = overflow(view, ask, weights);
    *ask->reason = overflow_class(ask, home);
    return home;
}

const struct route_policy route_affinity = {
    .name = "affinity",
    .about = "rendezvous home, more homes when hot; when busy, a replica that holds it on GPU, in host memory, any",
    .pick = pick,
};
