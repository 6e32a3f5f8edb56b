/* Jobs over the API: what a request may say, how a job is shown, lists, retries, and that nobody sees another's. No driver runs here: jobs stay
 * where they were put, or are moved as rows while nothing runs. */
#include <stdio.h>
#include <stdlib.h>

#include "control/metadata/file.h"
#include "control/metadata/job.h"
#include "control/metadata/model.h"
#include "rig.h"

#define NOW 1700000000000
#define PATH "/v1/fine_tuning/jobs"

static struct rig rig;
static struct answer answer;
static char file[64];
static char first_job[64];

static void fill(const struct rig *of, struct metadata *metadata)
{
    struct refusal refusal = {{0}};

    (void)of;
    assert_int_equal(meta_base_add(metadata, "tiny", "d", "/models/tiny", NOW, &refusal), STATUS_OK);
}

static int begin(void **context)
{
    static const char line[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n";

    (void)context;
    rig_begin(&rig);
    rig_fill(&rig, fill);
    rig_start(&rig);
    client_upload(&rig, rig.key, "", "train.jsonl", line, sizeof(line) - 1, &answer);
    assert_int_equal(answer.status, 200);
    snprintf(file, sizeof(file), "%s", answer_text(&answer, "id"));
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

/* A body whose @ is the file's id. */
static void post(const char *key, const char *path, const char *more, const char *body)
{
    char text[8192];
    char request[10240];
    const char *at = strchr(body, '@');
    int fd;

    if (at != NULL)
        snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - body), body, file, at + 1);
    else
        snprintf(text, sizeof(text), "%s", body);
    snprintf(request, sizeof(request),
             "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%sConnection: "
             "close\r\n\r\n%s", path, key, strlen(text), more, text);
    fd = client_connect(&rig);
    client_send(fd, request, strlen(request));
    answer_clear(&answer);
    client_read(fd, &answer);
}

static void get(const char *key, const char *format, const char *id)
{
    char line[512];

    snprintf(line, sizeof(line), format, id);
    client_ask(&rig, key, line, "", &answer);
}

static const json_t *at(const char *name)
{
    return json_object_get(answer.json, name);
}

static void test_a_job_is_shown_whole(void **state)
{
    static const char *const nulls[] = {"finished_at", "fine_tuned_model", "error", "trained_tokens", "validation_file", "estimated_finish",
                                        "user_provided_suffix", "queue_position", "estimate"};

    (void)state;
    post(rig.key, PATH, "", "{\"model\": \"tiny\", \"training_file\": \"@\", \"metadata\": {\"team\": \"blue\"}}");
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer_text(&answer, "object"), "fine_tuning.job");
    assert_string_equal(answer_text(&answer, "status"), "validating_files");
    assert_string_equal(answer_text(&answer, "model"), "tiny");
    assert_string_equal(answer_text(&answer, "training_file"), file);
    assert_string_equal(answer_text(&answer, "organization_id"), rig.acme);
    assert_string_equal(json_string_value(json_object_get(at("metadata"), "team")), "blue");
    assert_string_equal(json_string_value(json_object_get(at("hyperparameters"), "n_epochs")), "auto");
    assert_string_equal(json_string_value(json_object_get(at("method"), "type")), "supervised");
    assert_true(json_equal(json_object_get(json_object_get(at("method"), "supervised"), "hyperparameters"), at("hyperparameters")));
    assert_true(json_is_false(at("dry_run")));
    assert_true(json_is_integer(at("seed")) && json_is_integer(at("created_at")));
    assert_int_equal(json_array_size(at("result_files")), 0);
    assert_int_equal(json_array_size(at("integrations")), 0);
    for (size_t i = 0; i < ARRAY_COUNT(nulls); i++)
        if (!json_is_null(at(nulls[i])))
            fail_msg("%s is there and not null", nulls[i]);
    snprintf(first_job, sizeof(first_job), "%s", answer_text(&answer, "id"));
    get(rig.key, "GET " PATH "/%s", first_job);
    assert_string_equal(answer_text(&answer, "id"), first_job);
}

