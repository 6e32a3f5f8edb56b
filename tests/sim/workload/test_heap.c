#include "support.h"

#include <stdio.h>

#include "workload/heap.h"
#include "workload/names.h"

struct item {
    int64_t at_ns;
    uint32_t tie;
    uint32_t zero;
};

static bool item_before(const void *a, const void *b)
{
    const struct item *x = a;
    const struct item *y = b;

    return x->at_ns != y->at_ns ? x->at_ns < y->at_ns : x->tie < y->tie;
}

static void heap_gives_the_first_of_an_array(void **state)
{
    (void)state;
    enum { ROOM = 64 };
    uint64_t random = test_seed(31);
    struct item twin[ROOM];
    uint32_t count = 0;
    struct heap heap;

    assert_int_equal(heap_open(&heap, ROOM, sizeof(struct item), item_before), STATUS_OK);
    assert_null(heap_top(&heap));
    for (uint32_t turn = 0; turn < 100000; turn++) {
        if (count < ROOM && (count == 0 || draw_below(&random, 2) == 0)) {
            struct item item = {.at_ns = (int64_t)draw_below(&random, 20), .tie = (uint32_t)draw_below(&random, 1000)};

            twin[count++] = item;
            heap_push(&heap, &item);
        } else {
            uint32_t first = 0;
            struct item got;

            for (uint32_t i = 1; i < count; i++) {
                if (item_before(&twin[i], &twin[first]))
                    first = i;
            }
            assert_memory_equal(heap_top(&heap), &twin[first], sizeof(got));
            heap_pop(&heap, &got);
            assert_memory_equal(&got, &twin[first], sizeof(got));
            twin[first] = twin[--count];
        }
        assert_int_equal(heap.count, count);
    }
    heap_close(&heap);
}

static void push_two(void *heap)
{
    const struct item item = {0};

    heap_push(heap, &item);
    heap_push(heap, &item);
}

static void heap_stops_when_more_is_pushed_than_it_holds(void **state)
{
    (void)state;
    struct heap heap;

    assert_int_equal(heap_open(&heap, 1, sizeof(struct item), item_before), STATUS_OK);
    assert_true(check_stops(push_two, &heap));
    heap_close(&heap);
}

static void names_are_numbered_by_appearance(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    uint64_t random = test_seed(32);
    uint32_t numbers[COUNT];
    uint32_t count = 0;
    struct names names = {0};
    char name[TRACE_ID_MAX];

    memset(numbers, 0xff, sizeof(numbers));
    for (uint32_t turn = 0; turn < 50000; turn++) {
        uint32_t which = (uint32_t)draw_below(&random, COUNT);
        uint32_t got;

        snprintf(name, sizeof(name), "G%u", which);
        assert_int_equal(names_number(&names, name, &got), STATUS_OK);
        if (numbers[which] == NONE_INDEX)
            numbers[which] = count++;
        assert_int_equal(got, numbers[which]);
        assert_int_equal(names.count, count);
        assert_string_equal(names.texts[got], name);
    }
    names_close(&names);
}

static void more_names_than_the_bound_are_refused(void **state)
{
    (void)state;
    struct names names = {0};
    char name[TRACE_ID_MAX];
    uint32_t got = 7;

    for (uint32_t i = 0; i < NAMES_MAX; i++) {
        snprintf(name, sizeof(name), "%u", i);
        assert_int_equal(names_number(&names, name, &got), STATUS_OK);
    }
    assert_int_equal(names_number(&names, "one more", &got), STATUS_FULL);
    assert_int_equal(got, NAMES_MAX - 1);
    assert_int_equal(names_number(&names, "0", &got), STATUS_OK);
    assert_int_equal(got, 0);
    names_close(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_gives_the_first_of_an_array),
        cmocka_unit_test(heap_stops_when_more_is_pushed_than_it_holds),
        cmocka_unit_test(names_are_numbered_by_appearance),
        cmocka_unit_test(more_names_than_the_bound_are_refused),
    };

    return cmocka_run_group_tests_name("heap and names", tests, NULL, NULL);
}
