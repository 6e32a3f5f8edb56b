/* GPU slots: loads while others run, one load for many, holds, prefetch, waits for a slot, tiers. */
#include "shared/replica/rig.h"

static void load_blocks_nobody_behind_it(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig = rig_knowing(&config, 3);

    (void)rig_request(rig, 1, 0, 10, 5, 5); /* its load begins at once, and nothing runs */
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1");
    assert_int_equal(rig->plan_count, 0);
    (void)rig_request(rig, 0, 0, 10, 5, 5); /* so the base goes */
    rig_expect_admitted(rig, "2");
    (void)rig_request(rig, 2, 0, 10, 5, 5); /* and a load begins in the middle of a step */
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2");
    rig_load_done(rig, rig_slot_of(rig, 2, 1), true, TIER_HOST);
    rig_step_done(rig, 1, 1);
    rig_expect_admitted(rig, "2 3");
    rig_load_done(rig, rig_slot_of(rig, 1, 1), true, TIER_STORE);
    rig_step_done(rig, 1, 1);
    rig_expect_admitted(rig, "2 3 1");
    assert_int_equal(replica_state(rig->replica).passes_most, 0); /* waiting for a load is no pass */
    rig_free(rig);
}

static void many_misses_on_one_adapter_cause_one_load(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig = rig_knowing(&config, 1);

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
    rig = rig_knowing(&config, 6);
    for (uint32_t i = 1; i <= 6; i++)
        (void)rig_request(rig, i, 0, 10, 5, 5);
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2");
    rig_load_done(rig, rig_slot_of(rig, 2, 1), true, TIER_HOST);
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
    rig = rig_knowing(&config, 3);
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

/* The policy hears of each admission: 1 was loaded before 2 and used after it, so 2 goes. */
static void admission_is_a_use_in_the_eyes_of_the_eviction_policy(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.slots.capacity = 2;
    rig = rig_knowing(&config, 3);
    for (uint32_t i = 0; i < 3; i++) {
        (void)rig_request(rig, (const uint32_t[]){1, 2, 1}[i], 0, 10, 1, 1);
        rig_finish(rig);
    }
    assert_int_equal(replica_state(rig->replica).cache.hits, 1);
    assert_int_equal(replica_state(rig->replica).cache.misses, 2);
    (void)rig_request(rig, 3, 0, 10, 1, 1);
    rig_expect(rig, REPLICA_COMMAND_EVICT, "2");
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
    rig = rig_knowing(&config, 3);
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
        rig = rig_knowing(&config, 8);
        (void)rig_request(rig, 0, 0, 10, 50, 50);
        for (uint32_t i = 1; i <= 8; i++)
            (void)rig_request(rig, i, 0, 10, 5, 5);
        rig_step_done(rig, 1, 1);
        rig_expect(rig, REPLICA_COMMAND_LOAD, loads[prefetch_max]);
        rig_free(rig);
    }
}

static void loads_in_a_step_begin_for_rows_that_are_free_and_prefetch(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.rows_max = 3;
    config.prefetch_max = 1;
    rig = rig_knowing(&config, 8);
    (void)rig_request(rig, 0, 0, 10, 50, 50); /* one row; two are free */
    for (uint32_t i = 1; i <= 8; i++)
        (void)rig_request(rig, i, 0, 10, 5, 5);
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2 3");
    rig_free(rig);
}

/* max_loras is used up: what could not run with its adapter either is loaded as prefetch only. */
static void cap_bounds_loads_to_those_that_could_run_and_prefetch(void **state)
{
    (void)state;
    static const char *const loads[] = {"1 2", "1 2 3", "1 2 3 4"};

    for (uint32_t prefetch_max = 0; prefetch_max < ARRAY_COUNT(loads); prefetch_max++) {
        struct replica_config config = rig_config();
        struct rig *rig;

        config.max_loras = 2;
        config.prefetch_max = prefetch_max;
        rig = rig_knowing(&config, 8);
        (void)rig_request(rig, 1, 0, 10, 9, 9);
        rig_loads_done(rig, TIER_HOST); /* runs; one place is left, and 2 claims it */
        for (uint32_t i = 2; i <= 8; i++)
            (void)rig_request(rig, i, 0, 10, 5, 5);
        rig_step_done(rig, 1, 1);
        rig_expect(rig, REPLICA_COMMAND_LOAD, loads[prefetch_max]);
        rig_finish(rig);
        assert_int_equal(rig->counts[REPLICA_COMMAND_DONE], 8);
        rig_free(rig);
    }
}

static void requests_for_one_adapter_claim_one_place(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.max_loras = 2;
    config.prefetch_max = 0;
    rig = rig_knowing(&config, 3);
    (void)rig_request(rig, 0, 0, 10, 9, 9);
    for (uint32_t i = 0; i < 5; i++)
        (void)rig_request(rig, (const uint32_t[]){1, 1, 1, 2, 3}[i], 0, 10, 5, 5);
    rig_step_done(rig, 1, 1);
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2");
    rig_free(rig);
}

