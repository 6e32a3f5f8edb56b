/* Tests that run berth-exec itself: the one that was built beside the test program. */
#ifndef TESTS_EXEC_PROCESSES_H
#define TESTS_EXEC_PROCESSES_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* build/MODE/bin/berth-exec of build/MODE/tests/exec/test_x; the test is skipped where nobody built it. */
static inline const char *berth_exec(void)
{
    static char path[4200];
    const ssize_t length = readlink("/proc/self/exe", path, 4000);
    char *tests;

    assert_true(length > 0);
    path[length] = '\0';
    tests = strstr(path, "/tests/exec/");
    assert_non_null(tests);
    strcpy(tests, "/bin/berth-exec");
    if (access(path, X_OK) != 0) {
        printf("skipped: %s is not built\n", path);
        skip();
    }
    return path;
}

struct process {
    pid_t id;
    int out;  /* its stdout, to be read; it waits when nobody reads some 4 KB */
};

static inline struct process process_begin(const char *const *arguments)
{
    int ends[2];
    struct process process;

    assert_int_equal(pipe(ends), 0);
    (void)fcntl(ends[1], 1031 /* F_SETPIPE_SZ, of Linux alone */, 4096);
    process.id = fork();
    assert_true(process.id >= 0);
    if (process.id == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execv(arguments[0], (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    close(ends[1]);
    process.out = ends[0];
    return process;
}

/* Reads until it has printed this, and no further. */
static inline void process_await(const struct process *process, const char *text)
{
    const char *at = text;
    char byte;

    while (*at != '\0') {
        assert_int_equal(read(process->out, &byte, 1), 1);
        at = byte == *at ? at + 1 : byte == *text ? text + 1 : text;
    }
}

/* Reads all that it prints, waits, and returns its exit code; a signal: 128 and its number. */
static inline int process_end(struct process *process)
{
    char text[4096];
    int status;

    while (read(process->out, text, sizeof(text)) > 0)
        continue;
    close(process->out);
    assert_int_equal(waitpid(process->id, &status, 0), process->id);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif
