/* A core's memory, its thread, its values. */
#include "control/core/core.h"

#include <errno.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "control/core/internal.h"
#include "control/core/loop.h"

static uint32_t or_else(uint32_t value, uint32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static struct core_config completed(const struct core_config *config)
{
    struct core_config full = *config;

    full.jobs_max = or_else(full.jobs_max, 4096);
    full.tenants_max = or_else(full.tenants_max, 1024);
    full.adapters_max = or_else(full.adapters_max, 65536);
    full.requests_max = or_else(full.requests_max, 4096);
    full.queue_max = or_else(full.queue_max, 8192);
    full.server_requests_max = or_else(full.server_requests_max, 256);
    full.server_adapters_max = or_else(full.server_adapters_max, 8192);
    full.step_adapters_max = or_else(full.step_adapters_max, 32);
    return full;
}

static bool is_object(const char *text)
{
    json_t *object = text != NULL ? json_loads(text, 0, NULL) : json_object();
    const bool is = json_is_object(object);

    json_decref(object);
    return is;
}

static enum status judge(const struct core_config *config, struct refusal *refusal)
{
    if (config->bases_count > 256)
        return refuse(refusal, STATUS_INVALID, "a control plane has at most 256 bases");
    if (!is_object(config->server_options))
        return refuse(refusal, STATUS_INVALID, "the servers' options are no JSON object");
    if (config->devices < 1 || config->devices > CORE_DEVICES_MAX)
        return refuse(refusal, STATUS_INVALID, "a node has 1 to %d devices", CORE_DEVICES_MAX);
    for (uint32_t i = 0; i < config->bases_count; i++) {
        const struct core_base *base = &config->bases[i];

        if (base->bytes >= config->device_bytes)
            return refuse(refusal, STATUS_INVALID, "base %s: %llu bytes are more than a device has", base->name,
                          (unsigned long long)base->bytes);
        if (base->replicas_floor < 1 || base->replicas_ceiling < base->replicas_floor || base->replicas_ceiling > 64)
            return refuse(refusal, STATUS_INVALID, "base %s: replicas: 1 <= floor <= ceiling <= 64", base->name);
    }
    return STATUS_OK;
}

static bool take_memory(struct core *core)
{
    const struct core_config *config = &core->config;

    core->replica_first = calloc(config->bases_count, sizeof(core->replica_first[0]));
    core->base_counts = calloc(config->bases_count, sizeof(core->base_counts[0]));
    core->bases = calloc(config->bases_count, sizeof(core->bases[0]));
    core->slots = calloc(config->requests_max, sizeof(struct request *));
    core->slots_free = calloc(config->requests_max, sizeof(core->slots_free[0]));
    core->adapters = calloc((size_t)config->adapters_max + 1, sizeof(core->adapters[0]));
    core->adapter_of_memory = calloc(1, table_bytes(config->adapters_max));
    core->worker_of_memory = calloc(1, table_bytes(WORKERS_MAX));
    if (core->replica_first == NULL || core->base_counts == NULL || core->bases == NULL || core->slots == NULL ||
        core->slots_free == NULL || core->adapters == NULL || core->adapter_of_memory == NULL || core->worker_of_memory == NULL)
        return false;
    for (uint32_t i = 0; i < config->bases_count; i++) {
        core->bases[i] = config->bases[i];
        core->replica_first[i] = core->replicas;
        core->replicas += config->bases[i].replicas_ceiling;
    }
    core->servers = calloc(core->replicas, sizeof(core->servers[0]));
    return core->servers != NULL;
}

static void fill(struct core *core)
{
    for (uint32_t i = 0; i < core->replicas; i++)
        core->servers[i].index = i;
    for (uint32_t i = 0; i < core->config.requests_max; i++)
        core->slots_free[i] = core->config.requests_max - 1 - i; /* the lowest goes first */
    core->slots_free_count = core->config.requests_max;
    table_init(&core->adapter_of, core->adapter_of_memory, core->config.adapters_max);
    table_init(&core->worker_of, core->worker_of_memory, WORKERS_MAX);
    core->adapters_unused = (struct known_list){NONE_INDEX, NONE_INDEX, 0};
    core->calls_end = &core->calls;
    core->generation = core->config.epoch << 32; /* above what servers have from before */
    core->boot_first_ns = core_boot_ns();
    core->now_ns = core->config.first_at_ns;
}

static enum status watch(struct core *core, int descriptor, uint64_t tag, struct refusal *refusal)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = tag};

    if (epoll_ctl(core->epoll, EPOLL_CTL_ADD, descriptor, &event) != 0)
        return refuse(refusal, STATUS_IO, "cannot wait for events: %s", strerror(errno));
    return STATUS_OK;
}

static enum status open_waiting(struct core *core, struct refusal *refusal)
{
    struct launcher *launcher = core->config.launcher;
    enum status status;

