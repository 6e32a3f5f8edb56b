/* A binary heap of plain values in an array of fixed room: what comes first is at the top. The order must be total
 * over the values' contents, or equal ones indistinguishable: then what comes out does not depend on the order of going
 * in. */
#ifndef WORKLOAD_HEAP_H
#define WORKLOAD_HEAP_H

#include "base/base.h"

#define HEAP_ITEM_MAX 128

typedef bool heap_before(const void *a, const void *b);

struct heap {
    char *items;          /* [room] of item_bytes */
    heap_before *before;
    size_t item_bytes;    /* <= HEAP_ITEM_MAX */
    uint32_t count;
    uint32_t room;
};

/* Memory is taken from the system when it is first written, so a generous room costs nothing. STATUS_FULL: none. */
enum status heap_open(struct heap *heap, uint32_t room, size_t item_bytes, heap_before *before);
void heap_close(struct heap *heap); /* accepts {0} */

/* There must be room. */
void heap_push(struct heap *heap, const void *item);
/* NULL when empty. */
const void *heap_top(const struct heap *heap);
/* The heap must not be empty. */
void heap_pop(struct heap *heap, void *ret_item);

#endif
