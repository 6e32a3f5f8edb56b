/* Model servers: a replica of the fleet core's is a process here. Its row is written before it is launched, so that the next control
 * plane finds what it must; its place among the replicas is free as soon as it is gone, whatever is still to be written of it. */
#define _GNU_SOURCE /* F_DUPFD_CLOEXEC */
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>

#include "control/core/internal.h"

struct server *server_of(struct core *core, const struct worker_link *worker)
{
    return worker->server != NONE_INDEX ? &core->servers[worker->server] : NULL;
}

static void take_place(struct core *core, struct server *server, uint32_t base, replica_id replica, uint16_t gpu_mask)
{
    const uint32_t index = replica_index(replica);

    check(server->state == SERVER_NONE && server->known == NULL);
    *server = (struct server){.state = SERVER_STARTING,
                              .index = index,
                              .base = base,
                              .replica = replica,
                              .gpu_mask = gpu_mask,
                              .known = calloc((size_t)core->config.adapters_max + 1, sizeof(struct known)),
                              .loaded = {NONE_INDEX, NONE_INDEX, 0},
                              .wanted = {NONE_INDEX, NONE_INDEX, 0}};
    check(server->known != NULL);
}

/* --- coming ---------------------------------------------------------------------------------------------------------------------- */

/* Host memory is each server's own, so each stands on a node of its own for the router; devices have the scheduler's node. */
static void tell_up(struct core *core, struct server *server)
{
    struct fleet_event event = host_event(FLEET_EVENT_REPLICA_UP);

    server->state = SERVER_UP;
    event.answers = server->ask;
    event.replica_up.replica = server->replica;
    event.replica_up.node.value = (uint16_t)server->index;
    event.replica_up.base.value = (uint16_t)server->base;
    server->ask = 0;
    host_tell(core, &event);
    adapters_server_up(core, server);
    requests_ask_again(core, server->base);
}

static void tell_down(struct core *core, const struct server *gone, bool was_idle)
{
    struct fleet_event event = host_event(FLEET_EVENT_REPLICA_DOWN);

    event.reason = REPLICA_LOST;
    if (gone->state == SERVER_STARTING)
        event.reason = REPLICA_FAILED;
    else if (gone->is_draining && was_idle)
        event.reason = REPLICA_DRAINED;
    event.answers = gone->ask;
    event.replica_down.replica = gone->replica;
    event.replica_down.node.value = (uint16_t)gone->index;
    event.replica_down.base.value = (uint16_t)gone->base;
    host_tell(core, &event);
}

/* Leaves the place to the next one; the requests that were there are the caller's. */
static struct server leave_place(struct core *core, struct server *server)
{
    const struct server gone = *server;

    adapters_forget_server(core, server);
    free(server->known);
    *server = (struct server){.state = SERVER_NONE, .index = gone.index};
    return gone;
}

static void fail_start(struct core *core, struct worker_link *worker)
{
    const struct server gone = leave_place(core, server_of(core, worker));

    worker->server = NONE_INDEX;
    tell_down(core, &gone, true);
}

/* Both ends bound the same things alike. */
static json_t *options_of(const struct core *core)
{
    json_t *options = core->config.server_options != NULL ? json_loads(core->config.server_options, 0, NULL) : json_object();

    check(json_object_set_new(options, "requests", json_integer(core->config.server_requests_max)) == 0);
    check(json_object_set_new(options, "adapters", json_integer(core->config.server_adapters_max)) == 0);
    check(json_object_set_new(options, "max_loras", json_integer(core->config.step_adapters_max)) == 0);
    return options;
}

/* Said again to one that was found: its control plane may have been killed before it could. */
static struct said *start_said(const struct core *core, const struct server *server)
{
    const uint32_t base = server->base;
    json_t *settings = json_pack("{s:s, s:s, s:{s:i, s:s}, s:o}", "task", "serve", "tenant", "", "base", "fd", 0, "name",
                                 core->bases[base].name, "options", options_of(core));
    char *text;
    int folder = fcntl(core->bases[base].folder, F_DUPFD_CLOEXEC, 3);
    struct wire_start start = {0};
    struct said *said;

