/* A request is a hit, or a miss that makes room and comes in. This text is compiled once for each policy of the list, with the policy's
 * file in it (LAB_POLICY, LAB_POLICY_FILE; see the Makefile), so that the policy's few instructions stand in the loop; and once for any
 * other. Within that in three shapes: by slots and by bytes for what most cells are, and with everything that a cell may have besides
 * (pins, admission, another's future). 64 requests are taken at a time, in three passes, so that what they need comes from memory
 * together: where the object lies; its entry; then the decisions. Names begin with loop_ here, to meet none of a policy's. */
#ifdef LAB_POLICY
#include LAB_POLICY_FILE
#endif

#include "cachelab/loop.h"

#define LOOP_BATCH 64u
/* Below this everything is in the second cache anyway. */
#define LOOP_PREFETCH_BYTES (UINT64_C(256) << 10)

#ifdef LAB_POLICY
#define JOINED(a, b) a##b
#define NAMED(prefix, name) JOINED(prefix, name)
#define LOOP NAMED(lab_loop_, LAB_POLICY)
#define POLICY(cell) (&NAMED(evict_, LAB_POLICY))
#else
#define LOOP lab_loop_any
#define POLICY(cell) ((cell)->view.policy)
#endif

/* What a shape is must be known where it's compiled. */
#define ALWAYS_INLINE __attribute__((always_inline)) static inline

struct loop_shape {
    bool full;
    bool by_bytes;
};

/* --- one request --- */

static bool loop_has_no_entry(const struct evict_view *view)
{
    return view->entries_free == NONE_INDEX && view->entries_used == view->entries_max;
}

/* The entry is free then, and whose it was is absent; it isn't given back yet. */
ALWAYS_INLINE void loop_leave(struct lab_cell *cell, uint32_t slot, bool evicted, enum lab_miss why, struct loop_shape shape)
{
    struct evict_entry *entry = &cell->view.entries[slot];

    POLICY(cell)->remove(&cell->view, slot, evicted);
    cell->used -= shape.by_bytes ? entry->size : 1;
    if (shape.full && !entry->evictable)
        cell->pinned -= entry->size;
    cell->slot_of[object_of(entry->name)] = LAB_ABSENT(why);
}

/* The last entry that left, for what comes; NONE_INDEX: there was room. */
ALWAYS_INLINE uint32_t loop_make_room(struct lab_cell *cell, uint64_t size, struct loop_shape shape)
{
    struct evict_view *view = &cell->view;
    uint32_t last = NONE_INDEX;

    while (cell->used > view->capacity - size) {
        if (shape.by_bytes && last != NONE_INDEX)
            evict_entry_give_back(view, last);
        last = POLICY(cell)->victim(view);
        check(last < view->entries_used);
        check(view->entries[last].evictable);
        loop_leave(cell, last, true, LAB_MISS_CAPACITY, shape);
        cell->counts.evictions++;
        if (!shape.by_bytes)
            break; /* one for one */
    }
    return last;
}

static bool loop_admits(struct lab_cell *cell, uint64_t size)
{
    const struct evict_entry *victim = NULL;
    uint32_t slot;

    if (cell->used > cell->view.capacity - size) {
        slot = POLICY(cell)->victim(&cell->view);
        check(slot < cell->view.entries_used);
        victim = &cell->view.entries[slot];
    }
    return cell->admit->wants(&cell->admit_view, &cell->view.asked, victim);
}

/* Whether it may come in; otherwise why not is written down for its next miss. Nobody is told of what pins leave no room for, as the
 * cache that serves doesn't either: it asks again later. */
ALWAYS_INLINE bool loop_comes_in(struct lab_cell *cell, uint32_t object, uint64_t size, uint64_t bytes, struct loop_shape shape)
{
    if (shape.full && size > cell->view.capacity - cell->pinned) {
        cell->slot_of[object] = LAB_ABSENT(LAB_MISS_PINNED);
        return false;
    }
    cell->view.asked = (struct evict_ask){name_of(object), size, bytes, true};
    if ((POLICY(cell)->miss != NULL && !POLICY(cell)->miss(&cell->view)) || (shape.full && cell->admit != NULL && !loop_admits(cell, size))) {
        cell->slot_of[object] = LAB_ABSENT(LAB_MISS_REFUSED);
        cell->view.asked.open = false;
        return false;
    }
    return true;
}

ALWAYS_INLINE enum status loop_miss(struct lab_cell *cell, uint32_t object, uint64_t bytes, struct loop_shape shape)
{
    struct evict_view *view = &cell->view;
    const uint64_t size = shape.by_bytes ? bytes : 1;
    uint32_t slot;

    cell->counts.miss_bytes += bytes;
    if (size > view->capacity) {
        cell->counts.misses[cell->slot_of[object] == LAB_ABSENT(LAB_MISS_COMPULSORY) ? LAB_MISS_COMPULSORY : LAB_MISS_OVERSIZE]++;
        cell->slot_of[object] = LAB_ABSENT(LAB_MISS_OVERSIZE);
        return STATUS_OK;
    }
    cell->counts.misses[cell->slot_of[object] - LAB_ABSENT_MIN]++;
    if (!loop_comes_in(cell, object, size, bytes, shape))
        return STATUS_OK;
    slot = loop_make_room(cell, size, shape);
    if (slot != NONE_INDEX) {
        evict_entry_fill(view, slot, name_of(object), size, bytes);
    } else {
        if (loop_has_no_entry(view) && lab_cell_entries_grow(cell) != STATUS_OK)
            return STATUS_FULL;
        slot = evict_entry_take(view, name_of(object), size, bytes);
    }
    view->entries[slot].evictable = true;
    if (shape.full && cell->in_flight > 0 && cell->pins[object] > 0) {
        view->entries[slot].evictable = false;
        cell->pinned += size;
    }
    cell->slot_of[object] = slot;
    cell->used += size;
    if (!POLICY(cell)->offline)
        view->now++;
    POLICY(cell)->insert(view, slot);
    view->asked.open = false;
    return STATUS_OK;
}