static void test_what_was_asked_is_kept(void **state)
{
    (void)state;
    post(rig.key, PATH, "",
         "{\"base_model\": \"tiny\", \"training_file\": \"@\", \"suffix\": \"mine\", \"seed\": 7, \"dry_run\": true, \"method\": {\"type\": \"dpo\", \"dpo\": "
         "{\"hyperparameters\": {\"n_epochs\": 2, \"batch_size\": 4, \"learning_rate\": 0.001, \"beta\": 0.2, \"rank\": 8, \"early_stopping\": "
         "{\"enabled\": true, \"patience\": 2}}}}}");
    assert_int_equal(answer.status, 200);
    assert_int_equal(json_integer_value(at("seed")), 7);
    assert_true(json_is_true(at("dry_run")));
    assert_string_equal(answer_text(&answer, "user_provided_suffix"), "mine");
    assert_int_equal(json_integer_value(json_object_get(at("hyperparameters"), "n_epochs")), 2);
    assert_int_equal(json_integer_value(json_object_get(at("hyperparameters"), "batch_size")), 4);
    assert_int_equal(json_integer_value(json_object_get(at("hyperparameters"), "rank")), 8);
    assert_true(json_real_value(json_object_get(at("hyperparameters"), "beta")) == 0.2);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(at("hyperparameters"), "early_stopping"), "patience")), 2);
}

static void test_a_suffix_is_made_fit_for_a_name(void **state)
{
    (void)state;
    post(rig.key, PATH, "", "{\"model\": \"tiny\", \"training_file\": \"@\", \"suffix\": \"My  Model (v2)!\"}");
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer_text(&answer, "user_provided_suffix"), "my-model-v2");
}

