#include "workload/heap.h"

#include <stdlib.h>

enum status heap_open(struct heap *heap, uint32_t room, size_t item_bytes, heap_before *before)
{
    check(item_bytes <= HEAP_ITEM_MAX);
    *heap = (struct heap){.before = before, .item_bytes = item_bytes, .room = room};
    if (room == 0)
        return STATUS_OK;
    heap->items = malloc((size_t)room * item_bytes);
    return heap->items != NULL ? STATUS_OK : STATUS_FULL;
}

void heap_close(struct heap *heap)
{
    free(heap->items);
    *heap = (struct heap){0};
}

static char *item_at(const struct heap *heap, uint32_t i)
{
    return heap->items + (size_t)i * heap->item_bytes;
}

static void put(struct heap *heap, uint32_t i, const void *item)
{
    memcpy(item_at(heap, i), item, heap->item_bytes);
}

void heap_push(struct heap *heap, const void *item)
{
    uint32_t hole = heap->count;

    check(heap->count < heap->room);
    heap->count++;
    while (hole > 0 && heap->before(item, item_at(heap, (hole - 1) / 2))) {
        put(heap, hole, item_at(heap, (hole - 1) / 2));
        hole = (hole - 1) / 2;
    }
    put(heap, hole, item);
}

const void *heap_top(const struct heap *heap)
{
    return heap->count > 0 ? heap->items : NULL;
}

void heap_pop(struct heap *heap, void *ret_item)
{
    /* A union gives the copy the alignment of any item. */
    union {
        char bytes[HEAP_ITEM_MAX];
        int64_t aligned;
    } last;
    uint32_t hole = 0;

    check(heap->count > 0);
    memcpy(ret_item, heap->items, heap->item_bytes);
    heap->count--;
    memcpy(last.bytes, item_at(heap, heap->count), heap->item_bytes);
    for (;;) {
        uint32_t child = 2 * hole + 1;

        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->before(item_at(heap, child + 1), item_at(heap, child)))
            child++;
        if (!heap->before(item_at(heap, child), last.bytes))
            break;
        put(heap, hole, item_at(heap, child));
        hole = child;
    }
    if (heap->count > 0)
        put(heap, hole, last.bytes);
}
