/* A node's host: the host-memory tier's core, and the road from the object store. A fetch waits for the first byte, shares
 * the node's link under a cap a connection, and is decrypted and verified by a core of its own. */
#include "engine/internal.h"

void node_deliver(struct sim_node *node, struct node_event *event)
{
    /* A DROP or READY may lead back here through a replica only by way of the queue, so one buffer is enough. */
    event->seq = ++node->seq;
    node_turn(node->core, &node->host, event, &node->commands);
}

static void record(void *self, const struct node_event *event, const struct node_commands *commands)
{
    struct sim_node *node = self;

    recorder_write(node->recorder, event, node_digest(node->core), commands->items,
                   commands->count * sizeof(commands->items[0]));
}

static void arm(void *self, int64_t wakeup_at_ns)
{
    struct sim_node *node = self;

    if (wakeup_at_ns == node->tick_at_ns)
        return;
    node->tick_at_ns = wakeup_at_ns;
    if (wakeup_at_ns != NEVER_NS)
        sim_push(node->sim, wakeup_at_ns, CLASS_TICK, ACTOR_NODE_TICK, node->index, 0, 0);
}

static void fetch_begin(struct sim_node *node, const struct node_command *command)
{
    struct sim *sim = node->sim;
    uint32_t index = slots_take(&sim->fetch_slots);

    check(index != NONE_INDEX);
    sim->fetches[index] = (struct sim_fetch){.ordinal = ++sim->fetches_total,
                                             .command = command->id,
                                             .adapter = command->fetch.adapter,
                                             .bytes = command->fetch.bytes,
                                             .node = node->index,
                                             .stage = FETCH_FIRST_BYTE};
    replica_loads_fetching(sim, node->index, command->fetch.adapter, false);
    sim_push(sim, sim->now_ns + node->first_byte_ns, CLASS_PHYSICS, ACTOR_FETCH, 0, index, sim->fetches[index].ordinal);
}

static void arm_store(struct sim_node *node)
{
    int64_t next_ns = link_next_ns(&node->store);

    node->store_generation++;
    if (next_ns != NEVER_NS)
        sim_push(node->sim, next_ns, CLASS_PHYSICS, ACTOR_STORE, node->index, node->store_generation, node->store_generation);
}

void node_store_ended(struct sim_node *node, uint32_t generation)
{
    struct sim *sim = node->sim;
    struct sim_fetch *fetch;
    uint32_t index;

    if (generation != node->store_generation)
        return;
    index = link_finish(&node->store, sim->now_ns);
    arm_store(node);
    fetch = &sim->fetches[index];
    fetch->stage = FETCH_DECRYPT;
    replica_loads_fetching(sim, node->index, fetch->adapter, true);
    sim_push(sim, sim->now_ns + (int64_t)((double)fetch->bytes / node->decrypt_bytes_per_s * 1e9), CLASS_PHYSICS, ACTOR_FETCH,
             0, index, fetch->ordinal);
}

void node_fetch_due(struct sim *sim, uint32_t index, uint64_t ordinal)
{
    struct sim_fetch *fetch = &sim->fetches[index];
    struct sim_node *node = &sim->nodes[fetch->node];
    struct node_event event;

    check(fetch->ordinal == ordinal);
    if (fetch->stage == FETCH_FIRST_BYTE) {
        fetch->stage = FETCH_TRANSFER;
        link_start(&node->store, sim->now_ns, (double)fetch->bytes, node->fetch_bytes_per_s, ordinal, index);
        arm_store(node);
        return;
    }
    memset(&event, 0, sizeof(event));
    event.at_ns = sim->now_ns;
    event.kind = NODE_EVENT_FETCHED;
    event.answers = fetch->command;
    event.fetched.adapter = fetch->adapter;
    event.fetched.bytes = fetch->bytes;
    fetch->stage = FETCH_FREE;
    slots_give(&sim->fetch_slots, index);
    fleet_residency(sim, 0, node->index, event.fetched.adapter, TIER_HOST, true);
    host_memory_changed(sim, event.fetched.adapter, event.fetched.bytes, true);
    node_deliver(node, &event);
}

static void perform(void *self, const struct node_event *event, const struct node_command *command)
{
    struct sim_node *node = self;
    struct sim *sim = node->sim;

    switch ((enum node_command_kind)command->kind) {
    case NODE_COMMAND_FETCH:
        if (sim->warming) {
            sim->warming_command = command->id;
            break;
        }
        sim->facts.node_misses++;
        fetch_begin(node, command);
        break;
    case NODE_COMMAND_READY:
        if (sim->warming)
            break;
        if (command->reason == TIER_HOST)
            sim->facts.node_hits++;
        replica_load_ready(sim, (uint32_t)command->ready.want, command->reason);
        break;
    case NODE_COMMAND_DROP:
        fleet_residency(sim, 0, node->index, command->drop.adapter, TIER_HOST, false);
        host_memory_changed(sim, command->drop.adapter, command->drop.bytes, false);
        break;
    case NODE_COMMAND_LOST:
        replica_load_lost(sim, (uint32_t)command->lost.want);
        break;
    case NODE_COMMAND_NONE:
    case NODE_COMMAND_COUNT:
        check(false && "a node core said nothing that exists");
    }
    (void)event;
}

void node_host_init(struct sim_node *node)
{
    node->host =
        (struct node_host){.self = node, .record = node->recorder != NULL ? record : NULL, .perform = perform, .arm = arm};
    node->tick_at_ns = NEVER_NS;
}
