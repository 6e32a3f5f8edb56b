/* The ledger by hand: the worked example to the last unit, each rule of the split alone, releases in any order,
 * limits. */
#include <stdlib.h>

#include "fleet/ledger.h"
#include "support.h"

#define HOUR_NS (3600 * NS_PER_S)
#define UNIT INT64_C(1000000000) /* nano of the currency */
#define GIB (UINT64_C(1) << 30)

enum { A, B, C, PLATFORM };

static struct ledger_config config_small(void)
{
    return (struct ledger_config){.gpus_max = 4, .tenants_max = PLATFORM, .claims_max = 16, .usage_factor_milli = 1000,
                                  .memory_milli = 500};
}


/* Ledgers may begin beside their memory's first byte, so a test keeps the memory itself. */
static void *memory;
static struct ledger *ledger;

static int ledger_setup(void **state)
{
    (void)state;
    struct ledger_config config = config_small();

    memory = malloc(ledger_bytes(&config));
    ledger = ledger_create(memory, ledger_bytes(&config), &config);
    return 0;
}

static int ledger_teardown(void **state)
{
    (void)state;
    free(memory);
    return 0;
}

static void ledger_again(const struct ledger_config *config)
{
    free(memory);
    memory = malloc(ledger_bytes(config));
    ledger = ledger_create(memory, ledger_bytes(config), config);
}

static void settled(int64_t at_ns, uint32_t tenants)
{
    int64_t sum = 0;

    ledger_settle(ledger, at_ns);
    ledger_check(ledger);
    for (uint32_t i = 0; i <= tenants; i++)
        sum += ledger_account_total(ledger, i);
    assert_int_equal(sum, ledger_bill(ledger));
}

static void account_is(uint32_t account, enum charge_component component, int64_t nano)
{
    assert_int_equal(ledger_account(ledger, account, component), nano);
}

/* One GPU at 1,000 micro a second for an hour, base 40% of its memory, claims of A 3,600 s, B 1,800 s, C 900 s. The
 * SMs are used all the hour, so B and C go on without the base. A has reserved half the GPU: unused is what of its
 * half its direct cost leaves, 208 1/3 thousandths, then 175, then 75. B's quarter is exceeded over the hour, and C
 * has none. */
static void worked_example_is_split_to_the_last_unit(void **state)
{
    (void)state;
    const int64_t direct_micro[] = {1320000, 960000, 150000};
    const int64_t idle_micro[] = {374815, 272593, 42592};
    const int64_t final_micro[] = {2174815, 1232593, 192592};
    const int64_t base_micro[] = {510000, 150000, 60000};
    const int64_t exclusive_micro[] = {360000, 270000, 0};
    const int64_t compute_micro[] = {450000, 540000, 90000};
    int64_t parts[3];

    ledger_gpu_up(ledger, 0, 0, 3600000000, 100 * GIB);
    ledger_base_on(ledger, 0, 0, 1, 40 * GIB, false);
    ledger_claim_on(ledger, 0, 0, 0, A, 1, 20 * GIB, 250, false);
    ledger_claim_on(ledger, 0, 0, 1, B, 1, 30 * GIB, 300, false);
    ledger_claim_on(ledger, 0, 0, 2, C, 1, 0, 50, false);
    ledger_unused(ledger, 0, A, 208);
    ledger_unused(ledger, 600 * NS_PER_S, A, 209);
    ledger_claim_off(ledger, 0, 900 * NS_PER_S, 2);
    ledger_claim_on(ledger, 0, 900 * NS_PER_S, 2, C, LEDGER_NO_BASE, 0, 50, false);
    ledger_unused(ledger, 900 * NS_PER_S, A, 175);
    ledger_claim_off(ledger, 0, 1800 * NS_PER_S, 1);
    ledger_claim_on(ledger, 0, 1800 * NS_PER_S, 1, B, LEDGER_NO_BASE, 0, 300, false);
    ledger_unused(ledger, 1800 * NS_PER_S, A, 75);
    settled(3600 * NS_PER_S, PLATFORM);

    assert_int_equal(ledger_bill(ledger), 3600000000);
    for (uint32_t i = A; i <= C; i++) {
        account_is(i, CHARGE_RESIDENCY, base_micro[i] * 1000);
        account_is(i, CHARGE_EXCLUSIVE, exclusive_micro[i] * 1000);
        account_is(i, CHARGE_COMPUTE, compute_micro[i] * 1000);
        account_is(i, CHARGE_RESERVED_IDLE, i == A ? 480000000 : 0);
    }
    account_is(PLATFORM, CHARGE_IDLE, 690000000);
    /* The stated rule for the platform's idle, when it is wanted: pro rata to direct cost, in micro. */
    ledger_split(690000, direct_micro, 3, 0, parts);
    for (uint32_t i = A; i <= C; i++) {
        assert_int_equal(parts[i], idle_micro[i]);
        assert_int_equal(ledger_account_total(ledger, i) / 1000 + parts[i], final_micro[i]);
    }
}