/* --- pins --- */

static void loop_pin(struct lab_cell *cell, uint32_t object)
{
    const uint32_t slot = cell->slot_of[object];

    cell->flight[cell->flight_at] = object;
    cell->flight_at = cell->flight_at + 1 < cell->in_flight ? cell->flight_at + 1 : 0;
    cell->flight_count++;
    if (cell->pins[object]++ > 0 || slot >= LAB_ABSENT_MIN)
        return;
    cell->view.entries[slot].evictable = false;
    cell->pinned += cell->view.entries[slot].size;
}

static void loop_unpin_oldest(struct lab_cell *cell)
{
    uint32_t object;
    uint32_t slot;

    if (cell->flight_count < cell->in_flight)
        return;
    object = cell->flight[cell->flight_at];
    slot = cell->slot_of[object];
    if (--cell->pins[object] > 0 || slot >= LAB_ABSENT_MIN)
        return;
    cell->view.entries[slot].evictable = true;
    cell->pinned -= cell->view.entries[slot].size;
}

/* --- many requests --- */

/* Absent, or there in another size. */
ALWAYS_INLINE enum status loop_not_hit(struct lab_cell *cell, uint32_t object, uint64_t bytes, struct loop_shape shape)
{
    const uint32_t slot = cell->slot_of[object];

    if (shape.by_bytes && slot < LAB_ABSENT_MIN) {
        loop_leave(cell, slot, false, LAB_MISS_CAPACITY, shape);
        evict_entry_give_back(&cell->view, slot);
        cell->counts.changed += bytes <= cell->view.capacity;
    }
    return loop_miss(cell, object, bytes, shape);
}

static void loop_decide_begin(struct lab_cell *cell, const struct lab_block *block, uint32_t at)
{
    struct evict_view *view = &cell->view;

    if (cell->in_flight > 0)
        loop_unpin_oldest(cell);
    if (POLICY(cell)->offline) {
        view->now = block->first + at + 1;
        view->next_use = block->next[at] == NONE_USE ? NONE_USE : block->next[at] + 1;
    }
    if (cell->admit != NULL && cell->admit->use != NULL)
        cell->admit->use(&cell->admit_view, name_of(block->objects[at]), cell->by_bytes ? block->sizes_bytes[at] : 1);
}

ALWAYS_INLINE enum status loop_decide(struct lab_cell *cell, const struct lab_block *block, uint32_t at, struct loop_shape shape)
{
    struct evict_view *view = &cell->view;
    const uint32_t object = block->objects[at];
    const uint64_t bytes = block->sizes_bytes[at];
    enum status status = STATUS_OK;
    uint32_t slot;

    if (shape.full)
        loop_decide_begin(cell, block, at);
    slot = cell->slot_of[object];
    if (slot < LAB_ABSENT_MIN && (!shape.by_bytes || view->entries[slot].bytes == bytes)) {
        view->entries[slot].hits++;
        if (!POLICY(cell)->offline)
            view->now++;
        POLICY(cell)->touch(view, slot);
    } else {
        status = loop_not_hit(cell, object, bytes, shape);
    }
    if (shape.full && cell->in_flight > 0)
        loop_pin(cell, object);
    return status;
}

/* Who is absent is looked for among the ghosts, where there are any. */
static void loop_prefetch(const struct lab_cell *cell, const uint32_t *objects, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(&cell->slot_of[objects[i]], 1);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = cell->slot_of[objects[i]];

        if (slot < LAB_ABSENT_MIN)
            __builtin_prefetch(&cell->view.entries[slot], 1);
        else if (POLICY(cell)->ghosts_percent > 0)
            evict_ghost_prefetch(&cell->view.ghosts, name_of(objects[i]));
    }
}

ALWAYS_INLINE enum status loop_decide_all(struct lab_cell *cell, const struct lab_block *block, struct loop_shape shape)
{
    const bool prefetches = cell->objects_max * sizeof(uint32_t) + cell->view.entries_used * sizeof(struct evict_entry) > LOOP_PREFETCH_BYTES;

    for (uint32_t from = 0; from < block->count; from += LOOP_BATCH) {
        const uint32_t to = min_u32(from + LOOP_BATCH, block->count);

        if (prefetches)
            loop_prefetch(cell, block->objects + from, to - from);
        for (uint32_t at = from; at < to; at++)
            if (loop_decide(cell, block, at, shape) != STATUS_OK)
                return STATUS_FULL;
    }
    return STATUS_OK;
}

enum status LOOP(struct lab_cell *cell, const struct lab_block *block)
{
    if (POLICY(cell)->offline || cell->full)
        return loop_decide_all(cell, block, (struct loop_shape){true, cell->by_bytes});
    return cell->by_bytes ? loop_decide_all(cell, block, (struct loop_shape){false, true}) : loop_decide_all(cell, block, (struct loop_shape){false, false});
}
