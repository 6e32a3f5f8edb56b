/* What the fleet core is told. 96 bytes, no pointers, memset to zero before filling. */
#ifndef FLEET_EVENT_H
#define FLEET_EVENT_H

#include "base/ids.h"

#define FLEET_EVENTS(X)                                                                  \
    X(REPLICA_UP)      /* a replica is ready to serve its base */                        \
    X(REPLICA_DOWN)    /* gone: its requests in flight are the host's to send again */   \
    X(REPLICA_STATE)   /* periodic report */                                             \
    X(RESIDENCY)       /* an adapter came to, or left, a tier (reason unused) */         \
    X(REQUEST)                                                                           \
    X(REQUEST_DONE)    /* finished, refused by the replica or cancelled */               \
    X(ADAPTER_RETIRED) /* forget its rate and residency */                               \
    X(TICK)
enum fleet_event_kind {
    FLEET_EVENT_NONE,
#define X(name) FLEET_EVENT_##name,
    FLEET_EVENTS(X)
#undef X
    FLEET_EVENT_COUNT
};

struct fleet_event {
    EVENT_HEAD;
    union {
        struct {
            replica_id replica;
            node_id node;
            base_id base;
        } replica_up, replica_down;
        struct {
            replica_id replica;
            uint32_t waiting;
            uint32_t kv_free_permille;
        } replica_state;
        struct {
            replica_id replica; /* tier GPU */
            adapter_id adapter;
            node_id node;       /* tier HOST */
            uint16_t tier;
            uint16_t present;   /* 1 came, 0 left */
        } residency;
        struct {
            request_id request;
            adapter_id adapter;
            tenant_id tenant;
            uint32_t prompt_tokens;
            uint32_t output_tokens_max;
            base_id base;
        } request;
        struct {
            request_id request;
            replica_id replica;
            uint32_t prompt_tokens;
            uint32_t output_tokens;
            uint16_t tier_found;
            int64_t compute_ns;
        } request_done;
        struct {
            adapter_id adapter;
        } adapter_retired;
        uint64_t word[8];
    };
};
_Static_assert(sizeof(struct fleet_event) == 96, "a fleet event is 96 bytes");

#define FLEET_COMMANDS(X)                                        \
    X(ROUTE)  /* give the request to this replica; statement */  \
    X(REFUSE) /* no replica serves its base; statement */
enum fleet_command_kind {
    FLEET_COMMAND_NONE,
#define X(name) FLEET_COMMAND_##name,
    FLEET_COMMANDS(X)
#undef X
    FLEET_COMMAND_COUNT
};
/* Why a ROUTE went where it went. */
#define ROUTE_REASONS(X) X(POLICY, "policy") X(HOME, "home") X(OVERFLOW_GPU, "overflow-gpu") \
    X(OVERFLOW_HOST, "overflow-host") X(OVERFLOW_ANY, "overflow-any")
enum route_reason {
#define X(name, text) ROUTE_##name,
    ROUTE_REASONS(X)
#undef X
    ROUTE_REASON_COUNT
};
enum fleet_refuse_reason { FLEET_REFUSE_NO_REPLICA = 1, FLEET_REFUSE_ADAPTERS_FULL };

struct fleet_command {
    COMMAND_HEAD;
    union {
        struct {
            request_id request;
            replica_id replica;
            adapter_id adapter;
        } route;
        struct {
            uint64_t request_or_job;
            uint64_t need;
            uint64_t have;
        } refuse;
        uint64_t word[6];
    };
};
_Static_assert(sizeof(struct fleet_command) == 64, "a fleet command is 64 bytes");

struct fleet_commands {
    uint32_t count;
    struct fleet_command items[COMMANDS_MAX];
};

#endif
