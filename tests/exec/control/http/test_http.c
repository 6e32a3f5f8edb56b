/* What is asked and answered: routes, ids, queries, bodies, errors, lists, retries, log lines and metrics. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rig.h"

static struct rig rig;
static struct client_answer answer;

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"
#define KEY "Authorization: Bearer sk-test-1\r\n"
#define JSON "Content-Type: application/json\r\n"

static int begin(void **context)
{
    (void)context;
    rig_begin(&rig, NULL);
    return 0;
}

static int end(void **context)
{
    (void)context;
    client_answer_free(&answer);
    rig_end(&rig);
    return 0;
}

static void ask_expecting(const char *text, unsigned status, const char *code)
{
    client_ask(&rig, text, &answer);
    if (answer.status != status || strcmp(answer_field(&answer, "error", "code"), code) != 0)
        fail_msg("%.60s: %u, wanted %u: %s", text, answer.status, status, answer.body);
}

static void an_answer_is_json_with_a_request_id(void **context)
{
    (void)context;
    client_ask(&rig, GET("/v1/ping"), &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "{\"ok\":true}");
    assert_non_null(strstr(answer.head, "\r\nx-request-id: req_"));
    assert_non_null(strstr(answer.head, "\r\ncontent-type: application/json\r\n"));
    assert_non_null(strstr(answer.head, "\r\nopenai-processing-ms: "));
    assert_null(strstr(answer.head, "ccess-"));  /* no Access-Control: CORS is off */
    assert_false(answer.closed);
}

static void a_connection_is_kept_and_requests_may_be_sent_ahead(void **context)
{
    int fd = client_connect(&rig);

    (void)context;
    client_say(fd, GET("/v1/ping") GET("/v1/things/a") GET("/v1/nothing"));
    client_read(fd, &answer);
    assert_int_equal(answer.status, 200);
    client_read(fd, &answer);
    assert_string_equal(answer_field(&answer, NULL, "id"), "a");
    client_read(fd, &answer);
    assert_int_equal(answer.status, 404);
    close(fd);
}

static void what_is_not_there_is_404_and_what_is_not_done_405(void **context)
{
    (void)context;
    ask_expecting(GET("/v1/nothing"), 404, "unknown_url");
    assert_string_equal(answer_field(&answer, "error", "type"), "invalid_request_error");
    assert_non_null(strstr(answer.body, "\"param\":null"));
    ask_expecting(GET("/"), 404, "unknown_url");
    ask_expecting(GET("/v1/ping/"), 404, "unknown_url");
    ask_expecting(GET("//v1/ping"), 404, "unknown_url");
    ask_expecting("DELETE /v1/ping HTTP/1.1\r\nHost: h\r\n\r\n", 405, "method_not_allowed");
    assert_non_null(strstr(answer.head, "\r\nallow: GET, HEAD, OPTIONS\r\n"));
    ask_expecting("PATCH /v1/things/a HTTP/1.1\r\nHost: h\r\n\r\n", 405, "method_not_allowed");
    assert_non_null(strstr(answer.head, "\r\nallow: GET, HEAD, DELETE, OPTIONS\r\n"));
    client_ask(&rig, "OPTIONS /v1/jobs HTTP/1.1\r\nHost: h\r\nOrigin: http://evil\r\n\r\n", &answer);
    assert_int_equal(answer.status, 204);
    assert_non_null(strstr(answer.head, "\r\nallow: POST, OPTIONS\r\n"));
    assert_null(strstr(answer.head, "ccess-"));
}

