/* Usage with a half-life against the powers of two themselves: exact in order and in steps, and charged at
 * admission. */
#include "fleet/quota.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>

enum { TENANTS = 40 };

static struct quota *new_quota(int64_t half_life_ns, uint32_t weight_milli)
{
    static unsigned char memory[1 << 16];
    struct quota_config config = {
        .tenants_max = TENANTS, .cohorts_max = 0, .flavors_max = 1, .half_life_ns = half_life_ns};
    struct quota *quota;

    check(quota_bytes(&config) <= sizeof(memory));
    quota = quota_create(memory, sizeof(memory), &config);
    for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
        quota_set_tenant(quota, tenant, NO_COHORT, 0, weight_milli, 0, 0, 0);
    return quota;
}

static void a_key_is_the_sum_of_its_additions_decayed_alone(void **state)
{
    (void)state;
    enum { ADDITIONS = 2000 };
    const int64_t half_lives[] = {1, 7, 1000, 3600 * NS_PER_S, 7 * 86400 * NS_PER_S, INT64_MAX};
    uint64_t seed = test_seed(71);
    uint64_t random = seed;

    for (size_t h = 0; h < ARRAY_COUNT(half_lives); h++) {
        int64_t half_life_ns = half_lives[h];
        struct quota *quota = new_quota(half_life_ns, 1000);
        int64_t at_ns = 0;
        long double exact = 0;

        for (uint32_t i = 0; i < ADDITIONS; i++) {
            uint64_t shortest = min_u64((uint64_t)half_life_ns, INT64_MAX / ADDITIONS / 4);
            int64_t step_ns = (int64_t)draw_below(&random, shortest * 2 + 1) >> draw_below(&random, 20);
            int64_t gpu_ns = (int64_t)(draw(&random) >> (2 + draw_below(&random, 60)));

            at_ns += step_ns;
            exact = exact * exp2l(-(long double)step_ns / (long double)half_life_ns) + (long double)gpu_ns;
            quota_usage_add(quota, 3, at_ns, gpu_ns);

            long double got = (long double)quota_share_key(quota, 3, at_ns);
            long double expected = exact > 0x1p64L ? 0x1p64L : exact;

            /* 2^-50 is the twin's: it decays anew at every step. The key is rounded to a whole GPU-ns. */
            if (fabsl(got - expected) > expected * 0x1p-50L + 0.5001L)
                fail_msg("seed %llu, half-life %lld, addition %u: got %.3Lf, exact %.3Lf", (unsigned long long)seed,
                         (long long)half_life_ns, i, got, expected);
        }
    }
}

static void half_a_life_later_the_key_is_half(void **state)
{
    (void)state;
    struct quota *quota = new_quota(1000, 1000);

    quota_usage_add(quota, 0, 123, INT64_C(1) << 40);
    assert_int_equal(quota_share_key(quota, 0, 123), INT64_C(1) << 40);
    for (uint32_t lives = 1; lives <= 40; lives++) {
        assert_int_equal(quota_share_key(quota, 0, 123 + 1000 * lives), INT64_C(1) << (40 - lives));
    }
    assert_int_equal(quota_share_key(quota, 0, INT64_MAX), 0);
}

/* HTCondor's property of effective user priorities, to the last bit: the steps in which time passes do not matter. */
static void reading_and_touching_at_any_instants_changes_not_one_bit(void **state)
{
    (void)state;
    uint64_t seed = test_seed(72);
    uint64_t random = seed;
    struct quota *quota = new_quota(3600 * NS_PER_S, 1000);
    int64_t at_ns = 0;

    for (uint32_t i = 0; i < 2000; i++) {
        int64_t until_ns = at_ns + (int64_t)draw_below(&random, 7200 * NS_PER_S);
        int64_t gpu_ns = (int64_t)draw_below(&random, 1000 * NS_PER_S);

        for (uint64_t touches = draw_below(&random, 20); touches > 0 && at_ns < until_ns; touches--) {
            at_ns += (int64_t)draw_below(&random, (uint64_t)(until_ns - at_ns));
            (void)quota_share_key(quota, 1, at_ns);
            quota_usage_add(quota, 1, at_ns, 0);
        }
        at_ns = until_ns;
        quota_usage_add(quota, 0, at_ns, gpu_ns);
        quota_usage_add(quota, 1, at_ns, gpu_ns);
        if (quota_share_key(quota, 0, at_ns) != quota_share_key(quota, 1, at_ns))
            fail_msg("seed %llu, addition %u: seldom %llu, often %llu", (unsigned long long)seed, i,
                     (unsigned long long)quota_share_key(quota, 0, at_ns),
                     (unsigned long long)quota_share_key(quota, 1, at_ns));
    }
    assert_true(quota_share_key(quota, 0, at_ns) > 0);
}

