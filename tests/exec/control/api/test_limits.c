/* What a tenant may take in a minute, by hand. */
#include <stdio.h>

#include "control/api/limits.h"
#include "support.h"

#define NOW INT64_C(1700000000000)

static struct limits *limits;

static int begin(void **context)
{
    (void)context;
    limits = limits_create();
    assert_non_null(limits);
    return 0;
}

static int end(void **context)
{
    (void)context;
    limits_free(limits);
    return 0;
}

static struct limits_state take(const char *tenant, uint64_t per_minute, uint64_t amount, int64_t at_ms)
{
    struct limits_state state;
    const bool taken = limits_take(limits, tenant, LIMITS_TOKENS, per_minute, amount, NOW + at_ms, &state);

    assert_int_equal(taken, state.retry_ms == 0);
    return state;
}

static void a_minutes_worth_is_there_at_once_and_then_comes_evenly(void **context)
{
    (void)context;
    assert_int_equal(take("a", 600, 600, 0).retry_ms, 0);
    assert_in_range(take("a", 600, 10, 0).retry_ms, 1000, 1001); /* ten a second */
    assert_in_range(take("a", 600, 10, 500).retry_ms, 500, 501);
    assert_int_equal(take("a", 600, 10, 1001).retry_ms, 0);
    assert_int_equal(take("a", 600, 0, 1001).remaining, 0);
    assert_in_range(take("a", 600, 0, 1001).reset_ms, 59998, 60001);
    assert_int_equal(take("a", 600, 0, 200000).remaining, 600); /* it never holds more */
}

static void tenants_and_kinds_take_nothing_from_each_other(void **context)
{
    struct limits_state state;

    (void)context;
    assert_int_equal(take("a", 60, 60, 0).retry_ms, 0);
    assert_int_equal(take("b", 60, 60, 0).retry_ms, 0);
    assert_int_not_equal(take("a", 60, 1, 0).retry_ms, 0);
    assert_true(limits_take(limits, "a", LIMITS_REQUESTS, 60, 60, NOW, &state));
}

static void what_is_more_than_a_minutes_worth_takes_a_full_bucket_and_leaves_a_debt(void **context)
{
    (void)context;
    assert_int_equal(take("a", 60, 1, 0).retry_ms, 0);
    assert_in_range(take("a", 60, 180, 0).retry_ms, 1000, 1001);
    assert_int_equal(take("a", 60, 180, 1001).retry_ms, 0);
    assert_in_range(take("a", 60, 1, 1001).retry_ms, 121000, 121002);
    limits_give(limits, "a", LIMITS_TOKENS, 150);
    assert_int_equal(take("a", 60, 30, 1001).retry_ms, 0);
}

static void who_may_take_nothing_gets_nothing(void **context)
{
    (void)context;
    assert_int_equal(take("a", 0, 1, 0).retry_ms, 60000);
}

static void so_many_run_at_once_and_no_more(void **context)
{
    (void)context;
    assert_true(limits_enter(limits, "a", LIMITS_TENANT_RUNNING_MAX, NOW));
    assert_false(limits_enter(limits, "a", 1, NOW));
    assert_true(limits_enter(limits, "b", 1, NOW));
    limits_leave(limits, "a", 2);
    assert_true(limits_enter(limits, "a", 2, NOW));
}

static void tenants_beyond_the_table_find_room_when_others_were_silent_for_a_minute(void **context)
{
    char name[32];

    (void)context;
    for (uint32_t i = 0; i < 4096; i++) {
        snprintf(name, sizeof(name), "t%u", i);
        assert_int_equal(take(name, 60, 30, 0).retry_ms, 0);
    }
    assert_int_equal(take("new", 60, 1, 1000).retry_ms, 60000);
    assert_int_equal(take("new", 60, 1, 60000).retry_ms, 0);
    assert_int_equal(take("t7", 60, 60, 60000).retry_ms, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_minutes_worth_is_there_at_once_and_then_comes_evenly, begin, end),
        cmocka_unit_test_setup_teardown(tenants_and_kinds_take_nothing_from_each_other, begin, end),
        cmocka_unit_test_setup_teardown(what_is_more_than_a_minutes_worth_takes_a_full_bucket_and_leaves_a_debt, begin, end),
        cmocka_unit_test_setup_teardown(who_may_take_nothing_gets_nothing, begin, end),
        cmocka_unit_test_setup_teardown(so_many_run_at_once_and_no_more, begin, end),
        cmocka_unit_test_setup_teardown(tenants_beyond_the_table_find_room_when_others_were_silent_for_a_minute, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
