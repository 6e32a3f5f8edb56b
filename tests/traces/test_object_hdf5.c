/* berth-hdf5 as others may write it: columns that are there or not, texts of ids, and what no trace can have. */
#include <stdio.h>
#include <unistd.h>

#include <hdf5.h>

#include "object_hdf5.h"
#include "objects.h"
#include "support.h"

#define NAME(n) (OBJECT_NAMES_BEGIN + (n))

enum { ROWS = 3 };
static char path[64];

static void put(hid_t file, const char *name, hid_t type, const void *values, hsize_t count)
{
    hid_t space = H5Screate_simple(1, &count, NULL);
    hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(dataset);
    H5Sclose(space);
}

static void put_words(hid_t file, const char *name, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t words[ROWS] = {a, b, c};

    put(file, name, strcmp(name, "id") == 0 || strcmp(name, "size_bytes") == 0 ? H5T_NATIVE_UINT64 : H5T_NATIVE_INT64, words, ROWS);
}

static hid_t make(const char *format)
{
    hid_t file;
    hid_t type = H5Tcopy(H5T_C_S1);
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute;

    snprintf(path, sizeof(path), "/tmp/objects-%ld.h5", (long)getpid());
    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    attribute = H5Acreate2(file, "format", type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, &format);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
    return file;
}

static struct objects finish(hid_t file)
{
    struct objects objects;

    H5Fclose(file);
    objects = objects_of_file(path, NULL, NULL);
    unlink(path);
    return objects;
}

/* All good but `name`, which has these values. */
static struct objects with(const char *name, uint64_t a, uint64_t b, uint64_t c)
{
    static const struct {
        const char *name;
        uint64_t values[ROWS];
    } good[] = {{"id", {7, 8, 7}}, {"size_bytes", {1, OBJECT_SIZE_MAX, 0}}, {"at_ns", {5, 4, 6}}, {"next", {2, INT64_MAX, INT64_MAX}}};
    hid_t file = make(OBJECT_HDF5_FORMAT);

    for (size_t i = 0; i < ARRAY_COUNT(good); i++)
        if (strcmp(good[i].name, name) == 0)
            put_words(file, name, a, b, c);
        else
            put_words(file, good[i].name, good[i].values[0], good[i].values[1], good[i].values[2]);
    return finish(file);
}

static void every_column_is_read(void **state)
{
    (void)state;
    struct objects objects = with("", 0, 0, 0);

    assert_objects_good(&objects, 3);
    assert_string_equal(objects.info.format, "berth-hdf5");
    assert_request(&objects.rows[0], 7, 1, 5, 2);
    assert_request(&objects.rows[1], 8, OBJECT_SIZE_MAX, 4, OBJECT_NEXT_NEVER);
    assert_request(&objects.rows[2], 7, 0, 6, OBJECT_NEXT_NEVER);
    assert_int_equal(objects.info.backward, 1);
}

static void ids_are_enough(void **state)
{
    (void)state;
    hid_t file = make(OBJECT_HDF5_FORMAT);
    struct objects objects;

    put_words(file, "id", UINT64_MAX, 8, 7);
    objects = finish(file);
    assert_objects_good(&objects, 3);
    assert_request(&objects.rows[0], UINT64_MAX, 1, 0, OBJECT_NEXT_UNKNOWN);
    assert_false(objects.info.has_size || objects.info.has_time || objects.info.has_next);
}

static void names_are_those_of_the_ids(void **state)
{
    (void)state;
    static const char good[] = "alpha\nb c\n";
    static const char *const bad[] = {"alpha\nb c", "alpha\n\n", "alpha\nalpha\n", "7\nb\n", "alpha\n"};
    hid_t file = make(OBJECT_HDF5_FORMAT);
    struct objects objects;

    put_words(file, "id", NAME(1), 8, NAME(0));
    put(file, "names", H5T_NATIVE_UCHAR, good, sizeof(good) - 1);
    objects = finish(file);
    assert_objects_good(&objects, 3);
    assert_int_equal(objects.rows[0].id, NAME(1));
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        file = make(OBJECT_HDF5_FORMAT);
        put_words(file, "id", NAME(0), 8, NAME(1));
        put(file, "names", H5T_NATIVE_UCHAR, bad[i], strlen(bad[i]));
        objects = finish(file);
        assert_int_equal(objects.status, STATUS_CORRUPT);
        assert_non_null(strstr(objects.message, i < 4 ? "its names cannot be read;" : "row 2: its id is none that a trace can have;"));
    }
}

