#include "rig.h"

#include "control/metadata/key.h"

static const uint8_t server_key[META_KEY_BYTES] = {7};

/* Where BERTH_TEST_POSTGRES (tests/postgres.sh) is a connection string, worlds are schemas there. */
static const char *postgres(void) { return getenv("BERTH_TEST_POSTGRES"); }

enum status open_place(const char *place, bool first, struct metadata **ret_metadata, struct refusal *refusal)
{
    const struct meta_options options = {.place = place, .server_key = server_key, .first = first,
                                         .driver = postgres() != NULL ? &db_postgres : NULL};

    return meta_open(&options, ret_metadata, refusal);
}

static void postgres_do(const char *what, const char *schema)
{
    struct refusal refusal = {{0}};
    char sql[128];
    struct db *db;

    snprintf(sql, sizeof(sql), what, schema);
    if (db_postgres.open(postgres(), false, &db, &refusal) != STATUS_OK || db_postgres.execute(db, sql, &refusal) != STATUS_OK)
        fail_msg("%s: %s", sql, refusal.text);
    db_postgres.close(db);
}

struct metadata *world_open(const struct world *world)
{
    struct metadata *metadata = NULL;
    struct refusal refusal = {{0}};

    if (open_place(world->place, false, &metadata, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    return metadata;
}

void world_begin(struct world *world)
{
    memset(world, 0, sizeof(*world));
    scratch_begin(&world->scratch);
    snprintf(world->place, sizeof(world->place), "%s", scratch_at(&world->scratch, "metadata.db"));
    if (postgres() != NULL) {
        meta_id("world_", world->schema);
        postgres_do("CREATE SCHEMA %s", world->schema);
        snprintf(world->place, sizeof(world->place), "%s options=-csearch_path=%s", postgres(), world->schema);
    }
    OK(world, open_place(world->place, true, &world->metadata, &world->refusal));
}

void world_end(struct world *world)
{
    meta_results_free(&world->results);
    meta_close(world->metadata);
    if (postgres() != NULL)
        postgres_do("DROP SCHEMA %s CASCADE", world->schema);
    scratch_end(&world->scratch);
}

void world_object(struct world *world, const char *tenant, char ret_id[NAME_BYTES])
{
    meta_id("object-", ret_id);
    OK(world, meta_object_add(world->metadata, tenant, ret_id, "upload", ret_id, &world->refusal));
    OK(world, meta_object_written(world->metadata, tenant, ret_id, 1000, "sha256", &world->refusal));
}

void world_file(struct world *world, const char *tenant, char ret_id[NAME_BYTES])
{
    const struct meta_bytes sealed = {(const uint8_t *)"\0sealed\xff", 8};
    char object[NAME_BYTES];

    world_object(world, tenant, object);
    meta_id("file-", ret_id);
    OK(world, meta_file_add(world->metadata, tenant, ret_id, object, "fine-tune", sealed, META_NONE, NOW, &world->refusal));
}

void world_job(struct world *world, const char *tenant, const char *file, char ret_id[NAME_BYTES])
{
    struct meta_job_new job = {.tenant = tenant, .id = ret_id, .base = "tiny", .file = file, .settings = "{}",
                               .sealed = {(const uint8_t *)"words", 5}};
    const struct meta_job_size size = {.size_ns = 60000000000, .gpu_bytes = 1 << 20, .gpus = 1, .rank = 16};

    meta_id("ftjob-", ret_id);
    OK(world, meta_job_add(world->metadata, &job, NOW, &world->refusal));
    OK(world, meta_job_sized(world->metadata, tenant, ret_id, &size, &world->refusal));
}

static void populate(struct world *world, const char *slug, struct tenant_world *tenant)
{
    struct meta_model_new model = {.tenant = tenant->id, .id = tenant->model, .suffix = "", .job = tenant->job, .step = META_NONE,
                                   .base = "tiny", .digest = "sha256", .rank = 16, .bytes = 4096, .lineage = "{}"};
    char object[NAME_BYTES];

    OK(world, meta_tenant_add(world->metadata, slug, NOW, tenant->id, &world->refusal));
    world_object(world, tenant->id, tenant->object);
    world_file(world, tenant->id, tenant->file);
    world_job(world, tenant->id, tenant->file, tenant->job);
    world_object(world, tenant->id, object);
    model.object = object;
    meta_id("", tenant->model);
    OK(world, meta_model_add(world->metadata, &model, NOW, tenant->model_name, &world->refusal));
}

void world_populate(struct world *world)
{
    OK(world, meta_base_add(world->metadata, "tiny", "digest-of-tiny", "/models/tiny", NOW, &world->refusal));
    populate(world, "acme", &world->acme);
    populate(world, "other", &world->other);
}

struct meta_job world_get_job(struct world *world, const char *tenant, const char *id)
{
    struct meta_job job;

    OK(world, meta_job_get(world->metadata, tenant, id, &world->results, &job, &world->refusal));
    return job;
}

enum status world_move(struct metadata *metadata, const char *tenant, const char *job, enum meta_job_state from, int64_t attempt,
                       enum meta_job_state to, enum meta_job_state target, struct refusal *refusal)
{
    char id[NAME_BYTES];
    const struct meta_worker_new worker = {.id = id, .kind = "trainer", .placement = "{}"};
    const struct meta_job_move move = {.tenant = tenant, .id = job, .from = from, .attempt = attempt, .to = to, .target = target,
                                       .worker = to == META_JOB_STARTING ? &worker : NULL, .crash_step = META_NONE};

    meta_id("worker-", id);
    return meta_job_move(metadata, &move, NOW, NULL, refusal);
}

void world_bring(struct world *world, const char *tenant, const char *job, enum meta_job_state state, enum meta_job_state target)
{
    static const enum meta_job_state ways[META_JOB_STATES_COUNT][5] = {
        [META_JOB_QUEUED] = {META_JOB_QUEUED},
        [META_JOB_STARTING] = {META_JOB_QUEUED, META_JOB_STARTING},
        [META_JOB_RUNNING] = {META_JOB_QUEUED, META_JOB_STARTING, META_JOB_RUNNING},
        [META_JOB_STOPPING] = {META_JOB_QUEUED, META_JOB_STARTING, META_JOB_RUNNING, META_JOB_STOPPING},
        [META_JOB_PAUSED] = {META_JOB_QUEUED, META_JOB_PAUSED},
        [META_JOB_EVALUATING] = {META_JOB_QUEUED, META_JOB_STARTING, META_JOB_RUNNING, META_JOB_EVALUATING},
        [META_JOB_SUCCEEDED] = {META_JOB_QUEUED, META_JOB_STARTING, META_JOB_RUNNING, META_JOB_EVALUATING, META_JOB_SUCCEEDED},
        [META_JOB_FAILED] = {META_JOB_FAILED},
        [META_JOB_CANCELLED] = {META_JOB_CANCELLED},
    };
    enum meta_job_state at = META_JOB_VALIDATING;

    if (state == META_JOB_VALIDATING && target != META_JOB_NO_TARGET)
        OK(world, world_move(world->metadata, tenant, job, at, 0, at, target, &world->refusal));
    for (uint32_t i = 0; i < 5 && ways[state][i] != META_JOB_VALIDATING; i++) {
        const enum meta_job_state to = ways[state][i];

        OK(world, world_move(world->metadata, tenant, job, at, world_get_job(world, tenant, job).attempt, to,
                             to == META_JOB_STOPPING ? target : META_JOB_NO_TARGET, &world->refusal));
        at = to;
    }
}

/* zeroblob(N), as PostgreSQL says it. */
static void say_zeros(const char *sql, char *ret_sql, size_t room)
{
    const char *at = strstr(sql, "zeroblob(");

    if (at != NULL && postgres() != NULL)
        snprintf(ret_sql, room, "%.*sdecode(repeat('00', %d), 'hex')%s", (int)(at - sql), sql, atoi(at + 9), strchr(at, ')') + 1);
    else
        snprintf(ret_sql, room, "%s", sql);
}

void world_execute(const struct world *world, const char *sql)
{
    const struct db_driver *driver = postgres() != NULL ? &db_postgres : &db_sqlite;
    struct refusal refusal = {{0}};
    char text[512];
    struct db *db;

    say_zeros(sql, text, sizeof(text));
    if (driver->open(world->place, false, &db, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    if (driver == &db_sqlite)
        assert_int_equal(driver->execute(db, "PRAGMA foreign_keys = OFF", &refusal), STATUS_OK);
    if (driver->execute(db, text, &refusal) != STATUS_OK)
        fail_msg("%s: %s", text, refusal.text);
    driver->close(db);
}
