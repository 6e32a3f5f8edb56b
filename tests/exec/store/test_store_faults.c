/* A put, and a delete, of which each call that changes the disk is in turn the one at which the process is killed, before or behind
 * it, or the one that fails: the object is there whole or not at all, nothing else is left, and the count of bytes is right. The
 * linker leads the store's calls here (see Makefile). */
#include <dirent.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../faults.h"
#include "../scratch.h"
#include "store/store.h"
#include "support.h"

WRAP(mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode))
WRAP(linkat, (int from, const char *path, int to, const char *name, int flags), (from, path, to, name, flags))

int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...)
{
    const bool hit = comes_to("openat");
    mode_t mode = 0;
    va_list rest;

    va_start(rest, flags);
    if ((flags & O_CREAT) != 0)
        mode = (mode_t)va_arg(rest, int);
    va_end(rest);
    return hit && fault == FAULT_ERROR ? failed() : end_call(hit, __real_openat(folder, path, flags, mode));
}

static struct scratch scratch;
static unsigned folders;
static char folder[300];
static char bytes[3000];

static void begin_folder(void)
{
    snprintf(folder, sizeof(folder), "%s/f%u", scratch.path, folders++);
}

static struct store *open_store(void)
{
    struct refusal refusal;
    struct store *store = NULL;

