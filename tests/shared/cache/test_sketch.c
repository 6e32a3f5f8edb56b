/* Counts and names that are approximate: what they may get wrong, how often, and that they grow without forgetting. */
#include "cache/sketch.h"
#include "policy/policy.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>

static void *zeros(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

    memset(memory, 0, bytes);
    return memory;
}

enum { NAMES = 4096 };

/* Counts are never too low, and seldom too high: `period` uses drawn from a Zipf law, as many entries as a tenth of them. */
static void estimates_are_never_too_low_and_seldom_too_high(void **state)
{
    struct sketch *sketch = zeros(sketch_bytes(NAMES / 10));
    static uint32_t counts[NAMES];
    uint64_t random = test_seed(2);
    uint32_t wrong = 0;

    (void)state;
    sketch_begin(sketch, NAMES / 10);
    for (uint32_t i = 0; i < NAMES; i++) {
        const uint64_t name = (uint64_t)exp(draw_unit(&random) * log(NAMES)); /* p(name) ~ 1 / name */

        sketch_add(sketch, name, UINT64_MAX);
        counts[name % NAMES]++;
    }
    for (uint64_t name = 1; name < NAMES; name++) {
        const uint32_t estimate = sketch_estimate(sketch, name);

        assert_true(estimate >= min_u32(counts[name], SKETCH_MAX));
        wrong += estimate > min_u32(counts[name], SKETCH_MAX);
    }
    assert_true(wrong < NAMES / 50);
    free(sketch);
}

static void a_period_halves_all_counts_and_the_number_of_uses(void **state)
{
    struct sketch *sketch = zeros(sketch_bytes(1));

    (void)state;
    sketch_begin(sketch, 1);
    for (uint32_t i = 0; i < 9; i++)
        sketch_add(sketch, 5, 12);
    sketch_add(sketch, 6, 12);
    sketch_add(sketch, 6, 12);
    assert_int_equal(sketch_estimate(sketch, 5), 9);
    assert_int_equal(sketch_estimate(sketch, 6), 2);
    assert_int_equal(sketch_estimate(sketch, 7), 0);
    sketch_add(sketch, 6, 12); /* the twelfth */
    assert_int_equal(sketch_estimate(sketch, 5), 4);
    assert_int_equal(sketch_estimate(sketch, 6), 1);
    assert_int_equal(sketch->additions, 6);
    for (uint32_t i = 0; i < 40; i++)
        sketch_add(sketch, 5, UINT64_MAX);
    assert_int_equal(sketch_estimate(sketch, 5), SKETCH_MAX);
    free(sketch);
}

static void a_larger_sketch_knows_what_the_smaller_did(void **state)
{
    struct sketch *small = zeros(sketch_bytes(100));
    struct sketch *large = zeros(sketch_bytes(5000));
    uint64_t random = test_seed(4);

    (void)state;
    assert_int_equal(sketch_bytes(1), sketch_bytes(SKETCH_ENTRIES_MIN));
    sketch_begin(small, 100);
    for (uint32_t i = 0; i < 2000; i++)
        sketch_add(small, draw_below(&random, 300), 1000);
    sketch_grow(large, 5000, small);
    assert_int_equal(large->additions, small->additions);
    for (uint64_t name = 0; name < 1000; name++)
        assert_int_equal(sketch_estimate(large, name), sketch_estimate(small, name));
    free(small);
    free(large);
}

static void a_name_is_remembered_for_a_turn_and_forgotten_after_two(void **state)
{
    const uint32_t entries = 256, turn = 16 * entries;
    struct bloom *bloom = zeros(bloom_bytes(entries));
    struct bloom *larger = zeros(bloom_bytes(4 * entries));
    struct bloom *asked = zeros(bloom_bytes(entries));
    uint32_t wrong = 0;

    (void)state;
    bloom_begin(bloom, entries);
    for (uint64_t name = 0; name < 10 * turn; name++)
        wrong += bloom_add(bloom, name, turn);
    assert_true(wrong < 10 * turn / 20); /* each was new, and up to two turns of others were there */
    bloom_grow(larger, 4 * entries, bloom);
    for (uint64_t name = 0; name < 10 * turn; name++) {
        memcpy(asked, bloom, bloom_bytes(entries)); /* asking adds */
        if (name < 10 * turn - turn && name % 16 != 0)
            continue;
        if (name >= 10 * turn - turn) {
            assert_true(bloom_add(asked, name, UINT64_MAX));
            assert_true(bloom_add(larger, name, UINT64_MAX));
        } else if (name < 10 * turn - 3 * turn) {
            wrong += bloom_add(asked, name, UINT64_MAX);
        }
    }
    assert_true(wrong < 10 * turn / 20 + 7 * turn / 16 / 12);
    free(bloom);
    free(larger);
    free(asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_are_never_too_low_and_seldom_too_high),
        cmocka_unit_test(a_period_halves_all_counts_and_the_number_of_uses),
        cmocka_unit_test(a_larger_sketch_knows_what_the_smaller_did),
        cmocka_unit_test(a_name_is_remembered_for_a_turn_and_forgotten_after_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