static void head_is_get_without_a_body(void **context)
{
    int fd = client_connect(&rig);
    char text[2048] = "";

    (void)context;
    client_say(fd, "HEAD /v1/ping HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    client_take(fd, text, sizeof(text) - 1);
    assert_non_null(strstr(text, " 200 "));
    assert_non_null(strstr(text, "Content-Length: 11\r\n"));
    assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
    close(fd);
}

static void ids_are_decoded_once_after_the_path_was_split(void **context)
{
    static const struct {
        const char *path, *id; /* NULL: 404 */
    } cases[] = {
        {"ft:base:acme::7p4lURel", "ft:base:acme::7p4lURel"},
        {"a%2Fb", "a/b"},
        {"%61%3A", "a:"},
        {"..%2Ffiles%2Ffile-abc", NULL},
        {"..", NULL},
        {"%2e%2e", NULL},
        {".", NULL},
        {"a%2F..%2Fb", NULL},
        {"%2Fetc", NULL},
        {"a%2F%2Fb", NULL},
        {"a%5Cb", NULL},
        {"a%252e", NULL}, /* decodes to a%2e, and % is in no id */
        {"%C3%A9", NULL},
        {"a%20b", NULL},
        {"a'%20OR%201", NULL},
        {"", NULL},
    };
    char text[512];
    char long_id[400];

    (void)context;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        snprintf(text, sizeof(text), "GET /v1/things/%s HTTP/1.1\r\nHost: h\r\n\r\n", cases[i].path);
        client_ask(&rig, text, &answer);
        if (answer.status != (cases[i].id == NULL ? 404u : 200u))
            fail_msg("%s: %u", cases[i].path, answer.status);
        if (cases[i].id != NULL)
            assert_string_equal(answer_field(&answer, NULL, "id"), cases[i].id);
    }
    memset(long_id, 'a', sizeof(long_id));
    snprintf(text, sizeof(text), "GET /v1/things/%.256s HTTP/1.1\r\nHost: h\r\n\r\n", long_id);
    client_ask(&rig, text, &answer);
    assert_int_equal(answer.status, 200);
    snprintf(text, sizeof(text), "GET /v1/things/%.257s HTTP/1.1\r\nHost: h\r\n\r\n", long_id);
    client_ask(&rig, text, &answer);
    assert_int_equal(answer.status, 404);
}

static void broken_targets_are_400(void **context)
{
    (void)context;
    ask_expecting(GET("/v1/things/%zz"), 400, "");
    ask_expecting(GET("/v1/things/%0"), 400, "");
    ask_expecting(GET("/v1/things/a%00b"), 400, "");
    ask_expecting(GET("/v1/things/%0d%0aX"), 400, "");
    ask_expecting(GET("/v1/things/%ff"), 400, "");
    ask_expecting(GET("/v1/things/%ed%a0%80"), 400, ""); /* a surrogate */
    ask_expecting(GET("/v1/things/%e0%80%af"), 400, ""); /* a slash, written too long */
    ask_expecting(GET("http://h/v1/ping"), 400, "");
    ask_expecting(GET("/v1/echo?a=1&a=2"), 400, "");
    ask_expecting(GET("/v1/echo?a=%zz"), 400, "");
    ask_expecting(GET("/v1/echo?a=%ff"), 400, "");
}

static void queries_are_decoded_and_kept_in_order(void **context)
{
    (void)context;
    client_ask(&rig, "GET /v1/echo?limit=2&metadata%5Bteam%5D=x%20y+z&empty=&flag HTTP/1.1\r\nHost: h\r\nOpenAI-Organization: org-1\r\n\r\n",
               &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body, "\"limit\":\"2\",\"metadata[team]\":\"x y z\",\"empty\":\"\",\"flag\":\"\""));
    assert_string_equal(answer_field(&answer, NULL, "organization"), "org-1");
    assert_non_null(strstr(answer.body, "\"key\":null"));
}

static void keys_are_read_from_bearer_only(void **context)
{
    (void)context;
    client_ask(&rig, "GET /v1/echo HTTP/1.1\r\nHost: h\r\nauthorization: bearer  sk-abc_1.2\r\n\r\n", &answer);
    assert_string_equal(answer_field(&answer, NULL, "key"), "sk-abc_1.2");
    client_ask(&rig, "GET /v1/echo HTTP/1.1\r\nHost: h\r\nAuthorization: Basic sk-abc\r\n\r\n", &answer);
    assert_string_equal(answer_field(&answer, NULL, "key"), "");
    client_ask(&rig, "GET /v1/echo HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a b\r\n\r\n", &answer);
    assert_string_equal(answer_field(&answer, NULL, "key"), "");
    ask_expecting("DELETE /v1/things/a HTTP/1.1\r\nHost: h\r\n\r\n", 401, "invalid_api_key");
    assert_non_null(strstr(answer.head, "\r\nwww-authenticate: Bearer\r\n"));
}

