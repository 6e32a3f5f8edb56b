/* berth-hdf5, as traces/object_hdf5.h lays it out: the columns that mean something, and the texts of the ids. A file that could
 * not be written stays open without a name, since HDF5 1.10 frees half of it when it is closed. */
#include <stdlib.h>

#include <hdf5.h>

#include "convert/writer.h"
#include "object_hdf5.h"
#include "results/attributes.h"
#include "results/columns.h"

struct hdf5_state {
    hid_t file;
    struct columns *columns;
    struct column table[OBJECT_HDF5_COLUMN_COUNT];
    uint32_t at[OBJECT_HDF5_COLUMN_COUNT]; /* column in the table; NONE_INDEX: not written */
};

static const struct column all[OBJECT_HDF5_COLUMN_COUNT] = {
    [OBJECT_HDF5_ID] = {COLUMN_U64, "id", "", "a number, or 2^63 and the place of a text in names"},
    [OBJECT_HDF5_SIZE] = {COLUMN_U64, "size_bytes", "B", "size of the object"},
    [OBJECT_HDF5_TIME] = {COLUMN_I64, "at_ns", "ns", "time of the request"},
    [OBJECT_HDF5_NEXT] = {COLUMN_I64, "next", "", "number of the next request of this id, from 0; 2^63-1: never"},
};
static const struct column names_table[] = {{COLUMN_U8, OBJECT_HDF5_NAMES, "", "texts of ids, each closed by a newline"}};

static bool hdf5_fail(struct writer *writer, const char *what)
{
    char reason[256];

    attribute_error_text(reason, sizeof(reason));
    sink_fail(&writer->sink, what, reason);
    return writer_sink_good(writer);
}

static hid_t create_file(const char *temporary_path)
{
    hid_t creation = H5Pcreate(H5P_FILE_CREATE);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    hid_t file = H5I_INVALID_HID;

    (void)H5dont_atexit(); /* refused, harmlessly, the second time */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (H5Pset_obj_track_times(creation, false) >= 0 && H5Pset_file_locking(access, false, true) >= 0 &&
        H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) >= 0)
        file = H5Fcreate(temporary_path, H5F_ACC_TRUNC, creation, access);
    H5Pclose(access);
    H5Pclose(creation);
    return file;
}

static bool hdf5_begin(struct writer *writer)
{
    const bool wanted[OBJECT_HDF5_COLUMN_COUNT] = {[OBJECT_HDF5_ID] = true, [OBJECT_HDF5_SIZE] = writer->has_size,
                                                   [OBJECT_HDF5_TIME] = writer->has_time, [OBJECT_HDF5_NEXT] = true};
    struct hdf5_state *state = calloc(1, sizeof(*state));
    uint32_t count = 0;

    if (state == NULL)
        return writer_fail(writer, "no memory for the columns; free some");
    writer->state = state;
    for (uint32_t i = 0; i < OBJECT_HDF5_COLUMN_COUNT; i++) {
        state->at[i] = wanted[i] ? count : NONE_INDEX;
        if (wanted[i])
            state->table[count++] = all[i];
    }
    state->file = create_file(writer->sink.temporary_path);
    if (state->file < 0)
        return hdf5_fail(writer, "cannot create it");
    if (!attribute_text(state->file, "format", OBJECT_HDF5_FORMAT))
        return hdf5_fail(writer, "cannot write it");
    state->columns = columns_open(state->file, state->table, count);
    return state->columns != NULL || hdf5_fail(writer, "cannot write it");
}

static bool hdf5_write(struct writer *writer, const struct object_request *rows, uint32_t count)
{
    struct hdf5_state *state = writer->state;

    for (uint32_t i = 0; i < count; i++) {
        *(uint64_t *)columns_cell(state->columns, state->at[OBJECT_HDF5_ID]) = rows[i].id;
        if (writer->has_size)
            *(uint64_t *)columns_cell(state->columns, state->at[OBJECT_HDF5_SIZE]) = rows[i].size_bytes;
        if (writer->has_time)
            *(int64_t *)columns_cell(state->columns, state->at[OBJECT_HDF5_TIME]) = rows[i].at_ns;
        *(int64_t *)columns_cell(state->columns, state->at[OBJECT_HDF5_NEXT]) = rows[i].next;
        if (!columns_row_end(state->columns))
            return hdf5_fail(writer, "cannot write it");
    }
    return true;
}

static bool put_bytes(struct columns *columns, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *(uint8_t *)columns_cell(columns, 0) = (uint8_t)bytes[i];
        if (!columns_row_end(columns))
            return false;
    }
    return true;
}

static bool write_names(struct writer *writer, struct hdf5_state *state)
{
    struct columns *columns;
    const char *name;
    size_t length;
    bool good = true;

    if (object_trace_name(writer->trace, OBJECT_NAMES_BEGIN, &length) == NULL)
        return true;
    columns = columns_open(state->file, names_table, 1);
    if (columns == NULL)
        return false;
    for (uint64_t id = OBJECT_NAMES_BEGIN; good && (name = object_trace_name(writer->trace, id, &length)) != NULL; id++)
        good = put_bytes(columns, name, length) && put_bytes(columns, "\n", 1);
    good = good && columns_flush(columns);
    columns_close(columns);
    return good;
}

static bool hdf5_end(struct writer *writer)
{
    struct hdf5_state *state = writer->state;
    bool good = writer->problem[0] == 0;

    if (state == NULL)
        return false;
    /* A trace that broke off is closed, and goes. */
    if (good && (!columns_flush(state->columns) || !write_names(writer, state)))
        good = hdf5_fail(writer, "cannot write it");
    columns_close(state->columns);
    if (!writer->sink.failed && state->file >= 0 && H5Fclose(state->file) < 0)
        good = hdf5_fail(writer, "cannot write it");
    free(state);
    writer->state = NULL;
    return good;
}

const struct writer_format writer_format_hdf5 = {
    .name = "berth-hdf5",
    .suffix = ".h5",
    .wants_next = true,
    .keeps_names = true,
    .begin = hdf5_begin,
    .write = hdf5_write,
    .end = hdf5_end,
};
