/* The keeper's one loop: what ended is reaped, what shall run is started again, what is asked is done, and at SIGTERM all ends in order. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "keeper/internal.h"

#define REQUESTS_A_TURN 64

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

void keeper_say(const struct keeper *keeper, const char *format, ...)
{
    char line[256];
    va_list arguments;

    if (keeper->config.log == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    keeper->config.log(keeper->config.log_context, line);
}

/* --- what is started again ------------------------------------------------------------------------------------------------------ */

/* Starts it with one end of a new pair, and gives back the other; -1: it will be tried again. */
static int kept_start(struct keeper *keeper, struct kept *kept)
{
    int ends[2] = {-1, -1};
    const bool is_started = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0 &&
                            child_start(&kept->child, kept->program, ends[1]) == STATUS_OK;

    if (ends[1] >= 0)
        close(ends[1]);
    if (!is_started) {
        if (ends[0] >= 0)
            close(ends[0]);
        kept->again_at_ns = now_ns() + (int64_t)keeper->config.again_max_ms * NS_PER_MS;
        keeper_say(keeper, "warning: %s cannot be started; again in %u ms", kept->program->name, keeper->config.again_max_ms);
        return -1;
    }
    kept->started_at_ns = now_ns();
    kept->again_at_ns = NEVER_NS;
    keeper_say(keeper, "act=start name=%s process=%d", kept->program->name, (int)kept->child.process);
    return ends[0];
}

static void say_exit(const struct keeper *keeper, const char *name, const struct place *place, const struct launch_end *end)
{
    char whose[96] = "";

    if (place != NULL)
        snprintf(whose, sizeof(whose), " worker=%llu attempt=%llu process=%d", (unsigned long long)place->launch.worker,
                 (unsigned long long)place->launch.attempt, (int)place->process);
    keeper_say(keeper, "act=exit name=%s%s by=%s code=%d cpu_ms=%lld memory_kb=%llu", name, whose, end->by_signal ? "signal" : "exit",
               (int)end->code, (long long)(end->cpu_ns / NS_PER_MS), (unsigned long long)(end->memory_max_bytes / 1024));
}

/* When it shall be tried again: later and later, until it has been up for long. */
static void kept_failed(struct keeper *keeper, struct kept *kept)
{
    const struct keeper_config *config = &keeper->config;
    uint64_t wait_ms = config->again_first_ms;

    if (now_ns() - kept->started_at_ns >= (int64_t)config->settled_ms * NS_PER_MS) {
        kept->failures = 0;
        kept->has_settled = true;
    }
    for (uint32_t i = 0; i < kept->failures && wait_ms < config->again_max_ms; i++)
        wait_ms *= 2;
    wait_ms = min_u64(wait_ms, config->again_max_ms);
    kept->failures++;
    kept->again_at_ns = now_ns() + (int64_t)wait_ms * NS_PER_MS;
    keeper_say(keeper, "act=again name=%s failures=%u in_ms=%llu", kept->program->name, kept->failures, (unsigned long long)wait_ms);
}

static void close_one(int *descriptor)
{
    if (*descriptor >= 0)
        close(*descriptor);
    *descriptor = -1;
}

static void control_ended(struct keeper *keeper)
{
    struct kept *control = &keeper->control;

    say_exit(keeper, control->program->name, NULL, &control->child.end);
    close_one(&keeper->control_socket);
    close_one(&keeper->vault_socket);
    keeper_forget_told(keeper);
    if (keeper->phase != KEEPER_RUNS)
        return;
    kept_failed(keeper, control);
    if (!control->has_settled && control->failures >= keeper->config.failures_max)
        keeper->has_failed = true;
}

/* A vault ends when its client does (it may be seen to first); the next control plane gets a new one, and the old must have let go of
 * its files. */
static void vault_ended(struct keeper *keeper)
{
    say_exit(keeper, keeper->vault.program->name, NULL, &keeper->vault.child.end);
    close_one(&keeper->vault_socket);
    keeper->vault.again_at_ns = NEVER_NS;
    if (keeper->phase == KEEPER_RUNS && keeper->control.child.process != 0)
        kept_failed(keeper, &keeper->vault);
}

