/* Command lines as people type them, against a small table. */
#include "host/options.h"

#include "support.h"

static const struct option table[] = {
    {"set", "KEY=VALUE", "override a key"},
    {"slots_bytes", "BYTES", "room"},
    {"json", NULL, "for machines"},
    {"help", NULL, "this text"},
};

/* What came of a line: "0:a=b 2 operand". */
static char read_as[256];
static char said[512];

static void read_line(const char *const *words)
{
    char *arguments[16] = {(char *)(uintptr_t)"verb"};
    struct options options = {.command = "berth-sim try", .table = table, .count = ARRAY_COUNT(table), .argv = arguments, .at = 1};
    int option;

    for (options.argc = 1; words[options.argc - 1] != NULL; options.argc++)
        arguments[options.argc] = (char *)(uintptr_t)words[options.argc - 1];
    memset(said, 0, sizeof(said));
    read_as[0] = '\0';
    options.errors = fmemopen(said, sizeof(said), "w");
    do {
        const char *value = NULL;
        size_t at = strlen(read_as);

        option = options_next(&options, &value);
        snprintf(read_as + at, sizeof(read_as) - at, "%s%d%s%s", at > 0 ? " " : "", option, value != NULL ? ":" : "",
                 value != NULL ? value : "");
    } while (option != OPTION_END && option != OPTION_WRONG);
    fclose(options.errors);
}

#define READ(...) read_line((const char *const[]){__VA_ARGS__, NULL})
#define EXPECT(text, message)                \
    assert_string_equal(read_as, text);      \
    assert_string_equal(said, message)

static void values_may_follow_or_be_joined(void **state)
{
    (void)state;
    READ("--set", "a=b", "--set=c=d", "file.yaml", "--json", "--slots-bytes", "-5");
    EXPECT("0:a=b 0:c=d -2:file.yaml 2 1:-5 -1", "");
    READ("--set=", "-");
    EXPECT("0: -2:- -1", "");
}

static void after_two_hyphens_everything_is_an_operand(void **state)
{
    (void)state;
    READ("--json", "--", "--set", "-h");
    EXPECT("2 -2:--set -2:-h -1", "");
}

static void help_has_a_short_form(void **state)
{
    (void)state;
    READ("-h");
    EXPECT("3 -1", "");
}

static void what_is_wrong_is_said_with_what_is_near(void **state)
{
    (void)state;
    READ("--slot-bytes=5");
    EXPECT("-3", "berth-sim try: there is no option --slot-bytes=5; did you mean --slots-bytes?\n");
    READ("-x");
    EXPECT("-3", "berth-sim try: there is no option -x; berth-sim try --help lists them\n");
    READ("--slots_bytes", "5");
    EXPECT("-3", "berth-sim try: there is no option --slots_bytes; did you mean --slots-bytes?\n");
    READ("--json=yes");
    assert_string_equal(said, "berth-sim try: --json yes: takes no value\n");
    READ("--set");
    EXPECT("-3", "berth-sim try: --set: needs a value\n");
}

static void table_is_printed_in_columns(void **state)
{
    (void)state;
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    options_print(out, table, ARRAY_COUNT(table));
    fclose(out);
    assert_string_equal(text, "  --set KEY=VALUE      override a key\n"
                              "  --slots-bytes BYTES  room\n"
                              "  --json               for machines\n"
                              "  --help               this text\n");
}

static bool whole(const char *value, int64_t least, int64_t most, int64_t *ret)
{
    struct options options = {.command = "berth-sim try", .table = table, .count = ARRAY_COUNT(table)};
    bool taken;

    memset(said, 0, sizeof(said));
    options.errors = fmemopen(said, sizeof(said), "w");
    taken = options_whole(&options, 1, value, least, most, ret);
    fclose(options.errors);
    return taken;
}

static void whole_numbers_are_in_their_range(void **state)
{
    static const char *const wrong[] = {"", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "101", "99999999999999999999", "nan"};
    int64_t number = 7;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        assert_false(whole(wrong[i], 0, 100, &number));
        assert_int_equal(number, 7);
        assert_non_null(strstr(said, "a whole number from 0 to 100"));
    }
    assert_true(whole("100", 0, 100, &number));
    assert_int_equal(number, 100);
    assert_true(whole("9223372036854775807", 0, INT64_MAX, &number));
    assert_int_equal(number, INT64_MAX);
    assert_false(whole("9223372036854775808", 0, INT64_MAX, &number)); /* not the largest that there is */
}

static void numbers_are_finite_and_above_0(void **state)
{
    static const char *const wrong[] = {"", "-1", "1x", "nan", "inf", "1e999"};
    struct options options = {.command = "berth-sim try", .table = table, .count = ARRAY_COUNT(table)};
    double number = 7;

    (void)state;
    options.errors = fmemopen(said, sizeof(said), "w");
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        assert_false(options_real(&options, 1, wrong[i], true, &number));
    assert_false(options_real(&options, 1, "0", false, &number));
    assert_true(number == 7);
    assert_true(options_real(&options, 1, "0", true, &number) && number == 0);
    assert_true(options_real(&options, 1, "2.5e-1", false, &number) && number == 0.25);
    fclose(options.errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_may_follow_or_be_joined),
        cmocka_unit_test(after_two_hyphens_everything_is_an_operand),
        cmocka_unit_test(help_has_a_short_form),
        cmocka_unit_test(what_is_wrong_is_said_with_what_is_near),
        cmocka_unit_test(whole_numbers_are_in_their_range),
        cmocka_unit_test(numbers_are_finite_and_above_0),
        cmocka_unit_test(table_is_printed_in_columns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
