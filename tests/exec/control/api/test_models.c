/* Models over the API: bases for all who have a key, tuned ones for their owner, and only those that may answer. */
#include <stdio.h>

#include "control/metadata/file.h"
#include "control/metadata/model.h"
#include "rig.h"

#define NOW 1700000000000

static struct rig rig;
static struct answer answer;
static char deployable[META_MODEL_NAME_BYTES];
static char pending[META_MODEL_NAME_BYTES];
static char blocked[META_MODEL_NAME_BYTES];

static void add_model(const struct rig *of, struct metadata *metadata, const char *suffix, const char *verdict,
                      char ret_name[META_MODEL_NAME_BYTES])
{
    struct meta_model_new model = {.tenant = of->acme, .suffix = suffix, .step = META_NONE, .base = "tiny", .digest = "d", .rank = 8, .bytes = 1,
                                   .lineage = "{}"};
    struct refusal refusal = {{0}};
    char object[NAME_BYTES];
    char id[NAME_BYTES];

    meta_id("obj-", object);
    meta_id("model-", id);
    model.id = id;
    model.object = object;
    if (meta_object_add(metadata, of->acme, object, "adapter", object, &refusal) != STATUS_OK ||
        meta_object_written(metadata, of->acme, object, 1, "d", &refusal) != STATUS_OK ||
        meta_model_add(metadata, &model, NOW, ret_name, &refusal) != STATUS_OK ||
        (verdict != NULL && meta_model_judge(metadata, of->acme, id, "pending_eval", verdict, NULL, &refusal) != STATUS_OK))
        fail_msg("%s", refusal.text);
}

static void add_alias(const struct rig *of, struct metadata *metadata, const char *alias, const char *name)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_model model;

    assert_int_equal(meta_name_resolve(metadata, of->acme, name, &results, &model, &refusal), STATUS_OK);
    assert_int_equal(meta_alias_set(metadata, of->acme, alias, model.id, NULL, &refusal), STATUS_OK);
    meta_results_free(&results);
}

static void fill(const struct rig *of, struct metadata *metadata)
{
    struct refusal refusal = {{0}};

    assert_int_equal(meta_base_add(metadata, "tiny", "d", "/models/tiny", NOW, &refusal), STATUS_OK);
    assert_int_equal(meta_base_add(metadata, "old", "e", "/models/old", NOW, &refusal), STATUS_OK);
    assert_int_equal(meta_base_move(metadata, "old", "serving", "retired", NOW, &refusal), STATUS_OK);
    add_model(of, metadata, "yes", "deployable", deployable);
    add_model(of, metadata, "wait", NULL, pending);
    add_model(of, metadata, "no", "blocked", blocked);
    add_alias(of, metadata, "prod", deployable);
    add_alias(of, metadata, "soon", pending);
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
    rig_end(&rig);
    return 0;
}

static const char *listed(uint32_t index)
{
    const char *id = json_string_value(json_object_get(json_array_get(json_object_get(answer.json, "data"), index), "id"));

    return id != NULL ? id : "";
}

static void what_is_listed_may_answer_and_is_ones_own(void **context)
{
    (void)context;
    client_ask(&rig, rig.key, "GET /v1/models", "", &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer_text(&answer, "object"), "list");
    assert_int_equal(json_array_size(json_object_get(answer.json, "data")), 3);
    assert_string_equal(listed(0), "tiny");
    assert_string_equal(listed(1), deployable);
    assert_string_equal(listed(2), "prod");
    client_ask(&rig, rig.other_key, "GET /v1/models", "", &answer);
    assert_int_equal(json_array_size(json_object_get(answer.json, "data")), 1);
    assert_string_equal(listed(0), "tiny");
}

static void get(const char *key, const char *name, unsigned status)
{
    char line[512];

    snprintf(line, sizeof(line), "GET /v1/models/%s", name);
    client_ask(&rig, key, line, "", &answer);
    if (answer.status != status)
        fail_msg("%s: %u %s", name, answer.status, answer.body);
}

static void one_is_found_by_its_name(void **context)
{
    char missing[512];

    (void)context;
    get(rig.key, "tiny", 200);
    assert_string_equal(answer_text(&answer, "owned_by"), "system");
    assert_int_equal(json_integer_value(json_object_get(answer.json, "created")), NOW / 1000);
    get(rig.key, deployable, 200);
    assert_string_equal(answer_text(&answer, "id"), deployable);
    assert_string_equal(answer_text(&answer, "owned_by"), rig.acme);
    get(rig.key, "none", 404);
    assert_string_equal(answer_error(&answer, "code"), "model_not_found");
    snprintf(missing, sizeof(missing), "%s", answer.body);
    get(rig.other_key, deployable, 404);
    assert_string_equal(answer.body, missing);
    get(rig.key, pending, 404);
    assert_string_equal(answer.body, missing);
    get(rig.key, blocked, 404);
    assert_string_equal(answer.body, missing);
    get(rig.key, "old", 404);
    assert_string_equal(answer.body, missing);
    get(rig.key, "..%2Ffiles%2Ffile-a", 404);
}

static void remove_it(const char *key, const char *name, unsigned status)
{
    char line[512];

    snprintf(line, sizeof(line), "DELETE /v1/models/%s", name);
    client_ask(&rig, key, line, "", &answer);
    if (answer.status != status)
        fail_msg("%s: %u %s", name, answer.status, answer.body);
}

static void its_owner_alone_deletes_one(void **context)
{
    (void)context;
    remove_it(rig.other_key, deployable, 404);
    assert_string_equal(answer_error(&answer, "code"), "model_not_found");
    get(rig.key, deployable, 200);
    remove_it(rig.key, "tiny", 403);
    remove_it(rig.key, "..%2Ffiles%2Ffile-a", 404);
    remove_it(rig.key, deployable, 200);
    assert_string_equal(answer_text(&answer, "id"), deployable);
    assert_string_equal(answer_text(&answer, "object"), "model");
    assert_true(json_is_true(json_object_get(answer.json, "deleted")));
    get(rig.key, deployable, 404);
    remove_it(rig.key, deployable, 404);
}

static void an_alias_is_a_name_like_another_and_goes_alone(void **context)
{
    (void)context;
    get(rig.key, "prod", 200);
    assert_string_equal(answer_text(&answer, "id"), "prod");
    assert_string_equal(answer_text(&answer, "owned_by"), rig.acme);
    get(rig.key, "soon", 404);
    get(rig.other_key, "prod", 404);
    remove_it(rig.other_key, "prod", 404);
    remove_it(rig.key, "prod", 200);
    get(rig.key, "prod", 404);
    get(rig.key, deployable, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_listed_may_answer_and_is_ones_own, begin, end),
        cmocka_unit_test_setup_teardown(one_is_found_by_its_name, begin, end),
        cmocka_unit_test_setup_teardown(its_owner_alone_deletes_one, begin, end),
        cmocka_unit_test_setup_teardown(an_alias_is_a_name_like_another_and_goes_alone, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
