/* Open addressing with linear probing, at most half full: what goes on to a second cell is guessed wrong by the machine, and
 * costs more than the look at it. Nothing is ever removed. */
#include "cachelab/intern.h"

#include <stdlib.h>

#include "base/hash.h"
#include "cachelab/pages.h"

#define CELLS_MIN 1024u

struct cell {
    uint64_t id;
    uint32_t number; /* NONE_INDEX: empty */
    uint32_t zero;
};

struct intern {
    struct cell *cells;
    uint64_t mask; /* cells - 1 */
    uint32_t count;
};

static struct cell *cells_create(uint64_t count)
{
    struct cell *cells = count <= SIZE_MAX / sizeof(*cells) ? pages_alloc((size_t)count * sizeof(*cells)) : NULL;

    for (uint64_t i = 0; cells != NULL && i < count; i++)
        cells[i] = (struct cell){.number = NONE_INDEX};
    return cells;
}

enum status intern_create(struct intern **ret_intern)
{
    struct intern *intern = malloc(sizeof(*intern));

    if (intern == NULL)
        return STATUS_FULL;
    *intern = (struct intern){.cells = cells_create(CELLS_MIN), .mask = CELLS_MIN - 1};
    if (intern->cells == NULL) {
        free(intern);
        return STATUS_FULL;
    }
    *ret_intern = intern;
    return STATUS_OK;
}

void intern_free(struct intern *intern)
{
    if (intern != NULL)
        free(intern->cells);
    free(intern);
}

/* The cell of the id, or the empty one where it would go. */
static struct cell *seek(const struct intern *intern, uint64_t home, uint64_t id)
{
    uint64_t i = home;

    while (intern->cells[i].number != NONE_INDEX && intern->cells[i].id != id)
        i = (i + 1) & intern->mask;
    return &intern->cells[i];
}

static enum status grow(struct intern *intern)
{
    struct intern larger = {.mask = intern->mask * 2 + 1, .count = intern->count};

    larger.cells = cells_create(larger.mask + 1);
    if (larger.cells == NULL)
        return STATUS_FULL;
    for (uint64_t i = 0; i <= intern->mask; i++)
        if (intern->cells[i].number != NONE_INDEX)
            *seek(&larger, hash_mix(intern->cells[i].id) & larger.mask, intern->cells[i].id) = intern->cells[i];
    free(intern->cells);
    *intern = larger;
    return STATUS_OK;
}

enum status intern_ids(struct intern *intern, const uint64_t *ids, uint32_t count, uint32_t *ret_numbers)
{
    uint64_t homes[INTERN_BATCH_MAX];

    check(count <= INTERN_BATCH_MAX);
    if (intern->count > INTERN_MAX - count)
        return STATUS_FULL;
    while ((uint64_t)(intern->count + count) * 2 > intern->mask + 1)
        if (grow(intern) != STATUS_OK)
            return STATUS_FULL;
    for (uint32_t i = 0; i < count; i++) {
        homes[i] = hash_mix(ids[i]) & intern->mask;
        __builtin_prefetch(&intern->cells[homes[i]], 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct cell *cell = seek(intern, homes[i], ids[i]);

        if (cell->number == NONE_INDEX)
            *cell = (struct cell){.id = ids[i], .number = intern->count++};
        ret_numbers[i] = cell->number;
    }
    return STATUS_OK;
}

uint32_t intern_count(const struct intern *intern)
{
    return intern->count;
}

uint64_t intern_bytes(const struct intern *intern)
{
    return sizeof(*intern) + (intern->mask + 1) * sizeof(struct cell);
}
