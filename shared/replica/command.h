/* What a replica core wants. 64 bytes, no pointers. RUN and LOAD ask: each is answered by exactly one event. */
#ifndef REPLICA_COMMAND_H
#define REPLICA_COMMAND_H

#include "base/ids.h"

#define REPLICA_COMMANDS(X)                                                               \
    X(RUN)     /* execute the plan, up to steps_max times; answered by STEP_DONE */       \
    X(LOAD)    /* bring an adapter to a slot; ADAPTER_ARRIVED or ADAPTER_FAILED */        \
    X(EVICT)   /* the slot's bytes are free; statement */                                 \
    X(REFUSE)  /* the request will not be served; reason and arithmetic; statement */     \
    X(DONE)    /* finished or cancelled (reason: enum sequence_end_reason); statement */  \
    X(PREEMPT) /* lost its KV blocks, waits again at its place; statement */              \
    X(DRAINED) /* after DRAIN: nothing left; statement */

enum replica_command_kind {
    REPLICA_COMMAND_NONE,
#define X(name) REPLICA_COMMAND_##name,
    REPLICA_COMMANDS(X)
#undef X
    REPLICA_COMMAND_COUNT
};

/* Why a request is refused; `need` and `have` in the unit of the sentence. */
#define REFUSE_REASONS(X)                                                                              \
    X(TOO_LONG, "needs %llu KV blocks for its prompt and longest answer, the replica has %llu")        \
    X(ADAPTER_TOO_LARGE, "its adapter weighs %llu, the slots hold %llu (bytes, or slots when counted)") \
    X(ADAPTER_UNKNOWN, "its adapter is not known here or was retired")                                 \
    X(ADAPTER_LOST, "its adapter could not be loaded")                                                 \
    X(ADAPTERS_FULL, "%llu adapters would be known here, the table holds %llu")                        \
    X(TENANTS_FULL, "tenant number %llu is past the table of %llu")                                    \
    X(DRAINING, "the replica is draining")
enum refuse_reason {
    REFUSE_NONE,
#define X(name, text) REFUSE_##name,
    REFUSE_REASONS(X)
#undef X
    REFUSE_COUNT
};

struct replica_command {
    COMMAND_HEAD;
    union {
        struct {
            uint64_t step;           /* number of the plan's first engine step, folded or not */
            uint64_t rows_digest;    /* of the plan's rows */
            uint32_t rows;
            uint32_t adapters;       /* distinct, the base not counted */
            uint32_t prefill_tokens;
            uint32_t steps_max;      /* 1 while any row prefills */
            uint64_t kv_blocks_after; /* blocks in use after the first step */
        } run;
        struct {
            adapter_id adapter;
            uint64_t bytes;
            uint16_t gpu_slot;
        } load, evict;
        struct {
            request_id request;
            uint64_t need;
            uint64_t have;
        } refuse;
        struct {
            request_id request;
            int64_t compute_ns;         /* busy time of the steps it was a row of, in which it had tokens */
            int64_t slot_wait_ns;       /* while waiting, no slot could be freed for its adapter */
            uint32_t prompt_tokens;
            uint32_t output_tokens;
            uint32_t recomputed_tokens; /* prefilled again after preemptions */
            uint16_t tier_found;        /* enum tier: where its adapter was when it was first looked at */
        } done, preempt;
        uint64_t word[6];
    };
};
_Static_assert(sizeof(struct replica_command) == 64, "a replica command is 64 bytes");

struct replica_commands {
    uint32_t count;
    struct replica_command items[COMMANDS_MAX];
};

/* One sequence in one engine step. Rows lie in the core in order of admission. */
enum step_row_flags {
    ROW_PREFILL = 1,  /* `tokens` prompt (or recomputed) tokens; otherwise one decode token */
    ROW_LAST = 2,     /* with ROW_PREFILL: the last chunk, so the step produces a token */
    ROW_ADMITTED = 4, /* first plan since it was admitted */
    ROW_RECOMPUTE = 8 /* prefills again after a preemption */
};
struct step_row {
    request_id request;
    uint32_t context_tokens; /* in KV before this step */
    uint32_t tokens;         /* this step's; 0: admitted, but the budget is used up by others */
    uint16_t gpu_slot;       /* NO_SLOT for the base */
    uint16_t flags;
    uint32_t zero;
};
_Static_assert(sizeof(struct step_row) == 24, "a step row is 24 bytes");
#define NO_SLOT UINT16_MAX

/* A view into the core, valid until the STEP_DONE; never copied or journalled. */
struct step_plan {
    uint64_t step;
    const struct step_row *rows;
    uint32_t count;
};

#endif