static void jobs_of_one_tenant_share_a_base_as_one(void **state)
{
    (void)state;
    ledger_gpu_up(ledger, 0, 0, UNIT, 100 * GIB);
    ledger_base_on(ledger, 0, 0, 7, 50 * GIB, false);
    ledger_claim_on(ledger, 0, 0, 0, A, 7, 0, 0, false);
    ledger_claim_on(ledger, 0, 0, 1, A, 7, 0, 0, false);
    ledger_claim_on(ledger, 0, 0, 2, B, 7, 0, 0, false);
    settled(HOUR_NS, PLATFORM);
    account_is(A, CHARGE_RESIDENCY, UNIT / 8);
    account_is(B, CHARGE_RESIDENCY, UNIT / 8);
    ledger_claim_off(ledger, 0, HOUR_NS, 0); /* A is still there, with one job */
    settled(2 * HOUR_NS, PLATFORM);
    account_is(A, CHARGE_RESIDENCY, UNIT / 4);
    account_is(B, CHARGE_RESIDENCY, UNIT / 4);
    ledger_claim_off(ledger, 0, 2 * HOUR_NS, 1);
    settled(3 * HOUR_NS, PLATFORM);
    account_is(A, CHARGE_RESIDENCY, UNIT / 4);
    account_is(B, CHARGE_RESIDENCY, UNIT / 2);
}

static void a_base_without_claims_is_idle(void **state)
{
    (void)state;
    ledger_gpu_up(ledger, 0, 0, UNIT, 100 * GIB);
    ledger_base_on(ledger, 0, 0, 7, 50 * GIB, false);
    ledger_base_on(ledger, 0, 0, 8, 50 * GIB, true); /* and one that loads for nobody */
    settled(HOUR_NS, PLATFORM);
    account_is(PLATFORM, CHARGE_IDLE, UNIT);
}

static void a_load_is_paid_equally_by_the_tenants_that_wait_for_it(void **state)
{
    (void)state;
    ledger_gpu_up(ledger, 0, 0, UNIT, 100 * GIB);
    ledger_base_on(ledger, 0, 0, 6, 20 * GIB, false);
    ledger_claim_on(ledger, 0, 0, 5, C, 6, 0, 500, false);
    ledger_base_on(ledger, 0, 0, 7, 50 * GIB, true);
    ledger_claim_on(ledger, 0, 0, 0, A, 7, 10 * GIB, 500, false);
    ledger_claim_on(ledger, 0, 0, 1, A, 7, 10 * GIB, 0, false);
    ledger_claim_on(ledger, 0, HOUR_NS / 2, 2, B, 7, 0, 0, false);
    ledger_base_ready(ledger, 0, HOUR_NS, 7);
    settled(HOUR_NS, PLATFORM);
    account_is(A, CHARGE_LOADING, UNIT * 3 / 4);
    account_is(B, CHARGE_LOADING, UNIT / 4);
    assert_int_equal(ledger_account_total(ledger, A), UNIT * 3 / 4);
    assert_int_equal(ledger_account_total(ledger, C), 0);
    settled(2 * HOUR_NS, PLATFORM);
    account_is(A, CHARGE_LOADING, UNIT * 3 / 4);
    account_is(A, CHARGE_RESIDENCY, UNIT / 8);
    account_is(B, CHARGE_RESIDENCY, UNIT / 8);
    account_is(A, CHARGE_EXCLUSIVE, UNIT / 10);
    account_is(A, CHARGE_COMPUTE, UNIT / 4);
    account_is(C, CHARGE_RESIDENCY, UNIT / 10);
    account_is(C, CHARGE_COMPUTE, UNIT / 4);
    account_is(PLATFORM, CHARGE_IDLE, UNIT / 20);
}

