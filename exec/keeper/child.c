/* A process: made with nothing of ours but its socket, watched by a pidfd, reaped once. */
#define _GNU_SOURCE /* syscall, wait4 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/internal.h"

#define DESCRIPTORS_MAX 256
#define CANNOT_RUN 127

static bool limit(int resource, uint64_t value)
{
    const struct rlimit both = {.rlim_cur = value, .rlim_max = value};

    return setrlimit((__rlimit_resource_t)resource, &both) == 0;
}

/* A source may lie where another one's place is: first all go above the places, then down into them. */
static bool hand_over(const struct keeper_program *program, int socket)
{
    const int count = 1 + (int)program->inherited_count;
    int above[1 + KEEPER_INHERITED_MAX];

    for (int i = 0; i < count; i++) {
        above[i] = fcntl(i == 0 ? socket : program->inherited[i - 1], F_DUPFD, KEEPER_SOCKET + count);
        if (above[i] < 0)
            return false;
    }
    for (int i = 0; i < count; i++) {
        if (dup2(above[i], KEEPER_SOCKET + i) < 0)
            return false;
    }
    return syscall(SYS_close_range, (unsigned)(KEEPER_SOCKET + count), ~0u, 0u) == 0;
}

/* In the child, from fork to exec: system calls only. */
static _Noreturn void become(const struct keeper_program *program, int socket, pid_t keeper)
{
    char *const nothing[] = {NULL};
    sigset_t none;
    int null = open("/dev/null", O_RDONLY);

    /* It dies with the keeper; the keeper may have died before this was said. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != keeper || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        _exit(CANNOT_RUN);
    (void)setsid(); /* what is typed at the keeper's terminal is for the keeper */
    (void)umask(077);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        _exit(CANNOT_RUN);
    if (!hand_over(program, socket))
        _exit(CANNOT_RUN);
    if (!limit(RLIMIT_CORE, 0) || !limit(RLIMIT_NOFILE, program->descriptors_max != 0 ? program->descriptors_max : DESCRIPTORS_MAX) ||
        (program->memory_max_bytes != 0 && !limit(RLIMIT_AS, program->memory_max_bytes)))
        _exit(CANNOT_RUN);
    for (int signal_number = 1; signal_number < SIGRTMIN; signal_number++)
        (void)signal(signal_number, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    execve(program->path, (char *const *)(uintptr_t)program->arguments, nothing);
    _exit(CANNOT_RUN);
}

enum status child_start(struct child *child, const struct keeper_program *program, int socket)
{
    const pid_t keeper = getpid();
    pid_t process;
    long watch;

    check(program->inherited_count <= KEEPER_INHERITED_MAX);
    process = fork();
    if (process == 0)
        become(program, socket, keeper);
    if (process < 0)
        return STATUS_IO;
    watch = syscall(SYS_pidfd_open, process, 0); /* close-on-exec; the number is ours until we reap it */
    if (watch < 0) {
        (void)kill(process, SIGKILL);
        (void)waitpid(process, NULL, 0);
        return STATUS_IO;
    }
    *child = (struct child){.process = process, .watch = (int)watch};
    return STATUS_OK;
}

void child_signal(const struct child *child, int signal_number)
{
    if (child->process != 0)
        (void)syscall(SYS_pidfd_send_signal, child->watch, signal_number, NULL, 0);
}

static int64_t nanoseconds(struct timeval time)
{
    return (int64_t)time.tv_sec * NS_PER_S + (int64_t)time.tv_usec * NS_PER_US;
}

bool child_reap(struct child *child)
{
    struct rusage usage;
    int how = 0;
    pid_t reaped;

    do
        reaped = wait4(child->process, &how, WNOHANG, &usage);
    while (reaped < 0 && errno == EINTR);
    if (reaped != child->process)
        return false;
    child->end = (struct launch_end){.by_signal = WIFSIGNALED(how),
                                     .code = WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how),
                                     .cpu_ns = nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime),
                                     .memory_max_bytes = (uint64_t)usage.ru_maxrss * 1024};
    close(child->watch);
    child->watch = -1;
    child->process = 0;
    return true;
}
