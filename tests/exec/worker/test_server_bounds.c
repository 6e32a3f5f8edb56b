/* A server behind its socket: what it refuses, what it bounds, how it begins and ends. */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "talk.h"

#define PROMPT "\"prompt_ids\": [1, 30, 40, 50, 60]"

static struct served served;

static void one_sequence(struct worker_config *config)
{
    config->sequences_max = 1;
    config->requests_max = 4;
}

/* --- what is refused and bounded -------------------------------------------------------------------------------------------- */

static void lines_that_cannot_be_taken_are_answered_and_the_next_is_heard(void **context)
{
    static const struct {
        const char *line, *code, *why;
    } lines[] = {
        {"{", "bad_request", ""},
        {"3", "bad_request", ""},
        {"[]", "bad_request", "op:"},
        {"{}", "bad_request", "op:"},
        {"{\"op\": 5}", "bad_request", "op:"},
        {"{\"op\": \"generat\"}", "bad_request", "op:"},
        {"{\"op\": \"state\", \"op\": \"state\"}", "bad_request", "duplicate"},
        {"{\"op\": \"state\", \"verbose\": true}", "bad_request", "no key 'verbose'"},
        {"{\"op\": \"load\", \"name\": \"a\", \"path\": \"/etc\"}", "bad_request", "no key 'path'"},
        {"{\"op\": \"unload\", \"lora_name\": \"a\"}", "bad_request", "no key 'lora_name'"},
        {"{\"op\": \"generate\"}", "bad_request", "id"},
        {"{\"op\": \"generate\", \"id\": \"x\", \"prompt\": \"a\"}", "bad_request", "id"},
        {"{\"op\": \"generate\", \"id\": 1}", "bad_request", "prompt"},
        {"{\"op\": \"generate\", \"id\": 1, \"prompt\": \"a\", \"lora_path\": \"x\"}", "bad_request", "lora_path"},
        {"{\"op\": \"generate\", \"id\": 1, \"prompt_ids\": [300]}", "bad_request", "300"},
        {"{\"op\": \"generate\", \"id\": 1, \"prompt_ids\": [3], \"max_tokens\": 256}", "bad_request", "256"},
        {"{\"op\": \"generate\", \"id\": 1, \"prompt_ids\": [3], \"temperature\": 9}", "bad_request", "temperature"},
        {"\xff\xfe", "bad_request", ""},
    };
    struct talk talk;

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    talk_begin(&talk, &served);
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        talk_say(&talk, "\n%s", lines[i].line); /* an empty line is none */
        talk_expect_error(&talk, lines[i].code, lines[i].why);
    }
    json_decref(talk_ask(&talk, "{\"op\": \"state\"}"));
    talk_end(&talk);
    served_drain_and_end(&served);
}

static void a_line_of_more_than_4_mib_is_told_and_closed(void **context)
{
    static char bytes[65536];
    struct talk talk;
    struct talk other;

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    talk_begin(&other, &served);
    talk_begin(&talk, &served);
    memset(bytes, 'x', sizeof(bytes));
    for (size_t at = 0; at < SERVER_LINE_BYTES_MAX;) {
        ssize_t sent = send(talk.fd, bytes, sizeof(bytes), MSG_NOSIGNAL);

        if (sent < 0)
            break;
        at += (size_t)sent;
    }
    talk_expect_error(&talk, "bad_request", "4 MiB");
    assert_null(talk_hear(&talk));
    talk_end(&talk);
    json_decref(talk_ask(&other, "{\"op\": \"state\"}"));
    talk_end(&other);
    served_drain_and_end(&served);
}

