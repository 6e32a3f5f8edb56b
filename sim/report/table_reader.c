#include "report/table_reader.h"

#include <math.h>

void reader_text(hid_t object, const char *name, char *ret_text, size_t bytes)
{
    hid_t attribute = H5Aexists(object, name) > 0 ? H5Aopen(object, name, H5P_DEFAULT) : -1;
    hid_t type = attribute >= 0 ? H5Aget_type(attribute) : -1;
    hid_t memory_type = H5Tcopy(H5T_C_S1);
    char *text = NULL;

    if (type >= 0 && H5Tis_variable_str(type) > 0) {
        H5Tset_size(memory_type, H5T_VARIABLE);
        H5Tset_cset(memory_type, H5Tget_cset(type));
        if (H5Aread(attribute, memory_type, &text) >= 0 && text != NULL) {
            snprintf(ret_text, bytes, "%s", text);
            H5free_memory(text);
        }
    }
    H5Tclose(memory_type);
    if (type >= 0)
        H5Tclose(type);
    if (attribute >= 0)
        H5Aclose(attribute);
}

double reader_attribute(hid_t object, const char *name)
{
    double value = 0;

    if (H5Aexists(object, name) > 0) {
        hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);

        if (attribute >= 0) {
            if (H5Aread(attribute, H5T_NATIVE_DOUBLE, &value) < 0 || !isfinite(value))
                value = 0;
            H5Aclose(attribute);
        }
    }
    return value;
}

void reader_close(struct table_reader *table)
{
    for (uint32_t i = 0; i < table->columns_count; i++)
        H5Dclose(table->columns[i]);
    table->columns_count = 0;
}

/* Columns of a file cut short may differ in length: rows that are whole in all of them count. */
static bool column_open(struct table_reader *table, hid_t group, const char *name)
{
    hid_t column = H5Lexists(group, name, H5P_DEFAULT) > 0 ? H5Dopen2(group, name, H5P_DEFAULT) : -1;
    hid_t space = column >= 0 ? H5Dget_space(column) : -1;
    hid_t type = column >= 0 ? H5Dget_type(column) : -1;
    H5T_class_t class = type >= 0 ? H5Tget_class(type) : H5T_NO_CLASS;
    hssize_t rows = space >= 0 && H5Sget_simple_extent_ndims(space) == 1 ? H5Sget_simple_extent_npoints(space) : -1;
    bool fine = rows >= 0 && (class == H5T_INTEGER || class == H5T_FLOAT);

    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    if (!fine) {
        if (column >= 0)
            H5Dclose(column);
        return false;
    }
    table->rows = table->columns_count == 0 ? (uint64_t)rows : min_u64(table->rows, (uint64_t)rows);
    table->columns[table->columns_count] = column;
    table->real[table->columns_count++] = class == H5T_FLOAT;
    return true;
}

bool reader_open(struct extract *extract, hid_t variant, const char *name, const char *const *columns,
                       uint32_t columns_count, FILE *errors, struct table_reader *ret_table)
{
    hid_t group = H5Lexists(variant, name, H5P_DEFAULT) > 0 ? H5Gopen2(variant, name, H5P_DEFAULT) : -1;
    bool fine = group >= 0;

    check(columns_count <= COLUMNS_MAX);
    *ret_table = (struct table_reader){.extract = extract};
    if (!fine)
        fprintf(errors, "the results file has no table %s; its figures are left out\n", name);
    for (uint32_t i = 0; fine && i < columns_count; i++) {
        fine = column_open(ret_table, group, columns[i]);
        if (!fine)
            fprintf(errors, "the results file has no numbers in %s/%s; its figures are left out\n", name, columns[i]);
    }
    if (!fine)
        reader_close(ret_table);
    if (group >= 0)
        H5Gclose(group);
    return fine;
}

bool reader_slab(struct table_reader *table, uint64_t first, uint64_t rows)
{
    hsize_t start[1] = {first};
    hsize_t count[1] = {rows};
    hid_t memory = H5Screate_simple(1, count, NULL);
    bool fine = memory >= 0;

    check(rows <= SLAB_ROWS);
    for (uint32_t i = 0; fine && i < table->columns_count; i++) {
        hid_t space = H5Dget_space(table->columns[i]);

        fine = space >= 0 && H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
               H5Dread(table->columns[i], table->real[i] ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64, memory, space,
                       H5P_DEFAULT, &table->extract->slabs[i]) >= 0;
        if (space >= 0)
            H5Sclose(space);
    }
    if (memory >= 0)
        H5Sclose(memory);
    return fine;
}

int64_t reader_integer(const struct table_reader *table, uint32_t column, uint64_t row)
{
    return table->real[column] ? (int64_t)table->extract->slabs[column].reals[row]
                               : table->extract->slabs[column].integers[row];
}

double reader_real(const struct table_reader *table, uint32_t column, uint64_t row)
{
    return table->real[column] ? table->extract->slabs[column].reals[row]
                               : (double)table->extract->slabs[column].integers[row];
}

uint64_t reader_count(const struct table_reader *table, uint32_t column, uint64_t row)
{
    return (uint64_t)max_i64(reader_integer(table, column, row), 0);
}
