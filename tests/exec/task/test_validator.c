/* The validator's worker: what it says of a sealed file is what berth-exec validate says of the same bytes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/processes.h"
#include "rig.h"

#define LINE(prompt, answer) "{\"messages\": [{\"role\": \"user\", \"content\": \"" prompt "\"}, {\"role\": \"assistant\", \"content\": \"" answer "\"}]}\n"
#define PAIR "{\"prompt\": \"One\", \"chosen\": \" two\", \"rejected\": \" %d\"}\n"

static struct scratch scratch;

static int make_files(void **state)
{
    static const char config[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"chat_template\": \"{% for m in messages %}[{{ m.role }}]{{ m.content }}"
                                 "{{ eos_token if m.role == 'assistant' }}{% endfor %}{{ '[assistant]' if add_generation_prompt }}\"}";
    const struct model_config model = tiny_config(FAMILY_LLAMA);
    char text[8192] = "";

    (void)state;
    scratch_begin(&scratch);
    for (int i = 0; i < 12; i++)
        sprintf(text + strlen(text), LINE("Say %d", "It is %d"), i, i);
    scratch_text(&scratch, "good.jsonl", text);
    strcat(text, "{]\n");
    strcat(text, LINE("Say 3", "It is 3") "{\"messages\": []}\n");
    scratch_text(&scratch, "bad.jsonl", text);
    scratch_text(&scratch, "held.jsonl", LINE("Say 3", "It is 3") LINE("Say 4", "Four"));
    scratch_text(&scratch, "empty.jsonl", "");
    text[0] = '\0';
    for (int i = 0; i < 12; i++)
        sprintf(text + strlen(text), PAIR, i);
    scratch_text(&scratch, "pairs.jsonl", text);
    text[0] = '\0';
    for (int i = 0; i < 12; i++)
        sprintf(text + strlen(text), "{\"prompt\": \"One %d\", \"completion\": \" two\"}\n", i);
    scratch_text(&scratch, "texts.jsonl", text);
    strcat(text, LINE("Say 3", "It is 3"));
    scratch_text(&scratch, "mixed.jsonl", text);
    tiny_model(scratch_folder(&scratch, "plain"), &model, 1, DTYPE_F32);
    tiny_model(scratch_folder(&scratch, "model"), &model, 1, DTYPE_F32);
    scratch_text(&scratch, "model/tokenizer_config.json", config);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    scratch_end(&scratch);
    return 0;
}

static struct object sealed_file(const char *id, const char *name)
{
    struct refusal refusal;
    struct object object;
    void *data;
    int64_t bytes;

    if (file_read(AT_FDCWD, scratch_at(&scratch, name), name, 1 << 24, &data, &bytes, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    object = object_of(id, "file", data, (size_t)bytes);
    free(data);
    return object;
}

/* What the command prints, without the line's end. */
static char *printed(const char *name, const char *held, const char *method, bool with_model)
{
    char paths[3][600];
    const char *arguments[16] = {berth_exec(), "validate", paths[0], "--json", "--method", method};
    struct process process;
    char *text = calloc(1, 1 << 16);
    int count = 6;
    size_t at = 0;
    ssize_t more;
    int status;

    snprintf(paths[0], sizeof(paths[0]), "%s", scratch_at(&scratch, name));
    snprintf(paths[1], sizeof(paths[1]), "%s", scratch_at(&scratch, held != NULL ? held : name));
    snprintf(paths[2], sizeof(paths[2]), "%s", scratch_at(&scratch, "model"));
    if (held != NULL) {
        arguments[count++] = "--validation";
        arguments[count++] = paths[1];
    }
    if (with_model) {
        arguments[count++] = "--model";
        arguments[count++] = paths[2];
    }
    process = process_begin(arguments);
    while ((more = read(process.out, text + at, (1 << 16) - 1 - at)) > 0)
        at += (size_t)more;
    close(process.out);
    assert_int_equal(waitpid(process.id, &status, 0), process.id);
    assert_true(at > 0 && text[at - 1] == '\n');
    text[at - 1] = '\0';
    return text;
}

