/* Replicas that come and go with the load: known answers of the hysteresis, floor and ceiling, what a drain promises, starts
 * that fail; and a long random life in which no request is ever cut. */
#include "rig.h"

#include <stdlib.h>

#define SECOND NS_PER_S
#define CEILING 4

struct asked {
    uint64_t command;
    replica_id replica;
    bool drain;
};

struct scene {
    struct rig rig;
    struct asked asked[64];
    uint32_t asked_count;
    uint32_t starts;
    uint32_t drains;
    uint64_t ordinal;
    uint32_t slots;             /* requests sent so far; none of them ends but by scene_end() */
    replica_id replica_of[256];
    request_id request_of[256];
};

static void hear(struct scene *scene)
{
    for (uint32_t i = 0; i < scene->rig.out.count; i++) {
        const struct fleet_command *command = &scene->rig.out.items[i];
        bool drain = command->kind == FLEET_COMMAND_REPLICA_DRAIN;

        if (!drain && command->kind != FLEET_COMMAND_REPLICA_START)
            continue;
        assert_true(scene->asked_count < ARRAY_COUNT(scene->asked));
        assert_int_equal(command->replica_start.node.value, NODE_ANY);
        assert_int_equal(command->replica_start.base.value, 0);
        scene->asked[scene->asked_count++] = (struct asked){command->id, command->replica_start.replica, drain};
        scene->starts += !drain;
        scene->drains += drain;
    }
}

static void advance(struct scene *scene, int64_t until_ns)
{
    while (fleet_wakeup_at_ns(scene->rig.fleet) <= until_ns) {
        struct fleet_event event;

        memset(&event, 0, sizeof(event));
        scene->rig.at_ns = max_i64(scene->rig.at_ns, fleet_wakeup_at_ns(scene->rig.fleet));
        rig_send(&scene->rig, FLEET_EVENT_TICK, &event);
        hear(scene);
    }
    scene->rig.at_ns = until_ns;
}

static void tell_scale(struct scene *scene, uint16_t floor, uint16_t ceiling)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.scale.up_ns = 8 * SECOND;
    event.scale.down_ns = 60 * SECOND;
    event.scale.target_milli = 10000;
    event.scale.up_milli = 1200;
    event.scale.down_milli = 700;
    event.scale.floor = floor;
    event.scale.ceiling = ceiling;
    event.scale.tp = 1;
    rig_send(&scene->rig, FLEET_EVENT_SCALE, &event);
    assert_int_equal(scene->rig.out.count, 0);
}

/* Answers the oldest thing asked for. */
static void answer(struct scene *scene, bool fine)
{
    struct asked asked = scene->asked[0];
    struct fleet_event event;

    assert_true(scene->asked_count > 0);
    memmove(scene->asked, scene->asked + 1, --scene->asked_count * sizeof(asked));
    memset(&event, 0, sizeof(event));
    event.answers = asked.command;
    event.replica_up.replica = asked.replica;
    event.replica_up.node.value = (uint16_t)(replica_index(asked.replica) / 2);
    if (!asked.drain && fine) {
        rig_send(&scene->rig, FLEET_EVENT_REPLICA_UP, &event);
        return;
    }
    event.reason = asked.drain ? REPLICA_DRAINED : REPLICA_FAILED;
    rig_send(&scene->rig, FLEET_EVENT_REPLICA_DOWN, &event);
}

static void scene_open(struct scene *scene, const struct scale_policy *policy, uint16_t floor, uint16_t ceiling)
{
    struct fleet_config config = rig_config(&route_least_loaded);

    *scene = (struct scene){0};
    config.scale = policy;
    rig_open(&scene->rig, &config);
    tell_scale(scene, floor, ceiling);
    advance(scene, 0);
    while (scene->asked_count > 0)
        answer(scene, true);
}

