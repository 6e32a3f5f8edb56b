/* What came of a trace in every cell, for whoever prints, stores or draws it. */
#ifndef CACHELAB_OUTCOME_H
#define CACHELAB_OUTCOME_H

#include <stdio.h>

#include "cachelab/crew.h"

/* What a miss costs: fixed + bytes / rate. */
struct lab_load {
    double fixed_s;
    double bytes_per_s;
};

/* Places among the cells of one size, from 1; equal ones share a place. */
struct lab_ranks {
    uint32_t misses;
    uint32_t miss_bytes;
    uint32_t load;
};

struct lab_outcome {
    const char *trace;
    struct object_trace_info info;
    struct lab_load load;
    uint64_t warmup;
    uint64_t interval;
    uint64_t seed;
    uint32_t in_flight;
    bool times;                    /* otherwise what no other run would give again is left out */
    const struct lab_cell_setup *setups;
    const struct lab_result *results;
    const struct lab_series *series;
    struct lab_ranks *ranks;
    uint32_t cells_count;
};

void lab_rank(struct lab_outcome *outcome);

/* NaN where nothing was asked for. */
double lab_miss_ratio(const struct lab_counts *counts);
double lab_byte_miss_ratio(const struct lab_counts *counts);
double lab_load_s(const struct lab_outcome *outcome, const struct lab_counts *counts);
double lab_avoided_s(const struct lab_outcome *outcome, const struct lab_counts *counts);
/* As if the cell had run alone. */
double lab_requests_per_s(const struct lab_result *result);
double lab_requests_per_cpu_s(const struct lab_result *result);

/* One object a line, in the order of the cells. */
void lab_print_json(FILE *out, const struct lab_outcome *outcome);
void lab_print_table(FILE *out, const struct lab_outcome *outcome);

/* store.c: an HDF5 file, a group a trace, in it a group a cell with its numbers as attributes and its series as datasets.
 * `command` is kept as what made it. What goes wrong is said on `errors`. */
struct results_file;
enum status lab_store_open(const char *path, const char *command, uint64_t seed, FILE *errors, struct results_file **ret_file);
enum status lab_store_add(struct results_file *file, const struct lab_outcome *outcome, FILE *errors);

/* figures.c: figures and a page in `directory`, as report/gallery.h makes them. */
enum status lab_report(const char *directory, const struct lab_outcome *outcome, FILE *errors);

#endif
