/* Ids that are small numbers, as most traces that were made or converted have them, index a table. For all others it's open addressing with
 * linear probing, at most half full: what goes on to a second cell is guessed wrong by the machine, and costs more than the look at
 * it. When the latter fills up, the table may become larger first and take from it what it can. Nothing is ever removed. */
#include "cachelab/intern.h"

#include <stdlib.h>

#include "base/hash.h"
#include "cachelab/pages.h"

#define CELLS_MIN 1024u
#define TABLE_MIN 4096u
#define TABLE_IDS_IN 8u /* one in so many of a larger table must be met already */
#define NEAR_IDS (UINT64_C(1) << 16) /* of a table that is in the second cache anyway */

struct cell {
    uint64_t id;
    uint32_t number; /* NONE_INDEX: empty */
    uint32_t zero;
};

struct intern {
    uint32_t *table;      /* [table_max] number of each id below it, NONE_INDEX: not met */
    uint64_t table_max;   /* a power of 2 */
    struct cell *cells;
    uint64_t mask;        /* cells - 1 */
    uint32_t cells_count; /* of ids */
    uint32_t count;
};

static uint32_t *table_create(uint64_t max)
{
    uint32_t *table = max <= SIZE_MAX / sizeof(*table) ? pages_alloc((size_t)max * sizeof(*table)) : NULL;

    for (uint64_t i = 0; table != NULL && i < max; i++)
        table[i] = NONE_INDEX;
    return table;
}

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
    *intern = (struct intern){
        .table = table_create(TABLE_MIN), .table_max = TABLE_MIN, .cells = cells_create(CELLS_MIN), .mask = CELLS_MIN - 1};
    if (intern->table == NULL || intern->cells == NULL) {
        intern_free(intern);
        return STATUS_FULL;
    }
    *ret_intern = intern;
    return STATUS_OK;
}

void intern_free(struct intern *intern)
{
    if (intern != NULL) {
        free(intern->table);
        free(intern->cells);
    }
    free(intern);
}

/* The cell of the id, or the empty one where it would go. */
static struct cell *seek(struct cell *cells, uint64_t mask, uint64_t home, uint64_t id)
{
    uint64_t i = home;

    while (cells[i].number != NONE_INDEX && cells[i].id != id)
        i = (i + 1) & mask;
    return &cells[i];
}

/* --- growth --- */

static uint32_t cells_below(const struct intern *intern, uint64_t id)
{
    uint32_t below = 0;

    for (uint64_t i = 0; i <= intern->mask; i++)
        below += intern->cells[i].number != NONE_INDEX && intern->cells[i].id < id;
    return below;
}

/* At most four entries an id; as it is, where ids are rare there. */
static uint64_t table_max_for(const struct intern *intern)
{
    uint64_t max = intern->table_max;

    while (max * 2 <= 4 * (uint64_t)intern->count)
        max *= 2;
    if (max > intern->table_max && (intern->count - intern->cells_count + cells_below(intern, max)) * (uint64_t)TABLE_IDS_IN >= max)
        return max;
    return intern->table_max;
}

/* Room for `more` in the cells: a larger table takes ids from them, and what is left has as many cells as it needs. */
static enum status grow(struct intern *intern, uint32_t more)
{
    const uint64_t table_max = table_max_for(intern);
    const uint32_t left = intern->cells_count - (table_max > intern->table_max ? cells_below(intern, table_max) : 0);
    uint32_t *table = table_max > intern->table_max ? table_create(table_max) : intern->table;
    uint64_t mask = CELLS_MIN - 1;
    struct cell *cells;

    while (((uint64_t)left + more) * 2 > mask + 1)
        mask = mask * 2 + 1;
    cells = cells_create(mask + 1);
    if (table == NULL || cells == NULL) {
        if (table != intern->table)
            free(table);
        free(cells);
        return STATUS_FULL;
    }
    if (table != intern->table) {
        memcpy(table, intern->table, (size_t)intern->table_max * sizeof(*table));
        free(intern->table);
    }
    for (uint64_t i = 0; i <= intern->mask; i++) {
        const struct cell *cell = &intern->cells[i];

        if (cell->number == NONE_INDEX)
            continue;
        if (cell->id < table_max)
            table[cell->id] = cell->number;
        else
            *seek(cells, mask, hash_mix(cell->id) & mask, cell->id) = *cell;
    }
    free(intern->cells);
    *intern = (struct intern){table, table_max, cells, mask, left, intern->count};
    return STATUS_OK;
}

/* --- ids --- */

static void ids_of_table(struct intern *intern, const uint64_t *ids, uint32_t count, uint32_t *ret_numbers)
{
    for (uint32_t i = 0; intern->table_max > NEAR_IDS && i < count; i++)
        __builtin_prefetch(&intern->table[ids[i]], 1);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *number = &intern->table[ids[i]];

        if (*number == NONE_INDEX)
            *number = intern->count++;
        ret_numbers[i] = *number;
    }
}

static void ids_of_both(struct intern *intern, const uint64_t *ids, uint32_t count, uint32_t *ret_numbers)
{
    uint64_t homes[INTERN_BATCH_MAX];

    for (uint32_t i = 0; i < count; i++) {
        homes[i] = hash_mix(ids[i]) & intern->mask;
        if (ids[i] < intern->table_max)
            __builtin_prefetch(&intern->table[ids[i]], 1);
        else
            __builtin_prefetch(&intern->cells[homes[i]], 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct cell *cell;

        if (ids[i] < intern->table_max) {
            ids_of_table(intern, &ids[i], 1, &ret_numbers[i]);
            continue;
        }
        cell = seek(intern->cells, intern->mask, homes[i], ids[i]);
        if (cell->number == NONE_INDEX) {
            *cell = (struct cell){.id = ids[i], .number = intern->count++};
            intern->cells_count++;
        }
        ret_numbers[i] = cell->number;
    }
}

enum status intern_ids(struct intern *intern, const uint64_t *ids, uint32_t count, uint32_t *ret_numbers)
{
    uint64_t all = 0;

    check(count <= INTERN_BATCH_MAX);
    if (intern->count > INTERN_MAX - count)
        return STATUS_FULL;
    for (uint32_t i = 0; i < count; i++)
        all |= ids[i];
    if (all < intern->table_max) { /* as each of them is */
        ids_of_table(intern, ids, count, ret_numbers);
        return STATUS_OK;
    }
    if ((uint64_t)(intern->cells_count + count) * 2 > intern->mask + 1 && grow(intern, count) != STATUS_OK)
        return STATUS_FULL;
    ids_of_both(intern, ids, count, ret_numbers);
    return STATUS_OK;
}

uint32_t intern_count(const struct intern *intern)
{
    return intern->count;
}

uint64_t intern_bytes(const struct intern *intern)
{
    return sizeof(*intern) + intern->table_max * sizeof(uint32_t) + (intern->mask + 1) * sizeof(struct cell);
}
