/* The fleet core's host: its configuration, what it is told, what becomes of its commands. A turn is the simulator's (journal/turn.h);
 * what performing a command brings is queued and told after it. */
#include <errno.h>
#include <stdlib.h>

#include "control/core/internal.h"
#include "control/metadata/tenant.h"
#include "fleet/pack.h"

/* As the simulator's scenarios have them, where they say nothing. */
#define PREEMPT_DELAY_NS (30 * NS_PER_S)
#define SCALE_UP_NS (10 * NS_PER_S)
#define SCALE_DOWN_NS (300 * NS_PER_S)
#define REPLICA_TARGET 32u

static void fill_jobs(const struct core *core, struct jobs_config *jobs)
{
    *jobs = (struct jobs_config){.jobs_max = core->config.jobs_max,
                                 .tenants_max = core->config.tenants_max,
                                 .cohorts_max = core->config.tenants_max + 1,
                                 .bases_max = max_u32(core->config.bases_count, 1),
                                 .nodes_max = 1,
                                 .holdings_max = core->config.devices * core->config.bases_count + 1,
                                 .flavors_max = 1,
                                 .sharers_max = 1,
                                 .order = order_policy_find("wfq"),
                                 .place = place_policy_find("residency"),
                                 .half_life_ns = META_SHARE_HALF_LIFE_MS * NS_PER_MS,
                                 .usage_factor_milli = 1000,
                                 .payback_milli = 0, /* each process loads its base itself: no job's load is another's */
                                 .preempt_delay_ns = PREEMPT_DELAY_NS,
                                 .victims_max = 16,
                                 .serve_max = core->replicas,
                                 .serve_flavors = 1,
                                 .reservations_max = 1};
    for (uint32_t k = 1; k <= SHARERS_MAX; k++)
        jobs->eta_milli[k] = 1000;
}

static struct fleet_config config_of(const struct core *core)
{
    struct fleet_config config = {.salt = hash_mix(core->config.epoch),
                                  .replicas_max = max_u32(core->replicas, 1),
                                  .nodes_max = max_u32(core->replicas, 1), /* see server_up() */
                                  .bases_max = max_u32(core->config.bases_count, 1),
                                  .adapters_max = core->config.adapters_max,
                                  .requests_max = core->config.requests_max,
                                  .route = route_policy_find("affinity"),
                                  .bound_milli = 1250,
                                  .bound_add = 4,
                                  .hot_share_milli = 500,
                                  .cool_milli = 750,
                                  .rate_half_life_ns = 60 * NS_PER_S,
                                  .scale = scale_policy_find("load")};

    fill_jobs(core, &config.jobs);
    return config;
}

/* --- the journal ----------------------------------------------------------------------------------------------------------------- */

static enum status open_journal(struct core *core, const struct fleet_config *config, struct refusal *refusal)
{
    struct journal_header header;
    struct journal_words words = {.words = header.words};

    if (core->config.journal == NULL)
        return STATUS_OK;
    core->journal = fopen(core->config.journal, "wxe");
    if (core->journal == NULL)
        return refuse(refusal, STATUS_IO, "cannot create the journal %s: %s", core->config.journal, strerror(errno));
    journal_header_init(&header, JOURNAL_FLEET, 0, sizeof(struct fleet_event));
    fleet_config_pack(&words, config);
    journal_header_seal(&header);
    core->journal_chain = header.checksum;
    if (fwrite(&header, sizeof(header), 1, core->journal) != 1)
        return refuse(refusal, STATUS_IO, "cannot write the journal %s: %s", core->config.journal, strerror(errno));
    return STATUS_OK;
}

/* A journal that cannot be written is told of once and goes no further: it decides nothing. */
static void record(void *self, const struct fleet_event *event, const struct fleet_commands *commands)
{
    struct core *core = self;
    struct journal_tail tail;

    if (core->journal == NULL)
        return;
    journal_seal(&core->journal_chain, event, sizeof(*event), fleet_digest(core->fleet),
                 hash_bytes(0, commands->items, commands->count * sizeof(commands->items[0])), &tail);
    if (fwrite(event, sizeof(*event), 1, core->journal) == 1 && fwrite(&tail, sizeof(tail), 1, core->journal) == 1)
        return;
    core_log(core, "act=journal-ended errno=%d", errno);
    (void)fclose(core->journal);
    core->journal = NULL;
}

