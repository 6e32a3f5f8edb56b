/* What libmicrohttpd lets happen and this floor does not: heads that can be read two ways, clients that are slow or leave, too many of
 * them. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "rig.h"

static struct rig rig;
static struct client_answer answer;

#define KEY "Authorization: Bearer sk-test-1\r\n"
#define JSON "Content-Type: application/json\r\n"

static int begin(void **context)
{
    (void)context;
    rig_begin(&rig, NULL);
    return 0;
}

/* Impatient in everything. */
static int begin_quick(void **context)
{
    const struct http_limits limits = {.head_ms = 1000, .idle_ms = 1200, .body_ms = 1000, .answer_ms = 1000, .received_per_s_min = 16 << 20};

    (void)context;
    rig_begin(&rig, &limits);
    return 0;
}

static int begin_few(void **context)
{
    const struct http_limits limits = {.connections_max = 6, .connections_per_address_max = 4, .head_ms = 60000, .bodies_bytes_max = 8192};

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

/* --- heads ------------------------------------------------------------------------------------------------------------------ */

static void heads_that_can_be_read_two_ways_are_refused_and_the_line_closed(void **context)
{
#define TEXT(text) {text, sizeof(text) - 1}
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = {
        TEXT("POST /v1/jobs HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}"),
        TEXT("POST /v1/jobs HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
        TEXT("POST /v1/jobs HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        TEXT("POST /v1/jobs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n"),
        TEXT("POST /v1/jobs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        TEXT("POST /v1/jobs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        TEXT("POST /v1/jobs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n{}"),
        TEXT("POST /v1/jobs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        TEXT("POST /v1/jobs HTTP/1.1\r\nHost: h\r\nContent-Length: +2\r\n\r\n{}"),
        TEXT("POST /v1/jobs HTTP/1.1\r\nHost: h\r\nContent-Length: 2, 2\r\n\r\n{}"),
        TEXT("POST /v1/jobs HTTP/1.1\r\nHost: h\r\nContent-Length: 0x2\r\n\r\n{}"),
        TEXT("POST /v1/jobs HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n{}"),
        TEXT("POST /v1/jobs HTTP/1.1\r\nHost: h\r\nContent-Length: \r\n\r\n{}"),
        TEXT("GET /v1/ping HTTP/1.1\r\nHost: h\r\nHost: evil\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\r\nhost: h\r\nHOST: h\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\r\n\r\n"),
        TEXT("GET /v1/echo HTTP/1.1\r\nHost: h\r\n" KEY KEY "\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\nHost: h\n\n"),
        TEXT("GET /v1/ping HTTP/1.1\r\nHost: h\nX: y\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\nHost: h\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\r\nHost: h\r\n\n"),
        TEXT("GET /v1/ping HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\r\nHost: h\r\nX : a\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\r\nHost: h\r\n: a\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\r\nHost: h\r\nX\xc3\xa9: a\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\r\nHost: h\r\nX\0: a\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\r\nHost: h\r\nX: a\x01\r\n\r\n"),
        TEXT("GET /v1/ping\0/x HTTP/1.1\r\nHost: h\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1\0\r\nHost: h\r\n\r\n"),
        TEXT("GET\0 /v1/ping HTTP/1.1\r\nHost: h\r\n\r\n"),
        TEXT("GET  /v1/ping HTTP/1.1\r\nHost: h\r\n\r\n"),
        TEXT("GET /v1/ping  HTTP/1.1\r\nHost: h\r\n\r\n"),
        TEXT("GET /v1/pi ng HTTP/1.1\r\nHost: h\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/1.1 \r\nHost: h\r\n\r\n"),
        TEXT("GET /v1/ping HTTP/2.0\r\nHost: h\r\n\r\n"),
        TEXT("GET /v1/ping\r\nHost: h\r\n\r\n"),
        TEXT("GE(T /v1/ping HTTP/1.1\r\nHost: h\r\n\r\n"),
    };
#undef TEXT

    (void)context;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int fd = client_connect(&rig);

        client_send(fd, cases[i].text, cases[i].bytes);
        client_read(fd, &answer);
        if (answer.status != 400 && answer.status != 505 && answer.status != 0)
            fail_msg("case %zu: %u: %s", i, answer.status, answer.body);
        client_await_end(fd); /* nothing that follows is read as a request */
        close(fd);
    }
    assert_true(rig_metric(&rig, "berth_http_cut_total{reason=\"malformed_head\"}") >= 20);
    client_ask(&rig, "GET /v1/ping HTTP/1.1\r\nHost:h\r\nX:\r\nY: \t a b \t\r\nCookie: a=b; c=d\r\n\r\n", &answer);
    assert_int_equal(answer.status, 200); /* odd and well-formed */
}

static void long_heads_are_431_and_long_targets_414(void **context)
{
    static char text[40000];
    static const struct {
        size_t bytes;
        bool in_target;
        unsigned status;
    } cases[] = {{4000, true, 404}, {5000, true, 414}, {5000, false, 200}, {13000, false, 431}, {30000, false, 431}, {36000, true, 414}};

    (void)context;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        size_t at = (size_t)snprintf(text, sizeof(text), "GET /v1/%s", cases[i].in_target ? "" : "ping HTTP/1.1\r\nHost: h\r\nX: ");
        int fd = client_connect(&rig);

        memset(text + at, 'x', cases[i].bytes);
        strcpy(text + at + cases[i].bytes, cases[i].in_target ? " HTTP/1.1\r\nHost: h\r\n\r\n" : "\r\n\r\n");
        client_say(fd, text);
        client_read(fd, &answer);
        if (answer.status != cases[i].status)
            fail_msg("case %zu: %u, wanted %u", i, answer.status, cases[i].status);
        close(fd);
    }
}

/* --- slow clients ----------------------------------------------------------------------------------------------------------- */

/* A byte every 20 ms for as long as it is let; returns after how long it was not. */
static int64_t drip(int fd, const char *text)
{
    const int64_t began_ms = rig_now_ms();
    char data[256];

    for (size_t at = 0; rig_now_ms() - began_ms < 9000; at++) {
        const struct timespec pause = {0, 20000000};

        if (send(fd, at < strlen(text) ? text + at : "x", 1, MSG_NOSIGNAL) < 0)
            break;
        if (recv(fd, data, sizeof(data), MSG_DONTWAIT) == 0)
            break;
        nanosleep(&pause, NULL);
    }
    return rig_now_ms() - began_ms;
}

static void a_head_that_drips_is_cut_at_its_deadline(void **context)
{
    int fd = client_connect(&rig);
    int64_t ms;

    (void)context;
    ms = drip(fd, "GET /v1/ping HTTP/1.1\r\nHost: hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"
                  "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh");
    assert_in_range(ms, 900, 8000);
    close(fd);
    assert_true(rig_metric(&rig, "berth_http_cut_total{reason=\"head_deadline\"}") == 1);
}

static void a_second_head_that_drips_is_cut_too(void **context)
{
    int fd = client_connect(&rig);

    (void)context;
    client_say(fd, "GET /v1/ping HTTP/1.1\r\nHost: h\r\n\r\n");
    client_read(fd, &answer);
    assert_int_equal(answer.status, 200);
    assert_in_range(drip(fd, "GET /v1/ping HTTP/1.1\r\nHost: hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"
                             "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"),
                    1100, 8000);
    close(fd);
}

static void a_connection_that_says_nothing_is_cut(void **context)
{
    int fd = client_connect(&rig);

    (void)context;
    client_await_end(fd);
    close(fd);
}

static void a_body_that_drips_is_cut_at_its_deadline(void **context)
{
    int fd = client_connect(&rig);

    (void)context;
    client_say(fd, "POST /v1/jobs HTTP/1.1\r\nHost: h\r\n" KEY JSON "Content-Length: 4000\r\n\r\n");
    assert_in_range(drip(fd, ""), 900, 8000);
    close(fd);
    assert_true(rig_metric(&rig, "berth_http_cut_total{reason=\"body_deadline\"}") == 1);
}

static void an_upload_that_drips_is_cut_and_its_sink_told(void **context)
{
    int fd = client_connect(&rig);

    (void)context;
    client_say(fd, "POST /v1/files HTTP/1.1\r\nHost: h\r\n" KEY "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 90000\r\n\r\n"
               "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n");
    assert_in_range(drip(fd, ""), 900, 8000);
    rig_await(&rig, &rig.abandoned_count, 1);
    close(fd);
}

static void a_request_that_waits_for_its_answer_has_no_deadline(void **context)
{
    const struct timespec pause = {2, 500000000}; /* longer than any deadline here */
    int fd = client_connect(&rig);
    struct http_request *request;

    (void)context;
    client_say(fd, "GET /v1/later HTTP/1.1\r\nHost: h\r\n\r\n");
    request = rig_take(&rig);
    nanosleep(&pause, NULL);
    http_answer_empty(request, 204);
    client_read(fd, &answer);
    assert_int_equal(answer.status, 204);
    close(fd);
}

static void an_answer_that_nobody_takes_is_cut(void **context)
{
    static char much[16 << 20];
    int fd = client_connect(&rig);
    size_t took;

    (void)context;
    client_say(fd, "GET /v1/later HTTP/1.1\r\nHost: h\r\n\r\n");
    http_answer_bytes(rig_take(&rig), 200, "text/plain", much, sizeof(much));
    while (rig_metric(&rig, "berth_http_cut_total{reason=\"answer_deadline\"}") == 0) {
        const struct timespec pause = {0, 10000000};

        nanosleep(&pause, NULL);
    }
    took = client_take(fd, much, sizeof(much));
    assert_true(took < sizeof(much));
    close(fd);
}

/* --- clients that leave ----------------------------------------------------------------------------------------------------- */

static void a_client_that_leaves_while_its_answer_is_made_is_noticed_at_once(void **context)
{
    int fd = client_connect(&rig);
    struct http_request *request;
    int64_t left_ms;

    (void)context;
    client_say(fd, "GET /v1/later HTTP/1.1\r\nHost: h\r\n\r\n");
    request = rig_take(&rig);
    left_ms = rig_now_ms();
    close(fd);
    rig_await(&rig, &rig.gone_count, 1);
    assert_in_range(rig_now_ms() - left_ms, 0, 5000); /* no write, no ping: nothing else would tell within this test */
    http_answer_empty(request, 204); /* void */
    assert_true(rig_metric(&rig, "berth_http_cut_total{reason=\"client_left\"}") == 1);
}

static void a_client_that_resets_is_noticed_too(void **context)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = 0};
    int fd = client_connect(&rig);
    struct http_request *request;

    (void)context;
    client_say(fd, "GET /v1/later HTTP/1.1\r\nHost: h\r\n\r\n");
    request = rig_take(&rig);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(fd);
    rig_await(&rig, &rig.gone_count, 1);
    http_answer_json(request, 200, json_object());
}

static void answering_and_leaving_at_once_is_safe(void **context)
{
    uint64_t state = test_seed(7);

    (void)context;
    for (int i = 0; i < 300; i++) {
        int fd = client_connect(&rig);
        struct http_request *request;

        client_say(fd, i % 2 == 0 ? "GET /v1/later HTTP/1.1\r\nHost: h\r\n\r\n" : "GET /v1/stream HTTP/1.1\r\nHost: h\r\n\r\n");
        request = rig_take(&rig);
        if (draw_below(&state, 2) == 0) {
            close(fd);
            fd = -1;
        }
        if (i % 2 == 0) {
            http_answer_json(request, 200, json_object());
        } else {
            (void)http_stream_event(request, "{}", 2);
            http_stream_end(request);
        }
        if (fd >= 0)
            close(fd);
    }
}

/* --- too many --------------------------------------------------------------------------------------------------------------- */

static void connections_are_bounded_by_address_and_the_others_are_served(void **context)
{
    int fds[8];
    int other;
    struct sockaddr_in here = {.sin_family = AF_INET};
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(http_port(rig.server))};

    (void)context;
    for (size_t i = 0; i < ARRAY_COUNT(fds); i++)
        fds[i] = client_connect(&rig);
    for (size_t i = 4; i < ARRAY_COUNT(fds); i++) /* beyond four: ended without an answer */
        client_await_end(fds[i]);
    other = socket(AF_INET, SOCK_STREAM, 0);
    here.sin_addr.s_addr = htonl(0x7f000002); /* another address of this machine */
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(other, (const struct sockaddr *)&here, sizeof(here)), 0);
    assert_int_equal(connect(other, (const struct sockaddr *)&there, sizeof(there)), 0);
    client_say(other, "GET /v1/ping HTTP/1.1\r\nHost: h\r\n\r\n");
    client_read(other, &answer);
    assert_int_equal(answer.status, 200);
    client_say(fds[0], "GET /v1/ping HTTP/1.1\r\nHost: h\r\n\r\n");
    client_read(fds[0], &answer);
    assert_int_equal(answer.status, 200);
    close(other);
    for (size_t i = 0; i < ARRAY_COUNT(fds); i++)
        close(fds[i]);
}

