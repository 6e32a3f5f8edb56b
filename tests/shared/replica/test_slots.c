/* GPU slots: loads while others run, one load for many, holds, prefetch, waits for a slot, tiers, failures, versions. */
#include "shared/replica/rig.h"

static struct rig *rig_with_adapters(const struct replica_config *config, uint32_t count)
{
    struct rig *rig = rig_new(config);

    for (uint32_t i = 1; i <= count; i++)
        rig_know(rig, i, 1, 1);
    return rig;
}

static uint32_t slot_of(const struct rig *rig, uint32_t adapter, uint32_t version)
{
    for (uint32_t i = 0; i < rig->config.slots.entries_max; i++) {
        if (rig->slots[i].state != SLOT_EMPTY && adapter_id_equal(rig->slots[i].adapter, (adapter_id){adapter, version}))
            return i;
    }
    fail_msg("adapter %u version %u is in no slot", adapter, version);
    return 0;
}

static void load_blocks_nobody_behind_it(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig = rig_with_adapters(&config, 3);

    (void)rig_request(rig, 1, 0, 10, 5, 5); /* its load begins at once, and nothing runs */
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1");
    assert_int_equal(rig->plan_count, 0);
    (void)rig_request(rig, 0, 0, 10, 5, 5); /* so the base goes */
    rig_expect_admitted(rig, "2");
    (void)rig_request(rig, 2, 0, 10, 5, 5); /* and a load begins in the middle of a step */
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2");
    rig_load_done(rig, slot_of(rig, 2, 1), true, TIER_HOST);
    rig_step_done(rig, 1, 1);
    rig_expect_admitted(rig, "2 3");
    rig_load_done(rig, slot_of(rig, 1, 1), true, TIER_STORE);
    rig_step_done(rig, 1, 1);
    rig_expect_admitted(rig, "2 3 1");
    assert_int_equal(replica_state(rig->replica).passes_most, 0); /* waiting for a load is no pass */
    rig_free(rig);
}

static void many_misses_on_one_adapter_cause_one_load(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig = rig_with_adapters(&config, 1);

    for (uint32_t i = 0; i < 50; i++)
        (void)rig_request(rig, 1, 0, 10, 5, 5);
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1");
    rig_loads_done(rig, TIER_HOST);
    assert_int_equal(rig->plan_count, 50);
    rig_free(rig);
}

static void loads_in_flight_are_bounded_and_begin_in_order(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.loads_max = 2;
    rig = rig_with_adapters(&config, 6);
    for (uint32_t i = 1; i <= 6; i++)
        (void)rig_request(rig, i, 0, 10, 5, 5);
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2");
    rig_load_done(rig, slot_of(rig, 2, 1), true, TIER_HOST);
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2 3");
    rig_finish(rig);
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2 3 4 5 6");
    rig_free(rig);
}

/* The known answer of the cache, through the core: 2 slots, LRU, the third adapter evicts the idle one. */
static void load_evicts_what_is_idle_never_what_runs(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.slots.capacity = 2;
    rig = rig_with_adapters(&config, 3);
    (void)rig_request(rig, 1, 0, 10, 100, 100);
    (void)rig_request(rig, 2, 0, 10, 1, 1);
    rig_loads_done(rig, TIER_HOST);
    while (rig->counts[REPLICA_COMMAND_DONE] == 0)
        rig_step_done(rig, 1, 1);
    (void)rig_request(rig, 3, 0, 10, 5, 5);
    rig_expect(rig, REPLICA_COMMAND_EVICT, "2");
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2 3");
    rig_free(rig);
}

