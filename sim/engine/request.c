/* A request's life at the host, from arrival to its row in the results, and where its time went. The parts are exact: each
 * is a difference of instants, and they add up to the latency. */
#include "engine/internal.h"

/* The integral of the number in the system, for Little's law: it must equal the sum of all sojourns. */
static void count(struct sim *sim, int change)
{
    sim->facts.little_area_ns += sim->in_system * (uint64_t)(sim->now_ns - sim->little_at_ns);
    sim->little_at_ns = sim->now_ns;
    sim->in_system = (uint64_t)((int64_t)sim->in_system + change);
}

static struct sim_request *request_at(struct sim_replica *replica, request_id id)
{
    return &replica->sim->requests[replica->request_of[request_slot(id)]];
}

/* The part of [from, until] that lies after `since`. */
static int64_t overlap_ns(int64_t from_ns, int64_t until_ns, int64_t since_ns)
{
    return max_i64(0, until_ns - max_i64(from_ns, since_ns));
}

void request_admitted(struct sim_replica *replica, const struct step_row *row)
{
    struct sim_request *request = request_at(replica, row->request);
    int64_t now_ns = replica->sim->now_ns;
    int64_t *blame_ns = request->blame_ns;
    int64_t since_ns = request->arrival.at_ns;

    if (request->phase != PHASE_WAITING)
        return; /* back after a preemption: all of it is recompute */
    if (row->gpu_slot != NO_SLOT) {
        const struct sim_slot *slot = &replica->gpu_slots[row->gpu_slot];

        blame_ns[BLAME_STORE] = overlap_ns(slot->fetch_from_ns, slot->fetched_ns, since_ns);
        blame_ns[BLAME_HOST] = overlap_ns(slot->asked_ns, slot->fetch_from_ns, since_ns) +
                               overlap_ns(slot->fetched_ns, slot->ready_ns, since_ns);
        blame_ns[BLAME_LINK] = overlap_ns(slot->ready_ns, slot->arrived_ns, since_ns);
    }
    blame_ns[BLAME_QUEUE] =
        now_ns - since_ns - blame_ns[BLAME_STORE] - blame_ns[BLAME_HOST] - blame_ns[BLAME_LINK];
    request->admitted_ns = now_ns;
    request->phase = PHASE_PREFILL;
    request->phase_since_ns = now_ns;
}

void request_prefilled(struct sim_replica *replica, const struct step_row *row, int64_t step_ns, int64_t now_ns)
{
    struct sim_request *request = request_at(replica, row->request);

    if (request->phase == PHASE_PREFILL)
        request->blame_ns[row->tokens > 0 ? BLAME_PREFILL : BLAME_INTERFERENCE] += step_ns;
    if ((row->flags & ROW_LAST) == 0 || row->tokens == 0)
        return;
    if (request->phase == PHASE_LOST)
        request->blame_ns[BLAME_RECOMPUTE] += now_ns - request->phase_since_ns;
    if (request->first_token_ns < 0)
        request->first_token_ns = now_ns;
    request->phase = PHASE_DECODE;
    request->phase_since_ns = now_ns;
    request->interference_from_ns = replica->interference_ns;
}

/* Closes the phase it is in. */
static void close_phase(struct sim_replica *replica, struct sim_request *request)
{
    int64_t now_ns = replica->sim->now_ns;
    int64_t spent_ns = now_ns - request->phase_since_ns;

    if (request->phase == PHASE_DECODE) {
        int64_t interference_ns = replica->interference_ns - request->interference_from_ns;

        request->blame_ns[BLAME_INTERFERENCE] += interference_ns;
        request->blame_ns[BLAME_DECODE] += spent_ns - interference_ns;
    } else if (request->phase == PHASE_LOST) {
        request->blame_ns[BLAME_RECOMPUTE] += spent_ns;
    } else if (request->phase == PHASE_WAITING) {
        request->blame_ns[BLAME_QUEUE] = now_ns - request->arrival.at_ns;
    }
    request->phase_since_ns = now_ns;
}

/* The core counted it while the request waited the first time; until now it was part of the queue's. */
static void take_slot_wait(struct sim_request *request, int64_t slot_wait_ns)
{
    if (request->slot_wait_known)
        return;
    request->slot_wait_known = true;
    check(slot_wait_ns >= 0 && slot_wait_ns <= request->blame_ns[BLAME_QUEUE]);
    request->blame_ns[BLAME_SLOT_WAIT] = slot_wait_ns;
    request->blame_ns[BLAME_QUEUE] -= slot_wait_ns;
}

