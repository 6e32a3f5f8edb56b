/* System calls that fail, or at which the process is killed, one after the other: for tests of what writes to a disk. The linker leads calls
 * here (--wrap, see Makefile); each test wraps those that its subject makes. Included once in a program. */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* What happens at a call: it dies before, dies behind (half a write is written, all else is done), fails, writes half. */
enum fault { FAULT_NONE, FAULT_KILL_BEFORE, FAULT_KILL_BEHIND, FAULT_ERROR, FAULT_SHORT };
static enum fault fault;
static int fault_error;
static int64_t fault_at;     /* the call that it comes to, from 1 */
static int64_t calls;
static const char *fault_in; /* the call that it came to */
static char order[64];       /* the first letters of the calls since it was emptied, as far as they fit */

/* Whether this call is the one. */
static bool comes_to(const char *name)
{
    const size_t length = strlen(order);

    if (length + 1 < sizeof(order))
        order[length] = name[0];
    if (fault == FAULT_NONE || ++calls != fault_at)
        return false;
    fault_in = name;
    if (fault == FAULT_KILL_BEFORE)
        kill(getpid(), SIGKILL);
    return true;
}

static int end_call(bool hit, int result)
{
    if (hit && fault == FAULT_KILL_BEHIND)
        kill(getpid(), SIGKILL);
    return result;
}

static int failed(void)
{
    errno = fault_error;
    return -1;
}

#define WRAP(name, arguments, values)                                                        \
    int __real_##name arguments;                                                             \
    int __wrap_##name arguments;                                                             \
    int __wrap_##name arguments                                                              \
    {                                                                                        \
        const bool hit = comes_to(#name);                                                    \
                                                                                             \
        return hit && fault == FAULT_ERROR ? failed() : end_call(hit, __real_##name values); \
    }

WRAP(fsync, (int file), (file))
WRAP(unlinkat, (int folder, const char *path, int flags), (folder, path, flags))

ssize_t __real_write(int file, const void *data, size_t bytes);
ssize_t __wrap_write(int file, const void *data, size_t bytes);
ssize_t __wrap_write(int file, const void *data, size_t bytes)
{
    const bool hit = comes_to("write");
    ssize_t done;

    if (!hit)
        return __real_write(file, data, bytes);
    done = __real_write(file, data, bytes / 2);
    if (fault == FAULT_ERROR) /* a full disk takes what it can, and the next call fails: both in one here */
        return failed();
    end_call(hit, 0);
    return bytes / 2 == 0 ? __real_write(file, data, bytes) : done;
}

#endif
