#include "base/table.h"

#include "base/hash.h"

static uint32_t cells_for(uint32_t count_max)
{
    uint32_t cells = 4;

    check(count_max < 1u << 30);
    while (cells < 2 * count_max)
        cells *= 2;
    return cells;
}

size_t table_bytes(uint32_t count_max)
{
    return cells_for(count_max) * sizeof(struct table_cell);
}

void table_init(struct table *table, void *memory, uint32_t count_max)
{
    uint32_t cells = cells_for(count_max);

    *table = (struct table){.cells = memory, .mask = cells - 1, .count_max = count_max};
    for (uint32_t i = 0; i < cells; i++)
        table->cells[i] = (struct table_cell){.value = NONE_INDEX};
}

static uint32_t home_of(const struct table *table, uint64_t key)
{
    return (uint32_t)hash_mix(key) & table->mask;
}

/* The cell that holds `key`, or the empty one where it would go. */
static uint32_t seek(const struct table *table, uint64_t key)
{
    uint32_t i = home_of(table, key);

    while (table->cells[i].value != NONE_INDEX && table->cells[i].key != key)
        i = (i + 1) & table->mask;
    return i;
}

uint32_t table_find(const struct table *table, uint64_t key)
{
    return table->cells[seek(table, key)].value;
}

void table_insert(struct table *table, uint64_t key, uint32_t value)
{
    uint32_t i = seek(table, key);

    check(value != NONE_INDEX);
    check(table->count < table->count_max);
    check(table->cells[i].value == NONE_INDEX);
    table->cells[i] = (struct table_cell){.key = key, .value = value};
    table->count++;
}

void table_remove(struct table *table, uint64_t key)
{
    uint32_t hole = seek(table, key);

    check(table->cells[hole].value != NONE_INDEX);
    table->count--;
    /* Shift back every later cell of the run that may stand nearer to its home. */
    for (uint32_t i = (hole + 1) & table->mask; table->cells[i].value != NONE_INDEX; i = (i + 1) & table->mask) {
        uint32_t home = home_of(table, table->cells[i].key);

        if (((i - home) & table->mask) >= ((i - hole) & table->mask)) {
            table->cells[hole] = table->cells[i];
            hole = i;
        }
    }
    table->cells[hole] = (struct table_cell){.value = NONE_INDEX};
}
