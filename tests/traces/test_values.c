/* Texts to integers against naive twins: days counted one by one, decimals from integers, JSON by jansson. */
#include "reading.h"
#include "support.h"

#include <stdlib.h>

#include <jansson.h>

static void datetimes_agree_with_counting_the_days(void **state)
{
    (void)state;
    static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t day_count = 0;

    for (int year = 1970; year < 2200; year++) {
        bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

        for (int month = 1; month <= 12; month++) {
            int days = month_days[month - 1] + (month == 2 && leap);
            char text[64];
            int64_t at_ns;

            for (int day = 1; day <= days; day++, day_count++) {
                snprintf(text, sizeof(text), "%04d-%02d-%02d 23:59:59", year, month, day);
                assert_null(value_datetime_ns(text, strlen(text), &at_ns));
                if (at_ns != (day_count * 86400 + 86399) * NS_PER_S)
                    fail_msg("%s gave %lld", text, (long long)at_ns);
            }
            snprintf(text, sizeof(text), "%04d-%02d-%02d 00:00:00", year, month, days + 1);
            assert_string_equal(value_datetime_ns(text, strlen(text), &at_ns), "is a day that does not exist");
        }
    }
}

static void datetimes_have_up_to_nine_digits_of_fraction(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t fraction_ns;
    } cases[] = {
        {"1970-01-01 00:00:00", 0},
        {"1970-01-01T00:00:00.5", 500000000},
        {"1970-01-01 00:00:00.000000001", 1},
        {"1970-01-01 00:00:00.6805900", 680590000},
        {"1970-01-01 00:00:00.999999999Z", 999999999},
        {"1970-01-01 00:00:00.1+00:00", 100000000},
    };
    static const char *const refused[] = {
        "1970-01-01 00:00:00.", "1970-01-01 00:00:00.0000000001", "1970-01-01 00:00", "1970-01-01", "1970-1-1 0:0:0",
        "1969-12-31 23:59:59", "2200-01-01 00:00:00", "1970-00-01 00:00:00", "1970-13-01 00:00:00", "1970-01-00 00:00:00",
        "1970-01-01 24:00:00", "1970-01-01 00:60:00", "1970-01-01 00:00:60", "1970-01-01 00:00:00 ", " 1970-01-01 00:00:00",
        "1970-01-01 00:00:00+01:00", "1970-01-01 00:00:00-00:00", "1970-01-01 00:00:00ZZ", "1970-01-01 00:00:00.5 UTC", "",
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t at_ns;
        const char *problem = value_datetime_ns(cases[i].text, strlen(cases[i].text), &at_ns);

        if (problem != NULL || at_ns != cases[i].fraction_ns)
            fail_msg("%s: %s, %lld", cases[i].text, problem != NULL ? problem : "good", (long long)at_ns);
    }
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        int64_t at_ns;

        if (value_datetime_ns(refused[i], strlen(refused[i]), &at_ns) == NULL)
            fail_msg("'%s' was taken", refused[i]);
    }
}

static void decimals_are_rounded_half_up_to_a_nanosecond(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int unit_digits;
        int64_t at_ns;
    } cases[] = {
        {"0", 9, 0}, {"1", 9, 1000000000}, {"0.1", 9, 100000000}, {"0.30000000000000004", 9, 300000000},
        {"1700000000.123456789", 9, INT64_C(1700000000123456789)}, {"1700000000.1234567895", 9, INT64_C(1700000000123456790)},
        {"1700000000.12345678949999999999999999999999", 9, INT64_C(1700000000123456789)}, {"0.4999999999", 0, 0},
        {"0.5", 0, 1}, {"1.5e3", 9, INT64_C(1500000000000)}, {"1E-9", 9, 1}, {"4e-10", 9, 0}, {"5e-10", 9, 1},
        {"1e-999999999999", 9, 0}, {"0e999999999999", 9, 0}, {"27482", 6, INT64_C(27482000000)},
        {"0000000000000000000000000000000000000000000001", 3, 1000}, {"7258118400", 9, TIME_MAX_NS},
        {"0.00000000000000000000000000000000000000000000001e47", 0, 1},
        {"7258118400000000000.49", 0, TIME_MAX_NS}, {"1e+2", 0, 100},
    };
    static const char *const refused[] = {"", "-1", "+1", ".5", "5.", "1e", "1e+", "1.5.5", "0x10", "1 ", " 1", "nan", "inf",
                                          "1,5", "7258118400.0000000005", "1e999999999999", "99999999999999999999999999999999999999999"};

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t at_ns = -1;
        const char *problem = value_decimal_ns(cases[i].text, strlen(cases[i].text), cases[i].unit_digits, &at_ns);

        if (problem != NULL || at_ns != cases[i].at_ns)
            fail_msg("%s: %s, %lld", cases[i].text, problem != NULL ? problem : "good", (long long)at_ns);
    }
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        int64_t at_ns;

        if (value_decimal_ns(refused[i], strlen(refused[i]), 9, &at_ns) == NULL)
            fail_msg("'%s' was taken", refused[i]);
    }
}

static void decimals_give_back_the_nanoseconds_they_were_written_from(void **state)
{
    (void)state;
    uint64_t seed = test_seed(4);
    uint64_t random = seed;

    for (int i = 0; i < 100000; i++) {
        int64_t wanted = (int64_t)draw_below(&random, (uint64_t)TIME_MAX_NS);
        int64_t got = -1;
        char text[48];

        snprintf(text, sizeof(text), "%lld.%09lld", (long long)(wanted / NS_PER_S), (long long)(wanted % NS_PER_S));
        if (value_decimal_ns(text, strlen(text), 9, &got) != NULL || got != wanted)
            fail_msg("seed %llu: %s gave %lld", (unsigned long long)seed, text, (long long)got);
    }
}