static void post(const char *headers, const char *body, unsigned status, const char *why)
{
    char text[8192];

    snprintf(text, sizeof(text), "POST /v1/jobs HTTP/1.1\r\nHost: h\r\n" KEY "%sContent-Length: %zu\r\n\r\n%s", headers, strlen(body), body);
    client_ask(&rig, text, &answer);
    if (answer.status != status || (why != NULL && strstr(answer.body, why) == NULL))
        fail_msg("%s: %u, wanted %u; %s", body, answer.status, status, answer.body);
}

static void bodies_are_json_objects_and_faults_quote_nothing(void **context)
{
    static const char *const broken[] = {"{\"secret\": nonsense}", "{\"secret\": 1, \"secret\": 2}", "{\"secret\"", "\xff\xfe", "{} secret",
                                         "{\"secret\": \"\\u0000\"}"};
    char big[4100];

    (void)context;
    post(JSON, "{\"a\": 1}", 200, "{\"body\":{\"a\":1},\"retry_key\":null,\"retry_count\":0}");
    post("Content-Type: application/json; charset=utf-8\r\n", "{}", 200, NULL);
    post(JSON, "{\n  \"secret\": nonsense}", 400, "line 2, column ");
    for (size_t i = 0; i < ARRAY_COUNT(broken); i++) {
        post(JSON, broken[i], 400, "is not JSON");
        assert_null(strstr(answer.body, "secret"));
        assert_null(strstr(answer.body, "nonsense"));
    }
    post(JSON, "[1]", 400, "not an object");
    post(JSON, "", 400, "empty");
    post("", "{}", 415, "application/json");
    post("Content-Type: text/plain\r\n", "{}", 415, "application/json");
    post("Content-Type: application/jsonx\r\n", "{}", 415, "application/json");
    post(JSON "Content-Encoding: gzip\r\n", "{}", 415, "Content-Encoding");
    memset(big, ' ', sizeof(big));
    memcpy(big, "{}", 2);
    big[4096] = '\0';
    post(JSON, big, 200, NULL);
    big[4096] = ' ';
    big[4097] = '\0';
    post(JSON, big, 413, "4096");
    assert_false(answer.closed); /* so little is read, so that what follows can be */
    ask_expecting("POST /v1/jobs HTTP/1.1\r\nHost: h\r\n" KEY JSON "\r\n", 411, "");
    ask_expecting("GET /v1/ping HTTP/1.1\r\nHost: h\r\n" JSON "Content-Length: 2\r\n\r\n{}", 413, "");
}

static void chunked_bodies_are_joined(void **context)
{
    (void)context;
    client_ask(&rig, "POST /v1/jobs HTTP/1.1\r\nHost: h\r\n" KEY JSON "Transfer-Encoding: chunked\r\n\r\n"
               "3\r\n{\"a\r\n4;x=y\r\n\": 1\r\n1\r\n}\r\n0\r\nTrailer: x\r\n\r\n", &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body, "{\"a\":1}"));
}

static void chunked_bodies_that_are_too_long_are_413(void **context)
{
    int fd = client_connect(&rig);
    char chunk[1100];

    (void)context;
    client_say(fd, "POST /v1/jobs HTTP/1.1\r\nHost: h\r\n" KEY JSON "Transfer-Encoding: chunked\r\n\r\n");
    memset(chunk, ' ', sizeof(chunk));
    memcpy(chunk, "400\r\n", 5);
    memcpy(chunk + 5 + 1024, "\r\n", 2);
    for (int i = 0; i < 5; i++)
        client_send(fd, chunk, 5 + 1024 + 2);
    client_say(fd, "0\r\n\r\n" GET("/v1/ping"));
    client_read(fd, &answer);
    assert_int_equal(answer.status, 413);
    client_read(fd, &answer);
    assert_int_equal(answer.status, 200);
    close(fd);
}