static void request(struct scene *scene)
{
    uint32_t slot = scene->slots++;
    const struct fleet_command *command;

    scene->request_of[slot] = request_id_make(++scene->ordinal, slot);
    command = rig_request(&scene->rig, scene->request_of[slot], (adapter_id){0, 0}, 0);
    assert_int_equal(command->kind, FLEET_COMMAND_ROUTE);
    scene->replica_of[slot] = command->route.replica;
}

static void requests(struct scene *scene, uint32_t count)
{
    while (scene->slots < count)
        request(scene);
}

/* The newest ones end. */
static void requests_end(struct scene *scene, uint32_t left)
{
    while (scene->slots > left) {
        scene->slots--;
        rig_done(&scene->rig, scene->request_of[scene->slots], scene->replica_of[scene->slots]);
    }
}

static struct scale_counts counts(const struct scene *scene)
{
    return fleet_scale_counts(scene->rig.fleet, (base_id){0});
}

static void the_floor_is_started_at_once(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, &scale_load, 2, CEILING);
    assert_int_equal(scene.starts, 2);
    assert_int_equal(counts(&scene).up, 2);
    advance(&scene, 3600 * SECOND);
    assert_int_equal(scene.starts, 2);
    assert_int_equal(scene.drains, 0);
    rig_close(&scene.rig);
}

static void replicas_that_are_up_already_are_its_own(void **state)
{
    (void)state;
    struct scene scene = {0};
    struct fleet_config config = rig_config(&route_least_loaded);

    config.scale = &scale_load;
    rig_open(&scene.rig, &config);
    rig_up(&scene.rig, 0, 0, 0, 0);
    rig_up(&scene.rig, 1, 0, 0, 0);
    tell_scale(&scene, 1, CEILING);
    assert_int_equal(counts(&scene).up, 2);
    advance(&scene, 200 * SECOND);
    assert_int_equal(scene.starts, 0);
    assert_int_equal(scene.drains, 1);
    rig_close(&scene.rig);
}

/* 25 requests on one replica with a target of 10: three replicas, once the load has stayed for up_ns. */
static void a_load_above_the_line_starts_what_it_needs_once_it_has_stayed(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, &scale_load, 1, CEILING);
    requests(&scene, 25);
    advance(&scene, 8 * SECOND);
    assert_int_equal(scene.starts, 1); /* the floor's */
    advance(&scene, 20 * SECOND);
    assert_int_equal(scene.starts, 3);
    assert_int_equal(counts(&scene).starting, 2);
    advance(&scene, 3600 * SECOND); /* those on their way are counted: nobody asks for more of them */
    assert_int_equal(scene.starts, 3);
    rig_close(&scene.rig);
}

static void a_burst_shorter_than_the_patience_starts_nothing(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, &scale_load, 1, CEILING);
    for (int64_t minute = 1; minute < 30; minute++) {
        requests(&scene, 40);
        advance(&scene, scene.rig.at_ns + 3 * SECOND);
        requests_end(&scene, 0);
        advance(&scene, minute * 60 * SECOND);
    }
    assert_int_equal(scene.starts, 1);
    rig_close(&scene.rig);
}

/* Between the lines nothing moves, and just beyond one it moves once: the answer lies inside the band. */
static void a_load_at_the_line_does_not_flap(void **state)
{
    (void)state;

    for (uint32_t load = 1; load <= 40; load++) {
        struct scene scene;
        uint32_t starts;
        uint32_t drains;

        scene_open(&scene, &scale_load, 1, CEILING);
        requests(&scene, load);
        for (int64_t second = 1; second <= 600; second++) {
            advance(&scene, second * SECOND);
            while (scene.asked_count > 0)
                answer(&scene, true);
        }
        starts = scene.starts;
        drains = scene.drains;
        assert_int_equal(drains, 0);
        assert_int_equal(counts(&scene).up, load <= 12 ? 1 : (load + 9) / 10);
        /* Half a request up and down, a second each, for an hour: a mean at the line. */
        for (int64_t second = 601; second <= 4200; second++) {
            if (second % 2)
                requests(&scene, load + 1);
            else
                requests_end(&scene, load);
            advance(&scene, second * SECOND);
            while (scene.asked_count > 0)
                answer(&scene, true);
        }
        assert_true(scene.starts - starts <= 1);
        assert_int_equal(scene.drains, drains);
        rig_close(&scene.rig);
    }
}

