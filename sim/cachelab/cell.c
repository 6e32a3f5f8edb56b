/* A request is a hit, or a miss that makes room and comes in. The loop stands here twice from one text: for what most cells are,
 * and with everything that a cell may have besides (pins, admission, another's future). 64 requests are taken at a time, in
 * three passes, so that what they need comes from memory together: where the object lies; its entry; then the decisions. */
#include "cachelab/cell.h"

#include <stdlib.h>

#include "base/ids.h"
#include "cachelab/pages.h"

#define ENTRIES_MIN 64u
#define OBJECTS_MIN 1024u
#define BATCH 64u
/* Below this everything is in the second cache anyway. */
#define PREFETCH_BYTES (UINT64_C(256) << 10)

/* What slot_of[] says of an object that isn't there: why the next miss is one. */
#define ABSENT(miss) (NONE_INDEX - (LAB_MISS_COUNT - 1) + (miss))
#define ABSENT_MIN ABSENT(0)

struct lab_cell {
    struct evict_view view;
    void *memory;             /* the view's */
    uint32_t *slot_of;        /* [objects_max]: an entry, or ABSENT() */
    uint32_t objects_max;
    bool by_bytes;
    bool full;                /* the loop with everything */
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

/* --- memory --- */

static bool is_full(const struct evict_view *view)
{
    return view->entries_free == NONE_INDEX && view->entries_used == view->entries_max;
}

static enum status admit_grow(struct lab_cell *cell, uint32_t entries_max)
{
    const struct admit_policy *admit = cell->admit;
    struct admit_view *view = &cell->admit_view;
    const uint32_t old_max = view->entries_max;
    void *old = view->state;

    if (admit == NULL)
        return STATUS_OK;
    if (admit->state_bytes != NULL) {
        void *state = pages_alloc(admit->state_bytes(entries_max));

        if (state == NULL)
            return STATUS_FULL;
        memset(state, 0, admit->state_bytes(entries_max));
        view->state = state;
    }
    view->entries_max = entries_max;
    if (old != NULL && admit->grow != NULL)
        admit->grow(view, old, old_max);
    else if (old != NULL)
        memcpy(view->state, old, admit->state_bytes(old_max));
    free(old);
    return STATUS_OK;
}

/* As many entries as the cache may ever hold, where that is known and less than twice as many. */
static enum status entries_grow(struct lab_cell *cell)
{
    const uint64_t most = cell->by_bytes ? NONE_INDEX - LAB_MISS_COUNT : cell->view.capacity;
    const uint32_t entries_max = (uint32_t)min_u64(2 * (uint64_t)cell->view.entries_max, most);
    void *memory = pages_alloc(evict_view_bytes(cell->view.policy, entries_max));

    if (memory == NULL || entries_max == cell->view.entries_max) {
        free(memory);
        return STATUS_FULL;
    }
    evict_view_move(&cell->view, memory, entries_max);
    free(cell->memory);
    cell->memory = memory;
    return admit_grow(cell, entries_max);
}

static enum status numbers_grow(uint32_t **numbers, uint32_t from, uint32_t to, uint32_t fill)
{
    uint32_t *larger = pages_alloc(to * sizeof(*larger));

    if (larger == NULL)
        return STATUS_FULL;
    if (from > 0)
        memcpy(larger, *numbers, from * sizeof(*larger));
    for (uint32_t i = from; i < to; i++)
        larger[i] = fill;
    free(*numbers);
    *numbers = larger;
    return STATUS_OK;
}

static enum status objects_grow(struct lab_cell *cell, uint32_t objects)
{
    uint64_t to = max_u64(cell->objects_max, OBJECTS_MIN);

    while (to < objects)
        to *= 2;
    to = min_u64(to, UINT32_MAX);
    if (cell->objects_max >= to)
        return STATUS_OK;
    if (numbers_grow(&cell->slot_of, cell->objects_max, (uint32_t)to, ABSENT(LAB_MISS_COMPULSORY)) != STATUS_OK ||
        (cell->in_flight > 0 && numbers_grow(&cell->pins, cell->objects_max, (uint32_t)to, 0) != STATUS_OK))
        return STATUS_FULL;
    cell->objects_max = (uint32_t)to;
    return STATUS_OK;
}

/* --- beginning and end --- */

static enum status admit_begin(struct lab_cell *cell, const struct lab_cell_setup *setup)
{
    const struct lab_admission *admission = setup->admission;

    if (admission == NULL || admission->admit == &admit_always)
        return STATUS_OK;
    cell->admit = admission->admit;
    cell->admit_view = (struct admit_view){.capacity = setup->size->capacity, .salt = setup->seed};
    memcpy(cell->admit_view.parameters, admission->parameters, sizeof(admission->parameters));
    if (admit_grow(cell, cell->view.entries_max) != STATUS_OK)
        return STATUS_FULL;
    if (cell->admit->begin != NULL)
        cell->admit->begin(&cell->admit_view);
    return STATUS_OK;
}

enum status lab_cell_create(const struct lab_cell_setup *setup, struct lab_cell **ret_cell)
{
    struct lab_cell *cell = pages_alloc(sizeof(*cell));
    struct evict_setup begin = {
        .policy = setup->policy->evict, .parameters = setup->policy->parameters, .capacity = setup->size->capacity,
        .cost_fixed_ns = setup->cost_fixed_ns, .cost_ns_per_mib = setup->cost_ns_per_mib, .salt = setup->seed};