/* --- turns ----------------------------------------------------------------------------------------------------------------------- */

struct fleet_event host_event(enum fleet_event_kind kind)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint16_t)kind;
    return event;
}

static void arm(void *self, int64_t wakeup_at_ns)
{
    ((struct core *)self)->fleet_wakeup_at_ns = wakeup_at_ns;
}

/* A base comes to a device with the process that uses it, which reads it when it starts; there is nothing to load before. */
static void load_base(struct core *core, const struct fleet_command *command)
{
    struct fleet_event event = host_event(FLEET_EVENT_BASE_LOADED);

    event.answers = command->id;
    event.base_loaded.node = command->base_load.node;
    event.base_loaded.gpu_mask = command->base_load.gpu_mask;
    event.base_loaded.base = command->base_load.base;
    host_tell(core, &event);
}

static void perform(void *self, const struct fleet_event *event, const struct fleet_command *command)
{
    struct core *core = self;

    (void)event;
    switch ((enum fleet_command_kind)command->kind) {
    case FLEET_COMMAND_ROUTE:
        request_routed(core, command);
        break;
    case FLEET_COMMAND_REFUSE:
        request_refused(core, command);
        break;
    case FLEET_COMMAND_JOB_REFUSE:
    case FLEET_COMMAND_JOB_PLACE:
    case FLEET_COMMAND_JOB_STOP:
        driven_heard(core, &(struct core_heard){.kind = CORE_HEARD_COMMAND, .command = command});
        break;
    case FLEET_COMMAND_BASE_LOAD:
        load_base(core, command);
        break;
    case FLEET_COMMAND_BASE_DROP: /* its bytes went with the process */
        break;
    case FLEET_COMMAND_REPLICA_START:
        server_start(core, command);
        break;
    case FLEET_COMMAND_REPLICA_DRAIN:
        server_drain(core, command);
        break;
    case FLEET_COMMAND_NONE:
    case FLEET_COMMAND_COUNT:
        check(false && "a fleet core said nothing that exists");
    }
}

static void deliver(struct core *core, struct fleet_event *event)
{
    event->at_ns = core->now_ns;
    event->seq = ++core->fleet_seq;
    fleet_turn(core->fleet, &core->fleet_host, event, &core->commands);
}

static void grow(struct fleet_told *told)
{
    const uint32_t max = told->max == 0 ? 256 : 2 * told->max;
    struct fleet_event *events = malloc(max * sizeof(*events));

    check(events != NULL);
    for (uint32_t i = 0; i < told->count; i++)
        events[i] = told->events[(told->first + i) % told->max];
    free(told->events);
    told->events = events;
    told->first = 0;
    told->max = max;
}

static void keep(struct fleet_told *told, const struct fleet_event *event)
{
    if (told->count == told->max)
        grow(told);
    told->events[(told->first + told->count++) % told->max] = *event;
}

static struct fleet_event take(struct fleet_told *told)
{
    const struct fleet_event event = told->events[told->first];

    told->first = (told->first + 1) % told->max;
    told->count--;
    return event;
}

/* Until all that is restored was told, what happens waits: RESTORE is the first that the fleet core hears. */
void host_tell(struct core *core, const struct fleet_event *event)
{
    struct fleet_told *told = &core->told;

    if (!core->is_running) {
        keep(&core->held, event);
        return;
    }
    keep(told, event);
    if (told->delivering)
        return;
    told->delivering = true;
    while (told->count > 0) {
        struct fleet_event next = take(told);

        deliver(core, &next);
    }
    told->delivering = false;
}

/* With more to say than one step holds, it asks for the same instant again. */
void host_tick(struct core *core)
{
    while (core->fleet_wakeup_at_ns <= core->now_ns) {
        struct fleet_event event = host_event(FLEET_EVENT_TICK);

        host_tell(core, &event);
    }
}

/* --- a life ---------------------------------------------------------------------------------------------------------------------- */

