#include "engine/queue.h"

#include <stdlib.h>

void queue_init(struct queue *queue, uint32_t capacity)
{
    check(capacity > 0);
    *queue = (struct queue){.capacity = capacity};
    queue->entries = malloc(capacity * sizeof(*queue->entries));
    check(queue->entries != NULL);
}

void queue_free(struct queue *queue)
{
    free(queue->entries);
    *queue = (struct queue){0};
}

static inline bool before(const struct queue_entry *a, const struct queue_entry *b)
{
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns;
    if (a->order != b->order)
        return a->order < b->order;
    return a->ordinal < b->ordinal;
}

static void grow(struct queue *queue)
{
    check(queue->capacity < QUEUE_ENTRIES_MAX);
    queue->capacity *= 2;
    queue->entries = realloc(queue->entries, queue->capacity * sizeof(*queue->entries));
    check(queue->entries != NULL);
}

void queue_push(struct queue *queue, struct queue_entry entry)
{
    struct queue_entry *entries;
    uint32_t hole;

    if (queue->count == queue->capacity)
        grow(queue);
    entries = queue->entries;
    for (hole = queue->count++; hole > 0;) {
        uint32_t parent = (hole - 1) / 4;

        if (!before(&entry, &entries[parent]))
            break;
        entries[hole] = entries[parent];
        hole = parent;
    }
    entries[hole] = entry;
}

struct queue_entry queue_pop(struct queue *queue)
{
    struct queue_entry *entries = queue->entries;
    struct queue_entry first;
    struct queue_entry last;
    uint32_t count;
    uint32_t hole = 0;

    check(queue->count > 0);
    first = entries[0];
    count = --queue->count;
    last = entries[count];
    for (;;) {
        uint32_t child = 4 * hole + 1;
        uint32_t least = child;

        if (child >= count)
            break;
        for (uint32_t other = child + 1; other < child + 4 && other < count; other++)
            if (before(&entries[other], &entries[least]))
                least = other;
        if (!before(&entries[least], &last))
            break;
        entries[hole] = entries[least];
        hole = least;
    }
    entries[hole] = last;
    return first;
}