/* It asks and asks and reads nothing: it is not heard any more until it reads, others are, and nothing is lost. */
static void one_that_asks_faster_than_it_reads_is_held_back(void **context)
{
    static const char line[] = "{\"op\": \"adapters\"}\n";
    struct talk talk;
    struct talk other;
    char many[sizeof(line) * 64];
    size_t sent = 0;
    size_t asked;

    (void)context;
    served_begin(&served, NULL);
    for (int i = 0; i < 16; i++) {
        char name[32];

        snprintf(name, sizeof(name), "a-%d", i);
        served_adapter(&served, name, 1);
    }
    assert_int_equal(server_scan(served.config.worker, served.adapters, served.log), 16);
    served_start(&served);
    for (int i = 0; i < 64; i++)
        memcpy(many + (size_t)i * (sizeof(line) - 1), line, sizeof(line) - 1);
    talk_begin(&other, &served);
    talk_begin(&talk, &served);
    /* Until nothing more is taken although the server has had a turn. */
    for (int quiet = 0; quiet < 20;) {
        size_t from = sent % (sizeof(line) - 1);
        size_t now = talk_push(&talk, many + from, 64 * (sizeof(line) - 1) - from);

        sent += now;
        quiet = now > 0 ? 0 : quiet + 1;
        if (now == 0)
            json_decref(talk_ask(&other, "{\"op\": \"state\"}"));
    }
    asked = sent / (sizeof(line) - 1);
    assert_true(asked * 16 * 100 > SERVER_OUT_BYTES_MAX); /* more than may wait */
    for (size_t i = 0; i < asked; i++) {
        json_t *object = talk_hear(&talk);

        if (object == NULL)
            fail_msg("closed after %zu of %zu answers", i, asked);
        assert_int_equal(json_array_size(json_object_get(object, "adapters")), 16);
        json_decref(object);
    }
    talk_end(&talk);
    talk_end(&other);
    served_drain_and_end(&served);
}

static void many_requests(struct worker_config *config)
{
    config->requests_max = 64;
}

static void one_that_does_not_read_its_answers_is_closed(void **context)
{
    struct talk talk;
    struct talk other;
    uint32_t ends = 0;
    json_t *object;

    (void)context;
    served_begin(&served, many_requests);
    served_start(&served);
    talk_begin(&talk, &served);
    talk_begin(&other, &served);
    for (int i = 0; i < 48; i++)
        talk_say(&talk, "{\"op\": \"generate\", \"id\": %d, " PROMPT ", \"max_tokens\": 250, \"ignore_eos\": true, \"logprobs\": 20}", i);
    for (bool idle = false; !idle;) {
        object = talk_ask(&other, "{\"op\": \"state\"}");
        idle = number_of(object, "waiting") + number_of(object, "running") == 0 && number_of(object, "steps") > 0;
        json_decref(object);
    }
    while ((object = talk_hear(&talk)) != NULL) {
        ends += *text_of(object, "finish_reason") != '\0';
        json_decref(object);
        if (memchr(talk.bytes, '\n', talk.count) == NULL && talk.count > 0) {
            char more[1];

            /* A line that was cut by the end. */
            if (recv(talk.fd, more, 1, MSG_PEEK) <= 0)
                break;
        }
    }
    assert_true(ends < 48);
    talk_end(&talk);
    talk_end(&other);
    {
        struct talk last;

        talk_begin(&last, &served);
        talk_drain(&last);
        assert_null(talk_hear(&last));
        talk_end(&last);
    }
    assert_int_equal(served_wait(&served), STATUS_OK);
    assert_true(served_logged(&served, "does not read"));
    served_end(&served);
}

static void connection_65_is_closed(void **context)
{
    static struct talk talk[SERVER_CLIENTS_MAX + 1];

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    for (int i = 0; i < SERVER_CLIENTS_MAX; i++) {
        talk_begin(&talk[i], &served);
        json_decref(talk_ask(&talk[i], "{\"op\": \"state\"}"));
    }
    talk_begin(&talk[SERVER_CLIENTS_MAX], &served);
    assert_null(talk_hear(&talk[SERVER_CLIENTS_MAX]));
    talk_end(&talk[SERVER_CLIENTS_MAX]);
    json_decref(talk_ask(&talk[3], "{\"op\": \"state\"}"));
    talk_end(&talk[3]);
    talk_begin(&talk[3], &served);
    json_decref(talk_ask(&talk[3], "{\"op\": \"state\"}"));
    talk_drain(&talk[3]);
    assert_int_equal(served_wait(&served), STATUS_OK);
    for (int i = 0; i < SERVER_CLIENTS_MAX; i++)
        talk_end(&talk[i]);
    served_end(&served);
}

/* --- how it begins and ends ------------------------------------------------------------------------------------------------- */

