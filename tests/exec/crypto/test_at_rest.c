/* Vault, envelope and store together: what a thief of the disk finds, what a shredding leaves, and how much memory a long stream takes. */
#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../scratch.h"
#include "crypto/envelope.h"
#include "store/store.h"
#include "vault_rig.h"

/* AddressSanitizer keeps what was freed for a while. */
#if defined(__SANITIZE_ADDRESS__)
#define STREAM_MB 24
#define GROWTH_KB 8192
#else
#define STREAM_MB 64
#define GROWTH_KB 1024
#endif

static const char secret_name[] = "q3-layoffs-draft.jsonl";
static const char secret_text[] = "the patient in room 12 has";
static const char secret_event[] = "line 7: 'hunter2' is no role";

static struct scratch scratch;

static enum status sink(void *context, const void *bytes, size_t count)
{
    struct refusal refusal;

    return store_put_write(context, bytes, count, &refusal);
}

static enum status source(void *context, uint64_t offset, void *ret_bytes, size_t count)
{
    struct refusal refusal;

    return store_get_read(context, offset, ret_bytes, count, &refusal);
}

/* `megabytes` of the secret text over and over, each megabyte with its number in front. */
#define MB 1048576
static void fill(char *bytes, uint64_t number)
{
    for (size_t at = 0; at < MB; at++)
        bytes[at] = secret_text[at % (sizeof(secret_text) - 1)];
    memcpy(bytes, &number, sizeof(number));
}

static void seal_object(struct vault *vault, struct store *store, const char *id, uint64_t megabytes)
{
    const struct envelope_label label = {.tenant = "acme", .object = id, .purpose = "fine-tune"};
    uint8_t *key = secret_alloc(KEY_BYTES);
    char *bytes = malloc(MB);
    struct store_put *put = NULL;
    struct sealer *sealer = NULL;
    struct refusal refusal;
    uint64_t written = 0;

    assert_int_equal(vault_key_create(vault, "acme", id, key, &refusal), STATUS_OK);
    assert_int_equal(store_put_begin(store, "acme", id, STORE_QUOTA_NONE, &put, &refusal), STATUS_OK);
    assert_int_equal(sealer_open(&label, id, key, sink, put, &sealer), STATUS_OK);
    for (uint64_t i = 0; i < megabytes; i++) {
        fill(bytes, i);
        assert_int_equal(sealer_put(sealer, bytes, MB), STATUS_OK);
    }
    assert_int_equal(sealer_finish(sealer), STATUS_OK);
    sealer_close(sealer);
    assert_int_equal(store_put_commit(put, &written, &refusal), STATUS_OK);
    assert_int_equal(written, envelope_sealed_bytes(megabytes * MB));
    free(bytes);
    secret_free(key);
}

static enum status open_object(struct vault *vault, struct store *store, const char *id, uint64_t megabytes)
{
    const struct envelope_label label = {.tenant = "acme", .object = id, .purpose = "fine-tune"};
    uint8_t *key = secret_alloc(KEY_BYTES);
    char *bytes = malloc(MB);
    char *expected = malloc(MB);
    struct store_get *get = NULL;
    struct opener *opener = NULL;
    struct refusal refusal;
    enum status status = vault_key_give(vault, "acme", id, key, &refusal);

    assert_int_equal(store_get_open(store, "acme", id, &get, &refusal), STATUS_OK);
    if (status == STATUS_OK)
        status = opener_open(&label, key, store_get_bytes(get), source, get, &opener);
    for (uint64_t i = 0; status == STATUS_OK && i < megabytes; i++) {
        fill(expected, i);
        status = opener_read(opener, i * MB, bytes, MB);
        if (status == STATUS_OK)
            assert_memory_equal(bytes, expected, MB);
    }
    opener_close(opener);
    store_get_close(get);
    free(expected);
    free(bytes);
    secret_free(key);
    return status;
}

static bool holds(const void *data, size_t size, const void *bytes, size_t count)
{
    const char *at = data;

    for (; size >= count; at++, size--) {
        const char *next = memchr(at, *(const char *)bytes, size - count + 1);

        if (next == NULL)
            return false;
        size -= (size_t)(next - at);
        at = next;
        if (memcmp(at, bytes, count) == 0)
            return true;
    }
    return false;
}

