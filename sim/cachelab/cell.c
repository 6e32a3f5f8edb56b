#include "cachelab/loop.h"

static const struct {
    const struct evict_policy *policy;
    lab_loop *loop;
} loops[] = {
#define X(name) {&evict_##name, lab_loop_##name},
    EVICT_POLICIES(X)
    EVICT_BOUNDS(X)
#undef X
};

lab_loop *lab_loop_of(const struct evict_policy *policy)
{
    for (size_t i = 0; i < ARRAY_COUNT(loops); i++)
        if (loops[i].policy == policy)
            return loops[i].loop;
    return lab_loop_any;
}

enum status lab_cell_requests(struct lab_cell *cell, const struct lab_block *block)
{
    check(block->count <= LAB_BLOCK_MAX);
    if (lab_cell_objects_grow(cell, block->objects_count) != STATUS_OK)
        return STATUS_FULL;
    cell->counts.requests += block->count;
    cell->counts.bytes += block->bytes;
    return cell->loop(cell, block);
}
