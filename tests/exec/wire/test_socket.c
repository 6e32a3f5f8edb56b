/* Frames over a real socket: descriptors, packets that are none, floods, and no descriptor left behind. */
#define _GNU_SOURCE /* CMSG_SPACE in constants */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support.h"
#include "wire/socket.h"

static int ends[2]; /* control plane's, worker's */
static struct wire *worker;
static struct wire *control;
static struct wire_inbox inbox;
static unsigned descriptors_before;

static unsigned descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static struct wire *made(struct wire_config config)
{
    const size_t bytes = wire_bytes(&config);

    return wire_create(malloc(bytes), bytes, &config);
}

static int begin(void **state)
{
    (void)state;
    descriptors_before = descriptors();
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    worker = made((struct wire_config){.side = WIRE_SIDE_WORKER, .worker = 1});
    control = made((struct wire_config){.side = WIRE_SIDE_CONTROL, .worker = 1, .epoch = 1, .lease_ms = 1000, .is_adopted = true});
    return 0;
}

static int finish(void **state)
{
    (void)state;
    wire_end(worker);
    wire_end(control);
    free(worker);
    free(control);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(descriptors(), descriptors_before);
    return 0;
}

static int file_with(const char *text)
{
    FILE *file = tmpfile();
    int descriptor;

    assert_non_null(file);
    fputs(text, file);
    fflush(file);
    descriptor = dup(fileno(file));
    fclose(file);
    return descriptor;
}

static void welcome(void)
{
    struct wire_frame frame;

    assert_int_equal(wire_flush(control, ends[0], 1), STATUS_OK);
    assert_int_equal(wire_receive(worker, ends[1], 1, &inbox, &frame), WIRE_RECEIVED_FRAME);
    assert_int_equal(frame.header.kind, WIRE_WELCOME);
    assert_int_equal(wire_receive(worker, ends[1], 1, &inbox, &frame), WIRE_RECEIVED_EMPTY);
}