static void borrowed_use_is_discounted_and_the_difference_booked(void **state)
{
    (void)state;
    struct ledger_config config = config_small();

    config.usage_factor_milli = 300;
    ledger_again(&config);
    ledger_gpu_up(ledger, 0, 0, UNIT, 100 * GIB);
    ledger_base_on(ledger, 0, 0, 7, 50 * GIB, false);
    ledger_claim_on(ledger, 0, 0, 0, A, 7, 10 * GIB, 400, true);
    ledger_claim_on(ledger, 0, 0, 1, B, 7, 10 * GIB, 400, false);
    settled(HOUR_NS, PLATFORM);
    account_is(A, CHARGE_RESIDENCY, 125000000);
    account_is(A, CHARGE_EXCLUSIVE, 50000000);
    account_is(A, CHARGE_COMPUTE, 200000000);
    account_is(A, CHARGE_DISCOUNT, -262500000);
    assert_int_equal(ledger_account_total(ledger, A), 375000000 * 3 / 10);
    assert_int_equal(ledger_account_total(ledger, B), 375000000);
    account_is(PLATFORM, CHARGE_DISCOUNT, 262500000);
}

static void a_partly_borrowed_tenant_pays_its_residency_in_full(void **state)
{
    (void)state;
    struct ledger_config config = config_small();

    config.usage_factor_milli = 0;
    ledger_again(&config);
    ledger_gpu_up(ledger, 0, 0, UNIT, 100 * GIB);
    ledger_base_on(ledger, 0, 0, 7, 100 * GIB, false);
    ledger_claim_on(ledger, 0, 0, 0, A, 7, 0, 0, true);
    ledger_claim_on(ledger, 0, HOUR_NS, 1, A, 7, 0, 0, false);
    ledger_claim_off(ledger, 0, 2 * HOUR_NS, 1);
    settled(3 * HOUR_NS, PLATFORM);
    account_is(A, CHARGE_RESIDENCY, UNIT * 3 / 2);
    account_is(A, CHARGE_DISCOUNT, -UNIT); /* of the first and the third hour */
}

static void unused_reservations_cost_at_most_their_price(void **state)
{
    (void)state;
    ledger_gpu_up(ledger, 0, 0, UNIT, 100 * GIB);
    ledger_gpu_up(ledger, 1, 0, 3 * UNIT, 100 * GIB);
    ledger_unused(ledger, 0, A, 250);
    ledger_unused(ledger, 0, B, 750);
    settled(HOUR_NS, PLATFORM); /* one GPU of a mean price of 2 */
    account_is(A, CHARGE_RESERVED_IDLE, UNIT / 2);
    account_is(B, CHARGE_RESERVED_IDLE, UNIT * 3 / 2);
    account_is(PLATFORM, CHARGE_IDLE, 2 * UNIT);
    ledger_unused(ledger, HOUR_NS, A, 3000);
    ledger_unused(ledger, HOUR_NS, B, 1000); /* all idle money, in proportion */
    settled(2 * HOUR_NS, PLATFORM);
    account_is(A, CHARGE_RESERVED_IDLE, UNIT / 2 + 3 * UNIT);
    account_is(B, CHARGE_RESERVED_IDLE, UNIT * 3 / 2 + UNIT);
    account_is(PLATFORM, CHARGE_IDLE, 2 * UNIT);
}

