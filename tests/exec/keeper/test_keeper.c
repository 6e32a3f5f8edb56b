/* The keeper with real processes: control planes that are killed at named points and at random, workers that are killed or were taken
 * over, a vault, the keeper's own death, and the end in order. */
#define _DEFAULT_SOURCE /* usleep */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../scratch.h"
#include "keeper/internal.h"
#include "rig.h"
#include "support.h"

static struct scratch scratch;
static struct rig rig;
static unsigned runs;

static const char *const points[] = {
#define X(name) #name,
    STUB_POINTS(X)
#undef X
};

static void begin_with(uint32_t count, const uint32_t *kinds, uint32_t usages)
{
    char name[16];

    snprintf(name, sizeof(name), "run-%u", runs++);
    rig_init(&rig, scratch_folder(&scratch, name));
    rig.plan.workers = count;
    memcpy(rig.plan.kinds, kinds, count * sizeof(*kinds));
    rig.plan.usages = usages;
}

#define BEGIN(usages, ...) begin_with((uint32_t)ARRAY_COUNT(((const uint32_t[]){__VA_ARGS__})), (const uint32_t[]){__VA_ARGS__}, usages)

static uint32_t usages_of(uint64_t worker)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < rig.records_count; i++)
        count += rig.records[i].kind == STUB_DISK_FRAME && rig.records[i].worker == worker && rig.records[i].value != 0;
    return count;
}

static void nothing_is_lost_or_charged_twice_wherever_the_control_plane_is_killed(void **state)
{
    static const uint32_t after[] = {0, 3, 40};

    (void)state;
    for (unsigned point = 0; point < STUB_POINT_COUNT; point++) {
        for (unsigned i = 0; i < ARRAY_COUNT(after); i++) {
            BEGIN(30, STUB_STEADY, STUB_EXITS, STUB_STEADY, STUB_LEAVES);
            rig.plan.die_at = point;
            rig.plan.die_after = after[i];
            rig.plan.deaths = 2;
            rig_start(&rig);
            rig_await(&rig, STUB_DISK_DONE, 0, 1);
            assert_int_equal(rig_stop(&rig), 0);
            if (after[i] == 0 && rig_count(&rig, STUB_DISK_EPOCH, 0) < (point == STUB_AT_NOWHERE ? 1 : 2))
                fail_msg("no control plane died at %s", points[point]);
            rig_check_disk(&rig, point != STUB_AT_NOWHERE);
            assert_int_equal(rig_count(&rig, STUB_DISK_EXIT, 2), 1);
            assert_int_equal(rig_count(&rig, STUB_DISK_EXIT, 4), 1);
            assert_int_equal(usages_of(4), 20);
            assert_int_equal(rig_count(&rig, STUB_DISK_FAULT, 0), 0);
            if (point == STUB_AT_NOWHERE)
                assert_true(rig_count(&rig, STUB_DISK_FRAME, 2) >= 20);
            if (point == STUB_AT_NOWHERE)
                break;
        }
    }
}

static void control_planes_killed_at_random_change_nothing(void **state)
{
    uint64_t seed = test_seed(3);
    const char *seconds = getenv("BERTH_TEST_KILLED_S");
    const int kills_max = (seconds != NULL ? atoi(seconds) : 2) * 20;
    int kills = 0;

    (void)state;
    BEGIN(100000, STUB_STEADY, STUB_STEADY, STUB_STEADY, STUB_FLOODS);
    rig_start(&rig);
    rig_await(&rig, STUB_DISK_FRAME, 3, 1);
    while (kills < kills_max && rig.records_count < RIG_RECORDS_MAX - 10000) {
        const pid_t control = rig_process(&rig, 0);

        (void)usleep((useconds_t)(1000 + draw_below(&seed, 60000)));
        kills += kill(control, SIGKILL) == 0;
        rig_await(&rig, STUB_DISK_EPOCH, 0, (uint32_t)kills + 1);
    }
    rig_await(&rig, STUB_DISK_FRAME, 1, rig_count(&rig, STUB_DISK_FRAME, 1) + 10);
    for (uint64_t worker = 1; worker <= 4; worker++)
        assert_true(rig_is_alive(rig_process(&rig, worker)));
    assert_int_equal(rig_stop(&rig), 0);
    rig_check_disk(&rig, false);
    assert_true(rig_count(&rig, STUB_DISK_EPOCH, 0) > (uint32_t)kills);
    printf("%d control planes killed, %u frames of three workers\n", kills, rig_count(&rig, STUB_DISK_FRAME, 0));
}