static void start_control(struct keeper *keeper)
{
    if (keeper->vault.child.process != 0) { /* the control plane's before; it has had its time */
        child_signal(&keeper->vault.child, SIGKILL);
        return;
    }
    keeper->control_socket = kept_start(keeper, &keeper->control);
    if (keeper->control_socket >= 0 && keeper->vault.program != NULL)
        keeper->vault_socket = kept_start(keeper, &keeper->vault);
}

static void start_what_is_due(struct keeper *keeper)
{
    const int64_t at_ns = now_ns();

    if (keeper->phase != KEEPER_RUNS)
        return;
    if (keeper->control.child.process == 0 && at_ns >= keeper->control.again_at_ns)
        start_control(keeper);
    else if (keeper->control.child.process != 0 && keeper->vault.program != NULL && keeper->vault.child.process == 0 &&
             at_ns >= keeper->vault.again_at_ns)
        keeper->vault_socket = kept_start(keeper, &keeper->vault);
}

/* --- the end -------------------------------------------------------------------------------------------------------------------- */

static uint32_t workers_alive(const struct keeper *keeper)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < keeper->config.workers_max; i++)
        count += keeper->places[i].child.process != 0;
    return count;
}

static void signal_workers(struct keeper *keeper, int signal_number)
{
    for (uint32_t i = 0; i < keeper->config.workers_max; i++)
        child_signal(&keeper->places[i].child, signal_number);
}

static void enter(struct keeper *keeper, enum keeper_phase phase, uint32_t grace_ms)
{
    keeper->phase = phase;
    keeper->kill_at_ns = now_ns() + (int64_t)grace_ms * NS_PER_MS;
}

static void begin_end(struct keeper *keeper)
{
    keeper_say(keeper, "act=stop workers=%u", workers_alive(keeper));
    enter(keeper, KEEPER_ENDS_CONTROL, keeper->config.control_grace_ms);
    child_signal(&keeper->control.child, SIGTERM);
}

/* The control plane drains its workers and goes; then they; the vault sees its client gone. */
static void go_on_ending(struct keeper *keeper)
{
    if (keeper->phase == KEEPER_ENDS_CONTROL && keeper->control.child.process == 0) {
        enter(keeper, KEEPER_ENDS_WORKERS, keeper->config.grace_ms);
        signal_workers(keeper, SIGTERM);
    }
    if (keeper->phase == KEEPER_ENDS_WORKERS && workers_alive(keeper) == 0)
        enter(keeper, KEEPER_ENDS_VAULT, keeper->config.grace_ms);
    if (keeper->phase == KEEPER_ENDS_VAULT && keeper->vault.child.process == 0)
        keeper->phase = KEEPER_ENDED;
    if (keeper->phase == KEEPER_RUNS || keeper->phase == KEEPER_ENDED || now_ns() < keeper->kill_at_ns)
        return;
    keeper->kill_at_ns = NEVER_NS;
    if (keeper->phase == KEEPER_ENDS_CONTROL)
        child_signal(&keeper->control.child, SIGKILL);
    else if (keeper->phase == KEEPER_ENDS_WORKERS)
        signal_workers(keeper, SIGKILL);
    else
        child_signal(&keeper->vault.child, SIGKILL);
}

/* --- the loop ------------------------------------------------------------------------------------------------------------------- */

enum { WATCH_SIGNALS, WATCH_REQUESTS, WATCH_CONTROL, WATCH_VAULT, WATCH_WORKERS };

static int64_t next_at_ns(const struct keeper *keeper)
{
    int64_t at_ns = NEVER_NS;

    if (keeper->phase != KEEPER_RUNS)
        return keeper->kill_at_ns;
    /* Behind a vault that must end first, its end wakes us. */
    if (keeper->control.child.process == 0 && (keeper->vault.child.process == 0 || now_ns() < keeper->control.again_at_ns))
        at_ns = keeper->control.again_at_ns;
    if (keeper->control.child.process != 0 && keeper->vault.program != NULL && keeper->vault.child.process == 0)
        at_ns = min_i64(at_ns, keeper->vault.again_at_ns);
    return at_ns;
}