static void the_ceiling_holds(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, &scale_load, 1, CEILING);
    requests(&scene, 200);
    advance(&scene, 60 * SECOND);
    assert_int_equal(scene.starts, CEILING);
    rig_close(&scene.rig);
}

static void fixed_never_moves_beyond_floor_and_ceiling(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, &scale_fixed, 2, CEILING);
    requests(&scene, 200);
    advance(&scene, 600 * SECOND);
    assert_int_equal(counts(&scene).up, 2);
    tell_scale(&scene, 3, CEILING);
    advance(&scene, 601 * SECOND);
    assert_int_equal(counts(&scene).starting, 1);
    answer(&scene, true);
    tell_scale(&scene, 1, 1);
    advance(&scene, 700 * SECOND);
    assert_int_equal(counts(&scene).draining, 2);
    assert_int_equal(counts(&scene).up, 1);
    rig_close(&scene.rig);
}

/* Three replicas, two requests left on one of them: it drains last, and is gone when they are. */
static void a_drain_takes_no_request_and_cuts_none(void **state)
{
    (void)state;
    struct scene scene;
    uint32_t on_draining = 0;

    scene_open(&scene, &scale_load, 1, CEILING);
    requests(&scene, 30);
    advance(&scene, 20 * SECOND);
    while (scene.asked_count > 0)
        answer(&scene, true);
    assert_int_equal(counts(&scene).up, 3);
    requests(&scene, 48); /* the newcomers have the most room: all three have some now */
    requests_end(&scene, 36);
    for (uint32_t i = 0; i < 28; i++) { /* of replica 0's thirty two remain */
        scene.slots--;
        request_id id = scene.request_of[i];
        rig_done(&scene.rig, id, scene.replica_of[i]);
        scene.request_of[i] = scene.request_of[scene.slots];
        scene.replica_of[i] = scene.replica_of[scene.slots];
    }
    advance(&scene, 200 * SECOND);
    assert_int_equal(counts(&scene).draining, 2);
    assert_int_equal(counts(&scene).up, 1);
    for (uint32_t i = 0; i < 20; i++)
        request(&scene);
    for (uint32_t i = 0; i < scene.asked_count; i++) {
        assert_true(scene.asked[i].drain);
        on_draining += fleet_outstanding(scene.rig.fleet, scene.asked[i].replica);
        for (uint32_t k = scene.slots - 20; k < scene.slots; k++)
            assert_int_not_equal(scene.replica_of[k].value, scene.asked[i].replica.value);
    }
    assert_true(on_draining > 0);
    /* What they have they finish, and only then they are gone. */
    for (uint32_t i = 0; i < scene.slots; i++)
        for (uint32_t k = 0; k < scene.asked_count; k++)
            if (scene.replica_of[i].value == scene.asked[k].replica.value)
                rig_done(&scene.rig, scene.request_of[i], scene.replica_of[i]);
    answer(&scene, true);
    answer(&scene, true);
    assert_int_equal(counts(&scene).draining, 0);
    rig_close(&scene.rig);
}

struct early {
    struct scene *scene;
};

static void answer_early(void *context)
{
    struct early *early = context;

    answer(early->scene, true);
}

static void a_drain_that_is_answered_with_requests_left_is_a_mistake(void **state)
{
    (void)state;
    struct scene scene;
    struct early early = {&scene};

    scene_open(&scene, &scale_load, 2, CEILING);
    requests(&scene, 2);
    tell_scale(&scene, 1, CEILING);
    advance(&scene, 200 * SECOND);
    assert_int_equal(counts(&scene).draining, 1);
    assert_true(check_stops(answer_early, &early));
    rig_close(&scene.rig);
}

