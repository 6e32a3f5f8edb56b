/* Learning rates: a list that others used, and each kind's ends. */
#include <math.h>

#include "engine/train/schedule.h"
#include "support.h"

static void expect(const struct schedule *schedule, int64_t step, double rate)
{
    double got = schedule_rate(schedule, step);

    if (!(fabs(got - rate) < 1e-15))
        fail_msg("%s, step %lld: %.17g, not %.17g", schedule_kind_name(schedule->kind), (long long)step, got, rate);
}

static void a_known_list_of_rates(void **state)
{
    const struct schedule schedule = {.kind = SCHEDULE_LINEAR, .peak = 1e-3, .warmup_steps = 5, .steps = 20};
    static const double rates[] = {0.0002, 0.0004, 0.0006, 0.0008, 0.001, 0.001, 0.0009333333333333333, 0.0008666666666666667, 0.0008};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rates); i++)
        expect(&schedule, (int64_t)i, rates[i]);
    expect(&schedule, 19, 1e-3 / 15);
    expect(&schedule, 20, 0);
}

static void each_kind_at_its_ends(void **state)
{
    struct schedule schedule = {.kind = SCHEDULE_COSINE, .peak = 2, .steps = 10};

    (void)state;
    expect(&schedule, 0, 2);
    expect(&schedule, 5, 1);
    expect(&schedule, 10, 0);
    schedule.kind = SCHEDULE_CONSTANT;
    expect(&schedule, 0, 2);
    expect(&schedule, 11, 2);
    schedule.warmup_steps = 10; /* nothing but warming up */
    schedule.kind = SCHEDULE_LINEAR;
    expect(&schedule, 9, 2);
    expect(&schedule, 10, 0);
}

static void kinds_have_names(void **state)
{
    enum schedule_kind kind;

    (void)state;
    for (enum schedule_kind i = 0; i < SCHEDULE_COUNT; i++) {
        assert_true(schedule_kind_find(schedule_kind_name(i), &kind));
        assert_int_equal(kind, i);
    }
    assert_false(schedule_kind_find("Cosine", &kind));
}

static void fitted_rates_are_the_published_ones(void **state)
{
    static const struct {
        enum model_family family;
        int32_t hidden;
        double rate;
    } known[] = {{FAMILY_LLAMA, 2048, 4.9e-4}, {FAMILY_LLAMA, 3072, 3.6e-4}, {FAMILY_LLAMA, 4096, 2.86e-4}, {FAMILY_LLAMA, 8192, 1.66e-4},
                 {FAMILY_LLAMA, 2000, 5e-4},   {FAMILY_QWEN2, 2000, 5e-4},   {FAMILY_QWEN3, 4096, 4.73e-4}};
    double rate = -1;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        assert_true(rate_fitted(known[i].family, known[i].hidden, &rate));
        if (!(fabs(rate - known[i].rate) < 0.01 * known[i].rate))
            fail_msg("%s, hidden %d: %g, not %g", model_family_name(known[i].family), known[i].hidden, rate, known[i].rate);
    }
    rate = -1;
    assert_false(rate_fitted(FAMILY_MISTRAL, 4096, &rate));
    assert_true(rate < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_list_of_rates),
        cmocka_unit_test(each_kind_at_its_ends),
        cmocka_unit_test(kinds_have_names),
        cmocka_unit_test(fitted_rates_are_the_published_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