enum status host_open(struct core *core, struct refusal *refusal)
{
    const struct fleet_config config = config_of(core);
    const size_t bytes = fleet_bytes(&config);

    core->fleet_memory = calloc(1, bytes);
    if (core->fleet_memory == NULL)
        return refuse(refusal, STATUS_IO, "no memory for the fleet core: %zu bytes", bytes);
    core->fleet = fleet_create(core->fleet_memory, bytes, &config);
    core->fleet_host = (struct fleet_host){.self = core, .record = record, .perform = perform, .arm = arm};
    core->fleet_wakeup_at_ns = NEVER_NS;
    return open_journal(core, &config, refusal);
}

void host_close(struct core *core)
{
    if (core->journal != NULL && fclose(core->journal) != 0)
        core_log(core, "act=journal-ended errno=%d", errno);
    free(core->told.events);
    free(core->held.events);
    free(core->fleet_memory);
}

static void tell_gpus(struct core *core, enum fleet_event_kind kind, uint16_t mask, int64_t gone_at_ns)
{
    struct fleet_event event = host_event(kind);

    event.gpus.bytes = core->config.device_bytes;
    event.gpus.gone_at_ns = gone_at_ns;
    event.gpus.price_nano_per_hour = core->config.price_nano_per_hour;
    event.gpus.gpu_mask = mask;
    host_tell(core, &event);
}

static void tell_base(struct core *core, uint32_t base)
{
    struct fleet_event event = host_event(FLEET_EVENT_BASE_KNOWN);

    event.base_known.bytes = core->bases[base].bytes;
    event.base_known.load_ns = core->bases[base].load_ns;
    event.base_known.base.value = (uint16_t)base;
    event.base_known.gpus = 1;
    host_tell(core, &event);
}

/* A replica takes its device whole. */
static void tell_scale(struct core *core, uint32_t base)
{
    struct fleet_event event = host_event(FLEET_EVENT_SCALE);

    event.scale.up_ns = core->config.scale_up_ns != 0 ? core->config.scale_up_ns : SCALE_UP_NS;
    event.scale.down_ns = core->config.scale_down_ns != 0 ? core->config.scale_down_ns : SCALE_DOWN_NS;
    event.scale.bytes = core->config.device_bytes - core->bases[base].bytes;
    event.scale.target_milli = 1000 * (core->config.replica_target != 0 ? core->config.replica_target : REPLICA_TARGET);
    event.scale.up_milli = 1200;
    event.scale.down_milli = 700;
    event.scale.floor = core->bases[base].replicas_floor;
    event.scale.ceiling = core->bases[base].replicas_ceiling;
    event.scale.first = (uint16_t)core->replica_first[base];
    event.scale.base.value = (uint16_t)base;
    event.scale.tp = 1;
    event.scale.flags = SCALE_SHARED;
    host_tell(core, &event);
}

/* Of what is held: tenants; jobs whose trainers were found, each told as JOB, JOB_KEPT, JOB_FOUND; all else, which happens only now. */
enum held_kind { HELD_TENANT, HELD_FOUND, HELD_LATER };

static const struct fleet_event *held_at(const struct fleet_told *held, uint32_t i)
{
    return &held->events[(held->first + i) % held->max];
}

/* A JOB; what is told of it comes soon after, if at all. */
static bool is_found(const struct fleet_told *held, uint32_t job)
{
    for (uint32_t i = job + 1; i < held->count; i++) {
        const struct fleet_event *event = held_at(held, i);

        if (event->kind == FLEET_EVENT_JOB_KEPT && event->job_kept.job.value == held_at(held, job)->job.job.value)
            return true;
    }
    return false;
}

static enum held_kind held_kind(const struct fleet_told *held, uint32_t i)
{
    switch (held_at(held, i)->kind) {
    case FLEET_EVENT_COHORT:
    case FLEET_EVENT_TENANT:
    case FLEET_EVENT_TENANT_USAGE:
        return HELD_TENANT;
    case FLEET_EVENT_JOB:
        return is_found(held, i) ? HELD_FOUND : HELD_LATER;
    case FLEET_EVENT_JOB_KEPT:
    case FLEET_EVENT_JOB_FOUND:
        return HELD_FOUND;
    default:
        return HELD_LATER;
    }
}

