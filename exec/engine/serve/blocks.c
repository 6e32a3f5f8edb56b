#include "engine/serve/blocks.h"

#include <stdlib.h>

enum status blocks_create(struct blocks *blocks, uint32_t all)
{
    *blocks = (struct blocks){.free = malloc(all * sizeof(int32_t)), .count = all, .all = all};
    if (blocks->free == NULL)
        return STATUS_FULL;
    for (uint32_t i = 0; i < all; i++)
        blocks->free[i] = (int32_t)(all - i); /* 1 goes first */
    return STATUS_OK;
}

void blocks_free(struct blocks *blocks)
{
    free(blocks->free);
    *blocks = (struct blocks){0};
}

int32_t blocks_take(struct blocks *blocks)
{
    check(blocks->count > 0);
    return blocks->free[--blocks->count];
}

void blocks_give(struct blocks *blocks, int32_t id)
{
    check(id >= 1 && (uint32_t)id <= blocks->all && blocks->count < blocks->all);
    blocks->free[blocks->count++] = id;
}
