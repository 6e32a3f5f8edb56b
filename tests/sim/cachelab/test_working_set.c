#include "support.h"

#include <stdlib.h>

#include "cachelab/working_set.h"

enum { OBJECTS = 500, REQUESTS_MAX = 100000 };

static uint32_t objects[REQUESTS_MAX];
static uint64_t sizes[REQUESTS_MAX];

/* The twin looks at each window by itself. */
static void assert_window(const struct working_set_window *window, uint64_t seed)
{
    bool seen[OBJECTS] = {false};
    bool before[OBJECTS] = {false};
    uint64_t distinct = 0;
    uint64_t fresh = 0;
    uint64_t bytes = 0;

    for (uint64_t i = 0; i < window->from_request; i++)
        before[objects[i]] = true;
    for (uint64_t i = window->from_request; i < window->from_request + window->requests; i++) {
        if (!seen[objects[i]]) {
            distinct++;
            fresh += !before[objects[i]];
            bytes += sizes[i];
        }
        seen[objects[i]] = true;
    }
    if (window->objects != distinct || window->new_objects != fresh || window->bytes != bytes ||
        window->from_ns != (int64_t)window->from_request * 7)
        fail_msg("seed %llu: the window from %llu on has %llu objects, %llu new, %llu bytes; it should %llu, %llu, %llu",
                 (unsigned long long)seed, (unsigned long long)window->from_request, (unsigned long long)window->objects,
                 (unsigned long long)window->new_objects, (unsigned long long)window->bytes, (unsigned long long)distinct,
                 (unsigned long long)fresh, (unsigned long long)bytes);
}

static void windows_are_those_of_a_count_window_by_window(void **state)
{
    (void)state;
    static struct working_set_window windows[WORKING_SET_WINDOWS_MAX];
    static const uint32_t lengths[] = {1, 64, 65, 1000, 16383, 16384, 16385, 32768, 32769, 99999};

    for (size_t round = 0; round < ARRAY_COUNT(lengths); round++) {
        const uint64_t first_seed = test_seed(1) + round;
        uint64_t seed = first_seed;
        uint64_t last[OBJECTS];
        struct working_set *set = NULL;
        uint64_t requests = 0;
        uint32_t count;

        memset(last, 0xff, sizeof(last));
        assert_int_equal(working_set_create(&set), STATUS_OK);
        for (uint32_t i = 0; i < lengths[round]; i++) {
            /* What is asked for drifts. */
            objects[i] = (uint32_t)(draw_below(&seed, 100) + i * (OBJECTS - 100) / lengths[round]);
            sizes[i] = draw_below(&seed, 1000);
            working_set_add(set, last[objects[i]], sizes[i], (int64_t)i * 7);
            last[objects[i]] = i;
        }
        count = working_set_windows(set, windows);
        assert_in_range(count, lengths[round] > 64 * WORKING_SET_WINDOWS_MAX ? WORKING_SET_WINDOWS_MAX / 2 : div_up_u64(lengths[round], 64),
                        WORKING_SET_WINDOWS_MAX);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(windows[i].from_request, requests);
            assert_window(&windows[i], first_seed);
            requests += windows[i].requests;
        }
        assert_int_equal(requests, lengths[round]);
        working_set_free(set);
    }
}

static void a_trace_without_requests_has_no_window(void **state)
{
    (void)state;
    static struct working_set_window windows[WORKING_SET_WINDOWS_MAX];
    struct working_set *set = NULL;

    assert_int_equal(working_set_create(&set), STATUS_OK);
    assert_int_equal(working_set_windows(set, windows), 0);
    working_set_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_those_of_a_count_window_by_window),
        cmocka_unit_test(a_trace_without_requests_has_no_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