static void tell_held(struct core *core, enum held_kind kind)
{
    const struct fleet_told *held = &core->held;

    for (uint32_t i = 0; i < held->count; i++) {
        if (held_kind(held, i) == kind)
            host_tell(core, held_at(held, i));
    }
}

static void restore(struct core *core)
{
    struct fleet_event event = host_event(FLEET_EVENT_RESTORE);

    host_tell(core, &event);
    tell_held(core, HELD_TENANT);
    for (uint32_t i = 0; i < core->config.bases_count; i++)
        tell_base(core, i);
    tell_gpus(core, FLEET_EVENT_GPUS_UP, (uint16_t)((1u << core->config.devices) - 1), 0);
    for (uint32_t i = 0; i < core->config.bases_count; i++)
        tell_scale(core, i);
    tell_held(core, HELD_FOUND); /* their bases came to their devices with them */
    servers_tell_found(core);
    event = host_event(FLEET_EVENT_RESTORE_DONE);
    host_tell(core, &event);
}

/* What was found stands where it stood. Servers that are owed come next: a job that waits must not be placed there before. */
void host_restored(struct core *core)
{
    restore(core);
    host_tick(core); /* what is owed at once is said now */
    tell_held(core, HELD_LATER);
    core->held.count = 0;
    requests_ask_again(core, NONE_INDEX);
}

/* --- devices that are taken back ---------------------------------------------------------------------------------------------------- */

static uint16_t highest(const struct core *core, uint32_t devices)
{
    const uint32_t all = (1u << core->config.devices) - 1;

    return (uint16_t)(all & ~(all >> min_u32(devices, core->config.devices)));
}

void host_notice(struct core *core, uint32_t devices, uint32_t after_ms)
{
    const uint16_t more = highest(core, devices) & (uint16_t)~(core->noticed_mask | core->gone_mask);

    core->wanted_back = devices == 0;
    if (more == 0)
        return;
    core->gone_at_ns = core->now_ns + (int64_t)after_ms * NS_PER_MS;
    core->noticed_mask |= more;
    tell_gpus(core, FLEET_EVENT_GPUS_NOTICE, core->noticed_mask, core->gone_at_ns);
}

/* The fleet core wants to hear of all that was there before: whoever still is, is ended, by us or, when it is a job's, by the driver. */
static bool is_empty(struct core *core)
{
    const struct devices *devices = jobs_devices(fleet_jobs(core->fleet));
    bool empty = true;

    for (uint32_t i = 0; i < core->replicas; i++) {
        struct worker_link *worker = core->servers[i].state != SERVER_NONE ? worker_link_find(core, core->servers[i].worker) : NULL;

        if (worker != NULL && (core->servers[i].gpu_mask & core->noticed_mask) != 0)
            worker_link_end(core, worker, true);
    }
    for (uint16_t gpu = 0; gpu < core->config.devices; gpu++)
        empty = empty && ((core->noticed_mask >> gpu & 1) == 0 || devices_jobs_on(devices, 0, gpu) == 0);
    return empty;
}

void host_notice_turn(struct core *core)
{
    if (core->noticed_mask != 0 && core->now_ns >= core->gone_at_ns && is_empty(core)) {
        const uint16_t mask = core->noticed_mask;

        core->noticed_mask = 0;
        core->gone_mask |= mask;
        tell_gpus(core, FLEET_EVENT_GPUS_GONE, mask, 0);
    }
    if (core->wanted_back && core->noticed_mask == 0 && core->gone_mask != 0) {
        const uint16_t mask = core->gone_mask;

        core->gone_mask = 0;
        tell_gpus(core, FLEET_EVENT_GPUS_UP, mask, 0);
    }
}

/* Looked at ten times a second while somebody is still there. */
int64_t host_notice_due_ns(const struct core *core)
{
    if (core->noticed_mask == 0)
        return NEVER_NS;
    return core->now_ns < core->gone_at_ns ? core->gone_at_ns : core->now_ns + 100 * NS_PER_MS;
}