/* Returns the metrics of the RESULT; its report is `wanted`, unless that is NULL. `model`: NULL: none. */
static json_t *judge(const char *name, const char *held, const char *said_method, const char *model, const char *wanted)
{
    const struct object objects[3] = {sealed_file("file-1", name), object_new("report-1"), sealed_file("file-2", held != NULL ? held : name)};
    const struct object *const all[] = {&objects[0], &objects[1], &objects[2]};
    char settings[1024];
    struct control *control;
    const struct said *result;
    char *report;
    size_t count;
    uint8_t digest[32];
    json_t *metrics;

    snprintf(settings, sizeof(settings),
             "{\"task\": \"validate\", \"method\": \"%s\", \"tenant\": \"" TENANT "\", \"base\": %s, \"context\": 0, \"epochs\": 0, \"batch\": 0, "
             "\"examples_min\": 10, \"train\": {\"fd\": 0, \"grant\": 0, \"object\": \"file-1\"}, \"validation\": %s, "
             "\"report\": {\"fd\": 1, \"grant\": 1, \"object\": \"report-1\"}}",
             said_method, model != NULL ? "{\"fd\": 3}" : "null", held != NULL ? "{\"fd\": 2, \"grant\": 2, \"object\": \"file-2\"}" : "null");
    control = control_begin(TASK_VALIDATE, settings, all, 3, model != NULL ? scratch_at(&scratch, model) : NULL);
    result = control_await(control, WIRE_RESULT);
    if (result == NULL)
        fail_msg("%s: no RESULT", name);
    assert_int_equal(result->body.result.grant, 1);
    assert_int_equal(result->body.result.bytes, object_size(&objects[1]));
    object_digest(&objects[1], digest);
    assert_memory_equal(digest, result->body.result.digest, 32);
    report = object_text(&objects[1], "report", &count);
    if (wanted != NULL)
        assert_string_equal(report, wanted);
    metrics = json_loads(result->metrics, 0, NULL);
    assert_non_null(metrics);
    assert_int_equal(control_wait(control), 0);
    control_end(control);
    free(report);
    for (int i = 0; i < 3; i++)
        close(objects[i].file);
    return metrics;
}

/* The worker's report is the command's, its RESULT tells it apart. */
static json_t *agree(const char *name, const char *held, const char *said_method, const char *method, bool with_model)
{
    char *wanted = printed(name, held, method, with_model);
    json_t *metrics = judge(name, held, said_method, with_model ? "model" : NULL, wanted);

    free(wanted);
    return metrics;
}

static json_int_t number(const json_t *metrics, const char *name)
{
    return json_integer_value(json_object_get(metrics, name));
}

static void a_good_file_is_accepted_with_its_tokens(void **state)
{
    json_t *metrics = agree("good.jsonl", NULL, "supervised", "supervised", true);

    (void)state;
    assert_true(json_is_true(json_object_get(metrics, "accepted")));
    assert_true(json_is_null(json_object_get(metrics, "code")));
    assert_int_equal(number(metrics, "examples"), 12);
    assert_int_equal(number(metrics, "errors"), 0);
    assert_true(number(metrics, "tokens") > 12 && number(metrics, "epochs") == 9 && number(metrics, "batch") == 1 && number(metrics, "steps") == 108);
    json_decref(metrics);
}

static void the_program_itself_does_the_same(void **state)
{
    (void)state;
    control_program = berth_exec();
    json_decref(agree("bad.jsonl", "held.jsonl", "supervised", "supervised", true));
    control_program = NULL;
}

static void faults_are_in_the_report_and_their_counts_in_the_clear(void **state)
{
    json_t *metrics = agree("bad.jsonl", "held.jsonl", "supervised", "supervised", true);

    (void)state;
    assert_true(json_is_false(json_object_get(metrics, "accepted")));
    assert_string_equal(json_string_value(json_object_get(metrics, "code")), "bad_json");
    assert_int_equal(number(metrics, "errors"), 2);
    assert_true(number(metrics, "warnings") > 0);
    json_decref(metrics);
    metrics = agree("empty.jsonl", NULL, "auto", "supervised", false);
    assert_string_equal(json_string_value(json_object_get(metrics, "code")), "file_empty");
    json_decref(metrics);
}

static void a_method_is_told_by_the_first_line(void **state)
{
    json_t *metrics = agree("pairs.jsonl", NULL, "auto", "dpo", false);

    (void)state;
    assert_true(json_is_true(json_object_get(metrics, "accepted")));
    assert_string_equal(json_string_value(json_object_get(metrics, "method")), "dpo");
    json_decref(metrics);
    metrics = agree("good.jsonl", NULL, "auto", "supervised", false);
    assert_string_equal(json_string_value(json_object_get(metrics, "method")), "supervised");
    json_decref(metrics);
}

