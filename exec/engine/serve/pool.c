#include "engine/serve/pool.h"

#include <stdlib.h>

enum status pool_create(struct pool *pool, int64_t bytes, uint32_t slots)
{
    *pool = (struct pool){.blobs = calloc(slots + 1, sizeof(pool->blobs[0])), .slots = slots, .bytes = bytes};
    return pool->blobs == NULL ? STATUS_FULL : STATUS_OK;
}

void pool_free(struct pool *pool)
{
    free(pool->blobs);
    *pool = (struct pool){0};
}

static uint32_t find(const struct pool *pool, int32_t slot)
{
    for (uint32_t i = 0; i < pool->count; i++)
        if (pool->blobs[i].slot == slot)
            return i;
    return NONE_INDEX;
}

/* Where the hole before blob `index` begins; index count: the one at the end. */
static int64_t hole_begin(const struct pool *pool, uint32_t index)
{
    return index == 0 ? 0 : pool->blobs[index - 1].offset + pool->blobs[index - 1].bytes;
}

static int64_t hole_end(const struct pool *pool, uint32_t index)
{
    return index == pool->count ? pool->bytes : pool->blobs[index].offset;
}

enum status pool_take(struct pool *pool, int32_t slot, int64_t bytes, int64_t *ret_offset)
{
    int64_t need = pool_aligned(bytes);

    check(bytes > 0 && pool->count < pool->slots && find(pool, slot) == NONE_INDEX);
    for (uint32_t i = 0; i <= pool->count; i++) {
        int64_t offset = hole_begin(pool, i);

        if (hole_end(pool, i) - offset < need)
            continue;
        memmove(&pool->blobs[i + 1], &pool->blobs[i], (pool->count - i) * sizeof(pool->blobs[0]));
        pool->blobs[i] = (struct pool_blob){.offset = offset, .bytes = need, .slot = slot, .writing = true};
        pool->count++;
        *ret_offset = offset;
        return STATUS_OK;
    }
    return STATUS_FULL;
}

void pool_written(struct pool *pool, int32_t slot)
{
    uint32_t index = find(pool, slot);

    check(index != NONE_INDEX && pool->blobs[index].writing);
    pool->blobs[index].writing = false;
}

void pool_give(struct pool *pool, int32_t slot)
{
    uint32_t index = find(pool, slot);

    check(index != NONE_INDEX);
    pool->count--;
    memmove(&pool->blobs[index], &pool->blobs[index + 1], (pool->count - index) * sizeof(pool->blobs[0]));
}

bool pool_move(struct pool *pool, struct pool_move *ret_move)
{
    for (uint32_t i = 0; i < pool->count; i++) {
        struct pool_blob *blob = &pool->blobs[i];
        int64_t to = hole_begin(pool, i);

        if (blob->writing || to == blob->offset)
            continue;
        *ret_move = (struct pool_move){.slot = blob->slot, .to = to, .from = blob->offset, .bytes = blob->bytes};
        blob->offset = to;
        return true;
    }
    return false;
}

int64_t pool_offset(const struct pool *pool, int32_t slot)
{
    uint32_t index = find(pool, slot);

    check(index != NONE_INDEX);
    return pool->blobs[index].offset;
}

void pool_check(const struct pool *pool)
{
    for (uint32_t i = 0; i <= pool->count; i++)
        check(hole_end(pool, i) >= hole_begin(pool, i));
    for (uint32_t i = 0; i < pool->count; i++)
        check(pool->blobs[i].offset % POOL_ALIGN == 0 && pool->blobs[i].bytes % POOL_ALIGN == 0);
}
