/* The fleet core's steps: replicas come and go in pools, a pool a base; a request is shown to the routing policy with
 * what is known of its adapter, and leaves as a ROUTE or a REFUSE. A step costs O(pool) at most, except the loss of a
 * replica, which also frees the requests it had in flight. Nothing here costs O(adapters). */
#include "fleet/fleet.h"

#include "base/hash.h"
#include "fleet/state.h"

/* The memory is one block: parts in the order of struct fleet, each aligned to 8 bytes. */
struct layout {
    size_t used;
};

static size_t take(struct layout *layout, size_t bytes)
{
    size_t at = layout->used;

    layout->used += (bytes + 7) & ~(size_t)7;
    return at;
}

struct parts {
    size_t fleet, replicas, members, pools, pool_members, adapters, gpu_replicas, host_nodes, node_replicas,
        host_scratch, requests, scales, scaled, merges, merging, jobs, bytes;
};

static uint32_t words_for(uint32_t bits)
{
    return (bits + 63) / 64;
}

static struct parts parts_of(const struct fleet_config *config)
{
    struct layout layout = {0};
    struct parts parts;
    size_t replica_set = words_for(config->replicas_max) * sizeof(uint64_t);
    size_t node_set = words_for(config->nodes_max) * sizeof(uint64_t);
    size_t adapters = (size_t)config->adapters_max + 1;

    check(config->replicas_max >= 1 && config->replicas_max <= FLEET_REPLICAS_MAX);
    check(config->nodes_max >= 1 && config->nodes_max <= 1u << 16);
    check(config->bases_max >= 1 && config->bases_max <= 1u << 16);
    check(config->adapters_max < UINT32_MAX);
    check(config->requests_max >= 1 && config->requests_max <= REQUEST_SLOTS_MAX);
    parts.fleet = take(&layout, sizeof(struct fleet));
    parts.replicas = take(&layout, config->replicas_max * sizeof(struct fleet_replica));
    parts.members = take(&layout, config->replicas_max * sizeof(struct fleet_member));
    parts.pools = take(&layout, config->bases_max * sizeof(struct fleet_pool));
    parts.pool_members = take(&layout, (size_t)config->bases_max * config->replicas_max * sizeof(uint16_t));
    parts.adapters = take(&layout, adapters * sizeof(struct fleet_adapter));
    parts.gpu_replicas = take(&layout, adapters * replica_set);
    parts.host_nodes = take(&layout, adapters * node_set);
    parts.node_replicas = take(&layout, config->nodes_max * replica_set);
    parts.host_scratch = take(&layout, replica_set);
    parts.requests = take(&layout, config->requests_max * sizeof(struct fleet_request));
    parts.scales = take(&layout, config->bases_max * sizeof(struct fleet_scale));
    parts.scaled = take(&layout, config->bases_max * sizeof(uint16_t));
    parts.merges = take(&layout, config->bases_max * sizeof(struct fleet_merge));
    parts.merging = take(&layout, config->bases_max * sizeof(uint16_t));
    layout.used = (layout.used + 15) & ~(size_t)15;
    parts.jobs = take(&layout, config->jobs.jobs_max > 0 ? jobs_bytes(&config->jobs) : 0);
    parts.bytes = layout.used;
    return parts;
}

size_t fleet_bytes(const struct fleet_config *config)
{
    return parts_of(config).bytes;
}

struct fleet *fleet_create(void *memory, size_t memory_bytes, const struct fleet_config *config)
{
    struct parts parts = parts_of(config);
    unsigned char *bytes = memory;
    struct fleet *fleet = memory;

