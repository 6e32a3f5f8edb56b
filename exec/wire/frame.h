/* Frames between the control plane and its workers: a header of 40 bytes and a body, little-endian, at most 64 KiB; descriptors go
 * beside them, never bulk inside. What a frame says is in one list: its number, who says it, its class, how many descriptors come
 * with it, the fields of its body. Encoder, decoder and names follow from the list. A frame is a stranger's bytes: the decoder
 * checks every length and count, takes no memory, and gives views into the frame.
 *
 * Classes:
 *   must    a worker keeps it, resends it, and lets it go when it is acked, which is after it was committed
 *   latest  not yet sent, it gives way to a newer one of the same kind and key
 *   flow    bounded by the credit of its request
 *   once    the control plane's words: sent once, in order; what a restart loses, INVENTORY and the database tell */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include "base/base.h"

#define WIRE_FRAME_BYTES_MAX 65536u
#define WIRE_HEADER_BYTES 40u
#define WIRE_BODY_BYTES_MAX (WIRE_FRAME_BYTES_MAX - WIRE_HEADER_BYTES)
/* With one frame. */
#define WIRE_DESCRIPTORS_MAX 8u

/* A control plane speaks its own version and the one before. The header and what comes before versions are agreed (HELLO, WELCOME,
 * KILL, UNSUPPORTED) have the same bytes in every version. */
#define WIRE_VERSION_MIN 1u
#define WIRE_VERSION_MAX 1u

/* number (of the wire: never used again for something else), name, who says it, class, descriptors. */
#define WIRE_KINDS(X)                                   \
    X(1, HELLO, hello, WORKER, MUST, 0)                 \
    X(2, INVENTORY, inventory, WORKER, MUST, 0)         \
    X(3, PROGRESS, progress, WORKER, LATEST, 0)         \
    X(4, RESIDENCY, residency, WORKER, LATEST, 0)       \
    X(5, BEAT, beat, WORKER, LATEST, 0)                 \
    X(6, CHECKPOINT, checkpoint, WORKER, MUST, 0)       \
    X(7, RESULT, result, WORKER, MUST, 0)               \
    X(8, FAILED, failed, WORKER, MUST, 0)               \
    X(9, USAGE, usage, WORKER, MUST, 0)                 \
    X(10, UNLOADED, unloaded, WORKER, MUST, 0)          \
    X(11, TOKENS, tokens, WORKER, FLOW, 0)              \
    X(12, DONE, done, WORKER, FLOW, 0)                  \
    X(13, GENERATE, generate, WORKER, MUST, 0)          \
    X(32, WELCOME, welcome, CONTROL, ONCE, 0)           \
    X(33, START, start, CONTROL, ONCE, 8)               \
    X(34, LOAD, load, CONTROL, ONCE, 4)                 \
    X(35, UNLOAD, unload, CONTROL, ONCE, 0)             \
    X(36, REQUEST, request, CONTROL, ONCE, 1)           \
    X(37, CREDIT, credit, CONTROL, ONCE, 0)             \
    X(38, ABORT, abort, CONTROL, ONCE, 0)               \
    X(39, CHECKPOINT_NOW, checkpoint_now, CONTROL, ONCE, 8) \
    X(40, DRAIN, drain, CONTROL, ONCE, 0)               \
    X(41, LEASE, lease, CONTROL, LATEST, 0)             \
    X(42, KILL, kill, CONTROL, ONCE, 0)                 \
    X(43, ACK, ack, CONTROL, LATEST, 0)                 \
    X(60, UNSUPPORTED, unsupported, EITHER, LATEST, 0)

enum wire_kind {
#define X(number, name, body, from, class, descriptors) WIRE_##name = number,
    WIRE_KINDS(X)
#undef X
};
enum wire_from { WIRE_FROM_WORKER, WIRE_FROM_CONTROL, WIRE_FROM_EITHER };
enum wire_class { WIRE_CLASS_MUST, WIRE_CLASS_LATEST, WIRE_CLASS_FLOW, WIRE_CLASS_ONCE };

/* Parts of lists in bodies. */
#define WIRE_PART_resident(F, S) \
    F(S, BYTES, digest, 32) F(S, U64, generation, 0) F(S, U64, bytes, 0) F(S, U32, tier, 0) F(S, U32, flags, 0)
#define WIRE_PART_token(F, S) F(S, U32, id, 0) F(S, U32, logprob_bits, 0) /* of a float */
#define WIRE_PART_grant(F, S) F(S, BYTES, id, 64) F(S, BYTES, key, 32)    /* an object's key: its id, ended by '\0', and its bytes */
#define WIRE_PARTS(X) X(RESIDENT, resident) X(TOKEN, token) X(GRANT, grant)

