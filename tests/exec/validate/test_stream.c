/* Long files, long lines and hostile ones: memory that does not grow with the file, bounds that hold, and counts that are right. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#ifdef __SANITIZE_ADDRESS__
#define MEMORY_TIMES 8 /* what is freed stays with the sanitizer for a while */
#else
#define MEMORY_TIMES 1
#endif

static int64_t peak_bytes(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (int64_t)usage.ru_maxrss * 1024;
}

/* An example of about a thousand bytes; no two are equal. */
static size_t write_line(char *line, int64_t number, bool good)
{
    static char filler[900];

    memset(filler, 'x', sizeof(filler) - 1);
    return (size_t)sprintf(line, "{\"messages\": [{\"role\": \"%s\", \"content\": \"%lld %s\"}, {\"role\": \"assistant\", \"content\": \"%lld\"}]}\n",
                           good ? "user" : "bot", (long long)number, filler, (long long)number);
}

static void put_lines(struct validator *validator, int64_t from, int64_t until)
{
    char line[1200];

    for (int64_t i = from; i < until; i++)
        assert_true(validator_put(validator, line, write_line(line, i, i % 1000 != 999)));
}

/* BERTH_TEST_STREAM_MB: how long a file; 512 is the longest that is taken. */
static void memory_does_not_grow_with_the_file(void **state)
{
    const char *asked = getenv("BERTH_TEST_STREAM_MB");
    const int64_t lines = (asked != NULL ? strtoll(asked, NULL, 10) : 48) << 10;
    struct rig rig = rig_of(false);
    const int64_t before = peak_bytes();
    int64_t grown;

    (void)state;
    rig.validator = validator_open(&rig.config, NULL);
    put_lines(rig.validator, 0, lines);
    validator_end(rig.validator);
    grown = peak_bytes() - before;
    printf("%lld MB in %lld lines took %.1f MB\n", (long long)(validator_statistics(rig.validator)->bytes >> 20), (long long)lines, (double)grown / 1048576);
    assert_int_equal(validator_statistics(rig.validator)->examples, lines);
    assert_int_equal(validator_statistics(rig.validator)->good, lines - lines / 1000);
    assert_int_equal(validator_statistics(rig.validator)->duplicates, 0);
    assert_int_equal(validator_count(rig.validator, VALIDATE_BAD_ROLE), lines / 1000);
    /* Hashes of all examples and prompts are kept, 16 bytes each in tables that are a quarter full at worst, and twice while they grow. */
    assert_true(grown < MEMORY_TIMES * ((2 << 20) + 6 * 32 * lines));
    rig_end(&rig);
}

/* A line that does not end is counted and dropped. */
static void a_line_beyond_the_bound_is_not_kept(void **state)
{
    struct rig rig = rig_of(false);
    char *piece = malloc(1 << 20);
    const struct validate_issue *issues;
    int64_t before, grown;
    size_t count;

    (void)state;
    assert_non_null(piece);
    memset(piece, 'x', 1 << 20);
    before = peak_bytes();
    rig.validator = validator_open(&rig.config, NULL);
    put_lines(rig.validator, 0, 3);
    assert_true(validator_put(rig.validator, "{\"a\": \"", 7));
    for (int i = 0; i < 300; i++)
        assert_true(validator_put(rig.validator, piece, 1 << 20));
    assert_true(validator_put(rig.validator, "\n", 1));
    put_lines(rig.validator, 3, 5);
    validator_end(rig.validator);
    grown = peak_bytes() - before;
    assert_true(grown < MEMORY_TIMES * (8 << 20));
    issues = validator_issues(rig.validator, &count);
    assert_int_equal(count, 1);
    assert_int_equal(issues[0].code, VALIDATE_LINE_TOO_LONG);
    assert_int_equal(issues[0].line, 4);
    assert_string_equal(issues[0].message, "Line is 314572807 bytes; the limit is 1048576.");
    assert_int_equal(validator_statistics(rig.validator)->good, 5);
    free(piece);
    rig_end(&rig);
}

