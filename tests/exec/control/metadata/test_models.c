/* Names, aliases, verdicts, keys. */
#include "control/metadata/key.h"
#include "rig.h"

static void a_models_name_says_what_it_is(void **state)
{
    struct world world;
    char name[META_MODEL_NAME_BYTES];
    char expected[META_MODEL_NAME_BYTES];
    struct meta_model_new model;
    char object[NAME_BYTES];

    (void)state;
    world_begin(&world);
    world_populate(&world);
    snprintf(expected, sizeof(expected), "ft:tiny:acme::%s", world.acme.model);
    assert_string_equal(world.acme.model_name, expected);
    world_object(&world, world.acme.id, object);
    model = (struct meta_model_new){.tenant = world.acme.id, .id = "7p4lURel", .suffix = "support-bot", .job = world.acme.job,
                                    .step = META_NONE, .base = "tiny", .object = object, .digest = "d", .rank = 8, .bytes = 1, .lineage = "{}"};
    OK(&world, meta_model_add(world.metadata, &model, NOW, name, &world.refusal));
    assert_string_equal(name, "ft:tiny:acme:support-bot:7p4lURel");
    assert_int_equal(meta_model_add(world.metadata, &model, NOW, name, &world.refusal), STATUS_CONFLICT);
    model.step = 88;
    OK(&world, meta_model_add(world.metadata, &model, NOW, name, &world.refusal));
    assert_string_equal(name, "ft:tiny:acme:support-bot:7p4lURel:ckpt-step-88");
    assert_int_equal(meta_model_add(world.metadata, &model, NOW, name, &world.refusal), STATUS_CONFLICT);
    model.suffix = "a:b";
    assert_int_equal(meta_model_add(world.metadata, &model, NOW, name, &world.refusal), STATUS_INVALID);
    model.suffix = "";
    model.object = world.other.object;
    assert_int_equal(meta_model_add(world.metadata, &model, NOW, name, &world.refusal), STATUS_INVALID);
    model.object = object;
    model.step = 99;
    model.job = world.other.job;
    assert_int_equal(meta_model_add(world.metadata, &model, NOW, name, &world.refusal), STATUS_INVALID);
    world_end(&world);
}

static void names_are_one_namespace(void **state)
{
    struct world world;
    struct meta_model model;
    int64_t generation = 0;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    /* Bases, then aliases, and neither in the other's place. */
    assert_int_equal(meta_alias_set(world.metadata, world.acme.id, "tiny", world.acme.model, NULL, &world.refusal), STATUS_CONFLICT);
    assert_int_equal(meta_alias_set(world.metadata, world.acme.id, world.acme.model_name, world.acme.model, NULL, &world.refusal), STATUS_INVALID);
    assert_int_equal(meta_base_add(world.metadata, "ft:x", "d", "/x", NOW, &world.refusal), STATUS_INVALID);
    assert_int_equal(meta_base_add(world.metadata, "", "d", "/x", NOW, &world.refusal), STATUS_INVALID);
    assert_int_equal(meta_base_add(world.metadata, "tiny", "d", "/x", NOW, &world.refusal), STATUS_CONFLICT);
    OK(&world, meta_alias_set(world.metadata, world.acme.id, "prod", world.acme.model, &generation, &world.refusal));
    assert_int_equal(meta_base_add(world.metadata, "prod", "d", "/x", NOW, &world.refusal), STATUS_CONFLICT);
    OK(&world, meta_base_add(world.metadata, "org/second-1.5", "d", "/x", NOW, &world.refusal));
    /* Two tenants may use one word. */
    OK(&world, meta_alias_set(world.metadata, world.other.id, "prod", world.other.model, &generation, &world.refusal));
    assert_int_equal(generation, 1);
    OK(&world, meta_name_resolve(world.metadata, world.acme.id, "prod", &world.results, &model, &world.refusal));
    assert_string_equal(model.id, world.acme.model);
    OK(&world, meta_name_resolve(world.metadata, world.acme.id, "tiny", &world.results, &model, &world.refusal));
    assert_null(model.id);
    assert_string_equal(model.base, "tiny");
    assert_string_equal(model.verdict, "deployable");
    assert_string_equal(model.base_digest, "digest-of-tiny");
    OK(&world, meta_name_resolve(world.metadata, world.acme.id, world.acme.model_name, &world.results, &model, &world.refusal));
    assert_string_equal(model.id, world.acme.model);
    assert_string_equal(model.verdict, "pending_eval");
    OK(&world, meta_base_move(world.metadata, "tiny", "serving", "deprecated", NOW + 1, &world.refusal));
    OK(&world, meta_name_resolve(world.metadata, world.acme.id, "tiny", &world.results, &model, &world.refusal));
    OK(&world, meta_base_move(world.metadata, "tiny", "deprecated", "retired", NOW + 1, &world.refusal));
    assert_int_equal(meta_base_move(world.metadata, "tiny", "retired", "serving", NOW + 1, &world.refusal), STATUS_INVALID);
    assert_int_equal(meta_name_resolve(world.metadata, world.acme.id, "tiny", &world.results, &model, &world.refusal), STATUS_NOT_FOUND);
    world_end(&world);
}

