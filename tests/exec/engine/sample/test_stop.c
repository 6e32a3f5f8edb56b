#include <stdlib.h>

#include "engine/sample/stop.h"
#include "support.h"

static void scan_of(struct stop_scan *scan, const char *const *strings, uint32_t count)
{
    stop_init(scan);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(stop_add(scan, strings[i], strlen(strings[i])), STATUS_OK);
}

/* Feeds pieces of the given sizes over and over; returns all that came out. */
static bool run(struct stop_scan *scan, const char *text, size_t piece, char *ret_out)
{
    size_t length = strlen(text);
    const char *out;
    size_t bytes;

    ret_out[0] = '\0';
    for (size_t at = 0; at < length; at += piece) {
        bool stopped = stop_feed(scan, text + at, at + piece < length ? piece : length - at, &out, &bytes);

        strncat(ret_out, out, bytes);
        if (stopped)
            return true;
    }
    stop_flush(scan, &out, &bytes);
    strncat(ret_out, out, bytes);
    return false;
}

static void text_before_the_earliest_stop_goes_out(void **context)
{
    static const char *const strings[] = {"END", "\n\n", "ENDING of it"};
    char out[256];

    (void)context;
    for (size_t piece = 1; piece < 20; piece++) {
        struct stop_scan scan;

        scan_of(&scan, strings, 3);
        assert_true(run(&scan, "one EN two ENDING of it", piece, out));
        assert_string_equal(out, "one EN two ");
        scan_of(&scan, strings, 3);
        assert_true(run(&scan, "a\nb\n\nEND", piece, out));
        assert_string_equal(out, "a\nb");
        scan_of(&scan, strings, 3);
        assert_false(run(&scan, "nothing of it, EN", piece, out));
        assert_string_equal(out, "nothing of it, EN");
    }
}

static void what_may_become_a_stop_is_held(void **context)
{
    static const char *const strings[] = {"abab!"};
    struct stop_scan scan;
    const char *out;
    size_t bytes;

    (void)context;
    scan_of(&scan, strings, 1);
    assert_false(stop_feed(&scan, "xabab", 5, &out, &bytes));
    assert_int_equal(bytes, 1);
    assert_false(stop_feed(&scan, "ab", 2, &out, &bytes));
    assert_int_equal(bytes, 2); /* the first "ab" cannot any more, "abab" can */
    assert_true(stop_feed(&scan, "!", 1, &out, &bytes));
    assert_int_equal(bytes, 0);
}

static void random_texts_agree_with_a_search(void **context)
{
    uint64_t state = 9;

    (void)context;
    for (int round = 0; round < 3000; round++) {
        char text[80] = "";
        char stops[2][8] = {"", ""};
        const char *strings[2] = {stops[0], stops[1]};
        char out[256];
        struct stop_scan scan;
        size_t earliest;

        for (size_t i = 0; i + 1 < sizeof(text) && i < draw(&state) % 79; i++)
            text[i] = (char)('a' + draw(&state) % 2), text[i + 1] = '\0';
        for (int s = 0; s < 2; s++)
            for (size_t i = 0; i < 1 + draw(&state) % 6; i++)
                stops[s][i] = (char)('a' + draw(&state) % 2), stops[s][i + 1] = '\0';
        earliest = strlen(text);
        for (int s = 0; s < 2; s++) {
            const char *at = strstr(text, stops[s]);

            if (at != NULL && (size_t)(at - text) < earliest)
                earliest = (size_t)(at - text);
        }
        scan_of(&scan, strings, 2);
        (void)run(&scan, text, 1, out);
        /* One letter at a time, the stop that ends first wins; it never lets out more than the search would. */
        assert_true(strncmp(out, text, strlen(out)) == 0);
        assert_true(strstr(out, stops[0]) == NULL && strstr(out, stops[1]) == NULL);
        if (earliest == strlen(text))
            assert_string_equal(out, text);
    }
}

static void bad_strings_are_refused(void **context)
{
    struct stop_scan scan;
    char longest[STOP_BYTES_MAX + 1] = "";

    (void)context;
    stop_init(&scan);
    assert_int_equal(stop_add(&scan, "", 0), STATUS_INVALID);
    assert_int_equal(stop_add(&scan, longest, sizeof(longest)), STATUS_INVALID);
    for (int i = 0; i < STOPS_MAX; i++)
        assert_int_equal(stop_add(&scan, "x", 1), STATUS_OK);
    assert_int_equal(stop_add(&scan, "x", 1), STATUS_FULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_before_the_earliest_stop_goes_out),
        cmocka_unit_test(what_may_become_a_stop_is_held),
        cmocka_unit_test(random_texts_agree_with_a_search),
        cmocka_unit_test(bad_strings_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