/* pi(t) = beta pi(t - dt) + (1 - beta) rho with beta = 2^(-dt / h): a steady rate charged in irregular steps. */
static void a_steady_rate_comes_to_the_same_in_any_steps(void **state)
{
    (void)state;
    const int64_t half_life_ns = 86400 * NS_PER_S;
    const int64_t until_ns = 5 * half_life_ns / 2;
    const long double rho = 0x1p60L;
    uint64_t seed = test_seed(73);
    uint64_t random = seed;
    struct quota *quota = new_quota(half_life_ns, 1000);
    long double expected = rho * (1 - exp2l(-2.5L));

    for (uint32_t tenant = 0; tenant < TENANTS; tenant++) {
        int64_t longest_ns = half_life_ns >> draw_below(&random, 10);

        for (int64_t at_ns = 0; at_ns < until_ns;) {
            int64_t dt_ns = min_i64(until_ns - at_ns, 1 + (int64_t)draw_below(&random, (uint64_t)longest_ns));

            at_ns += dt_ns;
            quota_usage_add(quota, tenant, at_ns,
                            (int64_t)(rho * (1 - exp2l(-(long double)dt_ns / (long double)half_life_ns))));
        }

        long double got = (long double)quota_share_key(quota, tenant, until_ns);

        if (fabsl(got - expected) > expected * 0x1p-48L)
            fail_msg("seed %llu, tenant %u: got %.1Lf, expected %.1Lf", (unsigned long long)seed, tenant, got,
                     expected);
    }
}

static void additions_commute(void **state)
{
    (void)state;
    enum { ADDITIONS = 200 };
    uint64_t seed = test_seed(74);
    uint64_t random = seed;
    struct quota *quota = new_quota(1000, 1000);
    int64_t at_ns[ADDITIONS];
    int64_t gpu_ns[ADDITIONS];

    for (uint32_t i = 0; i < ADDITIONS; i++) {
        at_ns[i] = (int64_t)draw_below(&random, 20000);
        gpu_ns[i] = (int64_t)draw_below(&random, NS_PER_S) - NS_PER_S / 4;
        quota_usage_add(quota, 0, at_ns[i], gpu_ns[i]);
    }
    for (uint32_t i = ADDITIONS; i-- > 0;)
        quota_usage_add(quota, 1, at_ns[i], gpu_ns[i]);

    int64_t forth = (int64_t)quota_share_key(quota, 0, 20000);
    int64_t back = (int64_t)quota_share_key(quota, 1, 20000);

    assert_true(forth > 0);
    if (forth - back > 1 || back - forth > 1)
        fail_msg("seed %llu: forth %lld, back %lld", (unsigned long long)seed, (long long)forth, (long long)back);
}

static void an_entry_charge_given_back_leaves_nothing(void **state)
{
    (void)state;
    uint64_t seed = test_seed(75);
    uint64_t random = seed;

    for (uint32_t turn = 0; turn < 500; turn++) {
        struct quota *quota = new_quota(1000, 1000);
        int64_t charged_at_ns = (int64_t)draw_below(&random, 5000);
        int64_t charge = (int64_t)draw_below(&random, UINT64_C(1) << 50);
        int64_t now_ns = charged_at_ns + (int64_t)draw_below(&random, 9000);

        quota_usage_add(quota, 0, charged_at_ns, charge);
        quota_usage_add(quota, 0, now_ns, 5000);
        quota_usage_add(quota, 1, now_ns, 5000);
        quota_usage_add(quota, 0, charged_at_ns, -charge);

        int64_t difference = (int64_t)quota_share_key(quota, 0, now_ns) - (int64_t)quota_share_key(quota, 1, now_ns);

        if (difference > 1 || difference < -1)
            fail_msg("seed %llu, turn %u: %lld remain", (unsigned long long)seed, turn, (long long)difference);
    }
}

static void more_given_back_than_charged_is_no_negative_key(void **state)
{
    (void)state;
    struct quota *quota = new_quota(1000, 1000);

    quota_usage_add(quota, 0, 10, 500);
    quota_usage_add(quota, 0, 2500, -500);
    assert_int_equal(quota_share_key(quota, 0, 2500), 0);
    assert_int_equal(quota_share_key(quota, 0, 99999), 0);
}

static void usage_is_there_after_use_with_any_half_life(void **state)
{
    (void)state;
    const int64_t half_lives[] = {1, 2, 1000, NS_PER_S, INT64_MAX};

    for (size_t i = 0; i < ARRAY_COUNT(half_lives); i++) {
        struct quota *quota = new_quota(half_lives[i], 1000);

        quota_usage_add(quota, 0, 12345, 1);
        assert_int_equal(quota_share_key(quota, 0, 12345), 1);
    }
}