/* 1 is READY and its request waits only for a row; the load for the request behind must take the other slot. */
static void load_never_evicts_what_an_earlier_request_waits_to_use(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.rows_max = 2;
    config.slots.capacity = 2;
    rig = rig_with_adapters(&config, 3);
    (void)rig_request(rig, 1, 0, 10, 1, 1);
    rig_loads_done(rig, TIER_HOST);
    rig_finish(rig);
    (void)rig_request(rig, 2, 0, 10, 1, 1);
    rig_loads_done(rig, TIER_HOST);
    rig_finish(rig); /* both idle; 1 is the least recent */
    (void)rig_request(rig, 0, 0, 10, 50, 50);
    (void)rig_request(rig, 0, 0, 10, 50, 50);
    rig_step_done(rig, 1, 1); /* rows are full */
    (void)rig_request(rig, 1, 0, 10, 5, 5);
    (void)rig_request(rig, 3, 0, 10, 5, 5);
    rig_expect(rig, REPLICA_COMMAND_EVICT, "2");
    rig_free(rig);
}

static void prefetch_looks_at_prefetch_max_waiting_requests_and_no_more(void **state)
{
    (void)state;
    static const char *const loads[] = {"", "1", "1 2", "1 2 3", "1 2 3 4"};

    for (uint32_t prefetch_max = 0; prefetch_max < ARRAY_COUNT(loads); prefetch_max++) {
        struct replica_config config = rig_config();
        struct rig *rig;

        config.rows_max = 1;
        config.prefetch_max = prefetch_max;
        rig = rig_with_adapters(&config, 8);
        (void)rig_request(rig, 0, 0, 10, 50, 50);
        for (uint32_t i = 1; i <= 8; i++)
            (void)rig_request(rig, i, 0, 10, 5, 5);
        rig_step_done(rig, 1, 1);
        rig_expect(rig, REPLICA_COMMAND_LOAD, loads[prefetch_max]);
        rig_free(rig);
    }
}

static void waiting_for_a_slot_is_measured_and_is_no_failure(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    const struct replica_command *done;
    struct rig *rig;

    config.slots.capacity = 1;
    rig = rig_with_adapters(&config, 2);
    (void)rig_request(rig, 1, 0, 10, 3, 3);
    rig_loads_done(rig, TIER_HOST);
    rig->at_ns = 1000;
    (void)rig_request(rig, 2, 0, 10, 1, 1); /* the only slot is pinned */
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1");
    rig->at_ns = 2000;
    rig_step_done(rig, 1, 1);
    rig->at_ns = 5000;
    rig_step_done(rig, 2, 1); /* 1 is done, its adapter goes, 2's load begins */
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2");
    rig->at_ns = 9000;
    rig_loads_done(rig, TIER_STORE);
    rig_finish(rig);
    done = &rig_last(rig, REPLICA_COMMAND_DONE)->command;
    assert_int_equal(request_ordinal(done->done.request), 2);
    assert_int_equal(done->done.slot_wait_ns, 4000);
    rig_free(rig);
}

/* The second request for the adapter is looked at only after the load has begun; its wait ended then all the same. */
static void wait_for_a_slot_ends_when_the_load_begins_for_another(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;
    uint32_t second;

    config.slots.capacity = 1;
    rig = rig_with_adapters(&config, 2);
    (void)rig_request(rig, 1, 0, 10, 2, 2);
    rig_loads_done(rig, TIER_HOST);
    rig->at_ns = 1000;
    (void)rig_request(rig, 2, 0, 10, 1, 1);
    second = rig_request(rig, 2, 0, 10, 1, 1);
    rig->at_ns = 3000;
    rig_step_done(rig, 1, 1);
    rig_step_done(rig, 1, 1);
    assert_int_equal(rig->loads, 1);
    rig->at_ns = 8000;
    rig_cancel(rig, second);
    assert_int_equal(rig_last(rig, REPLICA_COMMAND_DONE)->command.done.slot_wait_ns, 2000);
    rig_free(rig);
}

static enum tier tier_of(const struct rig *rig)
{
    return (enum tier)rig_last(rig, REPLICA_COMMAND_DONE)->command.done.tier_found;
}

