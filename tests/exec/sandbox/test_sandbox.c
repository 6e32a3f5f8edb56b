/* Under the sandbox: what still goes, and what does not any more. Each in a child, whose exit code tells. */
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* 0: as it should be. */
typedef int act(void);

static int in_sandbox(act *does)
{
    const pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        struct refusal refusal;

        if (sandbox_enter(&refusal) != STATUS_OK) {
            fprintf(stderr, "%s\n", refusal.text);
            _exit(100);
        }
        _exit(does());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int is_refused(int result)
{
    return result == -1 && errno == EPERM ? 0 : 1;
}

static int opens(void) { return is_refused(open("/dev/null", O_RDONLY)); }
static int makes(void) { return is_refused(open("/tmp/berth-sandbox", O_WRONLY | O_CREAT, 0600)); }
static int looks(void) { return is_refused(access("/", F_OK)); }
static int removes(void) { return is_refused(unlink("/tmp/berth-sandbox")); }
static int speaks(void) { return is_refused(socket(AF_INET, SOCK_STREAM, 0)); }
static int pairs(void) { int ends[2]; return is_refused(socketpair(AF_UNIX, SOCK_STREAM, 0, ends)); }
static int forks(void) { return is_refused(fork()); }
static int kills(void) { return is_refused(kill(getppid(), 0)); }
static int ends_limits(void) { const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY}; return is_refused(setrlimit(RLIMIT_CORE, &all)); }

static int runs(void)
{
    char *const arguments[] = {(char *)(uintptr_t)"/bin/true", NULL};

    return is_refused(execv(arguments[0], arguments));
}

static int writes_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | 0x20 /* MAP_ANONYMOUS */, -1, 0) == MAP_FAILED && errno == EPERM ? 0 : 1;
}

static void *add_one(void *value)
{
    char *more = malloc(1 << 20);

    (*(int *)value)++;
    free(more);
    return NULL;
}

static int computes(void)
{
    pthread_t thread;
    int value = 41;

    if (pthread_create(&thread, NULL, add_one, &value) != 0 || pthread_join(thread, NULL) != 0)
        return 2;
    return value == 42 ? 0 : 3;
}

static int kept;
static int uses_what_is_open(void)
{
    char text[4] = "";

    return write(kept, "abc", 3) == 3 && pread(kept, text, 3, 0) == 3 && memcmp(text, "abc", 3) == 0 && close(kept) == 0 ? 0 : 1;
}

static void what_would_reach_outside_is_refused(void **state)
{
    static const struct {
        const char *name;
        act *act;
    } acts[] = {{"open", opens}, {"create", makes}, {"look", looks}, {"remove", removes}, {"socket", speaks}, {"socketpair", pairs},
                {"fork", forks}, {"kill", kills}, {"limits", ends_limits}, {"exec", runs}, {"code", writes_code}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(acts); i++) {
        const int code = in_sandbox(acts[i].act);

        if (code != 0)
            fail_msg("%s: %d", acts[i].name, code);
    }
}

static void what_computes_goes_on(void **state)
{
    char path[] = "/tmp/berth-test-XXXXXX";

    (void)state;
    assert_int_equal(in_sandbox(computes), 0);
    kept = mkstemp(path);
    assert_true(kept >= 0);
    unlink(path);
    assert_int_equal(in_sandbox(uses_what_is_open), 0);
    close(kept);
}

/* --- a thread that was there before ------------------------------------------------------------------------------------------- */

static pthread_barrier_t entered;
static int other_result = 1;

static void *open_later(void *nothing)
{
    pthread_barrier_wait(&entered);
    other_result = opens();
    return nothing;
}

static int opens_in_a_thread_of_before(void)
{
    struct refusal refusal;
    pthread_t thread;

    pthread_barrier_init(&entered, NULL, 2);
    if (pthread_create(&thread, NULL, open_later, NULL) != 0 || sandbox_enter(&refusal) != STATUS_OK)
        return 2;
    pthread_barrier_wait(&entered);
    pthread_join(thread, NULL);
    return other_result;
}

static void threads_that_were_there_are_held_too(void **state)
{
    const pid_t child = fork();
    int status;

    (void)state;
    if (child == 0)
        _exit(opens_in_a_thread_of_before());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_would_reach_outside_is_refused),
        cmocka_unit_test(what_computes_goes_on),
        cmocka_unit_test(threads_that_were_there_are_held_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