static void test_what_is_not_known_or_out_of_range_is_refused_by_name(void **state)
{
    static const struct {
        const char *more;
        const char *param;
    } bad[] = {
        {"\"modell\": 1", "modell"},
        {"\"model\": \"foreign-7b\"", "model"},
        {"\"model\": \"ft:tiny:other::x\"", "model"},
        {"\"training_file\": \"file-none\"", "training_file"},
        {"\"validation_file\": \"file-none\"", "validation_file"},
        {"\"validation_file\": 3", "validation_file"},
        {"\"suffix\": \"?!\"", "suffix"},
        {"\"suffix\": 7", "suffix"},
        {"\"suffix\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"", "suffix"},
        {"\"seed\": -1", "seed"},
        {"\"seed\": 2147483648", "seed"},
        {"\"integrations\": [{\"type\": \"wandb\", \"wandb\": {\"project\": \"x\"}}]", "integrations"},
        {"\"method\": {\"type\": \"reinforcement\"}", "method"},
        {"\"method\": {\"supervised\": {}}", "method"},
        {"\"method\": {\"type\": \"supervised\", \"dpo\": {\"hyperparameters\": {}}}", "method"},
        {"\"hyperparameters\": {\"n_epochs\": 51}", "n_epochs"},
        {"\"hyperparameters\": {\"n_epochs\": 1.5}", "n_epochs"},
        {"\"hyperparameters\": {\"n_epochs\": 2, \"epochs\": 3}", "epochs"},
        {"\"hyperparameters\": {\"batch_size\": 0}", "batch_size"},
        {"\"hyperparameters\": {\"batch_size\": 257}", "batch_size"},
        {"\"hyperparameters\": {\"learning_rate_multiplier\": 0}", "learning_rate_multiplier"},
        {"\"hyperparameters\": {\"beta\": 0.1}", "beta"},
        {"\"hyperparameters\": {\"warmup\": 1}", "hyperparameters"},
        {"\"hyperparameters\": {\"early_stopping\": {\"patience\": 0}}", "early_stopping"},
        {"\"hyperparameters\": {\"n_epochs\": 2}, \"method\": {\"type\": \"supervised\", \"supervised\": {\"hyperparameters\": {\"n_epochs\": 3}}}",
         "hyperparameters"},
        {"\"metadata\": {\"k\": 1}", "metadata"},
        {"\"metadata\": []", "metadata"},
        {"\"dry_run\": 1", "dry_run"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        char body[1024];

        snprintf(body, sizeof(body), "{%s%s%s%s}", strstr(bad[i].more, "\"model\"") == NULL ? "\"model\": \"tiny\", " : "",
                 strstr(bad[i].more, "\"training_file\"") == NULL ? "\"training_file\": \"@\", " : "", bad[i].more, "");
        post(rig.key, PATH, "", body);
        if (answer.status != 400)
            fail_msg("%s: %u", bad[i].more, answer.status);
        if (bad[i].param != NULL)
            assert_string_equal(answer_error(&answer, "param"), bad[i].param);
    }
    post(rig.key, PATH, "", "{\"training_file\": \"@\"}");
    assert_int_equal(answer.status, 400);
    assert_string_equal(answer_error(&answer, "param"), "model");
}

/* Whoever has many keys must see which one is meant; one that is no name is not said again. */
static void test_a_key_that_is_not_known_is_named(void **state)
{
    char longest[81] = {0};
    char body[256];

    (void)state;
    post(rig.key, PATH, "", "{\"model\": \"tiny\", \"training_file\": \"@\", \"hyperparameters\": {\"warmup_ratio\": 1}}");
    assert_non_null(strstr(answer_error(&answer, "message"), "hyperparameters.warmup_ratio "));
    post(rig.key, PATH, "", "{\"model\": \"tiny\", \"training_file\": \"@\", \"n-epochs\": 1}");
    assert_non_null(strstr(answer_error(&answer, "message"), "n-epochs "));
    post(rig.key, PATH, "", "{\"model\": \"tiny\", \"training_file\": \"@\", \"na\u00efve\": 1}");
    assert_int_equal(answer.status, 400);
    assert_string_equal(answer_error(&answer, "param"), "");
    memset(longest, 'k', sizeof(longest) - 1);
    snprintf(body, sizeof(body), "{\"model\": \"tiny\", \"training_file\": \"@\", \"%s\": 1}", longest);
    post(rig.key, PATH, "", body);
    assert_int_equal(answer.status, 400);
    assert_string_equal(answer_error(&answer, "param"), "");
    assert_null(strstr(answer.body, longest));
}

static void test_a_request_that_comes_again_is_one_job(void **state)
{
    static const char body[] = "{\"model\": \"tiny\", \"training_file\": \"@\", \"suffix\": \"once\"}";
    char id[64];

    (void)state;
    post(rig.key, PATH, "Idempotency-Key: k1\r\n", body);
    assert_int_equal(answer.status, 200);
    snprintf(id, sizeof(id), "%s", answer_text(&answer, "id"));
    post(rig.key, PATH, "Idempotency-Key: k1\r\n", body);
    assert_string_equal(answer_text(&answer, "id"), id);
    post(rig.key, PATH, "Idempotency-Key: k1\r\n", "{\"model\": \"tiny\", \"training_file\": \"@\", \"suffix\": \"other\"}");
    assert_int_equal(answer.status, 409);
    assert_non_null(strstr(answer.text, "x-should-retry: false"));
    post(rig.key, PATH, "", "{\"model\": \"tiny\", \"training_file\": \"@\", \"suffix\": \"again\"}");
    snprintf(id, sizeof(id), "%s", answer_text(&answer, "id"));
    post(rig.key, PATH, "X-Stainless-Retry-Count: 1\r\n", "{\"model\": \"tiny\", \"training_file\": \"@\", \"suffix\": \"again\"}");
    assert_string_equal(answer_text(&answer, "id"), id);
    post(rig.key, PATH, "", "{\"model\": \"tiny\", \"training_file\": \"@\", \"suffix\": \"again\"}");
    assert_string_not_equal(answer_text(&answer, "id"), id);
}

static void test_lists_have_pages_and_filters(void **state)
{
    char after[64];
    size_t seen = 0;
    size_t all;

    (void)state;
    get(rig.key, "GET " PATH "%s", "");
    assert_int_equal(answer.status, 200);
    all = json_array_size(at("data"));
    assert_true(all >= 5);
    assert_true(json_is_false(at("has_more")));
    get(rig.key, "GET " PATH "%s", "?limit=2");
    while (true) {
        const json_t *data = at("data");
        const size_t count = json_array_size(data);

        seen += count;
        if (!json_is_true(at("has_more")))
            break;
        assert_int_equal(count, 2);
        snprintf(after, sizeof(after), "?limit=2&after=%s", json_string_value(json_object_get(json_array_get(data, count - 1), "id")));
        get(rig.key, "GET " PATH "%s", after);
    }
    assert_int_equal(seen, all);
    get(rig.key, "GET " PATH "%s", "?metadata%5Bteam%5D=blue");
    assert_int_equal(json_array_size(at("data")), 1);
    get(rig.key, "GET " PATH "%s", "?metadata%5Bteam%5D=red");
    assert_int_equal(json_array_size(at("data")), 0);
    get(rig.key, "GET " PATH "%s", "?metadata=");
    assert_int_equal(json_array_size(at("data")), all - 1);
}

static void test_events_tell_what_happened(void **state)
{
    char id[128];
    const json_t *event;

    (void)state;
    get(rig.key, "GET " PATH "/%s/events", first_job);
    assert_int_equal(answer.status, 200);
    assert_int_equal(json_array_size(at("data")), 1);
    event = json_array_get(at("data"), 0);
    assert_string_equal(json_string_value(json_object_get(event, "object")), "fine_tuning.job.event");
    assert_non_null(strstr(json_string_value(json_object_get(event, "message")), first_job));
    assert_true(json_is_false(at("has_more")));
    snprintf(id, sizeof(id), "GET " PATH "/%s/events?after=%s", first_job, json_string_value(json_object_get(event, "id")));
    client_ask(&rig, rig.key, id, "", &answer);
    assert_int_equal(json_array_size(at("data")), 0);
    get(rig.key, "GET " PATH "/%s/checkpoints", first_job);
    assert_int_equal(answer.status, 200);
    assert_int_equal(json_array_size(at("data")), 0);
}

static void test_pause_resume_cancel(void **state)
{
    char path[128];

    (void)state;
    snprintf(path, sizeof(path), PATH "/%s/pause", first_job);
    post(rig.key, path, "", "");
    assert_int_equal(answer.status, 200);
    snprintf(path, sizeof(path), PATH "/%s/resume", first_job);
    post(rig.key, path, "", "");
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer_text(&answer, "status"), "validating_files");
    snprintf(path, sizeof(path), PATH "/%s/cancel", first_job);
    post(rig.key, path, "", "");
    assert_string_equal(answer_text(&answer, "status"), "cancelled");
    assert_true(json_is_integer(at("finished_at")));
    post(rig.key, path, "", ""); /* again: it is so already */
    assert_int_equal(answer.status, 200);
    snprintf(path, sizeof(path), PATH "/%s/resume", first_job);
    post(rig.key, path, "", "");
    assert_int_equal(answer.status, 400);
    assert_string_equal(answer_error(&answer, "code"), "invalid_state");
    get(rig.key, "GET " PATH "/%s/events", first_job);
    assert_int_equal(json_array_size(at("data")), 4);
}

static void test_nobody_else_sees_a_job(void **state)
{
    static const char *const acts[] = {"", "/events", "/checkpoints"};
    static const char *const posts[] = {"/cancel", "/pause", "/resume"};
    char path[128];
    char other[1024];

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(acts); i++) {
        snprintf(path, sizeof(path), "GET " PATH "/%s%s", first_job, acts[i]);
        client_ask(&rig, rig.other_key, path, "", &answer);
        assert_int_equal(answer.status, 404);
        snprintf(other, sizeof(other), "%s", answer.body);
        snprintf(path, sizeof(path), "GET " PATH "/%s%s", "ftjob-none", acts[i]);
        client_ask(&rig, rig.other_key, path, "", &answer);
        assert_int_equal(answer.status, 404);
        assert_string_equal(answer.body, other);
    }
    for (size_t i = 0; i < ARRAY_COUNT(posts); i++) {
        snprintf(path, sizeof(path), PATH "/%s%s", first_job, posts[i]);
        post(rig.other_key, path, "", "");
        assert_int_equal(answer.status, 404);
    }
    post(rig.other_key, PATH, "", "{\"model\": \"tiny\", \"training_file\": \"@\"}");
    assert_int_equal(answer.status, 400);
    assert_string_equal(answer_error(&answer, "code"), "file_not_found");
    client_ask(&rig, rig.other_key, "GET " PATH, "", &answer);
    assert_int_equal(json_array_size(at("data")), 0);
}