static void a_start_that_fails_is_asked_for_again(void **state)
{
    (void)state;
    struct scene scene;
    replica_id first;

    scene_open(&scene, &scale_load, 1, CEILING);
    requests(&scene, 20);
    advance(&scene, 20 * SECOND);
    assert_int_equal(counts(&scene).starting, 1);
    first = scene.asked[0].replica;
    answer(&scene, false);
    assert_int_equal(counts(&scene).starting, 0);
    advance(&scene, 40 * SECOND);
    assert_int_equal(counts(&scene).starting, 1);
    assert_int_not_equal(scene.asked[0].replica.value, first.value); /* another generation */
    rig_close(&scene.rig);
}

static void a_lost_replica_of_the_floor_is_replaced_at_the_next_look(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, &scale_load, 2, CEILING);
    advance(&scene, 100 * SECOND);
    rig_down(&scene.rig, 0, 0);
    advance(&scene, 102 * SECOND);
    assert_int_equal(counts(&scene).starting, 1);
    rig_close(&scene.rig);
}

/* While others are on their way nobody drains: what is up might be all there is. */
static void nobody_drains_while_others_start(void **state)
{
    (void)state;
    struct scene scene;

    scene_open(&scene, &scale_load, 1, CEILING);
    requests(&scene, 30);
    advance(&scene, 20 * SECOND);
    assert_int_equal(counts(&scene).starting, 2);
    requests_end(&scene, 0);
    advance(&scene, 600 * SECOND);
    assert_int_equal(scene.drains, 0);
    answer(&scene, true);
    answer(&scene, true);
    advance(&scene, 700 * SECOND);
    assert_int_equal(scene.drains, 2);
    rig_close(&scene.rig);
}

/* The naive twin: one replica at a time. */
static uint32_t twin_want(uint64_t outstanding_milli, uint32_t have, uint32_t target_milli, uint32_t up_milli,
                          uint32_t down_milli, uint32_t ceiling)
{
    uint64_t load = outstanding_milli * 1000;
    uint64_t lower = (1000 + (uint64_t)down_milli) / 2 * target_milli;
    uint32_t fewer = have;

    if (load > (uint64_t)have * up_milli * target_milli) {
        while (have < ceiling && load > (uint64_t)have * 1000 * target_milli)
            have++;
        return have;
    }
    if (load < (uint64_t)have * down_milli * target_milli)
        while (fewer > 0 && load <= (fewer - 1) * lower)
            fewer--;
    return fewer;
}

static void load_answers_as_its_twin_does(void **state)
{
    (void)state;
    uint64_t random = test_seed(31);

    for (uint32_t i = 0; i < 100000; i++) {
        struct scale_view view = {.outstanding_milli = draw_below(&random, 400) * 250,
                                  .replicas = (uint32_t)draw_below(&random, 12),
                                  .floor = 1,
                                  .ceiling = 12,
                                  .target_milli = (uint32_t)(1 + draw_below(&random, 40)) * 500,
                                  .up_milli = 1000 + (uint32_t)draw_below(&random, 8) * 125,
                                  .down_milli = (uint32_t)draw_below(&random, 9) * 125};
        uint32_t want = scale_load.want(&view);
        uint32_t twin = twin_want(view.outstanding_milli, view.replicas, view.target_milli, view.up_milli,
                                  view.down_milli, view.ceiling);

        if (want != twin)
            fail_msg("draw %u: %u, the twin says %u", i, want, twin);
        /* Nobody takes its answer back: from there, with the same load, it stays. */
        view.replicas = min_u32(max_u32(want, 1), 12);
        if (max_u32(scale_load.want(&view), 1) != view.replicas && view.replicas < 12)
            fail_msg("draw %u: %u, and then %u", i, view.replicas, scale_load.want(&view));
    }
}

/* A long life: requests come and end, replicas are lost, starts fail, drains end when they may. After each step all
 * invariants; and no request is routed to a replica that drains, or lost by one. */
