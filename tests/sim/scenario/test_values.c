/* Numbers, near names and excerpts. */

#include <stdio.h>

#include "scenario/table.h"
#include "host/words.h"
#include "support.h"

static bool reads_whole(const char *text, uint64_t *ret_whole)
{
    char why[WHY_MAX];
    double value;

    return number_read(text, strlen(text), true, &value, ret_whole, why);
}

static void whole_numbers_are_read_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t whole;
    } good[] = {
        {"0", 0}, {"7", 7}, {"007", 7}, {"+7", 7}, {"12e9", UINT64_C(12000000000)}, {"1.5e3", 1500}, {"1.0", 1}, {"-0", 0},
        {"100e-2", 1}, {"0.5e1", 5}, {"0e999", 0}, {"1E3", 1000}, {"1e+3", 1000}, {"5.", 5}, {".5e1", 5},
        {"9007199254740993", UINT64_C(9007199254740993)}, /* not a double */
        {"999999999999999999", UINT64_C(999999999999999999)}, {"1e18", UINT64_C(1000000000000000000)},
        {"1.000000000000000001e18", UINT64_C(1000000000000000001)},
    };
    static const char *const bad[] = {"1.5", "1e-1", "0.1", "15e-1", "", "-", "e3", "1e", "1e+", ".", "0x1", "1 ", " 1", "1_000",
                                      "1,0", "nan", "inf", "1e999", "--1", "1.2.3", "1e3.0"};
    uint64_t whole;

    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        if (!reads_whole(good[i].text, &whole) || whole != good[i].whole)
            fail_msg("%s: %llu, not %llu", good[i].text, (unsigned long long)whole, (unsigned long long)good[i].whole);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        if (reads_whole(bad[i], &whole))
            fail_msg("`%s` was taken for %llu", bad[i], (unsigned long long)whole);
    }
}

static void whole_numbers_agree_with_their_printing(void **state)
{
    (void)state;
    const uint64_t seed = test_seed(3);
    uint64_t random = seed;

    for (uint32_t i = 0; i < 20000; i++) {
        uint64_t value = draw(&random) >> draw_below(&random, 64);
        uint32_t zeros = (uint32_t)draw_below(&random, 4);
        char text[64];
        uint64_t whole;

        value %= UINT64_C(1000000000000000);
        snprintf(text, sizeof(text), "%llue%u", (unsigned long long)value, zeros);
        for (uint32_t j = 0; j < zeros; j++)
            value *= 10;
        if (!reads_whole(text, &whole) || whole != value)
            fail_msg("seed %llu: %s is %llu, not %llu", (unsigned long long)seed, text, (unsigned long long)whole,
                     (unsigned long long)value);
    }
}

static void numbers_are_read_as_strtod_does_or_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"nan", "NaN", "inf", "-inf", "infinity", "0x10", "0x1p3", "1e400", "-1e400", "", "a", "1a",
                                      "1e3e3", "1 2"};
    char why[WHY_MAX];
    double value;
    uint64_t unused;

    assert_true(number_read("-1.25e-3", 8, false, &value, &unused, why));
    assert_true(value == -1.25e-3);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        if (number_read(bad[i], strlen(bad[i]), false, &value, &unused, why))
            fail_msg("`%s` was taken for %g", bad[i], value);
    }
}

static void numbers_are_written_as_people_do(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"}, {-1, "-1"}, {0.25, "0.25"}, {1048576, "1048576"}, {12e9, "1.2e10"}, {1e18, "1e18"}, {1e-6, "1e-6"},
                 {1e100, "1e100"}, {-1e-30, "-1e-30"}};
    char text[NUMBER_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_string_equal(number_text(cases[i].value, text), cases[i].text);
}

static const char *nearest(const char *wanted)
{
    static const char *const names[] = {"replicas", "rows_max", "slots_bytes", "slots_count", "tp", "duration_s"};
    static struct suggestion suggestion;

    suggestion_begin(&suggestion, wanted, strlen(wanted));
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        suggest(&suggestion, names[i], strlen(names[i]));
    return suggestion_answer(&suggestion);
}

static void near_names_are_slips_swaps_and_forgotten_units(void **state)
{
    (void)state;
    assert_string_equal(nearest("replica"), "replicas");
    assert_string_equal(nearest("rpelicas"), "replicas");
    assert_string_equal(nearest("rows-max"), "rows_max");
    assert_string_equal(nearest("slots_byte"), "slots_bytes");
    assert_string_equal(nearest("duration"), "duration_s");
    assert_string_equal(nearest("pt"), "tp");
    assert_null(nearest("gpu"));
    assert_null(nearest(""));
    assert_null(nearest("a_name_that_is_much_longer_than_any_key_and_than_the_table_of_distances_is"));
}

static void excerpts_end_at_a_character(void **state)
{
    (void)state;
    char text[400];
    char shown[EXCERPT_MAX];

    for (size_t i = 0; i + 1 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    excerpt(text, sizeof(text), shown);
    assert_int_equal(strlen(shown), EXCERPT_MAX - 8 + 3);
    excerpt(text + 1, 200, shown);
    assert_string_equal(shown + strlen(shown) - 5, "\xc3\xa4...");
    assert_string_equal(excerpt("a\nb\tc", 5, shown), "a b c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_read_exactly),
        cmocka_unit_test(whole_numbers_agree_with_their_printing),
        cmocka_unit_test(numbers_are_read_as_strtod_does_or_refused),
        cmocka_unit_test(numbers_are_written_as_people_do),
        cmocka_unit_test(near_names_are_slips_swaps_and_forgotten_units),
        cmocka_unit_test(excerpts_end_at_a_character),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
