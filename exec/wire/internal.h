/* An end's inside, for say.c and take.c. */
#ifndef WIRE_INTERNAL_H
#define WIRE_INTERNAL_H

#include "base/table.h"
#include "wire/ring.h"
#include "wire/wire.h"

#define LATEST_BYTES_MAX 1024u
#define UNSUPPORTED_KEY 0

/* The newest of a kind and key that was not sent. */
struct latest {
    uint64_t key;
    uint64_t ordinal;          /* they leave in the order of their first waiting; 0: free */
    uint32_t kind;
    uint32_t bytes;
    uint8_t body[LATEST_BYTES_MAX];
};

/* A request whose tokens are under way. */
struct stream {
    uint64_t request;
    uint32_t credit_tokens;
    uint32_t next_index;
    uint32_t next_free;        /* NONE_INDEX: none */
};

struct wire {
    struct wire_config config;
    struct wire_state state;
    bool ack_owed;
    struct ring kept;          /* worker: `must`; control plane: `once` */
    struct ring flow;          /* worker */
    struct latest *latest;     /* [config.latest_count] */
    uint32_t latest_waiting;
    uint64_t ordinal;
    struct stream *streams;    /* [config.requests_max] */
    struct table stream_of;
    uint32_t stream_free;
    /* What wire_next() gave. */
    enum { OUT_NONE, OUT_KEPT, OUT_FLOW, OUT_LATEST, OUT_ACK } out;
    struct latest *out_latest;
    uint8_t out_header[WIRE_HEADER_BYTES];
    uint8_t out_ack_body[4];
};

static inline bool is_control(const struct wire *wire) { return wire->config.side == WIRE_SIDE_CONTROL; }

struct stream *stream_find(const struct wire *wire, uint64_t request);
/* False: there already, or too many. */
bool stream_open(struct wire *wire, uint64_t request, uint32_t credit_tokens);
void stream_close(struct wire *wire, struct stream *stream);
void streams_clear(struct wire *wire);
/* Checks and books tokens against the credit: STATUS_NOT_FOUND, STATUS_FULL (credit), STATUS_INVALID (others than the next). */
enum status stream_spend(struct wire *wire, const struct wire_tokens *tokens);
/* Ends the talk; a control plane says KILL, and nothing after it. */
void wire_fail(struct wire *wire, enum wire_fault fault);
/* Sets or replaces what waits; STATUS_FULL: no slot, or too long. */
enum status latest_put(struct wire *wire, uint32_t kind, uint64_t key, const void *body);

#endif
