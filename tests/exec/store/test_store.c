/* The local store: what was committed is there whole, the rest is not; names, ranges, quotas, lists. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../scratch.h"
#include "store/store.h"
#include "support.h"

static struct scratch scratch;
static unsigned folders;

static const char *fresh(void)
{
    char name[16];

    snprintf(name, sizeof(name), "s%u", folders++);
    return scratch_at(&scratch, name);
}

static struct store *open_store(const char *folder)
{
    struct refusal refusal = {""};
    struct store *store = NULL;

    if (store_local_open(folder, &store, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    return store;
}

static enum status put(struct store *store, const char *tenant, const char *object, const void *bytes, size_t count, uint64_t quota,
                       struct refusal *refusal)
{
    struct store_put *writing = NULL;
    uint64_t written = 0;
    enum status status = store_put_begin(store, tenant, object, quota, &writing, refusal);

    if (status != STATUS_OK)
        return status;
    for (size_t at = 0; status == STATUS_OK && at < count; at += 1000)
        status = store_put_write(writing, (const char *)bytes + at, min_u64(1000, count - at), refusal);
    if (status != STATUS_OK) {
        store_put_abandon(writing);
        return status;
    }
    status = store_put_commit(writing, &written, refusal);
    if (status == STATUS_OK)
        assert_int_equal(written, count);
    return status;
}

static bool holds(struct store *store, const char *tenant, const char *object, const void *bytes, size_t count)
{
    struct store_get *get = NULL;
    struct refusal refusal;
    char *read = malloc(count + 1);
    bool same = store_get_open(store, tenant, object, &get, &refusal) == STATUS_OK && store_get_bytes(get) == count &&
                store_get_read(get, 0, read, count, &refusal) == STATUS_OK && memcmp(read, bytes, count) == 0;

    store_get_close(get);
    free(read);
    return same;
}

static unsigned entries(const char *folder)
{
    DIR *directory = opendir(folder);
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count - 2;
}

static void what_is_committed_is_there(void **state)
{
    static char bytes[70000];
    const char *folder = fresh();
    struct store *store = open_store(folder);
    struct store_get *get = NULL;
    struct refusal refusal;
    uint64_t seed = test_seed(1);
    char part[512];
    char path[512];
    struct stat about;

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)draw(&seed);
    assert_int_equal(put(store, "acme", "file-1", bytes, sizeof(bytes), STORE_QUOTA_NONE, &refusal), STATUS_OK);
    assert_int_equal(put(store, "acme", "empty", bytes, 0, STORE_QUOTA_NONE, &refusal), STATUS_OK);
    assert_int_equal(put(store, "acme", "file-1", bytes, 5, STORE_QUOTA_NONE, &refusal), STATUS_INVALID);
    assert_int_equal(put(store, "other", "file-1", bytes, 5, STORE_QUOTA_NONE, &refusal), STATUS_OK);
    store_close(store);

    store = open_store(folder);
    assert_true(holds(store, "acme", "file-1", bytes, sizeof(bytes)));
    assert_true(holds(store, "acme", "empty", bytes, 0));
    assert_true(holds(store, "other", "file-1", bytes, 5));
    assert_int_equal(store_get_open(store, "other", "empty", &get, &refusal), STATUS_NOT_FOUND);
    assert_int_equal(store_get_open(store, "acme", "file-1", &get, &refusal), STATUS_OK);
    for (int i = 0; i < 100; i++) {
        size_t from = draw_below(&seed, sizeof(bytes) + 1);
        size_t count = draw_below(&seed, min_u64(sizeof(part), sizeof(bytes) - from) + 1);

        assert_int_equal(store_get_read(get, from, part, count, &refusal), STATUS_OK);
        assert_memory_equal(part, bytes + from, count);
    }
    assert_int_equal(store_used_bytes(store, "acme"), sizeof(bytes));
    assert_int_equal(store_delete(store, "acme", "file-1", &refusal), STATUS_OK);
    assert_int_equal(store_get_read(get, 0, part, 100, &refusal), STATUS_OK); /* who has it open reads on */
    assert_memory_equal(part, bytes, 100);
    store_get_close(get);
    assert_int_equal(store_delete(store, "acme", "file-1", &refusal), STATUS_NOT_FOUND);
    assert_int_equal(store_get_open(store, "acme", "file-1", &get, &refusal), STATUS_NOT_FOUND);
    assert_int_equal(store_used_bytes(store, "acme"), 0);
    /* Where an object lies is part of the format: a store made by one build is opened by the next. */
    snprintf(path, sizeof(path), "%s/objects/other/89/file-1", folder);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    store_close(store);
}

static void names_that_are_paths_are_refused(void **state)
{
    static const char *const bad[] = {"", ".", "..", "../acme", "a/b", "/etc", "a\nb", "a.b", "a%2fb"};
    struct store *store = open_store(fresh());
    struct store_put *writing = NULL;
    struct store_get *get = NULL;
    struct refusal refusal;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(store_put_begin(store, bad[i], "a", 1, &writing, &refusal), STATUS_INVALID);
        assert_int_equal(store_put_begin(store, "a", bad[i], 1, &writing, &refusal), STATUS_INVALID);
        assert_int_equal(store_get_open(store, "a", bad[i], &get, &refusal), STATUS_INVALID);
        assert_int_equal(store_get_open(store, bad[i], "a", &get, &refusal), STATUS_INVALID);
        assert_int_equal(store_delete(store, bad[i], "a", &refusal), STATUS_INVALID);
        assert_int_equal(store_delete(store, "a", bad[i], &refusal), STATUS_INVALID);
    }
    store_close(store);
}

static void what_is_not_committed_is_swept(void **state)
{
    const char *folder = fresh();
    struct store *store = open_store(folder);
    struct store_put *kept[2];
    struct refusal refusal;
    char writing[300];

    (void)state;
    snprintf(writing, sizeof(writing), "%s/writing", folder);
    assert_int_equal(store_put_begin(store, "acme", "a", STORE_QUOTA_NONE, &kept[0], &refusal), STATUS_OK);
    assert_int_equal(store_put_write(kept[0], "abc", 3, &refusal), STATUS_OK);
    assert_int_equal(store_put_begin(store, "acme", "b", STORE_QUOTA_NONE, &kept[1], &refusal), STATUS_OK);
    assert_int_equal(entries(writing), 2);
    assert_int_equal(store_used_bytes(store, "acme"), 3);
    store_put_abandon(kept[0]);
    assert_int_equal(entries(writing), 1);
    assert_int_equal(store_used_bytes(store, "acme"), 0);
    store_put_abandon(kept[1]);
    /* As a process leaves them that is killed. */
    snprintf(writing, sizeof(writing), "%s/writing/17", folder);
    close(open(writing, O_CREAT | O_WRONLY, 0600));
    store_close(store);
    store = open_store(folder);
    snprintf(writing, sizeof(writing), "%s/writing", folder);
    assert_int_equal(entries(writing), 0);
    store_close(store);
}

static void a_quota_holds(void **state)
{
    static const char bytes[4000];
    const char *folder = fresh();
    struct store *store = open_store(folder);
    struct store_put *writing = NULL;
    struct refusal refusal;
    uint64_t written = 0;

    (void)state;
    assert_int_equal(put(store, "acme", "a", bytes, 3000, 5000, &refusal), STATUS_OK);
    assert_int_equal(put(store, "acme", "b", bytes, 2001, 5000, &refusal), STATUS_FULL);
    assert_non_null(strstr(refusal.text, "quota of 5000 bytes"));
    assert_int_equal(store_used_bytes(store, "acme"), 3000);
    assert_int_equal(put(store, "acme", "b", bytes, 2000, 5000, &refusal), STATUS_OK);
    assert_int_equal(put(store, "acme", "c", bytes, 1, 5000, &refusal), STATUS_FULL);
    assert_int_equal(put(store, "acme", "c", bytes, 1, 100, &refusal), STATUS_FULL); /* lowered below what is there */
    assert_int_equal(put(store, "other", "c", bytes, 4000, 5000, &refusal), STATUS_OK);
    assert_int_equal(store_delete(store, "acme", "a", &refusal), STATUS_OK);
    assert_int_equal(put(store, "acme", "c", bytes, 3000, 5000, &refusal), STATUS_OK);
    store_close(store);

    store = open_store(folder); /* counted anew */
    assert_int_equal(store_used_bytes(store, "acme"), 5000);
    /* What is being written counts, and a write that was refused keeps the whole from being committed. */
    assert_int_equal(store_put_begin(store, "acme", "d", 6000, &writing, &refusal), STATUS_OK);
    assert_int_equal(store_put_write(writing, bytes, 900, &refusal), STATUS_OK);
    assert_int_equal(put(store, "acme", "e", bytes, 101, 6000, &refusal), STATUS_FULL);
    assert_int_equal(store_put_write(writing, bytes, 101, &refusal), STATUS_FULL);
    assert_int_equal(store_put_commit(writing, &written, &refusal), STATUS_IO);
    assert_false(holds(store, "acme", "d", bytes, 900));
    assert_int_equal(store_used_bytes(store, "acme"), 5000);
    store_close(store);
}

static void a_worker_may_write_an_object_itself(void **state)
{
    static const char bytes[4000] = "written by somebody else";
    struct store *store = open_store(fresh());
    struct store_put *writing = NULL;
    struct store_get *get = NULL;
    struct refusal refusal;
    uint64_t written = 0;
    char read_back[8];

    (void)state;
    assert_int_equal(store_put_begin(store, "acme", "a", 4000, &writing, &refusal), STATUS_OK);
    assert_int_equal(write(store_put_descriptor(writing), bytes, 4000), 4000);
    assert_int_equal(store_put_commit(writing, &written, &refusal), STATUS_OK);
    assert_int_equal(written, 4000);
    assert_int_equal(store_used_bytes(store, "acme"), 4000);
    assert_int_equal(store_get_open(store, "acme", "a", &get, &refusal), STATUS_OK);
    assert_int_equal(pread(store_get_descriptor(get), read_back, 7, 0), 7);
    assert_memory_equal(read_back, "written", 7);
    assert_int_equal(write(store_get_descriptor(get), "x", 1), -1);
    store_get_close(get);
    assert_int_equal(store_put_begin(store, "acme", "b", 7000, &writing, &refusal), STATUS_OK);
    assert_int_equal(write(store_put_descriptor(writing), bytes, 3001), 3001);
    assert_int_equal(store_put_commit(writing, &written, &refusal), STATUS_FULL);
    assert_int_equal(store_used_bytes(store, "acme"), 4000);
    store_close(store);
}

struct seen {
    unsigned count;
    uint64_t bytes;
    unsigned stop_after;
};

static bool see(void *context, const char *tenant, const char *object, uint64_t bytes, int64_t modified_at_s)
{
    struct seen *seen = context;

    assert_true(strcmp(tenant, "acme") == 0 || strcmp(tenant, "other") == 0);
    assert_true(name_is_valid(object));
    assert_true(modified_at_s > 1600000000);
    seen->count++;
    seen->bytes += bytes;
    return seen->count != seen->stop_after;
}