/* How many files below `path` hold these bytes; names of files count too. */
static unsigned files_holding(const char *path, const void *bytes, size_t count)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    unsigned found = 0;
    struct refusal refusal;

    if (directory == NULL) {
        void *data = NULL;
        int64_t size = 0;

        assert_int_equal(file_read(AT_FDCWD, path, path, 1 << 30, &data, &size, &refusal), STATUS_OK);
        found = holds(data, (size_t)size, bytes, count) || holds(path, strlen(path), bytes, count);
        free(data);
        return found;
    }
    while ((entry = readdir(directory)) != NULL) {
        char below[900];

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || strcmp(entry->d_name, "master.key") == 0)
            continue;
        snprintf(below, sizeof(below), "%.500s/%s", path, entry->d_name);
        found += files_holding(below, bytes, count);
    }
    closedir(directory);
    return found;
}

static void write_sealed(struct vault_rig *rig, const char *purpose, const char *text)
{
    uint8_t sealed[256];
    size_t bytes = strlen(text);
    char path[400];
    FILE *file;

    assert_int_equal(vault_text_seal(rig->client, "acme", purpose, "file-1", text, bytes, sealed, &rig->refusal), STATUS_OK);
    snprintf(path, sizeof(path), "%s/%s.sealed", rig->folder, purpose);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(sealed, 1, bytes + VAULT_SEALED_EXTRA, file), bytes + VAULT_SEALED_EXTRA);
    fclose(file);
}

