/* Uploads through the server: half a gigabyte in little memory, parts to the sink, room that runs out, bodies that break, clients that
 * leave. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "rig.h"

#define HEAD "POST /v1/files HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer good\r\nContent-Type: multipart/form-data; boundary=b\r\n"
#define FILE_PART "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"train.jsonl\"\r\nContent-Type: application/octet-stream\r\n\r\n"
#define PURPOSE "\r\n--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune\r\n--b--\r\n"
#define BIG ((uint64_t)512 << 20)

static struct rig rig;
static struct client_answer answer;

static int begin(void **context)
{
    (void)context;
    rig_begin(&rig, NULL);
    return 0;
}

static int begin_little(void **context)
{
    const struct http_limits limits = {.discard_bytes_max = 65536};

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

static long resident_kib(void)
{
    char line[128];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    fclose(file);
    return kib;
}

static void half_a_gigabyte_streams_in_flat_memory(void **context)
{
    static char piece[1 << 16];
    int fd = client_connect(&rig);
    char head[512];
    long before_kib;

    (void)context;
    memset(piece, 'x', sizeof(piece));
    before_kib = resident_kib();
    snprintf(head, sizeof(head), HEAD "Content-Length: %llu\r\n\r\n" FILE_PART,
             (unsigned long long)(BIG + strlen(FILE_PART) + strlen(PURPOSE)));
    client_say(fd, head);
    for (uint64_t sent = 0; sent < BIG; sent += sizeof(piece))
        client_send(fd, piece, sizeof(piece));
    client_say(fd, PURPOSE);
    client_read(fd, &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer_field(&answer, NULL, "parts"), "begin file train.jsonl application/octet-stream\nend 536870912\n"
                                                              "begin purpose - \nend 9\n");
    assert_in_range(resident_kib() - before_kib, 0, 16 << 10); /* some 0.2 MiB; sanitizers add their own */
    close(fd);
}

static void chunked_uploads_are_the_same(void **context)
{
    int fd = client_connect(&rig);
    const char *body = FILE_PART "0123456789" PURPOSE;

    (void)context;
    client_say(fd, HEAD "Transfer-Encoding: chunked\r\n\r\n");
    for (const char *at = body; *at != '\0'; at += strlen(at) < 7 ? strlen(at) : 7) {
        char chunk[32];

        snprintf(chunk, sizeof(chunk), "%zx\r\n%.7s\r\n", strlen(at) < 7 ? strlen(at) : 7, at);
        client_say(fd, chunk);
    }
    client_say(fd, "0\r\n\r\n");
    client_read(fd, &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer_field(&answer, NULL, "parts"), "begin file train.jsonl application/octet-stream\nend 10\n"
                                                              "begin purpose - \nend 9\n");
    assert_int_equal(rig.finished_count, 1);
    assert_int_equal(rig.abandoned_count, 0);
    close(fd);
}