/* What was prefetched and waits for a place goes on counting as prefetch, or all slots would fill with it in time. */
static void prefetched_adapters_count_until_their_requests_run(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.max_loras = 1;
    config.prefetch_max = 2;
    rig = rig_knowing(&config, 6);
    for (uint32_t i = 1; i <= 6; i++)
        (void)rig_request(rig, i, 0, 10, 3, 3);
    for (uint32_t i = 0; i < 3; i++) { /* 1 runs; 2 and 3 come, and no more */
        rig_loads_done(rig, TIER_HOST);
        if (i < 2)
            rig_step_done(rig, 1, 1);
    }
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2 3");
    rig_finish(rig);
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2 3 4 5 6");
    rig_free(rig);
}

/* When blocks hold the queue, what comes in the middle of a step is prefetch, however many rows are free. */
static void loads_in_a_step_are_prefetch_once_admission_has_ended(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.kv_blocks = 10;
    config.prefetch_max = 3;
    rig = rig_knowing(&config, 8);
    (void)rig_request(rig, 0, 0, 100, 5, 5);
    (void)rig_request(rig, 0, 0, 100, 5, 5); /* does not fit beside the first, and is the first that is looked at */
    rig_step_done(rig, 1, 1);
    for (uint32_t i = 1; i <= 8; i++)
        (void)rig_request(rig, i, 0, 10, 5, 5);
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 2");
    rig_free(rig);
}

/* Looking ahead charges each prompt as if it had been admitted, so tenants' loads alternate as their requests will. */
static void prefetch_follows_the_order_that_fairness_will_have(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.queue = &queue_vtc;
    config.rows_max = 3;
    config.prefetch_max = 2;
    rig = rig_knowing(&config, 3);
    for (uint32_t i = 0; i < 3; i++) /* tenant 1 has two rows, so its counter rises faster */
        (void)rig_request(rig, 0, i > 0, 10, 50, 50);
    rig_step_done(rig, 1, 1);
    (void)rig_request(rig, 1, 0, 100, 5, 5);
    for (uint32_t i = 0; i < 3; i++)
        rig_step_done(rig, 1, 1);
    (void)rig_request(rig, 3, 1, 100, 5, 5);
    (void)rig_request(rig, 2, 0, 100, 5, 5); /* its tenant has the least service now, but 3 will go before it */
    rig_step_done(rig, 1, 1);
    rig_expect(rig, REPLICA_COMMAND_LOAD, "1 3");
    rig_free(rig);
}

