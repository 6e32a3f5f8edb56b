#include "sandbox/sandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

long syscall(long number, ...); /* beyond POSIX */

#ifdef ARCHITECTURE

/* Whatever its arguments. Of descriptors: only those that are open or come with a message. */
static const uint32_t allowed[] = {
    SYS_read, SYS_pread64, SYS_readv, SYS_write, SYS_pwrite64, SYS_writev, SYS_lseek, SYS_fsync, SYS_fdatasync, SYS_ftruncate, SYS_close,
    SYS_recvmsg, SYS_sendmsg, SYS_ppoll,
#ifdef SYS_poll
    SYS_poll,
#endif
    SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk, SYS_mlock, SYS_munlock,
    SYS_futex, SYS_set_robust_list, SYS_rseq, SYS_sched_yield, SYS_sched_getaffinity, SYS_gettid, SYS_getpid, SYS_membarrier,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_restart_syscall,
    SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_getrandom, SYS_getrusage, SYS_exit, SYS_exit_group,
};

struct rule {
    uint32_t call;
    uint32_t argument;   /* whose low half is looked at */
    uint32_t bits;
    bool wanted;         /* all of them have to be set; else none may be */
};
static const struct rule rules[] = {
    {SYS_clone, 0, CLONE_THREAD, true},
    {SYS_mmap, 2, PROT_EXEC, false},
    {SYS_mprotect, 2, PROT_EXEC, false},
};

#define REFUSE(code) (SECCOMP_RET_ERRNO | (code))
#define FIELD(name) ((uint32_t)offsetof(struct seccomp_data, name))

struct program {
    struct sock_filter step[8 + 2 * ARRAY_COUNT(allowed) + 6 * ARRAY_COUNT(rules)];
    unsigned short count;
};

static void add(struct program *program, uint16_t code, uint32_t value, uint8_t if_true, uint8_t if_false)
{
    check(program->count < ARRAY_COUNT(program->step));
    program->step[program->count++] = (struct sock_filter){code, if_true, if_false, value};
}

static void load(struct program *program, uint32_t field)
{
    add(program, BPF_LD | BPF_W | BPF_ABS, field, 0, 0);
}

static void answer(struct program *program, uint32_t value)
{
    add(program, BPF_RET | BPF_K, value, 0, 0);
}

/* Five steps for the call, none for another. */
static void add_rule(struct program *program, const struct rule *rule)
{
    add(program, BPF_JMP | BPF_JEQ | BPF_K, rule->call, 0, 4);
    load(program, FIELD(args) + 8 * rule->argument); /* little-endian: the low half is first */
    add(program, BPF_JMP | BPF_JSET | BPF_K, rule->bits, rule->wanted ? 1 : 0, rule->wanted ? 0 : 1);
    answer(program, REFUSE(EPERM));
    answer(program, SECCOMP_RET_ALLOW);
}

static void write_program(struct program *program)
{
    program->count = 0;
    load(program, FIELD(arch));
    add(program, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    answer(program, SECCOMP_RET_KILL_PROCESS);
    load(program, FIELD(nr));
    for (size_t i = 0; i < ARRAY_COUNT(allowed); i++) {
        add(program, BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        answer(program, SECCOMP_RET_ALLOW);
    }
    /* Its flags lie in memory, out of a filter's sight: libc falls back to clone. */
    add(program, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
    answer(program, REFUSE(ENOSYS));
    for (size_t i = 0; i < ARRAY_COUNT(rules); i++)
        add_rule(program, &rules[i]);
    answer(program, REFUSE(EPERM));
}

static enum status filter(struct refusal *refusal)
{
    struct program program;
    struct sock_fprog whole;

    write_program(&program);
    whole = (struct sock_fprog){.len = program.count, .filter = program.step};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return refuse(refusal, STATUS_IO, "this kernel cannot keep a process from new privileges: %s", strerror(errno));
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &whole) != 0)
        return refuse(refusal, STATUS_IO, "this kernel cannot filter what a process asks of it (seccomp): %s", strerror(errno));
    return STATUS_OK;
}

#else

static enum status filter(struct refusal *refusal)
{
    return refuse(refusal, STATUS_IO, "the sandbox is written for x86-64 and aarch64 only");
}

#endif

enum status sandbox_enter(struct refusal *refusal)
{
    const struct rlimit none = {0, 0};

    if (setrlimit(RLIMIT_CORE, &none) != 0)
        return refuse(refusal, STATUS_IO, "core dumps cannot be forbidden: %s", strerror(errno));
    return filter(refusal);
}