static int timeout_ms(const struct keeper *keeper)
{
    const int64_t at_ns = next_at_ns(keeper);
    const int64_t wait_ns = at_ns - now_ns();

    if (at_ns == NEVER_NS)
        return -1;
    return wait_ns <= 0 ? 0 : (int)min_i64(wait_ns / NS_PER_MS + 1, 60000);
}

static void watch(struct pollfd *one, int descriptor, short events)
{
    *one = (struct pollfd){.fd = descriptor, .events = events};
}

static uint32_t watch_all(struct keeper *keeper, int signals, bool has_told, struct pollfd *watched)
{
    watch(&watched[WATCH_SIGNALS], signals, POLLIN);
    watch(&watched[WATCH_REQUESTS], keeper->control_socket, has_told ? POLLIN : POLLOUT);
    watch(&watched[WATCH_CONTROL], keeper->control.child.process != 0 ? keeper->control.child.watch : -1, POLLIN);
    watch(&watched[WATCH_VAULT], keeper->vault.child.process != 0 ? keeper->vault.child.watch : -1, POLLIN);
    for (uint32_t i = 0; i < keeper->config.workers_max; i++)
        watch(&watched[WATCH_WORKERS + i], keeper->places[i].child.process != 0 ? keeper->places[i].child.watch : -1, POLLIN);
    return WATCH_WORKERS + keeper->config.workers_max;
}

/* One after the other, and no further than it listens to what it is told. */
static void serve_requests(struct keeper *keeper)
{
    for (uint32_t i = 0; i < REQUESTS_A_TURN && keeper_tell(keeper); i++) {
        struct keeper_message request;
        int descriptor = -1;
        const enum status status = message_receive(keeper->control_socket, &request, &descriptor);

        close_one(&descriptor);
        if (status == STATUS_END)
            return;
        if (status != STATUS_OK) { /* it closed it, or speaks what we do not: it cannot go on */
            close_one(&keeper->control_socket);
            child_signal(&keeper->control.child, SIGKILL);
            return;
        }
        keeper_serve(keeper, &request);
    }
}

static void reap(struct keeper *keeper, const struct pollfd *watched)
{
    for (uint32_t i = 0; i < keeper->config.workers_max; i++) {
        struct place *place = &keeper->places[i];

        if (watched[WATCH_WORKERS + i].revents == 0 || !child_reap(&place->child))
            continue;
        place->tell_exited = true;
        say_exit(keeper, keeper->config.workers[place->launch.kind].name, place, &place->child.end);
    }
    if (watched[WATCH_CONTROL].revents != 0 && child_reap(&keeper->control.child))
        control_ended(keeper);
    if (watched[WATCH_VAULT].revents != 0 && child_reap(&keeper->vault.child))
        vault_ended(keeper);
}

static void loop(struct keeper *keeper, int signals, struct pollfd *watched)
{
    struct signalfd_siginfo signal_info;

    for (;;) {
        bool has_told;
        uint32_t count;

        start_what_is_due(keeper);
        if (keeper->has_failed && keeper->phase == KEEPER_RUNS)
            begin_end(keeper);
        go_on_ending(keeper);
        if (keeper->phase == KEEPER_ENDED)
            return;
        has_told = keeper_tell(keeper);
        count = watch_all(keeper, signals, has_told, watched);
        if (poll(watched, count, timeout_ms(keeper)) < 0) {
            check(errno == EINTR);
            continue;
        }
        if (watched[WATCH_SIGNALS].revents != 0 && read(signals, &signal_info, sizeof(signal_info)) == sizeof(signal_info) &&
            keeper->phase == KEEPER_RUNS)
            begin_end(keeper);
        if (watched[WATCH_REQUESTS].revents != 0 && keeper->control_socket >= 0)
            serve_requests(keeper);
        reap(keeper, watched);
    }
}

