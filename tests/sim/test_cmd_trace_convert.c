/* The verb from arguments to exit code, in this process: its file is part of the program, not of a library. */
#include "cmd_objects.c"
#include "cmd_trace_convert.c"

#include <unistd.h>

#include "sim/speak.h"

static char input[64];
static char output_path[80];

#define SPEAK(...) *speak(trace_convert_command, (const char *const[]){"convert", __VA_ARGS__, NULL})

/* What is to be read, and where the output goes. */
static void set(const char *text, const char *output_suffix)
{
    FILE *file;

    snprintf(input, sizeof(input), "/tmp/berth-cmd-convert-%ld.in", (long)getpid());
    snprintf(output_path, sizeof(output_path), "/tmp/berth-cmd-convert-%ld%s", (long)getpid(), output_suffix);
    file = fopen(input, "w");
    fputs(text, file);
    fclose(file);
}

static int clean(void **state)
{
    (void)state;
    unlink(input);
    unlink(output_path);
    return 0;
}

static void assert_output_is(const char *text)
{
    char written[512];

    speak_take(fopen(output_path, "r"), written, sizeof(written));
    assert_string_equal(written, text);
}

static void columns_units_and_separators_are_taken(void **state)
{
    (void)state;
    struct spoken spoken;

    set("when|who|what|how large\n1500|5|a|10\n2000|6|b|20\n", ".csv");
    spoken = SPEAK(input, output_path, "--id-column", "what", "--size-column=4", "--time-column", "when", "--time-unit", "ms",
                   "--separator", "|");
    assert_string_equal(spoken.errors, "");
    assert_int_equal(spoken.code, 0);
    assert_output_is("time,id,size\n1.5,a,10\n2,b,20\n");
    assert_has(spoken.output, "requests   2\n");
    assert_has(spoken.output, "names      2 ids are texts\n");
}

static void losses_are_told(void **state)
{
    (void)state;
    struct spoken spoken;

    set("time,id,size\n1.5,a,10\n1,b,0\n", ".oracleGeneral.zst");
    spoken = SPEAK(input, output_path);
    assert_int_equal(spoken.code, 0);
    assert_has(spoken.errors, "lost: parts of a second of 1 times, since oracleGeneral has whole ones\n");
    assert_has(spoken.errors, "lost: the texts of 2 ids; in oracleGeneral they are numbers from 2^63 on\n");
    assert_has(spoken.output, "(oracleGeneral, zstd)");
    assert_has(spoken.output, "backward   1 times are before that of the row above: kept\n");
    assert_has(spoken.output, "zero       1 sizes are 0: kept\n");
    assert_has(spoken.output, "next       found here\n");
    set("7\n8\n", ".lcs");
    spoken = SPEAK(input, output_path, "--format", "txt");
    assert_has(spoken.errors, "txt has no sizes, and lcs must: each object is 1 byte; --size-bytes gives another\n");
    assert_has(spoken.errors, "txt has no times, and lcs must: all are 0\n");
    spoken = SPEAK(input, output_path, "--format", "txt", "--size-bytes", "100");
    assert_null(strstr(spoken.errors, "has no sizes"));
    clean(NULL);
    set("id,size\n7,1\n", ".txt");
    spoken = SPEAK(input, output_path);
    assert_string_equal(spoken.errors, "berth-sim trace convert: lost: sizes, which txt does not have\n");
}

static void json_is_one_object(void **state)
{
    (void)state;
    struct spoken spoken;
    json_t *root;

    set("arrived,adapter\n0,a\n1,\n2,a\n", ".h5");
    spoken = SPEAK(input, output_path, "--adapter-column", "adapter", "--time-column", "arrived", "--json");
    root = json_loads(spoken.output, 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "from")), "requests");
    assert_string_equal(json_string_value(json_object_get(root, "to")), "berth-hdf5");
    assert_string_equal(json_string_value(json_object_get(root, "next")), "found");
    assert_int_equal(json_integer_value(json_object_get(root, "requests")), 2);
    assert_int_equal(json_integer_value(json_object_get(root, "passed_over")), 1);
    assert_int_equal(json_integer_value(json_object_get(root, "names")), 1);
    assert_true(json_integer_value(json_object_get(root, "bytes")) > 1000);
    assert_true(json_is_false(json_object_get(json_object_get(root, "lost"), "names")));
    json_decref(root);
}

