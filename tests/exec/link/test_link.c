/* A worker's end against the control plane's wire, over a real socket. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "link/link.h"
#include "support.h"

struct ends {
    struct link *link;
    struct wire *control;
    void *memory;
    int socket; /* the control plane's */
    struct wire_inbox inbox;
};

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void control_open(struct ends *ends, uint64_t epoch, uint32_t lease_ms, uint64_t committed_seq)
{
    const struct wire_config config = {.side = WIRE_SIDE_CONTROL, .worker = 5, .attempt = 2, .epoch = epoch, .lease_ms = lease_ms,
                                       .committed_seq = committed_seq, .is_adopted = epoch > 1};

    free(ends->memory);
    ends->memory = calloc(1, wire_bytes(&config));
    ends->control = wire_create(ends->memory, wire_bytes(&config), &config);
}

static void begin(struct ends *ends, uint32_t lease_ms)
{
    const struct launch launch = {.worker = 5, .attempt = 2, .kind = 1};
    struct refusal refusal;
    int sockets[2];

    memset(ends, 0, sizeof(*ends));
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    ends->socket = sockets[0];
    assert_int_equal(send(sockets[0], &launch, sizeof(launch), 0), sizeof(launch));
    assert_int_equal(link_open(&(struct link_config){.socket = sockets[1], .kind = 1}, &ends->link, &refusal), STATUS_OK);
    assert_int_equal(link_launch(ends->link)->worker, 5);
    control_open(ends, 1, lease_ms, 0);
}

static void end(struct ends *ends)
{
    link_close(ends->link);
    wire_inbox_close(&ends->inbox);
    wire_end(ends->control);
    free(ends->memory);
    if (ends->socket >= 0)
        close(ends->socket);
}

/* What the control plane hears next; 0: nothing. */
static uint16_t hear(struct ends *ends, struct wire_frame *ret_frame)
{
    enum wire_received received;

    do
        received = wire_receive(ends->control, ends->socket, now_ns(), &ends->inbox, ret_frame);
    while (received == WIRE_RECEIVED_NOTHING);
    return received == WIRE_RECEIVED_FRAME ? ret_frame->header.kind : 0;
}

static enum link_event next(struct ends *ends, int wait_ms, struct wire_frame *ret_frame)
{
    struct wire_inbox *inbox;

    return link_next(ends->link, wait_ms, ret_frame, &inbox);
}

static void flush(struct ends *ends)
{
    assert_int_equal(wire_flush(ends->control, ends->socket, now_ns()), STATUS_OK);
}

static void greet(struct ends *ends)
{
    struct wire_frame frame;

    assert_int_equal(next(ends, 0, &frame), LINK_NOTHING);
    assert_int_equal(hear(ends, &frame), WIRE_HELLO);
    assert_int_equal(frame.body.hello.worker_kind, 1);
    wire_commit(ends->control, frame.header.seq);
    flush(ends);
    assert_int_equal(next(ends, 1000, &frame), LINK_FRAME);
    assert_int_equal(frame.header.kind, WIRE_WELCOME);
}

static void test_says_hello_and_is_welcomed(void **state)
{
    struct ends ends;

    (void)state;
    begin(&ends, 60000);
    greet(&ends);
    end(&ends);
}