static void a_file_beyond_the_bound_is_refused(void **state)
{
    struct rig rig = rig_of(false);
    char *piece = malloc(1 << 20);
    bool more = true;
    int pieces = 0;

    (void)state;
    assert_non_null(piece);
    memset(piece, 'x', 1 << 20);
    piece[(1 << 20) - 1] = '\n';
    rig.config.line_bytes_max = 100;
    rig.validator = validator_open(&rig.config, NULL);
    for (; pieces < 600 && more; pieces++)
        more = validator_put(rig.validator, piece, 1 << 20);
    validator_end(rig.validator);
    assert_int_equal(pieces, 513);
    assert_int_equal(validator_count(rig.validator, VALIDATE_FILE_TOO_LARGE), 1);
    assert_false(validator_accepts(rig.validator));
    free(piece);
    rig_end(&rig);
}

/* At the bound is not beyond it. */
static void a_line_of_the_bound_is_read(void **state)
{
    struct rig rig = rig_of(false);
    char line[1200];
    const size_t bytes = write_line(line, 7, true);

    (void)state;
    rig.config.line_bytes_max = (int64_t)bytes - 1;
    assert_string_equal(rig_take(&rig, line, bytes, 1, NULL), "");
    line[bytes - 1] = '\r';
    line[bytes] = '\n';
    assert_string_equal(rig_take(&rig, line, bytes + 1, 7, NULL), "");
    line[bytes - 1] = '\n';
    rig.config.line_bytes_max--;
    assert_string_equal(rig_take(&rig, line, bytes, bytes, NULL), "1 line_too_long");
    assert_string_equal(rig_take(&rig, line, bytes, 3, NULL), "1 line_too_long");
    rig_end(&rig);
}

/* `count` times `text`, between two others. */
static char *repeat(const char *before, const char *text, size_t count, const char *after, size_t *ret_bytes)
{
    const size_t length = strlen(text);
    const size_t begins = strlen(before);
    char *all = malloc(begins + length * count + strlen(after) + 1);

    assert_non_null(all);
    memcpy(all, before, begins);
    for (size_t i = 0; i < count; i++)
        memcpy(all + begins + i * length, text, length);
    strcpy(all + begins + count * length, after);
    *ret_bytes = begins + count * length + strlen(after);
    return all;
}

/* Lines of up to 16 MB that would take a careless reader's stack, memory, or hours. */
static void hostile_lines_end_soon(void **state)
{
    static const struct {
        const char *before, *text, *after;
        size_t count;
        const char *said;
    } cases[] = {
        {"", "[", "", 16 << 20, "1 file_is_json_array"},
        {"{\"messages\": ", "[", "", 16 << 19, "1:77 bad_json"},
        {"", "{\"a\":", "", 3 << 20, "1:321 bad_json"},
        {"{\"messages\": [1", ",1", "]}", 8 << 19, "1:262155 bad_json"},
        {"{\"messages\": 1", "0", "}", 16 << 19, "1:14 bad_json"},
        {"{\"messages\": 0.", "0", "1e5}", 16 << 19, "1:14 bad_json"},
        {"{\"a\": 1", ", \"a\": 1", "}", 100, "1 missing_messages; 1:1 duplicate_key"},
        {"{\"a\": 1", ", \"a\": 1", "}", 100000, "1 missing_messages; 1:1 duplicate_key"},
        {"{\"messages\": \"", "\\u0041", "\"}", 2 << 20, "1:14 messages_not_list messages"},
        {"{\"messages\": \"", "\\\\\\\"", "\"}", 2 << 20, "1:14 messages_not_list messages"},
        {"{\"messages\": \"", "<<<<[[[[", "\"}", (2 << 20) - 16, "1:14 messages_not_list messages"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"", "<|<|<|", "\"}, {\"role\": \"assistant\", \"content\": \"x\"}]}", 2 << 20, ""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"", " \\t\\n", "\"}, {\"role\": \"assistant\", \"content\": \"x\"}]}", 2 << 20, ""},
    };
    struct rig rig = rig_of(false);

    (void)state;
    rig.config.line_bytes_max = VALIDATE_LINE_BYTES_MAX;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        size_t bytes;
        char *text = repeat(cases[i].before, cases[i].text, cases[i].count, cases[i].after, &bytes);

        if (strcmp(rig_take(&rig, text, bytes, 65536, NULL), cases[i].said) != 0)
            fail_msg("%s %s: says %s, not %s", cases[i].before, cases[i].text, rig.said, cases[i].said);
        free(text);
    }
    rig_end(&rig);
}

