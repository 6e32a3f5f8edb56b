/* Object traces of lines: csv with its columns, keys per line, ids that are numbers or texts, what is refused and where; and
 * the plain way of reading a line against the careful one. */
#include <stdio.h>
#include <stdlib.h>

#include "objects.h"
#include "support.h"

#define UNKNOWN OBJECT_NEXT_UNKNOWN
#define NAME(n) ((UINT64_C(1) << 63) + (n))

static struct objects csv(const char *text)
{
    return objects_of_text(text, "csv", NULL);
}

static struct objects csv_with(const char *text, const struct object_columns *columns)
{
    const struct object_options options = {.columns = columns};

    return objects_of_text(text, "csv", &options);
}

static void usual_names_are_found_in_any_order(void **state)
{
    (void)state;
    struct objects objects = csv("obj_size,other,timestamp,obj_id\n100,x,1.5,7\n0,,0,8\n");

    assert_objects_good(&objects, 2);
    assert_request(&objects.rows[0], 7, 100, 1500000000, UNKNOWN);
    assert_request(&objects.rows[1], 8, 0, 0, UNKNOWN);
    assert_true(objects.info.has_size && objects.info.has_time && !objects.info.has_next);
    assert_int_equal(objects.info.backward, 1);
    assert_int_equal(objects.info.zero_sizes, 1);
}

static void a_file_of_ids_alone_has_sizes_of_the_caller(void **state)
{
    (void)state;
    const struct object_columns columns = {.id = "who"};
    const struct object_options options = {.columns = &columns, .size_bytes = 5};
    struct objects objects = objects_of_text("what,who\na,7\nb,9\n", "csv", &options);

    assert_objects_good(&objects, 2);
    assert_request(&objects.rows[1], 9, 5, 0, UNKNOWN);
    assert_false(objects.info.has_size || objects.info.has_time);
    objects = csv_with("what,who\na,7\nb,9\n", &columns);
    assert_request(&objects.rows[1], 9, 1, 0, UNKNOWN);
    objects = objects_of_text("size,who\n1,7\n", "csv", &options);
    assert_objects_refuse(&objects, STATUS_INVALID, 0, "bytes: it has sizes of its own; leave the given one out");
}

static void numbers_mean_columns_and_values_a_row(void **state)
{
    (void)state;
    const struct object_columns columns = {.id = "2", .size = "3", .time = "1", .time_unit = TRACE_TIME_MS};
    struct objects objects = csv_with("1,k,20\n2,k,30\n", &columns);

    assert_objects_good(&objects, 2);
    assert_request(&objects.rows[1], NAME(0), 30, 2 * NS_PER_MS, UNKNOWN);
    objects = csv_with("t,k,s\n1,k,20\n", &columns);
    assert_objects_good(&objects, 1);
    objects = csv_with("1,k,20\n", &(struct object_columns){.id = "2"});
    assert_objects_good(&objects, 1);
}

static void separators_other_than_the_comma(void **state)
{
    (void)state;
    struct objects objects = csv_with("id\tsize\na,\"b\t3\n", &(struct object_columns){.separator = '\t'});

    assert_objects_good(&objects, 1);
    assert_int_equal(objects.rows[0].id, NAME(0));
    assert_int_equal(objects.rows[0].size_bytes, 3);
    objects = csv_with("7;3\n", &(struct object_columns){.id = "1", .size = "2", .separator = ';'});
    assert_objects_good(&objects, 1);
    assert_request(&objects.rows[0], 7, 3, 0, UNKNOWN);
    objects = csv_with("a b id\nx y 7\nx  y\t 8 \n", &(struct object_columns){.separator = ' '});
    assert_objects_good(&objects, 2);
    assert_int_equal(objects.rows[1].id, 8);
    objects = csv_with("a b id\nx  7\n", &(struct object_columns){.separator = ' '});
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes:2:5: 2 columns where the first line has 3;");
}