static void counts_are_whole_and_bounded(void **state)
{
    (void)state;
    uint32_t count;

    assert_null(value_count("63.0", 4, 100, &count));
    assert_int_equal(count, 63);
    assert_null(value_count("100.000", 7, 100, &count));
    assert_int_equal(count, 100);
    assert_null(value_count("4294967295", 10, UINT32_MAX, &count));
    assert_int_equal(count, UINT32_MAX);
    assert_string_equal(value_count("4294967296", 10, UINT32_MAX, &count), "is absurdly large");
    assert_string_equal(value_count("18446744073709551617", 20, UINT32_MAX, &count), "is absurdly large");
    assert_string_equal(value_count("101", 3, 100, &count), "is absurdly large");
    assert_string_equal(value_count("63.01", 5, 100, &count), "is not a whole number");
    assert_string_equal(value_count("63.", 3, 100, &count), "is not a number");
    assert_string_equal(value_count("6e1", 3, 100, &count), "is not a number");
    assert_string_equal(value_count("-0", 2, 100, &count), "is negative");
    assert_string_equal(value_count("", 0, 100, &count), "is empty");
}

/* jansson builds the values, we do not; both must agree on what is an object. */
static void assert_json_agrees(const char *text, size_t length, uint64_t seed)
{
    static const char *const keys[] = {"timestamp", "input_length"};
    struct json_value values[ARRAY_COUNT(keys)];
    const char *problem = "none";
    size_t offset;
    bool ours = json_find(text, length, keys, ARRAY_COUNT(keys), values, &problem, &offset);
    json_error_t error;
    json_t *theirs = json_loadb(text, length, 0, &error);
    bool taken = json_is_object(theirs);

    json_decref(theirs);
    /* Twins among the wanted keys are ours to refuse; numbers too large for a machine theirs. */
    if (ours == taken || (taken && strcmp(problem, "a key that stands there twice") == 0) ||
        (ours && json_error_code(&error) == json_error_numeric_overflow))
        return;
    fail_msg("seed %llu: ours %d (%s), jansson %d (%s): %s", (unsigned long long)seed, ours, problem, taken, error.text,
             quote(text, length).text);
}

static void json_agrees_with_jansson_on_broken_objects(void **state)
{
    (void)state;
    static const char start[] = "{\"timestamp\": 12.5e+3, \"input_length\":[0, -1, {\"a\\u00e9\\ud83d\\ude00\": [true, false, null]}],"
                                "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\\n\\\"\" : \"x\", \"o\": {}, \"e\": [] } ";
    static const char spice[] = "{}[]\",:\\u0123456789abcdefdD8eE+-.ntrlsu \t\x80\xc3\xf0\x9f\xed\xa0\x01";
    uint64_t seed = test_seed(5);
    uint64_t random = seed;

    assert_json_agrees(start, sizeof(start) - 1, seed);
    for (int i = 0; i < 60000; i++) {
        char text[sizeof(start) + 8];
        size_t length = sizeof(start) - 1;

        memcpy(text, start, sizeof(start));
        for (uint64_t changes = 1 + draw_below(&random, 3); changes > 0; changes--) {
            size_t at = (size_t)draw_below(&random, length);
            char c = spice[draw_below(&random, sizeof(spice) - 1)];

            switch (draw_below(&random, 4)) {
            case 0: length = draw_below(&random, 8) == 0 ? at + 1 : length; break;
            case 1: memmove(text + at, text + at + 1, length - at - 1); length -= length > 1; break;
            case 2: memmove(text + at + 1, text + at, length - at); text[at] = c; length++; break;
            default: text[at] = c; break;
            }
        }
        assert_json_agrees(text, length, seed);
    }
}

static void json_finds_keys_of_the_outer_object_only(void **state)
{
    (void)state;
    static const char *const keys[] = {"a", "b", "c"};
    static const char text[] = "{\"x\": {\"a\": 1}, \"b\" : [1, {\"a\": 2}] , \"a\":\"text\"}";
    struct json_value values[3];
    const char *problem;
    size_t offset;

    assert_true(json_find(text, strlen(text), keys, 3, values, &problem, &offset));
    assert_int_equal(values[0].kind, 's');
    assert_memory_equal(values[0].text, "\"text\"", values[0].length);
    assert_int_equal(values[1].kind, 'a');
    assert_int_equal(values[1].length, strlen("[1, {\"a\": 2}]"));
    assert_null(values[2].text);
}

static void json_nesting_is_bounded(void **state)
{
    (void)state;
    char text[200001];
    struct json_value value;
    static const char *const keys[] = {"a"};
    const char *problem;
    size_t offset;

    memset(text, '[', sizeof(text));
    memcpy(text, "{\"a\":", 5);
    assert_false(json_find(text, sizeof(text), keys, 1, &value, &problem, &offset));
    assert_string_equal(problem, "more than 64 levels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(datetimes_agree_with_counting_the_days),
        cmocka_unit_test(datetimes_have_up_to_nine_digits_of_fraction),
        cmocka_unit_test(decimals_are_rounded_half_up_to_a_nanosecond),
        cmocka_unit_test(decimals_give_back_the_nanoseconds_they_were_written_from),
        cmocka_unit_test(counts_are_whole_and_bounded),
        cmocka_unit_test(json_agrees_with_jansson_on_broken_objects),
        cmocka_unit_test(json_finds_keys_of_the_outer_object_only),
        cmocka_unit_test(json_nesting_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
