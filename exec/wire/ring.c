#define _DEFAULT_SOURCE /* explicit_bzero */
#include "wire/ring.h"

#include <string.h>
#include <unistd.h>

#define SKIPPED NONE_INDEX

void ring_init(struct ring *ring, void *memory, uint64_t capacity)
{
    check(capacity % 8 == 0);
    check((uintptr_t)memory % 8 == 0);
    *ring = (struct ring){.bytes = memory, .capacity = capacity};
}

static uint64_t record_bytes(uint32_t body_bytes)
{
    return (sizeof(struct ring_record) + body_bytes + 7) / 8 * 8;
}

static struct ring_record *record_at(const struct ring *ring, uint64_t position)
{
    return (struct ring_record *)(void *)(ring->bytes + position % ring->capacity);
}

/* A record's place: past the marker, or the few bytes, that end the memory before it. */
static uint64_t place_of(const struct ring *ring, uint64_t position)
{
    const uint64_t to_end = ring->capacity - position % ring->capacity;

    if (to_end < sizeof(struct ring_record) || record_at(ring, position)->bytes == SKIPPED)
        return position + to_end;
    return position;
}

enum status ring_push(struct ring *ring, uint32_t kind, uint64_t seq, const void *body, const int *descriptors, uint32_t descriptors_count)
{
    uint8_t bytes[WIRE_BODY_BYTES_MAX];
    const uint64_t to_end = ring->capacity - ring->tail % ring->capacity;
    uint64_t place = ring->tail;
    struct ring_record *record;
    size_t body_bytes = 0;
    enum status status = wire_body_write(kind, body, bytes, sizeof(bytes), &body_bytes);

    check(descriptors_count <= WIRE_DESCRIPTORS_MAX);
    if (status != STATUS_OK)
        return status;
    if (to_end < record_bytes((uint32_t)body_bytes))
        place += to_end;
    if (place + record_bytes((uint32_t)body_bytes) > ring->head + ring->capacity)
        return STATUS_FULL;
    if (place != ring->tail && to_end >= sizeof(struct ring_record))
        record_at(ring, ring->tail)->bytes = SKIPPED;
    record = record_at(ring, place);
    *record = (struct ring_record){.bytes = (uint32_t)body_bytes, .kind = kind, .seq = seq, .descriptors_count = descriptors_count};
    if (descriptors_count > 0)
        memcpy(record->descriptors, descriptors, descriptors_count * sizeof(*descriptors));
    memcpy(record + 1, bytes, body_bytes);
    ring->tail = place + record_bytes((uint32_t)body_bytes);
    explicit_bzero(bytes, body_bytes);
    return STATUS_OK;
}

struct ring_record *ring_unsent(struct ring *ring)
{
    return ring->cursor == ring->tail ? NULL : record_at(ring, place_of(ring, ring->cursor));
}

struct ring_record *ring_oldest(struct ring *ring)
{
    return ring->head == ring->tail ? NULL : record_at(ring, place_of(ring, ring->head));
}

static uint64_t after(const struct ring *ring, uint64_t position)
{
    const uint64_t place = place_of(ring, position);

    return place + record_bytes(record_at(ring, place)->bytes);
}

void ring_advance(struct ring *ring)
{
    check(ring->cursor != ring->tail);
    ring->cursor = after(ring, ring->cursor);
}

void ring_pop(struct ring *ring)
{
    struct ring_record *record = ring_oldest(ring);
    const uint64_t next = after(ring, ring->head);

    check(record != NULL);
    for (uint32_t i = 0; i < record->descriptors_count; i++)
        close(record->descriptors[i]);
    explicit_bzero(record, sizeof(*record) + record->bytes);
    ring->head = next;
    if (ring->cursor < next)
        ring->cursor = next;
    if (ring->head == ring->tail)
        ring->head = ring->cursor = ring->tail = 0; /* so that one frame always has room in an empty ring */
}

void ring_rewind(struct ring *ring)
{
    ring->cursor = ring->head;
}

void ring_clear(struct ring *ring)
{
    while (ring->head != ring->tail)
        ring_pop(ring);
}