static void a_killed_worker_is_told_once(void **state)
{
    (void)state;
    BEGIN(10, STUB_STEADY, STUB_STEADY, STUB_STEADY);
    rig_start(&rig);
    rig_await(&rig, STUB_DISK_DONE, 0, 1);
    assert_int_equal(kill(rig_process(&rig, 2), SIGKILL), 0);
    rig_await(&rig, STUB_DISK_EXIT, 2, 1);
    assert_int_equal(rig_stop(&rig), 0);
    rig_check_disk(&rig, false);
    assert_int_equal(rig_count(&rig, STUB_DISK_HEARD_EXIT, 0), 1);
    for (uint32_t i = 0; i < rig.records_count; i++) {
        if (rig.records[i].kind == STUB_DISK_EXIT)
            assert_int_equal(rig.records[i].value, 128 + SIGKILL);
    }
    assert_true(rig_is_alive(getpid()));
}

static void a_worker_that_is_killed_while_there_is_no_control_plane_is_told_to_the_next(void **state)
{
    pid_t control;
    pid_t worker;

    (void)state;
    BEGIN(10, STUB_STEADY, STUB_STEADY);
    rig.config.again_first_ms = rig.config.again_max_ms = 1500; /* time to kill a worker in */
    rig_start(&rig);
    rig_await(&rig, STUB_DISK_DONE, 0, 1);
    control = rig_process(&rig, 0);
    worker = rig_process(&rig, 1);
    assert_int_equal(kill(control, SIGKILL), 0);
    rig_await_death(control);
    assert_int_equal(rig_count(&rig, STUB_DISK_EPOCH, 0), 1);
    assert_int_equal(kill(worker, SIGKILL), 0);
    rig_await(&rig, STUB_DISK_EXIT, 1, 1);
    assert_int_equal(rig_count(&rig, STUB_DISK_EPOCH, 0), 2);
    assert_int_equal(rig_stop(&rig), 0);
    rig_check_disk(&rig, false);
    assert_int_equal(rig_count(&rig, STUB_DISK_HEARD_EXIT, 0), 1);
}

static void all_die_with_the_keeper(void **state)
{
    pid_t processes[5];
    int how = 0;

    (void)state;
    BEGIN(10, STUB_STEADY, STUB_STUBBORN, STUB_FLOODS);
    rig_start(&rig);
    rig_await(&rig, STUB_DISK_DONE, 0, 1);
    rig_await(&rig, STUB_DISK_PROCESS, 3, 1);
    for (uint64_t worker = 0; worker < 4; worker++)
        processes[worker] = rig_process(&rig, worker);
    processes[4] = rig_process(&rig, 1000);
    for (unsigned i = 0; i < ARRAY_COUNT(processes); i++)
        assert_true(rig_is_alive(processes[i]));
    assert_int_equal(kill(rig.keeper, SIGKILL), 0);
    assert_int_equal(waitpid(rig.keeper, &how, 0), rig.keeper);
    for (unsigned i = 0; i < ARRAY_COUNT(processes); i++)
        rig_await_death(processes[i]);
}

/* Of a process, in kilobytes. */
static long memory_kb(pid_t process)
{
    char path[64];
    char line[256];
    long kilobytes = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)process);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0)
            kilobytes = atol(line + 6);
    }
    fclose(file);
    return kilobytes;
}

static void workers_that_were_taken_over_harm_no_other(void **state)
{
    static const uint64_t bad[] = {3, 4, 5, 6};
    uint32_t control_descriptors;
    uint32_t keeper_descriptors;
    long control_kb;
    long keeper_kb;

    (void)state;
    BEGIN(200, STUB_STEADY, STUB_STEADY, STUB_GARBAGE, STUB_COUNTS, STUB_OLD_ATTEMPT, STUB_DESCRIPTORS, STUB_FLOODS, STUB_MISSING);
    rig_start(&rig);
    rig_await(&rig, STUB_DISK_DONE, 0, 1);
    control_descriptors = rig_descriptors(rig_process(&rig, 0));
    keeper_descriptors = rig_descriptors(rig.keeper);
    control_kb = memory_kb(rig_process(&rig, 0));
    keeper_kb = memory_kb(rig.keeper);
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(rig_count(&rig, STUB_DISK_FAULT, bad[i]), 1);
        assert_int_equal(rig_count(&rig, STUB_DISK_EXIT, bad[i]), 1);
        assert_false(rig_is_alive(rig_process(&rig, bad[i])));
    }
    assert_int_equal(rig_count(&rig, STUB_DISK_FAULT, 0), ARRAY_COUNT(bad));
    /* Others go on, and nothing grows meanwhile. */
    rig_await(&rig, STUB_DISK_FRAME, 1, rig_count(&rig, STUB_DISK_FRAME, 1) + 500);
    assert_true(rig_descriptors(rig_process(&rig, 0)) <= control_descriptors + 1); /* one: a file that is just written to */
    assert_true(rig_descriptors(rig.keeper) <= keeper_descriptors + 1);
    /* stdin, stdout, stderr, its socket, the vault's, three workers' */
    assert_true(rig_descriptors(rig_process(&rig, 0)) <= 8 + 1);
    /* signals, the control plane's socket and watch, the vault's watch, two each of three workers, and what the test had open. */
    assert_true(rig_descriptors(rig.keeper) <= 10 + 1 + rig_descriptors(getpid()));
    assert_true(memory_kb(rig_process(&rig, 0)) < control_kb + 4096);
    assert_true(memory_kb(rig.keeper) < keeper_kb + 1024);
    assert_int_equal(rig_stop(&rig), 0);
    rig_check_disk(&rig, false);
    for (uint32_t i = 0; i < rig.records_count; i++) {
        if (rig.records[i].kind == STUB_DISK_EXIT)
            assert_int_equal(rig.records[i].value, rig.records[i].worker == 8 ? 127 : 128 + SIGKILL);
    }
}

