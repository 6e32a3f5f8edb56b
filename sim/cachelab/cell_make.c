/* The memory of a cell, which grows with what is in it and with the objects met; and what is told of it at the end. */
#include <stdlib.h>

#include "cachelab/loop.h"
#include "cachelab/pages.h"

#define ENTRIES_MIN 64u
#define OBJECTS_MIN 1024u

/* --- memory --- */

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
enum status lab_cell_entries_grow(struct lab_cell *cell)
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

enum status lab_cell_objects_grow(struct lab_cell *cell, uint32_t objects)
{
    uint64_t to = max_u64(cell->objects_max, OBJECTS_MIN);

    while (to < objects)
        to *= 2;
    to = min_u64(to, UINT32_MAX);
    if (cell->objects_max >= to)
        return STATUS_OK;
    if (numbers_grow(&cell->slot_of, cell->objects_max, (uint32_t)to, LAB_ABSENT(LAB_MISS_COMPULSORY)) != STATUS_OK ||
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
    if (admit_begin(cell, setup) != STATUS_OK || lab_cell_objects_grow(cell, 0) != STATUS_OK) {
        lab_cell_free(cell);
        return STATUS_FULL;
    }
    cell->full = cell->in_flight > 0 || cell->admit != NULL;
    cell->loop = lab_loop_of(begin.policy);
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

/* --- what came of it --- */

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

        if (slot >= LAB_ABSENT_MIN)
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