static void finish(const struct rig *of, struct metadata *metadata)
{
    const struct meta_job_move fail = {.tenant = of->acme, .id = first_job, .from = META_JOB_VALIDATING, .to = META_JOB_FAILED,
                                       .target = META_JOB_NO_TARGET, .reason = "invalid_training_file", .crash_step = META_NONE};
    const struct meta_bytes none = {NULL, 0};
    struct refusal refusal = {{0}};

    assert_int_equal(meta_job_move(metadata, &fail, NOW, NULL, &refusal), STATUS_OK);
    assert_int_equal(meta_event_add(metadata, of->acme, first_job, "info", "metrics",
                                    "{\"step\":3,\"total_steps\":30,\"train_loss\":0.154,\"valid_loss\":0.27}", none, NOW, NULL, &refusal), STATUS_OK);
    assert_int_equal(meta_event_add(metadata, of->acme, first_job, "error", "invalid_training_file", NULL, none, NOW, NULL, &refusal), STATUS_OK);
}

static void test_a_failed_job_says_why_and_metrics_read_as_a_line(void **state)
{
    (void)state;
    post(rig.key, PATH, "", "{\"model\": \"tiny\", \"training_file\": \"@\", \"metadata\": {\"note\": \"PLANTEDSECRET\"}}");
    snprintf(first_job, sizeof(first_job), "%s", answer_text(&answer, "id"));
    assert_int_equal(rig_stop(&rig), 0);
    rig_fill(&rig, finish);
    assert_int_equal(rig_files_with(&rig, "PLANTEDSECRET"), 0);
    rig_start(&rig);
    get(rig.key, "GET " PATH "/%s", first_job);
    assert_string_equal(answer_text(&answer, "status"), "failed");
    assert_string_equal(json_string_value(json_object_get(at("error"), "code")), "invalid_training_file");
    assert_string_equal(json_string_value(json_object_get(at("error"), "param")), "training_file");
    assert_true(json_is_string(json_object_get(at("error"), "message")));
    assert_string_equal(json_string_value(json_object_get(at("metadata"), "note")), "PLANTEDSECRET");
    get(rig.key, "GET " PATH "/%s/events", first_job);
    assert_string_equal(json_string_value(json_object_get(json_array_get(at("data"), 1), "message")),
                        "Step 3/30: training loss=0.15, validation loss=0.27");
    assert_string_equal(json_string_value(json_object_get(json_array_get(at("data"), 1), "type")), "metrics");
}

