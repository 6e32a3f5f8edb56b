/* What a tenant used, what it may take in a minute, and files whose time is over. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "control/metadata/file.h"
#include "control/metadata/job.h"
#include "control/metadata/model.h"
#include "control/metadata/tenant.h"
#include "control/metadata/usage.h"
#include "rig.h"

#define NOW INT64_C(1700000000000)
#define HOUR (NOW / 3600000)

static struct rig rig;
static struct answer answer;
static char file[64];

static void fill(const struct rig *of, struct metadata *metadata)
{
    const struct meta_worker_new worker = {"worker-a", "server", "{}"};
    const struct meta_usage records[] = {{3, of->acme, "tiny", HOUR, 10, 5}, {4, of->acme, "tiny", HOUR, 1, 2}, {7, of->other, "tiny", HOUR, 100, 50},
                                         {8, of->acme, "tiny", HOUR + 1, 7, 7}};
    const struct meta_job_new job = {.tenant = of->acme, .id = "ftjob-1", .base = "tiny", .file = "file-1", .settings = "{}"};
    const struct meta_job_move failed = {.tenant = of->acme, .id = "ftjob-1", .from = META_JOB_VALIDATING, .to = META_JOB_FAILED,
                                         .target = META_JOB_NO_TARGET, .crash_step = META_NONE, .gpu_ms = 1500};
    struct refusal refusal = {{0}};
    int64_t acked;

    assert_int_equal(meta_base_add(metadata, "tiny", "d", "/m", NOW, &refusal), STATUS_OK);
    assert_int_equal(meta_object_add(metadata, of->acme, "obj-1", "file", "obj-1", &refusal), STATUS_OK);
    assert_int_equal(meta_object_written(metadata, of->acme, "obj-1", 1, "d", &refusal), STATUS_OK);
    assert_int_equal(meta_file_add(metadata, of->acme, "file-1", "obj-1", "fine-tune", (struct meta_bytes){NULL, 0}, META_NONE, NOW, &refusal), STATUS_OK);
    assert_int_equal(meta_job_add(metadata, &job, NOW, &refusal), STATUS_OK);
    assert_int_equal(meta_job_move(metadata, &failed, NOW, NULL, &refusal), STATUS_OK);
    assert_int_equal(meta_worker_add(metadata, &worker, NOW, &refusal), STATUS_OK);
    assert_int_equal(meta_usage_add(metadata, "worker-a", records, ARRAY_COUNT(records), &acked, &refusal), STATUS_OK);
}

static int begin(void **context)
{
    (void)context;
    rig_begin(&rig);
    rig_fill(&rig, fill);
    rig_start(&rig);
    return 0;
}

static int end(void **context)
{
    (void)context;
    answer_clear(&answer);
    assert_int_equal(rig_stop(&rig), 0);
    rig_end(&rig);
    return 0;
}

static long long number(uint32_t row, const char *name)
{
    return json_integer_value(json_object_get(json_array_get(json_object_get(answer.json, "data"), row), name));
}

static void ask_usage(const char *key, int64_t from_s, int64_t until_s)
{
    char line[128];

    snprintf(line, sizeof(line), "GET /v1/usage?start_time=%lld&end_time=%lld", (long long)from_s, (long long)until_s);
    client_ask(&rig, key, line, "", &answer);
}

static void tokens_and_device_time_are_summed_by_model_and_hour(void **context)
{
    (void)context;
    ask_usage(rig.key, HOUR * 3600, (HOUR + 2) * 3600);
    assert_int_equal(answer.status, 200);
    assert_int_equal(json_array_size(json_object_get(answer.json, "data")), 2);
    assert_int_equal(number(0, "start_time"), HOUR * 3600);
    assert_int_equal(number(0, "requests"), 2);
    assert_int_equal(number(0, "prompt_tokens"), 11);
    assert_int_equal(number(0, "completion_tokens"), 7);
    assert_int_equal(number(0, "trainings"), 1);
    assert_float_equal(json_real_value(json_object_get(json_array_get(json_object_get(answer.json, "data"), 0), "gpu_seconds")), 1.5, 1e-9);
    assert_int_equal(number(1, "trainings"), 0);
    assert_int_equal(number(1, "prompt_tokens"), 7);
    ask_usage(rig.other_key, HOUR * 3600, (HOUR + 2) * 3600);
    assert_int_equal(json_array_size(json_object_get(answer.json, "data")), 1);
    assert_int_equal(number(0, "prompt_tokens"), 100);
    client_ask(&rig, rig.key, "GET /v1/usage", "", &answer); /* the last day */
    assert_int_equal(json_array_size(json_object_get(answer.json, "data")), 0);
    client_ask(&rig, rig.key, "GET /v1/usage?start_time=yesterday", "", &answer);
    assert_int_equal(answer.status, 400);
}