static void time_passing_does_not_change_who_is_first(void **state)
{
    (void)state;
    uint64_t seed = test_seed(76);
    uint64_t random = seed;

    for (uint32_t turn = 0; turn < 500; turn++) {
        struct quota *quota = new_quota(1000, 1000);
        bool settled = false;
        bool first = false;

        quota_usage_add(quota, 0, (int64_t)draw_below(&random, 3000), (int64_t)draw_below(&random, NS_PER_S));
        quota_usage_add(quota, 1, (int64_t)draw_below(&random, 3000), (int64_t)draw_below(&random, NS_PER_S));
        for (int64_t at_ns = 3000; at_ns < 20000; at_ns += 1 + (int64_t)draw_below(&random, 500)) {
            uint64_t a = quota_share_key(quota, 0, at_ns);
            uint64_t b = quota_share_key(quota, 1, at_ns);

            if (a == b)
                continue;
            if (settled && first != (a < b))
                fail_msg("seed %llu, turn %u: at %lld the order turns", (unsigned long long)seed, turn,
                         (long long)at_ns);
            first = a < b;
            settled = true;
        }
    }
}

static void a_key_is_by_weight_and_stops_at_the_greatest(void **state)
{
    (void)state;
    struct quota *quota = new_quota(INT64_MAX, 1000);

    quota_set_tenant(quota, 1, NO_COHORT, 0, 4000, 0, 0, 0);
    quota_set_tenant(quota, 2, NO_COHORT, 0, 1, 0, 0, 0);
    for (uint32_t tenant = 0; tenant < 3; tenant++)
        quota_usage_add(quota, tenant, 0, INT64_C(1) << 60);
    assert_true(quota_share_key(quota, 0, 0) == UINT64_C(1) << 60);
    assert_true(quota_share_key(quota, 1, 0) == UINT64_C(1) << 58);
    assert_true(quota_share_key(quota, 2, 0) == UINT64_MAX);
}

/* Two tenants with a hundred jobs each, a hundred places, all in one instant. The smallest key goes first. */
static uint32_t places_of_the_second(int64_t entry_gpu_ns, uint32_t weight_milli)
{
    struct quota *quota = new_quota(3600 * NS_PER_S, 1000);
    uint32_t taken[2] = {0, 0};

    quota_set_tenant(quota, 1, NO_COHORT, 0, weight_milli, 0, 0, 0);
    for (uint32_t place = 0; place < 100; place++) {
        uint32_t next = quota_share_key(quota, 1, NS_PER_S) < quota_share_key(quota, 0, NS_PER_S);

        taken[next]++;
        quota_usage_add(quota, next, NS_PER_S, entry_gpu_ns);
    }
    return taken[1];
}

static void a_burst_is_charged_at_admission_and_cannot_win_a_whole_interval(void **state)
{
    (void)state;
    assert_int_equal(places_of_the_second(600 * NS_PER_S, 1000), 50);
    assert_in_range(places_of_the_second(600 * NS_PER_S, 3000), 74, 76);
    assert_int_equal(places_of_the_second(0, 1000), 0); /* what happens without the charge */
}

static void a_key_before_the_last_addition(void *quota) { (void)quota_share_key(quota, 0, 4000); }
static void usage_before_time(void *quota) { quota_usage_add(quota, 0, -1, 1); }
static void usage_that_has_no_opposite(void *quota) { quota_usage_add(quota, 0, 0, INT64_MIN); }

static void mistakes_stop(void **state)
{
    (void)state;
    struct quota *quota = new_quota(1000, 1000);

    quota_usage_add(quota, 0, 5000, 1);
    assert_true(check_stops(a_key_before_the_last_addition, quota));
    assert_true(check_stops(usage_before_time, quota));
    assert_true(check_stops(usage_that_has_no_opposite, quota));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_the_sum_of_its_additions_decayed_alone),
        cmocka_unit_test(half_a_life_later_the_key_is_half),
        cmocka_unit_test(reading_and_touching_at_any_instants_changes_not_one_bit),
        cmocka_unit_test(a_steady_rate_comes_to_the_same_in_any_steps),
        cmocka_unit_test(additions_commute),
        cmocka_unit_test(an_entry_charge_given_back_leaves_nothing),
        cmocka_unit_test(more_given_back_than_charged_is_no_negative_key),
        cmocka_unit_test(usage_is_there_after_use_with_any_half_life),
        cmocka_unit_test(time_passing_does_not_change_who_is_first),
        cmocka_unit_test(a_key_is_by_weight_and_stops_at_the_greatest),
        cmocka_unit_test(a_burst_is_charged_at_admission_and_cannot_win_a_whole_interval),
        cmocka_unit_test(mistakes_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