static void times_in_every_unit(void **state)
{
    (void)state;
    static const struct {
        enum trace_time_unit unit;
        const char *text;
        int64_t ns;
    } times[] = {
        {TRACE_TIME_S, "12.25", 12250000000}, {TRACE_TIME_S, "1e2", 100 * NS_PER_S}, {TRACE_TIME_S, "0.9999999996", NS_PER_S},
        {TRACE_TIME_S, "7258118399.5", INT64_C(7258118399500000000)},
        {TRACE_TIME_MS, "3.000001", 3000001}, {TRACE_TIME_US, "7", 7000}, {TRACE_TIME_US, "7.0004", 7000},
        {TRACE_TIME_NS, "1234567890123456789", INT64_C(1234567890123456789)}, {TRACE_TIME_NS, "1.5", 2},
        {TRACE_TIME_DATETIME, "1970-01-02 00:00:00.5", 86400500000000},
    };

    for (size_t i = 0; i < ARRAY_COUNT(times); i++) {
        char text[96];
        struct objects objects;

        snprintf(text, sizeof(text), "id,time\n1,%s\n", times[i].text);
        objects = csv_with(text, &(struct object_columns){.time_unit = times[i].unit});
        assert_objects_good(&objects, 1);
        assert_int_equal(objects.rows[0].at_ns, times[i].ns);
    }
}

static void line_ends_of_every_kind(void **state)
{
    (void)state;
    static const char *const texts[] = {"id,size\r\n7,1\r\nx,2\r\n", "id,size\r\n7,1\r\nx,2", "id,size\n7,1\nx,2", "id,size\n7,1\nx,2\r",
                                        "size,id\r\n1,7\r\n2,x", "size,id\n1,7\n2,x\r\n"};

    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct objects objects = csv(texts[i]);

        assert_objects_good(&objects, 2);
        assert_request(&objects.rows[0], 7, 1, 0, UNKNOWN);
        assert_request(&objects.rows[1], NAME(0), 2, 0, UNKNOWN);
    }
}

static void sizes_that_fit_are_kept_and_others_refused(void **state)
{
    (void)state;
    static const struct {
        const char *size;
        const char *says; /* NULL: good */
        uint64_t bytes;
    } sizes[] = {
        {"99999999999", NULL, UINT64_C(99999999999)},
        {"9223372036854775807", NULL, OBJECT_SIZE_MAX},
        {"63.0", NULL, 63},
        {"0000000000000000000000000007", NULL, 7},
        {"-5", "bytes:3:3: size '-5' is negative; correct the line", 0},
        {"9223372036854775808", "bytes:3:3: size '9223372036854775808' is above 2^63 - 1; correct", 0},
        {"18446744073709551617", "bytes:3:3: size '18446744073709551617' is above 2^63 - 1;", 0},
        {"1.5", "bytes:3:3: size '1.5' is not a whole number of bytes;", 0},
        {"1.", "bytes:3:3: size '1.' is not a number;", 0},
        {"1.5kb", "bytes:3:3: size '1.5kb' is not a whole number of bytes;", 0},
        {"7kb", "bytes:3:3: size '7kb' is not a number;", 0},
        {"abc", "bytes:3:3: size 'abc' is not a number;", 0},
        {" 7", "bytes:3:3: size ' 7' is not a number;", 0},
        {"+7", "bytes:3:3: size '+7' is not a number;", 0},
        {"0x10", "bytes:3:3: size '0x10' is not a number;", 0},
        {"", "bytes:3:3: size '' is empty;", 0},
    };

    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        char text[96];
        struct objects objects;

        snprintf(text, sizeof(text), "id,size\n1,1\n2,%s\n3,1\n", sizes[i].size);
        objects = csv(text);
        if (sizes[i].says != NULL)
            assert_objects_refuse(&objects, STATUS_CORRUPT, 1, sizes[i].says);
        else
            assert_objects_good(&objects, 3);
        if (sizes[i].says == NULL)
            assert_int_equal(objects.rows[1].size_bytes, sizes[i].bytes);
    }
}

