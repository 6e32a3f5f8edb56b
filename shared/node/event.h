/* What a node core is told, and what it wants: the host-memory tier of adapters, shared by the node's replicas. */
#ifndef NODE_EVENT_H
#define NODE_EVENT_H

#include "base/ids.h"

#define NODE_EVENTS(X)                                                                         \
    X(WANT)    /* a replica wants an adapter; the host copies it to the GPU after READY */     \
    X(UNWANT)  /* the copy is over, or the replica no longer wants it: unpin */                \
    X(FETCHED) /* answers FETCH */                                                             \
    X(FAILED)  /* answers FETCH */                                                             \
    X(RETIRED) /* never serve this version again once its copies are done */                   \
    X(TICK)
enum node_event_kind {
    NODE_EVENT_NONE,
#define X(name) NODE_EVENT_##name,
    NODE_EVENTS(X)
#undef X
    NODE_EVENT_COUNT
};

struct node_event {
    EVENT_HEAD;
    union {
        struct {
            adapter_id adapter;
            uint64_t bytes;
            uint64_t want; /* the asker's own number, unique in the node while it lasts; comes back in READY or LOST */
        } want, unwant;
        struct {
            adapter_id adapter;
            uint64_t bytes;
        } fetched, failed, retired;
        uint64_t word[4];
    };
};
_Static_assert(sizeof(struct node_event) == 64, "a node event is 64 bytes");

#define NODE_COMMANDS(X)                                                                          \
    X(FETCH) /* bring an adapter from the object store to host memory; FETCHED or FAILED */       \
    X(READY) /* the want can be copied; pinned until its UNWANT; reason: enum tier found there */ \
    X(DROP)  /* host memory of this adapter is free; statement; reason: enum node_drop */         \
    X(LOST)  /* the want failed; statement; no UNWANT follows; reason: enum node_lost */
enum node_command_kind {
    NODE_COMMAND_NONE,
#define X(name) NODE_COMMAND_##name,
    NODE_COMMANDS(X)
#undef X
    NODE_COMMAND_COUNT
};

enum node_drop {
    NODE_DROP_EVICTED = 1, /* another needs the room */
    NODE_DROP_RETIRED,
    NODE_DROP_PASSED /* larger than the tier, and nobody wants it any more */
};

enum node_lost {
    NODE_LOST_FETCH_FAILED = 1,
    NODE_LOST_RETIRED
};

struct node_command {
    COMMAND_HEAD;
    union {
        struct {
            adapter_id adapter;
            uint64_t bytes;
        } fetch, drop;
        struct {
            adapter_id adapter;
            uint64_t bytes;
            uint64_t want;
        } ready, lost;
        uint64_t word[6];
    };
};
_Static_assert(sizeof(struct node_command) == 64, "a node command is 64 bytes");

struct node_commands {
    uint32_t count;
    struct node_command items[COMMANDS_MAX];
};

#endif