static void values_that_no_trace_has_are_refused(void **state)
{
    (void)state;
    struct objects objects = with("size_bytes", 1, UINT64_C(1) << 63, 1);

    assert_int_equal(objects.count, 1);
    assert_non_null(strstr(objects.message, "row 1: its size_bytes is none that a trace can have; make the file again"));
    objects = with("at_ns", (uint64_t)-1, 0, 0);
    assert_int_equal(objects.count, 0);
    assert_non_null(strstr(objects.message, "row 0: its at_ns is none"));
    objects = with("next", 2, 1, INT64_MAX);
    assert_int_equal(objects.count, 1);
    assert_non_null(strstr(objects.message, "row 1: its next is none"));
}

static void files_of_another_kind_are_refused(void **state)
{
    (void)state;
    hid_t file = make("berth-results-1");
    struct objects objects;
    const float floats[ROWS] = {1, 2, 3};
    const uint64_t words[ROWS + 1] = {1, 2, 3, 4};

    objects = finish(file);
    assert_non_null(strstr(objects.message, "its attribute format is not berth-objects-1;"));
    objects = finish(make(OBJECT_HDF5_FORMAT));
    assert_non_null(strstr(objects.message, "its dataset id is not a column of unsigned integers of 64 bits"));
    file = make(OBJECT_HDF5_FORMAT);
    put(file, "id", H5T_NATIVE_FLOAT, floats, ROWS);
    objects = finish(file);
    assert_non_null(strstr(objects.message, "its dataset id is not a column of unsigned integers of 64 bits"));
    file = make(OBJECT_HDF5_FORMAT);
    put(file, "id", H5T_NATIVE_INT64, words, ROWS);
    objects = finish(file);
    assert_non_null(strstr(objects.message, "its dataset id is not a column of unsigned integers of 64 bits"));
    file = make(OBJECT_HDF5_FORMAT);
    put_words(file, "id", 1, 2, 3);
    put(file, "at_ns", H5T_NATIVE_INT64, words, ROWS + 1);
    objects = finish(file);
    assert_non_null(strstr(objects.message, "its dataset at_ns is not a column of signed integers of 64 bits as long as id;"));
    file = make(OBJECT_HDF5_FORMAT);
    put(file, "id", H5T_NATIVE_UINT64, words, 0);
    objects = finish(file);
    assert_int_equal(objects.status, STATUS_CORRUPT);
    assert_non_null(strstr(objects.message, "there is no request in it;"));
    objects = objects_of_bytes("\x89HDF\r\n\x1a\n", 8, NULL, NULL, 1);
    assert_objects_refuse(&objects, STATUS_INVALID, 0, "bytes: HDF5 is read from files only; give one");
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    hid_t file = make(OBJECT_HDF5_FORMAT);
    struct objects objects;

    put_words(file, "id", 1, 2, 3);
    H5Fclose(file);
    assert_int_equal(truncate(path, 600), 0);
    objects = objects_of_file(path, NULL, NULL);
    assert_int_equal(objects.status, STATUS_CORRUPT);
    assert_non_null(strstr(objects.message, "HDF5 cannot open it;"));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_column_is_read),
        cmocka_unit_test(ids_are_enough),
        cmocka_unit_test(names_are_those_of_the_ids),
        cmocka_unit_test(values_that_no_trace_has_are_refused),
        cmocka_unit_test(files_of_another_kind_are_refused),
        cmocka_unit_test(damaged_files_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
