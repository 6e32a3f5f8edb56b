/* A worker's end of the talk with the control plane: who it is, HELLO, beats, acks, frames in and out over the socket that the keeper gave
 * it. One thread. */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include "keeper/keeper.h"
#include "wire/socket.h"

struct link;

struct link_config {
    int socket;                  /* KEEPER_SOCKET; the link's from here on */
    uint32_t kind;               /* said in HELLO: enum core_worker_kind's number */
    uint32_t requests_max;       /* 0: wire's default */
    uint32_t flow_bytes;
    uint32_t queue_bytes;
};
/* Hears from the keeper who this is, and says HELLO. */
enum status link_open(const struct link_config *config, struct link **ret_link, struct refusal *refusal);
void link_close(struct link *link); /* NULL is fine */
const struct launch *link_launch(const struct link *link);

enum link_event {
    LINK_NOTHING,  /* for now, or `wait_ms` is over */
    LINK_FRAME,    /* one for the worker; a WELCOME is answered by INVENTORY, after all requests were forgotten */
    LINK_EXPIRED,  /* the lease is over: no control plane has spoken for so long; said once until one speaks again */
    LINK_KILLED,   /* told to end, or a fault; nothing more comes */
    LINK_GONE      /* the socket is closed: end */
};
/* Sends what waits, takes at most one frame, beats when it is due (with what link_beat() was last given). wait_ms: -1 for ever.
 * ret_frame lives until the next call; descriptors that it brought are in ret_inbox until they are taken (set to -1) or the next call
 * closes them. */
enum link_event link_next(struct link *link, int wait_ms, struct wire_frame *ret_frame, struct wire_inbox **ret_inbox);
/* As wire_say() without descriptors; sent by the next link_next() or link_flush(). */
enum status link_say(struct link *link, enum wire_kind kind, const void *body, uint64_t key);
void link_beat(struct link *link, const struct wire_beat *beat);
/* Sends what may be sent now. False: the control plane's end is closed, or full (link_next() goes on). */
bool link_flush(struct link *link);
/* Readable when link_next() has something; wants writing when link_wants_output(). For who polls other things too, with link_due_at_ns()
 * (CLOCK_MONOTONIC) as the time by which link_next() is to be called. */
int link_descriptor(const struct link *link);
bool link_wants_output(const struct link *link);
int64_t link_due_at_ns(const struct link *link);
struct wire *link_wire(struct link *link);
/* All that it had to say is committed. False: the talk is over before. */
bool link_settle(struct link *link, int wait_ms);

#endif