    core->epoll = epoll_create1(EPOLL_CLOEXEC);
    core->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (core->epoll < 0 || core->wake < 0)
        return refuse(refusal, STATUS_IO, "cannot wait for events: %s", strerror(errno));
    status = watch(core, core->wake, TAG_WAKE, refusal);
    if (status == STATUS_OK)
        status = watch(core, launcher->table->descriptor(launcher), TAG_LAUNCHER, refusal);
    if (status == STATUS_OK && launcher->table->list(launcher) != STATUS_OK)
        status = refuse(refusal, STATUS_IO, "the launcher is gone");
    return status;
}

/* Signals are for the thread that hosts. */
static enum status begin(struct core *core, struct refusal *refusal)
{
    sigset_t all;
    sigset_t before;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&core->thread, NULL, core_loop, core);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0)
        return refuse(refusal, STATUS_IO, "no thread for the core loop: %s", strerror(code));
    core->has_thread = true;
    return STATUS_OK;
}

enum status core_open(const struct core_config *config, struct core **ret_core, struct refusal *refusal)
{
    struct core *core;
    enum status status = judge(config, refusal);

    if (status != STATUS_OK)
        return status;
    core = calloc(1, sizeof(*core));
    check(core != NULL);
    core->epoll = core->wake = -1;
    pthread_mutex_init(&core->lock, NULL);
    core->config = completed(config);
    if (!take_memory(core)) {
        status = refuse(refusal, STATUS_IO, "no memory for the core loop");
    } else {
        fill(core);
        status = host_open(core, refusal);
    }
    if (status == STATUS_OK)
        status = open_waiting(core, refusal);
    if (status == STATUS_OK)
        status = begin(core, refusal);
    if (status != STATUS_OK) {
        core->config.launcher = NULL; /* the caller's still */
        core_close(core);
        return status;
    }
    *ret_core = core;
    return STATUS_OK;
}

void core_stop(struct core *core, uint32_t within_ms)
{
    const uint64_t one = 1;

    if (!core->has_thread)
        return;
    pthread_mutex_lock(&core->lock);
    core->stop_within_ms = within_ms;
    atomic_store(&core->stop_asked, true);
    pthread_mutex_unlock(&core->lock);
    check(write(core->wake, &one, sizeof(one)) == sizeof(one));
    pthread_join(core->thread, NULL);
    core->has_thread = false;
}

static void free_calls(struct core *core)
{
    struct act *act = core->acts_waiting;

    while (act != NULL) {
        struct act *next = act->next;

        act_free(act);
        act = next;
    }
}

void core_close(struct core *core)
{
    if (core == NULL)
        return;
    core_stop(core, 0);
    while (atomic_load(&core->wakers) > 0) /* the writer's, of an act that the loop has taken already */
        (void)sched_yield();
    for (uint32_t i = 0; i < FETCHES_MAX; i++) {
        if (core->fetches[i].answered)
            close(core->fetches[i].object);
    }
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        if (core->workers[i] != NULL)
            worker_link_free(core, core->workers[i]);
    }
    for (uint32_t i = 0; i < core->replicas && core->servers != NULL; i++)
        free(core->servers[i].known);
    free_calls(core);
    host_close(core);
    if (core->config.launcher != NULL)
        core->config.launcher->table->close(core->config.launcher);
    if (core->epoll >= 0)
        close(core->epoll);
    if (core->wake >= 0)
        close(core->wake);
    free(core->servers);
    free(core->replica_first);
    free(core->base_counts);
    free(core->bases);
    free(core->slots);
    free(core->slots_free);
    free(core->adapters);
    free(core->adapter_of_memory);
    free(core->worker_of_memory);
    pthread_mutex_destroy(&core->lock);
    free(core);
}

struct core_counts core_counts(struct core *core)
{
    struct core_counts counts;

    pthread_mutex_lock(&core->lock);
    counts = core->public_counts;
    pthread_mutex_unlock(&core->lock);
    return counts;
}

struct core_base_counts core_base_counts(struct core *core, uint32_t base)
{
    struct core_base_counts counts;

    check(base < core->config.bases_count);
    pthread_mutex_lock(&core->lock);
    counts = core->base_counts[base];
    pthread_mutex_unlock(&core->lock);
    return counts;
}

void core_look(struct core *core, void (*see)(void *context, const struct core_seen *seen), void *context)
{
    pthread_mutex_lock(&core->lock);
    for (uint32_t i = 0; i < core->config.requests_max; i++) {
        const struct request *request = core->slots[i];

        if (request != NULL)
            see(context, &(struct core_seen){request->base, request->state == REQUEST_SENT, request->has_adapter ? request->info.key : NULL});
    }
    pthread_mutex_unlock(&core->lock);
}
