/* The counters behind hot adapters: they halve when they should, to the stated error, and the order in which they are
 * touched doesn't matter. */
#include "fleet/state.h"
#include "support.h"

#include <math.h>

static void a_counter_follows_the_power_of_two(void **state)
{
    (void)state;
    struct rate rate = {1000 * RATE_ONE, 7};

    for (uint64_t epochs = 0; epochs < 20 * RATE_EPOCHS; epochs++) {
        double expected = 1000.0 * RATE_ONE * exp2(-(double)epochs / RATE_EPOCHS);
        double got = (double)rate_now(&rate, 7 + epochs);

        /* The table is right to half of 2^-32; the shift cuts below a unit. */
        if (fabs(got - expected) > expected * 0x1p-32 + 1)
            fail_msg("after %llu epochs: got %.3f, expected %.3f", (unsigned long long)epochs, got, expected);
    }
    assert_int_equal(rate_now(&rate, 7 + 64 * RATE_EPOCHS), 0);
    assert_int_equal(rate_now(&rate, UINT64_MAX), 0);
}

/* However often a counter is touched on the way, the sum is that of its events decayed one by one. */
static void a_counter_is_the_sum_of_its_events_decayed_alone(void **state)
{
    (void)state;
    uint64_t random = test_seed(6);
    struct rate rate = {0};
    uint64_t epoch = 0;
    double exact = 0;

    for (uint32_t i = 0; i < 20000; i++) {
        uint64_t step = draw_below(&random, 10) == 0 ? draw_below(&random, 100) : 0;

        epoch += step;
        exact = exact * exp2(-(double)step / RATE_EPOCHS) + 1;
        rate_add_one(&rate, epoch);
        if (fabs((double)rate.value / RATE_ONE - exact) > 1e-4 + exact * 1e-8)
            fail_msg("after %u events: got %.6f, exact %.6f", i, (double)rate.value / RATE_ONE, exact);
    }
}

static void epochs_lie_on_an_absolute_grid(void **state)
{
    (void)state;
    static struct fleet often;
    static struct fleet seldom;

    often.epoch_ns = seldom.epoch_ns = 937500000;
    for (int64_t at_ns = 0; at_ns < 100 * NS_PER_S; at_ns += 12345678) {
        rate_clock(&often, at_ns);
        assert_int_equal(often.epoch, at_ns / 937500000);
    }
    rate_clock(&seldom, 100 * NS_PER_S);
    rate_clock(&often, 100 * NS_PER_S);
    assert_int_equal(seldom.epoch, often.epoch);
    assert_true(seldom.epoch_until_ns == often.epoch_until_ns);
    rate_clock(&seldom, INT64_MAX);
    assert_int_equal(seldom.epoch, INT64_MAX / 937500000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_follows_the_power_of_two),
        cmocka_unit_test(a_counter_is_the_sum_of_its_events_decayed_alone),
        cmocka_unit_test(epochs_lie_on_an_absolute_grid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
