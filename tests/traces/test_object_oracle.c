/* oracleGeneral: every field, both words for never, what is cut or impossible, packed files, rewinding. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>

#include <zstd.h>

#include "objects.h"
#include "support.h"

#define NEVER OBJECT_NEXT_NEVER

static const struct oracle_record records[] = {
    {10, 7, 100, 3},
    {11, UINT64_MAX, 0, -1},
    {9, 7, UINT32_MAX, 4}, /* time goes back, and the size changes */
    {UINT32_MAX, 7, 100, INT64_MAX},
};
enum { RECORDS = ARRAY_COUNT(records) };

static void every_field_is_read(void **state)
{
    (void)state;
    char bytes[RECORDS * 24];
    struct objects objects = objects_of_bytes(bytes, oracle_bytes(records, RECORDS, bytes), "oracleGeneral", NULL, 3);

    assert_objects_good(&objects, 4);
    assert_request(&objects.rows[0], 7, 100, 10 * NS_PER_S, 2);
    assert_request(&objects.rows[1], UINT64_MAX, 0, 11 * NS_PER_S, NEVER);
    assert_request(&objects.rows[2], 7, UINT32_MAX, 9 * NS_PER_S, 3);
    assert_request(&objects.rows[3], 7, 100, UINT32_MAX * NS_PER_S, NEVER);
    assert_string_equal(objects.info.format, "oracleGeneral");
    assert_true(objects.info.has_next && objects.info.has_size && objects.info.has_time);
    assert_int_equal(objects.info.backward, 1);
    assert_int_equal(objects.info.zero_sizes, 1);
}

static void one_record_is_a_trace_and_none_is_not(void **state)
{
    (void)state;
    char bytes[24];
    struct objects one = objects_of_bytes(bytes, oracle_bytes(&records[1], 1, bytes), "oracleGeneral", NULL, 1000);
    struct objects none = objects_of_bytes(bytes, 0, "oracleGeneral", NULL, 1000);

    assert_objects_good(&one, 1);
    assert_false(none.opened);
    assert_objects_refuse(&none, STATUS_CORRUPT, 0, "bytes: the file is empty; a trace has at least one request");
}

static void a_cut_last_record_is_refused_with_its_place(void **state)
{
    (void)state;
    char bytes[RECORDS * 24];
    size_t count = oracle_bytes(records, RECORDS, bytes);

    for (size_t cut = 1; cut < 24; cut++) {
        struct objects objects = objects_of_bytes(bytes, count - cut, "oracleGeneral", NULL, 1000);
        char message[160];

        snprintf(message, sizeof(message),
                 "bytes: record 3 at byte 72: the last record is cut, %zu bytes of 24; fetch the file again, or cut it to 72", 24 - cut);
        assert_objects_refuse(&objects, STATUS_CORRUPT, 3, message);
    }
}

static void a_next_access_behind_its_request_is_refused(void **state)
{
    (void)state;
    static const int64_t wrong[] = {0, 1, 2, -2, INT64_MIN, INT64_MIN + 1};
    const struct object_options ignoring = {.ignore_next = true};

    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        struct oracle_record bad[] = {{0, 1, 1, -1}, {0, 2, 1, wrong[i]}, {0, 3, 1, -1}};
        char bytes[72];
        size_t count = oracle_bytes(bad, 3, bytes);
        struct objects objects = objects_of_bytes(bytes, count, "oracleGeneral", NULL, 1000);

        assert_objects_refuse(&objects, STATUS_CORRUPT, 1, "bytes: record 1 at byte 24: the next access");
        objects = objects_of_bytes(bytes, count, "oracleGeneral", &ignoring, 1000);
        assert_objects_good(&objects, 3);
        assert_int_equal(objects.rows[1].next, OBJECT_NEXT_UNKNOWN);
        assert_false(objects.info.has_next);
    }
}

static void a_next_access_beyond_the_end_is_that_of_a_trace_cut_short(void **state)
{
    (void)state;
    const struct oracle_record record = {0, 1, 1, 1000};
    char bytes[24];
    struct objects objects = objects_of_bytes(bytes, oracle_bytes(&record, 1, bytes), "oracleGeneral", NULL, 1000);

    assert_objects_good(&objects, 1);
    assert_int_equal(objects.rows[0].next, 999);
}

/* Many records, so that they straddle every border of chunks and blocks. */
enum { MANY = 50000 };

static char *many_bytes(size_t *ret_count)
{
    static struct oracle_record record;
    char *bytes = malloc(MANY * 24);

    for (uint32_t i = 0; i < MANY; i++) {
        record = (struct oracle_record){i, i * UINT64_C(0x9E3779B97F4A7C15), i, -1};
        oracle_bytes(&record, 1, bytes + (size_t)i * 24);
    }
    *ret_count = MANY * 24;
    return bytes;
}