    check(settings != NULL);
    core_gpus_say(core->config.gpus, server->gpu_mask, settings);
    text = json_dumps(settings, JSON_COMPACT);
    check(text != NULL);
    check(folder >= 0);
    start.settings = (const uint8_t *)text;
    start.settings_count = (uint32_t)strlen(text);
    memcpy(start.digest, core->bases[base].digest, sizeof(start.digest));
    said = said_create(WIRE_START, &start, &folder, 1);
    check(said != NULL);
    free(text);
    json_decref(settings);
    return said;
}

/* --- found ----------------------------------------------------------------------------------------------------------------------- */

static uint32_t base_named(const struct core *core, const char *name)
{
    for (uint32_t i = 0; name != NULL && i < core->config.bases_count; i++) {
        if (strcmp(core->bases[i].name, name) == 0)
            return i;
    }
    return NONE_INDEX;
}

/* Where it stands, if this control plane has such a base and devices. */
static bool placement_read(const struct core *core, const char *text, struct worker_link *worker)
{
    json_t *placement = json_loads(text, 0, NULL);
    const uint32_t base = base_named(core, json_string_value(json_object_get(placement, "base")));
    const json_int_t mask = json_integer_value(json_object_get(placement, "devices"));
    const json_int_t replica = json_integer_value(json_object_get(placement, "replica"));

    json_decref(placement);
    if (base == NONE_INDEX || mask <= 0 || mask >= (json_int_t)1 << core->config.devices)
        return false;
    worker->found_base = base;
    worker->found_mask = (uint16_t)mask;
    worker->found_replica = replica >= 0 && replica < (json_int_t)core->replicas ? (uint32_t)replica : NONE_INDEX;
    return true;
}

/* Nothing that it says is read before it is known whose place it has. */
void server_found(struct core *core, struct worker_link *worker, const char *placement)
{
    if (!worker->is_dead && !core->is_running && placement_read(core, placement, worker))
        worker->is_held = true;
    else
        worker_link_end(core, worker, false);
}

/* Its own number where that is one of its base's still, so that the router finds what it knows of it; NULL: all are taken. */
static struct server *place_of(struct core *core, const struct worker_link *worker)
{
    const uint32_t first = core->replica_first[worker->found_base];
    const uint32_t count = core->bases[worker->found_base].replicas_ceiling;
    const uint32_t own = worker->found_replica - first; /* beyond the count if it is none */

    for (uint32_t i = 0; i <= count; i++) {
        const uint32_t at = i == 0 ? own : i - 1;

        if (at < count && core->servers[first + at].state == SERVER_NONE)
            return &core->servers[first + at];
    }
    return NULL;
}

/* It is one that starts until it has said what it knows. */
static void tell_found(struct core *core, const struct server *server)
{
    struct fleet_event event = host_event(FLEET_EVENT_REPLICA_UP);

    event.reason = REPLICA_IS_STARTING;
    event.replica_up.replica = server->replica;
    event.replica_up.base.value = (uint16_t)server->base;
    event.replica_up.bytes = core->config.device_bytes - core->bases[server->base].bytes;
    event.replica_up.gpu_mask = server->gpu_mask;
    host_tell(core, &event);
}

static void keep(struct core *core, struct server *server, struct worker_link *worker)
{
    char id[NAME_BYTES];

    take_place(core, server, worker->found_base, replica_id_make(0, server->index), worker->found_mask);
    core_worker_id(worker->launch.worker, id);
    core_log(core, "act=server-kept worker=%s base=%s replica=%u devices=%u", id, core->bases[server->base].name, (unsigned)server->index,
             (unsigned)server->gpu_mask);
    worker->is_held = false;
    worker->server = server->index;
    server->worker = worker->launch.worker;
    tell_found(core, server);
    worker_link_say(core, worker, start_said(core, server));
}

void servers_tell_found(struct core *core)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        struct worker_link *worker = core->workers[i];
        struct server *server;

        if (worker == NULL || !worker->is_held)
            continue;
        server = worker->has_exited ? NULL : place_of(core, worker);
        worker->is_held = false;
        if (server != NULL)
            keep(core, server, worker);
        else
            worker_link_end(core, worker, false);
    }
}

