/* Replicas of their own for hot adapters: known answers of the two lines and the two patiences, who is routed where, and what
 * happens when one is lost, fails, is retired, renewed or hotter than all. */
#include "merge_rig.h"

static const adapter_id hot = {1, 0};
static const adapter_id warm = {2, 0};
static const adapter_id cold = {3, 0};

static replica_id scene_pass(struct scene *scene, adapter_id adapter, uint32_t output_tokens)
{
    enum route_reason reason;
    request_id request;
    replica_id replica = scene_begin(scene, adapter, 0, &request, &reason);

    scene_end(scene, request, replica, output_tokens);
    return replica;
}

/* So many tokens a second, in ten requests, for so long. */
static void stream(struct scene *scene, adapter_id adapter, uint32_t tokens_per_s, uint32_t seconds)
{
    for (uint32_t i = 0; i < 10 * seconds; i++) {
        scene_pass(scene, adapter, tokens_per_s / 10);
        scene_advance(scene, scene->rig.at_ns + SECOND / 10);
    }
}

/* Two adapters at once. */
static void streams(struct scene *scene, uint32_t hot_per_s, uint32_t warm_per_s, uint32_t seconds)
{
    for (uint32_t i = 0; i < 10 * seconds; i++) {
        scene_pass(scene, hot, hot_per_s / 10);
        scene_pass(scene, warm, warm_per_s / 10);
        scene_advance(scene, scene->rig.at_ns + SECOND / 10);
    }
}

static bool is_merged(const struct scene *scene, adapter_id adapter)
{
    replica_id replica;

    return fleet_merged(scene->rig.fleet, adapter, &replica);
}

static uint32_t served_by(struct scene *scene, adapter_id adapter)
{
    return replica_index(scene_pass(scene, adapter, 1));
}

static void a_steady_stream_is_measured_to_two_percent(void **state)
{
    (void)state;
    static const uint32_t rates[] = {100, 1000, 7310, 200000};

    for (size_t i = 0; i < ARRAY_COUNT(rates); i++) {
        struct scene scene;
        uint64_t milli;

        scene_open(&scene, 1);
        stream(&scene, hot, rates[i], 200);
        milli = fleet_tokens_milli(scene.rig.fleet, hot);
        assert_true(milli > rates[i] * UINT64_C(980) && milli < rates[i] * UINT64_C(1020));
        rig_close(&scene.rig);
    }
}

static void above_the_line_for_less_than_the_patience_does_nothing(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, 2);
    for (uint32_t i = 0; i < 20; i++) {
        /* Over the line after some 8 s of it, below again soon after the burst. */
        stream(&scene, hot, 3000, 15);
        stream(&scene, hot, 10, 60);
    }
    assert_int_equal(scene.starts, 0);
    assert_int_equal(scene.drains, 0);
    rig_close(&scene.rig);
}

static void above_the_line_for_the_patience_starts_one_and_one_only(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, 2);
    stream(&scene, hot, 1400, 600);
    assert_int_equal(scene.starts, 1);
    assert_int_equal(scene.drains, 0);
    /* The counter passes 1200 / 1400 after 28 s; then 20 s, and a look at most 5 s late. */
    assert_true(scene.started_at_ns >= 46 * SECOND && scene.started_at_ns <= 56 * SECOND);
    assert_true(is_merged(&scene, hot));
    assert_int_equal(served_by(&scene, hot), FIRST);
    rig_close(&scene.rig);
}

static void between_the_lines_nothing_changes(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, 2);
    stream(&scene, hot, 1150, 600);
    assert_int_equal(scene.starts, 0);
    stream(&scene, hot, 1400, 200);
    assert_int_equal(scene.starts, 1);
    /* Up and down within the band, an hour long. */
    for (uint32_t i = 0; i < 60; i++)
        stream(&scene, hot, i % 2 ? 860 : 1150, 60);
    assert_int_equal(scene.starts, 1);
    assert_int_equal(scene.drains, 0);
    assert_true(is_merged(&scene, hot));
    rig_close(&scene.rig);
}