/* Nine tenths of a unit on each GPU round down, and the one reservation is owed them all. */
static void a_bill_that_rounds_down_never_leaves_the_platform_below_zero(void **state)
{
    (void)state;
    struct ledger_config config = config_small();

    for (uint32_t gpus = 1; gpus <= 4; gpus++) {
        ledger_again(&config);
        for (uint32_t i = 0; i < gpus; i++)
            ledger_gpu_up(ledger, i, 0, 9, 100 * GIB);
        ledger_unused(ledger, 0, B, 1000);
        ledger_unused(ledger, 0, C, 4000);
        settled(HOUR_NS / 10, PLATFORM);
        assert_int_equal(ledger_bill(ledger), 0);
        account_is(B, CHARGE_RESERVED_IDLE, 0);
        account_is(C, CHARGE_RESERVED_IDLE, 0);
        account_is(PLATFORM, CHARGE_IDLE, 0);
        settled(HOUR_NS, PLATFORM); /* what was held back is there again */
        assert_int_equal(ledger_bill(ledger), 9 * gpus);
        assert_int_equal(ledger_account(ledger, B, CHARGE_RESERVED_IDLE), 9 * gpus / 5);
        assert_int_equal(ledger_account(ledger, C, CHARGE_RESERVED_IDLE), 9 * gpus * 4 / 5);
        ledger_unused(ledger, HOUR_NS, B, 0);
        settled(HOUR_NS + HOUR_NS / 10, PLATFORM);
        assert_true(ledger_account(ledger, PLATFORM, CHARGE_IDLE) >= 0);
    }
}

static void money_without_a_user_goes_to_the_platform(void **state)
{
    (void)state;
    const int64_t nothing[] = {0, 0, 0};
    int64_t parts[3];

    ledger_gpu_up(ledger, 0, 0, 27 * UNIT, 100 * GIB);
    settled(HOUR_NS, PLATFORM);
    account_is(PLATFORM, CHARGE_IDLE, 27 * UNIT);
    ledger_split(27, nothing, 3, 2, parts);
    assert_int_equal(parts[0], 0);
    assert_int_equal(parts[1], 0);
    assert_int_equal(parts[2], 27);
}

enum release { RELEASE_CLAIM_0, RELEASE_CLAIM_1, RELEASE_BASE, RELEASE_GPU, RELEASES };

static void release(enum release which, int64_t at_ns)
{
    switch (which) {
    case RELEASE_CLAIM_0: ledger_claim_off(ledger, 0, at_ns, 0); break;
    case RELEASE_CLAIM_1: ledger_claim_off(ledger, 0, at_ns, 1); break;
    case RELEASE_BASE: ledger_base_off(ledger, 0, at_ns, 7); break;
    case RELEASE_GPU: ledger_gpu_down(ledger, 0, at_ns); break;
    case RELEASES: break;
    }
}

static void releases_come_in_any_order_and_twice(void **state)
{
    (void)state;
    struct ledger_config config = config_small();
    int64_t first[PLATFORM + 1];

    for (uint32_t order = 0; order < 256; order++) {
        ledger_again(&config);
        ledger_gpu_up(ledger, 0, 5, 1234567891, 97 * GIB);
        ledger_claim_on(ledger, 0, 9, 0, A, 7, 11 * GIB, 333, true); /* before its base */
        ledger_base_on(ledger, 0, 11, 7, 31 * GIB, true);
        ledger_claim_on(ledger, 0, 100013, 1, B, 7, 13 * GIB, 333, false);
        ledger_base_ready(ledger, 0, 20000003, 7);
        for (uint32_t i = 0; i < RELEASES; i++)
            release(order >> (2 * i) & 3, HOUR_NS);
        for (uint32_t i = 0; i < RELEASES; i++)
            release(i, HOUR_NS);
        settled(HOUR_NS + order, PLATFORM);
        assert_int_equal(ledger_bill(ledger),
                         (int64_t)((uint128)1234567891 * (uint64_t)(HOUR_NS - 5) / (uint64_t)HOUR_NS));
        for (uint32_t i = 0; i <= PLATFORM; i++) {
            if (order == 0)
                first[i] = ledger_account_total(ledger, i);
            assert_int_equal(ledger_account_total(ledger, i), first[i]);
        }
    }
}

