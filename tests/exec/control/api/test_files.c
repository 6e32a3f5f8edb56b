/* Files over the API: a file's life, two tenants, keys that are none, requests that come again, what breaks; and what is kept of it all. */
#define _DEFAULT_SOURCE /* usleep */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "control/api/api.h"
#include "rig.h"

static struct rig rig;
static struct answer answer;

static int begin(void **context)
{
    (void)context;
    rig_begin(&rig);
    return 0;
}

static int begin_and_start(void **context)
{
    (void)begin(context);
    rig_start(&rig);
    return 0;
}

static int end(void **context)
{
    (void)context;
    answer_clear(&answer);
    rig_end(&rig);
    return 0;
}

/* A path with an id; the text lives until the next call. */
static const char *at(const char *method, const char *id, const char *rest)
{
    static char line[512];

    snprintf(line, sizeof(line), "%s /v1/files/%s%s", method, id, rest);
    return line;
}

static void upload(const char *name, const char *content, char ret_id[NAME_BYTES])
{
    client_upload(&rig, rig.key, "", name, content, strlen(content), &answer);
    assert_int_equal(answer.status, 200);
    snprintf(ret_id, NAME_BYTES, "%s", answer_text(&answer, "id"));
}

static void a_file_lives(void **context)
{
    static uint8_t content[3 * 65536 + 17];
    char id[NAME_BYTES];

    (void)context;
    for (size_t i = 0; i < sizeof(content); i++)
        content[i] = (uint8_t)(i * 2654435761u >> 13);
    client_upload(&rig, rig.key, "", "tr%22a\xc3\xafn.jsonl", content, sizeof(content), &answer);
    assert_int_equal(answer.status, 200);
    snprintf(id, sizeof(id), "%s", answer_text(&answer, "id"));
    assert_memory_equal(id, "file-", 5);
    assert_string_equal(answer_text(&answer, "object"), "file");
    assert_string_equal(answer_text(&answer, "filename"), "tr\"a\xc3\xafn.jsonl");
    assert_string_equal(answer_text(&answer, "purpose"), "fine-tune");
    assert_string_equal(answer_text(&answer, "status"), "uploaded");
    assert_int_equal(json_integer_value(json_object_get(answer.json, "bytes")), sizeof(content));
    client_ask(&rig, rig.key, at("GET", id, ""), "", &answer);
    assert_string_equal(answer_text(&answer, "filename"), "tr\"a\xc3\xafn.jsonl");
    client_ask(&rig, rig.key, at("GET", id, "/content"), "", &answer);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body_bytes, sizeof(content));
    assert_memory_equal(answer.body, content, sizeof(content));
    client_ask(&rig, rig.key, at("DELETE", id, ""), "", &answer);
    assert_int_equal(answer.status, 200);
    assert_true(json_is_true(json_object_get(answer.json, "deleted")));
    assert_int_equal(rig_files_below(&rig, "store/objects"), 0);
    client_ask(&rig, rig.key, at("DELETE", id, ""), "", &answer);
    assert_int_equal(answer.status, 404);
    client_ask(&rig, rig.key, "GET /v1/files", "", &answer);
    assert_int_equal(json_array_size(json_object_get(answer.json, "data")), 0);
}

static void what_is_anothers_and_what_is_not_there_look_alike(void **context)
{
    static const char *const asked[][2] = {{"GET", ""}, {"GET", "/content"}, {"DELETE", ""}};
    char id[NAME_BYTES];

    (void)context;
    upload("a.jsonl", "acme's", id);
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++) {
        char body[512];

        client_ask(&rig, rig.other_key, at(asked[i][0], id, asked[i][1]), "", &answer);
        assert_int_equal(answer.status, 404);
        snprintf(body, sizeof(body), "%s", answer.body);
        client_ask(&rig, rig.other_key, at(asked[i][0], "file-aaaaaaaaaaaaaaaaaaaaaaaa", asked[i][1]), "", &answer);
        assert_int_equal(answer.status, 404);
        assert_string_equal(answer.body, body);
    }
    client_ask(&rig, rig.other_key, "GET /v1/files", "", &answer);
    assert_int_equal(json_array_size(json_object_get(answer.json, "data")), 0);
    client_ask(&rig, rig.key, at("GET", id, "/content"), "", &answer);
    assert_string_equal(answer.body, "acme's");
}