static void planted_secrets_are_in_no_file(void **state)
{
    struct vault_rig rig;
    struct store *store = NULL;
    uint8_t key[KEY_BYTES];
    char path[400];

    (void)state;
    vault_rig_init(&rig, scratch_folder(&scratch, "planted"));
    snprintf(path, sizeof(path), "%s/store", rig.folder);
    assert_int_equal(vault_rig_start(&rig), STATUS_OK);
    assert_int_equal(store_local_open(path, &store, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_tenant_create(rig.client, "acme", &rig.refusal), STATUS_OK);
    seal_object(rig.client, store, "file-1", 1);
    write_sealed(&rig, "name", secret_name);
    write_sealed(&rig, "event", secret_event);
    assert_int_equal(vault_tenant_rotate(rig.client, "acme", &rig.refusal), STATUS_OK);
    assert_int_equal(vault_key_give(rig.client, "acme", "file-1", key, &rig.refusal), STATUS_OK);
    /* While all is open, so that the log of keys.db is there. */
    assert_int_equal(files_holding(rig.folder, "BERTHOBJ", 8), 1); /* the search does find */
    assert_true(files_holding(rig.folder, "file-1", 6) >= 3);
    for (size_t i = 0; i + 8 <= sizeof(secret_text) - 1; i += 8)
        assert_int_equal(files_holding(rig.folder, secret_text + i, 8), 0);
    assert_int_equal(files_holding(rig.folder, "layoffs", 7), 0);
    assert_int_equal(files_holding(rig.folder, "hunter2", 7), 0);
    for (size_t i = 0; i < KEY_BYTES; i += 8)
        assert_int_equal(files_holding(rig.folder, key + i, 8), 0);
    assert_int_equal(master_load(&rig.options.master, key, &rig.refusal), STATUS_OK);
    for (size_t i = 0; i < KEY_BYTES; i += 8)
        assert_int_equal(files_holding(rig.folder, key + i, 8), 0);
    store_close(store);
    assert_int_equal(vault_rig_stop(&rig), 0);
}

/* Everything but the master key, and a thief who knows what the mark is for. */
static void a_stolen_disk_opens_nothing(void **state)
{
    struct vault_rig rig;
    struct store *store = NULL;
    sqlite3 *file = NULL;
    char path[400];
    uint8_t sealed[5 + VAULT_SEALED_EXTRA];
    char opened[8];

    (void)state;
    vault_rig_init(&rig, scratch_folder(&scratch, "stolen"));
    snprintf(path, sizeof(path), "%s/store", rig.folder);
    assert_int_equal(vault_rig_start(&rig), STATUS_OK);
    assert_int_equal(store_local_open(path, &store, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_tenant_create(rig.client, "acme", &rig.refusal), STATUS_OK);
    seal_object(rig.client, store, "file-1", 1);
    assert_int_equal(open_object(rig.client, store, "file-1", 1), STATUS_OK);
    assert_int_equal(vault_text_seal(rig.client, "acme", "name", "file-1", "hello", 5, sealed, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_rig_stop(&rig), 0);

    assert_int_equal(unlink(rig.master_path), 0);
    assert_int_equal(vault_rig_start(&rig), STATUS_NOT_FOUND);
    (void)vault_rig_stop(&rig);
    assert_int_equal(master_create(rig.master_path, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_rig_start(&rig), STATUS_INVALID);
    assert_non_null(strstr(rig.refusal.text, "another master key"));
    (void)vault_rig_stop(&rig);
    assert_int_equal(sqlite3_open(rig.keys_path, &file), SQLITE_OK);
    assert_int_equal(sqlite3_exec(file, "DELETE FROM meta", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(file);
    assert_int_equal(vault_rig_start(&rig), STATUS_OK);
    assert_int_equal(open_object(rig.client, store, "file-1", 1), STATUS_CORRUPT);
    assert_int_equal(vault_text_open(rig.client, "acme", "name", "file-1", sealed, sizeof(sealed), opened, &rig.refusal), STATUS_CORRUPT);
    store_close(store);
    assert_int_equal(vault_rig_stop(&rig), 0);
}

static void a_shredded_object_opens_no_more(void **state)
{
    struct vault_rig rig;
    struct store *store = NULL;
    char path[400];

    (void)state;
    vault_rig_init(&rig, scratch_folder(&scratch, "shredded"));
    snprintf(path, sizeof(path), "%s/store", rig.folder);
    assert_int_equal(vault_rig_start(&rig), STATUS_OK);
    assert_int_equal(store_local_open(path, &store, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_tenant_create(rig.client, "acme", &rig.refusal), STATUS_OK);
    for (unsigned i = 0; i < 3; i++) {
        char id[] = "file-0";

        id[5] = (char)('0' + i);
        seal_object(rig.client, store, id, 1);
    }
    assert_int_equal(vault_key_shred(rig.client, "acme", "file-1", &rig.refusal), STATUS_OK);
    assert_int_equal(open_object(rig.client, store, "file-1", 1), STATUS_NOT_FOUND);
    assert_int_equal(open_object(rig.client, store, "file-0", 1), STATUS_OK);
    assert_int_equal(vault_tenant_shred(rig.client, "acme", &rig.refusal), STATUS_OK);
    assert_int_equal(open_object(rig.client, store, "file-0", 1), STATUS_NOT_FOUND);
    assert_int_equal(open_object(rig.client, store, "file-2", 1), STATUS_NOT_FOUND);
    store_close(store);
    assert_int_equal(vault_rig_stop(&rig), 0);
}

static long peak_kb(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void a_long_stream_takes_no_more_memory_than_a_short_one(void **state)
{
    const char *given = getenv("BERTH_TEST_STREAM_MB");
    uint64_t megabytes = given != NULL ? (uint64_t)atoll(given) : STREAM_MB;
    struct vault_rig rig;
    struct store *store = NULL;
    char path[400];
    long before_kb;

    (void)state;
    vault_rig_init(&rig, scratch_folder(&scratch, "stream"));
    snprintf(path, sizeof(path), "%s/store", rig.folder);
    assert_int_equal(vault_rig_start(&rig), STATUS_OK);
    assert_int_equal(store_local_open(path, &store, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_tenant_create(rig.client, "acme", &rig.refusal), STATUS_OK);
    seal_object(rig.client, store, "short", 2);
    assert_int_equal(open_object(rig.client, store, "short", 2), STATUS_OK);
    before_kb = peak_kb();
    seal_object(rig.client, store, "long", megabytes);
    assert_int_equal(open_object(rig.client, store, "long", megabytes), STATUS_OK);
    printf("%llu MB sealed and opened: peak memory went from %ld to %ld KB\n", (unsigned long long)megabytes, before_kb, peak_kb());
    assert_true(peak_kb() - before_kb < GROWTH_KB);
    store_close(store);
    assert_int_equal(vault_rig_stop(&rig), 0);
}

static int begin(void **state)
{
    (void)state;
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
        cmocka_unit_test(planted_secrets_are_in_no_file),
        cmocka_unit_test(a_stolen_disk_opens_nothing),
        cmocka_unit_test(a_shredded_object_opens_no_more),
        cmocka_unit_test(a_long_stream_takes_no_more_memory_than_a_short_one),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