static void test_a_socket_that_no_keeper_gave_is_refused(void **state)
{
    struct link *link;
    struct refusal refusal;
    int sockets[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    assert_int_equal(link_open(&(struct link_config){.socket = sockets[1], .kind = 1}, &link, &refusal), STATUS_IO);
    assert_non_null(strstr(refusal.text, "keeper"));
    assert_int_equal(fcntl(sockets[1], F_GETFD), -1);
    close(sockets[0]);
}

static void test_beats_tell_what_was_last_given(void **state)
{
    struct ends ends;
    struct wire_frame frame;
    int beats = 0;

    (void)state;
    begin(&ends, 300);
    greet(&ends);
    link_beat(ends.link, &(struct wire_beat){.waiting = 3, .running = 4});
    for (int i = 0; i < 200 && beats < 2; i++) {
        const enum link_event event = next(&ends, 10, &frame);

        assert_true(event == LINK_NOTHING || event == LINK_FRAME || event == LINK_EXPIRED);
        while (hear(&ends, &frame) == WIRE_BEAT) {
            assert_int_equal(frame.body.beat.waiting, 3);
            beats++;
        }
    }
    assert_int_equal(beats, 2);
    end(&ends);
}

static void test_a_lease_that_ends_is_said_once_until_the_next(void **state)
{
    struct ends ends;
    struct wire_frame frame;

    (void)state;
    begin(&ends, 50);
    greet(&ends);
    assert_int_equal(next(&ends, 1000, &frame), LINK_EXPIRED);
    assert_int_equal(next(&ends, 30, &frame), LINK_NOTHING);
    assert_int_equal(wire_say(ends.control, WIRE_LEASE, &(struct wire_lease){.lease_ms = 40}, 0, NULL, 0), STATUS_OK);
    flush(&ends);
    assert_int_equal(next(&ends, 1000, &frame), LINK_EXPIRED);
    end(&ends);
}

static void test_settles_when_all_is_committed(void **state)
{
    struct ends ends;
    struct wire_frame frame;
    int64_t begun_at_ns;

    (void)state;
    begin(&ends, 60000);
    greet(&ends);
    assert_int_equal(link_say(ends.link, WIRE_INVENTORY, &(struct wire_inventory){.step = 7}, 0), STATUS_OK);
    assert_false(link_settle(ends.link, 20));
    assert_int_equal(hear(&ends, &frame), WIRE_INVENTORY);
    assert_int_equal(frame.body.inventory.step, 7);
    wire_commit(ends.control, frame.header.seq);
    flush(&ends);
    begun_at_ns = now_ns();
    assert_true(link_settle(ends.link, 60000));
    assert_true(now_ns() - begun_at_ns < 30 * NS_PER_S); /* when it is, not when the time is over */
    end(&ends);
}

static void test_a_new_control_plane_hears_again_what_was_not_committed(void **state)
{
    struct ends ends;
    struct wire_frame frame;

    (void)state;
    begin(&ends, 60000);
    greet(&ends);
    assert_int_equal(link_say(ends.link, WIRE_INVENTORY, &(struct wire_inventory){.step = 7}, 0), STATUS_OK);
    assert_int_equal(next(&ends, 0, &frame), LINK_NOTHING);
    assert_int_equal(hear(&ends, &frame), WIRE_INVENTORY);
    control_open(&ends, 2, 60000, 1); /* it was killed before the commit; only HELLO is on disk */
    flush(&ends);
    assert_int_equal(next(&ends, 1000, &frame), LINK_FRAME);
    assert_int_equal(frame.header.kind, WIRE_WELCOME);
    assert_int_equal(next(&ends, 0, &frame), LINK_NOTHING);
    assert_int_equal(hear(&ends, &frame), WIRE_INVENTORY);
    assert_int_equal(frame.body.inventory.step, 7);
    end(&ends);
}

static void test_descriptors_are_closed_unless_taken(void **state)
{
    struct ends ends;
    struct wire_frame frame;
    struct wire_inbox *inbox;
    int pipes[2];
    int came;

    (void)state;
    begin(&ends, 60000);
    greet(&ends);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(wire_say(ends.control, WIRE_START, &(struct wire_start){.job = 1}, 0, (int[]){pipes[1]}, 1), STATUS_OK);
    flush(&ends);
    assert_int_equal(link_next(ends.link, 1000, &frame, &inbox), LINK_FRAME);
    assert_int_equal(frame.header.kind, WIRE_START);
    assert_int_equal(inbox->descriptors_count, 1);
    came = inbox->descriptors[0];
    assert_true(fcntl(came, F_GETFD) >= 0);
    assert_int_equal(next(&ends, 0, &frame), LINK_NOTHING);
    assert_int_equal(fcntl(came, F_GETFD), -1);
    close(pipes[0]);
    end(&ends);
}

static void test_kill_and_a_closed_socket_end_it(void **state)
{
    struct ends ends;
    struct wire_frame frame;

    (void)state;
    begin(&ends, 60000);
    greet(&ends);
    assert_int_equal(wire_say(ends.control, WIRE_KILL, &(struct wire_kill){.why = 0}, 0, NULL, 0), STATUS_OK);
    flush(&ends);
    assert_int_equal(next(&ends, 1000, &frame), LINK_KILLED);
    assert_int_equal(next(&ends, 0, &frame), LINK_KILLED);
    end(&ends);
    begin(&ends, 60000);
    greet(&ends);
    close(ends.socket);
    ends.socket = -1;
    assert_int_equal(next(&ends, 1000, &frame), LINK_GONE);
    assert_int_equal(next(&ends, 1000, &frame), LINK_GONE);
    end(&ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_hello_and_is_welcomed),
        cmocka_unit_test(test_a_socket_that_no_keeper_gave_is_refused),
        cmocka_unit_test(test_beats_tell_what_was_last_given),
        cmocka_unit_test(test_a_lease_that_ends_is_said_once_until_the_next),
        cmocka_unit_test(test_settles_when_all_is_committed),
        cmocka_unit_test(test_a_new_control_plane_hears_again_what_was_not_committed),
        cmocka_unit_test(test_descriptors_are_closed_unless_taken),
        cmocka_unit_test(test_kill_and_a_closed_socket_end_it),
    };

    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