    if (cell == NULL)
        return STATUS_FULL;
    *cell = (struct lab_cell){.by_bytes = setup->size->unit == LAB_BYTES, .in_flight = setup->in_flight};
    begin.entries_max = cell->by_bytes ? ENTRIES_MIN : (uint32_t)max_u64(1, min_u64(ENTRIES_MIN, begin.capacity));
    cell->memory = pages_alloc(evict_view_bytes(begin.policy, begin.entries_max));
    cell->flight = setup->in_flight > 0 ? malloc(setup->in_flight * sizeof(*cell->flight)) : NULL;
    if (cell->memory == NULL || (setup->in_flight > 0 && cell->flight == NULL)) {
        lab_cell_free(cell);
        return STATUS_FULL;
    }
    evict_view_begin(&cell->view, cell->memory, &begin);
    if (admit_begin(cell, setup) != STATUS_OK || objects_grow(cell, 0) != STATUS_OK) {
        lab_cell_free(cell);
        return STATUS_FULL;
    }
    cell->full = cell->in_flight > 0 || cell->admit != NULL || begin.policy->offline;
    *ret_cell = cell;
    return STATUS_OK;
}

void lab_cell_free(struct lab_cell *cell)
{
    if (cell == NULL)
        return;
    free(cell->admit_view.state);
    free(cell->pins);
    free(cell->flight);
    free(cell->slot_of);
    free(cell->memory);
    free(cell);
}

/* --- one request --- */

/* As the cache that serves names them, so that policies that hash names choose the same there and here. */
static uint64_t name_of(uint32_t object)
{
    return adapter_key((adapter_id){object + 1, 0});
}

static uint32_t object_of(uint64_t name)
{
    return (uint32_t)(name >> 32) - 1;
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

static void make_room(struct lab_cell *cell, uint64_t size)
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
static bool comes_in(struct lab_cell *cell, uint32_t object, uint64_t size, uint64_t bytes, bool full)
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

static inline enum status miss(struct lab_cell *cell, uint32_t object, uint64_t bytes, bool full)
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
    if (is_full(view) && entries_grow(cell) != STATUS_OK)
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
static inline enum status not_hit(struct lab_cell *cell, uint32_t object, uint64_t bytes, bool full)
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

__attribute__((always_inline)) static inline enum status decide(struct lab_cell *cell, const struct lab_block *block, uint32_t at,
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

static inline enum status decide_all(struct lab_cell *cell, const struct lab_block *block, bool full)
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
    if (objects_grow(cell, block->objects_count) != STATUS_OK)
        return STATUS_FULL;
    cell->counts.requests += block->count;
    cell->counts.bytes += block->bytes;
    return cell->full ? decide_all(cell, block, true) : decide_all(cell, block, false);
}

/* --- what came of it --- */

uint64_t lab_misses(const struct lab_counts *counts)
{
    uint64_t misses = 0;

    for (uint32_t i = 0; i < LAB_MISS_COUNT; i++)
        misses += counts->misses[i];
    return misses;
}

struct lab_counts lab_cell_counts(const struct lab_cell *cell)
{
    return cell->counts;
}

void lab_cell_describe(const struct lab_cell *cell, struct lab_result *ret_result)
{
    const struct evict_view *view = &cell->view;
    const struct admit_policy *admit = cell->admit;
    const uint64_t pins_bytes = cell->in_flight * sizeof(uint32_t) + (cell->in_flight > 0 ? cell->objects_max * sizeof(uint32_t) : 0);

    ret_result->ghosts = 0;
    for (uint32_t list = 0; list < EVICT_GHOST_LISTS_MAX; list++)
        ret_result->ghosts += view->ghosts.lists[list].count;
    ret_result->objects = 0;
    for (uint32_t i = 0; i < view->entries_used; i++)
        ret_result->objects += view->entries[i].present;
    ret_result->memory_bytes = sizeof(*cell) + evict_view_bytes(view->policy, view->entries_max) +
                               cell->objects_max * sizeof(uint32_t) + pins_bytes +
                               (admit != NULL && admit->state_bytes != NULL ? admit->state_bytes(cell->admit_view.entries_max) : 0);
}

void lab_cell_check(const struct lab_cell *cell)
{
    const struct evict_view *view = &cell->view;
    uint64_t used = 0;
    uint64_t pinned = 0;
    uint32_t present = 0;

    evict_view_check(view);
    for (uint32_t object = 0; object < cell->objects_max; object++) {
        const uint32_t slot = cell->slot_of[object];

        if (slot >= ABSENT_MIN)
            continue;
        check(slot < view->entries_used);
        check(view->entries[slot].present);
        check(object_of(view->entries[slot].name) == object);
        check(view->entries[slot].evictable == (cell->in_flight == 0 || cell->pins[object] == 0));
        used += view->entries[slot].size;
        pinned += view->entries[slot].evictable ? 0 : view->entries[slot].size;
        present++;
    }
    for (uint32_t i = 0; i < view->entries_used; i++)
        present -= view->entries[i].present;
    check(present == 0);
    check(used == cell->used);
    check(pinned == cell->pinned);
    check(used <= view->capacity);
}
