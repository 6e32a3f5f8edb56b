/* A table in HDF5 that grows without end and costs a fixed amount of memory: one dataset a column, COLUMNS_CHUNK rows
 * buffered of each. A full buffer is shuffled and deflated here and handed over as one finished chunk
 * (H5Dwrite_chunk): one deflate state for all columns, no chunk cache, and a column of zeros costs a comparison. Readers
 * see ordinary shuffle + gzip datasets. */
#ifndef RESULTS_COLUMNS_H
#define RESULTS_COLUMNS_H

#include <hdf5.h>

#include "base/base.h"

#define COLUMNS_CHUNK 8192

#define COLUMN_TYPES(X)              \
    X(U8, uint8_t, H5T_NATIVE_UINT8)    \
    X(U16, uint16_t, H5T_NATIVE_UINT16) \
    X(I16, int16_t, H5T_NATIVE_INT16)   \
    X(U32, uint32_t, H5T_NATIVE_UINT32) \
    X(U64, uint64_t, H5T_NATIVE_UINT64) \
    X(I64, int64_t, H5T_NATIVE_INT64)   \
    X(F32, float, H5T_NATIVE_FLOAT)
enum column_type {
#define X(name, c_type, h5_type) COLUMN_##name,
    COLUMN_TYPES(X)
#undef X
};
#define X(name, c_type, h5_type) typedef c_type column_##name;
COLUMN_TYPES(X)
#undef X

struct column {
    enum column_type type;
    const char *name;
    const char *unit;  /* kept as attributes of the dataset */
    const char *about;
};

struct columns;

/* Creates the datasets in `group`. NULL when HDF5 refuses (its error stack says why). `table` must outlive the result. */
struct columns *columns_open(hid_t group, const struct column *table, uint32_t count);
/* Where the next row's value of a column goes; every column must be set before columns_row_end(). */
void *columns_cell(struct columns *columns, uint32_t column);
/* False: a chunk could not be written; the caller stops writing. */
bool columns_row_end(struct columns *columns);
/* Writes what is buffered; once, before the close: the last chunk may be short, and none can follow it. */
bool columns_flush(struct columns *columns);
/* Frees, and writes nothing. Accepts NULL. */
void columns_close(struct columns *columns);

#endif