static void an_alias_counts_its_generations(void **state)
{
    struct world world;
    struct meta_model_new second;
    struct meta_model model;
    char name[META_MODEL_NAME_BYTES];
    char object[NAME_BYTES];
    int64_t generation = 0;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    world_object(&world, world.acme.id, object);
    second = (struct meta_model_new){.tenant = world.acme.id, .id = "second", .suffix = "", .step = META_NONE, .base = "tiny",
                                     .object = object, .digest = "d", .rank = 8, .bytes = 1, .lineage = "{}"};
    OK(&world, meta_model_add(world.metadata, &second, NOW, name, &world.refusal));
#define SET(model, expected)                                                                                            \
    OK(&world, meta_alias_set(world.metadata, world.acme.id, "prod", model, &generation, &world.refusal));               \
    assert_int_equal(generation, expected)
    SET(world.acme.model, 1);
    SET(world.acme.model, 1);
    SET("second", 2);
    SET(world.acme.model, 3);
    OK(&world, meta_alias_delete(world.metadata, world.acme.id, "prod", &world.refusal));
    assert_int_equal(meta_alias_delete(world.metadata, world.acme.id, "prod", &world.refusal), STATUS_NOT_FOUND);
    assert_int_equal(meta_name_resolve(world.metadata, world.acme.id, "prod", &world.results, &model, &world.refusal), STATUS_NOT_FOUND);
    SET(world.acme.model, 4);
    /* A model that goes takes its names along. */
    OK(&world, meta_model_doom(world.metadata, world.acme.id, world.acme.model, &world.refusal));
    assert_int_equal(meta_name_resolve(world.metadata, world.acme.id, "prod", &world.results, &model, &world.refusal), STATUS_NOT_FOUND);
    assert_int_equal(meta_name_resolve(world.metadata, world.acme.id, world.acme.model_name, &world.results, &model, &world.refusal), STATUS_NOT_FOUND);
    assert_int_equal(meta_model_judge(world.metadata, world.acme.id, world.acme.model, "pending_eval", "deployable", NULL, &world.refusal), STATUS_CONFLICT);
    assert_int_equal(meta_alias_set(world.metadata, world.acme.id, "prod", world.acme.model, NULL, &world.refusal), STATUS_NOT_FOUND);
    SET("second", 5);
#undef SET
    world_end(&world);
}