static void bad_traces_are_one_line_and_exit_code_1(void **state)
{
    (void)state;
    struct spoken spoken;

    set("id,size\n7,-5\n", ".csv");
    spoken = SPEAK(input, output_path);
    assert_int_equal(spoken.code, 1);
    assert_has(spoken.errors, ".in:2:3: size '-5' is negative; correct the line\n");
    assert_string_equal(spoken.output, "");
    assert_int_equal(access(output_path, F_OK), -1);
    spoken = SPEAK("/no/such/file.csv", output_path);
    assert_int_equal(spoken.code, 1);
    assert_has(spoken.errors, "/no/such/file.csv: cannot open: No such file or directory; ");
}

static void wrong_words_are_usage(void **state)
{
    (void)state;
    static const struct {
        const char *words[5];
        const char *says;
    } wrong[] = {
        {{NULL}, "name the trace to read and the one to write; see --help"},
        {{"a.csv", NULL}, "name the trace to read and the one to write; see --help"},
        {{"a", "b", "c", NULL}, "one trace in and one out, not also 'c'"},
        {{"a", "b", "--time-unit", "h", NULL}, "no time unit 'h': s, ms, us, ns or datetime"},
        {{"a", "b", "--separator", "x", NULL}, "no separator 'x':"},
        {{"a", "b", "--size-bytes", "0", NULL}, "--size-bytes 0: a whole number from 1 to 2^63 - 1"},
        {{"a", "b", "--size-bytes", "9223372036854775808", NULL}, "--size-bytes 9223372036854775808: a whole number"},
        {{"a", "b.csv", "--to", "xls", NULL}, "no such format is written; name one of oracleGeneral, lcs, berth-hdf5, csv, txt"},
        {{"a", "b.csv", "--adapter-column=x", "--id-column=y", NULL}, "with --adapter-column it is a csv of requests"},
        {{"traces/samples/generic-sample.csv", "/tmp/b.csv", "--format", "x", NULL}, "no format 'x' of object traces; there are"},
        {{"traces/samples/generic-sample.csv", "/tmp/b.csv", "--format=txt", "--id-column=1", NULL}, "columns are named for csv only, and this is txt;"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        const char *words[8] = {"convert"};
        struct spoken spoken;

        for (size_t word = 0; word < 5 && wrong[i].words[word] != NULL; word++)
            words[word + 1] = wrong[i].words[word];
        spoken = *speak(trace_convert_command, words);
        assert_int_equal(spoken.code, 2);
        assert_has(spoken.errors, wrong[i].says);
    }
}

static void help_names_every_format_and_bound(void **state)
{
    (void)state;
    struct spoken spoken = SPEAK("--help");
    const char *name;
    const char *about;

    assert_int_equal(spoken.code, 0);
    for (size_t i = 0; object_format_at(i, &name, &about); i++)
        assert_has(spoken.output, about);
    for (size_t i = 0; (name = writer_format_at(i)) != NULL; i++)
        assert_has(spoken.output, name);
    assert_has(spoken.output, "--ignore-next");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(columns_units_and_separators_are_taken, clean),
        cmocka_unit_test_teardown(losses_are_told, clean),
        cmocka_unit_test_teardown(json_is_one_object, clean),
        cmocka_unit_test_teardown(bad_traces_are_one_line_and_exit_code_1, clean),
        cmocka_unit_test(wrong_words_are_usage),
        cmocka_unit_test(help_names_every_format_and_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