static void a_vault_is_started_again_with_and_without_the_control_plane(void **state)
{
    pid_t vault;

    (void)state;
    BEGIN(1, STUB_STEADY);
    rig_start(&rig);
    rig_await(&rig, STUB_DISK_PROCESS, 1001, 1);
    vault = rig_process(&rig, 1000);
    assert_int_equal(kill(vault, SIGKILL), 0);
    rig_await(&rig, STUB_DISK_PROCESS, 1001, 2); /* the same control plane talks to another */
    assert_int_equal(rig_count(&rig, STUB_DISK_EPOCH, 0), 1);
    assert_true(rig_process(&rig, 1000) != vault);
    vault = rig_process(&rig, 1000);
    assert_int_equal(kill(rig_process(&rig, 0), SIGKILL), 0);
    rig_await(&rig, STUB_DISK_PROCESS, 1001, 3);
    assert_false(rig_is_alive(vault)); /* it let go of its files before the next one began */
    assert_true(rig_count(&rig, STUB_DISK_PROCESS, 1000) >= 3); /* one may begin for a control plane that is just dying */
    assert_int_equal(rig_stop(&rig), 0);
    for (uint32_t i = 0; i < rig.records_count; i++) {
        if (rig.records[i].kind == STUB_DISK_PROCESS && rig.records[i].worker == 1001)
            assert_int_equal(rig.records[i].value, 1);
    }
}

static void at_sigterm_all_end_in_order(void **state)
{
    (void)state;
    BEGIN(10, STUB_STEADY, STUB_STUBBORN);
    rig.config.grace_ms = 200;
    rig_start(&rig);
    rig_await(&rig, STUB_DISK_DONE, 0, 1);
    assert_int_equal(rig_stop(&rig), 0);
    assert_true(rig_log_at(&rig, "act=stop") >= 0);
    assert_true(rig_log_at(&rig, "act=exit name=control by=exit code=0") > rig_log_at(&rig, "act=stop"));
    assert_true(rig_log_at(&rig, "act=exit name=worker worker=1 ") > rig_log_at(&rig, "act=exit name=control"));
    assert_true(rig_log_at(&rig, "act=exit name=worker worker=2 ") > rig_log_at(&rig, "act=exit name=worker worker=1 "));
    assert_int_equal(rig_log_count(&rig, "by=signal code=15"), 1);
    assert_int_equal(rig_log_count(&rig, "by=signal code=9"), 1);
    assert_int_equal(rig_log_count(&rig, "act=exit name=vault by=exit code=0"), 1);
    assert_false(rig_is_alive(rig_process(&rig, 1)));
    assert_false(rig_is_alive(rig_process(&rig, 2)));
}

static void a_control_plane_that_never_comes_up_is_given_up(void **state)
{
    int how = 0;

    (void)state;
    BEGIN(1, STUB_STEADY);
    rig.plan.fails = 1;
    rig.config.failures_max = 4;
    rig.config.settled_ms = 10000;
    rig.config.again_first_ms = 10;
    rig.config.again_max_ms = 25;
    rig_start(&rig);
    assert_int_equal(waitpid(rig.keeper, &how, 0), rig.keeper);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 1);
    assert_int_equal(rig_count(&rig, STUB_DISK_EPOCH, 0), 4);
    assert_int_equal(rig_log_count(&rig, "name=control failures=1 in_ms=10"), 1);
    assert_int_equal(rig_log_count(&rig, "name=control failures=2 in_ms=20"), 1);
    assert_int_equal(rig_log_count(&rig, "name=control failures=3 in_ms=25"), 1);
    assert_int_equal(rig_log_count(&rig, "control ended 4 times in a row"), 1);
}

