#include "engine/storage.h"

#include "support.h"

#define DAY_NS (INT64_C(24) * 3600 * NS_PER_S)

/* At 0.023 a GB-month, by hand: a GB for a month is 0.023; an adapter of rank 16 of an 8B model (83,886,080 bytes) is
 * 83,886,080 x 23,000,000 / 10^9 = 1,929,379.84 billionths; ten days of its 30 5/12 are 634,316.66. */
static void a_month_is_priced_by_hand(void **state)
{
    (void)state;
    uint128 gb_month = (uint128)GB_BYTES * (uint64_t)MONTH_NS;

    assert_int_equal(MONTH_NS, INT64_C(2628000000000000));
    assert_int_equal(storage_price_nano(gb_month, 23000000), 23000000);
    assert_int_equal(storage_price_nano(gb_month - 1, 23000000), 22999999);
    assert_int_equal(storage_price_nano((uint128)83886080 * (uint64_t)MONTH_NS, 23000000), 1929379);
    assert_int_equal(storage_price_nano((uint128)83886080 * (uint64_t)(10 * DAY_NS), 23000000), 634316);
    assert_int_equal(storage_price_nano(0, 23000000), 0);
    assert_int_equal(storage_price_nano(gb_month * 1000, 0), 0);
}

/* Two ways to the same floor: where the product fits 128 bits it is divided as it is. */
static void long_division_is_division(void **state)
{
    (void)state;
    const uint128 gb_month = (uint128)GB_BYTES * (uint64_t)MONTH_NS;
    uint64_t seed = test_seed(4);
    uint64_t random = seed;

    for (uint32_t i = 0; i < 100000; i++) {
        uint64_t price = draw_below(&random, UINT64_C(1) << (1 + draw_below(&random, 44)));
        uint128 byte_ns = (uint128)draw_below(&random, UINT64_C(1) << (1 + draw_below(&random, 62))) *
                          draw_below(&random, UINT64_C(1) << (1 + draw_below(&random, 20)));
        int64_t wanted = (int64_t)(byte_ns * price / gb_month);
        int64_t got = storage_price_nano(byte_ns, (int64_t)price);

        if (got != wanted)
            fail_msg("seed %llu, %u: %lld, not %lld", (unsigned long long)seed, i, (long long)got, (long long)wanted);
    }
    /* And where it does not fit: floor(p x (n + f)) with f just below 1 is p n + p - 1. */
    assert_int_equal(storage_price_nano(gb_month * 9000, INT64_C(1000000000000000)), INT64_C(9000000000000000000));
    assert_int_equal(storage_price_nano(gb_month * 9 - 1, INT64_C(1000000000000000)), INT64_C(8999999999999999));
}

static void price_beyond_the_range(void *context)
{
    (void)context;
    storage_price_nano((uint128)GB_BYTES * (uint64_t)MONTH_NS * 10000, INT64_C(1000000000000000));
}

static void a_cost_beyond_64_bits_stops_the_program(void **state)
{
    (void)state;
    assert_true(check_stops(price_beyond_the_range, NULL));
}

/* However the same bytes come and go, and whenever the cost is asked for, an account pays for its byte-nanoseconds. */
static void an_account_pays_for_all_its_time_at_once(void **state)
{
    (void)state;
    struct storage storage;
    uint64_t seed = test_seed(9);
    uint64_t random = seed;
    uint128 byte_ns[3][STORAGE_TIER_COUNT] = {{0}};
    uint64_t bytes[3][STORAGE_TIER_COUNT] = {{0}};
    int64_t now_ns = 0;

    storage_init(&storage, 3);
    for (uint32_t i = 0; i < 20000; i++) {
        int64_t step_ns = (int64_t)draw_below(&random, 3 * (uint64_t)DAY_NS / 1000);
        uint32_t account = (uint32_t)draw_below(&random, 3);
        enum storage_tier tier = (enum storage_tier)draw_below(&random, STORAGE_TIER_COUNT);
        uint64_t change;

        for (uint32_t a = 0; a < 3; a++)
            for (uint32_t t = 0; t < STORAGE_TIER_COUNT; t++)
                byte_ns[a][t] += (uint128)bytes[a][t] * (uint64_t)step_ns;
        now_ns += step_ns;
        if (draw_below(&random, 2) == 0) {
            change = draw_below(&random, 1000000000);
            storage_add(&storage, tier, account, change, now_ns);
            bytes[account][tier] += change;
        } else {
            change = draw_below(&random, bytes[account][tier] + 1);
            storage_remove(&storage, tier, account, change, now_ns);
            bytes[account][tier] -= change;
        }
        for (uint32_t t = 0; i % 100 == 0 && t < STORAGE_TIER_COUNT; t++) {
            int64_t wanted = storage_price_nano(byte_ns[account][t], 23000000);
            int64_t got = storage_cost_nano(&storage, (enum storage_tier)t, account, now_ns, 23000000);

            if (got != wanted)
                fail_msg("seed %llu, %u: account %u pays %lld, not %lld", (unsigned long long)seed, i, account,
                         (long long)got, (long long)wanted);
        }
    }
    storage_free(&storage);
}

static void remove_what_is_not_there(void *context)
{
    storage_remove(context, STORAGE_HOST, 0, 11, 5);
}

static void go_back_in_time(void *context)
{
    storage_add(context, STORAGE_HOST, 0, 1, 4);
}

static void what_is_not_there_cannot_leave(void **state)
{
    (void)state;
    struct storage storage;

    storage_init(&storage, 1);
    storage_add(&storage, STORAGE_HOST, 0, 10, 5);
    storage_add(&storage, STORAGE_STORE, 0, 100, 5);
    assert_true(check_stops(remove_what_is_not_there, &storage));
    assert_true(check_stops(go_back_in_time, &storage));
    storage_remove(&storage, STORAGE_HOST, 0, 10, 5);
    storage_free(&storage);
    storage_free(&storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_month_is_priced_by_hand),
        cmocka_unit_test(long_division_is_division),
        cmocka_unit_test(a_cost_beyond_64_bits_stops_the_program),
        cmocka_unit_test(an_account_pays_for_all_its_time_at_once),
        cmocka_unit_test(what_is_not_there_cannot_leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
