/* A request is a hit, or a miss that makes room and comes in. The loop stands here twice from one text: for what most cells are,
 * and with everything that a cell may have besides (pins, admission, another's future). 64 requests are taken at a time, in
 * three passes, so that what they need comes from memory together: where the object lies; its entry; then the decisions. */
#include "cachelab/cell_state.h"

#define BATCH 64u
/* Below this everything is in the second cache anyway. */
#define PREFETCH_BYTES (UINT64_C(256) << 10)

/* What `full` is must be known where it's compiled. */
#define ALWAYS_INLINE __attribute__((always_inline)) static inline

/* --- one request --- */

static bool is_full(const struct evict_view *view)
{
    return view->entries_free == NONE_INDEX && view->entries_used == view->entries_max;
}

static void leave(struct lab_cell *cell, uint32_t slot, bool evicted, enum lab_miss why)
{
    struct evict_entry *entry = &cell->view.entries[slot];
    const uint32_t object = object_of(entry->name);

    cell->view.policy->remove(&cell->view, slot, evicted);
    cell->used -= entry->size;
    if (!entry->evictable)
        cell->pinned -= entry->size;
    cell->slot_of[object] = ABSENT(why);
    evict_entry_give_back(&cell->view, slot);
}

ALWAYS_INLINE void make_room(struct lab_cell *cell, uint64_t size)
{
    struct evict_view *view = &cell->view;

    while (cell->used > view->capacity - size) {
        const uint32_t victim = view->policy->victim(view);

        check(victim < view->entries_used);
        check(view->entries[victim].evictable);
        leave(cell, victim, true, LAB_MISS_CAPACITY);
        cell->counts.evictions++;
    }
}

static bool admits(struct lab_cell *cell, uint64_t size)
{
    const struct evict_entry *victim = NULL;
    uint32_t slot;

    if (cell->used > cell->view.capacity - size) {
        slot = cell->view.policy->victim(&cell->view);
        check(slot < cell->view.entries_used);
        victim = &cell->view.entries[slot];
    }
    return cell->admit->wants(&cell->admit_view, &cell->view.asked, victim);
}

/* Whether it may come in; otherwise why not is written down for its next miss. Nobody is told of what pins leave no room for, as the
 * cache that serves doesn't either: it asks again later. */
ALWAYS_INLINE bool comes_in(struct lab_cell *cell, uint32_t object, uint64_t size, uint64_t bytes, bool full)
{
    if (full && size > cell->view.capacity - cell->pinned) {
        cell->slot_of[object] = ABSENT(LAB_MISS_PINNED);
        return false;
    }
    if (!evict_ask(&cell->view, name_of(object), size, bytes) || (full && cell->admit != NULL && !admits(cell, size))) {
        cell->slot_of[object] = ABSENT(LAB_MISS_REFUSED);
        cell->view.asked.open = false;
        return false;
    }
    make_room(cell, size);
    return true;
}

ALWAYS_INLINE enum status miss(struct lab_cell *cell, uint32_t object, uint64_t bytes, bool full)
{
    struct evict_view *view = &cell->view;
    const uint64_t size = cell->by_bytes ? bytes : 1;
    uint32_t slot;

    cell->counts.miss_bytes += bytes;
    if (size > view->capacity) {
        cell->counts.misses[cell->slot_of[object] == ABSENT(LAB_MISS_COMPULSORY) ? LAB_MISS_COMPULSORY : LAB_MISS_OVERSIZE]++;
        cell->slot_of[object] = ABSENT(LAB_MISS_OVERSIZE);
        return STATUS_OK;
    }
    cell->counts.misses[cell->slot_of[object] - ABSENT_MIN]++;
    if (!comes_in(cell, object, size, bytes, full))
        return STATUS_OK;
    if (is_full(view) && lab_cell_entries_grow(cell) != STATUS_OK)
        return STATUS_FULL;
    slot = evict_entry_take(view, name_of(object), size, bytes);
    view->entries[slot].evictable = true;
    if (full && cell->in_flight > 0 && cell->pins[object] > 0) {
        view->entries[slot].evictable = false;
        cell->pinned += size;
    }
    cell->slot_of[object] = slot;
    cell->used += size;
    if (!full || !view->policy->offline)
        view->now++;
    view->policy->insert(view, slot);
    view->asked.open = false;
    return STATUS_OK;
}

/* --- pins --- */

static void pin(struct lab_cell *cell, uint32_t object)
{
    const uint32_t slot = cell->slot_of[object];

    cell->flight[cell->flight_at] = object;
    cell->flight_at = cell->flight_at + 1 < cell->in_flight ? cell->flight_at + 1 : 0;
    cell->flight_count++;
    if (cell->pins[object]++ > 0 || slot >= ABSENT_MIN)
        return;
    cell->view.entries[slot].evictable = false;
    cell->pinned += cell->view.entries[slot].size;
}