    check(memory_bytes >= parts.bytes);
    check((uintptr_t)memory % 8 == 0);
    check(config->route != NULL);
    check(config->bound_milli >= 1000); /* so that a pool always has a replica that is not busy */
    check(config->hot_share_milli >= 1);
    check(config->cool_milli <= 1000);
    check(config->rate_half_life_ns >= RATE_EPOCHS);
    memset(memory, 0, parts.bytes);
    fleet->config = *config;
    fleet->at_ns = INT64_MIN;
    fleet->epoch_ns = config->rate_half_life_ns / RATE_EPOCHS;
    fleet->replica_words = words_for(config->replicas_max);
    fleet->node_words = words_for(config->nodes_max);
    fleet->replicas = (void *)(bytes + parts.replicas);
    fleet->members = (void *)(bytes + parts.members);
    fleet->pools = (void *)(bytes + parts.pools);
    fleet->adapters = (void *)(bytes + parts.adapters);
    fleet->gpu_replicas = (void *)(bytes + parts.gpu_replicas);
    fleet->host_nodes = (void *)(bytes + parts.host_nodes);
    fleet->node_replicas = (void *)(bytes + parts.node_replicas);
    fleet->host_scratch = (void *)(bytes + parts.host_scratch);
    fleet->requests = (void *)(bytes + parts.requests);
    fleet->scales = (void *)(bytes + parts.scales);
    fleet->scaled = (void *)(bytes + parts.scaled);
    fleet->scale_at_ns = NEVER_NS;
    fleet->merges = (void *)(bytes + parts.merges);
    fleet->merging = (void *)(bytes + parts.merging);
    fleet->merge_at_ns = NEVER_NS;
    for (uint32_t i = 0; i < config->bases_max; i++)
        fleet->pools[i].members = (uint16_t *)(void *)(bytes + parts.pool_members) + (size_t)i * config->replicas_max;
    for (uint32_t i = 0; i < config->replicas_max; i++) {
        fleet->members[i].request_first = NONE_INDEX;
        fleet->members[i].scale_base = NO_SCALE;
        fleet->members[i].merge_base = NO_MERGE;
        fleet->members[i].below_since_ns = NEVER_NS;
    }
    for (uint32_t i = 0; i <= config->adapters_max; i++) {
        fleet->adapters[i].homes = 1;
        fleet->adapters[i].merged = NONE_INDEX;
    }
    for (uint32_t i = 0; i < config->requests_max; i++)
        fleet->requests[i].replica = NONE_INDEX;
    if (config->jobs.jobs_max > 0)
        fleet->jobs = jobs_create(bytes + parts.jobs, jobs_bytes(&config->jobs), &config->jobs);
    return fleet;
}

static void request_put(struct fleet *fleet, request_id id, adapter_id adapter, uint32_t replica)
{
    uint32_t slot = request_slot(id);
    struct fleet_request *request = &fleet->requests[slot];
    struct fleet_member *member = &fleet->members[replica];

    *request = (struct fleet_request){
        .id = id, .adapter = adapter, .replica = replica, .prev = NONE_INDEX, .next = member->request_first};
    if (request->next != NONE_INDEX)
        fleet->requests[request->next].prev = slot;
    member->request_first = slot;
    if (fleet->replicas[replica].merged) {
        fleet->replicas[replica].outstanding++;
        return;
    }
    scale_note(fleet, fleet->replicas[replica].base.value);
    fleet->replicas[replica].outstanding++;
    fleet->pools[fleet->replicas[replica].base.value].outstanding++;
}

static void request_drop(struct fleet *fleet, uint32_t slot)
{
    struct fleet_request *request = &fleet->requests[slot];
    struct fleet_replica *replica = &fleet->replicas[request->replica];

    if (request->prev != NONE_INDEX)
        fleet->requests[request->prev].next = request->next;
    else
        fleet->members[request->replica].request_first = request->next;
    if (request->next != NONE_INDEX)
        fleet->requests[request->next].prev = request->prev;
    request->replica = NONE_INDEX;
    replica->outstanding--;
    if (replica->draining || replica->merged)
        return;
    scale_note(fleet, replica->base.value);
    fleet->pools[replica->base.value].outstanding--;
}

/* The place of `replica` among the members, or where it would stand. */
static uint32_t pool_seek(const struct fleet_pool *pool, uint32_t replica)
{
    uint32_t at = 0;

    while (at < pool->count && pool->members[at] < replica)
        at++;
    return at;
}

static uint64_t *node_word(struct fleet *fleet, node_id node, uint32_t replica)
{
    return &fleet->node_replicas[(size_t)node.value * fleet->replica_words + replica / 64];
}

static void join_pool(struct fleet *fleet, uint32_t index)
{
    struct fleet_pool *pool = &fleet->pools[fleet->replicas[index].base.value];
    uint32_t at = pool_seek(pool, index);

    memmove(pool->members + at + 1, pool->members + at, (pool->count - at) * sizeof(pool->members[0]));
    pool->members[at] = (uint16_t)index;
    pool->count++;
}

void fleet_join(struct fleet *fleet, const struct fleet_event *event, bool merged)
{
    uint32_t index = replica_index(event->replica_up.replica);
    uint32_t generation = event->replica_up.replica.value >> 16;
    struct fleet_replica *replica = &fleet->replicas[index];
    struct fleet_member *member = &fleet->members[index];

    member->known = true;
    member->generation_next = generation + 1;
    *replica = (struct fleet_replica){
        .kv_free_permille = 1000,
        .generation = generation,
        .base = event->replica_up.base,
        .node = event->replica_up.node,
        .up = true,
        .merged = merged,
    };
    if (!replica->merged)
        join_pool(fleet, index);
    *node_word(fleet, replica->node, index) |= UINT64_C(1) << index % 64;
}