/* --- launched -------------------------------------------------------------------------------------------------------------------- */

static enum status write_row(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct act *act = context;
    const struct meta_worker_new worker = {.id = act->id, .kind = "server", .placement = act->text};

    return meta_worker_add(metadata, &worker, act->now_ms, refusal);
}

static void row_was_written(struct core *core, struct act *act)
{
    struct worker_link *worker = worker_link_find(core, act->worker);
    struct launcher *launcher = core->config.launcher;
    enum status status = act->status;

    check(worker != NULL && worker->phase == WORKER_ROW);
    worker->phase = WORKER_ASKED;
    if (status == STATUS_OK)
        status = launcher->table->start(launcher, &worker->launch);
    if (status == STATUS_OK) {
        worker_link_say(core, worker, start_said(core, server_of(core, worker)));
        return;
    }
    core->launcher_gone |= status == STATUS_IO;
    server_refused(core, worker);
}

void server_refused(struct core *core, struct worker_link *worker)
{
    char id[NAME_BYTES];

    core_worker_id(worker->launch.worker, id);
    core_log(core, "act=server-refused worker=%s", id);
    fail_start(core, worker);
    server_end_row(core, worker, "refused");
}

void server_start(struct core *core, const struct fleet_command *command)
{
    struct server *server = &core->servers[replica_index(command->replica_start.replica)];
    const uint32_t base = command->replica_start.base.value;
    const struct launch launch = {.worker = core_worker_draw(), .attempt = 1, .kind = CORE_SERVER};
    struct worker_link *worker = worker_link_add(core, &launch, WORKER_ROW);
    struct act *act;

    take_place(core, server, base, command->replica_start.replica, command->replica_start.gpu_mask);
    server->ask = command->id;
    if (worker == NULL) {
        const struct server gone = leave_place(core, server);

        tell_down(core, &gone, true);
        return;
    }
    server->worker = launch.worker;
    worker->server = server->index;
    act = act_create(core, write_row, row_was_written, launch.worker);
    (void)snprintf(act->text, sizeof(act->text), "{\"base\":\"%s\",\"node\":0,\"devices\":%u,\"replica\":%u}", core->bases[base].name,
                   (unsigned)server->gpu_mask, (unsigned)server->index);
    core_log(core, "act=server-start worker=%s base=%s replica=%u devices=%u", act->id, core->bases[base].name, (unsigned)server->index,
             (unsigned)server->gpu_mask);
    act_submit(core, act);
}

/* --- what it says ---------------------------------------------------------------------------------------------------------------- */

static void usage(struct core *core, struct worker_link *worker, const struct wire_usage *usage, uint64_t seq)
{
    struct tell tell = {.seq = seq, .hour = (int64_t)(min_u64(usage->at_ms, INT64_MAX) / 3600000), .tokens_in = usage->prompt_tokens,
                        .tokens_out = usage->output_tokens};

    tell.is_usage = server_account(&tell, (const char *)usage->account, usage->account_count);
    server_tell(core, worker, &tell);
    request_used(core, usage->request);
}

static void inventory(struct core *core, struct server *server, const struct wire_inventory *inventory)
{
    for (uint32_t i = 0; i < inventory->residents_count; i++) {
        struct wire_resident resident;

        wire_resident_read(inventory->residents + (size_t)i * WIRE_RESIDENT_BYTES, &resident);
        adapter_resident(core, server, &resident, true);
    }
    if (inventory->more != 0)
        return;
    server->is_ready = true;
    server->kv_free_permille = 1000;
    if (server->state == SERVER_STARTING)
        tell_up(core, server);
}

static void residency(struct core *core, struct server *server, const struct wire_residency *said)
{
    struct wire_resident resident = {.generation = said->generation, .bytes = said->bytes, .tier = said->tier, .flags = said->flags};

    memcpy(resident.digest, said->digest, sizeof(resident.digest));
    adapter_resident(core, server, &resident, false);
}