static void tier_found_is_where_the_adapter_was_when_first_looked_at(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;
    uint32_t cancelled;

    rig = rig_with_adapters(&config, 3);
    (void)rig_request(rig, 0, 0, 10, 1, 1);
    rig_finish(rig);
    assert_int_equal(tier_of(rig), TIER_BASE);
    (void)rig_request(rig, 1, 0, 10, 1, 1);
    rig_loads_done(rig, TIER_STORE);
    rig_finish(rig);
    assert_int_equal(tier_of(rig), TIER_STORE);
    (void)rig_request(rig, 1, 0, 10, 1, 1);
    rig_finish(rig);
    assert_int_equal(tier_of(rig), TIER_GPU);
    (void)rig_request(rig, 2, 0, 10, 1, 1);
    rig_loads_done(rig, TIER_HOST);
    rig_finish(rig);
    assert_int_equal(tier_of(rig), TIER_HOST);
    cancelled = rig_request(rig, 3, 0, 10, 1, 1); /* gone before its adapter came */
    rig_cancel(rig, cancelled);
    assert_int_equal(tier_of(rig), TIER_STORE);
    rig_loads_done(rig, TIER_HOST); /* the doomed load just arrives */
    assert_int_equal(replica_state(rig->replica).loading, 0);
    rig_free(rig);
}

static void failed_load_refuses_all_that_wait_for_it_and_only_them(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig = rig_with_adapters(&config, 2);

    for (uint32_t i = 0; i < 150; i++) /* more than a step's commands can say */
        (void)rig_request(rig, 1 + i % 2, i % 2, 10, 5, 5);
    rig_load_done(rig, slot_of(rig, 1, 1), false, TIER_STORE);
    while (replica_wakeup_at_ns(rig->replica) != NEVER_NS) {
        assert_int_equal(replica_wakeup_at_ns(rig->replica), rig->at_ns);
        rig_tick(rig);
    }
    assert_int_equal(rig->refused[REFUSE_ADAPTER_LOST], 75);
    assert_int_equal(rig->live, 75);
    (void)rig_request(rig, 1, 0, 10, 5, 5); /* known still: the next one tries again */
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2 1");
    rig_finish(rig);
    assert_int_equal(rig->counts[REPLICA_COMMAND_DONE], 76);
    rig_free(rig);
}

/* That each runs on its own weights is the rig's to see at every RUN. */
static void two_versions_run_side_by_side_until_the_old_is_done(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig = rig_with_adapters(&config, 1);

    (void)rig_request(rig, 1, 0, 10, 6, 6);
    rig_loads_done(rig, TIER_HOST);
    rig_know(rig, 1, 2, 1);
    rig_retire(rig, (adapter_id){1, 1});
    (void)rig_request_version(rig, (adapter_id){1, 2}, 0, 10, 6, 6);
    rig_loads_done(rig, TIER_HOST);
    rig_step_done(rig, 1, 1);
    assert_int_equal(rig->plan_count, 2);
    assert_int_not_equal(rig->plan[0].gpu_slot, rig->plan[1].gpu_slot);
    (void)rig_request(rig, 1, 0, 10, 6, 6); /* the old version again: no */
    assert_int_equal(rig_last(rig, REPLICA_COMMAND_REFUSE)->reason, REFUSE_ADAPTER_UNKNOWN);
    while (rig->counts[REPLICA_COMMAND_DONE] == 0)
        rig_step_done(rig, 1, 1);
    assert_int_equal(rig->counts[REPLICA_COMMAND_EVICT], 1); /* with its last request */
    assert_int_equal(rig_last(rig, REPLICA_COMMAND_EVICT)->command.evict.adapter.version, 1);
    rig_finish(rig);
    assert_int_equal(replica_state(rig->replica).slots_used, 1);
    rig_free(rig);
}