static void a_random_life_keeps_every_promise(void **state)
{
    (void)state;
    uint64_t random = test_seed(77);
    static struct scene scene;
    uint32_t live = 0;
    uint32_t lost = 0;
    static uint32_t flying[256]; /* slots */
    bool used[256] = {false};

    scene_open(&scene, &scale_load, 1, 8);
    for (uint32_t step = 0; step < 60000; step++) {
        uint32_t busy = (uint32_t)(step / 3000 % 2 == 0 ? 70 : 4);

        advance(&scene, scene.rig.at_ns + (int64_t)draw_below(&random, SECOND));
        if (live < busy + draw_below(&random, 10) && live < 250) {
            uint32_t slot = 0;
            const struct fleet_command *command;

            while (used[slot])
                slot++;
            scene.request_of[slot] = request_id_make(++scene.ordinal, slot);
            command = rig_request(&scene.rig, scene.request_of[slot], (adapter_id){0, 0}, 0);
            if (command->kind == FLEET_COMMAND_ROUTE) {
                scene.replica_of[slot] = command->route.replica;
                for (uint32_t i = 0; i < scene.asked_count; i++)
                    assert_int_not_equal(scene.asked[i].replica.value, command->route.replica.value);
                used[slot] = true;
                flying[live++] = slot;
            }
        } else if (live > 0) {
            uint32_t at = (uint32_t)draw_below(&random, live);
            uint32_t slot = flying[at];

            rig_done(&scene.rig, scene.request_of[slot], scene.replica_of[slot]);
            used[slot] = false;
            flying[at] = flying[--live];
        }
        if (scene.asked_count > 0 && draw_below(&random, 8) == 0) {
            struct asked asked = scene.asked[0];

            if (!asked.drain || fleet_outstanding(scene.rig.fleet, asked.replica) == 0) {
                answer(&scene, draw_below(&random, 5) != 0);
            } else if (draw_below(&random, 20) == 0) { /* its node dies while it drains: that answers, too */
                struct fleet_event event;

                memset(&event, 0, sizeof(event));
                event.answers = asked.command;
                event.reason = REPLICA_LOST;
                event.replica_down.replica = asked.replica;
                memmove(scene.asked, scene.asked + 1, --scene.asked_count * sizeof(asked));
                rig_send(&scene.rig, FLEET_EVENT_REPLICA_DOWN, &event);
                for (uint32_t i = 0; i < live;) {
                    if (scene.replica_of[flying[i]].value == asked.replica.value) {
                        used[flying[i]] = false;
                        flying[i] = flying[--live];
                        lost++;
                    } else {
                        i++;
                    }
                }
            }
        }
    }
    print_message("%u starts, %u drains, %u requests lost with their nodes\n", scene.starts, scene.drains, lost);
    assert_true(scene.starts > 20 && scene.drains > 10 && lost > 0);
    rig_close(&scene.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_floor_is_started_at_once),
        cmocka_unit_test(replicas_that_are_up_already_are_its_own),
        cmocka_unit_test(a_load_above_the_line_starts_what_it_needs_once_it_has_stayed),
        cmocka_unit_test(a_burst_shorter_than_the_patience_starts_nothing),
        cmocka_unit_test(a_load_at_the_line_does_not_flap),
        cmocka_unit_test(the_ceiling_holds),
        cmocka_unit_test(fixed_never_moves_beyond_floor_and_ceiling),
        cmocka_unit_test(a_drain_takes_no_request_and_cuts_none),
        cmocka_unit_test(a_drain_that_is_answered_with_requests_left_is_a_mistake),
        cmocka_unit_test(a_start_that_fails_is_asked_for_again),
        cmocka_unit_test(a_lost_replica_of_the_floor_is_replaced_at_the_next_look),
        cmocka_unit_test(nobody_drains_while_others_start),
        cmocka_unit_test(load_answers_as_its_twin_does),
        cmocka_unit_test(a_random_life_keeps_every_promise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