static void below_the_line_for_the_patience_drains_it(void **state)
{
    (void)state;
    struct scene scene;
    int64_t fell_at_ns;

    scene_open(&scene, 2);
    stream(&scene, hot, 1400, 200);
    assert_true(is_merged(&scene, hot));
    /* A dip that is shorter than the patience: 800 / 1400 is passed after 10 s or so. */
    stream(&scene, hot, 300, 30);
    stream(&scene, hot, 1400, 60);
    assert_int_equal(scene.drains, 0);
    fell_at_ns = scene.rig.at_ns;
    stream(&scene, hot, 300, 90);
    assert_int_equal(scene.drains, 1);
    assert_true(scene.drained_at_ns - fell_at_ns >= 45 * SECOND && scene.drained_at_ns - fell_at_ns <= 70 * SECOND);
    assert_false(is_merged(&scene, hot));
    assert_true(served_by(&scene, hot) < FIRST);
    rig_close(&scene.rig);
}

/* Nothing comes any more: nobody tells of it but the clock, which is asked for no longer than it is needed. */
static void one_that_falls_silent_is_drained_and_the_core_sleeps(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, 2);
    assert_int_equal(fleet_wakeup_at_ns(scene.rig.fleet), NEVER_NS);
    stream(&scene, hot, 1400, 200);
    assert_int_not_equal(fleet_wakeup_at_ns(scene.rig.fleet), NEVER_NS);
    scene_advance(&scene, 400 * SECOND);
    assert_int_equal(scene.drains, 1);
    assert_int_equal(fleet_wakeup_at_ns(scene.rig.fleet), NEVER_NS);
    rig_close(&scene.rig);
}

static void no_other_request_is_routed_to_it(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, 2);
    stream(&scene, hot, 1400, 200);
    for (uint32_t i = 0; i < 200; i++) {
        assert_true(served_by(&scene, cold) < FIRST);
        assert_true(served_by(&scene, (adapter_id){0, 0}) < FIRST);
        assert_true(served_by(&scene, (adapter_id){4 + i % 60, 0}) < FIRST);
    }
    rig_close(&scene.rig);
}

static void what_it_cannot_carry_goes_to_the_pool(void **state)
{
    (void)state;
    struct scene scene;
    enum route_reason reason;
    request_id requests[5];
    replica_id replicas[5];

    scene_open(&scene, 2);
    stream(&scene, hot, 1400, 200);
    for (uint32_t i = 0; i < 5; i++)
        replicas[i] = scene_begin(&scene, hot, i + 1, &requests[i], &reason);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(replica_index(replicas[i]) == FIRST, i < 3);
    scene_end(&scene, requests[1], replicas[1], 1);
    assert_int_equal(replica_index(scene_begin(&scene, hot, 6, &requests[1], &reason)), FIRST);
    rig_close(&scene.rig);
}

/* Its base has no other replica: it serves its own, and nobody else. */
static void an_empty_pool_refuses_all_but_its_adapter(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, 2);
    stream(&scene, hot, 1400, 200);
    for (uint32_t i = 0; i < 3; i++)
        rig_down(&scene.rig, i, 0);
    assert_int_equal(served_by(&scene, hot), FIRST);
    assert_int_equal(rig_request(&scene.rig, request_id_make(1 << 20, 9), cold, 0)->kind, FLEET_COMMAND_REFUSE);
    rig_close(&scene.rig);
}

static void a_drain_cuts_no_stream(void **state)
{
    (void)state;
    struct scene scene;
    enum route_reason reason;
    request_id request;
    replica_id replica;

    scene_open(&scene, 2);
    stream(&scene, hot, 1400, 200);
    replica = scene_begin(&scene, hot, 7, &request, &reason);
    scene.answers = false;
    scene_advance(&scene, 400 * SECOND);
    assert_int_equal(scene.drains, 1);
    assert_int_equal(fleet_outstanding(scene.rig.fleet, replica), 1);
    assert_true(served_by(&scene, hot) < FIRST);
    scene_end(&scene, request, replica, 1);
    scene_answer(&scene, true);
    rig_close(&scene.rig);
}

static void a_retired_adapter_loses_it_at_once(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, 2);
    stream(&scene, hot, 1400, 200);
    rig_retire(&scene.rig, hot);
    scene_hear(&scene);
    assert_int_equal(scene.drains, 1);
    assert_false(is_merged(&scene, hot));
    assert_int_equal(fleet_tokens_milli(scene.rig.fleet, hot), 0);
    scene_advance(&scene, 1000 * SECOND);
    assert_int_equal(scene.starts, 1);
    rig_close(&scene.rig);
}

