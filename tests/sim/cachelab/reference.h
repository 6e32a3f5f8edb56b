/* The numbers of the field's reference simulator, row by row: ../shared/reference/cache/libcachesim.csv. */
#ifndef TESTS_CACHELAB_REFERENCE_H
#define TESTS_CACHELAB_REFERENCE_H

#include <stdbool.h>
#include <stdio.h>

#include "sim/cachelab/zipf_trace.h"

struct reference_row {
    char trace[64];
    char mode[64];       /* objcount: every object weighs 1; bytes */
    char policy[64];
    char size[64];       /* 1000, or 8gb, which are 8 GiB */
    char miss_ratio[64]; /* as printed, four decimals */
};

/* The first row that a reference_next() will give; skips the test where the file isn't there. */
FILE *reference_open(void);
bool reference_next(FILE *file, struct reference_row *ret_row);

/* The traces that those numbers are of, as they stand in files whose checksums are told beside them. */
struct zipf_trace reference_a(void); /* a million objects of size 1 */
struct zipf_trace reference_b(void); /* 5,000 adapters */

#endif
