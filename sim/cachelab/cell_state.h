/* What a cell is made of, for the two files that know: cell.c decides requests, cell_make.c has the memory. */
#ifndef CACHELAB_CELL_STATE_H
#define CACHELAB_CELL_STATE_H

#include "base/ids.h"
#include "cachelab/cell.h"

/* What slot_of[] says of an object that isn't there: why the next miss is one. */
#define LAB_ABSENT(miss) (NONE_INDEX - (LAB_MISS_COUNT - 1) + (miss))
#define LAB_ABSENT_MIN LAB_ABSENT(0)

struct lab_cell {
    struct evict_view view;
    void *memory;             /* the view's */
    uint32_t *slot_of;        /* [objects_max]: an entry, or LAB_ABSENT() */
    uint32_t objects_max;
    bool by_bytes;
    bool full;                /* it has pins, or an admission */
    enum status (*loop)(struct lab_cell *cell, const struct lab_block *block); /* loop.h */
    uint64_t used;            /* in the unit */
    struct lab_counts counts;
    /* Pins: the objects of the last requests, and how many of those each has. */
    uint32_t *flight;         /* [in_flight], a ring */
    uint32_t in_flight;
    uint32_t flight_at;
    uint64_t flight_count;
    uint32_t *pins;           /* [objects_max] */
    uint64_t pinned;          /* of what is there, in the unit */
    const struct admit_policy *admit; /* NULL: always */
    struct admit_view admit_view;
};

/* As the cache that serves names them, so that policies that hash names choose the same there and here. */
static inline uint64_t name_of(uint32_t object)
{
    return adapter_key((adapter_id){object + 1, 0});
}

static inline uint32_t object_of(uint64_t name)
{
    return (uint32_t)(name >> 32) - 1;
}

/* Room for one more entry. FULL: no memory. */
enum status lab_cell_entries_grow(struct lab_cell *cell);
/* Room for objects numbered below this. */
enum status lab_cell_objects_grow(struct lab_cell *cell, uint32_t objects);

#endif