static void unpin_oldest(struct lab_cell *cell)
{
    uint32_t object;
    uint32_t slot;

    if (cell->flight_count < cell->in_flight)
        return;
    object = cell->flight[cell->flight_at];
    slot = cell->slot_of[object];
    if (--cell->pins[object] > 0 || slot >= ABSENT_MIN)
        return;
    cell->view.entries[slot].evictable = true;
    cell->pinned -= cell->view.entries[slot].size;
}

/* --- many requests --- */

/* Absent, or there in another size. Out of the loop's way, which is a handful of instructions for a hit. */
ALWAYS_INLINE enum status not_hit(struct lab_cell *cell, uint32_t object, uint64_t bytes, bool full)
{
    const uint32_t slot = cell->slot_of[object];

    if (slot < ABSENT_MIN) {
        leave(cell, slot, false, LAB_MISS_CAPACITY);
        cell->counts.changed += bytes <= cell->view.capacity;
    }
    return miss(cell, object, bytes, full);
}

__attribute__((noinline)) static enum status not_hit_plain(struct lab_cell *cell, uint32_t object, uint64_t bytes)
{
    return not_hit(cell, object, bytes, false);
}

__attribute__((noinline)) static enum status not_hit_full(struct lab_cell *cell, uint32_t object, uint64_t bytes)
{
    return not_hit(cell, object, bytes, true);
}

static void decide_begin(struct lab_cell *cell, const struct lab_block *block, uint32_t at)
{
    struct evict_view *view = &cell->view;

    if (cell->in_flight > 0)
        unpin_oldest(cell);
    if (view->policy->offline) {
        view->now = block->first + at + 1;
        view->next_use = block->next[at] == NONE_USE ? NONE_USE : block->next[at] + 1;
    }
    if (cell->admit != NULL && cell->admit->use != NULL)
        cell->admit->use(&cell->admit_view, name_of(block->objects[at]), cell->by_bytes ? block->sizes_bytes[at] : 1);
}

ALWAYS_INLINE enum status decide(struct lab_cell *cell, const struct lab_block *block, uint32_t at,
                                                                bool full)
{
    struct evict_view *view = &cell->view;
    const uint32_t object = block->objects[at];
    const uint64_t bytes = block->sizes_bytes[at];
    enum status status = STATUS_OK;
    uint32_t slot;

    if (full)
        decide_begin(cell, block, at);
    slot = cell->slot_of[object];
    if (slot < ABSENT_MIN && (!cell->by_bytes || view->entries[slot].bytes == bytes)) {
        view->entries[slot].hits++;
        if (!full || !view->policy->offline)
            view->now++;
        view->policy->touch(view, slot);
    } else {
        status = full ? not_hit_full(cell, object, bytes) : not_hit_plain(cell, object, bytes);
    }
    if (full && cell->in_flight > 0)
        pin(cell, object);
    return status;
}

/* Who is absent is looked for among the ghosts, where there are any. */
static void prefetch(const struct lab_cell *cell, const uint32_t *objects, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(&cell->slot_of[objects[i]], 1);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = cell->slot_of[objects[i]];

        if (slot < ABSENT_MIN)
            __builtin_prefetch(&cell->view.entries[slot], 1);
        else
            evict_ghost_prefetch(&cell->view.ghosts, name_of(objects[i]));
    }
}

ALWAYS_INLINE enum status decide_all(struct lab_cell *cell, const struct lab_block *block, bool full)
{
    const bool prefetches = cell->objects_max * sizeof(uint32_t) + cell->view.entries_used * sizeof(struct evict_entry) > PREFETCH_BYTES;

    for (uint32_t from = 0; from < block->count; from += BATCH) {
        const uint32_t to = min_u32(from + BATCH, block->count);

        if (prefetches)
            prefetch(cell, block->objects + from, to - from);
        for (uint32_t at = from; at < to; at++)
            if (decide(cell, block, at, full) != STATUS_OK)
                return STATUS_FULL;
    }
    return STATUS_OK;
}

enum status lab_cell_requests(struct lab_cell *cell, const struct lab_block *block)
{
    check(block->count <= LAB_BLOCK_MAX);
    if (lab_cell_objects_grow(cell, block->objects_count) != STATUS_OK)
        return STATUS_FULL;
    cell->counts.requests += block->count;
    cell->counts.bytes += block->bytes;
    return cell->full ? decide_all(cell, block, true) : decide_all(cell, block, false);
}
