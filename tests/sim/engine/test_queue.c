#include "engine/queue.h"
#include "engine/slots.h"
#include "support.h"

#include <stdlib.h>

static int by_order(const void *a, const void *b)
{
    const struct queue_entry *x = a;
    const struct queue_entry *y = b;

    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return x->ordinal < y->ordinal ? -1 : x->ordinal > y->ordinal;
}

static void entries_come_in_total_order_however_they_went_in(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    uint64_t random = test_seed(4);
    struct queue_entry *twin = malloc(COUNT * sizeof(*twin));
    struct queue queue;

    queue_init(&queue, 2);
    for (uint32_t i = 0; i < COUNT; i++) {
        twin[i] = (struct queue_entry){.at_ns = (int64_t)draw_below(&random, 50),
                                       .order = queue_order((enum queue_class)draw_below(&random, 5), (uint32_t)draw_below(&random, 3)),
                                       .payload = i,
                                       .ordinal = i};
        queue_push(&queue, twin[i]);
    }
    qsort(twin, COUNT, sizeof(*twin), by_order);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(queue_pop(&queue).ordinal, twin[i].ordinal);
    assert_int_equal(queue.count, 0);
    queue_free(&queue);
    free(twin);
}

static void pop_empty(void *queue)
{
    (void)queue_pop(queue);
}

static void popping_an_empty_queue_is_a_mistake(void **state)
{
    (void)state;
    struct queue queue;

    queue_init(&queue, 1);
    assert_true(check_stops(pop_empty, &queue));
    queue_free(&queue);
}

static void slots_are_the_lowest_free(void **state)
{
    (void)state;
    const uint32_t sizes[] = {1, 63, 64, 65, 4096, 5000};
    uint64_t random = test_seed(5);

    for (size_t s = 0; s < ARRAY_COUNT(sizes); s++) {
        uint32_t count = sizes[s];
        bool *taken = calloc(count, sizeof(*taken));
        struct slots slots;

        slots_init(&slots, count);
        for (uint32_t turn = 0; turn < 20000; turn++) {
            uint32_t lowest = 0;

            while (lowest < count && taken[lowest])
                lowest++;
            if (draw_below(&random, 5) < 3) {
                uint32_t got = slots_take(&slots);

                assert_int_equal(got, lowest == count ? NONE_INDEX : lowest);
                if (got != NONE_INDEX)
                    taken[got] = true;
            } else {
                uint32_t slot = (uint32_t)draw_below(&random, min_u32(count, lowest + 4));

                if (taken[slot]) {
                    taken[slot] = false;
                    slots_give(&slots, slot);
                }
            }
        }
        slots_free(&slots);
        free(taken);
    }
}

static void give_free(void *slots)
{
    slots_give(slots, 3);
}

static void giving_a_free_slot_is_a_mistake(void **state)
{
    (void)state;
    struct slots slots;

    slots_init(&slots, 10);
    assert_true(check_stops(give_free, &slots));
    slots_free(&slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_in_total_order_however_they_went_in),
        cmocka_unit_test(popping_an_empty_queue_is_a_mistake),
        cmocka_unit_test(slots_are_the_lowest_free),
        cmocka_unit_test(giving_a_free_slot_is_a_mistake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