static void descriptors_travel_with_their_frame(void **state)
{
    const int sent[2] = {file_with("first"), file_with("second")};
    char text[16] = "";
    struct wire_frame frame;

    (void)state;
    welcome();
    assert_int_equal(wire_say(control, WIRE_START, &(struct wire_start){.job = 5}, 0, sent, 2), STATUS_OK);
    assert_int_equal(wire_flush(control, ends[0], 1), STATUS_OK);
    assert_int_equal(fcntl(sent[0], F_GETFD), -1); /* the wire's, and closed */
    assert_int_equal(wire_receive(worker, ends[1], 1, &inbox, &frame), WIRE_RECEIVED_FRAME);
    assert_int_equal(inbox.descriptors_count, 2);
    assert_int_equal(fcntl(inbox.descriptors[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(pread(inbox.descriptors[1], text, sizeof(text), 0), 6);
    assert_string_equal(text, "second");
    wire_inbox_close(&inbox);
}

static void descriptors_that_were_not_sent_are_closed(void **state)
{
    const int waiting[1] = {file_with("x")};

    (void)state;
    assert_int_equal(wire_say(control, WIRE_START, &(struct wire_start){.job = 5}, 0, waiting, 1), STATUS_OK);
    assert_int_equal(wire_say(control, WIRE_DRAIN, &(struct wire_drain){.deadline_ms = 5}, 0, waiting, 1), STATUS_INVALID);
}

/* A packet with `count` descriptors. */
static void send_packet(const void *bytes, size_t count, unsigned descriptors_count)
{
    static char room[CMSG_SPACE(64 * sizeof(int))];
    struct iovec piece = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = count};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};

    memset(room, 0, sizeof(room));
    if (descriptors_count > 0) {
        struct cmsghdr *head = (struct cmsghdr *)(void *)room;
        int *list = (int *)(void *)CMSG_DATA(head);

        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(descriptors_count * sizeof(int));
        for (unsigned i = 0; i < descriptors_count; i++)
            list[i] = STDERR_FILENO;
        message.msg_control = room;
        message.msg_controllen = CMSG_SPACE(descriptors_count * sizeof(int));
    }
    assert_int_equal(sendmsg(ends[1], &message, 0), (ssize_t)count);
}

static void beat_bytes(uint8_t ret_frame[60])
{
    size_t count = 0;

    assert_int_equal(wire_body_write(WIRE_BEAT, &(struct wire_beat){.running = 1}, ret_frame + WIRE_HEADER_BYTES, 20, &count), STATUS_OK);
    assert_int_equal(count, 20);
    wire_header_write(&(struct wire_header){.length = 60, .version = 1, .kind = WIRE_BEAT, .ack = 1, .worker = 1}, ret_frame);
}

static void unwanted_descriptors_are_closed_and_a_fault(void **state)
{
    static const unsigned counts[] = {1, 8, 9, 64};
    uint8_t frame[60];
    struct wire_frame taken;

    (void)state;
    beat_bytes(frame);
    for (unsigned i = 0; i < ARRAY_COUNT(counts); i++) {
        const unsigned before = descriptors();
        struct wire *other = made((struct wire_config){.side = WIRE_SIDE_CONTROL, .worker = 1, .epoch = 1, .is_adopted = true});

        send_packet(frame, sizeof(frame), counts[i]);
        assert_int_equal(wire_receive(other, ends[0], 1, &inbox, &taken), WIRE_RECEIVED_OVER);
        assert_int_equal(wire_state(other).fault, WIRE_FAULT_DESCRIPTORS);
        assert_int_equal(inbox.descriptors_count, 0);
        send_packet(frame, sizeof(frame), counts[i]); /* also what comes after it was over */
        assert_int_equal(wire_receive(other, ends[0], 1, &inbox, &taken), WIRE_RECEIVED_OVER);
        assert_int_equal(descriptors(), before);
        wire_end(other);
        free(other);
    }
}

static void packets_that_are_no_frames_are_faults(void **state)
{
    static uint8_t bytes[WIRE_FRAME_BYTES_MAX + 1];
    struct wire_frame taken;

    (void)state;
    wire_put(bytes, sizeof(bytes), 4);
    send_packet(bytes, sizeof(bytes), 0); /* longer than any */
    assert_int_equal(wire_receive(control, ends[0], 1, &inbox, &taken), WIRE_RECEIVED_OVER);
    assert_int_equal(wire_state(control).fault, WIRE_FAULT_LENGTH);
}

static void an_empty_packet_is_no_end(void **state)
{
    struct wire_frame taken;

    (void)state;
    send_packet("", 0, 1);
    assert_int_equal(wire_receive(control, ends[0], 1, &inbox, &taken), WIRE_RECEIVED_OVER);
    assert_int_equal(wire_state(control).fault, WIRE_FAULT_LENGTH);
}

static void a_flood_waits_in_the_socket(void **state)
{
    struct wire_frame taken;
    uint64_t said = 0;
    uint64_t read = 0;

    (void)state;
    assert_int_equal(wire_say(worker, WIRE_HELLO, &(struct wire_hello){.version_min = 1, .version_max = 1}, 0, NULL, 0), STATUS_OK);
    welcome();
    while (wire_say(worker, WIRE_USAGE, &(struct wire_usage){.request = said + 1}, 0, NULL, 0) == STATUS_OK)
        said++;
    assert_int_equal(wire_flush(worker, ends[1], 1), STATUS_FULL);
    while (wire_wants_input(control) && wire_receive(control, ends[0], 1, &inbox, &taken) == WIRE_RECEIVED_FRAME)
        read++;
    assert_int_equal(read, 64); /* uncommitted; the rest is the worker's to keep */
    while (read < said + 1) {
        wire_commit(control, wire_state(control).seq);
        (void)wire_flush(control, ends[0], 1);
        while (wire_receive(worker, ends[1], 1, &inbox, &taken) == WIRE_RECEIVED_NOTHING)
            continue;
        (void)wire_flush(worker, ends[1], 1);
        while (wire_wants_input(control) && wire_receive(control, ends[0], 1, &inbox, &taken) == WIRE_RECEIVED_FRAME) {
            read++;
            assert_int_equal(taken.body.usage.request, read - 1);
        }
    }
    assert_int_equal(wire_receive(control, ends[0], 1, &inbox, &taken), WIRE_RECEIVED_EMPTY);
}

static void an_end_that_is_closed_is_told(void **state)
{
    struct wire_frame taken;

    (void)state;
    close(ends[1]);
    ends[1] = -1;
    assert_int_equal(wire_flush(control, ends[0], 1), STATUS_END);
    assert_int_equal(wire_receive(control, ends[0], 1, &inbox, &taken), WIRE_RECEIVED_END);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(descriptors_travel_with_their_frame),
        ONE(descriptors_that_were_not_sent_are_closed),
        ONE(unwanted_descriptors_are_closed_and_a_fault),
        ONE(packets_that_are_no_frames_are_faults),
        ONE(an_empty_packet_is_no_end),
        ONE(a_flood_waits_in_the_socket),
        ONE(an_end_that_is_closed_is_told),
    };

    return cmocka_run_group_tests_name("socket", tests, NULL, NULL);
}
