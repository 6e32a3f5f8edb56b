/* What `berth-sim trace stat` found: for people, for programs, as figures. */
#ifndef CACHELAB_STAT_SHOW_H
#define CACHELAB_STAT_SHOW_H

#include <stdio.h>

#include "cachelab/stat_simulate.h"
#include "cachelab/trace_stat.h"

struct stat_about {
    const char *path;
    struct object_trace_info info;
    struct shards_config shards;
    const struct stat_simulation *simulation; /* NULL: none was asked for */
};

void stat_table(FILE *out, const struct stat_about *about, const struct trace_facts *facts);

/* JSON lines, told apart by their key "record": one "trace"; then many each of "popularity", "lru_objects", "lru_bytes", "lru_simulated", "window". */
void stat_json(FILE *out, const struct stat_about *about, const struct trace_facts *facts);

/* Popularity, LRU's curves and the working set as a report (report/gallery.h). */
enum status stat_report(const char *directory, const struct stat_about *about, const struct trace_facts *facts, FILE *errors);

/* Of alpha and of its error: two of the error count. */
int stat_zipf_digits(const struct zipf_fit *fit);
/* Ranks, and sizes of caches, that curves are told at: the next after `size`, all up to 8 and then eight an octave, `whole` at last,
 * and after it 0. The curve by bytes is exact at all of them but `whole`. */
uint64_t stat_size_after(uint64_t size, uint64_t whole);
/* The sizes that a row of the table is about; false: of so few objects the next row's are the same. */
bool stat_share_sizes(const struct trace_facts *facts, uint32_t row, uint64_t *ret_objects, uint64_t *ret_bytes);
/* The least number of bytes from `bytes` on at which the curve by bytes is exact. */
uint64_t stat_exact_bytes(uint128 bytes);
/* The miss ratio of LRU with so many objects or bytes. */
double stat_ratio_objects(const struct trace_facts *facts, uint64_t objects);
double stat_ratio_bytes(const struct trace_facts *facts, uint64_t bytes);

#endif
