/* Clients that leave when libmicrohttpd does not look: every connection is given back at once, not by a deadline a minute later. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "rig.h"

#define UPLOAD "POST /v1/files HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer good\r\nContent-Type: multipart/form-data; boundary=b\r\n" \
               "Content-Length: 1000\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
#define PING "GET /v1/ping HTTP/1.1\r\nHost: h\r\n\r\n"
#define STREAM "GET /v1/stream HTTP/1.1\r\nHost: h\r\n\r\n"
#define BYTES "GET /v1/bytes HTTP/1.1\r\nHost: h\r\n\r\n"
#define STREAMS 20

static struct rig rig;
static struct client_answer answer;

static int begin(void **context)
{
    (void)context;
    rig_begin(&rig, NULL);
    return 0;
}

static int begin_impatient(void **context)
{
    const struct http_limits limits = {.sink_ms = 300};

    (void)context;
    rig_begin(&rig, &limits);
    return 0;
}

static int end(void **context)
{
    (void)context;
    client_answer_free(&answer);
    rig_end(&rig);
    return 0;
}

static void await_connections(double count)
{
    const int64_t began_ms = rig_now_ms();

    while (rig_metric(&rig, "berth_http_connections_open") != count) {
        const struct timespec pause = {0, 1000000};

        if (rig_now_ms() - began_ms > 10000)
            fail_msg("after ten seconds %g connections are open, not %g", rig_metric(&rig, "berth_http_connections_open"), count);
        nanosleep(&pause, NULL);
    }
}

/* One that libmicrohttpd looks at first, whenever it looks for those whose time is over. */
static int idle_client(void)
{
    int fd = client_connect(&rig);

    client_say(fd, PING);
    client_read(fd, &answer);
    assert_int_equal(answer.status, 200);
    return fd;
}

static void an_end_that_comes_with_an_uploads_last_bytes_is_noticed(void **context)
{
    int fd = client_connect(&rig);

    (void)context;
    client_say(fd, UPLOAD "0123");
    rig_await(&rig, &rig.asked_room, 1);
    rig_stall(&rig);
    client_say(fd, "4567");
    close(fd);
    rig_go_on(&rig);
    rig_await(&rig, &rig.abandoned_count, 1);
    await_connections(0);
    assert_int_equal(rig.finished_count, 0);
}

static void an_end_that_comes_with_a_request_is_noticed(void **context)
{
    int fd = idle_client();

    (void)context;
    rig_stall(&rig);
    client_say(fd, PING);
    close(fd);
    rig_go_on(&rig);
    await_connections(0);
}

static void an_end_that_comes_with_half_a_head_is_noticed(void **context)
{
    int fd = idle_client();

    (void)context;
    rig_stall(&rig);
    client_say(fd, "GET /v1/pi");
    close(fd);
    rig_go_on(&rig);
    await_connections(0);
}

static void streams_whose_clients_leave_give_their_connections_back(void **context)
{
    int fds[STREAMS];
    int idle = idle_client();

    (void)context;
    for (int i = 0; i < STREAMS; i++) {
        fds[i] = client_connect(&rig);
        client_say(fds[i], i % 2 == 0 ? STREAM : BYTES);
    }
    for (int i = 0; i < STREAMS; i++)
        close(fds[i]);
    for (int i = 0; i < STREAMS; i++)
        http_stream_fail(rig_take(&rig), 500, NULL, "void");
    await_connections(1);
    close(idle);
    assert_true(rig_metric(&rig, "berth_http_streams_open") == 0);
}

static void bytes_that_fail_end_the_connection(void **context)
{
    char bytes[16];
    char text[4096];
    int idle = idle_client();
    int fd = client_connect(&rig);
    struct http_request *request;

    (void)context;
    client_say(fd, BYTES);
    request = rig_take(&rig);
    memset(bytes, 'x', sizeof(bytes));
    assert_int_equal(http_stream_bytes(request, bytes, sizeof(bytes)), STATUS_OK);
    do { /* all that there is, has come: the connection sleeps */
        const size_t got = client_take(fd, text, 1);

        assert_true(got == 1);
    } while (text[0] != 'x');
    client_take(fd, text, sizeof(bytes) - 1);
    http_stream_fail(request, 500, NULL, "broken");
    client_await_end(fd);
    close(fd);
    await_connections(1);
    close(idle);
}

static void a_sink_that_never_has_room_again_costs_no_connection(void **context)
{
    int fd = client_connect(&rig);

    (void)context;
    rig.room = 0;
    client_say(fd, UPLOAD "0123");
    rig_await(&rig, &rig.asked_room, 1);
    client_await_end(fd);
    close(fd);
    rig_await(&rig, &rig.abandoned_count, 1);
    await_connections(0);
    assert_true(rig_metric(&rig, "berth_http_cut_total{reason=\"sink_deadline\"}") == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_end_that_comes_with_an_uploads_last_bytes_is_noticed, begin, end),
        cmocka_unit_test_setup_teardown(an_end_that_comes_with_a_request_is_noticed, begin, end),
        cmocka_unit_test_setup_teardown(an_end_that_comes_with_half_a_head_is_noticed, begin, end),
        cmocka_unit_test_setup_teardown(streams_whose_clients_leave_give_their_connections_back, begin, end),
        cmocka_unit_test_setup_teardown(bytes_that_fail_end_the_connection, begin, end),
        cmocka_unit_test_setup_teardown(a_sink_that_never_has_room_again_costs_no_connection, begin_impatient, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
