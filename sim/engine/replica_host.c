/* A replica's host: delivers events to the core and carries its commands out. */
#include "engine/internal.h"

void replica_deliver(struct sim_replica *replica, struct replica_event *event)
{
    if (event->kind != REPLICA_EVENT_STEP_DONE)
        run_settle(replica);
    event->seq = ++replica->seq;
    replica_turn(replica->core, &replica->host, event, &replica->commands);
}

static void record(void *self, const struct replica_event *event, const struct replica_commands *commands)
{
    struct sim_replica *replica = self;

    recorder_write(replica->recorder, event, replica_digest(replica->core), commands->items,
                   commands->count * sizeof(commands->items[0]));
}

static void arm(void *self, int64_t wakeup_at_ns)
{
    struct sim_replica *replica = self;

    if (wakeup_at_ns == replica->tick_at_ns)
        return;
    replica->tick_at_ns = wakeup_at_ns;
    if (wakeup_at_ns != NEVER_NS)
        sim_push(replica->sim, wakeup_at_ns, CLASS_TICK, ACTOR_REPLICA_TICK, replica->index, 0, 0);
}

static void load_begin(struct sim_replica *replica, const struct replica_command *command)
{
    struct sim *sim = replica->sim;
    uint32_t index = slots_take(&sim->load_slots);
    struct sim_load *load = &sim->loads[index];
    struct node_event event;

    check(index != NONE_INDEX);
    *load = (struct sim_load){.ordinal = ++sim->loads_total,
                              .command = command->id,
                              .adapter = command->load.adapter,
                              .bytes = command->load.bytes,
                              .asked_ns = sim->now_ns,
                              .fetch_from_ns = sim->now_ns,
                              .fetched_ns = sim->now_ns,
                              .replica = replica->index,
                              .gpu_slot = command->load.gpu_slot,
                              .active = true};
    memset(&event, 0, sizeof(event));
    event.at_ns = sim->now_ns;
    event.kind = NODE_EVENT_WANT;
    event.want.adapter = load->adapter;
    event.want.bytes = load->bytes;
    event.want.want = index;
    node_deliver(&sim->nodes[replica->node], &event);
}

void replica_load_ready(struct sim *sim, uint32_t index, uint16_t tier)
{
    struct sim_load *load = &sim->loads[index];

    check(load->active);
    load->tier = tier;
    load->copy_from_ns = sim->now_ns;
    sim_push(sim, sim->now_ns + sim->replicas[load->replica].load_fixed_ns, CLASS_PHYSICS, ACTOR_LOAD, 0, index, load->ordinal);
}

void replica_load_lost(struct sim *sim, uint32_t index)
{
    /* Told through the queue: the node may say so while the replica is still speaking. */
    sim->loads[index].tier = TIER_COUNT;
    sim_push(sim, sim->now_ns, CLASS_PHYSICS, ACTOR_LOAD, 0, index, sim->loads[index].ordinal);
}

/* Fetches are rare beside everything else that happens, so all loads are looked at. */
void replica_loads_fetching(struct sim *sim, uint32_t node, adapter_id adapter, bool given)
{
    for (uint32_t i = 0; i < sim->loads_max; i++) {
        struct sim_load *load = &sim->loads[i];

        if (!load->active || sim->replicas[load->replica].node != node || !adapter_id_equal(load->adapter, adapter))
            continue;
        if (!given)
            load->fetch_from_ns = sim->now_ns;
        load->fetched_ns = sim->now_ns;
    }
}

static void arm_copies(struct sim_replica *replica)
{
    int64_t next_ns = link_next_ns(&replica->copies);

    replica->copies_generation++;
    if (next_ns != NEVER_NS)
        sim_push(replica->sim, next_ns, CLASS_PHYSICS, ACTOR_COPY, replica->index, replica->copies_generation,
                 replica->copies_generation);
}