static void replica_up(struct fleet *fleet, const struct fleet_event *event, struct fleet_commands *out)
{
    uint32_t index = replica_index(event->replica_up.replica);

    check(index < fleet->config.replicas_max);
    check(event->replica_up.node.value < fleet->config.nodes_max);
    check(event->replica_up.base.value < fleet->config.bases_max);

    const struct fleet_replica *replica = &fleet->replicas[index];

    check(!replica->up);
    check(!fleet->members[index].known || replica->generation != event->replica_up.replica.value >> 16);
    scale_replica_up(fleet, event);
    fleet_join(fleet, event, merge_replica_up(fleet, event));
    if (scale_is_shared(fleet, event->replica_up.replica)) {
        jobs_serve_up(fleet->jobs, fleet->at_ns, index, &fleet->commands, out);
        scale_hear(fleet, out, 0);
    }
    if (replica->merged)
        merge_replica_settle(fleet, index, out);
}

void fleet_leave_pool(struct fleet *fleet, uint32_t index)
{
    struct fleet_replica *replica = &fleet->replicas[index];
    struct fleet_pool *pool = &fleet->pools[replica->base.value];
    uint32_t at = pool_seek(pool, index);

    check(replica->up && !replica->draining && !replica->merged);
    scale_note(fleet, replica->base.value);
    pool->outstanding -= replica->outstanding;
    pool->count--;
    memmove(pool->members + at, pool->members + at + 1, (pool->count - at) * sizeof(pool->members[0]));
    replica->draining = true;
}

static void forget_replica(struct fleet *fleet, const struct fleet_event *event)
{
    uint32_t index = replica_index(event->replica_down.replica);

    check(event->reason <= REPLICA_FAILED);
    if (!scale_replica_down(fleet, event) || !merge_replica_down(fleet, event))
        return;
    check(replica_is_live(fleet, event->replica_down.replica));

    struct fleet_replica *replica = &fleet->replicas[index];
    struct fleet_member *member = &fleet->members[index];

    while (member->request_first != NONE_INDEX)
        request_drop(fleet, member->request_first);
    if (!replica->draining && !replica->merged)
        fleet_leave_pool(fleet, index);
    *node_word(fleet, replica->node, index) &= ~(UINT64_C(1) << index % 64);
    replica->up = false;
    replica->draining = false;
    replica->merged = false;
    member->lost_at = ++fleet->losses;
}

static void replica_down(struct fleet *fleet, const struct fleet_event *event, struct fleet_commands *out)
{
    forget_replica(fleet, event);
    if (!scale_is_shared(fleet, event->replica_down.replica))
        return;
    jobs_serve_gone(fleet->jobs, fleet->at_ns, replica_index(event->replica_down.replica), &fleet->commands, out);
    scale_hear(fleet, out, 0);
}

static void replica_state(struct fleet *fleet, const struct fleet_event *event)
{
    struct fleet_replica *replica = &fleet->replicas[replica_index(event->replica_state.replica)];

    if (!replica_is_live(fleet, event->replica_state.replica))
        return;
    check(event->replica_state.kv_free_permille <= 1000);
    replica->waiting = event->replica_state.waiting;
    replica->kv_free_permille = event->replica_state.kv_free_permille;
}

struct fleet_command *fleet_say(struct fleet *fleet, struct fleet_commands *out, enum fleet_command_kind kind)
{
    check(out->count < COMMANDS_MAX);

    struct fleet_command *command = &out->items[out->count++];

    memset(command, 0, sizeof(*command));
    command->id = ++fleet->commands;
    command->kind = (uint16_t)kind;
    return command;
}

/* Ids are left out of the history, so that it tells what was decided and not how it was numbered. */
void fleet_remember(struct fleet *fleet, const struct fleet_command *command)
{
    fleet->history = hash_fold(fleet->history, (uint64_t)command->kind << 16 | command->reason);
    fleet->history = hash_words(fleet->history, command->word, ARRAY_COUNT(command->word));
}

static void refuse(struct fleet *fleet, struct fleet_commands *out, request_id request, enum fleet_refuse_reason reason,
                   uint64_t need, uint64_t have)
{
    struct fleet_command *command = fleet_say(fleet, out, FLEET_COMMAND_REFUSE);

    command->reason = (uint16_t)reason;
    command->refuse.request_or_job = request.value;
    command->refuse.need = need;
    command->refuse.have = have;
    fleet_remember(fleet, command);
}