static void a_verdict_is_given_from_the_one_before(void **state)
{
    struct world world;
    struct meta_model model;

    (void)state;
    world_begin(&world);
    world_populate(&world);
#define JUDGE(from, to) meta_model_judge(world.metadata, world.acme.id, world.acme.model, from, to, NULL, &world.refusal)
    OK(&world, JUDGE("pending_eval", "needs_review"));
    assert_int_equal(JUDGE("pending_eval", "deployable"), STATUS_CONFLICT);
    assert_int_equal(JUDGE("needs_review", "fine"), STATUS_INVALID);
    OK(&world, JUDGE("needs_review", "deployable"));
#undef JUDGE
    OK(&world, meta_model_get(world.metadata, world.acme.id, world.acme.model, &world.results, &model, &world.refusal));
    assert_string_equal(model.verdict, "deployable");
    world_end(&world);
}

/* --- keys ------------------------------------------------------------------------------------------------------------------- */

static void a_key_opens_what_it_was_made_for(void **state)
{
    struct meta_caller caller;
    struct meta_key *keys;
    char text[META_KEY_TEXT_BYTES];
    char second[META_KEY_TEXT_BYTES];
    char id[NAME_BYTES];
    char second_id[NAME_BYTES];
    struct world world;
    uint32_t count;
    bool more;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    OK(&world, meta_key_add(world.metadata, world.acme.id, "member", NOW + 100, NOW, text, id, &world.refusal));
    OK(&world, meta_key_add(world.metadata, NULL, "auditor", META_NONE, NOW, second, second_id, &world.refusal));
    assert_int_equal(strlen(text), strlen("sk-berth-") + 24 + 1 + 43);
    assert_non_null(strstr(text, id));
    assert_string_not_equal(text, second);
    OK(&world, meta_key_check(world.metadata, text, NOW, &caller, &world.refusal));
    assert_string_equal(caller.tenant, world.acme.id);
    assert_string_equal(caller.key, id);
    assert_string_equal(caller.role, "member");
    assert_int_equal(caller.standing, META_KEY_GOOD);
    OK(&world, meta_key_check(world.metadata, second, NOW, &caller, &world.refusal));
    assert_string_equal(caller.tenant, "");
    assert_string_equal(caller.role, "auditor");
    /* Every letter counts. */
    for (size_t at = 0; text[at] != '\0'; at++) {
        char touched[META_KEY_TEXT_BYTES];

        memcpy(touched, text, sizeof(touched));
        touched[at] = touched[at] == 'A' ? 'B' : 'A';
        assert_int_equal(meta_key_check(world.metadata, touched, NOW, &caller, &world.refusal), STATUS_NOT_FOUND);
        assert_string_equal(world.refusal.text, "no such key");
        touched[at] = '\0';
        assert_int_equal(meta_key_check(world.metadata, touched, NOW, &caller, &world.refusal), STATUS_NOT_FOUND);
    }
    OK(&world, meta_key_check(world.metadata, text, NOW + 100, &caller, &world.refusal));
    assert_int_equal(caller.standing, META_KEY_EXPIRED);
    OK(&world, meta_tenant_move(world.metadata, world.acme.id, "active", "suspended", &world.refusal));
    OK(&world, meta_key_check(world.metadata, text, NOW, &caller, &world.refusal));
    assert_int_equal(caller.standing, META_KEY_SUSPENDED);
    OK(&world, meta_key_revoke(world.metadata, world.acme.id, id, NOW + 1, &world.refusal));
    OK(&world, meta_key_revoke(world.metadata, world.acme.id, id, NOW + 50, &world.refusal));
    OK(&world, meta_key_check(world.metadata, text, NOW, &caller, &world.refusal));
    assert_int_equal(caller.standing, META_KEY_REVOKED);
    OK(&world, meta_key_list(world.metadata, world.acme.id, 0, 10, &world.results, &keys, &count, &more, &world.refusal));
    assert_int_equal(count, 1);
    assert_int_equal(keys[0].revoked_at_ms, NOW + 1);
    assert_int_equal(meta_key_revoke(world.metadata, NULL, id, NOW, &world.refusal), STATUS_NOT_FOUND);
    OK(&world, meta_key_revoke(world.metadata, NULL, second_id, NOW, &world.refusal));
    world_end(&world);
}

