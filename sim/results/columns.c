/* The chunk writer behind columns.h. The bytes are those that HDF5's own shuffle and deflate filters would have made;
 * a chunk that deflate cannot shrink is stored as it is, with the filter masked out for that chunk. */
#include "results/columns.h"

#include <stdlib.h>

#include <zlib.h>

#include "results/attributes.h"

#define DEFLATE_LEVEL 1
#define CELL_BYTES_MAX 8
#define CHUNK_BYTES_MAX (COLUMNS_CHUNK * CELL_BYTES_MAX)

struct columns {
    uint32_t count;
    uint32_t fill;         /* rows in the buffers, < COLUMNS_CHUNK between calls */
    uint64_t rows_written;
    size_t *cell_bytes;    /* [count] */
    hid_t *datasets;       /* [count] */
    unsigned char **buffers; /* [count] of COLUMNS_CHUNK cells */
    unsigned char *shuffled; /* [CHUNK_BYTES_MAX] */
    unsigned char *deflated; /* [deflated_bytes] */
    size_t deflated_bytes;
    z_stream stream;
    bool stream_ready;
    /* A deflated chunk of zeros, by the logarithm of its cell's bytes; made when first needed. */
    unsigned char *zeros[4];
    size_t zeros_bytes[4];
};

static size_t type_bytes(enum column_type type)
{
    switch (type) {
#define X(name, c_type, h5_type) case COLUMN_##name: return sizeof(c_type);
        COLUMN_TYPES(X)
#undef X
    }
    check(false && "a column type outside the list");
    return 0;
}

static hid_t type_h5(enum column_type type)
{
    switch (type) {
#define X(name, c_type, h5_type) case COLUMN_##name: return h5_type;
        COLUMN_TYPES(X)
#undef X
    }
    check(false && "a column type outside the list");
    return H5I_INVALID_HID;
}

static hid_t dataset_create(hid_t group, const struct column *column)
{
    const hsize_t none = 0;
    const hsize_t endless = H5S_UNLIMITED;
    const hsize_t chunk = COLUMNS_CHUNK;
    hid_t space = H5Screate_simple(1, &none, &endless);
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    hid_t dataset = H5I_INVALID_HID;

    /* Equal runs write equal bytes, so no dataset may carry the hour it was made. */
    if (H5Pset_obj_track_times(plist, false) >= 0 && H5Pset_chunk(plist, 1, &chunk) >= 0 &&
        H5Pset_shuffle(plist) >= 0 && H5Pset_deflate(plist, DEFLATE_LEVEL) >= 0)
        dataset = H5Dcreate2(group, column->name, type_h5(column->type), space, H5P_DEFAULT, plist, H5P_DEFAULT);
    H5Pclose(plist);
    H5Sclose(space);
    if (dataset >= 0 &&
        (!attribute_text(dataset, "unit", column->unit) || !attribute_text(dataset, "about", column->about))) {
        H5Dclose(dataset);
        dataset = H5I_INVALID_HID;
    }
    return dataset;
}

struct columns *columns_open(hid_t group, const struct column *table, uint32_t count)
{
    struct columns *columns = calloc(1, sizeof(*columns));

    check(columns != NULL);
    columns->cell_bytes = calloc(count, sizeof(*columns->cell_bytes));
    columns->datasets = calloc(count, sizeof(*columns->datasets));
    columns->buffers = calloc(count, sizeof(*columns->buffers));
    columns->shuffled = malloc(CHUNK_BYTES_MAX);
    columns->stream_ready = deflateInit(&columns->stream, DEFLATE_LEVEL) == Z_OK;
    check(columns->stream_ready);
    columns->deflated_bytes = deflateBound(&columns->stream, CHUNK_BYTES_MAX);
    columns->deflated = malloc(columns->deflated_bytes);
    check(columns->cell_bytes != NULL && columns->datasets != NULL && columns->buffers != NULL);
    check(columns->shuffled != NULL && columns->deflated != NULL);
    for (uint32_t i = 0; i < count; i++) {
        hid_t dataset = dataset_create(group, &table[i]);

        if (dataset < 0) {
            columns_close(columns);
            return NULL;
        }
        columns->datasets[i] = dataset;
        columns->cell_bytes[i] = type_bytes(table[i].type);
        columns->buffers[i] = calloc(COLUMNS_CHUNK, columns->cell_bytes[i]);
        columns->count = i + 1;
        check(columns->buffers[i] != NULL);
    }
    return columns;
}

