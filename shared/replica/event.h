/* What a replica core is told. 64 bytes, no pointers, memset to zero before filling: hashed and journalled as bytes. */
#ifndef REPLICA_EVENT_H
#define REPLICA_EVENT_H

#include "base/ids.h"

#define REPLICA_EVENTS(X)                                                                         \
    X(ADAPTER_KNOWN)   /* an adapter's facts, before its first request here */                    \
    X(REQUEST)         /* adapter {0, 0}: the base */                                             \
    X(SEQUENCE_END)    /* EOS, stop or cancel (reason says), before the STEP_DONE of its at_ns */ \
    X(STEP_DONE)       /* answers RUN */                                                          \
    X(ADAPTER_ARRIVED) /* answers LOAD: the weights are in the slot */                            \
    X(ADAPTER_FAILED)  /* answers LOAD: they will not come */                                     \
    X(ADAPTER_RETIRED) /* never serve this version again once its requests in flight are done */  \
    X(DRAIN)           /* refuse new requests, finish the rest */                                 \
    X(TICK)

enum replica_event_kind {
    REPLICA_EVENT_NONE,
#define X(name) REPLICA_EVENT_##name,
    REPLICA_EVENTS(X)
#undef X
    REPLICA_EVENT_COUNT
};

/* `reason` of SEQUENCE_END. FINISHED: after `output_tokens` tokens the sequence is complete, the last of them produced
 * by the step that the coming STEP_DONE closes. CANCELLED: the client left; the request may still be waiting. */
enum sequence_end_reason { SEQUENCE_FINISHED, SEQUENCE_CANCELLED };

struct replica_event {
    EVENT_HEAD;
    union {
        struct {
            adapter_id adapter;
            uint64_t bytes;
            tenant_id tenant;
            uint16_t rank;
        } adapter_known;
        struct {
            request_id request;
            adapter_id adapter;
            tenant_id tenant;
            uint32_t prompt_tokens;     /* >= 1 */
            uint32_t cached_tokens;     /* 0 until prefix reuse exists */
            uint32_t output_tokens_max; /* >= 1 */
        } request;
        struct {
            request_id request;
            uint32_t output_tokens;
        } sequence_end;
        struct {
            uint64_t step;   /* of the RUN */
            int64_t busy_ns; /* how long the engine took for all `steps` */
            uint32_t steps;  /* 1 <= steps <= steps_max of the RUN */
        } step_done;
        struct {
            adapter_id adapter;
            uint64_t bytes;
            uint16_t tier; /* enum tier: where it was found */
        } adapter_arrived, adapter_failed, adapter_retired;
        uint64_t word[4];
    };
};
_Static_assert(sizeof(struct replica_event) == 64, "a replica event is 64 bytes");

#endif
