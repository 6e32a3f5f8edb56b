/* The table of hashes against what it is told, and against who would make it slow. */
#include "validate/twins.h"

#include "base/hash.h"
#include "support.h"

static void the_first_line_of_a_hash_is_found(void **state)
{
    struct twins twins = {.count_max = 3000};

    (void)state;
    assert_null(twins_find(&twins, 7));
    for (int32_t i = 1; i <= 3000; i++) {
        assert_null(twins_find(&twins, hash_mix((uint64_t)i)));
        assert_true(twins_add(&twins, hash_mix((uint64_t)i), (uint32_t)i * 3, i));
    }
    assert_false(twins_add(&twins, hash_mix(3001), 0, 3001));
    for (int32_t i = 1; i <= 3000; i++) {
        assert_int_equal(twins_find(&twins, hash_mix((uint64_t)i))->line, i);
        assert_int_equal(twins_find(&twins, hash_mix((uint64_t)i))->other, i * 3);
    }
    assert_null(twins_find(&twins, hash_mix(3001)));
    twins_free(&twins);
}

/* All of them want one place; the rest of the file is not compared rather than waited for. */
static void hashes_that_end_alike_cost_no_more(void **state)
{
    struct twins twins = {.count_max = 1 << 20};
    int32_t added = 0;

    (void)state;
    for (int32_t i = 1; i <= 200000; i++)
        added += twins_add(&twins, (uint64_t)i << 32 | 7, 0, i);
    assert_true(added >= 1024 && added < 2048);
    assert_int_equal(twins_find(&twins, UINT64_C(1) << 32 | 7)->line, 1);
    assert_null(twins_find(&twins, UINT64_C(200000) << 32 | 7));
    assert_true(twins_add(&twins, 99999, 0, 5));
    assert_int_equal(twins_find(&twins, 99999)->line, 5);
    twins_free(&twins);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_line_of_a_hash_is_found),
        cmocka_unit_test(hashes_that_end_alike_cost_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
