/* The files of ../shared/datasets/broken, each with a fault or several from the field, or none: what its manifest says of a file is what is
 * said here, no more and no less. And validator and trainer agree: what is accepted trains, what the trainer's reader refuses is rejected. */
#include "rig.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define FOLDER "datasets/broken/"
#define CONTEXT 4096 /* case 38 wants this much or less */

static const char *file_at(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "../shared/" FOLDER "%.200s", name);
    return path;
}

static void read_into(struct validator *validator, const char *path)
{
    FILE *file = fopen(path, "rb");
    char piece[4096];
    size_t count;

    assert_non_null(file);
    while ((count = fread(piece, 1, sizeof(piece), file)) > 0)
        if (!validator_put(validator, piece, count))
            break;
    fclose(file);
    validator_end(validator);
}

static json_t *manifest_open(void)
{
    const char *path = test_shared_path(FOLDER "manifest.json");
    json_t *manifest;

    if (path == NULL) {
        printf("skipped: there is no ../shared/" FOLDER "manifest.json\n");
        skip();
    }
    manifest = json_load_file(path, 0, NULL);
    assert_non_null(manifest);
    assert_true(json_array_size(json_object_get(manifest, "cases")) >= 40);
    return manifest;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

/* Where the manifest names a column or a path, that is held to, too. */
static bool is_wanted(const struct validate_issue *issue, const json_t *wanted)
{
    const json_int_t column = json_integer_value(json_object_get(wanted, "column"));

    return strcmp(validate_code_name(issue->code), text_of(wanted, "code")) == 0 && issue->line == json_integer_value(json_object_get(wanted, "line")) &&
           validate_code_rejects(issue->code) == (strcmp(text_of(wanted, "severity"), "error") == 0) && (column == 0 || issue->column == column) &&
           (text_of(wanted, "path")[0] == '\0' || strcmp(issue->path, text_of(wanted, "path")) == 0) && issue->message[0] != '\0' && issue->hint[0] != '\0';
}

static void hold_to(const json_t *wanted, const struct validator *validator)
{
    const json_t *list = json_object_get(wanted, "issues");
    const char *name = text_of(wanted, "file");
    size_t count;
    const struct validate_issue *issues = validator_issues(validator, &count);

    for (size_t i = 0; i < count; i++)
        if (i >= json_array_size(list) || !is_wanted(&issues[i], json_array_get(list, i)))
            fail_msg("%s: %d:%d %s %s: %s", name, issues[i].line, issues[i].column, validate_code_name(issues[i].code), issues[i].path, issues[i].message);
    if (count < json_array_size(list))
        fail_msg("%s: %s is not said", name, text_of(json_array_get(list, count), "message"));
    if (validator_accepts(validator) != json_is_true(json_object_get(wanted, "accept")))
        fail_msg("%s: accepted %d", name, (int)validator_accepts(validator));
}

static void rig_for(struct rig *rig, const json_t *wanted, bool model)
{
    *rig = rig_of(strcmp(text_of(wanted, "kind"), "dpo") == 0);
    if (model)
        rig_model(rig, rig_template, CONTEXT);
}

/* `model`: of a chat model with a context of 4,096. */
static void take_case(const json_t *wanted, bool model)
{
    const char *held_out = text_of(wanted, "validation_file");
    struct validator *validation = NULL;
    struct rig rig;

    rig_for(&rig, wanted, model);
    if (held_out[0] != '\0') {
        validation = validator_open(&rig.config, NULL);
        read_into(validation, file_at(held_out));
        assert_true(validator_accepts(validation));
    }
    rig.config.examples_min = VALIDATE_EXAMPLES_MIN;
    rig.validator = validator_open(&rig.config, validation);
    read_into(rig.validator, file_at(text_of(wanted, "file")));
    hold_to(wanted, rig.validator);
    rig_end(&rig);
    validator_close(validation);
}

static void each_file_is_judged_as_its_manifest_says(void **state)
{
    json_t *manifest = manifest_open();
    const json_t *wanted;
    size_t index;

    (void)state;
    json_array_foreach(json_object_get(manifest, "cases"), index, wanted) {
        take_case(wanted, true);
        /* Without a model nobody knows what fills a context. */
        if (strcmp(text_of(wanted, "file"), "38_prompt_fills_context.jsonl") != 0)
            take_case(wanted, false);
    }
    json_decref(manifest);
}

static void what_is_accepted_trains_and_what_is_refused_is_rejected(void **state)
{
    json_t *manifest = manifest_open();
    int accepted = 0, refused = 0;
    const json_t *wanted;
    size_t index;

    (void)state;
    json_array_foreach(json_object_get(manifest, "cases"), index, wanted) {
        const bool accept = json_is_true(json_object_get(wanted, "accept"));
        struct refusal refusal = {{0}};
        struct data_set *set = NULL;
        struct rig rig;
        bool trains;

        rig_for(&rig, wanted, true);
        trains = data_open(file_at(text_of(wanted, "file")), &rig.source, &set, &refusal) == STATUS_OK;
        if (accept && !trains)
            fail_msg("%s is accepted, and the trainer says %s", text_of(wanted, "file"), refusal.text);
        accepted += accept;
        refused += !trains;
        data_close(set);
        rig_end(&rig);
    }
    assert_true(accepted >= 9 && refused >= 15);
    json_decref(manifest);
}

/* The two chats of ../shared/datasets that can be trained on as they are. */
static void chats_from_elsewhere_come_out_clean(void **state)
{
    const char *path = test_shared_path("datasets/tinker_conversations.jsonl");
    struct rig rig = rig_of(false);
    size_t count;

    (void)state;
    if (path == NULL) {
        printf("skipped: there is no ../shared/datasets/tinker_conversations.jsonl\n");
        skip();
    }
    rig_model(&rig, rig_template, CONTEXT);
    rig.validator = validator_open(&rig.config, NULL);
    read_into(rig.validator, path);
    validator_issues(rig.validator, &count);
    assert_int_equal(count, 0);
    assert_int_equal(validator_statistics(rig.validator)->good, 128);
    assert_int_equal(validator_statistics(rig.validator)->bytes, 23749);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_is_judged_as_its_manifest_says),
        cmocka_unit_test(what_is_accepted_trains_and_what_is_refused_is_rejected),
        cmocka_unit_test(chats_from_elsewhere_come_out_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