static void lines_that_are_no_rows_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *says;
    } lines[] = {
        {"1,2\n", "bytes:3:4: 2 columns where the first line has 3; correct the line"},
        {"1,2", "bytes:3:4: 2 columns where the first line has 3, and the file ends without a newline: it was cut; fetch it again"},
        {"1,2,3,4\n", "bytes:3:7: 4 columns where the first line has 3;"},
        {"\n", "bytes:3:1: 1 column where the first line has 3;"},
        {"-1,2,3\n", "bytes:3:1: time '-1' is negative;"},
        {"soon,2,3\n", "bytes:3:1: time 'soon' is not a number;"},
        {"9999999999,2,3\n", "bytes:3:1: time '9999999999' is beyond the year 2200"},
        {",2,3\n", "bytes:3:1: time '' is empty;"},
        {"1,,3\n", "bytes:3:3: id '' is empty;"},
        {"1,\1,3\n", "bytes:3:3: id '\\x01' has control characters;"},
        {"1,\"x,3\n", "bytes:3:3: a quote that does not close on its line;"},
        {"1,x\"y,3\n", "bytes:3:4: a quote inside a cell that does not begin with one;"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        char text[96];
        struct objects objects;

        snprintf(text, sizeof(text), "time,id,size\n0,1,1\n%s", lines[i].line);
        objects = csv(text);
        assert_objects_refuse(&objects, STATUS_CORRUPT, 1, lines[i].says);
    }
}

static void files_that_are_no_traces_are_refused(void **state)
{
    (void)state;
    struct objects objects = csv("");

    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes: the file is empty;");
    objects = csv("time,id,size\n");
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes: there is no request in it;");
    objects = csv("time,who,size\n1,2,3\n");
    assert_objects_refuse(&objects, STATUS_INVALID, 0, "bytes: no column is called id or the like; name the column");
    objects = csv_with("time,id\n1,2\n", &(struct object_columns){.size = "bytes"});
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes: no column 'bytes' for the size among the 2 here;");
    objects = csv_with("1,2\n", &(struct object_columns){.id = "3"});
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes: no column '3' for the id among the 2 here;");
    objects = csv_with("1,2\n", &(struct object_columns){.id = "1", .size = "1"});
    assert_objects_refuse(&objects, STATUS_INVALID, 0, "bytes: column 1 is both id and size; name one column");
    objects = csv("\xff\xfei\0d\0");
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes: the file is UTF-16; convert it");
    objects = csv("\xef\xbb\xbfid\n1\n");
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes: a byte order mark begins the file; remove");
}

static void one_line_is_a_trace(void **state)
{
    (void)state;
    struct objects objects = csv("id\n7");

    assert_objects_good(&objects, 1);
    objects = objects_of_text("7", "txt", NULL);
    assert_objects_good(&objects, 1);
    assert_request(&objects.rows[0], 7, 1, 0, UNKNOWN);
}

static void ids_are_numbers_or_texts_and_never_confused(void **state)
{
    (void)state;
    struct objects objects = objects_of_text("7\n07\n7\n+7\n0\n00\n12345678\n1234567890123456\n9223372036854775807\n07\n7 \n"
                                             "99999999999999999999999999\nhttp://a/b?c,\"d\"\n\xc3\xa9\n",
                                             "txt", NULL);
    static const uint64_t ids[] = {7, NAME(0), 7, NAME(1), 0, NAME(2), 12345678, UINT64_C(1234567890123456),
                                   UINT64_C(9223372036854775807), NAME(0), NAME(3), NAME(4), NAME(5), NAME(6)};

    assert_objects_good(&objects, ARRAY_COUNT(ids));
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++)
        assert_int_equal(objects.rows[i].id, ids[i]);
}