static void load_answer(struct sim_replica *replica, uint32_t index, uint16_t kind)
{
    struct sim *sim = replica->sim;
    struct sim_load *load = &sim->loads[index];
    struct replica_event event;

    memset(&event, 0, sizeof(event));
    event.at_ns = sim->now_ns;
    event.kind = kind;
    event.answers = load->command;
    event.adapter_arrived.adapter = load->adapter;
    event.adapter_arrived.bytes = load->bytes;
    event.adapter_arrived.tier = kind == REPLICA_EVENT_ADAPTER_ARRIVED ? load->tier : (uint16_t)TIER_STORE;
    load->active = false;
    slots_give(&sim->load_slots, index);
    replica_deliver(replica, &event);
}

void replica_load_due(struct sim *sim, uint32_t index, uint64_t ordinal)
{
    struct sim_load *load = &sim->loads[index];
    struct sim_replica *replica = &sim->replicas[load->replica];

    if (!load->active || load->ordinal != ordinal)
        return;
    if (load->tier == TIER_COUNT) {
        load_answer(replica, index, REPLICA_EVENT_ADAPTER_FAILED);
        return;
    }
    link_start(&replica->copies, sim->now_ns, (double)load->bytes / replica->tp, replica->copies.bytes_per_s, load->ordinal,
               index);
    arm_copies(replica);
}

void replica_copy_ended(struct sim_replica *replica, uint32_t generation)
{
    struct sim *sim = replica->sim;
    struct sim_load *load;
    struct node_event event;
    uint32_t index;

    if (generation != replica->copies_generation)
        return;
    index = link_finish(&replica->copies, sim->now_ns);
    arm_copies(replica);
    load = &sim->loads[index];
    replica->gpu_slots[load->gpu_slot] = (struct sim_slot){
        .asked_ns = load->asked_ns,
        .fetch_from_ns = load->fetch_from_ns,
        .fetched_ns = load->fetched_ns,
        .ready_ns = load->copy_from_ns,
        .arrived_ns = sim->now_ns,
    };
    replica->weights[load->gpu_slot] =
        (struct sim_weight){.bytes = load->bytes, .rank = source_adapter(sim->source, load->adapter).rank};
    replica->totals.loads++;
    memset(&event, 0, sizeof(event));
    event.at_ns = sim->now_ns;
    event.kind = NODE_EVENT_UNWANT;
    event.unwant.adapter = load->adapter;
    event.unwant.bytes = load->bytes;
    event.unwant.want = index;
    node_deliver(&sim->nodes[replica->node], &event);
    fleet_residency(sim, replica->index, replica->node, load->adapter, TIER_GPU, true);
    load_answer(replica, index, REPLICA_EVENT_ADAPTER_ARRIVED);
}

static void perform(void *self, const struct replica_event *event, const struct replica_command *command)
{
    struct sim_replica *replica = self;

    check(!replica->settling || command->kind == REPLICA_COMMAND_RUN);
    switch ((enum replica_command_kind)command->kind) {
    case REPLICA_COMMAND_RUN:
        run_begin(replica, command);
        break;
    case REPLICA_COMMAND_LOAD:
        load_begin(replica, command);
        break;
    case REPLICA_COMMAND_EVICT:
        replica->sim->facts.evictions++;
        fleet_residency(replica->sim, replica->index, replica->node, command->evict.adapter, TIER_GPU, false);
        break;
    case REPLICA_COMMAND_REFUSE:
        request_refused(replica, command);
        break;
    case REPLICA_COMMAND_DONE:
        request_done(replica, command);
        break;
    case REPLICA_COMMAND_PREEMPT:
        request_preempted(replica, command);
        break;
    case REPLICA_COMMAND_DRAINED:
        replica_drained(replica);
        break;
    case REPLICA_COMMAND_NONE:
    case REPLICA_COMMAND_COUNT:
        check(false && "a replica core said nothing that exists");
    }
    (void)event;
}

void replica_host_init(struct sim_replica *replica)
{
    replica->host = (struct replica_host){
        .self = replica, .record = replica->recorder != NULL ? record : NULL, .perform = perform, .arm = arm};
    replica->tick_at_ns = NEVER_NS;
}
