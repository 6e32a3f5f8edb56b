/* Tables of the results file, read by hyperslabs of 65,536 rows: what is in memory does not grow with the file. Private to
 * the extraction. */
#ifndef REPORT_TABLE_READER_H
#define REPORT_TABLE_READER_H

#include <hdf5.h>
#include <stdio.h>

#include "base/base.h"

#define SLAB_ROWS 65536
#define COLUMNS_MAX 12
#define REPLICAS_MAX 65536

struct extract {
    hid_t file;
    H5E_auto2_t error_printer; /* HDF5 prints its own stack otherwise; ours are one line each */
    void *error_printer_data;
    char version[64];
    /* One slab of each column; what is in it is the column's type: int64_t or double. */
    union {
        int64_t integers[SLAB_ROWS];
        double reals[SLAB_ROWS];
    } slabs[COLUMNS_MAX];
    bool replica_seen[REPLICAS_MAX];
};

/* A table is a group of equally long columns, opened together. */
struct table_reader {
    struct extract *extract;
    hid_t columns[COLUMNS_MAX];
    bool real[COLUMNS_MAX];
    uint32_t columns_count;
    uint64_t rows;
};

/* What is missing is said on `errors`, and nothing is open then. */
bool reader_open(struct extract *extract, hid_t variant, const char *name, const char *const *columns,
                 uint32_t columns_count, FILE *errors, struct table_reader *ret_table);
void reader_close(struct table_reader *table);
/* Rows first .. first + rows - 1 of every column into the slabs. */
bool reader_slab(struct table_reader *table, uint64_t first, uint64_t rows);

/* Of a row of the slab. */
int64_t reader_integer(const struct table_reader *table, uint32_t column, uint64_t row);
double reader_real(const struct table_reader *table, uint32_t column, uint64_t row);
/* Counts are never negative; a damaged file must not make them so. */
uint64_t reader_count(const struct table_reader *table, uint32_t column, uint64_t row);

/* Attributes. Text is left as it is, and a number 0, where there is none. */
void reader_text(hid_t object, const char *name, char *ret_text, size_t bytes);
double reader_attribute(hid_t object, const char *name);

#endif
