/* One cell: a policy's view without a name table, since objects are small numbers (intern.h) and where each lies is an array. */
#ifndef CACHELAB_CELL_H
#define CACHELAB_CELL_H

#include "cachelab/lab.h"

#define LAB_BLOCK_MAX 2048

/* Requests in their order, with everything that cells share about them. */
struct lab_block {
    uint64_t first;                  /* number of its first request in the trace */
    uint32_t count;
    uint32_t objects_count;          /* numbers met so far, these included */
    uint128 bytes;                   /* of all of them */
    uint32_t objects[LAB_BLOCK_MAX];
    uint64_t sizes_bytes[LAB_BLOCK_MAX];
    uint64_t next[LAB_BLOCK_MAX];    /* number of the object's next request, NONE_USE; only where a cell is offline */
};

struct lab_cell;

/* FULL: no memory. */
enum status lab_cell_create(const struct lab_cell_setup *setup, struct lab_cell **ret_cell);
void lab_cell_free(struct lab_cell *cell); /* accepts NULL */
/* FULL: no memory. */
enum status lab_cell_requests(struct lab_cell *cell, const struct lab_block *block);
struct lab_counts lab_cell_counts(const struct lab_cell *cell);
/* All but counts, times and the process's memory. */
void lab_cell_describe(const struct lab_cell *cell, struct lab_result *ret_result);
/* Every invariant, O(objects). */
void lab_cell_check(const struct lab_cell *cell);

#endif