/* An upload is read without a base; which one it is for, and whether that one knows chats, comes with the job. */
static void texts_pass_without_a_base_and_with_one_that_knows_no_chats(void **state)
{
    static const struct {
        const char *name, *method, *model;
        const char *code; /* NULL: accepted */
    } cases[] = {
        {"texts.jsonl", "auto", NULL, NULL},           {"texts.jsonl", "supervised", "plain", NULL}, {"texts.jsonl", "supervised", "model", "legacy_format"},
        {"pairs.jsonl", "auto", NULL, NULL},           {"pairs.jsonl", "dpo", "plain", NULL},        {"mixed.jsonl", "auto", NULL, "mixed_format"},
        {"good.jsonl", "supervised", "plain", "no_chat_template"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        json_t *metrics = judge(cases[i].name, NULL, cases[i].method, cases[i].model, NULL);
        const char *code = json_string_value(json_object_get(metrics, "code"));

        if (json_is_true(json_object_get(metrics, "accepted")) != (cases[i].code == NULL) || strcmp(code != NULL ? code : "", cases[i].code != NULL ? cases[i].code : "") != 0)
            fail_msg("%s for %s: %s", cases[i].name, cases[i].model != NULL ? cases[i].model : "any base", code != NULL ? code : "accepted");
        json_decref(metrics);
    }
}

/* --- what does not go --------------------------------------------------------------------------------------------------------- */

static void fails(const struct object *file, const char *settings, enum fault fault, const char *words)
{
    const struct object report = object_new("report-1");
    const struct object *const all[] = {file, &report};
    struct control *control = control_begin(TASK_VALIDATE, settings, all, 2, NULL);
    const struct said *failed = control_await(control, WIRE_FAILED);
    char text[REFUSAL_MAX];

    if (failed == NULL)
        fail_msg("no FAILED");
    assert_int_equal(failed->body.failed.code, fault);
    assert_int_equal(fault_open(file->key, TENANT, file->id, failed->sealed, failed->sealed_count, text), STATUS_OK);
    if (strstr(text, words) == NULL)
        fail_msg("'%s' does not say '%s'", text, words);
    assert_int_equal(fault_open(report.key, TENANT, file->id, failed->sealed, failed->sealed_count, text), STATUS_CORRUPT);
    assert_int_equal(fault_open(file->key, "org-2", file->id, failed->sealed, failed->sealed_count, text), STATUS_CORRUPT);
    assert_int_equal(control_wait(control), 1);
    control_end(control);
    close(report.file);
}

#define SETTINGS(tenant, train)                                                                                                    \
    "{\"task\": \"validate\", \"method\": \"auto\", \"tenant\": \"" tenant "\", \"base\": null, \"train\": " train ", \"validation\": null, " \
    "\"report\": {\"fd\": 1, \"grant\": 1, \"object\": \"report-1\"}}"

static void what_does_not_open_is_a_fault_that_only_its_owner_reads(void **state)
{
    struct object file = sealed_file("file-1", "good.jsonl");

    (void)state;
    fails(&file, SETTINGS(TENANT, "{\"fd\": 5, \"grant\": 0}"), FAULT_SETTINGS, "names no grant");
    fails(&file, SETTINGS(TENANT, "null"), FAULT_SETTINGS, "no training file");
    assert_int_equal(pwrite(file.file, "?", 1, 300), 1);
    fails(&file, SETTINGS(TENANT, "{\"fd\": 0, \"grant\": 0}"), FAULT_OBJECT, "does not open");
    assert_int_equal(ftruncate(file.file, 200), 0);
    fails(&file, SETTINGS(TENANT, "{\"fd\": 0, \"grant\": 0}"), FAULT_OBJECT, "does not open");
    close(file.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_accepted_with_its_tokens),
        cmocka_unit_test(the_program_itself_does_the_same),
        cmocka_unit_test(faults_are_in_the_report_and_their_counts_in_the_clear),
        cmocka_unit_test(a_method_is_told_by_the_first_line),
        cmocka_unit_test(texts_pass_without_a_base_and_with_one_that_knows_no_chats),
        cmocka_unit_test(what_does_not_open_is_a_fault_that_only_its_owner_reads),
    };

    return cmocka_run_group_tests(tests, make_files, remove_files);
}