/* Bodies. BYTES: a fixed number; LIST: a u32 count, then parts of n bytes; REST: what is left of the frame, at the end. */
#define WIRE_BODY_hello(F, S) \
    F(S, U16, version_min, 0) F(S, U16, version_max, 0) F(S, U32, worker_kind, 0) F(S, BYTES, build, 32) F(S, BYTES, boot, 16)
/* more: 1: the next INVENTORY goes on with the lists; a thousand residents fill a frame. */
#define WIRE_BODY_inventory(F, S) \
    F(S, U64, step, 0) F(S, U64, memory_bytes, 0) F(S, U32, more, 0) F(S, LIST, requests, 8) F(S, LIST, residents, WIRE_RESIDENT_BYTES)
#define WIRE_BODY_progress(F, S) \
    F(S, U64, step, 0) F(S, U64, steps, 0) F(S, U64, tokens, 0) F(S, U64, compute_ns, 0) F(S, REST, metrics, 0)
#define WIRE_BODY_residency(F, S) WIRE_PART_resident(F, S)
#define WIRE_BODY_beat(F, S) \
    F(S, U64, memory_bytes, 0) F(S, U32, waiting, 0) F(S, U32, running, 0) F(S, U32, kv_free_permille, 0)
/* Ciphertext that was written to a granted descriptor; `grant` is the grant's place in START or CHECKPOINT_NOW. */
#define WIRE_BODY_checkpoint(F, S) \
    F(S, U64, step, 0) F(S, U64, bytes, 0) F(S, U32, grant, 0) F(S, BYTES, digest, 32) F(S, REST, metrics, 0)
#define WIRE_BODY_result(F, S) \
    F(S, U64, step, 0) F(S, U64, bytes, 0) F(S, U32, grant, 0) F(S, BYTES, digest, 32) F(S, U64, tokens, 0) \
    F(S, U64, compute_ns, 0) F(S, REST, metrics, 0)
#define WIRE_BODY_failed(F, S) F(S, U64, step, 0) F(S, U32, code, 0) F(S, REST, sealed, 0)
/* `account` is what REQUEST named: a control plane that was killed in between knows from it whom to bill. */
#define WIRE_BODY_usage(F, S) \
    F(S, U64, request, 0) F(S, U64, at_ms, 0) F(S, U32, prompt_tokens, 0) F(S, U32, output_tokens, 0) F(S, U64, compute_ns, 0) \
    F(S, REST, account, 0)
/* code: 0: as it was told; otherwise an enum status: it could not be loaded. */
#define WIRE_BODY_unloaded(F, S) F(S, BYTES, digest, 32) F(S, U64, generation, 0) F(S, U32, code, 0)
/* best: of every token the likeliest ones, `best_each` of them. */
#define WIRE_BODY_tokens(F, S) \
    F(S, U64, request, 0) F(S, U32, first_index, 0) F(S, U32, best_each, 0) F(S, LIST, tokens, WIRE_TOKEN_BYTES) \
    F(S, LIST, best, WIRE_TOKEN_BYTES) F(S, REST, text, 0)
#define WIRE_BODY_done(F, S) \
    F(S, U64, request, 0) F(S, U32, finish, 0) F(S, U32, code, 0) F(S, U32, prompt_tokens, 0) F(S, U32, output_tokens, 0) \
    F(S, U32, recomputed_tokens, 0) F(S, U32, tier_found, 0) F(S, U64, compute_ns, 0) F(S, U64, first_token_ns, 0) F(S, REST, text, 0)
#define WIRE_BODY_generate(F, S) F(S, U64, request, 0) F(S, REST, question, 0)
#define WIRE_BODY_welcome(F, S) \
    F(S, U64, epoch, 0) F(S, U32, lease_ms, 0) F(S, U16, version_min, 0) F(S, U16, version_max, 0)
#define WIRE_BODY_start(F, S) \
    F(S, U64, job, 0) F(S, U64, step, 0) F(S, BYTES, digest, 32) F(S, U64, generation, 0) F(S, LIST, grants, WIRE_GRANT_BYTES) \
    F(S, REST, settings, 0)
/* `label`: the id of the tenant whose object it is, without a '\0'. */
#define WIRE_BODY_load(F, S) \
    F(S, BYTES, digest, 32) F(S, U64, generation, 0) F(S, U64, bytes, 0) F(S, U32, rank, 0) F(S, LIST, grants, WIRE_GRANT_BYTES) \
    F(S, REST, label, 0)
#define WIRE_BODY_unload(F, S) F(S, BYTES, digest, 32) F(S, U64, generation, 0)
/* A digest of zeros: the base alone. A prompt that fills no frame comes as a descriptor, then `prompt` is empty. */
#define WIRE_BODY_request(F, S) \
    F(S, U64, request, 0) F(S, BYTES, digest, 32) F(S, U64, generation, 0) F(S, U32, tenant, 0) F(S, U32, credit_tokens, 0) \
    F(S, U32, max_tokens, 0) F(S, LIST, account, 1) F(S, LIST, prompt, 4) F(S, REST, settings, 0)