static void numbers_of_64_bits_are_themselves_where_no_text_is(void **state)
{
    (void)state;
    struct objects objects = objects_of_text("18446744073709551615\n9223372036854775808\n1\n10000000000000000000\n", "txt", NULL);

    assert_objects_good(&objects, 4);
    assert_int_equal(objects.rows[0].id, UINT64_MAX);
    assert_int_equal(objects.rows[1].id, NAME(0));
    assert_int_equal(objects.rows[3].id, UINT64_C(10000000000000000000));
    objects = objects_of_text("9223372036854775808\nx\n", "txt", NULL);
    assert_objects_refuse(&objects, STATUS_CORRUPT, 1, "bytes:2:1: the key 'x' stands in one trace with texts and with numbers");
    objects = objects_of_text("x\n9223372036854775808\n", "txt", NULL);
    assert_objects_refuse(&objects, STATUS_CORRUPT, 1, "bytes:2:1: the key '9223372036854775808' stands in one trace with");
    objects = objects_of_text("9223372036854775808\n18446744073709551616\n", "txt", NULL);
    assert_objects_refuse(&objects, STATUS_CORRUPT, 1, "bytes:2:1: the key '18446744073709551616' stands in one");
}

static void keys_that_are_none_are_refused(void **state)
{
    (void)state;
    static char text[2100];
    struct objects objects = objects_of_text("a\n\nb\n", "txt", NULL);

    assert_objects_refuse(&objects, STATUS_CORRUPT, 1, "bytes:2:1: the key '' is empty; correct the line");
    objects = objects_of_text("a\r\nb\rc\n", "txt", NULL);
    assert_objects_refuse(&objects, STATUS_CORRUPT, 1, "bytes:2:1: the key 'b\\x0dc' has control characters; correct");
    memset(text, 'k', OBJECT_NAME_MAX);
    objects = objects_of_text(text, "txt", NULL);
    assert_objects_good(&objects, 1);
    memset(text, 'k', OBJECT_NAME_MAX + 1);
    objects = objects_of_text(text, "txt", NULL);
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes:1:1: the key 'kkkkkk");
    assert_non_null(strstr(objects.message, "is longer than 1024 bytes"));
}

static void names_are_told_again(void **state)
{
    (void)state;
    const char text[] = "alpha\n5\nb\nalpha\n";
    struct object_trace *trace;
    struct object_request rows[8];
    char message[TRACE_MESSAGE_MAX];
    uint32_t count;
    size_t length;
    const char *name;

    assert_int_equal(object_trace_open_bytes(text, sizeof(text) - 1, "txt", NULL, &trace, message), STATUS_OK);
    assert_int_equal(object_trace_read(trace, rows, 8, &count), STATUS_OK);
    assert_int_equal(count, 4);
    name = object_trace_name(trace, rows[3].id, &length);
    assert_int_equal(length, 5);
    assert_memory_equal(name, "alpha", 5);
    assert_null(object_trace_name(trace, rows[1].id, &length));
    assert_null(object_trace_name(trace, NAME(2), &length));
    object_trace_close(trace);
}

static void many_texts_have_numbers_in_order_of_appearance(void **state)
{
    (void)state;
    enum { ROUNDS = 3, TEXTS = 5000 };
    static char text[ROUNDS * TEXTS * 24];
    size_t used = 0;
    struct object_trace *trace;
    struct object_request rows[100];
    char message[TRACE_MESSAGE_MAX];
    uint32_t count;
    uint64_t row = 0;

    for (uint32_t i = 0; i < ROUNDS * TEXTS; i++) /* some lines in quotes, so that both ways number them */
        used += (size_t)snprintf(text + used, sizeof(text) - used, i % 7 == 3 ? "\"object-%u\"\n" : "object-%u\n", i % TEXTS);
    assert_int_equal(object_trace_open_bytes(text, used, "csv", &(struct object_options){.columns = &(struct object_columns){.id = "1"}},
                                             &trace, message), STATUS_OK);
    while (object_trace_read(trace, rows, 100, &count) == STATUS_OK)
        for (uint32_t i = 0; i < count; i++, row++) {
            char name[32];
            size_t length;
            size_t expected = (size_t)snprintf(name, sizeof(name), "object-%u", (unsigned)(row % TEXTS));

            assert_int_equal(rows[i].id, NAME(row % TEXTS));
            assert_memory_equal(object_trace_name(trace, rows[i].id, &length), name, expected);
            assert_int_equal(length, expected);
        }
    assert_int_equal(row, ROUNDS * TEXTS);
    object_trace_close(trace);
}