void request_preempted(struct sim_replica *replica, const struct replica_command *command)
{
    struct sim_request *request = request_at(replica, command->preempt.request);

    take_slot_wait(request, command->preempt.slot_wait_ns);
    close_phase(replica, request);
    request->phase = PHASE_LOST;
}

static void tell_fleet_done(struct sim *sim, const struct sim_request *request, uint32_t slot, uint8_t tier)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_REQUEST_DONE;
    event.request_done.request = request_id_make(request->ordinal, slot);
    event.request_done.replica = replica_id_of(&sim->replicas[request->replica]);
    event.request_done.prompt_tokens = request->arrival.prompt_tokens;
    event.request_done.output_tokens = request->output_tokens;
    event.request_done.tier_found = tier;
    fleet_deliver(sim, &event);
}

void request_leave(struct sim *sim, uint32_t slot, enum request_status status, uint8_t reason, uint8_t tier,
                 uint32_t recomputed_tokens)
{
    struct sim_request *request = &sim->requests[slot];
    const struct arrival arrival = request->arrival;
    struct request_row row = {
        .ordinal = request->ordinal,
        .at_ns = arrival.at_ns,
        .admitted_ns = request->admitted_ns,
        .first_token_ns = request->first_token_ns,
        .done_ns = status == REQUEST_UNFINISHED ? -1 : sim->now_ns,
        .adapter = arrival.adapter,
        .tenant = arrival.tenant.value,
        .base = arrival.base.value,
        .replica = request->replica == NONE_INDEX ? UINT16_MAX : (uint16_t)request->replica,
        .rank = request->rank,
        .tier = tier,
        .status = (uint8_t)status,
        .reason = reason,
        .merged = request->replica != NONE_INDEX && replica_is_merged(&sim->replicas[request->replica]),
        .refuse_need = request->refuse_need,
        .refuse_have = request->refuse_have,
        .prompt_tokens = arrival.prompt_tokens,
        .output_tokens = request->output_tokens,
        .recomputed_tokens = recomputed_tokens,
        .attempt = arrival.attempt,
    };

    memcpy(row.blame_ns, request->blame_ns, sizeof(row.blame_ns));
    results_request(sim->results, &row);
    sim->facts.little_sum_ns += (uint64_t)(sim->now_ns - arrival.at_ns);
    count(sim, -1);
    if (request->replica != NONE_INDEX) {
        struct sim_replica *replica = &sim->replicas[request->replica];

        if (request->replica_slot != NONE_INDEX)
            slots_give(&replica->slots, request->replica_slot);
        tell_fleet_done(sim, request, slot, tier);
    }
    request->phase = PHASE_FREE;
    slots_give(&sim->slots, slot);
    if (status != REQUEST_UNFINISHED) {
        source_finished(sim->source, &arrival, sim->now_ns,
                        status == REQUEST_DONE ? OUTCOME_DONE : status == REQUEST_TIMEOUT ? OUTCOME_TIMEOUT : OUTCOME_REFUSED);
        arrival_arm(sim);
    }
}

void request_done(struct sim_replica *replica, const struct replica_command *command)
{
    uint32_t slot = replica->request_of[request_slot(command->done.request)];
    struct sim_request *request = &replica->sim->requests[slot];
    bool cancelled = command->reason == SEQUENCE_CANCELLED;
    /* Merged weights are in the GPU: there is nothing warmer. */
    uint16_t tier = replica_is_merged(replica) ? TIER_GPU : command->done.tier_found;

    close_phase(replica, request);
    take_slot_wait(request, command->done.slot_wait_ns);
    request->output_tokens = command->done.output_tokens;
    request_leave(replica->sim, slot, cancelled ? REQUEST_TIMEOUT : REQUEST_DONE, 0, (uint8_t)tier,
                command->done.recomputed_tokens);
}

