/* keys.db: what is created is found again, what is destroyed is in no file, what is touched is refused. */
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../scratch.h"
#include "crypto/keys.h"
#include "keys_files.h"
#include "support.h"

static struct scratch scratch;
static const uint8_t master_a[KEY_BYTES] = {1};
static const uint8_t master_b[KEY_BYTES] = {2};
static unsigned files;

static const char *fresh(void)
{
    char name[32];

    snprintf(name, sizeof(name), "keys-%u.db", files++);
    return scratch_at(&scratch, name);
}

static struct keys *open_keys(const char *path, const uint8_t *master)
{
    struct refusal refusal = {""};
    struct keys *keys = NULL;

    if (keys_open(path, master, &keys, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    return keys;
}

static void keys_outlive_the_process(void **state)
{
    const char *path = fresh();
    struct keys *keys = open_keys(path, master_a);
    uint8_t made[3][KEY_BYTES];
    uint8_t given[KEY_BYTES];
    struct refusal refusal;
    struct stat about;
    char log[600];

    (void)state;
    assert_int_equal(keys_create(keys, "acme", "file-1", made[0], &refusal), STATUS_NOT_FOUND);
    assert_int_equal(keys_tenant_create(keys, "acme", &refusal), STATUS_OK);
    assert_int_equal(keys_tenant_create(keys, "other", &refusal), STATUS_OK);
    assert_int_equal(keys_create(keys, "acme", "file-1", made[0], &refusal), STATUS_OK);
    assert_int_equal(keys_create(keys, "acme", "file-2", made[1], &refusal), STATUS_OK);
    assert_int_equal(keys_text(keys, "acme", made[2], &refusal), STATUS_OK);
    assert_memory_not_equal(made[0], made[1], KEY_BYTES);
    snprintf(log, sizeof(log), "%s-wal", path);
    assert_int_equal(stat(log, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    keys_close(keys);

    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    keys = open_keys(path, master_a);
    assert_int_equal(keys_tenant_create(keys, "acme", &refusal), STATUS_OK); /* changes nothing */
    assert_int_equal(keys_give(keys, "acme", "file-1", given, &refusal), STATUS_OK);
    assert_memory_equal(given, made[0], KEY_BYTES);
    assert_int_equal(keys_create(keys, "acme", "file-2", given, &refusal), STATUS_OK); /* asked for again */
    assert_memory_equal(given, made[1], KEY_BYTES);
    assert_int_equal(keys_text(keys, "acme", given, &refusal), STATUS_OK);
    assert_memory_equal(given, made[2], KEY_BYTES);
    keys_close(keys);
}

static void another_tenants_key_is_as_if_it_were_not_there(void **state)
{
    struct keys *keys = open_keys(fresh(), master_a);
    uint8_t key[KEY_BYTES];
    struct refusal refusal;

    (void)state;
    assert_int_equal(keys_tenant_create(keys, "acme", &refusal), STATUS_OK);
    assert_int_equal(keys_tenant_create(keys, "other", &refusal), STATUS_OK);
    assert_int_equal(keys_create(keys, "acme", "file-1", key, &refusal), STATUS_OK);
    assert_int_equal(keys_give(keys, "other", "file-1", key, &refusal), STATUS_NOT_FOUND);
    assert_int_equal(keys_give(keys, "other", "file-2", key, &refusal), STATUS_NOT_FOUND);
    assert_int_equal(keys_shred(keys, "other", "file-1", &refusal), STATUS_NOT_FOUND);
    assert_int_equal(keys_create(keys, "other", "file-1", key, &refusal), STATUS_INVALID);
    assert_int_equal(keys_give(keys, "acme", "file-1", key, &refusal), STATUS_OK);
    keys_close(keys);
}

static void rotations_keep_every_key(void **state)
{
    const char *path = fresh();
    struct keys *keys = open_keys(path, master_a);
    uint8_t made[41][KEY_BYTES];
    uint8_t given[KEY_BYTES];
    struct refusal refusal;
    struct keys *none = NULL;

    (void)state;
    assert_int_equal(keys_tenant_create(keys, "acme", &refusal), STATUS_OK);
    assert_int_equal(keys_tenant_create(keys, "other", &refusal), STATUS_OK);
    for (unsigned i = 0; i < 40; i++) {
        char id[16];

        snprintf(id, sizeof(id), "file-%u", i);
        assert_int_equal(keys_create(keys, i % 4 == 0 ? "other" : "acme", id, made[i], &refusal), STATUS_OK);
    }
    assert_int_equal(keys_text(keys, "acme", made[40], &refusal), STATUS_OK);
    assert_int_equal(keys_shred(keys, "acme", "file-7", &refusal), STATUS_OK);
    assert_int_equal(keys_tenant_rotate(keys, "acme", &refusal), STATUS_OK);
    assert_int_equal(keys_rotate_master(keys, master_b, &refusal), STATUS_OK);
    assert_int_equal(keys_tenant_rotate(keys, "acme", &refusal), STATUS_OK);
    keys_close(keys);

    assert_int_equal(keys_open(path, master_a, &none, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "another master key"));
    keys = open_keys(path, master_b);
    for (unsigned i = 0; i < 40; i++) {
        char id[16];

        snprintf(id, sizeof(id), "file-%u", i);
        assert_int_equal(keys_give(keys, i % 4 == 0 ? "other" : "acme", id, given, &refusal), i == 7 ? STATUS_NOT_FOUND : STATUS_OK);
        if (i != 7)
            assert_memory_equal(given, made[i], KEY_BYTES);
    }
    assert_int_equal(keys_text(keys, "acme", given, &refusal), STATUS_OK);
    assert_memory_equal(given, made[40], KEY_BYTES);
    assert_int_equal(keys_tenant_rotate(keys, "nobody", &refusal), STATUS_NOT_FOUND);
    keys_close(keys);
}

static void what_is_destroyed_is_not_made_again(void **state)
{
    const char *path = fresh();
    struct keys *keys = open_keys(path, master_a);
    uint8_t key[KEY_BYTES];
    struct refusal refusal;

    (void)state;
    assert_int_equal(keys_tenant_create(keys, "acme", &refusal), STATUS_OK);
    assert_int_equal(keys_create(keys, "acme", "file-1", key, &refusal), STATUS_OK);
    assert_int_equal(keys_create(keys, "acme", "file-2", key, &refusal), STATUS_OK);
    assert_int_equal(keys_shred(keys, "acme", "file-1", &refusal), STATUS_OK);
    assert_int_equal(keys_shred(keys, "acme", "file-1", &refusal), STATUS_OK); /* may be repeated */
    assert_int_equal(keys_shred(keys, "acme", "file-3", &refusal), STATUS_NOT_FOUND);
    assert_int_equal(keys_give(keys, "acme", "file-1", key, &refusal), STATUS_NOT_FOUND);
    assert_int_equal(keys_create(keys, "acme", "file-1", key, &refusal), STATUS_NOT_FOUND);
    assert_int_equal(keys_give(keys, "acme", "file-2", key, &refusal), STATUS_OK);
    assert_int_equal(keys_tenant_shred(keys, "acme", &refusal), STATUS_OK);
    assert_int_equal(keys_tenant_shred(keys, "acme", &refusal), STATUS_OK);
    assert_int_equal(keys_tenant_shred(keys, "nobody", &refusal), STATUS_NOT_FOUND);
    assert_int_equal(keys_give(keys, "acme", "file-2", key, &refusal), STATUS_NOT_FOUND);
    assert_int_equal(keys_text(keys, "acme", key, &refusal), STATUS_NOT_FOUND);
    assert_int_equal(keys_tenant_create(keys, "acme", &refusal), STATUS_NOT_FOUND);
    assert_int_equal(keys_create(keys, "acme", "file-3", key, &refusal), STATUS_NOT_FOUND);
    keys_close(keys);
    keys = open_keys(path, master_a);
    assert_int_equal(keys_give(keys, "acme", "file-2", key, &refusal), STATUS_NOT_FOUND);
    keys_close(keys);
}

static void check_erased(const char *path, const struct row *rows, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        if (keys_files_hold(path, rows[i].wrapped, WRAPPED_KEY_BYTES) || keys_files_hold(path, rows[i].wrapped + 24, 24))
            fail_msg("%s: wrapped key %zu of %zu is still in a file", what, i, count);
}

/* Enough keys for pages to split, and ids out of order, so that rows are moved about. */
static void what_is_destroyed_is_in_no_file(void **state)
{
    enum { KEYS = 200 };
    const char *path = fresh();
    struct keys *keys = open_keys(path, master_a);
    static struct row deks[KEYS + 1];
    static struct row all[KEYS + 1];
    struct row keks[2];
    uint64_t seed = test_seed(4);
    uint8_t key[KEY_BYTES];
    struct refusal refusal;
    char query[200];

    (void)state;
    assert_int_equal(keys_tenant_create(keys, "acme", &refusal), STATUS_OK);
    for (unsigned i = 0; i < KEYS; i++) {
        char id[40];

        snprintf(id, sizeof(id), "file-%08x-%u", (unsigned)draw(&seed), i);
        assert_int_equal(keys_create(keys, "acme", id, key, &refusal), STATUS_OK);
        if (i % 2 == 0) {
            snprintf(query, sizeof(query), "SELECT wrapped FROM dek WHERE id = '%s'", id);
            assert_int_equal(keys_files_rows(path, query, &deks[0], 1), 1);
            assert_true(keys_files_hold(path, deks[0].wrapped, WRAPPED_KEY_BYTES)); /* the search finds what is there */
            assert_int_equal(keys_shred(keys, "acme", id, &refusal), STATUS_OK);
            check_erased(path, deks, 1, "a shredded key");
        }
    }
    assert_int_equal(keys_files_rows(path, "SELECT wrapped FROM dek WHERE wrapped IS NOT NULL", all, KEYS + 1), KEYS / 2 + 1);
    assert_int_equal(keys_files_rows(path, "SELECT wrapped FROM kek WHERE wrapped IS NOT NULL", keks, 2), 1);
    assert_int_equal(keys_tenant_rotate(keys, "acme", &refusal), STATUS_OK);
    check_erased(path, all, KEYS / 2 + 1, "a key before its tenant's rotation");
    check_erased(path, keks, 1, "a tenant's key before its rotation");

    assert_int_equal(keys_files_rows(path, "SELECT wrapped FROM kek WHERE wrapped IS NOT NULL", keks, 2), 1);
    assert_int_equal(keys_rotate_master(keys, master_b, &refusal), STATUS_OK);
    check_erased(path, keks, 1, "a tenant's key before the master's rotation");

    assert_int_equal(keys_files_rows(path, "SELECT wrapped FROM dek WHERE wrapped IS NOT NULL", all, KEYS + 1), KEYS / 2 + 1);
    assert_int_equal(keys_files_rows(path, "SELECT wrapped FROM kek WHERE wrapped IS NOT NULL", keks, 2), 1);
    assert_int_equal(keys_tenant_shred(keys, "acme", &refusal), STATUS_OK);
    check_erased(path, all, KEYS / 2 + 1, "a shredded tenant's data keys");
    check_erased(path, keks, 1, "a shredded tenant's key");
    keys_close(keys);
}

/* Whoever may write the file but has no key: rows swapped, changed, cut. */
static void a_touched_row_is_refused(void **state)
{
    static const char *const acts[] = {
        "UPDATE dek SET wrapped = (SELECT wrapped FROM dek WHERE id = 'file-2') WHERE id = 'file-1'",
        "UPDATE dek SET wrapped = (SELECT wrapped FROM dek WHERE id = 'file-3') WHERE id = 'file-1'",
        "UPDATE dek SET tenant = 'acme', wrapped = (SELECT wrapped FROM dek WHERE id = 'file-3') WHERE id = 'file-1'",
        "UPDATE dek SET kek_version = 2 WHERE id = 'file-1'",
        "UPDATE dek SET wrapped = zeroblob(72) WHERE id = 'file-1'",
        "UPDATE dek SET wrapped = substr(wrapped, 1, 71) WHERE id = 'file-1'",
        "UPDATE dek SET wrapped = 'text' WHERE id = 'file-1'",
        "UPDATE kek SET wrapped = (SELECT wrapped FROM kek WHERE tenant = 'other') WHERE tenant = 'acme'",
        "UPDATE kek SET version = 2 WHERE tenant = 'acme'"};
    uint8_t key[KEY_BYTES];
    struct refusal refusal;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(acts); i++) {
        const char *path = fresh();
        struct keys *keys = open_keys(path, master_a);
        sqlite3 *file = NULL;

        assert_int_equal(keys_tenant_create(keys, "acme", &refusal), STATUS_OK);
        assert_int_equal(keys_tenant_create(keys, "other", &refusal), STATUS_OK);
        assert_int_equal(keys_create(keys, "acme", "file-1", key, &refusal), STATUS_OK);
        assert_int_equal(keys_create(keys, "acme", "file-2", key, &refusal), STATUS_OK);
        assert_int_equal(keys_create(keys, "other", "file-3", key, &refusal), STATUS_OK);
        keys_close(keys);
        assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
        assert_int_equal(sqlite3_exec(file, acts[i], NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_changes(file), 1);
        sqlite3_close(file);
        keys = open_keys(path, master_a);
        if (keys_give(keys, "acme", "file-1", key, &refusal) != STATUS_CORRUPT)
            fail_msg("%s: is not noticed", acts[i]);
        if (keys_tenant_rotate(keys, "acme", &refusal) != STATUS_CORRUPT)
            fail_msg("%s: is rotated", acts[i]);
        keys_close(keys);
    }
}

static void a_file_of_others_or_of_another_process_is_refused(void **state)
{
    const char *path = fresh();
    struct keys *keys = open_keys(path, master_a);
    struct keys *second = NULL;
    struct refusal refusal;

    (void)state;
    assert_int_equal(keys_open(path, master_a, &second, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "another process"));
    keys_close(keys);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(keys_open(path, master_a, &second, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "chmod 600"));
    path = fresh();
    scratch_text(&scratch, strrchr(path, '/') + 1, "this is no database, but it is long enough to be looked at as one, is it not");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(keys_open(path, master_a, &second, &refusal), STATUS_CORRUPT);
}

static int begin(void **state)
{
    (void)state;
    /* Hundreds of syncs, and no power is lost here. */
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0);
    scratch_begin(&scratch);
    return 0;
}

static int end(void **state)
{
    (void)state;
    scratch_end(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_outlive_the_process),
        cmocka_unit_test(another_tenants_key_is_as_if_it_were_not_there),
        cmocka_unit_test(rotations_keep_every_key),
        cmocka_unit_test(what_is_destroyed_is_not_made_again),
        cmocka_unit_test(what_is_destroyed_is_in_no_file),
        cmocka_unit_test(a_touched_row_is_refused),
        cmocka_unit_test(a_file_of_others_or_of_another_process_is_refused),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