/* By state, and nobody's: no id and no word of a tenant's. */
static void test_the_metrics_count_jobs(void **state)
{
    uint32_t validating = 0;
    char expected[64];

    (void)state;
    get(rig.key, "GET " PATH "%s", "?limit=100");
    for (size_t i = 0; i < json_array_size(at("data")); i++)
        validating += strcmp(json_string_value(json_object_get(json_array_get(at("data"), i), "status")), "validating_files") == 0;
    assert_true(validating > 0);
    snprintf(expected, sizeof(expected), "\nberth_jobs{state=\"validating\"} %u\n", validating);
    client_ask(&rig, "", "GET /metrics", "", &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body, expected));
    assert_non_null(strstr(answer.body, "\nberth_jobs{state=\"running\"} 0\n"));
    assert_non_null(strstr(answer.body, "\nberth_database_readable 1\n"));
    assert_null(strstr(answer.body, rig.acme));
    assert_null(strstr(answer.body, first_job));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_is_shown_whole),
        cmocka_unit_test(test_what_was_asked_is_kept),
        cmocka_unit_test(test_a_suffix_is_made_fit_for_a_name),
        cmocka_unit_test(test_what_is_not_known_or_out_of_range_is_refused_by_name),
        cmocka_unit_test(test_a_key_that_is_not_known_is_named),
        cmocka_unit_test(test_a_request_that_comes_again_is_one_job),
        cmocka_unit_test(test_lists_have_pages_and_filters),
        cmocka_unit_test(test_events_tell_what_happened),
        cmocka_unit_test(test_pause_resume_cancel),
        cmocka_unit_test(test_nobody_else_sees_a_job),
        cmocka_unit_test(test_a_failed_job_says_why_and_metrics_read_as_a_line),
        cmocka_unit_test(test_the_metrics_count_jobs),
    };

    return cmocka_run_group_tests_name("api/jobs", tests, begin, end);
}
