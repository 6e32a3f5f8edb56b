/* The one queue of the simulator: everything that will happen, ordered by (at_ns, class, actor, ordinal), never by order
 * of insertion, which folding changes. A 4-ary heap of 24-byte entries; it grows as needed up to a stated bound. Entries
 * are never taken back: one that no longer holds is recognised by its owner when it comes up, and dropped. */
#ifndef ENGINE_QUEUE_H
#define ENGINE_QUEUE_H

#include "base/base.h"

/* What comes first among things that happen at the same nanosecond. */
enum queue_class { CLASS_PHYSICS, CLASS_FAULT, CLASS_REPORT, CLASS_ARRIVAL, CLASS_TICK };

#define QUEUE_ACTOR_BITS 28

struct queue_entry {
    int64_t at_ns;
    uint32_t order;   /* class << QUEUE_ACTOR_BITS | actor */
    uint32_t payload; /* its owner's: a generation, a slot */
    uint64_t ordinal; /* the request's, load's or step's own number */
};
_Static_assert(sizeof(struct queue_entry) == 24, "a queue entry is 24 bytes");

struct queue {
    struct queue_entry *entries; /* [capacity] */
    uint32_t count;
    uint32_t capacity;
};

#define QUEUE_ENTRIES_MAX (1u << 26)

/* Accepts a zeroed queue on free. Growth beyond QUEUE_ENTRIES_MAX or out of memory stops the program with a message. */
void queue_init(struct queue *queue, uint32_t capacity);
void queue_free(struct queue *queue);
void queue_push(struct queue *queue, struct queue_entry entry);
/* The queue must not be empty. */
struct queue_entry queue_pop(struct queue *queue);

static inline uint32_t queue_order(enum queue_class class, uint32_t actor)
{
    return (uint32_t)class << QUEUE_ACTOR_BITS | actor;
}
static inline enum queue_class queue_class_of(const struct queue_entry *entry)
{
    return (enum queue_class)(entry->order >> QUEUE_ACTOR_BITS);
}
static inline uint32_t queue_actor_of(const struct queue_entry *entry)
{
    return entry->order & ((1u << QUEUE_ACTOR_BITS) - 1);
}

#endif
