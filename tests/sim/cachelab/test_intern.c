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
    assert_in_range(intern_bytes(intern), 4 * OBJECTS, 32 * OBJECTS);
    intern_free(intern);
}

/* Ids in a row, far apart, at the edges of what a table may hold, and both at once, in batches of any length; its twin looks through a list. */
static uint64_t some_id(uint64_t *seed, uint32_t kind)
{
    switch (kind) {
    case 0: return draw_below(seed, 6000);
    case 1: return draw(seed);
    case 2: return (UINT64_C(1) << draw_below(seed, 64)) + draw_below(seed, 7) - 3;
    case 3: return draw_below(seed, 3000) * 40; /* too rare for a table */
    default: return draw_below(seed, 2) == 0 ? draw_below(seed, 9000) : draw_below(seed, 3000) << 40;
    }
}

static void numbers_are_those_of_a_list(void **state)
{
    (void)state;
    enum { KINDS = 5, IDS = 8000 };
    uint64_t seed = test_seed(2);

    for (uint32_t kind = 0; kind < KINDS; kind++) {
        static uint64_t met[IDS + INTERN_BATCH_MAX];
        struct intern *intern = fresh();
        uint32_t count = 0;

        for (uint32_t done = 0, batch; done < IDS; done += batch) {
            uint64_t ids[INTERN_BATCH_MAX];
            uint32_t numbers[INTERN_BATCH_MAX];

            batch = (uint32_t)draw_below(&seed, INTERN_BATCH_MAX + 1);
            for (uint32_t i = 0; i < batch; i++)
                ids[i] = some_id(&seed, kind);
            assert_int_equal(intern_ids(intern, ids, batch, numbers), STATUS_OK);
            for (uint32_t i = 0; i < batch; i++) {
                uint32_t at = 0;

                while (at < count && met[at] != ids[i])
                    at++;
                if (at == count)
                    met[count++] = ids[i];
                if (numbers[i] != at)
                    fail_msg("kind %u: id %llu has number %u, not %u", kind, (unsigned long long)ids[i], numbers[i], at);
            }
            assert_int_equal(intern_count(intern), count);
        }
        assert_in_range(intern_bytes(intern), 4 * count, 80 * count + (1 << 16));
        intern_free(intern);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_get_numbers_in_the_order_of_their_first_requests),
        cmocka_unit_test(numbers_outlive_growth),
        cmocka_unit_test(numbers_are_those_of_a_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