static void a_base_that_goes_leaves_its_claims_and_may_come_back(void **state)
{
    (void)state;
    ledger_gpu_up(ledger, 0, 0, UNIT, 100 * GIB);
    ledger_base_on(ledger, 0, 0, 7, 100 * GIB, false);
    ledger_claim_on(ledger, 0, 0, 0, A, 7, 0, 100, false);
    ledger_base_off(ledger, 0, HOUR_NS, 7);
    ledger_check(ledger);
    ledger_base_on(ledger, 0, 2 * HOUR_NS, 7, 100 * GIB, false);
    settled(3 * HOUR_NS, PLATFORM);
    account_is(A, CHARGE_RESIDENCY, UNIT);
    account_is(A, CHARGE_COMPUTE, UNIT * 3 / 20);
}

static void storage_is_part_of_the_bill(void **state)
{
    (void)state;
    ledger_gpu_up(ledger, 0, 0, UNIT, GIB);
    ledger_book(ledger, B, CHARGE_STORAGE, 77);
    settled(HOUR_NS, PLATFORM);
    account_is(B, CHARGE_STORAGE, 77);
    assert_int_equal(ledger_bill(ledger), UNIT + 77);
}

static void a_price_change_is_a_new_interval(void **state)
{
    (void)state;
    ledger_gpu_up(ledger, 0, 0, UNIT, GIB);
    ledger_claim_on(ledger, 0, 0, 0, A, LEDGER_NO_BASE, GIB, 1000, false);
    ledger_gpu_price(ledger, 0, HOUR_NS, 3 * UNIT);
    ledger_gpu_price(ledger, 0, HOUR_NS + HOUR_NS / 3, 3 * UNIT);
    settled(2 * HOUR_NS, PLATFORM);
    assert_int_equal(ledger_account_total(ledger, A), 4 * UNIT);
    assert_int_equal(ledger_bill(ledger), 4 * UNIT);
}

/* A year of ten thousand GPUs at 100 an hour is 8.76e18 units: one settling. */
static void ten_thousand_gpu_years_fit_and_more_is_refused(void **state)
{
    (void)state;
    enum { GPUS = 10000 };
    const int64_t year_ns = 8760 * HOUR_NS;
    struct ledger_config config = config_small();

    config.gpus_max = GPUS;
    ledger_again(&config);
    for (uint32_t i = 0; i < GPUS; i++) {
        ledger_gpu_up(ledger, i, 0, 100 * UNIT, 100 * GIB);
        ledger_base_on(ledger, i, 0, 7, 60 * GIB, false);
        ledger_claim_on(ledger, i, 0, 0, A, 7, 40 * GIB, 1000, true);
    }
    settled(year_ns, PLATFORM);
    assert_int_equal(ledger_bill(ledger), INT64_C(8760) * GPUS * 100 * UNIT);
    assert_int_equal(ledger_account_total(ledger, A), ledger_bill(ledger));
}

static void settle_beyond_the_limit(void *context)
{
    ledger_settle(ledger, *(int64_t *)context);
}

static void a_bill_beyond_63_bits_is_refused(void **state)
{
    (void)state;
    enum { GPUS = 10000 };
    int64_t year_ns = 8760 * HOUR_NS;
    struct ledger_config config = config_small();

    config.gpus_max = GPUS;
    ledger_again(&config);
    for (uint32_t i = 0; i < GPUS; i++)
        ledger_gpu_up(ledger, i, 0, 110 * UNIT, GIB);
    assert_true(check_stops(settle_beyond_the_limit, &year_ns));
}