static void bodies_are_bounded_together(void **context)
{
    static const char head[] = "POST /v1/jobs HTTP/1.1\r\nHost: h\r\n" KEY JSON "Content-Length: 2\r\n\r\n{";
    int fds[3];

    (void)context;
    for (int i = 0; i < 2; i++) { /* 4 KiB each, while they are not whole */
        fds[i] = client_connect(&rig);
        client_say(fds[i], head);
        while (rig_metric(&rig, "berth_http_received_bytes_total") < i + 1)
            continue;
    }
    fds[2] = client_connect(&rig);
    client_say(fds[2], head);
    client_say(fds[2], "}");
    client_read(fds[2], &answer);
    assert_int_equal(answer.status, 503);
    assert_string_equal(answer_field(&answer, "error", "code"), "overloaded");
    client_say(fds[0], "}");
    client_read(fds[0], &answer);
    assert_int_equal(answer.status, 200);
    client_say(fds[2], head);
    client_say(fds[2], "}");
    client_read(fds[2], &answer);
    assert_int_equal(answer.status, 200);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

/* --- keys ------------------------------------------------------------------------------------------------------------------- */

#define MASK 0x55

/* How often the masked text stands in memory that this process may write; freed memory is looked at too, which sanitizers would mind. */
__attribute__((no_sanitize_address, no_sanitize_thread)) static uint32_t count_in_memory(const unsigned char *masked, size_t bytes)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    uint32_t count = 0;

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        char rights[8];
        unsigned long from, to;

        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 || strncmp(rights, "rw", 2) != 0 || to - from > (1ul << 30))
            continue; /* what sanitizers reserve is larger */
        for (const unsigned char *at = (const unsigned char *)from; at + bytes <= (const unsigned char *)to; at++) {
            size_t i = 0;

            while (i < bytes && (at[i] ^ MASK) == masked[i])
                i++;
            count += i == bytes;
        }
    }
    fclose(maps);
    return count;
}