static void assert_many(struct object_trace *trace)
{
    struct object_request rows[77];
    uint32_t row = 0;
    uint32_t count;

    while (object_trace_read(trace, rows, 77, &count) == STATUS_OK)
        for (uint32_t i = 0; i < count; i++, row++)
            assert_request(&rows[i], row * UINT64_C(0x9E3779B97F4A7C15), row, row * NS_PER_S, NEVER);
    assert_string_equal(object_trace_message(trace), "");
    assert_int_equal(row, MANY);
}

static void write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

static void plain_and_packed_files_are_read_twice(void **state)
{
    (void)state;
    char plain_path[64];
    char packed_path[64];
    char message[TRACE_MESSAGE_MAX];
    size_t count;
    char *bytes = many_bytes(&count);
    size_t bound = ZSTD_compressBound(count);
    char *packed = malloc(bound);
    size_t packed_count = ZSTD_compress(packed, bound, bytes, count, 3);
    struct object_trace *trace;

    snprintf(plain_path, sizeof(plain_path), "/tmp/objects-%ld.oracleGeneral.bin", (long)getpid());
    snprintf(packed_path, sizeof(packed_path), "/tmp/objects-%ld.ORACLEGENERAL.zst", (long)getpid());
    write_file(plain_path, bytes, count);
    write_file(packed_path, packed, packed_count);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(object_trace_open(i == 0 ? plain_path : packed_path, NULL, NULL, &trace, message), STATUS_OK);
        assert_many(trace);
        assert_int_equal(object_trace_rewind(trace), STATUS_OK);
        assert_many(trace);
        object_trace_close(trace);
    }
    unlink(plain_path);
    unlink(packed_path);
    free(packed);
    free(bytes);
}

static void a_cut_stream_is_refused(void **state)
{
    (void)state;
    size_t count;
    char *bytes = many_bytes(&count);
    size_t bound = ZSTD_compressBound(count);
    char *packed = malloc(bound);
    size_t packed_count = ZSTD_compress(packed, bound, bytes, count, 3);
    struct objects objects = objects_of_bytes(packed, packed_count - 1, "oracleGeneral", NULL, 1000);

    assert_int_equal(objects.status, STATUS_CORRUPT);
    assert_non_null(strstr(objects.message, "the zstd stream ends early"));
    free(packed);
    free(bytes);
}

static void a_pipe_is_read_once(void **state)
{
    (void)state;
    char bytes[RECORDS * 24];
    char path[64];
    char message[TRACE_MESSAGE_MAX];
    struct object_request rows[8];
    uint32_t count;
    struct object_trace *trace;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], bytes, oracle_bytes(records, RECORDS, bytes)), sizeof(bytes));
    close(ends[1]);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
    assert_int_equal(object_trace_open(path, "oracleGeneral", NULL, &trace, message), STATUS_OK);
    assert_int_equal(object_trace_read(trace, rows, 8, &count), STATUS_OK);
    assert_int_equal(count, 4);
    assert_int_equal(object_trace_rewind(trace), STATUS_IO);
    assert_non_null(strstr(object_trace_message(trace), "cannot be read twice"));
    assert_int_equal(object_trace_read(trace, rows, 8, &count), STATUS_IO);
    object_trace_close(trace);
    close(ends[0]);
}

static void what_cannot_be_opened_says_why(void **state)
{
    (void)state;
    struct objects objects = objects_of_file("/nowhere/x.oracleGeneral", NULL, NULL);

    assert_objects_refuse(&objects, STATUS_IO, 0, "/nowhere/x.oracleGeneral: cannot open: No such file or directory; check");
    objects = objects_of_file("/tmp", "oracleGeneral", NULL);
    assert_int_equal(objects.status, STATUS_IO);
    objects = objects_of_text("x", "orcale", NULL);
    assert_objects_refuse(&objects, STATUS_NOT_FOUND, 0, "bytes: no format 'orcale' of object traces; there are oracleGeneral");
    objects = objects_of_text("\1\2", NULL, NULL);
    assert_objects_refuse(&objects, STATUS_INVALID, 0, "bytes: neither bytes nor name tell the format; name one of oracleGeneral");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(one_record_is_a_trace_and_none_is_not),
        cmocka_unit_test(a_cut_last_record_is_refused_with_its_place),
        cmocka_unit_test(a_next_access_behind_its_request_is_refused),
        cmocka_unit_test(a_next_access_beyond_the_end_is_that_of_a_trace_cut_short),
        cmocka_unit_test(plain_and_packed_files_are_read_twice),
        cmocka_unit_test(a_cut_stream_is_refused),
        cmocka_unit_test(a_pipe_is_read_once),
        cmocka_unit_test(what_cannot_be_opened_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