#define WIRE_BODY_credit(F, S) F(S, U64, request, 0) F(S, U32, tokens, 0)
#define WIRE_BODY_abort(F, S) F(S, U64, request, 0)
#define WIRE_BODY_checkpoint_now(F, S) F(S, U32, deadline_ms, 0) F(S, U32, adapters, 0) /* bit i: grant i is for an adapter, not a state */ \
    F(S, LIST, grants, WIRE_GRANT_BYTES)
#define WIRE_BODY_drain(F, S) F(S, U32, deadline_ms, 0)
#define WIRE_BODY_lease(F, S) F(S, U32, lease_ms, 0)
#define WIRE_BODY_kill(F, S) F(S, U32, why, 0) F(S, U32, deadline_ms, 0)
#define WIRE_BODY_ack(F, S) F(S, U32, zero, 0) /* the header's ack is what it says */
#define WIRE_BODY_unsupported(F, S) F(S, U32, kind, 0) F(S, U64, seq, 0)

#define WIRE_BYTES_U16(n) 2
#define WIRE_BYTES_U32(n) 4
#define WIRE_BYTES_U64(n) 8
#define WIRE_BYTES_BYTES(n) (n)
#define WIRE_BYTES_OF(S, type, name, n) +WIRE_BYTES_##type(n)
enum {
#define X(name, part) WIRE_##name##_BYTES = 0 WIRE_PART_##part(WIRE_BYTES_OF, ),
    WIRE_PARTS(X)
#undef X
};

#define WIRE_MEMBER_U16(name, n) uint16_t name;
#define WIRE_MEMBER_U32(name, n) uint32_t name;
#define WIRE_MEMBER_U64(name, n) uint64_t name;
#define WIRE_MEMBER_BYTES(name, n) uint8_t name[n];
#define WIRE_MEMBER_LIST(name, n) uint32_t name##_count; const uint8_t *name; /* [count][n], unaligned */
#define WIRE_MEMBER_REST(name, n) uint32_t name##_count; const uint8_t *name;
#define WIRE_MEMBER(S, type, name, n) WIRE_MEMBER_##type(name, n)
#define X(number, name, body, from, class, descriptors) struct wire_##body { WIRE_BODY_##body(WIRE_MEMBER, ) };
WIRE_KINDS(X)
#undef X
#define X(name, part) struct wire_##part { WIRE_PART_##part(WIRE_MEMBER, ) };
WIRE_PARTS(X)
#undef X

/* Views into the frame they were read from. */
union wire_body {
#define X(number, name, body, from, class, descriptors) struct wire_##body body;
    WIRE_KINDS(X)
#undef X
};

struct wire_header {
    uint32_t length;  /* of the frame, header included */
    uint16_t version;
    uint16_t kind;
    uint64_t seq;     /* of a worker's `must`: 1, 2, 3 ... over its life; 0 for all else */
    uint64_t ack;     /* to a worker: all up to this are committed; from it: the epoch of the WELCOME it last had, 0 before */
    uint64_t worker;
    uint64_t attempt;
};

struct wire_kind_info {
    const char *name;
    enum wire_from from;
    enum wire_class class;
    uint32_t descriptors_max;
};
/* NULL: unknown. */
const struct wire_kind_info *wire_kind_info(uint32_t kind);

/* STATUS_CORRUPT: shorter than a header, or its length is not the packet's. The rest is not judged. */
enum status wire_header_read(const uint8_t *frame, size_t count, struct wire_header *ret_header);
void wire_header_write(const struct wire_header *header, uint8_t ret_frame[WIRE_HEADER_BYTES]);

/* STATUS_CORRUPT: not exactly such a body; STATUS_NOT_FOUND: no such kind. */
enum status wire_body_read(uint32_t kind, const uint8_t *bytes, size_t count, union wire_body *ret_body);
/* `body` is a struct wire_<kind>. STATUS_FULL: more than `room`; STATUS_NOT_FOUND: no such kind. */
enum status wire_body_write(uint32_t kind, const void *body, uint8_t *bytes, size_t room, size_t *ret_count);

/* A part of a list. */
#define X(name, part)                                                                       \
    void wire_##part##_read(const uint8_t bytes[WIRE_##name##_BYTES], struct wire_##part *ret_part); \
    void wire_##part##_write(const struct wire_##part *part, uint8_t ret_bytes[WIRE_##name##_BYTES]);
WIRE_PARTS(X)
#undef X

static inline uint64_t wire_get(const uint8_t *bytes, unsigned count)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

static inline void wire_put(uint8_t *bytes, uint64_t value, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

#endif