void request_refused(struct sim_replica *replica, const struct replica_command *command)
{
    uint32_t slot = replica->request_of[request_slot(command->refuse.request)];
    struct sim_request *request = &replica->sim->requests[slot];

    request->refuse_need = command->refuse.need;
    request->refuse_have = command->refuse.have;
    /* Its adapter found no place in the core's table: the next request for it tells the core again. */
    if (command->reason == REFUSE_ADAPTERS_FULL)
        replica->known_version[replica->sim->requests[slot].arrival.adapter.index] = 0;
    request_leave(replica->sim, slot, REQUEST_REFUSED, (uint8_t)command->reason, TIER_BASE, 0);
}

void arrival_arm(struct sim *sim)
{
    int64_t next_ns = source_next_at_ns(sim->source);

    if (next_ns == sim->arrival_at_ns)
        return;
    sim->arrival_at_ns = next_ns;
    if (next_ns != NEVER_NS)
        sim_push(sim, next_ns, CLASS_ARRIVAL, ACTOR_ARRIVAL, 0, ++sim->arrival_generation, sim->requests_total);
}

static void tell_adapter(struct sim_replica *replica, adapter_id adapter)
{
    struct adapter_fact fact;
    struct replica_event event;

    if (adapter_is_base(adapter) || replica->known_version[adapter.index] == adapter.version)
        return;
    fact = source_adapter(replica->sim->source, adapter);
    replica->known_version[adapter.index] = adapter.version;
    memset(&event, 0, sizeof(event));
    event.at_ns = replica->sim->now_ns;
    event.kind = REPLICA_EVENT_ADAPTER_KNOWN;
    event.adapter_known.adapter = adapter;
    event.adapter_known.bytes = fact.bytes;
    event.adapter_known.tenant = fact.tenant;
    event.adapter_known.rank = fact.rank;
    replica_deliver(replica, &event);
}

void adapters_retire(struct sim *sim)
{
    adapter_id adapter;

    while (source_retired(sim->source, &adapter)) {
        struct fleet_event fleet_event;

        for (uint32_t i = 0; i < sim->replicas_count; i++) {
            struct sim_replica *replica = &sim->replicas[i];
            struct replica_event event;

            if (replica->known_version[adapter.index] != adapter.version)
                continue;
            replica->known_version[adapter.index] = 0;
            memset(&event, 0, sizeof(event));
            event.at_ns = sim->now_ns;
            event.kind = REPLICA_EVENT_ADAPTER_RETIRED;
            event.adapter_retired.adapter = adapter;
            replica_deliver(replica, &event);
        }
        for (uint32_t i = 0; i < sim->nodes_count; i++) {
            struct node_event event;

            memset(&event, 0, sizeof(event));
            event.at_ns = sim->now_ns;
            event.kind = NODE_EVENT_RETIRED;
            event.retired.adapter = adapter;
            node_deliver(&sim->nodes[i], &event);
        }
        memset(&fleet_event, 0, sizeof(fleet_event));
        fleet_event.kind = FLEET_EVENT_ADAPTER_RETIRED;
        fleet_event.adapter_retired.adapter = adapter;
        fleet_deliver(sim, &fleet_event);
    }
}

/* A request that never reached a core still has its row. */
static void refuse_overload(struct sim *sim, const struct arrival *arrival)
{
    struct request_row row = {
        .ordinal = sim->requests_total,
        .at_ns = arrival->at_ns,
        .admitted_ns = -1,
        .first_token_ns = -1,
        .done_ns = sim->now_ns,
        .adapter = arrival->adapter,
        .tenant = arrival->tenant.value,
        .base = arrival->base.value,
        .replica = UINT16_MAX,
        .status = REQUEST_OVERLOAD,
        .prompt_tokens = arrival->prompt_tokens,
        .attempt = arrival->attempt,
    };

    results_request(sim->results, &row);
    source_finished(sim->source, arrival, sim->now_ns, OUTCOME_REFUSED);
}

static void give_to_replica(struct sim *sim, uint32_t slot)
{
    struct sim_request *request = &sim->requests[slot];
    struct sim_replica *replica = &sim->replicas[request->replica];
    adapter_id adapter = {0, 0};
    struct replica_event event;

    request->replica_slot = slots_take(&replica->slots);
    if (request->replica_slot == NONE_INDEX) {
        request_leave(sim, slot, REQUEST_OVERLOAD, 0, TIER_BASE, 0);
        return;
    }
    replica->request_of[request->replica_slot] = slot;
    /* To a merged replica its adapter's requests are the base's. */
    if (!replica_is_merged(replica))
        adapter = request->arrival.adapter;
    tell_adapter(replica, adapter);
    memset(&event, 0, sizeof(event));
    event.at_ns = sim->now_ns;
    event.kind = REPLICA_EVENT_REQUEST;
    event.request.request = request_id_make(request->ordinal, request->replica_slot);
    event.request.adapter = adapter;
    event.request.tenant = request->arrival.tenant;
    event.request.prompt_tokens = request->arrival.prompt_tokens;
    event.request.output_tokens_max = request->arrival.output_tokens_max;
    replica_deliver(replica, &event);
}