/* What was asked is answered first. */
static void one_that_is_retired_while_it_starts_drains_when_it_is_up(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, 2);
    scene.answers = false;
    stream(&scene, hot, 1400, 60);
    assert_int_equal(scene.asked_count, 1);
    rig_retire(&scene.rig, hot);
    assert_int_equal(scene.rig.out.count, 0);
    scene_answer(&scene, true);
    scene_hear(&scene);
    assert_int_equal(scene.drains, 1);
    scene_answer(&scene, true);
    rig_close(&scene.rig);
}

static void one_that_is_retired_while_it_is_watched_is_forgotten(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, 2);
    stream(&scene, hot, 1400, 35);
    rig_retire(&scene.rig, hot);
    scene_advance(&scene, 600 * SECOND);
    assert_int_equal(scene.starts, 0);
    rig_close(&scene.rig);
}

/* The weights that are merged are those of one version. */
static void a_newer_version_is_never_served_by_the_older_ones_replica(void **state)
{
    (void)state;
    struct scene scene;
    adapter_id renewed = {hot.index, 1};

    scene_open(&scene, 2);
    stream(&scene, hot, 1400, 200);
    assert_true(served_by(&scene, renewed) < FIRST);
    assert_int_equal(scene.drains, 1);
    assert_true(served_by(&scene, hot) < FIRST);
    /* The name is as hot as it was: it has to stay so for the patience, no longer. */
    stream(&scene, renewed, 1400, 15);
    assert_int_equal(scene.starts, 1);
    stream(&scene, renewed, 1400, 15);
    assert_int_equal(scene.starts, 2);
    assert_true(is_merged(&scene, renewed));
    assert_int_equal(served_by(&scene, renewed), FIRST);
    assert_true(served_by(&scene, hot) < FIRST); /* a late one of the old version */
    rig_retire(&scene.rig, hot);
    scene_hear(&scene);
    assert_true(is_merged(&scene, renewed));
    rig_close(&scene.rig);
}

static void a_lost_replica_comes_back_only_after_the_patience(void **state)
{
    (void)state;
    struct scene scene;
    int64_t lost_at_ns;

    scene_open(&scene, 2);
    stream(&scene, hot, 1400, 200);
    lost_at_ns = scene.rig.at_ns;
    rig_down(&scene.rig, FIRST, 0);
    assert_true(served_by(&scene, hot) < FIRST);
    stream(&scene, hot, 1400, 100);
    assert_int_equal(scene.starts, 2);
    assert_true(scene.started_at_ns - lost_at_ns >= UP_S * SECOND);
    assert_true(scene.started_at_ns - lost_at_ns <= (UP_S + 6) * SECOND);
    rig_close(&scene.rig);
}

static void a_start_that_fails_is_asked_for_again_after_the_patience(void **state)
{
    (void)state;
    struct scene scene;
    int64_t failed_at_ns;

    scene_open(&scene, 2);
    scene.answers = false;
    stream(&scene, hot, 1400, 100);
    assert_int_equal(scene.starts, 1); /* on its way: nobody asks twice */
    scene_answer(&scene, false);
    failed_at_ns = scene.rig.at_ns;
    stream(&scene, hot, 1400, 60);
    assert_int_equal(scene.starts, 2);
    assert_true(scene.started_at_ns - failed_at_ns >= UP_S * SECOND);
    rig_close(&scene.rig);
}

static void when_all_are_taken_the_hottest_keep_them(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, 1);
    streams(&scene, 2000, 0, 100);
    assert_true(is_merged(&scene, hot));
    /* Hotter, but by less than the band is wide: 1.5 times. */
    streams(&scene, 2000, 2800, 300);
    assert_true(is_merged(&scene, hot));
    assert_int_equal(scene.starts, 1);
    /* Hotter by more: its place is taken, once it has drained, and it does not come back. */
    streams(&scene, 2000, 3400, 600);
    assert_true(is_merged(&scene, warm));
    assert_false(is_merged(&scene, hot));
    assert_int_equal(scene.starts, 2);
    assert_int_equal(scene.drains, 1);
    rig_close(&scene.rig);
}