static void a_line_without_an_end_is_refused(void **state)
{
    (void)state;
    char *text = malloc(OBJECT_CHUNK_BYTES + 100);
    struct objects objects;

    memset(text, 'x', OBJECT_CHUNK_BYTES + 99);
    text[OBJECT_CHUNK_BYTES + 99] = 0;
    memcpy(text, "id\n7\n", 5);
    objects = objects_of_text(text, "csv", NULL);
    assert_int_equal(objects.count, 1);
    assert_objects_refuse(&objects, STATUS_CORRUPT, 1, "bytes:3:");
    memcpy(text, "xxxxx", 5);
    objects = objects_of_text(text, "txt", NULL);
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes:1:1: the line is longer than 256 KiB; is it a trace?");
    free(text);
}

static void the_format_is_guessed_from_the_header(void **state)
{
    (void)state;
    struct objects objects = objects_of_text("time,obj_id,size\n1,2,3\n", NULL, NULL);

    assert_objects_good(&objects, 1);
    assert_string_equal(objects.info.format, "csv");
}

/* --- the plain way against the careful one: quotes around every cell make the difference --- */

static void draw_number(uint64_t *random, char *text, size_t bytes)
{
    uint64_t number = draw(random) >> draw_below(random, 64);

    snprintf(text, bytes, "%s%llu%s", draw_below(random, 12) == 0 ? "0" : "", (unsigned long long)number,
             draw_below(random, 12) == 0 ? "x" : draw_below(random, 6) == 0 ? ".25" : "");
}

static void both_ways_say_the_same(void **state)
{
    (void)state;
    uint64_t random = test_seed(20);

    for (int round = 0; round < 20000; round++) {
        char cells[3][40];
        char plain[192];
        char quoted[192];
        struct objects one;
        struct objects two;

        for (int i = 0; i < 3; i++)
            draw_number(&random, cells[i], sizeof(cells[i]));
        snprintf(plain, sizeof(plain), "time,id,size\n%s,%s,%s\n", cells[0], cells[1], cells[2]);
        snprintf(quoted, sizeof(quoted), "time,id,size\n\"%s\",\"%s\",\"%s\"\n", cells[0], cells[1], cells[2]);
        one = objects_of_bytes(plain, strlen(plain), "csv", NULL, 1);
        two = objects_of_bytes(quoted, strlen(quoted), "csv", NULL, 1);
        if (one.status != two.status || memcmp(one.rows, two.rows, sizeof(one.rows)) != 0)
            fail_msg("seed %llu: %s", (unsigned long long)random, plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_names_are_found_in_any_order),
        cmocka_unit_test(a_file_of_ids_alone_has_sizes_of_the_caller),
        cmocka_unit_test(numbers_mean_columns_and_values_a_row),
        cmocka_unit_test(separators_other_than_the_comma),
        cmocka_unit_test(times_in_every_unit),
        cmocka_unit_test(line_ends_of_every_kind),
        cmocka_unit_test(sizes_that_fit_are_kept_and_others_refused),
        cmocka_unit_test(lines_that_are_no_rows_are_refused),
        cmocka_unit_test(files_that_are_no_traces_are_refused),
        cmocka_unit_test(one_line_is_a_trace),
        cmocka_unit_test(ids_are_numbers_or_texts_and_never_confused),
        cmocka_unit_test(numbers_of_64_bits_are_themselves_where_no_text_is),
        cmocka_unit_test(keys_that_are_none_are_refused),
        cmocka_unit_test(names_are_told_again),
        cmocka_unit_test(many_texts_have_numbers_in_order_of_appearance),
        cmocka_unit_test(a_line_without_an_end_is_refused),
        cmocka_unit_test(the_format_is_guessed_from_the_header),
        cmocka_unit_test(both_ways_say_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