/* The process ends between the worker's two writes; what it writes through its own descriptor goes on in the next one. */
static void what_is_lent_outlives_the_store(void **state)
{
    const char *folder = fresh();
    struct store *store = open_store(folder);
    struct refusal refusal;
    struct store_put *lent = NULL;
    char writing[600];
    uint64_t bytes = 0;
    int worker;

    (void)state;
    snprintf(writing, sizeof(writing), "%s/writing", folder);
    assert_int_equal(store_put_lend(store, "acme", "state-1", STORE_QUOTA_NONE, &lent, &refusal), STATUS_OK);
    worker = dup(store_put_descriptor(lent));
    assert_int_equal(write(worker, "half ", 5), 5);
    store_put_leave(lent);
    store_close(store);
    assert_int_equal(entries(writing), 1);
    store = open_store(folder);
    assert_int_equal(entries(writing), 1);
    assert_int_equal(store_put_lend(store, "acme", "state-1", STORE_QUOTA_NONE, &lent, &refusal), STATUS_OK);
    assert_int_equal(write(worker, "whole", 5), 5);
    assert_int_equal(store_put_commit(lent, &bytes, &refusal), STATUS_OK);
    assert_int_equal(bytes, 10);
    assert_true(holds(store, "acme", "state-1", "half whole", 10));
    assert_int_equal(store_used_bytes(store, "acme"), 10);
    assert_int_equal(store_put_lend(store, "acme", "state-1", STORE_QUOTA_NONE, &lent, &refusal), STATUS_INVALID);
    assert_int_equal(store_put_lend(store, "acme", "state-2", 9, &lent, &refusal), STATUS_OK);
    store_put_abandon(lent);
    assert_int_equal(entries(writing), 0);
    close(worker);
    store_close(store);
}

static void a_list_tells_each_object_once(void **state)
{
    const char *folder = fresh();
    struct store *store = open_store(folder);
    struct seen seen = {0};
    struct refusal refusal;
    char path[512];

    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        char object[16];

        snprintf(object, sizeof(object), "file-%u", i);
        assert_int_equal(put(store, i % 3 == 0 ? "other" : "acme", object, "abcdefghij", i % 7, STORE_QUOTA_NONE, &refusal), STATUS_OK);
    }
    snprintf(path, sizeof(path), "%s/objects/lost+found", folder); /* not ours */
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(store_list(store, see, &seen, &refusal), STATUS_OK);
    assert_int_equal(seen.count, 60);
    assert_int_equal(seen.bytes, store_used_bytes(store, "acme") + store_used_bytes(store, "other"));
    seen = (struct seen){.stop_after = 5};
    assert_int_equal(store_list(store, see, &seen, &refusal), STATUS_OK);
    assert_int_equal(seen.count, 5);
    store_close(store);
}

static void a_store_belongs_to_one_process(void **state)
{
    const char *folder = fresh();
    struct store *store = open_store(folder);
    struct store *second = NULL;
    struct refusal refusal;

    (void)state;
    assert_int_equal(store_local_open(folder, &second, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "another process"));
    store_close(store);
    store_close(open_store(folder));
}

struct writer {
    struct store *store;
    unsigned number;
    unsigned committed;
};

static void *write_many(void *context)
{
    static const char bytes[1000];
    struct writer *writer = context;
    struct refusal refusal;

    for (unsigned i = 0; i < 30; i++) {
        char object[16];
        enum status status;

        snprintf(object, sizeof(object), "o%u-%u", writer->number, i);
        status = put(writer->store, "acme", object, bytes, sizeof(bytes), 50000, &refusal);
        check(status == STATUS_OK || status == STATUS_FULL);
        writer->committed += status == STATUS_OK;
    }
    return NULL;
}

static void threads_share_a_quota(void **state)
{
    struct store *store = open_store(fresh());
    struct writer writers[4];
    pthread_t threads[4];
    unsigned committed = 0;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        writers[i] = (struct writer){.store = store, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &writers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        committed += writers[i].committed;
    }
    /* 120 want in where 50 fit; the last few may have been in each other's way. */
    assert_in_range(committed, 47, 50);
    assert_int_equal(store_used_bytes(store, "acme"), committed * 1000);
    store_close(store);
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
        cmocka_unit_test(what_is_committed_is_there),
        cmocka_unit_test(names_that_are_paths_are_refused),
        cmocka_unit_test(what_is_not_committed_is_swept),
        cmocka_unit_test(a_quota_holds),
        cmocka_unit_test(a_worker_may_write_an_object_itself),
        cmocka_unit_test(what_is_lent_outlives_the_store),
        cmocka_unit_test(a_list_tells_each_object_once),
        cmocka_unit_test(a_store_belongs_to_one_process),
        cmocka_unit_test(threads_share_a_quota),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