/* Asks `path` with a key that stands nowhere else; ret_masked is it. */
static int ask_with_key(const char *path, unsigned char ret_masked[24], uint64_t seed)
{
    char *key = malloc(24);
    char text[256];
    int fd = client_connect(&rig);

    for (size_t i = 0; i < 24; i++)
        ret_masked[i] = (unsigned char)('a' + draw_below(&seed, 26)) ^ MASK;
    for (size_t i = 0; i < 24; i++)
        key[i] = (char)(ret_masked[i] ^ MASK);
    assert_int_equal(count_in_memory(ret_masked, 24), 1); /* so it would be found */
    snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: h\r\n" JSON "Content-Length: 2\r\nAuthorization: Bearer ", path);
    client_say(fd, text);
    client_send(fd, key, 24);
    memset(key, 0, 24);
    free(key);
    client_say(fd, "\r\n\r\n{}");
    return fd;
}

static void skip_where_all_memory_is_too_much(void)
{
#ifdef __SANITIZE_THREAD__
    printf("skipped: ThreadSanitizer has too much memory to look through\n");
    skip();
#endif
}

static void a_key_is_in_no_memory_once_its_request_has_ended(void **context)
{
    unsigned char masked[24];
    int fd;

    (void)context;
    skip_where_all_memory_is_too_much();
    fd = ask_with_key("POST /v1/jobs", masked, test_seed(11));
    client_read(fd, &answer);
    assert_int_equal(answer.status, 200);
    close(fd);
    http_stop(rig.server, 1000);
    assert_int_equal(count_in_memory(masked, sizeof(masked)), 0);
}

