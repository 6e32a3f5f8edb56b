/* One end of the talk between the control plane and a worker: which frames may come now and which may go, what is kept until it is
 * acked, what is dropped and what ends the talk. It has no clock, opens nothing, and does no I/O of its own: bytes come in through
 * wire_take(), leave through wire_next(); wire/socket.h does both over a SOCK_SEQPACKET.
 *
 * A worker's life: it says HELLO, is WELCOMEd, and from then on says INVENTORY after each WELCOME. Its `must` frames are numbered
 * and kept until the control plane says that they are committed. A new control plane has a higher epoch, which its WELCOME tells: the
 * worker then resends all that it keeps and forgets its requests, whose clients are gone. It leaves of its own will only when all that
 * it had to tell is committed (wire_state(): committed_seq == seq): what a control plane had read when it was killed, it alone still
 * has. Frames of a worker name the epoch that they were sent in; what they say of the past is dropped, but for `must` frames that come next in the order of their numbers.
 *
 * The control plane trusts no frame. Whatever breaks the rules is a fault, which is answered KILL and ends the talk; the host then
 * ends the process. */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include "wire/frame.h"

#define WIRE_FAULTS(X)                                                          \
    X(NONE, "none")                                                             \
    X(LENGTH, "no frame's length")                                              \
    X(VERSION, "a version that is not spoken here")                             \
    X(WORKER, "another worker's frame")                                         \
    X(ATTEMPT, "another attempt's frame")                                       \
    X(SIDE, "a kind that the other end does not say")                           \
    X(DESCRIPTORS, "more descriptors than its kind has")                        \
    X(BODY, "no such body")                                                     \
    X(ORDER, "something before HELLO")                                          \
    X(SEQ, "a number out of order")                                             \
    X(CREDIT, "more tokens than it had credit for, or others than the next")    \
    X(REQUEST, "a request that is not there, or one too many")                  \
    X(KILLED, "the other end said KILL")
enum wire_fault {
#define X(name, text) WIRE_FAULT_##name,
    WIRE_FAULTS(X)
#undef X
};
const char *wire_fault_text(enum wire_fault fault);

enum wire_side { WIRE_SIDE_WORKER, WIRE_SIDE_CONTROL };

struct wire_config {
    enum wire_side side;
    uint16_t version_min;      /* 0: WIRE_VERSION_MIN, WIRE_VERSION_MAX */
    uint16_t version_max;
    uint64_t worker;           /* never used again for another */
    uint64_t attempt;
    uint32_t queue_bytes;      /* a worker's `must`, the control plane's `once`; 0: 256 KiB; at least a frame */
    uint32_t flow_bytes;       /* worker; 0: 256 KiB */
    uint32_t latest_count;     /* kinds and keys that wait; 0: 64 */
    uint32_t requests_max;     /* with tokens under way; 0: 256 */
    /* The control plane's alone. */
    uint64_t epoch;            /* above those of all control planes before; from 1 */
    uint32_t lease_ms;
    uint64_t committed_seq;    /* by an earlier control plane; 0: a new worker */
    bool is_adopted;           /* an earlier control plane may have read its HELLO: it is WELCOMEd at once */
    bool is_dead;              /* only what it left in the socket is to come; it resends nothing */
    uint32_t uncommitted_max;  /* `must` frames taken and not committed before wire_wants_input() says no; 0: 64 */
};

struct wire;
size_t wire_bytes(const struct wire_config *config);
/* `memory`: wire_bytes(), 8-aligned. */
struct wire *wire_create(void *memory, size_t memory_bytes, const struct wire_config *config);
/* Closes the descriptors that wait to be sent; the memory is the caller's again. */
void wire_end(struct wire *wire);

/* --- to the other end ---------------------------------------------------------------------------------------------------------- */

/* `body` is the kind's struct; it is copied. `key`: of a `latest` kind, which waiting one it replaces (an adapter's hash, say). The
 * descriptors are the wire's from STATUS_OK on.
 *   STATUS_FULL       no room, or no credit: nothing was taken; a worker waits for acks or credit before it does more, a control plane
 *                     has a worker that does not read
 *   STATUS_NOT_FOUND  TOKENS, DONE, CREDIT, ABORT: no such request (any more)
 *   STATUS_INVALID    a kind that this end does not say, or not before HELLO; too many descriptors; tokens that are not the next
 *   STATUS_END        the talk is over */
enum status wire_say(struct wire *wire, enum wire_kind kind, const void *body, uint64_t key, const int *descriptors, uint32_t descriptors_count);

/* What to send next; views until the next call. False: nothing now. Once it was sent, nothing comes before wire_sent(). */
struct wire_out {
    const uint8_t *header;     /* WIRE_HEADER_BYTES */
    const uint8_t *body;
    uint32_t body_bytes;
    const int *descriptors;
    uint32_t descriptors_count;
};
bool wire_next(struct wire *wire, struct wire_out *ret_out);
/* What wire_next() gave was sent. */
void wire_sent(struct wire *wire, int64_t now_ns);

/* --- from the other end -------------------------------------------------------------------------------------------------------- */

struct wire_frame {
    struct wire_header header;
    union wire_body body;      /* views into the frame's bytes */
};
enum wire_verdict {
    WIRE_FRAME,  /* one for the host */
    WIRE_NOTHING,/* one that is done with: dropped, or answered here */
    WIRE_OVER    /* a fault, now or before: wire_fault() */
};
/* One frame, of whatever bytes. For all verdicts but WIRE_FRAME the caller closes the descriptors. What a host does with each frame:
 *   HELLO and other `must` frames   commit, then wire_commit(); each is given once
 *   WELCOME (worker)                cancel all requests, then say INVENTORY
 *   KILL (worker)                   comes with WIRE_FRAME and ends the talk */
enum wire_verdict wire_take(struct wire *wire, int64_t now_ns, const uint8_t *bytes, size_t count, uint32_t descriptors_count,
                            struct wire_frame *ret_frame);
/* For a transport that cannot bring a frame whole. */
enum wire_verdict wire_take_broken(struct wire *wire, enum wire_fault fault);
/* Control plane: everything up to `seq` is on disk; the worker is told. */
void wire_commit(struct wire *wire, uint64_t seq);
/* False: so much is not committed that no more shall be read now; the worker will wait. */
bool wire_wants_input(const struct wire *wire);

/* --- values -------------------------------------------------------------------------------------------------------------------- */

struct wire_state {
    bool is_open;              /* HELLO was taken, or WELCOME */
    enum wire_fault fault;
    uint16_t version;
    uint64_t epoch;            /* a worker's: of its last WELCOME */
    uint64_t seq;              /* worker: of its last `must`; control plane: of the last one taken */
    uint64_t committed_seq;
    uint32_t requests;
    int64_t heard_at_ns;       /* the other end's last sound frame; 0: none */
    int64_t beat_due_at_ns;    /* when BEAT (worker) or LEASE (control plane) is to be said; NEVER_NS before WELCOME */
    int64_t lease_until_ns;    /* a worker's; NEVER_NS before WELCOME */
    uint64_t dropped;          /* frames of the past, and second ones */
    uint64_t unsupported;
};
struct wire_state wire_state(const struct wire *wire);
/* Tokens that a request may still say; 0 also where it is not there. */
uint32_t wire_credit(const struct wire *wire, uint64_t request);

#endif
