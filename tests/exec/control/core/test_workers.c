/* Workers: the driver's, and what outlives a control plane. */
#include <fcntl.h>
#include <unistd.h>

#include "rig.h"

static uint64_t launch(struct rig *rig, uint32_t kind)
{
    static const uint8_t grant[WIRE_GRANT_BYTES] = "object-1";
    const int object = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const struct core_launch launched = {.launch = {.worker = core_worker_draw(), .attempt = 3, .kind = kind},
                                         .start = {.job = 77, .grants_count = 1, .grants = grant, .settings = (const uint8_t *)"{\"a\":1}",
                                                   .settings_count = 7},
                                         .descriptors = &object, .descriptors_count = 1};
    struct meta_worker_new row = {.kind = "holder", .placement = "{}"};
    char id[NAME_BYTES];

    core_worker_id(launched.launch.worker, id);
    row.id = id;
    OK(rig, meta_worker_add(rig->metadata, &row, 1, &rig->refusal));
    OK(rig, core_launch(rig->core, &launched));
    return launched.launch.worker;
}

static void say_result(struct actor *actor)
{
    assert_int_equal(wire_say(actor->wire, WIRE_RESULT, &(struct wire_result){.bytes = 5, .metrics = (const uint8_t *)"{}", .metrics_count = 2},
                     0, NULL, 0), STATUS_OK);
}

static void the_drivers_workers_are_told_and_heard(void **state)
{
    struct actor *actor;
    uint64_t worker;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_open(&rig);
    UNTIL(&rig, rig.seen.of[CORE_HEARD_LISTED] == 1);
    worker = launch(&rig, CORE_VALIDATOR);
    UNTIL(&rig, rig.seen.of[CORE_HEARD_STARTED] == 1 && rig.seen.of[CORE_HEARD_FRAME] == 1);
    assert_int_equal(rig.seen.last[CORE_HEARD_FRAME].launch.worker, worker);
    assert_int_equal(rig.seen.last[CORE_HEARD_FRAME].launch.attempt, 3);
    assert_int_equal(rig.seen.frames[0].header.kind, WIRE_HELLO);
    actor = rig_worker(&rig, worker);
    UNTIL(&rig, actor->is_started);
    assert_string_equal(actor->settings, "{\"a\":1}");
    assert_int_equal(core_counts(rig.core).validators, 1);
    say_result(actor);
    UNTIL(&rig, rig.seen.frames_count == 2);
    assert_int_equal(rig.seen.frames[1].header.kind, WIRE_RESULT);
    assert_int_equal(rig.seen.frames[1].header.seq, 2);
    rig_turn_for(&rig, 20);
    assert_int_equal(wire_state(actor->wire).committed_seq, 0); /* only the driver commits */
    OK(&rig, core_commit(rig.core, worker, 2));
    OK(&rig, core_say(rig.core, worker, WIRE_DRAIN, &(struct wire_drain){.deadline_ms = 5}, NULL, 0));
    UNTIL(&rig, wire_state(actor->wire).committed_seq == 2 && actor->is_drained);
    UNTIL(&rig, rig.seen.of[CORE_HEARD_EXITED] == 1);
    assert_false(rig.seen.last[CORE_HEARD_EXITED].end.by_signal);
    assert_int_equal(rig.stage.forgotten, 0);
    OK(&rig, core_say(rig.core, worker, WIRE_DRAIN, &(struct wire_drain){.deadline_ms = 5}, NULL, 0)); /* nothing */
    OK(&rig, core_forget(rig.core, worker));
    UNTIL(&rig, rig.stage.forgotten == 1 && core_counts(rig.core).validators == 0);
    rig_end(&rig);
}

/* It says a hundred things and dies; though only so many may be uncommitted, all are heard before its exit. */
static void an_exit_is_heard_after_all_frames(void **state)
{
    struct actor *actor;
    uint64_t worker;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_open(&rig);
    worker = launch(&rig, CORE_TRAINER);
    UNTIL(&rig, rig.seen.of[CORE_HEARD_FRAME] == 1);
    actor = rig_worker(&rig, worker);
    UNTIL(&rig, actor->is_started);
    for (uint32_t i = 0; i < 99; i++)
        say_result(actor);
    rig_turn_for(&rig, 5);
    rig_kill(&rig, actor);
    for (uint64_t committed = 1; rig.seen.of[CORE_HEARD_FRAME] < 100; committed++) {
        rig_turn_for(&rig, 1);
        assert_true(rig.seen.of[CORE_HEARD_EXITED] == 0 || rig.seen.of[CORE_HEARD_FRAME] == 100);
        if (rig.seen.of[CORE_HEARD_FRAME] >= committed)
            OK(&rig, core_commit(rig.core, worker, committed));
    }
    UNTIL(&rig, rig.seen.of[CORE_HEARD_EXITED] == 1);
    assert_true(rig.seen.last[CORE_HEARD_EXITED].end.by_signal);
    assert_int_equal(rig.seen.of[CORE_HEARD_FRAME], 100);
    rig_end(&rig);
}

