/* The fleet core's host. */
#include "engine/jobs.h"

void fleet_deliver(struct sim *sim, struct fleet_event *event)
{
    event->at_ns = sim->now_ns;
    event->seq = ++sim->fleet_seq;
    fleet_turn(sim->fleet, &sim->fleet_host, event, &sim->fleet_commands);
}

static void record(void *self, const struct fleet_event *event, const struct fleet_commands *commands)
{
    struct sim *sim = self;

    recorder_write(sim->fleet_recorder, event, fleet_digest(sim->fleet), commands->items,
                   commands->count * sizeof(commands->items[0]));
}

static void arm(void *self, int64_t wakeup_at_ns)
{
    struct sim *sim = self;

    if (wakeup_at_ns == sim->fleet_tick_at_ns)
        return;
    sim->fleet_tick_at_ns = wakeup_at_ns;
    if (wakeup_at_ns != NEVER_NS)
        sim_push(sim, wakeup_at_ns, CLASS_TICK, ACTOR_FLEET_TICK, 0, 0, 0);
}

static void perform(void *self, const struct fleet_event *event, const struct fleet_command *command)
{
    struct sim *sim = self;

    switch ((enum fleet_command_kind)command->kind) {
    case FLEET_COMMAND_ROUTE:
        sim->routed_to = replica_index(command->route.replica);
        if (command->reason == ROUTE_HOME)
            sim->facts.route_home++;
        else if (command->reason != ROUTE_POLICY && command->reason != ROUTE_MERGED)
            sim->facts.route_overflow++;
        break;
    case FLEET_COMMAND_REFUSE:
        sim->routed_to = NONE_INDEX;
        break;
    case FLEET_COMMAND_JOB_REFUSE:
    case FLEET_COMMAND_JOB_PLACE:
    case FLEET_COMMAND_JOB_STOP:
    case FLEET_COMMAND_BASE_LOAD:
    case FLEET_COMMAND_BASE_DROP:
        jobs_perform(sim, command);
        break;
    case FLEET_COMMAND_REPLICA_START:
        replica_start(sim, command);
        break;
    case FLEET_COMMAND_REPLICA_DRAIN:
        replica_drain(sim, command);
        break;
    case FLEET_COMMAND_NONE:
    case FLEET_COMMAND_COUNT:
        check(false && "a fleet core said nothing that exists");
    }
    (void)event;
}

void fleet_host_init(struct sim *sim)
{
    sim->fleet_host = (struct fleet_host){
        .self = sim, .record = sim->fleet_recorder != NULL ? record : NULL, .perform = perform, .arm = arm};
    sim->fleet_tick_at_ns = NEVER_NS;
}

void fleet_residency(struct sim *sim, uint32_t replica, uint32_t node, adapter_id adapter, enum tier tier, bool present)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_RESIDENCY;
    if (tier == TIER_GPU)
        event.residency.replica = replica_id_of(&sim->replicas[replica]);
    event.residency.adapter = adapter;
    event.residency.node.value = (uint16_t)node;
    event.residency.tier = (uint16_t)tier;
    event.residency.present = present;
    fleet_deliver(sim, &event);
}

void fleet_reports(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->replicas_count; i++) {
        struct sim_replica *replica = &sim->replicas[i];
        struct replica_state state;
        struct fleet_event event;

        if (!replica->up)
            continue;
        state = replica_state(replica->core);
        memset(&event, 0, sizeof(event));
        event.kind = FLEET_EVENT_REPLICA_STATE;
        event.replica_state.replica = replica_id_of(replica);
        event.replica_state.waiting = state.waiting;
        event.replica_state.kv_free_permille =
            (uint32_t)(1000 - run_kv_blocks(replica, &state) * 1000 / replica->kv_blocks);
        fleet_deliver(sim, &event);
    }
}
