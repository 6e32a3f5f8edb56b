#include "cachelab/bound.h"

#include <stdlib.h>

#define SPANS_MIN 4096u
#define OBJECTS_MIN 1024u
#define CHANGED (UINT64_C(1) << 63)

/* From one request of an object to its next. */
struct span {
    uint64_t size;   /* the next one's; with CHANGED: the last one's was another */
    uint64_t length; /* requests from the one to the other */
};

struct object {
    uint64_t last;   /* number of its last request, from 1 on; 0: none */
    uint64_t size;
};

struct bound {
    struct span *spans;
    uint64_t spans_count, spans_max;
    struct object *objects;
    uint64_t objects_max;
    uint64_t requests;
    uint64_t warmup;
};

enum status bound_create(uint64_t warmup, struct bound **ret_bound)
{
    struct bound *bound = calloc(1, sizeof(*bound));

    if (bound == NULL)
        return STATUS_FULL;
    bound->warmup = warmup;
    *ret_bound = bound;
    return STATUS_OK;
}

void bound_free(struct bound *bound)
{
    if (bound == NULL)
        return;
    free(bound->spans);
    free(bound->objects);
    free(bound);
}

static enum status spans_reserve(struct bound *bound, uint32_t more)
{
    uint64_t spans_max = max_u64(SPANS_MIN, bound->spans_max);
    struct span *spans;

    if (bound->spans_count + more <= bound->spans_max)
        return STATUS_OK;
    while (spans_max < bound->spans_count + more)
        spans_max += spans_max / 2;
    spans = realloc(bound->spans, spans_max * sizeof(*spans));
    if (spans == NULL)
        return STATUS_FULL;
    bound->spans = spans;
    bound->spans_max = spans_max;
    return STATUS_OK;
}

static enum status objects_reserve(struct bound *bound, uint32_t object)
{
    uint64_t objects_max = max_u64(OBJECTS_MIN, bound->objects_max);
    struct object *objects;

    if (object < bound->objects_max)
        return STATUS_OK;
    while (objects_max <= object)
        objects_max *= 2;
    objects = realloc(bound->objects, objects_max * sizeof(*objects));
    if (objects == NULL)
        return STATUS_FULL;
    memset(objects + bound->objects_max, 0, (objects_max - bound->objects_max) * sizeof(*objects));
    bound->objects = objects;
    bound->objects_max = objects_max;
    return STATUS_OK;
}

enum status bound_requests(struct bound *bound, const uint32_t *objects, const uint64_t *sizes_bytes, uint32_t count)
{
    if (spans_reserve(bound, count) != STATUS_OK)
        return STATUS_FULL;
    for (uint32_t i = 0; i < count; i++) {
        struct object *object;

        if (objects_reserve(bound, objects[i]) != STATUS_OK)
            return STATUS_FULL;
        object = &bound->objects[objects[i]];
        bound->requests++;
        if (object->last > 0 && bound->requests > bound->warmup) {
            bound->spans[bound->spans_count++] =
                (struct span){.size = object->size == sizes_bytes[i] ? sizes_bytes[i] : CHANGED | sizes_bytes[i],
                              .length = bound->requests - object->last};
        }
        *object = (struct object){bound->requests, sizes_bytes[i]};
    }
    return STATUS_OK;
}

/* --- in order of a key --- */

#define DIGIT_BITS 16u
#define DIGITS (UINT32_C(1) << DIGIT_BITS)

static uint128 area_of(const struct span *span) { return (uint128)span->size * span->length; }
static uint128 length_of(const struct span *span) { return span->length; }

/* By one digit of the key, stably. */
static void sort_digit(const struct span *from, struct span *to, uint64_t count, uint128 (*key_of)(const struct span *span), uint32_t shift,
                       uint64_t *ends)
{
    uint64_t before = 0;

    memset(ends, 0, DIGITS * sizeof(*ends));
    for (uint64_t i = 0; i < count; i++)
        ends[(uint32_t)(key_of(&from[i]) >> shift) & (DIGITS - 1)]++;
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        const uint64_t here = ends[digit];

        ends[digit] = before;
        before += here;
    }
    for (uint64_t i = 0; i < count; i++)
        to[ends[(uint32_t)(key_of(&from[i]) >> shift) & (DIGITS - 1)]++] = from[i];
}

/* The most bytes for the time first; sizes are below 2^63, so the products fit. */
static int compare_rates(const void *a, const void *b)
{
    const struct span *first = a, *second = b;
    const uint128 left = (uint128)(first->size & ~CHANGED) * second->length;
    const uint128 right = (uint128)(second->size & ~CHANGED) * first->length;

    return (left < right) - (left > right);
}

