/* The break-even of merged weights: a worked example, its meaning checked against the costs it was derived from, the edges. */
#include "model/merge.h"
#include "support.h"

/* 32 rows, 12.5 ms with LoRA, 10 ms without: 2,560 tokens a second fill a replica of the pool; merged it is busy for four
 * fifths of its time then, carries 3,200, and full it does the work of one and a quarter. */
static void worked_example_is_exact(void **state)
{
    (void)state;
    const struct merge_steps steps = {.rows = 32, .step_lora_ns = 12500000, .step_merged_ns = 10000000};

    assert_int_equal(merge_break_even_milli(&steps), 2560000);
    assert_int_equal(merge_carries_milli(&steps), 3200000);
    assert_int_equal(merge_saves_ppm(&steps, 2560000), 0);
    assert_int_equal(merge_saves_ppm(&steps, 3200000), 250000);
    assert_int_equal(merge_saves_ppm(&steps, 0), -1000000);
    assert_int_equal(merge_saves_ppm(&steps, 1280000), -500000);
    /* What one replica does not carry stays in the pool and saves nothing. */
    assert_int_equal(merge_saves_ppm(&steps, 9000000), 250000);
}

static void where_lora_costs_nothing_merging_only_breaks_even_when_full(void **state)
{
    (void)state;
    const struct merge_steps steps = {.rows = 8, .step_lora_ns = 5000000, .step_merged_ns = 5000000};

    assert_int_equal(merge_break_even_milli(&steps), merge_carries_milli(&steps));
    assert_int_equal(merge_saves_ppm(&steps, merge_carries_milli(&steps)), 0);
}

/* At the break-even the time that LoRA no longer takes in the pool is the time that the new replica stands idle. */
static void what_is_saved_is_what_is_wasted(void **state)
{
    (void)state;
    uint64_t random = test_seed(8);

    for (uint32_t i = 0; i < 100000; i++) {
        struct merge_steps steps = {.rows = 1 + (uint32_t)draw_below(&random, 512),
                                    .step_merged_ns = 1000000 + (int64_t)draw_below(&random, 50000000)};
        double tokens_per_s;
        double saved;
        double wasted;

        steps.step_lora_ns = steps.step_merged_ns + (int64_t)draw_below(&random, 20000000);
        tokens_per_s = (double)merge_break_even_milli(&steps) * 1e-3;
        saved = tokens_per_s * (double)(steps.step_lora_ns - steps.step_merged_ns) * 1e-9 / steps.rows;
        wasted = 1 - tokens_per_s * (double)steps.step_merged_ns * 1e-9 / steps.rows;
        if (saved - wasted < -1e-9 || saved - wasted > 1e-3 * (double)steps.step_lora_ns * 1e-9 + 1e-9)
            fail_msg("draw %u: saves %.12g of a replica, wastes %.12g", i, saved, wasted);
        if (merge_break_even_milli(&steps) >= 2 && merge_saves_ppm(&steps, merge_break_even_milli(&steps) - 2) >= 0)
            fail_msg("draw %u: below the break-even it saves", i);
    }
}

static void bad_steps(void *context)
{
    (void)merge_break_even_milli(context);
}

static void steps_that_cannot_be_are_mistakes(void **state)
{
    (void)state;
    struct merge_steps none = {.rows = 0, .step_lora_ns = 2, .step_merged_ns = 1};
    struct merge_steps faster = {.rows = 1, .step_lora_ns = 1, .step_merged_ns = 2};

    assert_true(check_stops(bad_steps, &none));
    assert_true(check_stops(bad_steps, &faster));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_example_is_exact),
        cmocka_unit_test(where_lora_costs_nothing_merging_only_breaks_even_when_full),
        cmocka_unit_test(what_is_saved_is_what_is_wasted),
        cmocka_unit_test(steps_that_cannot_be_are_mistakes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
