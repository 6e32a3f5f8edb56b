/* e^-x against the mathematics library, and against itself. */
#include "base/exp.h"
#include "support.h"

#include <math.h>

#define UNIT 18446744073709551616.0 /* 2^64 */
#define X_UNIT 4294967296.0         /* 2^32 */

static void it_is_the_exponential(void **state)
{
    uint64_t random = test_seed(3);

    (void)state;
    assert_true(exp_negative(0) == UINT64_MAX);
    assert_true(exp_negative(UINT64_C(1) << 32) == UINT64_C(0x5E2D58D8B3BCDF1A)); /* 1/e */
    assert_true(exp_negative(UINT64_C(64) << 32) == 0);
    assert_true(exp_negative(UINT64_MAX) == 0);
    for (uint32_t i = 0; i < 100000; i++) {
        const uint64_t x = draw(&random) >> (26 + draw_below(&random, 38));
        const double expected = exp(-(double)x / X_UNIT) * UNIT;

        if (fabs((double)exp_negative(x) - expected) > 40.0 + expected * 1e-15)
            fail_msg("x %llu: %.0f, not %.0f", (unsigned long long)x, (double)exp_negative(x), expected);
    }
}

static void it_falls(void **state)
{
    uint64_t before = UINT64_MAX;

    (void)state;
    for (uint64_t x = 0; x >> 38 == 0; x += (UINT64_C(1) << 22) - 1) {
        const uint64_t now = exp_negative(x);

        assert_true(now <= before);
        before = now;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_exponential),
        cmocka_unit_test(it_falls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