static void a_refused_launch_and_an_end_are_heard(void **state)
{
    uint64_t worker;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_open(&rig);
    rig.stage.refuses = true;
    (void)launch(&rig, CORE_TRAINER);
    UNTIL(&rig, rig.seen.of[CORE_HEARD_REFUSED] == 1);
    assert_int_equal(rig.seen.last[CORE_HEARD_REFUSED].status, STATUS_FULL);
    rig.stage.refuses = false;
    worker = launch(&rig, CORE_TRAINER);
    UNTIL(&rig, rig.seen.of[CORE_HEARD_STARTED] == 1);
    OK(&rig, core_end(rig.core, worker, true));
    UNTIL(&rig, rig.seen.of[CORE_HEARD_EXITED] == 1);
    assert_int_equal(rig.seen.last[CORE_HEARD_EXITED].end.code, 9);
    OK(&rig, core_forget(rig.core, worker));
    UNTIL(&rig, rig.stage.forgotten == 1);
    rig_end(&rig);
}

static void a_full_launcher_is_asked_again(void **state)
{
    uint64_t worker;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_open(&rig);
    worker = launch(&rig, CORE_TRAINER);
    UNTIL(&rig, rig.seen.of[CORE_HEARD_STARTED] == 1);
    rig.stage.full_for = 2;
    OK(&rig, core_end(rig.core, worker, true));
    UNTIL(&rig, rig.seen.of[CORE_HEARD_EXITED] == 1);
    assert_int_equal(rig.seen.last[CORE_HEARD_EXITED].end.code, 9);
    rig.stage.full_for = 2;
    OK(&rig, core_forget(rig.core, worker));
    UNTIL(&rig, rig.stage.forgotten == 1);
    rig_end(&rig);
}

/* Garbage is answered KILL, and the process is ended. */
static void a_worker_that_breaks_the_rules_is_ended(void **state)
{
    struct actor *actor;
    uint64_t worker;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_open(&rig);
    worker = launch(&rig, CORE_TRAINER);
    UNTIL(&rig, rig.seen.of[CORE_HEARD_FRAME] == 1);
    actor = rig_worker(&rig, worker);
    UNTIL(&rig, actor->is_started);
    assert_int_equal(write(actor->socket, "garbage", 7), 7);
    UNTIL(&rig, rig.seen.of[CORE_HEARD_EXITED] == 1);
    assert_int_equal(rig.seen.last[CORE_HEARD_EXITED].end.code, 9);
    rig_end(&rig);
}

/* A control plane is gone between what it committed and what it did not; the next one hears the rest, once. */
static void the_drivers_workers_are_found_again(void **state)
{
    struct actor *actor;
    char id[NAME_BYTES];
    uint64_t worker;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_open(&rig);
    worker = launch(&rig, CORE_TRAINER);
    core_worker_id(worker, id);
    UNTIL(&rig, rig.seen.of[CORE_HEARD_FRAME] == 1);
    actor = rig_worker(&rig, worker);
    UNTIL(&rig, actor->is_started);
    say_result(actor);
    say_result(actor);
    UNTIL(&rig, rig.seen.frames_count == 3);
    OK(&rig, meta_worker_ack(rig.metadata, id, 2, &rig.refusal));
    OK(&rig, core_commit(rig.core, worker, 2));
    rig_core_gone(&rig);
    say_result(actor);
    rig_turn_for(&rig, 3);
    memset(&rig.heard, 0, sizeof(rig.heard));
    memset(&rig.seen, 0, sizeof(rig.seen));
    rig_open(&rig);
    UNTIL(&rig, rig.seen.of[CORE_HEARD_LISTED] == 1);
    assert_int_equal(rig.seen.of[CORE_HEARD_FOUND], 1);
    UNTIL(&rig, rig.seen.frames_count == 2);
    assert_int_equal(rig.seen.frames[0].header.seq, 3);
    assert_int_equal(rig.seen.frames[1].header.seq, 4);
    rig_kill(&rig, actor);
    UNTIL(&rig, rig.seen.of[CORE_HEARD_EXITED] == 1);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_drivers_workers_are_told_and_heard),
        cmocka_unit_test(an_exit_is_heard_after_all_frames),
        cmocka_unit_test(a_refused_launch_and_an_end_are_heard),
        cmocka_unit_test(a_full_launcher_is_asked_again),
        cmocka_unit_test(a_worker_that_breaks_the_rules_is_ended),
        cmocka_unit_test(the_drivers_workers_are_found_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
