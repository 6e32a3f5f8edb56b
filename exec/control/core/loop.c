/* The loop's thread: calls, the launcher, sockets, then what is due, then what is to be said. Time is read once a turn. */
#define _GNU_SOURCE /* CLOCK_BOOTTIME, sys/random.h */
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "control/core/internal.h"
#include "control/core/loop.h"

#define EVENTS_MAX 64
#define CHECKS_NS (100 * NS_PER_MS)

uint64_t core_worker_draw(void)
{
    uint64_t worker;

    do
        check(getrandom(&worker, sizeof(worker), 0) == sizeof(worker));
    while (worker <= TAG_LAST);
    return worker;
}

void core_worker_id(uint64_t worker, char ret_id[NAME_BYTES])
{
    (void)snprintf(ret_id, NAME_BYTES, "worker-%016llx", (unsigned long long)worker);
}

int64_t core_boot_ns(void)
{
    struct timespec now;

    check(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t core_wall_ms(void)
{
    struct timespec now;

    check(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

void core_log(struct core *core, const char *format, ...)
{
    char line[512];
    va_list arguments;

    if (core->config.log == NULL)
        return;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    core->config.log(core->config.log_context, line);
}

/* --- calls ----------------------------------------------------------------------------------------------------------------------- */

static void do_call(struct core *core, struct call *call)
{
    switch (call->kind) {
    case CALL_TELL:
        host_tell(core, &call->event);
        break;
    case CALL_RESTORED:
        core->is_restored = true;
        found_settle(core);
        break;
    case CALL_LAUNCH:
    case CALL_SAY:
    case CALL_COMMIT:
    case CALL_END:
    case CALL_FORGET:
        driven_call(core, call);
        break;
    case CALL_FETCHED:
        adapters_fetched(core, call);
        break;
    case CALL_ASK:
        request_asked(core, call->request);
        break;
    case CALL_NOTICE:
        host_notice(core, (uint32_t)call->number, call->after_ms);
        break;
    case CALL_ACT:
        act_came_back(core, call->act);
        return; /* the call lies in the act */
    }
    free(call);
}

static void do_calls(struct core *core)
{
    struct call *call = calls_take(core);

    while (call != NULL) {
        struct call *next = call->next;

        do_call(core, call);
        call = next;
    }
    while (calls_take_touched(core) != NULL)
        continue;
}

/* --- what others may look at ------------------------------------------------------------------------------------------------------ */

/* Under the lock. */
static void count_base(struct core *core, uint32_t base)
{
    struct core_base_counts counts = {.step_adapters_max = core->config.step_adapters_max};
    uint32_t free_permille = 0;

    for (uint32_t i = 0; i < core->replicas; i++) {
        const struct server *server = &core->servers[i];

        if (server->base == base && server->state == SERVER_UP && server->is_ready) {
            counts.up++;
            free_permille += server->kv_free_permille;
        }
    }
    if (counts.up > 0)
        counts.kv_used_permille = 1000 - free_permille / counts.up;
    core->base_counts[base] = counts;
}

static void count(struct core *core)
{
    struct core_counts counts = core->counts;

    counts.waiting = core->waiting.count;
    counts.servers = counts.servers_up = counts.trainers = counts.validators = counts.tells_waiting = 0;
    counts.devices = core->config.devices;
    counts.devices_leaving = (uint32_t)__builtin_popcount(core->noticed_mask | core->gone_mask);
    for (uint32_t i = 0; i < core->replicas; i++) {
        counts.servers += core->servers[i].state != SERVER_NONE;
        counts.servers_up += core->servers[i].state == SERVER_UP && core->servers[i].is_ready;
        counts.waiting += core->servers[i].parked.count + core->servers[i].ready.count;
    }
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        const struct worker_link *worker = core->workers[i];

        counts.trainers += worker != NULL && worker->launch.kind == CORE_TRAINER && !worker->is_gone;
        counts.validators += worker != NULL && worker->launch.kind == CORE_VALIDATOR && !worker->is_gone;
        counts.tells_waiting += worker != NULL ? worker->tells_count : 0;
        if (worker != NULL && worker->tells_count > 0)
            counts.tells_lag_ns = max_i64(counts.tells_lag_ns, core->now_ns - worker->tells[0].at_ns);
    }
    pthread_mutex_lock(&core->lock);
    core->public_counts = counts;
    for (uint32_t base = 0; base < core->config.bases_count; base++)
        count_base(core, base);
    pthread_mutex_unlock(&core->lock);
}

/* --- turns ----------------------------------------------------------------------------------------------------------------------- */

static int64_t due_ns(const struct core *core, int64_t stop_at_ns)
{
    int64_t due = min_i64(core->fleet_wakeup_at_ns, requests_due_ns(core));

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        if (core->workers[i] != NULL)
            due = min_i64(due, worker_link_due_ns(core, core->workers[i]));
    }
    if (core->acts_waiting != NULL)
        due = min_i64(due, core->acts_again_at_ns);
    if (stop_at_ns != 0)
        due = min_i64(due, min_i64(stop_at_ns, core->now_ns + CHECKS_NS));
    return min_i64(due, host_notice_due_ns(core));
}

static void sleep_until(struct core *core, int64_t due_at_ns)
{
    struct epoll_event events[EVENTS_MAX];
    const int64_t wait_ns = max_i64(due_at_ns - core->now_ns, 0);
    const int wait_ms = due_at_ns == NEVER_NS ? -1 : (int)min_i64((wait_ns + NS_PER_MS - 1) / NS_PER_MS, 60000);
    const int count = epoll_wait(core->epoll, events, EVENTS_MAX, wait_ms);

    core->now_ns = core->config.first_at_ns + core_boot_ns() - core->boot_first_ns;
    for (int i = 0; i < count; i++) {
        struct worker_link *worker;
        uint64_t ignored;

        if (events[i].data.u64 == TAG_WAKE) {
            check(read(core->wake, &ignored, sizeof(ignored)) == sizeof(ignored));
        } else if (events[i].data.u64 == TAG_LAUNCHER) {
            core->launcher_gone |= launcher_hear(core) != STATUS_OK;
        } else if ((worker = worker_link_find(core, events[i].data.u64)) != NULL) {
            worker_link_hear(core, worker);
        }
    }
}

static void turn(struct core *core)
{
    do_calls(core);
    host_tick(core);
    host_notice_turn(core);
    requests_give_up(core, false);
    acts_retry(core);
    adapters_turn(core);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        if (core->workers[i] != NULL)
            worker_link_turn(core, core->workers[i]);
    }
    host_tick(core); /* the fleet core's next instant is this one when it had more to say */
    count(core);
}

/* Without its launcher it can start and end nothing. */
static bool is_over(struct core *core, int64_t stop_at_ns)
{
    if (core->launcher_gone)
        core_log(core, "act=launcher-gone");
    return core->launcher_gone || (stop_at_ns != 0 && (core->counts.requests == 0 || core->now_ns >= stop_at_ns));
}

static int64_t stop_asked(struct core *core)
{
    if (atomic_load(&core->stop_asked) && core->stop_at_ns == 0)
        core->stop_at_ns = core->now_ns + (int64_t)core->stop_within_ms * NS_PER_MS + 1;
    return core->stop_at_ns;
}

/* Nothing is taken from here on; what was taken before is done. */
static void close_calls(struct core *core)
{
    pthread_mutex_lock(&core->lock);
    core->is_closed = true;
    pthread_mutex_unlock(&core->lock);
    do_calls(core);
    requests_end_all(core);
}

/* What waited for more to share its commit. */
static void tell_rest(struct core *core)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        if (core->workers[i] != NULL && core->workers[i]->tells_count > 0)
            server_tells_turn(core, core->workers[i]);
    }
}

/* The writer has acts of ours, and they come back here. */
static void wait_for_acts(struct core *core)
{
    while (core->acts_in_flight > 0) {
        sleep_until(core, NEVER_NS);
        do_calls(core);
    }
}

void *core_loop(void *context)
{
    struct core *core = context;
    int64_t stop_at_ns = 0;

    while (!is_over(core, stop_at_ns)) {
        turn(core);
        sleep_until(core, due_ns(core, stop_at_ns));
        stop_at_ns = stop_asked(core);
    }
    close_calls(core);
    tell_rest(core);
    wait_for_acts(core);
    count(core);
    fleet_check(core->fleet);
    return NULL;
}