static void two_places_are_for_two(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, 2);
    streams(&scene, 1500, 1500, 200);
    assert_true(is_merged(&scene, hot) && is_merged(&scene, warm));
    assert_int_equal(scene.starts, 2);
    scene_tell(&scene, 1); /* fewer: who is there stays until it cools */
    streams(&scene, 1500, 1500, 200);
    assert_int_equal(scene.drains, 0);
    streams(&scene, 1500, 100, 200);
    assert_int_equal(scene.drains, 1);
    streams(&scene, 1500, 1500, 200);
    assert_int_equal(scene.starts, 2);
    rig_close(&scene.rig);
}

/* More than are watched: the hottest of them are. */
static void of_very_many_hot_ones_the_hottest_are_watched(void **state)
{
    (void)state;
    struct fleet_config config = rig_config(&route_affinity);
    struct scene scene = {.answers = true};

    config.rate_half_life_ns = 10 * SECOND;
    config.adapters_max = 100;
    rig_open(&scene.rig, &config);
    rig_up(&scene.rig, 0, 0, 0, 0);
    scene_tell(&scene, 1);
    for (uint32_t i = 0; i < 600; i++) {
        for (uint32_t k = 1; k <= 100; k++)
            scene_pass(&scene, (adapter_id){k, 0}, 150 + (k == 100 ? 200 : k / 10));
        scene_advance(&scene, scene.rig.at_ns + SECOND / 10);
    }
    assert_int_equal(scene.starts - scene.drains, 1);
    assert_true(is_merged(&scene, (adapter_id){100, 0}));
    rig_close(&scene.rig);
}

static void tell_without_band(void *context)
{
    struct scene *scene = context;
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.merge.up_ns = event.merge.down_ns = SECOND;
    event.merge.break_even_milli = 1;
    event.merge.up_milli = 900;
    event.merge.down_milli = 800;
    event.merge.outstanding_max = event.merge.count = event.merge.tp = 1;
    event.merge.first = FIRST;
    rig_send(&scene->rig, FLEET_EVENT_MERGE, &event);
}

static void come_up_merged(void *context)
{
    struct scene *scene = context;
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.replica_up.replica = replica_id_make(0, 7);
    event.replica_up.adapter = hot;
    rig_send(&scene->rig, FLEET_EVENT_REPLICA_UP, &event);
}

static void what_makes_no_sense_stops_the_program(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, 2);
    assert_true(check_stops(tell_without_band, &scene));
    assert_true(check_stops(come_up_merged, &scene));
    rig_close(&scene.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_stream_is_measured_to_two_percent),
        cmocka_unit_test(above_the_line_for_less_than_the_patience_does_nothing),
        cmocka_unit_test(above_the_line_for_the_patience_starts_one_and_one_only),
        cmocka_unit_test(between_the_lines_nothing_changes),
        cmocka_unit_test(below_the_line_for_the_patience_drains_it),
        cmocka_unit_test(one_that_falls_silent_is_drained_and_the_core_sleeps),
        cmocka_unit_test(no_other_request_is_routed_to_it),
        cmocka_unit_test(what_it_cannot_carry_goes_to_the_pool),
        cmocka_unit_test(an_empty_pool_refuses_all_but_its_adapter),
        cmocka_unit_test(a_drain_cuts_no_stream),
        cmocka_unit_test(a_retired_adapter_loses_it_at_once),
        cmocka_unit_test(one_that_is_retired_while_it_starts_drains_when_it_is_up),
        cmocka_unit_test(one_that_is_retired_while_it_is_watched_is_forgotten),
        cmocka_unit_test(a_newer_version_is_never_served_by_the_older_ones_replica),
        cmocka_unit_test(a_lost_replica_comes_back_only_after_the_patience),
        cmocka_unit_test(a_start_that_fails_is_asked_for_again_after_the_patience),
        cmocka_unit_test(when_all_are_taken_the_hottest_keep_them),
        cmocka_unit_test(two_places_are_for_two),
        cmocka_unit_test(of_very_many_hot_ones_the_hottest_are_watched),
        cmocka_unit_test(what_makes_no_sense_stops_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