static void a_drain_lets_what_is_in_flight_finish(void **context)
{
    struct talk talk;
    struct talk other;
    int32_t ids[256];
    uint32_t count;
    json_t *object;

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    talk_begin(&talk, &served);
    talk_begin(&other, &served);
    talk_say(&talk, "{\"op\": \"generate\", \"id\": 1, " PROMPT ", \"max_tokens\": 250, \"ignore_eos\": true}\n"
                    "{\"op\": \"drain\"}\n"
                    "{\"op\": \"generate\", \"id\": 2, " PROMPT "}");
    object = talk_hear(&talk);
    assert_string_equal(text_of(object, "op"), "drain");
    json_decref(object);
    talk_expect_error(&talk, "busy", "draining");
    object = talk_hear_answer(&talk, 1, ids, &count);
    assert_int_equal(count, 250);
    assert_string_equal(text_of(object, "finish_reason"), "length");
    json_decref(object);
    assert_null(talk_hear(&talk));
    assert_null(talk_hear(&other));
    talk_end(&talk);
    talk_end(&other);
    assert_int_equal(served_wait(&served), STATUS_OK);
    assert_int_not_equal(access(served.socket, F_OK), 0);
    served_end(&served);
}

static void a_stop_cancels_what_is_in_flight_and_says_so(void **context)
{
    struct talk talk;
    uint32_t ends = 0;
    json_t *object;

    (void)context;
    served_begin(&served, one_sequence);
    served_start(&served);
    talk_begin(&talk, &served);
    /* In one go, so that all are there when the first answers. */
#define LONG(id) "{\"op\": \"generate\", \"id\": " #id ", " PROMPT ", \"max_tokens\": 250, \"ignore_eos\": true}"
    talk_say(&talk, LONG(0) "\n" LONG(1) "\n" LONG(2) "\n" LONG(3));
#undef LONG
    json_decref(talk_hear(&talk));
    served_stop(&served);
    while ((object = talk_hear(&talk)) != NULL) {
        ends += *text_of(object, "finish_reason") != '\0';
        json_decref(object);
    }
    assert_int_equal(ends, 4);
    talk_end(&talk);
    assert_int_equal(served_wait(&served), STATUS_OK);
    served_end(&served);
}

static int listener_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    strcpy(address.sun_path, path);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void a_socket_that_was_left_behind_is_replaced(void **context)
{
    struct stat facts;
    struct talk talk;

    (void)context;
    served_begin(&served, NULL);
    close(listener_at(served.socket));
    served_start(&served);
    talk_begin(&talk, &served);
    json_decref(talk_ask(&talk, "{\"op\": \"state\"}"));
    assert_int_equal(stat(served.socket, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    talk_end(&talk);
    served_drain_and_end(&served);
}

static void another_file_is_left_alone(void **context)
{
    struct stat facts;

    (void)context;
    served_begin(&served, NULL);
    scratch_text(&served.place.scratch, "socket", "precious");
    assert_int_equal(server_run(&served.config, &served.stop, &served.refusal), STATUS_IO);
    assert_non_null(strstr(served.refusal.text, served.socket));
    assert_int_equal(stat(served.socket, &facts), 0);
    assert_int_equal(facts.st_size, 8);
    served_end(&served);
}

static void a_second_server_is_refused(void **context)
{
    struct refusal refusal = {{0}};
    struct talk talk;

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    talk_begin(&talk, &served);
    json_decref(talk_ask(&talk, "{\"op\": \"state\"}"));
    assert_int_equal(server_run(&served.config, &served.stop, &refusal), STATUS_IO);
    assert_non_null(strstr(refusal.text, "another server"));
    json_decref(talk_ask(&talk, "{\"op\": \"state\"}"));
    talk_end(&talk);
    served_drain_and_end(&served);
}

static void a_path_too_long_for_a_socket_is_refused(void **context)
{
    struct refusal refusal = {{0}};
    char path[300];

    (void)context;
    served_begin(&served, NULL);
    memset(path, 'a', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    served.config.socket_path = path;
    assert_int_equal(server_run(&served.config, &served.stop, &refusal), STATUS_INVALID);
    served_end(&served);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_that_cannot_be_taken_are_answered_and_the_next_is_heard),
        cmocka_unit_test(a_line_of_more_than_4_mib_is_told_and_closed),
        cmocka_unit_test(one_that_asks_faster_than_it_reads_is_held_back),
        cmocka_unit_test(one_that_does_not_read_its_answers_is_closed),
        cmocka_unit_test(connection_65_is_closed),
        cmocka_unit_test(a_drain_lets_what_is_in_flight_finish),
        cmocka_unit_test(a_stop_cancels_what_is_in_flight_and_says_so),
        cmocka_unit_test(a_socket_that_was_left_behind_is_replaced),
        cmocka_unit_test(another_file_is_left_alone),
        cmocka_unit_test(a_second_server_is_refused),
        cmocka_unit_test(a_path_too_long_for_a_socket_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
