/* berth-hdf5, our own: a dataset a column, chunked and packed, and the texts of the ids. Read a block of rows at a time. */
#include "object_hdf5.h"

#include <stdlib.h>

#include <hdf5.h>

#include "object_text.h"

enum { BLOCK_ROWS = 8192 };

static const char *const column_names[OBJECT_HDF5_COLUMN_COUNT] = {
#define X(name, dataset) dataset,
    OBJECT_HDF5_COLUMNS(X)
#undef X
};

struct hdf5_columns {
    hid_t file;
    hid_t datasets[OBJECT_HDF5_COLUMN_COUNT]; /* negative: absent */
    uint64_t rows;
    uint32_t at;    /* block[at, count) is not given yet */
    uint32_t count;
    uint64_t block[OBJECT_HDF5_COLUMN_COUNT][BLOCK_ROWS];
};

static hid_t column_type(unsigned column)
{
    return column == OBJECT_HDF5_ID || column == OBJECT_HDF5_SIZE ? H5T_NATIVE_UINT64 : H5T_NATIVE_INT64;
}

static void hdf5_stop(struct object_trace *trace)
{
    struct hdf5_columns *columns = trace->hdf5;

    if (columns == NULL)
        return;
    for (unsigned i = 0; i < OBJECT_HDF5_COLUMN_COUNT; i++)
        if (columns->datasets[i] >= 0)
            H5Dclose(columns->datasets[i]);
    if (columns->file >= 0)
        H5Fclose(columns->file);
    free(columns);
    trace->hdf5 = NULL;
}

static bool has_format(hid_t file)
{
    char *text = NULL;
    hid_t type = H5Tcopy(H5T_C_S1);
    hid_t attribute = H5Aexists(file, "format") > 0 ? H5Aopen(file, "format", H5P_DEFAULT) : H5I_INVALID_HID;
    bool good = attribute >= 0 && H5Tset_size(type, H5T_VARIABLE) >= 0 && H5Tset_cset(type, H5T_CSET_UTF8) >= 0 &&
                H5Aread(attribute, type, &text) >= 0 && text != NULL && strcmp(text, OBJECT_HDF5_FORMAT) == 0;

    if (text != NULL)
        H5free_memory(text);
    if (attribute >= 0)
        H5Aclose(attribute);
    H5Tclose(type);
    return good;
}

/* One dimension of integers of the wanted type's size and sign, since HDF5 would bend others to fit; negative: not there or not so. */
static hid_t open_column(hid_t file, const char *name, hid_t wanted, uint64_t *ret_rows)
{
    hid_t dataset = H5Lexists(file, name, H5P_DEFAULT) > 0 ? H5Dopen2(file, name, H5P_DEFAULT) : H5I_INVALID_HID;
    hid_t space = dataset >= 0 ? H5Dget_space(dataset) : H5I_INVALID_HID;
    hid_t type = dataset >= 0 ? H5Dget_type(dataset) : H5I_INVALID_HID;
    hsize_t rows = 0;
    bool good = space >= 0 && type >= 0 && H5Sget_simple_extent_ndims(space) == 1 &&
                H5Sget_simple_extent_dims(space, &rows, NULL) == 1 && H5Tget_class(type) == H5T_INTEGER && H5Tget_size(type) == H5Tget_size(wanted) &&
                H5Tget_sign(type) == H5Tget_sign(wanted);

    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    if (!good && dataset >= 0)
        H5Dclose(dataset);
    *ret_rows = rows;
    return good ? dataset : H5I_INVALID_HID;
}

static bool read_rows(hid_t dataset, hid_t type, uint64_t first, uint64_t count, void *target)
{
    const hsize_t start[1] = {first};
    const hsize_t length[1] = {count};
    hid_t from = H5Dget_space(dataset);
    hid_t to = H5Screate_simple(1, length, NULL);
    bool good = from >= 0 && to >= 0 && H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, length, NULL) >= 0 &&
                H5Dread(dataset, type, to, from, H5P_DEFAULT, target) >= 0;

    if (to >= 0)
        H5Sclose(to);
    if (from >= 0)
        H5Sclose(from);
    return good;
}

/* Each is one id, and equal ones would be one. */
static bool take_names(struct object_trace *trace, const char *text, size_t count)
{
    const char *end = text + count;
    uint32_t expected = 0;

    for (const char *at = text; at < end; expected++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        uint64_t id;

        if (newline == NULL || object_id_of(trace, at, (size_t)(newline - at), &id) != NULL ||
            id != OBJECT_NAMES_BEGIN + expected)
            return false;
        at = newline + 1;
    }
    return true;
}

/* Once: after a rewind they are known. */
static enum status read_names(struct object_trace *trace)
{
    uint64_t count = 0;
    hid_t dataset;
    char *text;
    bool good;

    if (trace->text.names.count > 0 || H5Lexists(trace->hdf5->file, OBJECT_HDF5_NAMES, H5P_DEFAULT) <= 0)
        return STATUS_OK;
    dataset = open_column(trace->hdf5->file, OBJECT_HDF5_NAMES, H5T_NATIVE_UCHAR, &count);
    text = malloc(count + 1);
    good = dataset >= 0 && text != NULL && read_rows(dataset, H5T_NATIVE_UCHAR, 0, count, text) && take_names(trace, text, count);
    free(text);
    if (dataset >= 0)
        H5Dclose(dataset);
    return good ? STATUS_OK : object_say(trace, STATUS_CORRUPT, "its names cannot be read; make the file again");
}

static enum status open_columns(struct object_trace *trace)
{
    struct hdf5_columns *columns = trace->hdf5;

