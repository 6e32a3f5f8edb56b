/* The water-filled share against twins that pour, and the properties of max-min fairness. */
#include "fleet/quota.h"
#include "support.h"

#include <stdlib.h>

enum { TENANTS = 12 };

static struct quota *new_quota(const uint32_t *weight_milli)
{
    static unsigned char memory[1 << 14];
    struct quota_config config = {.tenants_max = TENANTS, .cohorts_max = 0, .flavors_max = 1, .half_life_ns = 1};
    struct quota *quota;

    check(quota_bytes(&config) <= sizeof(memory));
    quota = quota_create(memory, sizeof(memory), &config);
    for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
        if (weight_milli[tenant] > 0)
            quota_set_tenant(quota, tenant, NO_COHORT, 0, weight_milli[tenant], 0, 0, 0);
    return quota;
}

/* A unit at a time to the one with the least by weight that wants more. */
static void pour(int64_t capacity, const uint32_t *weight, const int64_t *demand, int64_t *ret_share)
{
    memset(ret_share, 0, TENANTS * sizeof(*ret_share));
    for (; capacity > 0; capacity--) {
        uint32_t least = TENANTS;

        for (uint32_t i = 0; i < TENANTS; i++)
            if (ret_share[i] < demand[i] &&
                (least == TENANTS || ret_share[i] * weight[least] < ret_share[least] * weight[i]))
                least = i;
        if (least == TENANTS)
            return;
        ret_share[least]++;
    }
}

/* Rounds: whoever is satisfied by the level of the rest drops out; then the rest's level, by largest remainder. */
static void fill_in_rounds(int64_t capacity, const uint32_t *weight, const int64_t *demand, int64_t *ret_share)
{
    bool done[TENANTS];
    bool extra[TENANTS] = {false};
    int64_t left = capacity;
    int64_t sum = 0;
    bool again = true;
    uint128 active = 0;

    for (uint32_t i = 0; i < TENANTS; i++) {
        done[i] = demand[i] == 0;
        ret_share[i] = 0;
    }
    while (again) {
        again = false;
        active = 0;
        for (uint32_t i = 0; i < TENANTS; i++)
            active += done[i] ? 0 : weight[i];
        for (uint32_t i = 0; i < TENANTS && !again; i++) {
            if (done[i] || (uint128)demand[i] * active > (uint128)left * weight[i])
                continue;
            ret_share[i] = demand[i];
            left -= demand[i];
            done[i] = again = true;
        }
    }
    for (uint32_t i = 0; i < TENANTS; i++) {
        if (!done[i])
            ret_share[i] = (int64_t)((uint128)left * weight[i] / active);
        sum += done[i] ? 0 : ret_share[i];
    }
    for (; active > 0 && sum < left; sum++) {
        uint32_t best = TENANTS;

        for (uint32_t i = 0; i < TENANTS; i++)
            if (!done[i] && !extra[i] &&
                (best == TENANTS || (uint128)left * weight[i] % active > (uint128)left * weight[best] % active))
                best = i;
        extra[best] = true;
        ret_share[best]++;
    }
}

static void equal_weights_are_poured_a_unit_at_a_time(void **state)
{
    (void)state;
    uint64_t seed = test_seed(81);
    uint64_t random = seed;
    uint32_t weight[TENANTS];

    for (uint32_t i = 0; i < TENANTS; i++)
        weight[i] = 1;

    struct quota *quota = new_quota(weight);

    for (uint32_t turn = 0; turn < 5000; turn++) {
        int64_t demand[TENANTS];
        int64_t got[TENANTS];
        int64_t poured[TENANTS];
        int64_t capacity = (int64_t)draw_below(&random, 200);

        for (uint32_t i = 0; i < TENANTS; i++)
            demand[i] = (int64_t)draw_below(&random, 2) * (int64_t)draw_below(&random, 40);
        quota_water_fill(quota, capacity, demand, got);
        pour(capacity, weight, demand, poured);
        for (uint32_t i = 0; i < TENANTS; i++)
            if (got[i] != poured[i])
                fail_msg("seed %llu, turn %u, tenant %u: filled %lld, poured %lld", (unsigned long long)seed, turn, i,
                         (long long)got[i], (long long)poured[i]);
    }
}