static enum status sort_by(struct bound *bound, uint128 (*key_of)(const struct span *span))
{
    struct span *scratch = malloc((bound->spans_max > 0 ? bound->spans_max : 1) * sizeof(*scratch));
    uint64_t *ends = malloc(DIGITS * sizeof(*ends));
    uint128 most = 0;

    if (scratch == NULL || ends == NULL) {
        free(scratch);
        free(ends);
        return STATUS_FULL;
    }
    for (uint64_t i = 0; i < bound->spans_count; i++)
        most |= key_of(&bound->spans[i]);
    for (uint32_t shift = 0; shift < 128 && most >> shift != 0; shift += DIGIT_BITS) {
        struct span *sorted = scratch;

        sort_digit(bound->spans, sorted, bound->spans_count, key_of, shift, ends);
        scratch = bound->spans;
        bound->spans = sorted;
    }
    free(scratch);
    free(ends);
    return STATUS_OK;
}

/* --- answers --- */

/* What can be kept at all: what is kept for the last request is kept until then, which are so many steps. */
static uint128 budget_of(const struct bound *bound, uint64_t capacity)
{
    return bound->requests == 0 ? 0 : (uint128)capacity * (bound->requests - 1);
}

static uint64_t hits_by_bytes(const struct bound *bound, uint64_t capacity)
{
    uint128 budget = budget_of(bound, capacity);
    uint64_t hits = 0;

    for (uint64_t i = 0; i < bound->spans_count; i++) {
        const uint128 area = area_of(&bound->spans[i]);

        if (bound->spans[i].size > capacity)
            continue;
        if (area > budget)
            break;
        budget -= area;
        hits++;
    }
    return hits;
}

/* A byte costs its span's length, however large the object is; a part of an object may be the last. */
static uint128 hit_bytes_by_bytes(const struct bound *bound, uint64_t capacity)
{
    uint128 budget = budget_of(bound, capacity);
    uint128 bytes = 0;

    for (uint64_t i = 0; i < bound->spans_count; i++) {
        const struct span *span = &bound->spans[i];

        if (span->size > capacity)
            continue;
        if (area_of(span) > budget)
            return bytes + budget / span->length;
        budget -= area_of(span);
        bytes += span->size;
    }
    return bytes;
}

static uint64_t hits_by_objects(const struct bound *bound, uint64_t capacity)
{
    uint128 budget = budget_of(bound, capacity);
    uint64_t hits = 0;

    for (; hits < bound->spans_count && bound->spans[hits].length <= budget; hits++)
        budget -= bound->spans[hits].length;
    return hits;
}

/* Here a slot costs the span's length and gives the object's bytes; again a part may be the last. */
static uint128 hit_bytes_by_objects(const struct bound *bound, uint64_t capacity)
{
    uint128 budget = budget_of(bound, capacity);
    uint128 bytes = 0;

    for (uint64_t i = 0; i < bound->spans_count; i++) {
        const struct span *span = &bound->spans[i];

        if (span->length > budget)
            return bytes + (span->size & ~CHANGED) * budget / span->length;
        budget -= span->length;
        bytes += span->size & ~CHANGED;
    }
    return bytes;
}

enum status bound_answers(struct bound *bound, bool by_bytes, const uint64_t *capacities, uint32_t count, struct bound_answer *ret_answers)
{
    for (uint32_t i = 0; i < count; i++)
        check(capacities[i] <= INT64_MAX);
    if (by_bytes) {
        if (sort_by(bound, area_of) != STATUS_OK)
            return STATUS_FULL;
        for (uint32_t i = 0; i < count; i++)
            ret_answers[i].hits = hits_by_bytes(bound, capacities[i]);
    }
    if (sort_by(bound, length_of) != STATUS_OK)
        return STATUS_FULL;
    for (uint32_t i = 0; i < count; i++) {
        if (by_bytes)
            ret_answers[i].hit_bytes = hit_bytes_by_bytes(bound, capacities[i]);
        else
            ret_answers[i].hits = hits_by_objects(bound, capacities[i]);
    }
    if (by_bytes)
        return STATUS_OK;
    if (bound->spans_count > 0)
        qsort(bound->spans, bound->spans_count, sizeof(*bound->spans), compare_rates);
    for (uint32_t i = 0; i < count; i++)
        ret_answers[i].hit_bytes = hit_bytes_by_objects(bound, capacities[i]);
    return STATUS_OK;
}