static void waiting_for_a_slot_is_measured_and_is_no_failure(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    const struct replica_command *done;
    struct rig *rig;

    config.slots.capacity = 1;
    rig = rig_knowing(&config, 2);
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
    rig = rig_knowing(&config, 2);
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

/* A slot could be freed, but the link is busy: from then on it waits for the load. */
static void wait_for_a_slot_ends_when_only_the_link_is_lacking(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.slots.capacity = 2;
    config.loads_max = 1;
    rig = rig_knowing(&config, 3);
    (void)rig_request(rig, 1, 0, 10, 2, 2);
    rig_loads_done(rig, TIER_HOST);
    (void)rig_request(rig, 2, 0, 10, 1, 1); /* loading */
    rig->at_ns = 1000;
    (void)rig_request(rig, 3, 0, 10, 1, 1); /* one slot is pinned, the other is being filled */
    rig_step_done(rig, 1, 1);
    rig->at_ns = 4000;
    rig_step_done(rig, 1, 1); /* 1 is idle now */
    rig->at_ns = 9000;
    rig_loads_done(rig, TIER_HOST);
    rig_finish(rig);
    assert_int_equal(rig_last(rig, REPLICA_COMMAND_DONE)->subject, 3);
    assert_int_equal(rig_last(rig, REPLICA_COMMAND_DONE)->command.done.slot_wait_ns, 3000);
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

    rig = rig_knowing(&config, 3);
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

/* Under vtc an earlier tenant may take the slot from a waiting request, which then waits for a second load. */
static void of_several_loads_the_coldest_counts(void **state)
{
    (void)state;
    for (uint32_t cold_first = 0; cold_first < 2; cold_first++) {
        struct replica_config config = rig_config();
        struct rig *rig;

        config.queue = &queue_vtc;
        config.max_loras = 1;
        config.slots.capacity = 2;
        rig = rig_knowing(&config, 3);
        (void)rig_request(rig, 2, 0, 10, 30, 30); /* 1: takes the cap */
        rig_loads_done(rig, TIER_HOST);
        (void)rig_request(rig, 0, 1, 10, 90, 90); /* 2: makes tenant 1 pay by the step */
        (void)rig_request(rig, 1, 1, 10, 1, 1);   /* 3: prefetched, held back by the cap */
        rig_loads_done(rig, cold_first ? TIER_STORE : TIER_HOST);
        rig_step_done(rig, 1, 1);
        (void)rig_request(rig, 3, 2, 10, 1, 1); /* 4: level with tenant 1 when it comes */
        for (uint32_t i = 0; i < 3; i++)
            rig_step_done(rig, 1, 1);
        (void)rig_request(rig, 0, 3, 10, 1, 1); /* 5: a reason to look again */
        rig_step_done(rig, 1, 1);
        rig_expect(rig, REPLICA_COMMAND_EVICT, "1");
        while (rig->live > 1) {
            for (uint32_t i = 0; i < config.slots.entries_max; i++) {
                if (rig->slots[i].state == SLOT_LOADING)
                    rig_load_done(rig, i, true, rig->slots[i].adapter.index == 1 && !cold_first ? TIER_STORE : TIER_HOST);
            }
            rig_step_done(rig, 1, 1);
        }
        rig_expect(rig, REPLICA_COMMAND_LOAD, "2 1 3 1");
        assert_int_equal(rig_last(rig, REPLICA_COMMAND_DONE)->subject, 3);
        assert_int_equal(tier_of(rig), TIER_STORE);
        rig_free(rig);
    }
}

/* A large adapter where a hundred small ones lie: more evictions than a step can say, then the load. Also in the
 * middle of an engine step, which goes on meanwhile. */
static void load_that_evicts_a_hundred_is_said_over_several_ticks(void **state)
{
    (void)state;
    for (uint32_t running = 0; running < 2; running++) {
        struct replica_config config = rig_config();
        struct rig *rig;

        config.loads_max = 100;
        config.slots =
            (struct cache_config){.unit = CACHE_BYTES, .capacity = 100, .entries_max = 100, .evict = &evict_lru};
        rig = rig_knowing(&config, 100);
        rig_know(rig, 101, 1, 100);
        for (uint32_t i = 1; i <= 100; i++)
            (void)rig_request(rig, i, 0, 10, 1, 1);
        rig_finish(rig);
        assert_int_equal(replica_state(rig->replica).slots_used, 100);
        if (running)
            (void)rig_request(rig, 0, 0, 10, 50, 50);
        (void)rig_request(rig, 101, 0, 10, 1, 1);
        assert_int_equal(rig->out.count, COMMANDS_MAX - 1);
        assert_int_equal(replica_wakeup_at_ns(rig->replica), rig->at_ns);
        rig_tick(rig);
        assert_int_equal(rig->counts[REPLICA_COMMAND_EVICT], 100);
        assert_int_equal(rig->loads, 1);
        assert_int_equal(replica_wakeup_at_ns(rig->replica), NEVER_NS);
        rig_finish(rig);
        rig_free(rig);
    }
}

/* 32 ends take 32 retired adapters with them: 64 commands, and then there is a RUN to say. */
static void ends_that_take_their_adapter_along_leave_room_for_run(void **state)
{
    (void)state;
    for (uint32_t count = 29; count < 35; count++) {
        struct replica_config config = rig_config();
        struct rig *rig = rig_knowing(&config, count);

        (void)rig_request(rig, 0, 0, 10, 50, 50);
        for (uint32_t i = 1; i <= count; i++)
            (void)rig_request(rig, i, 0, 10, 5, 5);
        while (rig->loads > 0)
            rig_loads_done(rig, TIER_HOST);
        for (uint32_t i = 1; i <= count; i++)
            rig_retire(rig, (adapter_id){i, 1});
        while (rig->counts[REPLICA_COMMAND_DONE] < count)
            rig_step_done(rig, 1, 1);
        assert_int_equal(rig->counts[REPLICA_COMMAND_EVICT], count);
        assert_int_equal(rig->plan_count, 1);
        rig_free(rig);
    }
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
    rig = rig_knowing(&config, 8);
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
        cmocka_unit_test(admission_is_a_use_in_the_eyes_of_the_eviction_policy),
        cmocka_unit_test(load_never_evicts_what_an_earlier_request_waits_to_use),
        cmocka_unit_test(prefetch_looks_at_prefetch_max_waiting_requests_and_no_more),
        cmocka_unit_test(loads_in_a_step_begin_for_rows_that_are_free_and_prefetch),
        cmocka_unit_test(cap_bounds_loads_to_those_that_could_run_and_prefetch),
        cmocka_unit_test(requests_for_one_adapter_claim_one_place),
        cmocka_unit_test(prefetched_adapters_count_until_their_requests_run),
        cmocka_unit_test(loads_in_a_step_are_prefetch_once_admission_has_ended),
        cmocka_unit_test(prefetch_follows_the_order_that_fairness_will_have),
        cmocka_unit_test(waiting_for_a_slot_is_measured_and_is_no_failure),
        cmocka_unit_test(wait_for_a_slot_ends_when_the_load_begins_for_another),
        cmocka_unit_test(wait_for_a_slot_ends_when_only_the_link_is_lacking),
        cmocka_unit_test(tier_found_is_where_the_adapter_was_when_first_looked_at),
        cmocka_unit_test(of_several_loads_the_coldest_counts),
        cmocka_unit_test(load_that_evicts_a_hundred_is_said_over_several_ticks),
        cmocka_unit_test(ends_that_take_their_adapter_along_leave_room_for_run),
        cmocka_unit_test(thrashing_degrades_smoothly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
