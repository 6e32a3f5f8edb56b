/* A disk that is really full: a tmpfs of a megabyte, in a mount namespace of its own. */
#define _GNU_SOURCE /* unshare */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../scratch.h"
#include "store/store.h"
#include "support.h"

#define OBJECT_BYTES 100000
#define NOT_ALLOWED 77

static struct scratch scratch;

static enum status put(struct store *store, unsigned number, struct refusal *refusal)
{
    static const char bytes[OBJECT_BYTES] = "some";
    struct store_put *writing = NULL;
    uint64_t written = 0;
    char object[16];
    enum status status;

    snprintf(object, sizeof(object), "o%u", number);
    status = store_put_begin(store, "acme", object, STORE_QUOTA_NONE, &writing, refusal);
    if (status == STATUS_OK)
        status = store_put_write(writing, bytes, sizeof(bytes), refusal);
    if (status == STATUS_OK)
        return store_put_commit(writing, &written, refusal);
    store_put_abandon(writing);
    return status;
}

static bool count_whole(void *context, const char *tenant, const char *object, uint64_t bytes, int64_t modified_at_s)
{
    (void)tenant;
    (void)object;
    (void)modified_at_s;
    check(bytes == OBJECT_BYTES);
    ++*(unsigned *)context;
    return true;
}

/* In the child, which ends with what it found. */
static void fill(const char *folder)
{
    struct store *store = NULL;
    struct refusal refusal = {""};
    unsigned committed = 0;
    unsigned listed = 0;

    check(store_local_open(folder, &store, &refusal) == STATUS_OK);
    while (put(store, committed, &refusal) == STATUS_OK)
        check(++committed < 20);
    check(committed >= 5);
    check(strstr(refusal.text, "disk is full") != NULL);
    check(store_used_bytes(store, "acme") == committed * OBJECT_BYTES);
    check(store_list(store, count_whole, &listed, &refusal) == STATUS_OK);
    check(listed == committed);
    check(store_delete(store, "acme", "o0", &refusal) == STATUS_OK);
    check(put(store, committed, &refusal) == STATUS_OK);
    store_close(store);
}

static bool write_line(const char *path, const char *line)
{
    FILE *file = fopen(path, "w");

    return file != NULL && fputs(line, file) >= 0 && fclose(file) == 0;
}

/* Whoever isn't root is, in a namespace of their own. */
static bool mount_small(const char *folder)
{
    unsigned user = geteuid();
    unsigned group = getegid();
    char users[32];
    char groups[32];

    snprintf(users, sizeof(users), "0 %u 1", user);
    snprintf(groups, sizeof(groups), "0 %u 1", group);
    if (unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return false;
    if (user != 0 && !(write_line("/proc/self/setgroups", "deny") && write_line("/proc/self/uid_map", users) &&
                       write_line("/proc/self/gid_map", groups)))
        return false;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("small", folder, "tmpfs", 0, "size=1m,mode=0700") == 0;
}

static void a_full_disk_is_said_and_nothing_half_written_stays(void **state)
{
    const char *folder = scratch_folder(&scratch, "small");
    pid_t child = fork();
    int how = 0;

    (void)state;
    if (child == 0) {
        if (!mount_small(folder))
            _exit(NOT_ALLOWED);
        fill(folder);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    if (WIFEXITED(how) && WEXITSTATUS(how) == NOT_ALLOWED) {
        puts("skipped: no small disk can be mounted here");
        skip();
    }
    assert_int_equal(how, 0);
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
        cmocka_unit_test(a_full_disk_is_said_and_nothing_half_written_stays),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