static void beat(struct core *core, struct server *server, const struct wire_beat *beat)
{
    struct fleet_event event = host_event(FLEET_EVENT_REPLICA_STATE);

    if (server->state != SERVER_UP)
        return;
    event.replica_state.replica = server->replica;
    event.replica_state.waiting = beat->waiting;
    event.replica_state.kv_free_permille = server->kv_free_permille = min_u32(beat->kv_free_permille, 1000);
    host_tell(core, &event);
}

static void told(struct core *core, struct server *server, const struct wire_frame *frame)
{
    switch (frame->header.kind) {
    case WIRE_INVENTORY:
        inventory(core, server, &frame->body.inventory);
        break;
    case WIRE_RESIDENCY:
        residency(core, server, &frame->body.residency);
        break;
    case WIRE_BEAT:
        beat(core, server, &frame->body.beat);
        break;
    case WIRE_UNLOADED:
        adapter_unloaded(core, server, &frame->body.unloaded);
        break;
    case WIRE_TOKENS:
        request_tokens(core, server, &frame->body.tokens);
        break;
    case WIRE_DONE:
        request_done(core, server, &frame->body.done);
        break;
    default: /* no word of a model server's: it is counted, and that is all */
        break;
    }
}

void server_frame(struct core *core, struct worker_link *worker, const struct wire_frame *frame)
{
    struct server *server = server_of(core, worker);

    if (frame->header.kind == WIRE_USAGE)
        usage(core, worker, &frame->body.usage, frame->header.seq);
    else if (frame->header.seq != 0)
        server_tell(core, worker, &(struct tell){.seq = frame->header.seq});
    if (server != NULL)
        told(core, server, frame);
}

/* --- what it is told ------------------------------------------------------------------------------------------------------------- */

void server_drain(struct core *core, const struct fleet_command *command)
{
    struct server *server = &core->servers[replica_index(command->replica_drain.replica)];

    check(server->state == SERVER_UP && server->ask == 0);
    server->ask = command->id;
    server->is_draining = true;
}

/* Once it drains, it takes no more: what was routed to it is said before. */
static void say_drain(struct core *core, struct server *server, struct wire *wire)
{
    const int64_t left_ms = max_i64(core->gone_at_ns - core->now_ns, 0) / NS_PER_MS;
    struct wire_drain drain = {.deadline_ms = UINT32_MAX};

    if ((server->gpu_mask & core->noticed_mask) != 0)
        drain.deadline_ms = (uint32_t)min_i64(left_ms, UINT32_MAX - 1);
    server->drain_said = wire_say(wire, WIRE_DRAIN, &drain, 0, NULL, 0) == STATUS_OK;
}

void server_turn(struct core *core, struct worker_link *worker)
{
    struct server *server = server_of(core, worker);

    if (server == NULL || !server->is_ready)
        return;
    requests_say(core, server, worker->wire);
    if (server->is_draining && !server->drain_said && server->parked.count == 0 && server->ready.count == 0)
        say_drain(core, server, worker->wire);
}

/* --- going ----------------------------------------------------------------------------------------------------------------------- */

static void join(struct request_list *list, struct request_list *more)
{
    if (more->count == 0)
        return;
    if (list->count == 0) {
        *list = *more;
        return;
    }
    list->last->next = more->first;
    more->first->prev = list->last;
    list->last = more->last;
    list->count += more->count;
}

void server_gone(struct core *core, struct worker_link *worker)
{
    struct server *server = server_of(core, worker);
    char id[NAME_BYTES];

    core_worker_id(worker->launch.worker, id);
    core_log(core, "act=server-gone worker=%s by=%s code=%d", id, worker->end.by_signal ? "signal" : "exit", (int)worker->end.code);
    if (server != NULL) {
        struct request_list others = server->parked;
        struct request_list sent = server->sent;
        struct server gone;

        join(&others, &server->ready);
        gone = leave_place(core, server);
        worker->server = NONE_INDEX;
        tell_down(core, &gone, sent.count + others.count == 0);
        requests_server_gone(core, &sent, &others, worker);
    }
    server_tells_turn(core, worker);
}
