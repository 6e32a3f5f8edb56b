/* Where packed adapters lie in the device's pool: first fit. The core promises only that bytes suffice; when no hole does, one blob moves
 * down at a time, until one is large enough. A blob that is being written stays where it is. */
#ifndef SERVE_POOL_H
#define SERVE_POOL_H

#include "base/base.h"

#define POOL_ALIGN 256

struct pool_blob {
    int64_t offset;
    int64_t bytes;     /* a multiple of POOL_ALIGN */
    int32_t slot;
    bool writing;
};

struct pool {
    struct pool_blob *blobs; /* by rising offset */
    uint32_t count;
    uint32_t slots;
    int64_t bytes;
};

static inline int64_t pool_aligned(int64_t bytes)
{
    return (bytes + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
}

/* STATUS_FULL: no memory. */
enum status pool_create(struct pool *pool, int64_t bytes, uint32_t slots);
void pool_free(struct pool *pool);

/* Takes room for a slot's blob, which is written from then on. STATUS_FULL: no hole is large enough now. */
enum status pool_take(struct pool *pool, int32_t slot, int64_t bytes, int64_t *ret_offset);
void pool_written(struct pool *pool, int32_t slot);
void pool_give(struct pool *pool, int32_t slot);

/* The next move towards one hole: false when nothing can move (it is compact, but for what is being written). The caller moves the
 * bytes, and tells the device of the slot's new offset. */
struct pool_move {
    int32_t slot;
    int64_t to, from, bytes;
};
bool pool_move(struct pool *pool, struct pool_move *ret_move);
int64_t pool_offset(const struct pool *pool, int32_t slot);
void pool_check(const struct pool *pool);

#endif