    if (store_local_open(folder, &store, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    return store;
}

static enum status put(struct store *store, struct refusal *refusal)
{
    struct store_put *writing = NULL;
    uint64_t written = 0;
    enum status status = store_put_begin(store, "acme", "file-1", 5000, &writing, refusal);

    for (int i = 0; status == STATUS_OK && i < 3; i++) {
        status = store_put_write(writing, bytes + i * 1000, 1000, refusal);
        if (status != STATUS_OK)
            store_put_abandon(writing);
    }
    return status == STATUS_OK ? store_put_commit(writing, &written, refusal) : status;
}

static enum status delete_it(struct store *store, struct refusal *refusal)
{
    return store_delete(store, "acme", "file-1", refusal);
}

typedef enum status store_act(struct store *store, struct refusal *refusal);

/* Runs the act with a fault at its n-th call. STATUS_END: it was killed. */
static enum status act_with_fault(struct store *store, store_act *does, enum fault kind, int code, unsigned at, bool *ret_hit)
{
    struct refusal refusal = {""};
    enum status status;
    pid_t child;
    int how = 0;

    fault_error = code;
    fault_at = at;
    calls = 0;
    if (kind == FAULT_ERROR) {
        fault = kind;
        status = does(store, &refusal);
        fault = FAULT_NONE;
        *ret_hit = calls >= (int64_t)at;
        if (status != STATUS_OK && strstr(refusal.text, code == ENOSPC ? "disk is full" : "Input/output error") == NULL)
            fail_msg("call %u: the reason is not said: %s", at, refusal.text);
        return status;
    }
    child = fork();
    if (child == 0) {
        fault = kind;
        _exit(does(store, &refusal) == STATUS_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    *ret_hit = WIFSIGNALED(how);
    return WIFSIGNALED(how) ? STATUS_END : WEXITSTATUS(how) == 0 ? STATUS_OK : STATUS_IO;
}

static unsigned files_below(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    unsigned count = 0;

    if (directory == NULL)
        return 1;
    while ((entry = readdir(directory)) != NULL) {
        char below[900];

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || strcmp(entry->d_name, "lock") == 0)
            continue;
        snprintf(below, sizeof(below), "%.500s/%s", path, entry->d_name);
        count += files_below(below);
    }
    closedir(directory);
    return count;
}

/* There whole, or not at all, and nothing else. Returns whether it is there. */
static bool check_whole(struct store *store, unsigned at)
{
    struct store_get *get = NULL;
    struct refusal refusal;
    char read_back[3000];
    enum status status = store_get_open(store, "acme", "file-1", &get, &refusal);

    if (status == STATUS_OK) {
        if (store_get_bytes(get) != sizeof(bytes))
            fail_msg("call %u: %llu bytes are there", at, (unsigned long long)store_get_bytes(get));
        assert_int_equal(store_get_read(get, 0, read_back, sizeof(read_back), &refusal), STATUS_OK);
        assert_memory_equal(read_back, bytes, sizeof(bytes));
        store_get_close(get);
    } else {
        assert_int_equal(status, STATUS_NOT_FOUND);
    }
    if (store_used_bytes(store, "acme") != (status == STATUS_OK ? sizeof(bytes) : 0))
        fail_msg("call %u: %llu bytes are counted", at, (unsigned long long)store_used_bytes(store, "acme"));
    if (files_below(folder) != (status == STATUS_OK))
        fail_msg("call %u: %u files are left", at, files_below(folder));
    return status == STATUS_OK;
}

/* No test here loses power; this holds the order that makes it harmless: bytes, file, name, folder. */
static void what_is_acknowledged_was_synced(void **state)
{
    struct store *store;
    struct refusal refusal;

    (void)state;
    begin_folder();
    store = open_store();
    memset(order, 0, sizeof(order));
    assert_int_equal(put(store, &refusal), STATUS_OK);
    assert_string_equal(order, "owww" "f" "mfo" "mfo" "l" "f" "u");
    memset(order, 0, sizeof(order));
    assert_int_equal(delete_it(store, &refusal), STATUS_OK);
    assert_string_equal(order, "uof");
    store_close(store);
}

/* False: the act has fewer calls. */
static bool try_put(enum fault kind, int code, unsigned at)
{
    struct store *store;
    enum status status;
    struct refusal refusal;
    bool hit = false;
    bool is_there;

    begin_folder();
    store = open_store();
    status = act_with_fault(store, put, kind, code, at, &hit);
    if (kind == FAULT_ERROR && status != STATUS_OK) {
        /* What could not be removed is swept when the store is opened again; the rest is so at once. */
        assert_int_equal(status, STATUS_IO);
        assert_false(check_whole(store, at));
        assert_int_equal(put(store, &refusal), STATUS_OK); /* the cause is gone */
    }
    store_close(store);
    store = open_store();
    is_there = check_whole(store, at);
    if (status == STATUS_OK)
        assert_true(is_there);
    if (!is_there)
        assert_int_equal(put(store, &refusal), STATUS_OK);
    store_close(store);
    return hit;
}

static void puts_are_killed_at_every_call(void **state)
{
    unsigned at = 0;

    (void)state;
    while (try_put(FAULT_KILL_BEFORE, 0, ++at) && try_put(FAULT_KILL_BEHIND, 0, at))
        continue;
    assert_true(at > 12);
}

static void puts_fail_at_every_call(void **state)
{
    unsigned at = 0;

    (void)state;
    while (try_put(FAULT_ERROR, ENOSPC, ++at) && try_put(FAULT_ERROR, EIO, at))
        continue;
    assert_true(at > 12);
}

static bool try_delete(enum fault kind, unsigned at)
{
    struct store *store;
    struct refusal refusal;
    enum status status;
    bool hit = false;

    begin_folder();
    store = open_store();
    assert_int_equal(put(store, &refusal), STATUS_OK);
    status = act_with_fault(store, delete_it, kind, EIO, at, &hit);
    store_close(store);
    store = open_store();
    if (check_whole(store, at))
        assert_int_not_equal(status, STATUS_OK);
    store_close(store);
    return hit;
}

static void deletes_stop_at_every_call(void **state)
{
    unsigned at = 0;

    (void)state;
    do
        at++;
    while (try_delete(FAULT_KILL_BEFORE, at) && try_delete(FAULT_KILL_BEHIND, at) && try_delete(FAULT_ERROR, at));
    assert_true(at > 2);
}

static int begin(void **state)
{
    (void)state;
    scratch_begin(&scratch);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7 + i / 256);
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
        cmocka_unit_test(what_is_acknowledged_was_synced),
        cmocka_unit_test(puts_are_killed_at_every_call),
        cmocka_unit_test(puts_fail_at_every_call),
        cmocka_unit_test(deletes_stop_at_every_call),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