static void expect(const char *key, const char *line, unsigned status, const char *code)
{
    client_ask(&rig, key, line, "", &answer);
    if (answer.status != status || strcmp(answer_error(&answer, "code"), code) != 0)
        fail_msg("%s: %u %s", line, answer.status, answer.body);
}

static void keys_that_are_none_open_nothing(void **context)
{
    char inference[META_KEY_TEXT_BYTES], auditor[META_KEY_TEXT_BYTES], expired[META_KEY_TEXT_BYTES], revoked[META_KEY_TEXT_BYTES];
    char changed[META_KEY_TEXT_BYTES];

    (void)context;
    rig_key(&rig, rig.acme, "inference", META_NONE, inference);
    rig_key(&rig, NULL, "auditor", META_NONE, auditor);
    rig_key(&rig, rig.acme, "admin", 1700000000001, expired);
    rig_key(&rig, rig.acme, "admin", META_NONE, revoked);
    rig_revoke(&rig, revoked);
    rig_start(&rig);
    memcpy(changed, rig.key, sizeof(changed));
    changed[strlen(changed) - 5] = changed[strlen(changed) - 5] == 'A' ? 'B' : 'A';
    expect("x", "GET /v1/files", 401, "invalid_api_key");
    expect(changed, "GET /v1/files", 401, "invalid_api_key");
    expect("sk-berth-aaaaaaaaaaaaaaaaaaaaaaaa-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "GET /v1/models", 401, "invalid_api_key");
    expect(expired, "GET /v1/files", 401, "invalid_api_key");
    expect(revoked, "GET /v1/files", 401, "invalid_api_key");
    expect(inference, "GET /v1/files", 403, "insufficient_permissions");
    expect(auditor, "GET /v1/models", 403, "insufficient_permissions");
    client_upload(&rig, changed, "", "a", "content", 7, &answer);
    assert_int_equal(answer.status, 401);
    client_upload(&rig, inference, "", "a", "content", 7, &answer);
    assert_int_equal(answer.status, 403);
    client_ask(&rig, inference, "GET /v1/models", "", &answer);
    assert_int_equal(answer.status, 200);
    assert_int_equal(rig_files_below(&rig, "store/objects"), 0);
    assert_int_equal(rig_files_with(&rig, rig.key), 0);
}

static void lists_go_on_where_they_ended(void **context)
{
    char ids[3][NAME_BYTES];
    char line[256];

    (void)context;
    for (int i = 0; i < 3; i++)
        upload("a.jsonl", "content", ids[i]);
    client_ask(&rig, rig.key, "GET /v1/files?limit=2", "", &answer);
    assert_string_equal(answer_text(&answer, "first_id"), ids[2]);
    assert_string_equal(answer_text(&answer, "last_id"), ids[1]);
    assert_true(json_is_true(json_object_get(answer.json, "has_more")));
    snprintf(line, sizeof(line), "GET /v1/files?limit=2&after=%s", ids[1]);
    client_ask(&rig, rig.key, line, "", &answer);
    assert_string_equal(answer_text(&answer, "first_id"), ids[0]);
    assert_false(json_is_true(json_object_get(answer.json, "has_more")));
    client_ask(&rig, rig.key, "GET /v1/files?order=asc&purpose=fine-tune", "", &answer);
    assert_string_equal(answer_text(&answer, "first_id"), ids[0]);
    assert_int_equal(json_array_size(json_object_get(answer.json, "data")), 3);
    client_ask(&rig, rig.key, "GET /v1/files?purpose=batch", "", &answer);
    assert_int_equal(json_array_size(json_object_get(answer.json, "data")), 0);
    expect(rig.key, "GET /v1/files?limit=10001", 400, "");
}

static void a_request_that_comes_again_makes_one_file(void **context)
{
    char first[NAME_BYTES];

    (void)context;
    client_upload(&rig, rig.key, "Idempotency-Key: k1\r\n", "a", "content", 7, &answer);
    snprintf(first, sizeof(first), "%s", answer_text(&answer, "id"));
    client_upload(&rig, rig.key, "Idempotency-Key: k1\r\n", "a", "content", 7, &answer);
    assert_string_equal(answer_text(&answer, "id"), first);
    client_upload(&rig, rig.key, "Idempotency-Key: k1\r\n", "a", "Content", 7, &answer);
    assert_int_equal(answer.status, 409);
    assert_non_null(strstr(answer.text, "x-should-retry: false"));
    client_upload(&rig, rig.other_key, "Idempotency-Key: k1\r\n", "a", "content", 7, &answer);
    assert_int_equal(answer.status, 200);
    assert_string_not_equal(answer_text(&answer, "id"), first);
    assert_int_equal(rig_files_below(&rig, "store/objects"), 2);
    /* Of a client that tries again by itself the body is known; without that word two are two. */
    client_upload(&rig, rig.key, "x-stainless-retry-count: 0\r\n", "b", "content", 7, &answer);
    snprintf(first, sizeof(first), "%s", answer_text(&answer, "id"));
    client_upload(&rig, rig.key, "x-stainless-retry-count: 1\r\n", "b", "content", 7, &answer);
    assert_string_equal(answer_text(&answer, "id"), first);
    client_upload(&rig, rig.key, "x-stainless-retry-count: 1\r\n", "c", "content", 7, &answer);
    assert_string_not_equal(answer_text(&answer, "id"), first);
    client_upload(&rig, rig.key, "", "b", "content", 7, &answer);
    assert_string_not_equal(answer_text(&answer, "id"), first);
    assert_int_equal(rig_files_below(&rig, "store/objects"), 5);
    client_ask(&rig, rig.key, at("DELETE", first, ""), "", &answer);
    client_upload(&rig, rig.key, "x-stainless-retry-count: 1\r\n", "b", "content", 7, &answer);
    assert_int_equal(answer.status, 200);
    assert_string_not_equal(answer_text(&answer, "id"), first);
}

static void post(const char *body, unsigned status, const char *param)
{
    char head[1024];
    const int fd = client_connect(&rig);

    snprintf(head, sizeof(head), "POST /v1/files HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Type: "
             "multipart/form-data; boundary=b\r\nContent-Length: %zu\r\n\r\n", rig.key, strlen(body));
    client_send(fd, head, strlen(head));
    client_send(fd, body, strlen(body));
    client_read(fd, &answer);
    if (answer.status != status || strcmp(answer_error(&answer, "param"), param) != 0)
        fail_msg("%s: %u %s", body, answer.status, answer.body);
}

#define PART(name) "--b\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n"
#define FILE_PART "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"

static void what_is_wrong_with_an_upload_is_told_and_nothing_stays(void **context)
{
    char line[512];

    (void)context;
    post(PART("purpose") "fine-tune\r\n--b--\r\n", 400, "file");
    post(PART("purpose") "fine-tune\r\n" PART("file") "x\r\n--b--\r\n", 400, "file");
    post(PART("purpose") "fine-tune\r\n" FILE_PART "\r\n--b--\r\n", 400, "file");
    post(FILE_PART "x\r\n--b--\r\n", 400, "purpose");
    post(FILE_PART "x\r\n" PART("purpose") "vision\r\n--b--\r\n", 400, "purpose");
    post(FILE_PART "x\r\n" PART("colour") "red\r\n--b--\r\n", 400, "");
    post(FILE_PART "x\r\n" PART("purpose") "fine-tune\r\n", 400, "");
    snprintf(line, sizeof(line), "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: %llu\r\n", 600ull << 20);
    client_ask(&rig, rig.key, "POST /v1/files", line, &answer);
    assert_int_equal(answer.status, 413);
    client_ask(&rig, rig.key, "GET /v1/files", "", &answer);
    assert_int_equal(json_array_size(json_object_get(answer.json, "data")), 0);
    for (int i = 0; i < 100 && rig_files_below(&rig, "store/objects") + rig_files_below(&rig, "store/writing") > 0; i++)
        usleep(50000);
    assert_int_equal(rig_files_below(&rig, "store/objects") + rig_files_below(&rig, "store/writing"), 0);
}

static void an_upload_that_is_cut_leaves_nothing(void **context)
{
    static char content[1 << 20];
    char head[1024];
    size_t bytes;
    char *body;
    int fd;

    (void)context;
    memset(content, 'x', sizeof(content));
    body = client_body("a", "fine-tune", content, sizeof(content), &bytes);
    fd = client_connect(&rig);
    snprintf(head, sizeof(head), "POST /v1/files HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Type: multipart/form-data; "
             "boundary=b\r\nContent-Length: %zu\r\n\r\n", rig.key, bytes);
    client_send(fd, head, strlen(head));
    client_send(fd, body, bytes - 100);
    free(body);
    for (int i = 0; i < 100 && rig_files_below(&rig, "store/writing") == 0; i++)
        usleep(50000);
    assert_int_equal(rig_files_below(&rig, "store/writing"), 1);
    close(fd);
    for (int i = 0; i < 100 && rig_files_below(&rig, "store/writing") > 0; i++)
        usleep(50000);
    assert_int_equal(rig_files_below(&rig, "store/writing"), 0);
    assert_int_equal(rig_files_below(&rig, "store/objects"), 0);
    client_ask(&rig, rig.key, "GET /v1/files", "", &answer);
    assert_int_equal(json_array_size(json_object_get(answer.json, "data")), 0);
}

static void nothing_of_a_tenants_words_is_kept_in_the_clear(void **context)
{
    char id[NAME_BYTES];

    (void)context;
    client_upload(&rig, rig.key, "Idempotency-Key: planted-key\r\n", "planted-name.jsonl", "a planted-content b", 19, &answer);
    assert_int_equal(answer.status, 200);
    snprintf(id, sizeof(id), "%s", answer_text(&answer, "id"));
    client_ask(&rig, rig.key, at("GET", id, "/content"), "", &answer);
    assert_string_equal(answer.body, "a planted-content b");
    client_ask(&rig, rig.key, "GET /v1/files", "", &answer);
    assert_true(rig_files_with(&rig, id) >= 2); /* the search finds what is there: the row, and the log of the vault */
    assert_int_equal(rig_files_with(&rig, "planted-"), 0);
    assert_int_equal(rig_files_with(&rig, rig.key), 0);
    client_ask(&rig, rig.key, at("DELETE", id, ""), "", &answer);
    assert_int_equal(rig_stop(&rig), 0);
    assert_int_equal(rig_files_with(&rig, "planted-"), 0);
}

static void it_tells_of_itself_and_ends_when_told(void **context)
{
    (void)context;
    client_ask(&rig, "", "GET /healthz", "", &answer);
    assert_int_equal(answer.status, 200);
    client_ask(&rig, "", "GET /readyz", "", &answer);
    assert_int_equal(answer.status, 200);
    client_ask(&rig, "", "GET /metrics", "", &answer);
    assert_non_null(strstr(answer.body, "\nberth_api_transfers 0\n"));
    assert_int_equal(rig_stop(&rig), 0);
}

static void await_transfers(int count)
{
    char line[64];

    snprintf(line, sizeof(line), "\nberth_api_transfers %d\n", count);
    for (int i = 0; i < 100; i++) {
        client_ask(&rig, "", "GET /metrics", "", &answer);
        if (strstr(answer.body, line) != NULL)
            return;
        usleep(50000);
    }
    fail_msg("never%s", line);
}

static void a_tenant_takes_no_more_than_its_share_of_places(void **context)
{
    int open[API_TENANT_TRANSFERS_MAX];
    char head[1024];

    (void)context;
    snprintf(head, sizeof(head), "POST /v1/files HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Type: multipart/form-data; "
             "boundary=b\r\nContent-Length: 1000\r\n\r\n" FILE_PART "x", rig.key);
    for (int i = 0; i < API_TENANT_TRANSFERS_MAX; i++) {
        open[i] = client_connect(&rig);
        client_send(open[i], head, strlen(head));
    }
    await_transfers(API_TENANT_TRANSFERS_MAX);
    client_upload(&rig, rig.key, "", "a", "content", 7, &answer);
    assert_int_equal(answer.status, 429);
    assert_non_null(strstr(answer.text, "retry-after-ms: "));
    client_upload(&rig, rig.other_key, "", "a", "content", 7, &answer);
    assert_int_equal(answer.status, 200);
    for (int i = 0; i < API_TENANT_TRANSFERS_MAX; i++)
        close(open[i]);
    await_transfers(0);
    client_upload(&rig, rig.key, "", "a", "content", 7, &answer);
    assert_int_equal(answer.status, 200);
    assert_int_equal(rig_files_below(&rig, "store/objects"), 2);
}

/* A download whose reader has stopped, and an upload whose sender has. */
static void a_stop_ends_what_hangs(void **context)
{
    static char content[8 << 20];
    char head[1024];
    char id[NAME_BYTES];
    int down, up;

    (void)context;
    client_upload(&rig, rig.key, "", "a", content, sizeof(content), &answer);
    snprintf(id, sizeof(id), "%s", answer_text(&answer, "id"));
    down = client_connect(&rig);
    snprintf(head, sizeof(head), "%s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n", at("GET", id, "/content"), rig.key);
    client_send(down, head, strlen(head));
    up = client_connect(&rig);
    snprintf(head, sizeof(head), "POST /v1/files HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Type: multipart/form-data; "
             "boundary=b\r\nContent-Length: 1000\r\n\r\n" FILE_PART "x", rig.key);
    client_send(up, head, strlen(head));
    usleep(200000);
    assert_int_equal(rig_stop(&rig), 0);
    close(down);
    close(up);
    assert_int_equal(rig_files_below(&rig, "store/objects"), 1);
    assert_int_equal(rig_files_below(&rig, "store/writing"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_lives, begin_and_start, end),
        cmocka_unit_test_setup_teardown(what_is_anothers_and_what_is_not_there_look_alike, begin_and_start, end),
        cmocka_unit_test_setup_teardown(keys_that_are_none_open_nothing, begin, end),
        cmocka_unit_test_setup_teardown(lists_go_on_where_they_ended, begin_and_start, end),
        cmocka_unit_test_setup_teardown(a_request_that_comes_again_makes_one_file, begin_and_start, end),
        cmocka_unit_test_setup_teardown(what_is_wrong_with_an_upload_is_told_and_nothing_stays, begin_and_start, end),
        cmocka_unit_test_setup_teardown(an_upload_that_is_cut_leaves_nothing, begin_and_start, end),
        cmocka_unit_test_setup_teardown(nothing_of_a_tenants_words_is_kept_in_the_clear, begin_and_start, end),
        cmocka_unit_test_setup_teardown(it_tells_of_itself_and_ends_when_told, begin_and_start, end),
        cmocka_unit_test_setup_teardown(a_tenant_takes_no_more_than_its_share_of_places, begin_and_start, end),
        cmocka_unit_test_setup_teardown(a_stop_ends_what_hangs, begin_and_start, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