/* All first bytes, then all second bytes ...: what lies close in value lies close in the file. */
static void shuffle(unsigned char *target, const unsigned char *source, size_t cell_bytes)
{
    for (size_t byte = 0; byte < cell_bytes; byte++) {
        unsigned char *plane = target + byte * COLUMNS_CHUNK;

        for (size_t row = 0; row < COLUMNS_CHUNK; row++)
            plane[row] = source[row * cell_bytes + byte];
    }
}

static bool all_zero(const unsigned char *bytes, size_t count)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

/* Returns the bytes in columns->deflated, or 0 when they would not be fewer than `count`. */
static size_t deflate_chunk(struct columns *columns, unsigned char *bytes, size_t count)
{
    z_stream *stream = &columns->stream;

    check(deflateReset(stream) == Z_OK);
    stream->next_in = bytes;
    stream->avail_in = (uInt)count;
    stream->next_out = columns->deflated;
    stream->avail_out = (uInt)columns->deflated_bytes;
    check(deflate(stream, Z_FINISH) == Z_STREAM_END);
    return stream->total_out < count ? (size_t)stream->total_out : 0;
}

static void zeros_make(struct columns *columns, unsigned char *chunk, size_t bytes, uint32_t kind)
{
    columns->zeros_bytes[kind] = deflate_chunk(columns, chunk, bytes);
    check(columns->zeros_bytes[kind] > 0);
    columns->zeros[kind] = malloc(columns->zeros_bytes[kind]);
    check(columns->zeros[kind] != NULL);
    memcpy(columns->zeros[kind], columns->deflated, columns->zeros_bytes[kind]);
}

static bool chunk_write(struct columns *columns, uint32_t column)
{
    enum { DEFLATE_MASKED = 1 << 1 }; /* the second filter of the pipeline */
    const hsize_t offset = columns->rows_written;
    const size_t cell_bytes = columns->cell_bytes[column];
    const size_t bytes = COLUMNS_CHUNK * cell_bytes;
    const uint32_t kind = (uint32_t)__builtin_ctzll(cell_bytes);
    unsigned char *chunk = columns->buffers[column];
    size_t deflated;

    if (all_zero(chunk, bytes)) {
        if (columns->zeros[kind] == NULL)
            zeros_make(columns, chunk, bytes, kind);
        return H5Dwrite_chunk(columns->datasets[column], H5P_DEFAULT, 0, &offset, columns->zeros_bytes[kind],
                              columns->zeros[kind]) >= 0;
    }
    if (cell_bytes > 1) {
        shuffle(columns->shuffled, chunk, cell_bytes);
        chunk = columns->shuffled;
    }
    deflated = deflate_chunk(columns, chunk, bytes);
    if (deflated == 0)
        return H5Dwrite_chunk(columns->datasets[column], H5P_DEFAULT, DEFLATE_MASKED, &offset, bytes, chunk) >= 0;
    return H5Dwrite_chunk(columns->datasets[column], H5P_DEFAULT, 0, &offset, deflated, columns->deflated) >= 0;
}

/* Appends the buffered rows; the tail of a chunk that is not full is zeros, beyond the dataset's extent. */
bool columns_flush(struct columns *columns)
{
    const hsize_t rows = columns->rows_written + columns->fill;

    check(columns->rows_written % COLUMNS_CHUNK == 0);
    if (columns->fill == 0)
        return true;
    for (uint32_t i = 0; i < columns->count; i++) {
        const size_t used = columns->fill * columns->cell_bytes[i];

        memset(columns->buffers[i] + used, 0, COLUMNS_CHUNK * columns->cell_bytes[i] - used);
        if (H5Dset_extent(columns->datasets[i], &rows) < 0 || !chunk_write(columns, i))
            return false;
    }
    columns->rows_written = rows;
    columns->fill = 0;
    return true;
}

void *columns_cell(struct columns *columns, uint32_t column)
{
    return columns->buffers[column] + columns->fill * columns->cell_bytes[column];
}

bool columns_row_end(struct columns *columns)
{
    columns->fill++;
    return columns->fill < COLUMNS_CHUNK || columns_flush(columns);
}

void columns_close(struct columns *columns)
{
    if (columns == NULL)
        return;
    for (uint32_t i = 0; i < columns->count; i++) {
        H5Dclose(columns->datasets[i]);
        free(columns->buffers[i]);
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(columns->zeros); i++)
        free(columns->zeros[i]);
    if (columns->stream_ready)
        deflateEnd(&columns->stream);
    free(columns->cell_bytes);
    free(columns->datasets);
    free(columns->buffers);
    free(columns->shuffled);
    free(columns->deflated);
    free(columns);
}