static uint32_t ask_policy(struct fleet *fleet, const struct fleet_event *event, const struct fleet_pool *pool,
                           enum route_reason *ret_reason)
{
    adapter_id adapter = event->request.adapter;
    const struct fleet_view view = {
        .salt = fleet->config.salt,
        .replicas = fleet->replicas,
        .replicas_max = fleet->config.replicas_max,
        .bound_milli = fleet->config.bound_milli,
        .bound_add = fleet->config.bound_add,
    };
    const struct fleet_ask ask = {
        .request = event->request.request,
        .adapter = adapter,
        .tenant = event->request.tenant,
        .pool = pool->members,
        .pool_count = pool->count,
        .pool_ordinal = pool->ordinal,
        .pool_outstanding = pool->outstanding,
        .homes = min_u32(fleet->adapters[adapter.index].homes, pool->count),
        .gpu_bits = residency_gpu_bits(fleet, adapter),
        .host_bits = residency_host_bits(fleet, adapter),
        .reason = ret_reason,
    };
    uint32_t replica;

    *ret_reason = ROUTE_POLICY;
    replica = fleet->config.route->pick(&view, &ask);
    check(replica < fleet->config.replicas_max);
    check(fleet->replicas[replica].up);
    check(!fleet->replicas[replica].draining && !fleet->replicas[replica].merged);
    check(fleet->replicas[replica].base.value == event->request.base.value);
    check(*ret_reason < ROUTE_MERGED);
    return replica;
}

/* Which replica of the pool? What goes elsewhere is no part of its rates. */
static uint32_t route_in_pool(struct fleet *fleet, const struct fleet_event *event, struct fleet_pool *pool,
                              enum route_reason *ret_reason)
{
    adapter_id adapter = event->request.adapter;
    uint32_t replica;

    rate_add_one(&pool->rate, fleet->epoch);
    if (!adapter_is_base(adapter))
        rate_heat(fleet, &fleet->adapters[adapter.index], pool);
    replica = ask_policy(fleet, event, pool, ret_reason);
    pool->ordinal++;
    return replica;
}

static void request(struct fleet *fleet, const struct fleet_event *event, struct fleet_commands *out)
{
    request_id id = event->request.request;
    adapter_id adapter = event->request.adapter;

    check(request_slot(id) < fleet->config.requests_max);
    check(fleet->requests[request_slot(id)].replica == NONE_INDEX);
    check(event->request.base.value < fleet->config.bases_max);

    struct fleet_pool *pool = &fleet->pools[event->request.base.value];
    bool known = adapter.index <= fleet->config.adapters_max;
    uint32_t replica = known ? merge_route(fleet, adapter, event->request.base, out) : NONE_INDEX;
    enum route_reason reason = ROUTE_MERGED;

    if (replica == NONE_INDEX && pool->count == 0) {
        refuse(fleet, out, id, FLEET_REFUSE_NO_REPLICA, 1, 0);
        return;
    }
    if (!known) {
        refuse(fleet, out, id, FLEET_REFUSE_ADAPTERS_FULL, adapter.index, fleet->config.adapters_max);
        return;
    }
    if (replica == NONE_INDEX)
        replica = route_in_pool(fleet, event, pool, &reason);

    struct fleet_command *command = fleet_say(fleet, out, FLEET_COMMAND_ROUTE);

    command->reason = (uint16_t)reason;
    command->route.request = id;
    command->route.replica = replica_id_make(fleet->replicas[replica].generation, replica);
    command->route.adapter = adapter;
    fleet_remember(fleet, command);
    request_put(fleet, id, adapter, replica);
}

/* A replica that is gone took its requests with it, and what it had still to say of them is late: the slot may by now
 * be another replica's. */
static void request_done(struct fleet *fleet, const struct fleet_event *event)
{
    uint32_t slot = request_slot(event->request_done.request);

    check(slot < fleet->config.requests_max);
    if (!replica_is_live(fleet, event->request_done.replica))
        return;
    check(fleet->requests[slot].replica == replica_index(event->request_done.replica));
    check(request_id_equal(fleet->requests[slot].id, event->request_done.request));
    merge_count(fleet, fleet->requests[slot].adapter, fleet->replicas[fleet->requests[slot].replica].base,
                event->request_done.output_tokens);
    request_drop(fleet, slot);
}

