/* A directory of its own for the files of a test program, and a run whose every row can be made again from its number. */
#ifndef TESTS_SIM_RESULTS_RIG_H
#define TESTS_SIM_RESULTS_RIG_H

#include "results/results.h"
#include "support.h"

/* Rows of a usual run: two whole chunks and a part of a third. */
#define ROWS 20000

extern char results_directory[64]; /* build/..., made by results_directory_make */
extern char results_path[128];     /* of the results file in it */
extern const struct run_facts results_facts;

int results_directory_make(void **state);
int results_directory_empty(void **state); /* a teardown of each test */
int results_directory_remove(void **state);
uint32_t results_files_count(void);
uint64_t results_file_digest(const char *at, long *ret_bytes);

/* The row with an ordinal, the same whoever asks: statuses, missing instants and blame of every kind. */
struct request_row results_row(uint64_t ordinal);
struct replica_sample results_sample_make(uint32_t index);
/* A variant of 4 replicas and 7 tenants; file NULL: summary only. */
struct results *results_variant_open(struct results_file *file, const char *name);
/* Rows 1, 0, 3, 2 ..., and a hundred samples. */
void results_rows_write(struct results *results, uint64_t count);
/* A whole file of one variant, "sticky". */
void results_run_write(const char *at, uint64_t rows, bool partial);

#endif
