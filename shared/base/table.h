/* Hash table from a 64-bit key to a 32-bit index: open addressing, linear probing, deletion by shifting back,
 * so that lookups never slow down with age. The caller gives the memory; the bound is fixed at creation. */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include "base/base.h"

struct table_cell {
    uint64_t key;
    uint32_t value; /* NONE_INDEX: the cell is empty */
    uint32_t zero;
};

struct table {
    struct table_cell *cells; /* [mask + 1] */
    uint32_t mask;
    uint32_t count;
    uint32_t count_max;
};

/* Bytes that table_init() needs for `count_max` keys (the table is kept at most half full). */
size_t table_bytes(uint32_t count_max);
void table_init(struct table *table, void *memory, uint32_t count_max);

/* NONE_INDEX when the key is absent. */
uint32_t table_find(const struct table *table, uint64_t key);
/* The key must be absent and the table not full: both are checked. `value` != NONE_INDEX. */
void table_insert(struct table *table, uint64_t key, uint32_t value);
/* The key must be present. */
void table_remove(struct table *table, uint64_t key);

#endif