void fleet_step(struct fleet *fleet, const struct fleet_event *event, struct fleet_commands *out)
{
    check(event->kind > FLEET_EVENT_NONE);
    check(event->kind < FLEET_EVENT_COUNT);
    check(event->at_ns >= 0);
    check(event->at_ns >= fleet->at_ns);
    check(event->kind != FLEET_EVENT_RESTORE || fleet->at_ns == INT64_MIN); /* the first, or none */
    check(!fleet->restoring || found_takes((enum fleet_event_kind)event->kind));
    out->count = 0;
    fleet->at_ns = event->at_ns;
    rate_clock(fleet, event->at_ns);
    switch ((enum fleet_event_kind)event->kind) {
    case FLEET_EVENT_REPLICA_UP:
        if (fleet->restoring)
            found_replica(fleet, event);
        else
            replica_up(fleet, event, out);
        return;
    case FLEET_EVENT_REPLICA_DOWN:
        if (fleet->restoring)
            found_replica(fleet, event);
        else
            replica_down(fleet, event, out);
        return;
    case FLEET_EVENT_RESTORE:
        found_begin(fleet, event);
        if (fleet->jobs != NULL)
            jobs_step(fleet->jobs, event, &fleet->commands, out);
        return;
    case FLEET_EVENT_RESTORE_DONE:
        found_end(fleet, event, out);
        return;
    case FLEET_EVENT_REPLICA_STATE:
        replica_state(fleet, event);
        return;
    case FLEET_EVENT_RESIDENCY:
        residency_step(fleet, event);
        return;
    case FLEET_EVENT_REQUEST:
        request(fleet, event, out);
        return;
    case FLEET_EVENT_REQUEST_DONE:
        request_done(fleet, event);
        return;
    case FLEET_EVENT_ADAPTER_RETIRED:
        residency_retire(fleet, event->adapter_retired.adapter);
        merge_retire(fleet, event->adapter_retired.adapter, out);
        return;
    case FLEET_EVENT_TICK:
        if (fleet->restoring)
            return;
        if (fleet->jobs != NULL && jobs_wakeup_at_ns(fleet->jobs) <= event->at_ns)
            jobs_step(fleet->jobs, event, &fleet->commands, out);
        scale_hear(fleet, out, 0);
        scale_tick(fleet, out);
        merge_tick(fleet, out);
        return;
    case FLEET_EVENT_SCALE:
        scale_event(fleet, event);
        return;
    case FLEET_EVENT_MERGE:
        merge_event(fleet, event);
        return;
    case FLEET_EVENT_BASE_KNOWN:
    case FLEET_EVENT_COHORT:
    case FLEET_EVENT_TENANT:
    case FLEET_EVENT_GPUS_UP:
    case FLEET_EVENT_GPUS_NOTICE:
    case FLEET_EVENT_GPUS_GONE:
    case FLEET_EVENT_JOB:
    case FLEET_EVENT_JOB_CANCEL:
    case FLEET_EVENT_JOB_STARTED:
    case FLEET_EVENT_JOB_CHECKPOINTED:
    case FLEET_EVENT_JOB_YIELDED:
    case FLEET_EVENT_JOB_ENDED:
    case FLEET_EVENT_BASE_LOADED:
    case FLEET_EVENT_TENANT_USAGE:
    case FLEET_EVENT_BASE_FOUND:
    case FLEET_EVENT_JOB_KEPT:
    case FLEET_EVENT_JOB_FOUND:
    case FLEET_EVENT_MEMORY_FOUND:
        check(!found_only((enum fleet_event_kind)event->kind) || fleet->restoring);
        check(fleet->jobs != NULL);
        jobs_step(fleet->jobs, event, &fleet->commands, out);
        scale_hear(fleet, out, 0);
        return;
    case FLEET_EVENT_NONE:
    case FLEET_EVENT_COUNT:
        return;
    }
}

int64_t fleet_wakeup_at_ns(const struct fleet *fleet)
{
    int64_t at_ns = min_i64(fleet->scale_at_ns, fleet->merge_at_ns);

    if (fleet->restoring)
        return NEVER_NS;
    return min_i64(at_ns, fleet->jobs != NULL ? jobs_wakeup_at_ns(fleet->jobs) : NEVER_NS);
}

struct jobs *fleet_jobs(struct fleet *fleet)
{
    return fleet->jobs;
}

uint32_t fleet_outstanding(const struct fleet *fleet, replica_id replica)
{
    return replica_is_live(fleet, replica) ? fleet->replicas[replica_index(replica)].outstanding : 0;
}