static void memory_aligned_to_8_is_enough(void **state)
{
    (void)state;
    struct ledger_config config = config_small();
    unsigned char *bytes = malloc(ledger_bytes(&config) + 8);
    struct ledger *odd = ledger_create(bytes + 8, ledger_bytes(&config), &config);

    ledger_gpu_up(odd, 3, 0, UNIT, GIB);
    ledger_settle(odd, HOUR_NS);
    assert_int_equal(ledger_bill(odd), UNIT);
    free(bytes);
}

static void act_claim_twice(void *context)
{
    (void)context;
    ledger_claim_on(ledger, 0, 10, 0, A, 7, 0, 0, false);
}

static void act_back_in_time(void *context)
{
    (void)context;
    ledger_unused(ledger, 9, A, 1);
}

static void act_on_a_gpu_that_is_not_up(void *context)
{
    (void)context;
    ledger_claim_on(ledger, 1, 10, 1, A, 7, 0, 0, false);
}

static void act_more_bytes_than_the_gpu(void *context)
{
    (void)context;
    ledger_claim_on(ledger, 0, 10, 2, A, 7, 101 * GIB, 0, false);
}

static void act_account_past_the_platform(void *context)
{
    (void)context;
    ledger_book(ledger, PLATFORM + 1, CHARGE_STORAGE, 1);
}

static void act_gpu_given_away_twice(void *context)
{
    (void)context;
    ledger_claim_on(ledger, 0, 10, 3, A, 7, 0, 600, false);
    ledger_settle(ledger, 11);
}

static void ledger_refuses_what_cannot_be(void **state)
{
    (void)state;
    void (*const acts[])(void *) = {act_claim_twice,             act_back_in_time,
                                    act_on_a_gpu_that_is_not_up, act_more_bytes_than_the_gpu,
                                    act_account_past_the_platform, act_gpu_given_away_twice};
    struct ledger_config config = config_small();

    for (size_t i = 0; i < ARRAY_COUNT(acts); i++) {
        ledger_again(&config);
        ledger_gpu_up(ledger, 0, 0, UNIT, 100 * GIB);
        ledger_claim_on(ledger, 0, 10, 0, A, 7, 0, 1000, false);
        if (!check_stops(acts[i], NULL))
            fail_msg("act %zu was accepted", i);
    }
}

static void shares_may_exceed_a_gpu_within_an_instant(void **state)
{
    (void)state;
    ledger_gpu_up(ledger, 0, 0, UNIT, 100 * GIB);
    ledger_claim_on(ledger, 0, 0, 0, A, 7, 0, 1000, false);
    ledger_claim_on(ledger, 0, HOUR_NS, 1, B, 7, 0, 500, false);
    ledger_compute(ledger, 0, HOUR_NS, 0, 500);
    settled(2 * HOUR_NS, PLATFORM);
    account_is(A, CHARGE_COMPUTE, UNIT * 3 / 4);
    account_is(B, CHARGE_COMPUTE, UNIT / 4);
}

static void act_no_gpus(void *context)
{
    ((struct ledger_config *)context)->gpus_max = 0;
    ledger_bytes(context);
}

static void act_factor_above_one(void *context)
{
    ((struct ledger_config *)context)->usage_factor_milli = 1001;
    ledger_bytes(context);
}

static void act_memory_above_one(void *context)
{
    ((struct ledger_config *)context)->memory_milli = 1001;
    ledger_bytes(context);
}

static void configurations_out_of_range_are_refused(void **state)
{
    (void)state;
    void (*const acts[])(void *) = {act_no_gpus, act_factor_above_one, act_memory_above_one};

    for (size_t i = 0; i < ARRAY_COUNT(acts); i++) {
        struct ledger_config config = config_small();

        assert_true(check_stops(acts[i], &config));
    }
}