/* Any weights, sizes from units to the greatest. */
static void shares_are_those_of_the_rounds_and_max_min_fair(void **state)
{
    (void)state;
    uint64_t seed = test_seed(82);
    uint64_t random = seed;

    for (uint32_t turn = 0; turn < 20000; turn++) {
        uint32_t weight[TENANTS];
        int64_t demand[TENANTS];
        int64_t got[TENANTS];
        int64_t twin[TENANTS];
        uint32_t bits = 1 + (uint32_t)draw_below(&random, 63);
        uint32_t weight_bits = 1 + (uint32_t)draw_below(&random, 32);
        int64_t capacity = (int64_t)(draw(&random) >> (64 - bits));
        uint128 wanted = 0;
        uint128 given = 0;
        uint128 weights = 0;

        for (uint32_t i = 0; i < TENANTS; i++) {
            weight[i] = 1 + (uint32_t)((draw(&random) >> (64 - weight_bits)) % UINT32_MAX);
            demand[i] = (int64_t)(draw(&random) >> (64 - bits) >> draw_below(&random, 5));
            if (draw_below(&random, 4) == 0)
                demand[i] = 0;
            wanted += (uint64_t)demand[i];
            weights += weight[i];
        }
        quota_water_fill(new_quota(weight), capacity, demand, got);
        fill_in_rounds(capacity, weight, demand, twin);
        for (uint32_t i = 0; i < TENANTS; i++) {
            given += (uint64_t)got[i];
            if (got[i] != twin[i])
                fail_msg("seed %llu, turn %u, tenant %u: filled %lld, rounds %lld", (unsigned long long)seed, turn, i,
                         (long long)got[i], (long long)twin[i]);
            assert_true(got[i] >= 0 && got[i] <= demand[i]);
            /* Nobody does worse than alone with its part of the capacity. */
            assert_true(got[i] >= min_i64(demand[i], (int64_t)((uint128)capacity * weight[i] / weights)));
            /* Nobody unsatisfied has less by weight than another, but for the unit of rounding. */
            for (uint32_t j = 0; j < TENANTS; j++)
                assert_true(got[i] == demand[i] || got[j] == 0 ||
                            (uint128)(got[j] - 1) * weight[i] <= (uint128)(got[i] + 1) * weight[j]);
        }
        assert_true(given == (wanted < (uint128)capacity ? wanted : (uint128)capacity));
    }
}

static void pouring_by_weight_stays_within_a_unit_above(void **state)
{
    (void)state;
    uint64_t seed = test_seed(83);
    uint64_t random = seed;

    for (uint32_t turn = 0; turn < 1000; turn++) {
        uint32_t weight[TENANTS];
        int64_t demand[TENANTS];
        int64_t got[TENANTS];
        int64_t poured[TENANTS];
        int64_t capacity = (int64_t)draw_below(&random, 1000);

        for (uint32_t i = 0; i < TENANTS; i++) {
            weight[i] = 1 + (uint32_t)draw_below(&random, 9);
            demand[i] = (int64_t)draw_below(&random, 300);
        }
        quota_water_fill(new_quota(weight), capacity, demand, got);
        pour(capacity, weight, demand, poured);
        /* A unit goes to whoever has least by weight: so nobody is poured more than a unit above the level. */
        for (uint32_t i = 0; i < TENANTS; i++)
            if (poured[i] > got[i] + 1)
                fail_msg("seed %llu, turn %u, tenant %u: filled %lld, poured %lld", (unsigned long long)seed, turn, i,
                         (long long)got[i], (long long)poured[i]);
    }
}

static void remainders_go_to_the_largest_then_to_the_lower_tenant(void **state)
{
    (void)state;
    const uint32_t equal[TENANTS] = {1, 1, 1};
    const uint32_t unequal[TENANTS] = {5, 3, 1};
    const int64_t demand[TENANTS] = {100, 100, 100};
    int64_t share[TENANTS];

    quota_water_fill(new_quota(equal), 11, demand, share);
    assert_int_equal(share[0], 4);
    assert_int_equal(share[1], 4);
    assert_int_equal(share[2], 3);
    /* 10 * 5/9 = 5.56, 10 * 3/9 = 3.33, 10 * 1/9 = 1.11 */
    quota_water_fill(new_quota(unequal), 10, demand, share);
    assert_int_equal(share[0], 6);
    assert_int_equal(share[1], 3);
    assert_int_equal(share[2], 1);
}

static void tenants_not_known_have_no_share(void **state)
{
    (void)state;
    const uint32_t weight[TENANTS] = {0, 1000, 0, 1000};
    const int64_t demand[TENANTS] = {0, 7, 0, 50};
    int64_t share[TENANTS];

    memset(share, 0xff, sizeof(share));
    quota_water_fill(new_quota(weight), 20, demand, share);
    assert_int_equal(share[0], 0);
    assert_int_equal(share[1], 7);
    assert_int_equal(share[2], 0);
    assert_int_equal(share[3], 13);
    quota_water_fill(new_quota(weight), 0, demand, share);
    assert_int_equal(share[1], 0);
    assert_int_equal(share[3], 0);
    quota_water_fill(new_quota(weight), INT64_MAX, demand, share);
    assert_int_equal(share[1], 7);
    assert_int_equal(share[3], 50);
}

static void fill(struct quota *quota, int64_t capacity, int64_t demand)
{
    int64_t demands[TENANTS] = {demand};
    int64_t shares[TENANTS];

    quota_water_fill(quota, capacity, demands, shares);
}
static void demand_of_an_unknown_tenant(void *quota) { fill(quota, 10, 1); }
static void capacity_below_zero(void *quota) { fill(quota, -1, 0); }
static void demand_below_zero(void *quota) { fill(quota, 10, -1); }

static void mistakes_stop(void **state)
{
    (void)state;
    const uint32_t weight[TENANTS] = {0, 1};

    assert_true(check_stops(demand_of_an_unknown_tenant, new_quota(weight)));
    assert_true(check_stops(capacity_below_zero, new_quota(weight)));
    assert_true(check_stops(demand_below_zero, new_quota(weight)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_weights_are_poured_a_unit_at_a_time),
        cmocka_unit_test(shares_are_those_of_the_rounds_and_max_min_fair),
        cmocka_unit_test(pouring_by_weight_stays_within_a_unit_above),
        cmocka_unit_test(remainders_go_to_the_largest_then_to_the_lower_tenant),
        cmocka_unit_test(tenants_not_known_have_no_share),
        cmocka_unit_test(mistakes_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
