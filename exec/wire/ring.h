/* A bounded queue of bodies in one piece of memory: each lies in one run of bytes, in the order in which it came. A cursor tells how
 * far they were sent; what was sent may be kept behind it and sent again. What leaves is wiped: keys travel through here. */
#ifndef WIRE_RING_H
#define WIRE_RING_H

#include "wire/frame.h"

struct ring_record {
    uint32_t bytes;     /* of the body, which follows; NONE_INDEX: nothing more before the end of the memory */
    uint32_t kind;
    uint64_t seq;
    uint32_t descriptors_count;
    int descriptors[WIRE_DESCRIPTORS_MAX]; /* the ring's own, closed when the record leaves */
    uint32_t zero;
};

/* Positions only grow; head <= cursor <= tail <= head + capacity. */
struct ring {
    uint8_t *bytes;
    uint64_t capacity;  /* a multiple of 8 */
    uint64_t head;
    uint64_t cursor;
    uint64_t tail;
};

/* `memory`: `capacity` bytes, 8-aligned. */
void ring_init(struct ring *ring, void *memory, uint64_t capacity);
/* STATUS_FULL: no room for it in one piece, or more than a frame. */
enum status ring_push(struct ring *ring, uint32_t kind, uint64_t seq, const void *body, const int *descriptors, uint32_t descriptors_count);
/* The first that was not sent, the oldest; NULL: none. Valid until something is pushed or popped. */
struct ring_record *ring_unsent(struct ring *ring);
struct ring_record *ring_oldest(struct ring *ring);
static inline const uint8_t *ring_body(const struct ring_record *record) { return (const uint8_t *)(record + 1); }
/* The first unsent one was sent; it is kept. */
void ring_advance(struct ring *ring);
/* The oldest leaves, sent or not. */
void ring_pop(struct ring *ring);
/* All that is kept shall be sent again. */
void ring_rewind(struct ring *ring);
void ring_clear(struct ring *ring);

#endif