/* Which replica? The fleet core answers at once. */
static void route(struct sim *sim, uint32_t slot)
{
    struct sim_request *request = &sim->requests[slot];
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_REQUEST;
    event.request.request = request_id_make(request->ordinal, slot);
    event.request.adapter = request->arrival.adapter;
    event.request.tenant = request->arrival.tenant;
    event.request.prompt_tokens = request->arrival.prompt_tokens;
    event.request.output_tokens_max = request->arrival.output_tokens_max;
    event.request.base = request->arrival.base;
    sim->routed_to = NONE_INDEX;
    fleet_deliver(sim, &event);
    request->replica = sim->routed_to;
}

/* Gives the arrival to a replica, or turns it away. */
static void take_in(struct sim *sim, const struct arrival *arrival)
{
    uint32_t slot = slots_take(&sim->slots);
    struct sim_request *request;

    if (slot == NONE_INDEX) {
        refuse_overload(sim, arrival);
        sim->requests_total++;
        return;
    }
    count(sim, +1);
    request = &sim->requests[slot];
    *request = (struct sim_request){.arrival = *arrival,
                                    .ordinal = sim->requests_total++,
                                    .admitted_ns = -1,
                                    .first_token_ns = -1,
                                    .phase_since_ns = sim->now_ns,
                                    .replica = NONE_INDEX,
                                    .replica_slot = NONE_INDEX,
                                    .phase = PHASE_WAITING};
    if (!adapter_is_base(arrival->adapter))
        request->rank = source_adapter(sim->source, arrival->adapter).rank;
    if (arrival->timeout_ns != NEVER_NS)
        sim_push(sim, sim->now_ns + arrival->timeout_ns, CLASS_FAULT, ACTOR_TIMEOUT, 0, slot, request->ordinal);
    route(sim, slot);
    if (request->replica == NONE_INDEX)
        request_leave(sim, slot, REQUEST_REFUSED, base_is_drained(sim, arrival->base.value) ? REFUSE_DRAINING : REFUSE_NONE,
                      TIER_BASE, 0);
    else
        give_to_replica(sim, slot);
}

void request_arrive(struct sim *sim)
{
    const struct scenario *scenario = sim->scenario;
    struct arrival arrival;

    sim->arrival_at_ns = NEVER_NS;
    sim->last_arrival_ns = sim->now_ns;
    if (source_take(sim->source, &arrival) != STATUS_OK) {
        sim->failed = true;
        return;
    }
    adapters_retire(sim);
    if (scenario->warmup_requests > 0 && sim->requests_total == scenario->warmup_requests)
        sim->facts.warmup_until_ns = max_i64((int64_t)(scenario->warmup_s * 1e9), sim->now_ns);
    take_in(sim, &arrival);
    arrival_arm(sim);
    if (sim->arrival_at_ns == NEVER_NS) /* the last, unless somebody comes back */
        for (uint32_t i = 0; i < sim->replicas_count; i++)
            sim->replicas[i].busy_at_last_arrival_ns = run_measured_busy_ns(&sim->replicas[i]);
}

void request_timeout(struct sim *sim, uint32_t slot, uint64_t ordinal)
{
    struct sim_request *request = &sim->requests[slot];
    struct replica_event event;

    if (request->phase == PHASE_FREE || request->ordinal != ordinal || request->ending)
        return;
    request->ending = true;
    memset(&event, 0, sizeof(event));
    event.at_ns = sim->now_ns;
    event.kind = REPLICA_EVENT_SEQUENCE_END;
    event.reason = SEQUENCE_CANCELLED;
    event.sequence_end.request = request_id_make(request->ordinal, request->replica_slot);
    event.sequence_end.output_tokens = request->output_tokens;
    replica_deliver(&sim->replicas[request->replica], &event);
}
