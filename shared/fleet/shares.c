/* The water-filled share: one level for all, in thousandths of a GPU by weight, and nobody above its demand (max-min
 * fairness: Bertsekas, Gallager, Data Networks, 6.5.2). Exact in integers: tenants in the order in which a rising level
 * satisfies them, then the rest by largest remainder. O(n log n), without memory of its own. */
#include "fleet/quota_state.h"

struct ranking {
    const struct quota_node *nodes;
    const int64_t *demand_milli;
    const uint64_t *remainders;
};

typedef bool before_function(const struct ranking *ranking, uint32_t a, uint32_t b);

/* demand / weight: who is satisfied first. Ties to the lower tenant make the order total. */
static bool satisfied_before(const struct ranking *ranking, uint32_t a, uint32_t b)
{
    uint128 level_a = (uint128)ranking->demand_milli[a] * ranking->nodes[b].weight_milli;
    uint128 level_b = (uint128)ranking->demand_milli[b] * ranking->nodes[a].weight_milli;

    return level_a != level_b ? level_a < level_b : a < b;
}

static bool remainder_before(const struct ranking *ranking, uint32_t a, uint32_t b)
{
    uint64_t remainder_a = ranking->remainders[a];
    uint64_t remainder_b = ranking->remainders[b];

    return remainder_a != remainder_b ? remainder_a > remainder_b : a < b;
}

static void sift(uint32_t *heap, uint32_t at, uint32_t count, before_function *before, const struct ranking *ranking)
{
    uint32_t item = heap[at];

    for (;;) {
        uint64_t child = 2 * (uint64_t)at + 1;

        if (child >= count)
            break;
        if (child + 1 < count && before(ranking, heap[child], heap[child + 1]))
            child++;
        if (!before(ranking, item, heap[child]))
            break;
        heap[at] = heap[child];
        at = (uint32_t)child;
    }
    heap[at] = item;
}

static void sort(uint32_t *items, uint32_t count, before_function *before, const struct ranking *ranking)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sift(items, i, count, before, ranking);
    for (uint32_t last = count; last-- > 1;) {
        uint32_t greatest = items[0];

        items[0] = items[last];
        items[last] = greatest;
        sift(items, 0, last, before, ranking);
    }
}

void quota_water_fill(const struct quota *quota, int64_t capacity_milli, const int64_t *demand_milli,
                      int64_t *ret_share_milli)
{
    struct ranking ranking = {quota->nodes, demand_milli, quota->remainders};
    uint32_t *order = quota->order;
    uint32_t count = 0;
    uint64_t weight = 0; /* of those not satisfied */
    int64_t left = capacity_milli;
    uint32_t i;

    check(capacity_milli >= 0);
    for (uint32_t tenant = 0; tenant < quota->config.tenants_max; tenant++) {
        check(demand_milli[tenant] >= 0);
        check(demand_milli[tenant] == 0 || quota_knows(quota, tenant));
        ret_share_milli[tenant] = 0;
        if (demand_milli[tenant] > 0) {
            order[count++] = tenant;
            weight += quota->nodes[tenant].weight_milli;
        }
    }

    sort(order, count, satisfied_before, &ranking);
    for (i = 0; i < count; i++) {
        uint32_t tenant = order[i];
        uint32_t own = quota->nodes[tenant].weight_milli;

        if ((uint128)demand_milli[tenant] * weight > (uint128)left * own)
            break;
        ret_share_milli[tenant] = demand_milli[tenant];
        left -= demand_milli[tenant];
        weight -= own;
    }

    /* The level is left / weight for all that remain, and less than each one's demand by weight: a unit more does not
     * exceed it. The units that rounding down leaves are fewer than those that remain. */
    uint32_t *rest = order + i;
    uint32_t rest_count = count - i;
    int64_t units = left;

    for (uint32_t j = 0; j < rest_count; j++) {
        uint128 part = (uint128)left * quota->nodes[rest[j]].weight_milli;

        ret_share_milli[rest[j]] = (int64_t)(part / weight);
        quota->remainders[rest[j]] = (uint64_t)(part - (uint128)ret_share_milli[rest[j]] * weight);
        units -= ret_share_milli[rest[j]];
    }
    check(rest_count == 0 || units < (int64_t)rest_count);
    sort(rest, rest_count, remainder_before, &ranking);
    for (uint32_t j = 0; j < rest_count && units > 0; j++, units--)
        ret_share_milli[rest[j]]++;
}
