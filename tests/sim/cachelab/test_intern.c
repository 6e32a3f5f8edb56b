#include "support.h"

#include "cachelab/intern.h"

static struct intern *fresh(void)
{
    struct intern *intern = NULL;

    assert_int_equal(intern_create(&intern), STATUS_OK);
    return intern;
}

static void ids_get_numbers_in_the_order_of_their_first_requests(void **state)
{
    (void)state;
    struct intern *intern = fresh();
    const uint64_t ids[] = {7, 0, UINT64_MAX, 7, 0, 8};
    const uint32_t wanted[] = {0, 1, 2, 0, 1, 3};
    uint32_t numbers[ARRAY_COUNT(ids)];

    assert_int_equal(intern_ids(intern, ids, ARRAY_COUNT(ids), numbers), STATUS_OK);
    assert_memory_equal(numbers, wanted, sizeof(wanted));
    assert_int_equal(intern_count(intern), 4);
    intern_free(intern);
}

/* The twin is arithmetic: id 3 k is new as the k-th, and asked for again in some other order. */
static void numbers_outlive_growth(void **state)
{
    (void)state;
    enum { OBJECTS = 100000 };
    struct intern *intern = fresh();
    uint64_t seed = test_seed(1);

    for (uint32_t from = 0; from < OBJECTS; from += 100) {
        uint64_t ids[200];
        uint32_t numbers[200];

        for (uint32_t i = 0; i < 100; i++) {
            ids[i] = (uint64_t)(from + i) * 3;
            ids[100 + i] = draw_below(&seed, from + 100) * 3;
        }
        assert_int_equal(intern_ids(intern, ids, 200, numbers), STATUS_OK);
        for (uint32_t i = 0; i < 200; i++)
            if (numbers[i] != ids[i] / 3)
                fail_msg("id %llu has number %u", (unsigned long long)ids[i], numbers[i]);
    }
    assert_int_equal(intern_count(intern), OBJECTS);
    assert_in_range(intern_bytes(intern), 24 * OBJECTS, 48 * OBJECTS);
    intern_free(intern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_get_numbers_in_the_order_of_their_first_requests),
        cmocka_unit_test(numbers_outlive_growth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