static void upload(const char *body, unsigned status, const char *why)
{
    char text[4096];

    snprintf(text, sizeof(text), HEAD "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
    client_ask(&rig, text, &answer);
    if (answer.status != status || strstr(answer.body, why) == NULL)
        fail_msg("%s: %u: %s", body, answer.status, answer.body);
}

static void what_breaks_is_told_and_the_sink_abandoned_once(void **context)
{
    (void)context;
    upload(FILE_PART "0123", 400, "before its last boundary");
    assert_int_equal(rig.abandoned_count, 1);
    upload("--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--", 400, "a part has no name");
    assert_int_equal(rig.abandoned_count, 2);
    upload("--b\r\nContent-Disposition: form-data; name=\"refuse\"\r\n\r\n1\r\n--b--", 400, "this part is refused");
    assert_int_equal(rig.abandoned_count, 3);
    upload(FILE_PART "0123" PURPOSE, 200, "end 4");
    client_ask(&rig, HEAD "Content-Length: 0\r\n\r\n", &answer);
    assert_int_equal(answer.status, 400);
    client_ask(&rig, HEAD "\r\n", &answer);
    assert_int_equal(answer.status, 411);
    client_ask(&rig, "POST /v1/files HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer good\r\nContent-Type: multipart/form-data\r\nContent-Length: 1\r\n\r\nx",
               &answer);
    assert_int_equal(answer.status, 415);
    client_ask(&rig, "POST /v1/files HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer bad\r\nContent-Type: multipart/form-data; boundary=b\r\n"
               "Content-Length: 1\r\n\r\nx", &answer);
    assert_int_equal(answer.status, 401);
    assert_int_equal(rig.abandoned_count, 3);
    assert_int_equal(rig.finished_count, 1);
}

static void a_client_that_leaves_amid_an_upload_is_told_to_the_sink(void **context)
{
    int fd = client_connect(&rig);

    (void)context;
    client_say(fd, HEAD "Content-Length: 1000\r\n\r\n" FILE_PART "0123");
    rig_await(&rig, &rig.asked_room, 1);
    close(fd);
    rig_await(&rig, &rig.abandoned_count, 1);
    assert_int_equal(rig.finished_count, 0);
}

static void more_than_is_taken_is_refused_before_it_is_sent(void **context)
{
    char text[1024];

    (void)context;
    snprintf(text, sizeof(text), HEAD "Expect: 100-continue\r\nContent-Length: %llu\r\n\r\n", (unsigned long long)(UINT64_C(1) << 30) + 1);
    client_ask(&rig, text, &answer);
    assert_int_equal(answer.status, 413);
    assert_true(answer.closed);
    assert_int_equal(rig.abandoned_count, 0);
}

static void a_refused_body_is_discarded_up_to_a_bound(void **context)
{
    static char piece[4096];
    int fd = client_connect(&rig);

    (void)context;
    memset(piece, 'x', sizeof(piece));
    memcpy(piece, "ff8\r\n", 5);
    memcpy(piece + 5 + 0xff8 - 2 + 2, "\r", 1); /* 5 + 4088 + 2 = 4095 */
    memcpy(piece + 5 + 0xff8, "\r\n", 2);
    client_say(fd, "POST /v1/jobs HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 100; i++) /* 400 KB, of which 64 KiB are read */
        client_send(fd, piece, 5 + 0xff8 + 2);
    client_await_end(fd);
    close(fd);
    assert_true(rig_metric(&rig, "berth_http_cut_total{reason=\"body_too_long\"}") == 1);
}

/* The sink has room for some bytes at a time; the client waits, and nothing is lost. */
static void an_upload_waits_while_its_sink_has_no_room(void **context)
{
    static char data[200000];
    char head[512];
    int fd = client_connect(&rig);
    bool over = false;
    uint64_t hash = 0;

    (void)context;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = i % 11 == 0 ? '\r' : i % 13 == 0 ? '\n' : (char)('a' + i % 26);
    for (size_t i = 0; i < sizeof(data); i++)
        hash = hash_fold(hash, (unsigned char)data[i]);
    rig.room = 0;
    snprintf(head, sizeof(head), HEAD "Content-Length: %zu\r\n\r\n", strlen(FILE_PART) + sizeof(data) + strlen("\r\n--b--"));
    client_say(fd, head);
    client_say(fd, FILE_PART);
    client_send(fd, data, sizeof(data));
    client_say(fd, "\r\n--b--");
    rig_await(&rig, &rig.asked_room, 1); /* it was told that there is none */
    while (!over) {
        const struct timespec pause = {0, 100000};

        nanosleep(&pause, NULL);
        pthread_mutex_lock(&rig.lock);
        rig.room += 1000;
        over = rig.uploading == NULL;
        if (!over)
            http_receive_more(rig.uploading);
        pthread_mutex_unlock(&rig.lock);
    }
    client_read(fd, &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer_field(&answer, NULL, "parts"), "begin file train.jsonl application/octet-stream\nend 200000\n");
    assert_true(rig.part_hash == hash); /* every byte, in order */
    close(fd);
}

static void a_client_that_leaves_while_its_upload_waits_is_noticed(void **context)
{
    int fd = client_connect(&rig);

    (void)context;
    rig.room = 0;
    client_say(fd, HEAD "Content-Length: 1000\r\n\r\n" FILE_PART "0123");
    rig_await(&rig, &rig.asked_room, 1);
    close(fd);
    rig_await(&rig, &rig.abandoned_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(half_a_gigabyte_streams_in_flat_memory, begin, end),
        cmocka_unit_test_setup_teardown(chunked_uploads_are_the_same, begin, end),
        cmocka_unit_test_setup_teardown(what_breaks_is_told_and_the_sink_abandoned_once, begin, end),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_amid_an_upload_is_told_to_the_sink, begin, end),
        cmocka_unit_test_setup_teardown(more_than_is_taken_is_refused_before_it_is_sent, begin, end),
        cmocka_unit_test_setup_teardown(a_refused_body_is_discarded_up_to_a_bound, begin_little, end),
        cmocka_unit_test_setup_teardown(an_upload_waits_while_its_sink_has_no_room, begin, end),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_while_its_upload_waits_is_noticed, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
