/* Streams: events in order, a bounded queue, slow readers, clients that leave, errors, pings; and the end of a server. */
#define _GNU_SOURCE /* strcasestr */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "rig.h"

#define STREAM "GET /v1/stream HTTP/1.1\r\nHost: h\r\n\r\n"
#define EVENTS 20000

static struct rig rig;
static struct client_answer answer;

static int begin(void **context)
{
    (void)context;
    rig_begin(&rig, NULL);
    return 0;
}

static int begin_small(void **context)
{
    const struct http_limits limits = {.streams_max = 2, .stream_events_max = 16, .stream_bytes_max = 65536};

    (void)context;
    rig_begin(&rig, &limits);
    return 0;
}

static int begin_impatient(void **context)
{
    const struct http_limits limits = {.stall_ms = 1500, .ping_ms = 300, .stream_events_max = 16, .stream_bytes_max = 65536};

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

static void rest(int64_t ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

static enum status push(struct http_request *request, const char *json)
{
    return http_stream_event(request, json, strlen(json));
}

static void events_come_as_they_are_pushed_and_end_in_done(void **context)
{
    char head[4096] = "";
    int fd = client_connect(&rig);
    struct http_request *request;

    (void)context;
    client_say(fd, STREAM);
    request = rig_take(&rig);
    for (size_t at = 0; strstr(head, "\r\n\r\n") == NULL; at++) /* the head comes before any event */
        assert_int_equal(client_take(fd, head + at, 1), 1);
    assert_non_null(strstr(head, "\r\ncontent-type: text/event-stream; charset=utf-8\r\n"));
    assert_non_null(strstr(head, "\r\nx-request-id: req_"));
    assert_int_equal(push(request, "{\"n\":1}"), STATUS_OK);
    memset(head, 0, sizeof(head));
    client_take(fd, head, strlen("F\r\ndata: {\"n\":1}\n\n\r\n"));
    assert_string_equal(head, "F\r\ndata: {\"n\":1}\n\n\r\n");
    close(fd);
    http_stream_end(request);

    fd = client_connect(&rig);
    client_say(fd, STREAM);
    request = rig_take(&rig);
    assert_int_equal(push(request, "{\"n\":1}"), STATUS_OK);
    assert_int_equal(push(request, "{\"n\":2}"), STATUS_OK);
    http_stream_end(request);
    client_read(fd, &answer);
    assert_int_equal(answer.status, 200);
    assert_true(answer.whole);
    assert_string_equal(answer.body, "data: {\"n\":1}\n\ndata: {\"n\":2}\n\ndata: [DONE]\n\n");
    client_say(fd, "GET /v1/ping HTTP/1.1\r\nHost: h\r\n\r\n"); /* and the connection goes on */
    client_read(fd, &answer);
    assert_string_equal(answer.body, "{\"ok\":true}");
    close(fd);
}

static void a_failure_is_an_error_event_and_no_done(void **context)
{
    int fd = client_connect(&rig);
    struct http_request *request;

    (void)context;
    client_say(fd, STREAM);
    request = rig_take(&rig);
    assert_int_equal(push(request, "{}"), STATUS_OK);
    http_stream_fail(request, 500, "worker_lost", "the model server has stopped");
    client_read(fd, &answer);
    assert_true(answer.whole);
    assert_string_equal(answer.body, "data: {}\n\ndata: {\"error\":{\"message\":\"the model server has stopped\",\"type\":\"server_error\","
                                     "\"param\":null,\"code\":\"worker_lost\"}}\n\n");
    close(fd);
}

/* Another thread pushes as the queue has room. */
static void *produce(void *context)
{
    struct http_request *request = context;
    char text[128];

    for (int i = 0; i < EVENTS;) {
        const int bytes = snprintf(text, sizeof(text), "{\"i\":%d,\"filler\":\"................................\"}", i);
        const enum status status = http_stream_event(request, text, (size_t)bytes);

        check(status == STATUS_OK || status == STATUS_FULL);
        if (status == STATUS_OK)
            i++;
        else
            rest(1);
    }
    http_stream_end(request);
    return NULL;
}

static void many_events_of_another_thread_all_come_in_order(void **context)
{
    int fd = client_connect(&rig);
    pthread_t thread;
    const char *at;

    (void)context;
    client_say(fd, STREAM);
    pthread_create(&thread, NULL, produce, rig_take(&rig));
    client_read(fd, &answer);
    pthread_join(thread, NULL);
    assert_true(answer.whole);
    at = answer.body;
    for (int i = 0; i < EVENTS; i++) {
        char want[32];

        snprintf(want, sizeof(want), "data: {\"i\":%d,", i);
        assert_memory_equal(at, want, strlen(want));
        at = strstr(at, "\n\n") + 2;
    }
    assert_string_equal(at, "data: [DONE]\n\n");
    assert_true(rig.taken_events >= EVENTS - 512 && rig.taken_events <= EVENTS); /* what went out after the end isn't told */
    close(fd);
}

static void a_reader_that_takes_nothing_fills_the_queue_and_nobody_waits(void **context)
{
    static char text[3000];
    const int small = 4096;
    int fd = client_connect(&rig);
    struct http_request *request;
    enum status status;
    int64_t began_ms;
    uint32_t taken = 0;

    (void)context;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    memset(text, 'x', sizeof(text));
    client_say(fd, STREAM);
    request = rig_take(&rig);
    assert_int_equal(http_stream_room(request), 16);
    began_ms = rig_now_ms();
    while ((status = http_stream_event(request, text, sizeof(text))) != STATUS_END) {
        assert_true(rig_now_ms() - began_ms < 10000);
        taken += status == STATUS_OK;
        if (status == STATUS_FULL)
            rest(1);
    }
    assert_in_range(rig_now_ms() - began_ms, 1450, 9000); /* it stood still for stall_ms, no longer */
    assert_true(taken < 2000); /* the kernel's buffers and ours are bounded */
    assert_int_equal(http_stream_room(request), 0);
    rig_await(&rig, &rig.gone_count, 1);
    http_stream_end(request);
    assert_true(rig_metric(&rig, "berth_http_cut_total{reason=\"stalled\"}") == 1);
    close(fd);
}

static void the_queue_has_two_bounds(void **context)
{
    static char text[65536];
    int fd = client_connect(&rig);
    struct http_request *request;
    int pushed = 0;

    (void)context;
    memset(text, 'x', sizeof(text));
    client_say(fd, STREAM);
    request = rig_take(&rig);
    while (pushed < 1000 && http_stream_event(request, text, 60000) == STATUS_OK)
        pushed++;
    assert_in_range(pushed, 1, 999);
    assert_true(http_stream_room(request) >= 14); /* full by bytes; 16 events would have been welcome */
    assert_int_equal(http_stream_event(request, text, 65530), STATUS_FULL); /* never fits */
    http_stream_end(request); /* the last event always has room */
    client_read(fd, &answer);
    assert_true(answer.whole);
    assert_int_equal(answer.count, (size_t)pushed * (60000 + strlen("data: \n\n")) + strlen("data: [DONE]\n\n"));
    close(fd);
}

static void a_stream_that_only_its_head_was_asked_of_is_over(void **context)
{
    int fd = client_connect(&rig);
    struct http_request *request;

    (void)context;
    client_say(fd, "HEAD /v1/stream HTTP/1.1\r\nHost: h\r\n\r\n");
    request = rig_take(&rig);
    while (push(request, "{}") != STATUS_END)
        rest(1);
    http_stream_end(request);
    close(fd);
}

static void a_client_that_leaves_a_silent_stream_is_noticed_at_once(void **context)
{
    int fd = client_connect(&rig);
    struct http_request *request;
    int64_t left_ms;

    (void)context;
    client_say(fd, STREAM);
    request = rig_take(&rig);
    rest(50);
    left_ms = rig_now_ms();
    close(fd);
    rig_await(&rig, &rig.gone_count, 1);
    assert_in_range(rig_now_ms() - left_ms, 0, 5000);
    assert_int_equal(push(request, "{}"), STATUS_END);
    http_stream_fail(request, 500, NULL, "void");
    assert_true(rig_metric(&rig, "berth_http_streams_open") == 0);
}

static void silent_streams_get_comments_and_live(void **context)
{
    int fd = client_connect(&rig);
    struct http_request *request;

    (void)context;
    client_say(fd, STREAM);
    request = rig_take(&rig);
    rest(2500); /* longer than stall_ms */
    assert_int_equal(push(request, "{}"), STATUS_OK);
    http_stream_end(request);
    client_read(fd, &answer);
    assert_true(answer.whole);
    assert_memory_equal(answer.body, ": ping\n\n: ping\n\n", 16);
    assert_non_null(strstr(answer.body, "data: {}\n\ndata: [DONE]\n\n"));
    close(fd);
}

static void streams_are_bounded(void **context)
{
    int fds[2];
    struct http_request *requests[2];

    (void)context;
    for (int i = 0; i < 2; i++) {
        fds[i] = client_connect(&rig);
        client_say(fds[i], STREAM);
        requests[i] = rig_take(&rig);
    }
    client_ask(&rig, STREAM, &answer);
    assert_int_equal(answer.status, 429);
    assert_string_equal(answer_field(&answer, "error", "code"), "rate_limit_exceeded");
    assert_non_null(strstr(answer.head, "\r\nretry-after: 1\r\n"));
    http_stream_end(requests[0]);
    client_read(fds[0], &answer);
    assert_int_equal(answer.status, 200);
    client_say(fds[0], STREAM);
    http_stream_end(rig_take(&rig));
    client_read(fds[0], &answer);
    assert_string_equal(answer.body, "data: [DONE]\n\n");
    http_stream_end(requests[1]);
    close(fds[0]);
    close(fds[1]);
}

static void bytes_stream_with_their_length_and_a_cut_shows(void **context)
{
    static char bytes[100000];
    int fd = client_connect(&rig);
    struct http_request *request;

    (void)context;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7);
    client_say(fd, "GET /v1/bytes HTTP/1.1\r\nHost: h\r\n\r\n");
    request = rig_take(&rig);
    for (size_t at = 0; at < sizeof(bytes); at += 10000)
        while (http_stream_bytes(request, bytes + at, 10000) == STATUS_FULL)
            rest(1);
    http_stream_end(request);
    client_read(fd, &answer);
    assert_true(answer.whole && answer.count == sizeof(bytes));
    assert_memory_equal(answer.body, bytes, sizeof(bytes));
    assert_non_null(strstr(answer.head, "Content-Length: 100000\r\n"));
    client_say(fd, "GET /v1/bytes HTTP/1.1\r\nHost: h\r\n\r\n");
    request = rig_take(&rig);
    assert_int_equal(http_stream_bytes(request, bytes, 10000), STATUS_OK);
    http_stream_fail(request, 500, NULL, "the object is damaged");
    client_read(fd, &answer);
    assert_int_equal(answer.count, 10000);
    assert_false(answer.whole);
    close(fd);
}

/* --- the end of a server ---------------------------------------------------------------------------------------------------- */

static void *stop(void *context)
{
    http_stop(context, 2000);
    return NULL;
}

static void a_stop_lets_answers_end_and_tells_streams(void **context)
{
    int idle = client_connect(&rig);
    int streaming = client_connect(&rig);
    int waiting = client_connect(&rig);
    int forgotten = client_connect(&rig);
    struct http_request *stream;
    struct http_request *answered;
    struct http_request *never;
    pthread_t thread;
    const int64_t began_ms = rig_now_ms();

    (void)context;
    client_say(streaming, STREAM);
    stream = rig_take(&rig);
    client_say(waiting, "GET /v1/later HTTP/1.1\r\nHost: h\r\n\r\n");
    answered = rig_take(&rig);
    client_say(forgotten, "GET /v1/later HTTP/1.1\r\nHost: h\r\n\r\n");
    never = rig_take(&rig);
    http_add_header(never, "x-should-retry", "false"); /* its handler's, who goes on: no other thread may read them */
    pthread_create(&thread, NULL, stop, rig.server);
    client_await_end(idle); /* whoever asks nothing is let go at once */
    assert_true(rig_now_ms() - began_ms < 1800);
    assert_int_equal(push(stream, "{}"), STATUS_OK); /* what runs, runs */
    http_answer_json(answered, 200, json_object());
    client_read(waiting, &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strcasestr(answer.head, "\r\nconnection: close\r\n"));
    client_read(streaming, &answer);
    assert_true(answer.whole);
    assert_non_null(strstr(answer.body, "data: {}\n\ndata: {\"error\":{\"message\":\"the server is stopping; try again\""));
    assert_null(strstr(answer.body, "[DONE]"));
    client_read(forgotten, &answer);
    assert_int_equal(answer.status, 503);
    assert_string_equal(answer_field(&answer, "error", "code"), "stopping");
    assert_null(strstr(answer.head, "x-should-retry"));
    pthread_join(thread, NULL);
    assert_int_equal(push(stream, "{}"), STATUS_END);
    http_stream_end(stream);
    http_answer_json(never, 200, json_object()); /* void */
    close(idle);
    close(streaming);
    close(waiting);
    close(forgotten);
}

static void a_stopped_server_can_be_followed_by_another_on_its_port(void **context)
{
    struct refusal refusal = {""};
    struct http_server *next;

    (void)context;
    client_ask(&rig, "GET /v1/ping HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &answer);
    rig.config.port = http_port(rig.server);
    http_stop(rig.server, 100);
    assert_int_equal(http_open(&rig.config, &next, &refusal), STATUS_OK);
    http_close(rig.server);
    rig.server = next;
    client_ask(&rig, "GET /v1/ping HTTP/1.1\r\nHost: h\r\n\r\n", &answer);
    assert_int_equal(answer.status, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_come_as_they_are_pushed_and_end_in_done, begin, end),
        cmocka_unit_test_setup_teardown(a_failure_is_an_error_event_and_no_done, begin, end),
        cmocka_unit_test_setup_teardown(many_events_of_another_thread_all_come_in_order, begin, end),
        cmocka_unit_test_setup_teardown(a_reader_that_takes_nothing_fills_the_queue_and_nobody_waits, begin_impatient, end),
        cmocka_unit_test_setup_teardown(the_queue_has_two_bounds, begin_small, end),
        cmocka_unit_test_setup_teardown(a_stream_that_only_its_head_was_asked_of_is_over, begin, end),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_a_silent_stream_is_noticed_at_once, begin, end),
        cmocka_unit_test_setup_teardown(silent_streams_get_comments_and_live, begin_impatient, end),
        cmocka_unit_test_setup_teardown(streams_are_bounded, begin_small, end),
        cmocka_unit_test_setup_teardown(bytes_stream_with_their_length_and_a_cut_shows, begin, end),
        cmocka_unit_test_setup_teardown(a_stop_lets_answers_end_and_tells_streams, begin, end),
        cmocka_unit_test_setup_teardown(a_stopped_server_can_be_followed_by_another_on_its_port, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
