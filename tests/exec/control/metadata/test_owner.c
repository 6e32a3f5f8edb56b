/* Only the owner sees: every function that reads or changes a tenant's thing, given another tenant's id for it, says what it says of an
 * id that never was. */
#include "control/metadata/audit.h"
#include "control/metadata/deletion.h"
#include "control/metadata/key.h"
#include "control/metadata/usage.h"
#include "rig.h"

struct asked {
    struct world *world;
    const char *tenant;
    const char *object, *file, *job, *model, *alias, *model_name, *deletion, *key, *worker;
};

typedef enum status getter(struct asked *asked, struct refusal *refusal);

#define M asked->world->metadata, asked->tenant
#define R &asked->world->results

static enum status g_object(struct asked *asked, struct refusal *refusal) { struct meta_object x; return meta_object_get(M, asked->object, R, &x, refusal); }
static enum status g_object_doom(struct asked *asked, struct refusal *refusal) { return meta_object_doom(M, asked->object, refusal); }
static enum status g_object_written(struct asked *asked, struct refusal *refusal) { return meta_object_written(M, asked->object, 1, "x", refusal); }
static enum status g_object_gone(struct asked *asked, struct refusal *refusal) { return meta_object_gone(M, asked->object, refusal); }
static enum status g_file(struct asked *asked, struct refusal *refusal) { struct meta_file x; return meta_file_get(M, asked->file, R, &x, refusal); }
static enum status g_file_judged(struct asked *asked, struct refusal *refusal) { return meta_file_judged(M, asked->file, true, 1, 1, NULL, refusal); }
static enum status g_file_delete(struct asked *asked, struct refusal *refusal) { return meta_file_delete(M, asked->file, refusal); }
static enum status g_file_of_object(struct asked *asked, struct refusal *refusal)
{
    return meta_file_add(M, "file-new", asked->object, "fine-tune", (struct meta_bytes){0}, META_NONE, NOW, refusal);
}
static enum status g_job(struct asked *asked, struct refusal *refusal) { struct meta_job x; return meta_job_get(M, asked->job, R, &x, refusal); }
static enum status g_job_sized(struct asked *asked, struct refusal *refusal)
{
    return meta_job_sized(M, asked->job, &(struct meta_job_size){1, 1, 1, 1, NULL}, refusal);
}
static enum status g_job_move(struct asked *asked, struct refusal *refusal)
{
    return world_move(M, asked->job, META_JOB_VALIDATING, 0, META_JOB_CANCELLED, META_JOB_NO_TARGET, refusal);
}
static enum status g_job_progress(struct asked *asked, struct refusal *refusal) { return meta_job_progress(M, asked->job, 0, 1, 1, refusal); }
static enum status g_job_of_file(struct asked *asked, struct refusal *refusal)
{
    return meta_job_add(asked->world->metadata, &(struct meta_job_new){.tenant = asked->tenant, .id = "ftjob-new", .base = "tiny", .file = asked->file, .settings = "{}"}, NOW, refusal);
}
static enum status g_worker_for_job(struct asked *asked, struct refusal *refusal)
{
    return meta_worker_for_job(asked->world->metadata, &(struct meta_worker_new){"worker-new", "trainer", "{}"}, asked->tenant, asked->job, 0, NOW, refusal);
}
static enum status g_worker_for_file(struct asked *asked, struct refusal *refusal)
{
    return meta_worker_for_file(asked->world->metadata, &(struct meta_worker_new){"worker-new", "validator", "{}"}, asked->tenant, asked->file, NOW, NULL, refusal);
}
static enum status g_event_add(struct asked *asked, struct refusal *refusal)
{
    return meta_event_add(M, asked->job, "info", "x", NULL, (struct meta_bytes){0}, NOW, NULL, refusal);
}
static enum status g_events(struct asked *asked, struct refusal *refusal)
{
    struct meta_event *x; uint32_t n; bool more;
    return meta_event_list(M, asked->job, INT64_MAX, 10, R, &x, &n, &more, refusal);
}
static enum status g_checkpoint_add(struct asked *asked, struct refusal *refusal)
{
    return meta_checkpoint_add(M, asked->job, 0, 1, asked->object, NULL, NOW, refusal);
}
static enum status g_checkpoints(struct asked *asked, struct refusal *refusal)
{
    struct meta_checkpoint *x; uint32_t n; bool more;
    return meta_checkpoint_list(M, asked->job, INT64_MAX, 10, R, &x, &n, &more, refusal);
}
static enum status g_model(struct asked *asked, struct refusal *refusal) { struct meta_model x; return meta_model_get(M, asked->model, R, &x, refusal); }
static enum status g_model_judge(struct asked *asked, struct refusal *refusal) { return meta_model_judge(M, asked->model, "pending_eval", "deployable", NULL, refusal); }
static enum status g_model_doom(struct asked *asked, struct refusal *refusal) { return meta_model_doom(M, asked->model, refusal); }
static enum status g_model_gone(struct asked *asked, struct refusal *refusal) { return meta_model_gone(M, asked->model, refusal); }
static enum status g_alias_set(struct asked *asked, struct refusal *refusal) { return meta_alias_set(M, "mine", asked->model, NULL, refusal); }
static enum status g_alias_delete(struct asked *asked, struct refusal *refusal) { return meta_alias_delete(M, asked->alias, refusal); }
static enum status g_resolve_name(struct asked *asked, struct refusal *refusal) { struct meta_model x; return meta_name_resolve(M, asked->model_name, R, &x, refusal); }
static enum status g_resolve_alias(struct asked *asked, struct refusal *refusal) { struct meta_model x; return meta_name_resolve(M, asked->alias, R, &x, refusal); }
static enum status g_deletion(struct asked *asked, struct refusal *refusal) { struct meta_deletion x; return meta_deletion_get(M, asked->deletion, R, &x, refusal); }
static enum status g_deletion_move(struct asked *asked, struct refusal *refusal) { return meta_deletion_move(M, asked->deletion, "asked", NULL, refusal); }
static enum status g_key_revoke(struct asked *asked, struct refusal *refusal) { return meta_key_revoke(M, asked->key, NOW, refusal); }

