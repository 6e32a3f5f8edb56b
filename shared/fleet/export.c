/* What there is, in the events by which a fresh core is told it: replayed between RESTORE and RESTORE_DONE they give a core that decides
 * on. Not in it: requests and what counts them (their clients are gone with the host), rates, whom jobs are being stopped for and what is
 * reserved, bills. Those begin anew. */
#include "fleet/export.h"
#include "fleet/state.h"

struct fleet_event export_event(const struct exporter *exporter, enum fleet_event_kind kind)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.at_ns = exporter->at_ns;
    event.kind = (uint16_t)kind;
    return event;
}

void export_tell(struct exporter *exporter, const struct fleet_event *event)
{
    exporter->exported.events++;
    exporter->sink(exporter->context, event);
}

static void tell_scales(struct exporter *exporter, const struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->scaled_count; i++) {
        const struct fleet_scale *scale = &fleet->scales[fleet->scaled[i]];
        struct fleet_event event = export_event(exporter, FLEET_EVENT_SCALE);

        event.scale.up_ns = scale->up_ns;
        event.scale.down_ns = scale->down_ns;
        event.scale.bytes = scale->bytes;
        event.scale.target_milli = scale->target_milli;
        event.scale.up_milli = scale->up_milli;
        event.scale.down_milli = scale->down_milli;
        event.scale.floor = scale->floor;
        event.scale.ceiling = scale->indexes;
        event.scale.first = scale->first;
        event.scale.base.value = fleet->scaled[i];
        event.scale.tp = scale->tp;
        event.scale.flags = scale->flags;
        export_tell(exporter, &event);
        if (scale->ceiling == scale->indexes)
            continue;
        event.scale.ceiling = scale->ceiling;
        export_tell(exporter, &event);
    }
}

static void tell_merges(struct exporter *exporter, const struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->merging_count; i++) {
        const struct fleet_merge *merge = &fleet->merges[fleet->merging[i]];
        struct fleet_event event = export_event(exporter, FLEET_EVENT_MERGE);

        event.merge.up_ns = merge->up_ns;
        event.merge.down_ns = merge->down_ns;
        event.merge.break_even_milli = merge->break_even_milli;
        event.merge.up_milli = merge->up_milli;
        event.merge.down_milli = merge->down_milli;
        event.merge.outstanding_max = merge->outstanding_max;
        event.merge.first = merge->first;
        event.merge.count = merge->indexes;
        event.merge.base.value = fleet->merging[i];
        event.merge.tp = merge->tp;
        export_tell(exporter, &event);
        if (merge->count == merge->indexes)
            continue;
        event.merge.count = merge->count;
        export_tell(exporter, &event);
    }
}

static bool is_starting(const struct fleet_member *member)
{
    return member->scale_state == SCALE_STARTING || member->merge_state == MERGE_STARTING;
}

static void tell_replica(struct exporter *exporter, const struct fleet *fleet, uint32_t index)
{
    const struct fleet_replica *replica = &fleet->replicas[index];
    const struct fleet_member *member = &fleet->members[index];
    struct fleet_event event = export_event(exporter, FLEET_EVENT_REPLICA_UP);
    bool starting = is_starting(member);

    event.replica_up.replica = replica_id_make(starting ? (member->generation_next - 1) & 0xffff : replica->generation, index);
    event.replica_up.node = replica->node;
    event.replica_up.base = replica->base;
    event.replica_up.adapter = member->merged_for;
    if (starting) {
        event.replica_up.node.value = 0;
        event.replica_up.base.value = member->scale_base != NO_SCALE ? member->scale_base : member->merge_base;
    }
    event.reason = starting ? REPLICA_IS_STARTING : replica->draining ? REPLICA_IS_DRAINING : REPLICA_IS_UP;
    if (scale_is_shared(fleet, event.replica_up.replica) && !export_serve(fleet->jobs, index, &event))
        return;
    export_tell(exporter, &event);
    if (starting || (replica->waiting == 0 && replica->kv_free_permille == 1000))
        return;
    event = export_event(exporter, FLEET_EVENT_REPLICA_STATE);
    event.replica_state.replica = replica_id_make(replica->generation, index);
    event.replica_state.waiting = replica->waiting;
    event.replica_state.kv_free_permille = replica->kv_free_permille;
    export_tell(exporter, &event);
}

/* Of one that is gone its generation, so that nobody who comes is taken for it. */
static void tell_replicas(struct exporter *exporter, const struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->config.replicas_max; i++) {
        const struct fleet_member *member = &fleet->members[i];
        struct fleet_event event = export_event(exporter, FLEET_EVENT_REPLICA_DOWN);

        exporter->exported.requests += fleet->replicas[i].outstanding;
        exporter->exported.plans += member->scale_state == SCALE_WAITING;
        if (fleet->replicas[i].up || is_starting(member)) {
            tell_replica(exporter, fleet, i);
            continue;
        }
        if (member->generation_next == 0)
            continue;
        event.replica_down.replica = replica_id_make((member->generation_next - 1) & 0xffff, i);
        export_tell(exporter, &event);
    }
}

static void tell_places(struct exporter *exporter, struct fleet *fleet, uint32_t index)
{
    struct fleet_event event = export_event(exporter, FLEET_EVENT_RESIDENCY);
    const adapter_id adapter = {index, fleet->adapters[index].version};
    const uint64_t *gpu = residency_gpu_bits(fleet, adapter);
    const uint64_t *host = fleet->host_nodes + (size_t)index * fleet->node_words;

    event.residency.adapter = adapter;
    event.residency.present = 1;
    event.residency.tier = TIER_GPU;
    for (uint32_t i = 0; i < fleet->config.replicas_max; i++)
        if (gpu[i / 64] >> i % 64 & 1) {
            event.residency.replica = replica_id_make(fleet->replicas[i].generation, i);
            export_tell(exporter, &event);
        }
    event.residency.replica.value = 0;
    event.residency.tier = TIER_HOST;
    for (uint32_t i = 0; i < fleet->config.nodes_max; i++)
        if (host[i / 64] >> i % 64 & 1) {
            event.residency.node.value = (uint16_t)i;
            export_tell(exporter, &event);
        }
}

struct fleet_exported fleet_export(struct fleet *fleet, fleet_export_sink *sink, void *context)
{
    struct exporter exporter = {.sink = sink, .context = context, .at_ns = max_i64(0, fleet->at_ns)};
    struct fleet_event event = export_event(&exporter, FLEET_EVENT_RESTORE);
    const struct jobs *jobs = fleet->jobs;

    check(!fleet->restoring);
    event.restore.commands = fleet->commands;
    if (jobs != NULL)
        export_cursors(jobs, &event);
    export_tell(&exporter, &event);
    if (jobs != NULL) {
        export_quota(&exporter, jobs);
        export_capacity(&exporter, jobs);
    }
    tell_scales(&exporter, fleet);
    tell_merges(&exporter, fleet);
    if (jobs != NULL) {
        export_holdings(&exporter, jobs);
        export_jobs(&exporter, jobs);
    }
    tell_replicas(&exporter, fleet);
    for (uint32_t i = 1; i <= fleet->config.adapters_max; i++)
        if (fleet->adapters[i].tracked)
            tell_places(&exporter, fleet, i);
    if (jobs != NULL) {
        export_memory(&exporter, jobs);
        export_notices(&exporter, jobs);
    }
    event = export_event(&exporter, FLEET_EVENT_RESTORE_DONE);
    export_tell(&exporter, &event);
    return exporter.exported;
}