static void limit(const struct rig *of, struct metadata *metadata)
{
    struct refusal refusal = {{0}};

    assert_int_equal(meta_tenant_set(metadata, of->acme, "requests_per_min_max", "3", &refusal), STATUS_OK);
}

static void requests_beyond_a_minutes_worth_are_told_when_to_come_again(void **context)
{
    unsigned fine = 0;

    (void)context;
    assert_int_equal(rig_stop(&rig), 0);
    rig_fill(&rig, limit);
    rig_start(&rig);
    for (int i = 0; i < 4; i++) {
        client_ask(&rig, rig.key, "GET /v1/models", "", &answer);
        fine += answer.status == 200;
    }
    assert_int_equal(fine, 3);
    assert_int_equal(answer.status, 429);
    assert_string_equal(answer_error(&answer, "code"), "rate_limit_exceeded");
    assert_non_null(strstr(answer.text, "retry-after-ms: "));
    assert_non_null(strstr(answer.text, "x-ratelimit-limit-requests: 3"));
    assert_non_null(strstr(answer.text, "x-ratelimit-remaining-requests: 0"));
    client_ask(&rig, rig.other_key, "GET /v1/models", "", &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.text, "openai-organization: other"));
}

/* A body as clients have it, with expires_after. */
static void upload(const char *seconds)
{
    char body[1024];
    char head[512];
    int fd;

    snprintf(body, sizeof(body),
             "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune\r\n"
             "--b\r\nContent-Disposition: form-data; name=\"expires_after[anchor]\"\r\n\r\ncreated_at\r\n"
             "--b\r\nContent-Disposition: form-data; name=\"expires_after[seconds]\"\r\n\r\n%s\r\n"
             "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n{}\r\n--b--\r\n", seconds);
    snprintf(head, sizeof(head),
             "POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: multipart/form-data; boundary=b\r\n"
             "Content-Length: %zu\r\nConnection: close\r\n\r\n", rig.key, strlen(body));
    fd = client_connect(&rig);
    client_send(fd, head, strlen(head));
    client_send(fd, body, strlen(body));
    answer_clear(&answer);
    client_read(fd, &answer);
}

static void expire(const struct rig *of, struct metadata *metadata)
{
    struct meta_results results = {0};
    struct meta_file row;
    struct meta_file *rows;
    struct refusal refusal = {{0}};
    uint32_t count = 0;

    assert_int_equal(meta_file_get(metadata, of->acme, file, &results, &row, &refusal), STATUS_OK);
    assert_true(row.expires_at_ms > row.created_at_ms);
    assert_int_equal(meta_file_expired(metadata, row.expires_at_ms - 1, 10, &results, &rows, &count, &refusal), STATUS_OK);
    assert_int_equal(count, 0);
    assert_int_equal(meta_file_expired(metadata, row.expires_at_ms, 10, &results, &rows, &count, &refusal), STATUS_OK);
    assert_int_equal(count, 1);
    meta_results_free(&results);
}

static void files_may_have_a_time_to_live(void **context)
{
    json_int_t created;

    (void)context;
    upload("60");
    assert_int_equal(answer.status, 400);
    assert_string_equal(answer_error(&answer, "param"), "expires_after");
    upload("soon");
    assert_int_equal(answer.status, 400);
    upload("3600");
    assert_int_equal(answer.status, 200);
    created = json_integer_value(json_object_get(answer.json, "created_at"));
    assert_int_equal(json_integer_value(json_object_get(answer.json, "expires_at")), created + 3600);
    snprintf(file, sizeof(file), "%s", answer_text(&answer, "id"));
    assert_int_equal(rig_stop(&rig), 0);
    rig_fill(&rig, expire);
    rig_start(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tokens_and_device_time_are_summed_by_model_and_hour, begin, end),
        cmocka_unit_test_setup_teardown(requests_beyond_a_minutes_worth_are_told_when_to_come_again, begin, end),
        cmocka_unit_test_setup_teardown(files_may_have_a_time_to_live, begin, end),
    };

    return cmocka_run_group_tests_name("api/usage", tests, NULL, NULL);
}