static const struct {
    const char *name;
    getter *get;
    bool by_owner; /* whether the owner's own call succeeds in this world */
} getters[] = {
#define G(name, owner) {#name, g_##name, owner},
    G(object, true) G(object_written, false) G(object_gone, false) G(file, true) G(file_of_object, true) G(job, true) G(job_sized, true)
    G(job_progress, false) G(job_of_file, true) G(worker_for_job, false) G(worker_for_file, true) G(event_add, true) G(events, true)
    G(checkpoint_add, false) G(checkpoints, true) G(model, true) G(model_judge, true) G(alias_set, true) G(resolve_name, true)
    G(resolve_alias, true) G(deletion, true) G(deletion_move, true) G(key_revoke, true) G(job_move, true) G(file_judged, true)
    G(alias_delete, true) G(model_doom, true) G(model_gone, true) G(object_doom, true) G(file_delete, false)
#undef G
};

static void populate_more(struct world *world, struct asked *ret_asked)
{
    static char deletion[NAME_BYTES];
    static char key[NAME_BYTES];
    char text[META_KEY_TEXT_BYTES];

    OK(world, meta_alias_set(world->metadata, world->acme.id, "prod", world->acme.model, NULL, &world->refusal));
    OK(world, meta_deletion_add(world->metadata, world->acme.id, world->acme.file, NOW, deletion, &world->refusal));
    OK(world, meta_key_add(world->metadata, world->acme.id, "member", META_NONE, NOW, text, key, &world->refusal));
    *ret_asked = (struct asked){.world = world, .object = world->acme.object, .file = world->acme.file, .job = world->acme.job,
                                .model = world->acme.model, .alias = "prod", .model_name = world->acme.model_name,
                                .deletion = deletion, .key = key};
}

