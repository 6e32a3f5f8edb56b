/* The life of an adapter here: failed loads, versions side by side, retirement. */
#include "shared/replica/rig.h"

static void failed_load_refuses_all_that_wait_for_it_and_only_them(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig = rig_knowing(&config, 2);

    for (uint32_t i = 0; i < 150; i++) /* more than a step's commands can say */
        (void)rig_request(rig, 1 + i % 2, i % 2, 10, 5, 5);
    rig_load_done(rig, rig_slot_of(rig, 1, 1), false, TIER_STORE);
    assert_int_equal(rig->out.count, COMMANDS_MAX - 2);
    for (uint32_t i = 0; rig->live > 75 && i < config.requests_max; i++) {
        if (rig->requests[i].live && rig->requests[i].adapter.index == 1)
            rig_cancel(rig, i); /* crosses the refusal that is still to be said: too late */
    }
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
    struct rig *rig = rig_knowing(&config, 1);

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
    struct rig *rig = rig_knowing(&config, 2);
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

static void retired_adapter_whose_load_fails_gives_its_record_up(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.adapters_max = 1;
    rig = rig_knowing(&config, 1);
    rig_cancel(rig, rig_request(rig, 1, 0, 10, 6, 6));
    rig_retire(rig, (adapter_id){1, 1});
    rig_load_done(rig, rig_slot_of(rig, 1, 1), false, TIER_STORE);
    rig_know(rig, 2, 1, 1); /* finds the table empty */
    (void)rig_request(rig, 2, 0, 10, 6, 6);
    rig_finish(rig);
    assert_int_equal(rig->counts[REPLICA_COMMAND_REFUSE], 0);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_load_refuses_all_that_wait_for_it_and_only_them),
        cmocka_unit_test(two_versions_run_side_by_side_until_the_old_is_done),
        cmocka_unit_test(retired_adapter_leaves_when_its_load_ends_and_nobody_wants_it),
        cmocka_unit_test(retired_adapter_whose_load_fails_gives_its_record_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