/* Largest remainder, the plain way: hand out the units one at a time. */
static void split_plainly(int64_t total, const int64_t *weights, uint32_t count, int64_t *ret_parts)
{
    uint128 sum = 0;
    int64_t left = total;
    bool given[64] = {false};

    for (uint32_t i = 0; i < count; i++)
        sum += (uint64_t)weights[i];
    for (uint32_t i = 0; i < count; i++) {
        ret_parts[i] = (int64_t)((uint128)(uint64_t)total * (uint64_t)weights[i] / sum);
        left -= ret_parts[i];
    }
    for (; left > 0; left--) {
        uint32_t best = NONE_INDEX;

        for (uint32_t i = 0; i < count; i++)
            if (!given[i] && (best == NONE_INDEX || (uint128)(uint64_t)total * (uint64_t)weights[i] % sum >
                                                        (uint128)(uint64_t)total * (uint64_t)weights[best] % sum))
                best = i;
        given[best] = true;
        ret_parts[best]++;
    }
}

static void split_agrees_with_the_plain_way(void **state)
{
    (void)state;
    uint64_t seed = test_seed(11);
    uint64_t random = seed;

    for (uint32_t turn = 0; turn < 3000; turn++) {
        uint32_t count = 1 + (uint32_t)draw_below(&random, 20);
        int64_t total = (int64_t)(draw(&random) >> (1 + draw_below(&random, 62)));
        uint64_t bits = draw_below(&random, 62);
        int64_t weights[20], parts[20], plain[20], opposite[20];

        for (uint32_t i = 0; i < count; i++)
            weights[i] = (int64_t)(draw(&random) >> 1 >> bits);
        weights[draw_below(&random, count)] = 1 + (int64_t)draw_below(&random, 5);
        ledger_split(total, weights, count, 0, parts);
        ledger_split(-total, weights, count, 0, opposite);
        split_plainly(total, weights, count, plain);
        for (uint32_t i = 0; i < count; i++)
            if (parts[i] != plain[i] || opposite[i] != -plain[i])
                fail_msg("seed %llu turn %u part %u: %lld, %lld, the plain way %lld", (unsigned long long)seed, turn, i,
                         (long long)parts[i], (long long)opposite[i], (long long)plain[i]);
    }
}

int main(void)
{
#define LEDGER_TEST(name) cmocka_unit_test_setup_teardown(name, ledger_setup, ledger_teardown)
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(worked_example_is_split_to_the_last_unit),
        LEDGER_TEST(jobs_of_one_tenant_share_a_base_as_one),
        LEDGER_TEST(a_base_without_claims_is_idle),
        LEDGER_TEST(a_load_is_paid_equally_by_the_tenants_that_wait_for_it),
        LEDGER_TEST(borrowed_use_is_discounted_and_the_difference_booked),
        LEDGER_TEST(a_partly_borrowed_tenant_pays_its_residency_in_full),
        LEDGER_TEST(unused_reservations_cost_at_most_their_price),
        LEDGER_TEST(a_bill_that_rounds_down_never_leaves_the_platform_below_zero),
        LEDGER_TEST(money_without_a_user_goes_to_the_platform),
        LEDGER_TEST(releases_come_in_any_order_and_twice),
        LEDGER_TEST(a_base_that_goes_leaves_its_claims_and_may_come_back),
        LEDGER_TEST(storage_is_part_of_the_bill),
        LEDGER_TEST(a_price_change_is_a_new_interval),
        LEDGER_TEST(ten_thousand_gpu_years_fit_and_more_is_refused),
        LEDGER_TEST(a_bill_beyond_63_bits_is_refused),
        LEDGER_TEST(memory_aligned_to_8_is_enough),
        LEDGER_TEST(ledger_refuses_what_cannot_be),
        LEDGER_TEST(shares_may_exceed_a_gpu_within_an_instant),
        LEDGER_TEST(configurations_out_of_range_are_refused),
        LEDGER_TEST(split_agrees_with_the_plain_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