static void anothers_is_as_if_it_were_not(void **state)
{
    const struct asked never = {.object = "object-none", .file = "file-none", .job = "ftjob-none", .model = "model-none", .alias = "none",
                                .model_name = "ft:tiny:acme::none", .deletion = "deletion-none", .key = "none"};
    struct world world;
    struct asked owned;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    populate_more(&world, &owned);
    for (size_t i = 0; i < ARRAY_COUNT(getters); i++) {
        struct refusal foreign = {{0}};
        struct refusal absent = {{0}};
        struct asked asked = owned;
        enum status status;

        asked.tenant = world.other.id;
        status = getters[i].get(&asked, &foreign);
        if (status != STATUS_NOT_FOUND && status != STATUS_CONFLICT && status != STATUS_INVALID)
            fail_msg("%s of another's: %s", getters[i].name, status_text(status));
        asked = never;
        asked.world = &world;
        asked.tenant = world.other.id;
        assert_int_equal(getters[i].get(&asked, &absent), status);
        assert_string_equal(absent.text, foreign.text);
    }
    /* The owner's own calls, in an order in which they can succeed, so that the above is not refused for another reason. */
    for (size_t i = 0; i < ARRAY_COUNT(getters); i++) {
        enum status status;

        owned.tenant = world.acme.id;
        status = getters[i].get(&owned, &world.refusal);
        if ((status == STATUS_OK) != getters[i].by_owner)
            fail_msg("%s by its owner: %s %s", getters[i].name, status_text(status), world.refusal.text);
    }
    world_end(&world);
}

static void lists_are_of_one_tenant(void **state)
{
    const struct meta_page page = {.limit = 100};
    struct world world;
    struct asked asked;
    struct meta_file *files;
    struct meta_job *jobs;
    struct meta_model *models;
    struct meta_key *keys;
    struct meta_audit *entries;
    struct meta_usage_sum *sums;
    uint32_t count;
    bool more;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    populate_more(&world, &asked);
    OK(&world, meta_audit_add(world.metadata, world.acme.id, "local", "x", "y", NOW, &world.refusal));
#define N(call) OK(&world, call)
    N(meta_file_list(world.metadata, world.other.id, NULL, &page, &world.results, &files, &count, &more, &world.refusal));
    assert_int_equal(count, 1);
    assert_string_equal(files[0].id, world.other.file);
    N(meta_file_list(world.metadata, world.other.id, "batch", &page, &world.results, &files, &count, &more, &world.refusal));
    assert_int_equal(count, 0);
    N(meta_file_list(world.metadata, world.other.id, "fine-tune", &page, &world.results, &files, &count, &more, &world.refusal));
    assert_int_equal(count, 1);
    N(meta_job_list(world.metadata, world.other.id, &page, &world.results, &jobs, &count, &more, &world.refusal));
    assert_int_equal(count, 1);
    assert_string_equal(jobs[0].id, world.other.job);
    N(meta_model_list(world.metadata, world.other.id, &page, &world.results, &models, &count, &more, &world.refusal));
    assert_int_equal(count, 1);
    assert_string_equal(models[0].id, world.other.model);
    N(meta_key_list(world.metadata, world.other.id, 0, 10, &world.results, &keys, &count, &more, &world.refusal));
    assert_int_equal(count, 0);
    N(meta_key_list(world.metadata, world.acme.id, 0, 10, &world.results, &keys, &count, &more, &world.refusal));
    assert_int_equal(count, 1);
    N(meta_audit_list(world.metadata, world.other.id, INT64_MAX, 10, &world.results, &entries, &count, &more, &world.refusal));
    assert_int_equal(count, 0);
    N(meta_audit_list(world.metadata, NULL, INT64_MAX, 10, &world.results, &entries, &count, &more, &world.refusal));
    assert_int_equal(count, 1);
    N(meta_usage_sums(world.metadata, world.other.id, 0, INT64_MAX, 10, &world.results, &sums, &count, &more, &world.refusal));
    assert_int_equal(count, 0);
#undef N
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anothers_is_as_if_it_were_not),
        cmocka_unit_test(lists_are_of_one_tenant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
