/* A run that is killed at every system call that writes, before and after it, ends in the bytes of one that was not; a call that fails ends
 * it with the reason, and it goes on when the cause has gone. The linker leads the engine's calls here (see Makefile). */
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../faults.h"
#include "rig.h"

#define CALLS_MAX 1000

WRAP(rename, (const char *from, const char *to), (from, to))
WRAP(unlink, (const char *path), (path))
WRAP(mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(chmod, (const char *path, mode_t mode), (path, mode))
WRAP(rmdir, (const char *path), (path))

/* A close that fails has closed. */
int __real_close(int file);
int __wrap_close(int file);
int __wrap_close(int file)
{
    const bool hit = comes_to("close");
    const int result = __real_close(file);

    return hit && fault == FAULT_ERROR ? failed() : end_call(hit, result);
}

char *__real_mkdtemp(char *name);
char *__wrap_mkdtemp(char *name);
char *__wrap_mkdtemp(char *name)
{
    const bool hit = comes_to("mkdtemp");
    char *made;

    if (hit && fault == FAULT_ERROR) {
        failed();
        return NULL;
    }
    made = __real_mkdtemp(name);
    end_call(hit, 0);
    return made;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    const bool hit = (flags & O_CREAT) != 0 && comes_to("open");
    mode_t mode = 0;
    va_list rest;

    va_start(rest, flags);
    if ((flags & O_CREAT) != 0)
        mode = (mode_t)va_arg(rest, int);
    va_end(rest);
    return hit && fault == FAULT_ERROR ? failed() : end_call(hit, __real_open(path, flags, mode));
}

/* --- runs ------------------------------------------------------------------------------------------------------------------- */

/* Four steps with an evaluation after each second: checkpoints that are kept, removed, and carry a best. */
static struct world *faulty_world(void)
{
    struct world *world = world_new();

    world->validation = set_of(world, against);
    world->run.validation = world->validation;
    world->run.settings.epochs = 1;
    world->run.settings.evaluate_every = 2;
    world->run.checkpoint_every_ns = 0;
    plain_run(world);
    return world;
}

static enum status train_with(struct world *world, enum fault kind, int error, int64_t at)
{
    enum status status;

    fault = kind;
    fault_error = error;
    fault_at = at;
    calls = 0;
    fault_in = NULL;
    world->refusal.text[0] = '\0';
    status = train(world);
    fault = FAULT_NONE;
    return status;
}

/* Halves of the adapter `name` in the scratch folder, and of checkpoints. */
static void expect_no_halves(struct world *world, const char *name, const char *what)
{
    DIR *directory = opendir(world->scratch.path);
    struct dirent *entry;

    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL)
        if (strncmp(entry->d_name, name, strlen(name)) == 0 && strstr(entry->d_name, ".new-") != NULL)
            fail_msg("%s leaves %s", what, entry->d_name);
    closedir(directory);
    directory = opendir(world->checkpoints);
    while (directory != NULL && (entry = readdir(directory)) != NULL)
        if (strstr(entry->d_name, ".new-") != NULL)
            fail_msg("%s leaves %s among checkpoints", what, entry->d_name);
    if (directory != NULL)
        closedir(directory);
}

/* Without a fault, to the end; its own finished adapter may be there already. */
static void finish(struct world *world, const char *name, const char *what)
{
    if (!is_there(world, name) && train(world) != STATUS_OK)
        fail_msg("%s: it does not go on: %s", what, world->refusal.text);
    same(world, "plain", name);
}

/* How many calls there were before the run came through. */
static int64_t killed_at_each(enum fault kind, const char *about)
{
    struct world *world = faulty_world();
    int64_t at;

    for (at = 1; at < CALLS_MAX; at++) {
        char name[32];
        char what[64];
        int status;
        pid_t child;

        snprintf(name, sizeof(name), "%s%lld", about, (long long)at);
        snprintf(what, sizeof(what), "killed %s call %lld", about, (long long)at);
        name_out(world, name);
        child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(train_with(world, kind, 0, at) == STATUS_OK ? 0 : 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status) && WEXITSTATUS(status) != 0)
            fail_msg("%s: it was not killed and failed", what);
        finish(world, name, what);
        if (!WIFSIGNALED(status))
            break;
    }
    world_free(world);
    assert_true(at < CALLS_MAX);
    return at - 1;
}

static void a_run_killed_at_any_call_goes_on_to_the_same_bytes(void **state)
{
    const int64_t before = killed_at_each(FAULT_KILL_BEFORE, "before");
    const int64_t behind = killed_at_each(FAULT_KILL_BEHIND, "behind");

    (void)state;
    printf("killed before each of %lld calls, and behind each\n", (long long)before);
    assert_int_equal(before, behind);
    assert_true(before > 60);
}

/* Calls that only clean up may fail: the run is right without them. All others end it; a folder that could not be synced after the last
 * rename leaves an adapter that is whole, and is told. */
static void a_call_that_fails_is_told_and_leaves_nothing_half_written(void **state)
{
    static const int errors[] = {ENOSPC, EIO};
    struct world *world = faulty_world();
    int64_t at;

    (void)state;
    for (at = 1; at < CALLS_MAX; at++) {
        const int error = errors[at % 2];
        char name[32];
        char what[96];
        enum status status;

        snprintf(name, sizeof(name), "error%lld", (long long)at);
        name_out(world, name);
        status = train_with(world, FAULT_ERROR, error, at);
        if (fault_in == NULL)
            break;
        snprintf(what, sizeof(what), "call %lld, %s: %s", (long long)at, fault_in, strerror(error));
        if (status != STATUS_OK && strstr(world->refusal.text, strerror(error)) == NULL)
            fail_msg("%s, and it said %s", what, world->refusal.text);
        if (status != STATUS_OK && (status != STATUS_IO || (is_there(world, name) && strstr(world->refusal.text, "is in place") == NULL)))
            fail_msg("%s: status %d, an adapter %s there", what, (int)status, is_there(world, name) ? "is" : "is not");
        if (status == STATUS_OK && strcmp(fault_in, "unlink") != 0 && strcmp(fault_in, "unlinkat") != 0 && strcmp(fault_in, "rmdir") != 0 &&
            strcmp(fault_in, "close") != 0)
            fail_msg("%s, and nobody said so", what);
        if (strcmp(fault_in, "unlinkat") != 0 && strcmp(fault_in, "rmdir") != 0)
            expect_no_halves(world, name, what);
        finish(world, name, what);
    }
    printf("%lld calls failed\n", (long long)at - 1);
    assert_true(at > 60 && at < CALLS_MAX);
    world_free(world);
}

static void a_short_write_goes_on(void **state)
{
    struct world *world = faulty_world();
    int64_t at;
    int writes = 0;

    (void)state;
    for (at = 1; at < CALLS_MAX; at++) {
        char name[32];

        snprintf(name, sizeof(name), "short%lld", (long long)at);
        name_out(world, name);
        assert_int_equal(train_with(world, FAULT_SHORT, 0, at), STATUS_OK);
        same(world, "plain", name);
        if (fault_in == NULL)
            break;
        writes += strcmp(fault_in, "write") == 0;
    }
    printf("%d short writes\n", writes);
    assert_true(writes > 30);
    world_free(world);
}

int main(void)
{
    /* A kill loses nothing that was written, so memory does for a disk, and its syncs take no time. */
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_killed_at_any_call_goes_on_to_the_same_bytes),
        cmocka_unit_test(a_call_that_fails_is_told_and_leaves_nothing_half_written),
        cmocka_unit_test(a_short_write_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
