/* What a routing policy sees. Read-only. */
#ifndef FLEET_VIEW_H
#define FLEET_VIEW_H

#include "fleet/event.h"

struct fleet_replica {
    uint32_t outstanding;      /* routed and not yet done */
    uint32_t waiting;          /* as last reported */
    uint32_t kv_free_permille; /* as last reported */
    uint32_t generation;
    base_id base;
    node_id node;
    bool up;
    bool draining;             /* up, in no pool: what it has it finishes */
    bool merged;               /* up, in no pool: it serves one adapter, whose weights are merged into its own */
};

struct fleet_view {
    uint64_t salt;
    const struct fleet_replica *replicas; /* [replicas_max], by replica index */
    uint32_t replicas_max;
    /* Knobs of bounded and affinity, fixed point. */
    uint32_t bound_milli;     /* busy: outstanding > bound * mean of the pool + bound_add; 1250 */
    uint32_t bound_add;       /* 4 */
};

/* One request to place. */
struct fleet_ask {
    request_id request;
    adapter_id adapter;
    tenant_id tenant;
    const uint16_t *pool;       /* replica indexes that are up and serve the base, ascending; pool_count >= 1 */
    uint32_t pool_count;
    uint64_t pool_ordinal;      /* requests routed in this pool before this one */
    uint64_t pool_outstanding;  /* sum over the pool */
    uint32_t homes;             /* how many home replicas the adapter's rate needs now, 1..pool_count */
    const uint64_t *gpu_bits;   /* replica indexes that hold the adapter in a slot; NULL: none known */
    const uint64_t *host_bits;  /* replica indexes whose node holds it in host memory; NULL: none known */
    enum route_reason *reason;  /* the policy may say more than ROUTE_POLICY */
};

/* A base's replicas and their load, when somebody asks how many there should be. */
struct scale_view {
    uint64_t outstanding_milli; /* of those that are routed to, smoothed, in thousandths of a request */
    uint32_t replicas;          /* that there are or will be: draining ones are not counted */
    uint32_t floor;
    uint32_t ceiling;
    uint32_t target_milli;      /* see fleet/event.h */
    uint32_t up_milli;
    uint32_t down_milli;
};

#endif
