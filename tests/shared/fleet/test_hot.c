/* Hot adapters: the k-th home comes when it is needed, goes when it is not, and stays put at the line. */
#include "rig.h"

/* `requests` more for adapter 1 among `others` for each, spread over 40 adapters. How often its homes changed. */
static uint32_t homes_changes;
static void heat(struct rig *rig, uint64_t *random, uint32_t requests, double share)
{
    static uint64_t ordinal;
    uint32_t before = 0;

    for (uint32_t i = 0; i < requests; i++) {
        bool hot = draw_unit(random) < share;
        adapter_id adapter = {hot ? 1 : 2 + (uint32_t)draw_below(random, 40), 0};

        rig->at_ns += 100 * NS_PER_MS;
        rig_pass(rig, ordinal++, adapter);
        if (!hot)
            continue;
        homes_changes += before != 0 && before != rig_seen.ask.homes;
        before = rig_seen.ask.homes;
    }
}

/* Adapter 1's homes, as the last request for it saw them. */
static uint32_t homes_now(struct rig *rig)
{
    rig_pass(rig, 1u << 20, (adapter_id){1, 0});
    return rig_seen.ask.homes;
}

static void a_hot_adapter_gains_a_second_home_and_loses_it_when_cool(void **state)
{
    (void)state;
    uint64_t random = test_seed(4);
    struct rig rig;

    /* Eight replicas: a fair share is 0.125 and half of it, the line, 0.0625; it cools below 0.047. */
    rig_open_full(&rig, &route_looking);
    rig.checked = false;
    heat(&rig, &random, 20000, 0.03);
    assert_int_equal(homes_now(&rig), 1);
    heat(&rig, &random, 5000, 0.095);
    assert_int_equal(homes_now(&rig), 2);
    heat(&rig, &random, 5000, 0.5);
    assert_int_equal(homes_now(&rig), 8);
    heat(&rig, &random, 5000, 0.03);
    assert_int_equal(homes_now(&rig), 1);
    fleet_check(rig.fleet);
    rig_close(&rig);
}

static void homes_do_not_flap_at_the_line(void **state)
{
    (void)state;
    uint64_t random = test_seed(5);
    struct rig rig;
    struct fleet_config config = rig_config(&route_looking);

    /* A long memory, so that what is left of chance is smaller than the hysteresis; 10 requests a second. */
    config.rate_half_life_ns = 600 * NS_PER_S;
    rig_open(&rig, &config);
    rig.checked = false;
    for (uint32_t i = 0; i < 8; i++)
        rig_up(&rig, i, 1, 0, 0);
    heat(&rig, &random, 20000, 0.0625);
    homes_changes = 0;
    heat(&rig, &random, 100000, 0.0625);
    assert_true(homes_changes <= 1);
    rig_close(&rig);

    /* Without hysteresis the same history does flap: the test could have failed. */
    config.cool_milli = 1000;
    rig_open(&rig, &config);
    rig.checked = false;
    for (uint32_t i = 0; i < 8; i++)
        rig_up(&rig, i, 1, 0, 0);
    heat(&rig, &random, 20000, 0.0625);
    homes_changes = 0;
    heat(&rig, &random, 100000, 0.0625);
    assert_true(homes_changes > 5);
    rig_close(&rig);
}

static void the_first_requests_of_a_pool_heat_nobody(void **state)
{
    (void)state;
    struct rig rig;

    rig_open_full(&rig, &route_looking);
    for (uint64_t i = 0; i < 16; i++) {
        rig_pass(&rig, i, (adapter_id){1, 0});
        assert_int_equal(rig_seen.ask.homes, 1);
    }
    rig_pass(&rig, 16, (adapter_id){1, 0});
    assert_int_equal(rig_seen.ask.homes, 2);
    /* And a retired adapter starts anew. */
    rig_gpu(&rig, 0, 1, (adapter_id){1, 0}, true);
    rig_retire(&rig, (adapter_id){1, 0});
    rig_pass(&rig, 17, (adapter_id){1, 0});
    assert_int_equal(rig_seen.ask.homes, 1);
    rig_close(&rig);
}

static void homes_never_exceed_a_pool_that_shrank(void **state)
{
    (void)state;
    struct rig rig;

    rig_open_full(&rig, &route_looking);
    for (uint64_t i = 0; i < 400; i++)
        rig_pass(&rig, i, (adapter_id){1, 0});
    assert_int_equal(rig_seen.ask.homes, 8);
    for (uint32_t i = 2; i < 8; i++)
        rig_down(&rig, i, 1);
    rig_pass(&rig, 400, (adapter_id){1, 0});
    assert_int_equal(rig_seen.ask.homes, 2);
    rig_close(&rig);
}

static void a_hot_adapter_is_served_by_its_homes_and_no_others(void **state)
{
    (void)state;
    struct fleet_config config = rig_config(&route_affinity);
    struct rig rig;
    uint32_t first;
    uint32_t used = 0;

    config.bound_add = 1000; /* nobody is busy */
    rig_open(&rig, &config);
    for (uint32_t i = 0; i < 8; i++)
        rig_up(&rig, i, 1, 0, 0);
    first = replica_index(rig_pass(&rig, 0, (adapter_id){1, 0}));
    /* 40 requests at once: homes grow to 3, at the lines of 16 and 32. */
    for (uint32_t i = 1; i <= 40; i++) {
        const struct fleet_command *command =
            rig_request(&rig, request_id_make(i, i), (adapter_id){1, 0}, 0);
        uint32_t replica = replica_index(command->route.replica);

        assert_int_equal(command->reason, ROUTE_HOME);
        if (i < 16)
            assert_int_equal(replica, first);
        used |= 1u << replica;
    }
    assert_int_equal(__builtin_popcount(used), 3);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hot_adapter_gains_a_second_home_and_loses_it_when_cool),
        cmocka_unit_test(homes_do_not_flap_at_the_line),
        cmocka_unit_test(the_first_requests_of_a_pool_heat_nobody),
        cmocka_unit_test(homes_never_exceed_a_pool_that_shrank),
        cmocka_unit_test(a_hot_adapter_is_served_by_its_homes_and_no_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
