/* Opening what is there, transactions, tenants, and disks that refuse. */
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/metadata/audit.h"
#include "control/metadata/once.h"
#include "rig.h"

static void what_was_written_is_there_again(void **state)
{
    struct meta_tenant tenant;
    struct stat info;
    struct world world;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    meta_close(world.metadata);
    assert_int_equal(stat(world.place, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    OK(&world, open_place(world.place, true, &world.metadata, &world.refusal));
    OK(&world, meta_tenant_get(world.metadata, world.acme.id, &world.results, &tenant, &world.refusal));
    assert_string_equal(tenant.slug, "acme");
    assert_string_equal(world_get_job(&world, world.acme.id, world.acme.job).settings, "{}");
    world_end(&world);
}

static void a_newer_schema_is_refused(void **state)
{
    struct metadata *metadata = NULL;
    struct world world;

    (void)state;
    world_begin(&world);
    world_execute(&world, "UPDATE meta SET value = '2' WHERE name = 'schema'");
    assert_int_equal(open_place(world.place, true, &metadata, &world.refusal), STATUS_INVALID);
    assert_non_null(strstr(world.refusal.text, "has schema 2, this program knows 1"));
    assert_int_equal(open_place(world.place, false, &metadata, &world.refusal), STATUS_INVALID);
    world_execute(&world, "DELETE FROM meta");
    assert_int_equal(open_place(world.place, true, &metadata, &world.refusal), STATUS_CORRUPT);
    assert_null(metadata);
    world_end(&world);
}

static void another_server_key_is_refused(void **state)
{
    static const uint8_t other[META_KEY_BYTES] = {8};
    struct metadata *metadata = NULL;
    struct meta_options options = {.server_key = other};
    struct world world;

    (void)state;
    world_begin(&world);
    options.place = world.place;
    for (int first = 0; first < 2; first++) {
        options.first = first == 1;
        assert_int_equal(meta_open(&options, &metadata, &world.refusal), STATUS_INVALID);
        assert_non_null(strstr(world.refusal.text, "server.key isn't the one"));
    }
    assert_null(metadata);
    world_end(&world);
}

static void anothers_database_or_no_database_is_refused(void **state)
{
    struct metadata *metadata = NULL;
    struct world world;
    char text[8192];
    sqlite3 *db;

    (void)state;
    world_begin(&world);
    memset(text, 'x', sizeof(text));
    scratch_write(&world.scratch, "text.db", text, sizeof(text));
    assert_int_equal(open_place(scratch_at(&world.scratch, "text.db"), true, &metadata, &world.refusal), STATUS_CORRUPT);
    assert_int_equal(sqlite3_open(scratch_at(&world.scratch, "foreign.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE song (name TEXT)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(open_place(scratch_at(&world.scratch, "foreign.db"), true, &metadata, &world.refusal), STATUS_CORRUPT);
    assert_non_null(strstr(world.refusal.text, "isn't Berth's"));
    assert_int_equal(symlink(world.place, scratch_at(&world.scratch, "link.db")), 0);
    assert_int_equal(open_place(scratch_at(&world.scratch, "link.db"), true, &metadata, &world.refusal), STATUS_IO);
    assert_int_equal(open_place(scratch_at(&world.scratch, "none/metadata.db"), true, &metadata, &world.refusal), STATUS_IO);
    assert_non_null(strstr(world.refusal.text, "No such file"));
    assert_null(metadata);
    world_end(&world);
}

/* Every page but the first, one at a time: either it is seen, or nothing of it was in use. */
static void a_damaged_database_is_refused(void **state)
{
    struct metadata *metadata = NULL;
    unsigned seen = 0;
    unsigned unseen = 0;
    struct world world;
    uint8_t page[4096];
    int64_t bytes;
    int file;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    meta_close(world.metadata);
    world.metadata = NULL;
    file = open(world.place, O_RDWR);
    bytes = lseek(file, 0, SEEK_END);
    for (int64_t at = 4096; at < bytes; at += 4096) {
        uint8_t garbage[64];
        enum status status;

        memset(garbage, 0xa5, sizeof(garbage));
        assert_int_equal(pread(file, page, sizeof(page), at), sizeof(page));
        assert_int_equal(pwrite(file, garbage, sizeof(garbage), at), sizeof(garbage));
        status = open_place(world.place, true, &metadata, &world.refusal);
        if (status == STATUS_OK) {
            unseen++;
            meta_close(metadata);
        } else {
            assert_int_equal(status, STATUS_CORRUPT);
            seen++;
        }
        assert_int_equal(pwrite(file, page, sizeof(page), at), sizeof(page));
    }
    print_message("%u pages damaged and seen, %u not\n", seen, unseen);
    assert_int_equal(unseen, 0);
    assert_true(seen > 20);
    /* Cut. */
    assert_int_equal(ftruncate(file, bytes / 2), 0);
    assert_int_equal(open_place(world.place, true, &metadata, &world.refusal), STATUS_CORRUPT);
    close(file);
    world_end(&world);
}

static void what_cannot_be_written_says_so(void **state)
{
    struct metadata *metadata = NULL;
    char id[NAME_BYTES];
    struct world world;

    (void)state;
    if (geteuid() == 0) { /* root writes everywhere */
        const pid_t child = fork();

        if (child != 0) {
            int status;

            assert_int_equal(waitpid(child, &status, 0), child);
            assert_int_equal(status, 0);
            return;
        }
        if (setuid(65534) != 0)
            _exit(1);
    }
    world_begin(&world);
    meta_close(world.metadata);
    assert_int_equal(chmod(world.place, 0400), 0);
    assert_int_equal(open_place(world.place, true, &metadata, &world.refusal), STATUS_IO);
    assert_non_null(strstr(world.refusal.text, "Permission denied"));
    assert_int_equal(chmod(world.place, 0600), 0);
    assert_int_equal(chmod(world.scratch.path, 0500), 0);
    if (open_place(world.place, true, &metadata, &world.refusal) == STATUS_OK) {
        assert_int_equal(meta_tenant_add(metadata, "late", NOW, id, &world.refusal), STATUS_IO);
        meta_close(metadata);
    }
    assert_true(world.refusal.text[0] != '\0');
    assert_int_equal(chmod(world.scratch.path, 0700), 0);
    OK(&world, open_place(world.place, true, &world.metadata, &world.refusal));
    world_end(&world);
    if (getppid() != 1 && geteuid() == 65534)
        _exit(0);
}

/* At every call that changes a file: the act is refused for a full disk, or kept whole; and once there is room, all goes on. */
static void a_full_disk_refuses_and_keeps_nothing_of_it(void **state)
{
    unsigned refused = 0;

    (void)state;
    for (uint64_t at = 1;; at++) {
        struct meta_tenant tenant;
        char id[NAME_BYTES];
        struct world world;
        enum status status;

        vfs_begin(VFS_FULL, 0);
        world_begin(&world);
        world_populate(&world);
        vfs_begin(VFS_FULL, at);
        status = meta_begin(world.metadata, &world.refusal);
        if (status == STATUS_OK) {
            status = meta_tenant_add(world.metadata, "third", NOW, id, &world.refusal);
            if (status == STATUS_OK)
                status = meta_audit_add(world.metadata, id, "local", "tenant.add", id, NOW, &world.refusal);
            status = meta_end(world.metadata, status, &world.refusal);
        }
        vfs_begin(VFS_FULL, 0);
        if (status == STATUS_OK) {
            OK(&world, meta_tenant_find(world.metadata, "third", &world.results, &tenant, &world.refusal));
            world_end(&world);
            break;
        }
        refused++;
        assert_int_equal(status, STATUS_IO);
        assert_non_null(strstr(world.refusal.text, "the disk is full"));
        assert_int_equal(meta_tenant_find(world.metadata, "third", &world.results, &tenant, &world.refusal), STATUS_NOT_FOUND);
        OK(&world, meta_tenant_add(world.metadata, "third", NOW, id, &world.refusal));
        OK(&world, meta_audit_verify(world.metadata, NULL, &world.refusal));
        world_end(&world);
    }
    print_message("refused at %u calls\n", refused);
    assert_true(refused >= 3);
}

static void a_transaction_in_a_transaction_goes_with_it(void **state)
{
    struct meta_tenant tenant;
    char id[NAME_BYTES];
    struct world world;

    (void)state;
    world_begin(&world);
    /* The inner one is kept by itself only if the outer one is. */
    OK(&world, meta_begin(world.metadata, &world.refusal));
    OK(&world, meta_tenant_add(world.metadata, "one", NOW, id, &world.refusal));
    assert_int_equal(meta_tenant_add(world.metadata, "one", NOW, id, &world.refusal), STATUS_CONFLICT);
    OK(&world, meta_tenant_add(world.metadata, "two", NOW, id, &world.refusal));
    assert_int_equal(meta_end(world.metadata, STATUS_INVALID, &world.refusal), STATUS_INVALID);
    assert_int_equal(meta_tenant_find(world.metadata, "one", &world.results, &tenant, &world.refusal), STATUS_NOT_FOUND);
    OK(&world, meta_begin(world.metadata, &world.refusal));
    OK(&world, meta_tenant_add(world.metadata, "one", NOW, id, &world.refusal));
    assert_int_equal(meta_tenant_add(world.metadata, "one", NOW, id, &world.refusal), STATUS_CONFLICT);
    OK(&world, meta_tenant_add(world.metadata, "two", NOW, id, &world.refusal));
    OK(&world, meta_end(world.metadata, STATUS_OK, &world.refusal));
    OK(&world, meta_tenant_find(world.metadata, "two", &world.results, &tenant, &world.refusal));
    assert_int_equal(tenant.number, 2);
    world_end(&world);
}

/* A kill alone would not tell: what was written lies with the kernel. */
static void each_act_is_synced_before_it_is_told(void **state)
{
    struct world world;
    char id[NAME_BYTES];

    (void)state;
    vfs_begin(VFS_KILL, 0);
    world_begin(&world);
    for (int i = 0; i < 10; i++) {
        char slug[16];

        snprintf(slug, sizeof(slug), "t%d", i);
        vfs_begin(VFS_KILL, 0);
        OK(&world, meta_tenant_add(world.metadata, slug, NOW, id, &world.refusal));
        assert_true(vfs_syncs() >= 1);
    }
    world_end(&world);
}

static void values_have_a_bound(void **state)
{
    static char text[META_VALUE_BYTES_MAX + 2];
    struct meta_job_new job;
    struct world world;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    memset(text, '1', sizeof(text) - 1);
    job = (struct meta_job_new){.tenant = world.acme.id, .id = "ftjob-1", .base = "tiny", .file = world.acme.file, .settings = text};
    assert_int_equal(meta_job_add(world.metadata, &job, NOW, &world.refusal), STATUS_INVALID);
    text[META_VALUE_BYTES_MAX] = '\0';
    OK(&world, meta_job_add(world.metadata, &job, NOW, &world.refusal));
    assert_int_equal(strlen(world_get_job(&world, world.acme.id, "ftjob-1").settings), META_VALUE_BYTES_MAX);
    world_end(&world);
}

/* --- tenants ---------------------------------------------------------------------------------------------------------------- */

static void tenants_names_are_never_given_again(void **state)
{
    static const char *const bad[] = {"", "-a", "a-", "A", "a b", "a_b", "caf\xc3\xa9", "a/b", "a:b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    struct meta_tenant *tenants;
    char id[NAME_BYTES];
    struct world world;
    uint32_t count;
    bool more;

    (void)state;
    world_begin(&world);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        assert_int_equal(meta_tenant_add(world.metadata, bad[i], NOW, id, &world.refusal), STATUS_INVALID);
    OK(&world, meta_tenant_add(world.metadata, "acme", NOW, id, &world.refusal));
    OK(&world, meta_tenant_move(world.metadata, id, "active", "deleting", &world.refusal));
    OK(&world, meta_tenant_move(world.metadata, id, "deleting", "deleted", &world.refusal));
    assert_int_equal(meta_tenant_move(world.metadata, id, "deleted", "active", &world.refusal), STATUS_INVALID);
    assert_int_equal(meta_tenant_move(world.metadata, id, "active", "suspended", &world.refusal), STATUS_CONFLICT);
    assert_int_equal(meta_tenant_set(world.metadata, id, "priority", "1", &world.refusal), STATUS_NOT_FOUND);
    assert_int_equal(meta_tenant_add(world.metadata, "acme", NOW, id, &world.refusal), STATUS_CONFLICT);
    OK(&world, meta_tenant_add(world.metadata, "beta-2", NOW, id, &world.refusal));
    OK(&world, meta_tenant_list(world.metadata, 0, 1, &world.results, &tenants, &count, &more, &world.refusal));
    assert_true(more);
    OK(&world, meta_tenant_list(world.metadata, tenants[0].number, 10, &world.results, &tenants, &count, &more, &world.refusal));
    assert_int_equal(count, 1);
    assert_string_equal(tenants[0].slug, "beta-2");
    assert_false(more);
    world_end(&world);
}

static void settings_have_ranges(void **state)
{
    static const struct {
        const char *name, *value;
        enum status status;
    } cases[] = {
        {"weight_milli", "2000", STATUS_OK},   {"weight_milli", "0", STATUS_INVALID},      {"weight_milli", "1000001", STATUS_INVALID},
        {"weight_milli", "12x", STATUS_INVALID}, {"weight_milli", "", STATUS_INVALID},     {"weight_milli", " 5", STATUS_INVALID},
        {"weight_milli", "99999999999999999999", STATUS_INVALID},
        {"borrowing_milli", "-1", STATUS_OK},  {"borrowing_milli", "-2", STATUS_INVALID},  {"priority", "-1000", STATUS_OK},
        {"isolation", "exclusive", STATUS_OK}, {"isolation", "none", STATUS_INVALID},      {"cohort", "research", STATUS_OK},
        {"cohort", "a b", STATUS_INVALID},     {"consent", "support", STATUS_OK},          {"consent", "all", STATUS_INVALID},
        {"slug", "x", STATUS_INVALID},         {"state", "deleted", STATUS_INVALID},       {"share_usage", "0", STATUS_INVALID},
    };
    struct meta_tenant tenant;
    struct world world;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const enum status status = meta_tenant_set(world.metadata, world.acme.id, cases[i].name, cases[i].value, &world.refusal);

        if (status != cases[i].status)
            fail_msg("%s=%s: %s", cases[i].name, cases[i].value, status_text(status));
    }
    OK(&world, meta_tenant_get(world.metadata, world.acme.id, &world.results, &tenant, &world.refusal));
    assert_int_equal(tenant.weight_milli, 2000);
    assert_int_equal(tenant.borrowing_milli, -1);
    assert_int_equal(tenant.priority, -1000);
    assert_string_equal(tenant.isolation, "exclusive");
    assert_string_equal(tenant.cohort, "research");
    assert_string_equal(tenant.consent, "support");
    world_end(&world);
}

/* --- files ------------------------------------------------------------------------------------------------------------------ */

static void a_file_goes_its_way_once(void **state)
{
    struct world world;
    struct meta_file file;
    struct meta_object object;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    OK(&world, meta_file_judged(world.metadata, world.acme.id, world.acme.file, true, 10, 200, NULL, &world.refusal));
    assert_int_equal(meta_file_judged(world.metadata, world.acme.id, world.acme.file, false, 10, 200, NULL, &world.refusal), STATUS_CONFLICT);
    OK(&world, meta_file_get(world.metadata, world.acme.id, world.acme.file, &world.results, &file, &world.refusal));
    assert_string_equal(file.state, "processed");
    assert_int_equal(file.tokens, 200);
    assert_int_equal(file.bytes, 1000);
    assert_int_equal(file.sealed.count, 8);
    assert_memory_equal(file.sealed.bytes, "\0sealed\xff", 8);
    assert_int_equal(meta_file_delete(world.metadata, world.acme.id, world.acme.file, &world.refusal), STATUS_CONFLICT);
    OK(&world, world_move(world.metadata, world.acme.id, world.acme.job, META_JOB_VALIDATING, 0, META_JOB_CANCELLED, META_JOB_NO_TARGET, &world.refusal));
    OK(&world, meta_file_delete(world.metadata, world.acme.id, world.acme.file, &world.refusal));
    assert_int_equal(meta_file_delete(world.metadata, world.acme.id, world.acme.file, &world.refusal), STATUS_NOT_FOUND);
    OK(&world, meta_object_get(world.metadata, world.acme.id, file.object, &world.results, &object, &world.refusal));
    assert_string_equal(object.state, "doomed");
    OK(&world, meta_object_gone(world.metadata, world.acme.id, file.object, &world.refusal));
    assert_int_equal(meta_object_gone(world.metadata, world.acme.id, file.object, &world.refusal), STATUS_CONFLICT);
    world_end(&world);
}

static void files_are_as_many_as_the_tenant_may_have(void **state)
{
    const struct meta_bytes none = {0};
    char object[NAME_BYTES];
    struct world world;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    OK(&world, meta_tenant_set(world.metadata, world.acme.id, "files_max", "2", &world.refusal));
    world_object(&world, world.acme.id, object);
    OK(&world, meta_file_add(world.metadata, world.acme.id, "file-a", object, "fine-tune", none, META_NONE, NOW, &world.refusal));
    assert_int_equal(meta_file_add(world.metadata, world.acme.id, "file-b", object, "fine-tune", none, META_NONE, NOW, &world.refusal), STATUS_FULL);
    OK(&world, meta_file_delete(world.metadata, world.acme.id, "file-a", &world.refusal));
    /* Its object went with it, and an id that was is never given again. */
    assert_int_equal(meta_file_add(world.metadata, world.acme.id, "file-b", object, "fine-tune", none, META_NONE, NOW, &world.refusal), STATUS_INVALID);
    world_object(&world, world.acme.id, object);
    assert_int_equal(meta_file_add(world.metadata, world.acme.id, "file-a", object, "fine-tune", none, META_NONE, NOW, &world.refusal), STATUS_CONFLICT);
    OK(&world, meta_file_add(world.metadata, world.acme.id, "file-b", object, "fine-tune", none, META_NONE, NOW, &world.refusal));
    world_end(&world);
}

/* --- retries ---------------------------------------------------------------------------------------------------------------- */

struct retry {
    const char *key;
    uint8_t body[META_DIGEST_BYTES];
    int64_t now;
    char made[NAME_BYTES];
    bool again;
};

static enum status ask(struct world *world, struct retry *retry)
{
    char id[NAME_BYTES];
    const struct meta_job_new job = {.tenant = world->acme.id, .id = id, .base = "tiny", .file = world->acme.file, .settings = "{}"};
    enum status status;

    meta_id("ftjob-", id);
    OK(world, meta_begin(world->metadata, &world->refusal));
    status = meta_once(world->metadata, world->acme.id, retry->key, retry->body, id, retry->now + 1000, retry->now, &retry->again, retry->made,
                       &world->refusal);
    if (status == STATUS_OK && !retry->again) {
        memcpy(retry->made, id, NAME_BYTES);
        status = meta_job_add(world->metadata, &job, retry->now, &world->refusal);
    }
    return meta_end(world->metadata, status, &world->refusal);
}

/* Random requests with few keys and bodies against a list of what was answered. */
static void a_retried_request_makes_one_thing(void **state)
{
    const uint64_t seed = test_seed(11);
    struct {
        int body;
        int64_t expires_at;
        char made[NAME_BYTES];
    } model[6] = {{0}};
    struct meta_page page = {.limit = META_PAGE_MAX};
    struct meta_job *jobs;
    struct world world;
    uint64_t random = seed;
    int64_t now = NOW;
    uint32_t jobs_made = 0;
    uint32_t counted = 0;
    unsigned answers[3] = {0};
    uint32_t count;
    bool more;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    OK(&world, meta_tenant_set(world.metadata, world.acme.id, "jobs_max", "40", &world.refusal));
    for (int i = 0; i < 600; i++) {
        static const char *const keys[] = {"k0", "k1", "k2", "k3", "k4", "k5"};
        const uint64_t key = draw_below(&random, 6);
        const int body = 1 + (int)draw_below(&random, 2);
        struct retry retry = {.key = keys[key], .body = {(uint8_t)body}, .now = now += (int64_t)draw_below(&random, 150)};
        const bool known = model[key].expires_at > now;
        enum status status = ask(&world, &retry);

        if (known && model[key].body != body) {
            answers[0]++;
            if (status != STATUS_CONFLICT)
                fail_msg("seed %llu, request %d: %s", (unsigned long long)seed, i, status_text(status));
        } else if (known) {
            answers[1]++;
            assert_int_equal(status, STATUS_OK);
            assert_true(retry.again);
            assert_string_equal(retry.made, model[key].made);
        } else if (jobs_made + 1 >= 40) {
            /* Refused as a whole: the key is free for when there is room. */
            answers[2]++;
            assert_int_equal(status, STATUS_FULL);
        } else {
            assert_int_equal(status, STATUS_OK);
            assert_false(retry.again);
            jobs_made++;
            model[key].body = body;
            model[key].expires_at = now + 1000;
            memcpy(model[key].made, retry.made, NAME_BYTES);
        }
    }
    {
        /* Exactly when it expires a key is free again. */
        struct retry retry = {.key = "edge", .body = {1}, .now = now};

        OK(&world, meta_tenant_set(world.metadata, world.acme.id, "jobs_max", "50", &world.refusal));
        assert_int_equal(ask(&world, &retry), STATUS_OK);
        retry.now = now + 999;
        assert_int_equal(ask(&world, &retry), STATUS_OK);
        assert_true(retry.again);
        retry.now = now + 1000;
        assert_int_equal(ask(&world, &retry), STATUS_OK);
        assert_false(retry.again);
        jobs_made += 2;
    }
    do {
        OK(&world, meta_job_list(world.metadata, world.acme.id, &page, &world.results, &jobs, &count, &more, &world.refusal));
        counted += count;
    } while (more);
    assert_int_equal(counted, jobs_made + 1);
    print_message("%u jobs, %u other bodies, %u retries, %u without room\n", jobs_made, answers[0], answers[1], answers[2]);
    assert_true(answers[0] > 10 && answers[1] > 10 && answers[2] > 10);
    {
        int64_t swept = 0;

        OK(&world, meta_once_sweep(world.metadata, now + 2000, 1000, &swept, &world.refusal));
        assert_true(swept > 0);
        OK(&world, meta_once_sweep(world.metadata, now + 2000, 1000, &swept, &world.refusal));
        assert_int_equal(swept, 0);
    }
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_there_again),
        cmocka_unit_test(a_newer_schema_is_refused),
        cmocka_unit_test(another_server_key_is_refused),
        cmocka_unit_test(anothers_database_or_no_database_is_refused),
        cmocka_unit_test(a_damaged_database_is_refused),
        cmocka_unit_test(what_cannot_be_written_says_so),
        cmocka_unit_test(a_full_disk_refuses_and_keeps_nothing_of_it),
        cmocka_unit_test(a_transaction_in_a_transaction_goes_with_it),
        cmocka_unit_test(each_act_is_synced_before_it_is_told),
        cmocka_unit_test(values_have_a_bound),
        cmocka_unit_test(tenants_names_are_never_given_again),
        cmocka_unit_test(settings_have_ranges),
        cmocka_unit_test(a_file_goes_its_way_once),
        cmocka_unit_test(files_are_as_many_as_the_tenant_may_have),
        cmocka_unit_test(a_retried_request_makes_one_thing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