static void what_cannot_be_started_is_refused(void **state)
{
    uint32_t full = 0;
    uint32_t invalid = 0;

    (void)state;
    BEGIN(5, STUB_STEADY, 99, STUB_STEADY, STUB_STEADY);
    rig.config.workers_max = 2;
    rig_start(&rig);
    rig_await(&rig, STUB_DISK_FAULT, 0, 2);
    rig_await(&rig, STUB_DISK_FRAME, 1, 5);
    assert_int_equal(rig_stop(&rig), 0);
    for (uint32_t i = 0; i < rig.records_count; i++) {
        full += rig.records[i].kind == STUB_DISK_FAULT && rig.records[i].worker == 4 && rig.records[i].value == 1000 + STATUS_FULL;
        invalid += rig.records[i].kind == STUB_DISK_FAULT && rig.records[i].worker == 2 && rig.records[i].value == 1000 + STATUS_INVALID;
    }
    assert_int_equal(full, 1);
    assert_int_equal(invalid, 1);
}

static int begin_group(void **state)
{
    (void)state;
    scratch_begin(&scratch);
    return 0;
}

static int finish_group(void **state)
{
    (void)state;
    scratch_end(&scratch);
    return 0;
}

static int raised(int descriptor)
{
    const int above = fcntl(descriptor, F_DUPFD_CLOEXEC, 20);

    close(descriptor);
    return above;
}

/* Two pipes whose numbers are each other's places. */
static void a_program_inherits_what_its_row_says_and_no_more(void **state)
{
    const char *const arguments[] = {"sh", "-c", "echo one >&4; echo two >&5; [ ! -e /proc/self/fd/6 ] && [ -e /proc/self/fd/3 ]", NULL};
    int pipes[2][2];
    int sockets[2];
    int inherited[2] = {KEEPER_INHERITED + 1, KEEPER_INHERITED};
    const struct keeper_program program = {.name = "sh", .path = "/bin/sh", .arguments = arguments, .inherited = inherited, .inherited_count = 2};
    struct child child = {0};
    char text[16];

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pipe(pipes[i]), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    for (int i = 0; i < 2; i++) {
        pipes[i][1] = raised(pipes[i][1]);
        pipes[i][0] = raised(pipes[i][0]);
        sockets[i] = raised(sockets[i]);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(dup2(pipes[i][1], inherited[i]), inherited[i]);
    assert_int_equal(child_start(&child, &program, sockets[1]), STATUS_OK);
    while (!child_reap(&child))
        usleep(1000);
    assert_int_equal(child.end.code, 0);
    for (int i = 0; i < 2; i++) {
        close(pipes[i][1]);
        close(inherited[i]);
        assert_int_equal(read(pipes[i][0], text, sizeof(text)), 4);
        assert_memory_equal(text, i == 0 ? "one\n" : "two\n", 4);
        assert_int_equal(read(pipes[i][0], text, sizeof(text)), 0);
        close(pipes[i][0]);
        close(sockets[i]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_or_charged_twice_wherever_the_control_plane_is_killed),
        cmocka_unit_test(control_planes_killed_at_random_change_nothing),
        cmocka_unit_test(a_killed_worker_is_told_once),
        cmocka_unit_test(a_worker_that_is_killed_while_there_is_no_control_plane_is_told_to_the_next),
        cmocka_unit_test(all_die_with_the_keeper),
        cmocka_unit_test(workers_that_were_taken_over_harm_no_other),
        cmocka_unit_test(a_vault_is_started_again_with_and_without_the_control_plane),
        cmocka_unit_test(at_sigterm_all_end_in_order),
        cmocka_unit_test(a_control_plane_that_never_comes_up_is_given_up),
        cmocka_unit_test(what_cannot_be_started_is_refused),
        cmocka_unit_test(a_program_inherits_what_its_row_says_and_no_more),
    };

    if (argc > 2 && strcmp(argv[1], "control") == 0)
        return stub_control(argv[2]);
    if (argc > 2 && strcmp(argv[1], "vault") == 0)
        return stub_vault(argv[2]);
    if (argc > 2 && strcmp(argv[1], "worker") == 0)
        return stub_worker((enum stub_worker)atoi(argv[2]));
    return cmocka_run_group_tests_name("keeper", tests, begin_group, finish_group);
}