/* Calls and tools by the ten thousand: each call looks at few tools, each answer at one message's calls. */
static void many_calls_end_soon(void **state)
{
    struct rig rig = rig_of(false);
    size_t bytes;
    char *calls = repeat("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", \"tool_calls\": [",
                         "{\"id\": \"c\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}, ", 12000,
                         "{\"id\": \"c\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]}], \"tools\": [", &bytes);
    char *all = repeat(calls, "{\"function\": {\"name\": \"g\"}}, ", 1023, "{\"function\": {\"name\": \"g\"}}]}", &bytes);
    size_t count;

    (void)state;
    rig.config.line_bytes_max = VALIDATE_LINE_BYTES_MAX;
    rig_take(&rig, all, bytes, bytes, NULL);
    validator_issues(rig.validator, &count);
    assert_int_equal(count, VALIDATE_ISSUES_MAX);
    assert_int_equal(validator_count(rig.validator, VALIDATE_UNDECLARED_TOOL), 12001);
    free(all);
    free(calls);
    rig_end(&rig);
}

/* What is only counted is not looked for: neither its path nor a near name. */
static void many_faults_of_a_line_end_soon(void **state)
{
    struct rig rig = rig_of(false);
    char *text = malloc(4 << 20);
    size_t bytes = (size_t)sprintf(text, "{\"messages\": [");
    size_t count;

    (void)state;
    assert_non_null(text);
    rig.config.line_bytes_max = VALIDATE_LINE_BYTES_MAX;
    for (int i = 0; i < 60000; i++)
        bytes += (size_t)sprintf(text + bytes, "\"\\ud800\", ");
    bytes += (size_t)sprintf(text + bytes, "0]");
    for (int i = 0; i < 60000; i++)
        bytes += (size_t)sprintf(text + bytes, ", \"message%d\": 0", i);
    bytes += (size_t)sprintf(text + bytes, "}");
    rig_take(&rig, text, bytes, bytes, NULL);
    validator_issues(rig.validator, &count);
    assert_int_equal(count, 2 * VALIDATE_ISSUES_MAX + 1);
    assert_int_equal(validator_count(rig.validator, VALIDATE_LONE_SURROGATE), 60000);
    assert_int_equal(validator_count(rig.validator, VALIDATE_UNRECOGNIZED_KEY), 60000);
    assert_int_equal(validator_count(rig.validator, VALIDATE_TOO_MANY_MESSAGES), 1);
    free(text);
    rig_end(&rig);
}

/* Of each code a hundred are kept; the rest is counted. */
static void issues_are_bounded_and_counted(void **state)
{
    struct rig rig = rig_of(false);
    const struct validate_issue *issues;
    json_t *counts;
    size_t count;

    (void)state;
    rig.validator = validator_open(&rig.config, NULL);
    for (int i = 0; i < 50000; i++) {
        assert_true(validator_put(rig.validator, "{\"messages\": []}\n", 17));
        assert_true(validator_put(rig.validator, "{\"messages\": {}}\n{]\n", 20));
    }
    validator_end(rig.validator);
    issues = validator_issues(rig.validator, &count);
    assert_int_equal(count, 3 * VALIDATE_ISSUES_MAX);
    assert_int_equal(issues[count - 1].line, 3 * VALIDATE_ISSUES_MAX);
    assert_int_equal(validator_count(rig.validator, VALIDATE_BAD_JSON), 50000);
    counts = validate_counts_json(rig.validator);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(counts, "bad_json"), "count")), 50000);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(counts, "bad_json"), "shown")), VALIDATE_ISSUES_MAX);
    json_decref(counts);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_does_not_grow_with_the_file), cmocka_unit_test(a_line_beyond_the_bound_is_not_kept),
        cmocka_unit_test(a_file_beyond_the_bound_is_refused), cmocka_unit_test(a_line_of_the_bound_is_read),
        cmocka_unit_test(hostile_lines_end_soon),             cmocka_unit_test(many_calls_end_soon),
        cmocka_unit_test(many_faults_of_a_line_end_soon),     cmocka_unit_test(issues_are_bounded_and_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