static void a_client_that_asks_whether_to_send_hears_yes_or_why_not(void **context)
{
    int fd = client_connect(&rig);

    (void)context;
    client_say(fd, "POST /v1/jobs HTTP/1.1\r\nHost: h\r\n" KEY JSON "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    client_read(fd, &answer);
    assert_int_equal(answer.status, 100);
    client_say(fd, "{}");
    client_read(fd, &answer);
    assert_int_equal(answer.status, 200);
    client_say(fd, "POST /v1/jobs HTTP/1.1\r\nHost: h\r\n" JSON "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    client_read(fd, &answer);
    assert_int_equal(answer.status, 401);
    client_await_end(fd);
    close(fd);
    ask_expecting("POST /v1/jobs HTTP/1.1\r\nHost: h\r\n" KEY JSON "Expect: magic\r\nContent-Length: 2\r\n\r\n{}", 417, "");
}

static void a_strangers_body_is_not_asked_for(void **context)
{
    int fd = client_connect(&rig);

    (void)context;
    client_say(fd, "POST /v1/jobs HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer bad\r\n" JSON
                   "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    client_read(fd, &answer);
    assert_int_equal(answer.status, 401);
    client_await_end(fd);
    close(fd);
}

static void no_body_is_fine_where_none_is_needed(void **context)
{
    (void)context;
    client_ask(&rig, "POST /v1/jobs/ftjob-1/cancel HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", &answer);
    assert_string_equal(answer.body, "{\"id\":\"ftjob-1\",\"bytes\":0}");
    client_ask(&rig, "POST /v1/jobs/ftjob-1/cancel HTTP/1.1\r\nHost: h\r\n\r\n", &answer);
    assert_int_equal(answer.status, 200);
    client_ask(&rig, "POST /v1/jobs/ftjob-1/cancel HTTP/1.1\r\nHost: h\r\n" JSON "Content-Length: 2\r\n\r\n{}", &answer);
    assert_string_equal(answer_field(&answer, NULL, "bytes"), "2");
}

static void pages_have_bounds_and_ids_at_their_ends(void **context)
{
    (void)context;
    client_ask(&rig, GET("/v1/things"), &answer);
    assert_string_equal(answer_field(&answer, NULL, "object"), "list");
    assert_string_equal(answer_field(&answer, NULL, "first_id"), "b");
    assert_string_equal(answer_field(&answer, NULL, "last_id"), "c");
    assert_string_equal(answer_field(&answer, NULL, "has_more"), "false");
    client_ask(&rig, GET("/v1/things?limit=1&after=file-9&order=asc"), &answer);
    assert_string_equal(answer.body, "{\"object\":\"list\",\"first_id\":\"file-9\",\"last_id\":\"file-9\",\"has_more\":true,"
                                     "\"data\":[{\"id\":\"file-9\",\"ascending\":true}]}");
    ask_expecting(GET("/v1/things?limit=0"), 400, "");
    assert_string_equal(answer_field(&answer, "error", "param"), "limit");
    ask_expecting(GET("/v1/things?limit=101"), 400, "");
    ask_expecting(GET("/v1/things?limit=99999999999999999999"), 400, "");
    ask_expecting(GET("/v1/things?limit=-1"), 400, "");
    ask_expecting(GET("/v1/things?limit=1x"), 400, "");
    ask_expecting(GET("/v1/things?after=..%2Fx"), 400, "");
    ask_expecting(GET("/v1/things?order=up"), 400, "");
    client_ask(&rig, GET("/v1/things?after=&limit=2"), &answer);
    assert_int_equal(answer.status, 200);
}

static void an_empty_page_has_null_ids(void **context)
{
    json_t *page = http_page_json(json_array(), false);

    (void)context;
    assert_true(json_is_null(json_object_get(page, "first_id")) && json_is_null(json_object_get(page, "last_id")));
    assert_true(json_is_false(json_object_get(page, "has_more")));
    json_decref(page);
}

static void retries_are_known_by_their_headers(void **context)
{
    char header[400];

    (void)context;
    post(JSON "Idempotency-Key: a-b_c:1\r\nX-Stainless-Retry-Count: 2\r\n", "{}", 200, "\"retry_key\":\"a-b_c:1\",\"retry_count\":2");
    post(JSON "X-Stainless-Retry-Count: 2x\r\n", "{}", 200, "\"retry_count\":0");
    post(JSON "X-Stainless-Retry-Count: 99999\r\n", "{}", 200, "\"retry_count\":0");
    post(JSON "Idempotency-Key: a b\r\n", "{}", 400, "Idempotency-Key");
    post(JSON "Idempotency-Key: \xc3\xa9\r\n", "{}", 400, "Idempotency-Key");
    post(JSON "Idempotency-Key: \r\n", "{}", 400, "Idempotency-Key");
    post(JSON "Idempotency-Key: a\r\nIdempotency-Key: b\r\n", "{}", 400, "twice");
    memset(header, 'k', sizeof(header));
    memcpy(header, JSON "Idempotency-Key: ", strlen(JSON) + 17);
    strcpy(header + strlen(JSON) + 17 + 255, "\r\n");
    post(header, "{}", 200, NULL);
    header[strlen(JSON) + 17 + 255] = 'k';
    strcpy(header + strlen(JSON) + 17 + 256, "\r\n");
    post(header, "{}", 400, "255");
}

static void a_request_can_be_answered_later_by_any_thread(void **context)
{
    int fd = client_connect(&rig);
    struct http_request *request;

    (void)context;
    client_say(fd, GET("/v1/later") GET("/v1/ping"));
    request = rig_take(&rig);
    http_retry_after(request, 1500);
    http_add_header(request, "x-should-retry", "false");
    http_answer_error(request, 429, "rate_limit_exceeded", "model", "too many");
    client_read(fd, &answer);
    assert_int_equal(answer.status, 429);
    assert_non_null(strstr(answer.head, "\r\nretry-after: 2\r\nretry-after-ms: 1500\r\nx-should-retry: false\r\n"));
    assert_string_equal(answer_field(&answer, "error", "type"), "rate_limit_error");
    assert_string_equal(answer_field(&answer, "error", "param"), "model");
    client_read(fd, &answer);
    assert_int_equal(answer.status, 200);
    close(fd);
}

static void an_error_text_that_is_no_text_does_no_harm(void **context)
{
    int fd = client_connect(&rig);

    (void)context;
    client_say(fd, GET("/v1/later"));
    http_answer_error(rig_take(&rig), 400, NULL, NULL, "a name: %s", "\xff\xfe");
    client_read(fd, &answer);
    assert_int_equal(answer.status, 400);
    assert_string_equal(answer_field(&answer, "error", "type"), "invalid_request_error");
    close(fd);
}

static void the_log_has_ids_and_counts_and_nothing_of_the_request(void **context)
{
    (void)context;
    post(JSON "X-Secret: planted-header\r\nUser-Agent: planted-agent\r\n", "{\"planted-body\": 1}", 200, NULL);
    client_ask(&rig, GET("/v1/things/planted-id?planted=query"), &answer);
    client_ask(&rig, GET("/v1/planted-path"), &answer);
    http_stop(rig.server, 1000); /* every line is written when a connection has ended */
    assert_non_null(strstr(rig.log, "\"method\":\"POST\",\"route\":\"/v1/jobs\",\"status\":200,\"ms\":"));
    assert_non_null(strstr(rig.log, "\"received_bytes\":19,\"sent_bytes\":"));
    assert_non_null(strstr(rig.log, "\"key\":\"key_test\"}\n"));
    assert_non_null(strstr(rig.log, "\"route\":\"/v1/things/{id}\""));
    assert_non_null(strstr(rig.log, "\"route\":\"none\",\"status\":404"));
    assert_null(strstr(rig.log, "planted"));
    assert_null(strstr(rig.log, "sk-test"));
    for (char *line = rig.log; *line != '\0'; line = strchr(line, '\n') + 1) {
        json_t *object = json_loadb(line, (size_t)(strchr(line, '\n') - line), JSON_REJECT_DUPLICATES, NULL);

        assert_int_equal(json_object_size(object), 9);
        json_decref(object);
    }
}

static void metrics_count_by_route_and_class(void **context)
{
    (void)context;
    for (int i = 0; i < 3; i++)
        client_ask(&rig, GET("/v1/things/a"), &answer);
    client_ask(&rig, GET("/v1/things/%2e%2e"), &answer);
    client_ask(&rig, GET("/v1/nothing"), &answer);
    post(JSON, "{\"a\": 1}", 200, NULL);
    http_stop(rig.server, 1000);
    assert_true(rig_metric(&rig, "berth_http_requests_total{method=\"GET\",route=\"/v1/things/{id}\",status=\"2xx\"}") == 3);
    assert_true(rig_metric(&rig, "berth_http_requests_total{method=\"GET\",route=\"/v1/things/{id}\",status=\"4xx\"}") == 1);
    assert_true(rig_metric(&rig, "berth_http_requests_total{method=\"other\",route=\"none\",status=\"4xx\"}") == 1);
    assert_true(rig_metric(&rig, "berth_http_request_seconds_count{method=\"GET\",route=\"/v1/things/{id}\"}") == 4);
    assert_true(rig_metric(&rig, "berth_http_request_seconds_bucket{method=\"GET\",route=\"/v1/things/{id}\",le=\"+Inf\"}") == 4);
    assert_true(rig_metric(&rig, "berth_http_received_bytes_total") == 8);
    assert_true(rig_metric(&rig, "berth_http_sent_bytes_total") > 100);
    assert_true(rig_metric(&rig, "berth_http_connections_open") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_is_json_with_a_request_id, begin, end),
        cmocka_unit_test_setup_teardown(a_connection_is_kept_and_requests_may_be_sent_ahead, begin, end),
        cmocka_unit_test_setup_teardown(what_is_not_there_is_404_and_what_is_not_done_405, begin, end),
        cmocka_unit_test_setup_teardown(head_is_get_without_a_body, begin, end),
        cmocka_unit_test_setup_teardown(ids_are_decoded_once_after_the_path_was_split, begin, end),
        cmocka_unit_test_setup_teardown(broken_targets_are_400, begin, end),
        cmocka_unit_test_setup_teardown(queries_are_decoded_and_kept_in_order, begin, end),
        cmocka_unit_test_setup_teardown(keys_are_read_from_bearer_only, begin, end),
        cmocka_unit_test_setup_teardown(bodies_are_json_objects_and_faults_quote_nothing, begin, end),
        cmocka_unit_test_setup_teardown(chunked_bodies_are_joined, begin, end),
        cmocka_unit_test_setup_teardown(chunked_bodies_that_are_too_long_are_413, begin, end),
        cmocka_unit_test_setup_teardown(a_client_that_asks_whether_to_send_hears_yes_or_why_not, begin, end),
        cmocka_unit_test_setup_teardown(a_strangers_body_is_not_asked_for, begin, end),
        cmocka_unit_test_setup_teardown(no_body_is_fine_where_none_is_needed, begin, end),
        cmocka_unit_test_setup_teardown(pages_have_bounds_and_ids_at_their_ends, begin, end),
        cmocka_unit_test(an_empty_page_has_null_ids),
        cmocka_unit_test_setup_teardown(retries_are_known_by_their_headers, begin, end),
        cmocka_unit_test_setup_teardown(a_request_can_be_answered_later_by_any_thread, begin, end),
        cmocka_unit_test_setup_teardown(an_error_text_that_is_no_text_does_no_harm, begin, end),
        cmocka_unit_test_setup_teardown(the_log_has_ids_and_counts_and_nothing_of_the_request, begin, end),
        cmocka_unit_test_setup_teardown(metrics_count_by_route_and_class, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