/* --- the beginning -------------------------------------------------------------------------------------------------------------- */

static uint32_t or_else(uint32_t value, uint32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static struct keeper_config completed(const struct keeper_config *config)
{
    struct keeper_config full = *config;

    full.workers_max = or_else(full.workers_max, 256);
    full.again_first_ms = or_else(full.again_first_ms, 100);
    full.again_max_ms = max_u32(or_else(full.again_max_ms, 10000), full.again_first_ms);
    full.settled_ms = or_else(full.settled_ms, 30000);
    full.failures_max = or_else(full.failures_max, 5);
    full.control_grace_ms = or_else(full.control_grace_ms, 30000);
    full.grace_ms = or_else(full.grace_ms, 5000);
    return full;
}

/* Two a worker, and some. */
static enum status raise_descriptors(uint32_t workers_max, struct refusal *refusal)
{
    const uint64_t need = 64 + 2 * (uint64_t)workers_max;
    struct rlimit limits;

    if (getrlimit(RLIMIT_NOFILE, &limits) != 0)
        return refuse(refusal, STATUS_IO, "the limit of open files cannot be read: %s", strerror(errno));
    if (limits.rlim_cur >= need)
        return STATUS_OK;
    limits.rlim_cur = need;
    if (limits.rlim_max < need || setrlimit(RLIMIT_NOFILE, &limits) != 0)
        return refuse(refusal, STATUS_IO, "%u workers take %llu open files, the limit is %llu: raise it (ulimit -n) or have fewer",
                      workers_max, (unsigned long long)need, (unsigned long long)limits.rlim_max);
    return STATUS_OK;
}

/* TERM, INT and HUP come as bytes; -1: errno. */
static int open_signals(sigset_t *ret_before)
{
    sigset_t ours;

    sigemptyset(&ours);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGHUP);
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, children could not be waited for */
    if (sigprocmask(SIG_BLOCK, &ours, ret_before) != 0)
        return -1;
    return signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void release(struct keeper *keeper)
{
    close_one(&keeper->control_socket);
    close_one(&keeper->vault_socket);
    for (uint32_t i = 0; keeper->places != NULL && i < keeper->config.workers_max; i++)
        close_one(&keeper->places[i].socket);
    free(keeper->places);
}

enum status keeper_run(const struct keeper_config *config, struct refusal *refusal)
{
    struct keeper keeper = {.config = completed(config), .control = {.program = config->control}, .vault = {.program = config->vault},
                            .control_socket = -1, .vault_socket = -1, .kill_at_ns = NEVER_NS};
    enum status status = raise_descriptors(keeper.config.workers_max, refusal);
    struct pollfd *watched = calloc(WATCH_WORKERS + (size_t)keeper.config.workers_max, sizeof(*watched));
    sigset_t before;
    int signals = -1;

    keeper.vault.again_at_ns = NEVER_NS;
    keeper.places = calloc(keeper.config.workers_max, sizeof(*keeper.places));
    if (status == STATUS_OK && (watched == NULL || keeper.places == NULL))
        status = refuse(refusal, STATUS_IO, "no memory for %u workers", keeper.config.workers_max);
    for (uint32_t i = 0; keeper.places != NULL && i < keeper.config.workers_max; i++)
        keeper.places[i].socket = -1;
    if (status != STATUS_OK)
        goto free_all;
    signals = open_signals(&before);
    if (signals < 0) {
        status = refuse(refusal, STATUS_IO, "signals cannot be read: %s", strerror(errno));
        goto free_all;
    }
    loop(&keeper, signals, watched);
    if (keeper.has_failed)
        status = refuse(refusal, STATUS_IO, "%s ended %u times in a row and was never up for %u ms: what it said stands above",
                        config->control->name, keeper.control.failures, keeper.config.settled_ms);
    close(signals);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
free_all:
    release(&keeper);
    free(watched);
    return status;
}