    columns->file = H5Fopen(trace->file, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (columns->file < 0)
        return object_say(trace, STATUS_CORRUPT, "HDF5 cannot open it; unpack it if it is packed, else make the file again");
    if (!has_format(columns->file))
        return object_say(trace, STATUS_CORRUPT, "it is HDF5, but its attribute format is not " OBJECT_HDF5_FORMAT
                          "; give a trace that berth-sim trace convert wrote");
    for (unsigned i = 0; i < OBJECT_HDF5_COLUMN_COUNT; i++) {
        uint64_t rows = 0;

        if (i != OBJECT_HDF5_ID && H5Lexists(columns->file, column_names[i], H5P_DEFAULT) <= 0)
            continue;
        columns->datasets[i] = open_column(columns->file, column_names[i], column_type(i), &rows);
        if (i == OBJECT_HDF5_ID)
            columns->rows = rows;
        if (columns->datasets[i] < 0 || rows != columns->rows)
            return object_say(trace, STATUS_CORRUPT, "its dataset %s is not a column of %s integers of 64 bits as long as id; "
                              "make the file again", column_names[i], H5Tget_sign(column_type(i)) == H5T_SGN_NONE ? "unsigned" : "signed");
    }
    trace->info.has_size = columns->datasets[OBJECT_HDF5_SIZE] >= 0;
    trace->info.has_time = columns->datasets[OBJECT_HDF5_TIME] >= 0;
    trace->info.has_next = columns->datasets[OBJECT_HDF5_NEXT] >= 0 && !trace->options.ignore_next;
    return STATUS_OK;
}

static enum status hdf5_start(struct object_trace *trace)
{
    enum status status;

    hdf5_stop(trace);
    if (trace->file == NULL)
        return object_say(trace, STATUS_INVALID, "HDF5 is read from files only; give one");
    trace->hdf5 = malloc(sizeof(*trace->hdf5));
    if (trace->hdf5 == NULL)
        return object_say(trace, STATUS_IO, "no memory for a block of rows; free some");
    trace->hdf5->file = H5I_INVALID_HID;
    trace->hdf5->at = 0;
    trace->hdf5->count = 0;
    for (unsigned i = 0; i < OBJECT_HDF5_COLUMN_COUNT; i++)
        trace->hdf5->datasets[i] = H5I_INVALID_HID;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* it must not print for itself */
    status = open_columns(trace);
    return status == STATUS_OK ? read_names(trace) : status;
}

static bool read_block(struct object_trace *trace)
{
    struct hdf5_columns *columns = trace->hdf5;
    uint64_t count = min_u64(columns->rows - trace->row, BLOCK_ROWS);

    if (count == 0) {
        trace->end = STATUS_END;
        return false;
    }
    for (unsigned i = 0; i < OBJECT_HDF5_COLUMN_COUNT; i++) {
        if (columns->datasets[i] < 0 ||
            read_rows(columns->datasets[i], column_type(i), trace->row, count, columns->block[i]))
            continue;
        return object_say(trace, STATUS_CORRUPT, "HDF5 cannot read %s from row %llu on; make the file again", column_names[i],
                          (unsigned long long)trace->row) == STATUS_OK;
    }
    columns->at = 0;
    columns->count = (uint32_t)count;
    return true;
}

/* NULL, or the column whose value no trace has. */
static const char *wrong_column(const struct object_trace *trace, const struct object_request *request, uint64_t row)
{
    uint32_t names = trace->text.names.count;

    if (names > 0 && request->id >= OBJECT_NAMES_BEGIN + names)
        return column_names[OBJECT_HDF5_ID];
    if (request->size_bytes > OBJECT_SIZE_MAX)
        return column_names[OBJECT_HDF5_SIZE];
    if (request->at_ns < 0)
        return column_names[OBJECT_HDF5_TIME];
    return trace->info.has_next && request->next <= (int64_t)row ? column_names[OBJECT_HDF5_NEXT] : NULL;
}

static uint32_t hdf5_fill(struct object_trace *trace, struct object_request *rows, uint32_t max)
{
    struct hdf5_columns *columns = trace->hdf5;
    uint32_t count;

    if (columns->at == columns->count && !read_block(trace))
        return 0;
    max = min_u32(max, columns->count - columns->at);
    for (count = 0; count < max; count++) {
        uint32_t at = columns->at + count;
        const char *wrong;

        rows[count].id = columns->block[OBJECT_HDF5_ID][at];
        rows[count].size_bytes = trace->info.has_size ? columns->block[OBJECT_HDF5_SIZE][at] : trace->options.size_bytes;
        rows[count].at_ns = trace->info.has_time ? (int64_t)columns->block[OBJECT_HDF5_TIME][at] : 0;
        rows[count].next = trace->info.has_next ? (int64_t)columns->block[OBJECT_HDF5_NEXT][at] : OBJECT_NEXT_UNKNOWN;
        wrong = wrong_column(trace, &rows[count], trace->row + count);
        if (wrong != NULL) {
            object_say(trace, STATUS_CORRUPT, "row %llu: its %s is none that a trace can have; make the file again",
                       (unsigned long long)trace->row + count, wrong);
            break;
        }
    }
    columns->at += count;
    return count;
}

static bool hdf5_recognise(const struct object_trace *trace)
{
    return object_left(trace) >= 8 && memcmp(trace->chunk + trace->start, "\x89HDF\r\n\x1a\n", 8) == 0;
}

const struct object_format object_format_hdf5 = {
    .name = "berth-hdf5",
    .about = "our own: columns id, size_bytes, at_ns, next, packed, with the ids' texts",
    .recognise = hdf5_recognise,
    .start = hdf5_start,
    .fill = hdf5_fill,
    .stop = hdf5_stop,
};