static void a_key_can_be_wiped_while_its_request_waits(void **context)
{
    unsigned char masked[24];
    struct http_request *request;
    int fd;

    (void)context;
    skip_where_all_memory_is_too_much();
    fd = ask_with_key("POST /v1/jobs/held/cancel", masked, test_seed(12));
    request = rig_take(&rig);
    assert_int_equal(count_in_memory(masked, sizeof(masked)), 1); /* the request's own */
    http_wipe_key(request);
    assert_int_equal(count_in_memory(masked, sizeof(masked)), 0);
    http_answer_empty(request, 204);
    client_read(fd, &answer);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(heads_that_can_be_read_two_ways_are_refused_and_the_line_closed, begin, end),
        cmocka_unit_test_setup_teardown(long_heads_are_431_and_long_targets_414, begin, end),
        cmocka_unit_test_setup_teardown(a_head_that_drips_is_cut_at_its_deadline, begin_quick, end),
        cmocka_unit_test_setup_teardown(a_second_head_that_drips_is_cut_too, begin_quick, end),
        cmocka_unit_test_setup_teardown(a_connection_that_says_nothing_is_cut, begin_quick, end),
        cmocka_unit_test_setup_teardown(a_body_that_drips_is_cut_at_its_deadline, begin_quick, end),
        cmocka_unit_test_setup_teardown(an_upload_that_drips_is_cut_and_its_sink_told, begin_quick, end),
        cmocka_unit_test_setup_teardown(a_request_that_waits_for_its_answer_has_no_deadline, begin_quick, end),
        cmocka_unit_test_setup_teardown(an_answer_that_nobody_takes_is_cut, begin_quick, end),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_while_its_answer_is_made_is_noticed_at_once, begin, end),
        cmocka_unit_test_setup_teardown(a_client_that_resets_is_noticed_too, begin, end),
        cmocka_unit_test_setup_teardown(answering_and_leaving_at_once_is_safe, begin, end),
        cmocka_unit_test_setup_teardown(connections_are_bounded_by_address_and_the_others_are_served, begin_few, end),
        cmocka_unit_test_setup_teardown(bodies_are_bounded_together, begin_few, end),
        cmocka_unit_test_setup_teardown(a_key_is_in_no_memory_once_its_request_has_ended, begin, end),
        cmocka_unit_test_setup_teardown(a_key_can_be_wiped_while_its_request_waits, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