static void retired_adapter_leaves_when_its_load_ends_and_nobody_wants_it(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig = rig_with_adapters(&config, 2);
    uint32_t slot;

    slot = rig_request(rig, 1, 0, 10, 6, 6);
    rig_retire(rig, (adapter_id){1, 1});
    rig_cancel(rig, slot);
    assert_int_equal(rig->counts[REPLICA_COMMAND_EVICT], 0);
    rig_loads_done(rig, TIER_HOST);
    rig_expect(rig, REPLICA_COMMAND_EVICT, "1");
    slot = rig_request(rig, 2, 0, 10, 6, 6);
    rig_retire(rig, (adapter_id){2, 1});
    rig_loads_done(rig, TIER_HOST); /* its request waits still, and is served */
    rig_finish(rig);
    assert_int_equal(rig_last(rig, REPLICA_COMMAND_DONE)->command.done.output_tokens, 6);
    rig_expect(rig, REPLICA_COMMAND_EVICT, "1 2");
    rig_retire(rig, (adapter_id){7, 1}); /* never heard of: nothing to do */
    rig_free(rig);
}

/* A large adapter where a hundred small ones lie: more evictions than a step can say, then the load. */
static void load_that_evicts_a_hundred_is_said_over_several_ticks(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.loads_max = 100;
    config.slots = (struct cache_config){.unit = CACHE_BYTES, .capacity = 100, .entries_max = 100, .evict = &evict_lru};
    rig = rig_with_adapters(&config, 100);
    rig_know(rig, 101, 1, 100);
    for (uint32_t i = 1; i <= 100; i++)
        (void)rig_request(rig, i, 0, 10, 1, 1);
    rig_finish(rig);
    assert_int_equal(replica_state(rig->replica).slots_used, 100);
    (void)rig_request(rig, 101, 0, 10, 1, 1);
    assert_int_equal(rig->out.count, COMMANDS_MAX - 1);
    assert_int_equal(replica_wakeup_at_ns(rig->replica), rig->at_ns);
    rig_finish(rig);
    assert_int_equal(rig->counts[REPLICA_COMMAND_EVICT], 100);
    rig_free(rig);
}

/* Twice as many adapters in use as there are slots: everybody is served, and each load serves the queue that formed
 * behind it instead of one request. */
static void thrashing_degrades_smoothly(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    uint64_t random = test_seed(41);
    struct rig *rig;
    uint32_t sent = 0;

    config.requests_max = 200;
    config.slots.capacity = 4;
    config.loads_max = 2;
    rig = rig_with_adapters(&config, 8);
    while (sent < 1500) {
        rig->at_ns += NS_PER_MS;
        if (rig->live < config.requests_max) {
            (void)rig_request(rig, (uint32_t)(1 + draw_below(&random, 8)), 0, 20, 10, 10);
            sent++;
        }
        if (draw_below(&random, 4) == 0)
            rig_loads_done(rig, TIER_HOST);
        if (rig_steps_most(rig) > 0)
            rig_step_done(rig, 1, NS_PER_MS);
    }
    rig_finish(rig);
    assert_int_equal(rig->counts[REPLICA_COMMAND_DONE], sent);
    assert_true(rig->counts[REPLICA_COMMAND_LOAD] < sent / 2);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load_blocks_nobody_behind_it),
        cmocka_unit_test(many_misses_on_one_adapter_cause_one_load),
        cmocka_unit_test(loads_in_flight_are_bounded_and_begin_in_order),
        cmocka_unit_test(load_evicts_what_is_idle_never_what_runs),
        cmocka_unit_test(load_never_evicts_what_an_earlier_request_waits_to_use),
        cmocka_unit_test(prefetch_looks_at_prefetch_max_waiting_requests_and_no_more),
        cmocka_unit_test(waiting_for_a_slot_is_measured_and_is_no_failure),
        cmocka_unit_test(wait_for_a_slot_ends_when_the_load_begins_for_another),
        cmocka_unit_test(tier_found_is_where_the_adapter_was_when_first_looked_at),
        cmocka_unit_test(failed_load_refuses_all_that_wait_for_it_and_only_them),
        cmocka_unit_test(two_versions_run_side_by_side_until_the_old_is_done),
        cmocka_unit_test(retired_adapter_leaves_when_its_load_ends_and_nobody_wants_it),
        cmocka_unit_test(load_that_evicts_a_hundred_is_said_over_several_ticks),
        cmocka_unit_test(thrashing_degrades_smoothly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