static void roles_fit_who_holds_them(void **state)
{
    static const char *const roles[] = {"inference", "member", "admin", "reviewer", "operator", "auditor", "root", "", "a-role-much-too-long"};
    char text[META_KEY_TEXT_BYTES];
    char id[NAME_BYTES];
    struct world world;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    for (size_t i = 0; i < ARRAY_COUNT(roles); i++) {
        assert_int_equal(meta_key_add(world.metadata, world.acme.id, roles[i], META_NONE, NOW, text, id, &world.refusal),
                         i < 3 ? STATUS_OK : STATUS_INVALID);
        assert_int_equal(meta_key_add(world.metadata, NULL, roles[i], META_NONE, NOW, text, id, &world.refusal),
                         i >= 3 && i < 6 ? STATUS_OK : STATUS_INVALID);
    }
    assert_int_equal(meta_key_add(world.metadata, "org-none", "member", META_NONE, NOW, text, id, &world.refusal), STATUS_INVALID);
    world_end(&world);
}

/* Whoever writes to the database alone makes no key better, nor another tenant's. */
static void an_edited_row_opens_nothing(void **state)
{
    static const char *const edits[] = {"UPDATE api_key SET role = 'admin'", "UPDATE api_key SET expires_at_ms = NULL",
                                        "UPDATE api_key SET tenant = (SELECT id FROM tenant WHERE slug = 'other')",
                                        "UPDATE api_key SET mac = zeroblob(32)", "UPDATE api_key SET mac = zeroblob(0)"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(edits); i++) {
        struct meta_caller caller;
        char text[META_KEY_TEXT_BYTES];
        char id[NAME_BYTES];
        struct world world;

        world_begin(&world);
        world_populate(&world);
        OK(&world, meta_key_add(world.metadata, world.acme.id, "member", NOW + 100, NOW, text, id, &world.refusal));
        world_execute(&world, edits[i]);
        assert_int_equal(meta_key_check(world.metadata, text, NOW, &caller, &world.refusal), STATUS_NOT_FOUND);
        world_end(&world);
    }
}

/* The secret is nowhere in what lies on disk. */
static void a_secret_is_not_kept(void **state)
{
    static const char *const names[] = {"metadata.db", "metadata.db-wal"};
    char text[META_KEY_TEXT_BYTES];
    char id[NAME_BYTES];
    struct world world;
    unsigned ids_seen = 0;

    (void)state;
    if (getenv("BERTH_TEST_POSTGRES") != NULL)
        skip();
    world_begin(&world);
    world_populate(&world);
    OK(&world, meta_key_add(world.metadata, world.acme.id, "member", META_NONE, NOW, text, id, &world.refusal));
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct refusal refusal;
        void *data = NULL;
        int64_t bytes = 0;

        if (file_read(-100 /* AT_FDCWD */, scratch_at(&world.scratch, names[i]), names[i], 1 << 26, &data, &bytes, &refusal) != STATUS_OK)
            continue;
        for (int64_t at = 0; at + 43 <= bytes; at++) {
            assert_int_not_equal(memcmp((const char *)data + at, text + strlen(text) - 43, 43), 0);
            ids_seen += memcmp((const char *)data + at, id, 24) == 0;
        }
        free(data);
    }
    assert_true(ids_seen > 0);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_models_name_says_what_it_is),
        cmocka_unit_test(names_are_one_namespace),
        cmocka_unit_test(an_alias_counts_its_generations),
        cmocka_unit_test(a_verdict_is_given_from_the_one_before),
        cmocka_unit_test(a_key_opens_what_it_was_made_for),
        cmocka_unit_test(roles_fit_who_holds_them),
        cmocka_unit_test(an_edited_row_opens_nothing),
        cmocka_unit_test(a_secret_is_not_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
