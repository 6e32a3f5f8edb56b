/* After a restart: replicas that are there already, and the beginning and the end of being told. What a host hears meanwhile that is not
 * listed here, requests above all, it keeps until RESTORE_DONE. */
#include "fleet/state.h"

bool found_only(enum fleet_event_kind kind)
{
    return kind >= FLEET_EVENT_RESTORE;
}

bool found_takes(enum fleet_event_kind kind)
{
    switch (kind) {
    case FLEET_EVENT_REPLICA_UP:
    case FLEET_EVENT_REPLICA_DOWN:
    case FLEET_EVENT_REPLICA_STATE:
    case FLEET_EVENT_RESIDENCY:
    case FLEET_EVENT_BASE_KNOWN:
    case FLEET_EVENT_COHORT:
    case FLEET_EVENT_TENANT:
    case FLEET_EVENT_GPUS_UP:
    case FLEET_EVENT_GPUS_NOTICE:
    case FLEET_EVENT_JOB:
    case FLEET_EVENT_SCALE:
    case FLEET_EVENT_MERGE:
    case FLEET_EVENT_TICK:
        return true;
    default:
        return found_only(kind) && kind != FLEET_EVENT_RESTORE;
    }
}

void found_begin(struct fleet *fleet, const struct fleet_event *event)
{
    fleet->restoring = true;
    fleet->commands = event->restore.commands;
}

/* That there was one of this generation once: the next is another. */
static void note_generation(struct fleet *fleet, uint32_t index, uint32_t generation)
{
    check(!fleet->replicas[index].up);
    fleet->replicas[index].generation = generation;
    fleet->members[index].known = true;
    fleet->members[index].generation_next = generation + 1;
}

void found_replica(struct fleet *fleet, const struct fleet_event *event)
{
    uint32_t index = replica_index(event->replica_up.replica);
    bool merged;

    check(index < fleet->config.replicas_max);
    if (event->kind == FLEET_EVENT_REPLICA_DOWN) {
        note_generation(fleet, index, event->replica_down.replica.value >> 16);
        return;
    }
    check(event->reason <= REPLICA_IS_DRAINING);
    check(event->replica_up.node.value < fleet->config.nodes_max && event->replica_up.base.value < fleet->config.bases_max);
    check(!fleet->replicas[index].up);
    check(event->reason != REPLICA_IS_DRAINING || fleet->members[index].scale_base != NO_SCALE ||
          fleet->members[index].merge_base != NO_MERGE); /* nobody told it to */
    scale_replica_found(fleet, event);
    merged = merge_replica_found(fleet, event);
    if (event->reason == REPLICA_IS_STARTING) {
        fleet->members[index].generation_next = (event->replica_up.replica.value >> 16) + 1;
        return;
    }
    fleet_join(fleet, event, merged);
    if (event->reason == REPLICA_IS_DRAINING && merged)
        fleet->replicas[index].draining = true;
    else if (event->reason == REPLICA_IS_DRAINING)
        fleet_leave_pool(fleet, index);
}

void found_end(struct fleet *fleet, const struct fleet_event *event, struct fleet_commands *out)
{
    check(fleet->restoring);
    fleet->restoring = false;
    if (fleet->jobs == NULL)
        return;
    jobs_step(fleet->jobs, event, &fleet->commands, out);
    scale_hear(fleet, out, 0);
}
