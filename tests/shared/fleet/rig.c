#include "rig.h"

#include <stdlib.h>

struct fleet_config rig_config(const struct route_policy *route)
{
    return (struct fleet_config){
        .salt = 1,
        .replicas_max = 8,
        .nodes_max = 4,
        .bases_max = 2,
        .adapters_max = 64,
        .requests_max = 256,
        .route = route,
        .bound_milli = 1250,
        .bound_add = 4,
        .hot_share_milli = 500,
        .cool_milli = 750,
        .rate_half_life_ns = 60 * NS_PER_S,
    };
}

void rig_open(struct rig *rig, const struct fleet_config *config)
{
    size_t bytes = fleet_bytes(config);

    *rig = (struct rig){.config = *config, .memory = malloc(bytes), .checked = true};
    assert_non_null(rig->memory);
    rig->fleet = fleet_create(rig->memory, bytes, config);
}

void rig_close(struct rig *rig)
{
    free(rig->memory);
}

void rig_send(struct rig *rig, enum fleet_event_kind kind, struct fleet_event *event)
{
    event->at_ns = rig->at_ns;
    event->seq = rig->seq++;
    event->kind = (uint16_t)kind;
    fleet_step(rig->fleet, event, &rig->out);
    if (rig->checked)
        fleet_check(rig->fleet);
}

static struct fleet_event blank(void)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    return event;
}

void rig_up(struct rig *rig, uint32_t replica, uint32_t generation, uint16_t node, uint16_t base)
{
    struct fleet_event event = blank();

    event.replica_up.replica = replica_id_make(generation, replica);
    event.replica_up.node.value = node;
    event.replica_up.base.value = base;
    rig_send(rig, FLEET_EVENT_REPLICA_UP, &event);
}

void rig_down(struct rig *rig, uint32_t replica, uint32_t generation)
{
    struct fleet_event event = blank();

    event.replica_down.replica = replica_id_make(generation, replica);
    rig_send(rig, FLEET_EVENT_REPLICA_DOWN, &event);
}

void rig_gpu(struct rig *rig, uint32_t replica, uint32_t generation, adapter_id adapter, bool present)
{
    struct fleet_event event = blank();

    event.residency.replica = replica_id_make(generation, replica);
    event.residency.adapter = adapter;
    event.residency.tier = TIER_GPU;
    event.residency.present = present;
    rig_send(rig, FLEET_EVENT_RESIDENCY, &event);
}

void rig_host(struct rig *rig, uint16_t node, adapter_id adapter, bool present)
{
    struct fleet_event event = blank();

    event.residency.node.value = node;
    event.residency.adapter = adapter;
    event.residency.tier = TIER_HOST;
    event.residency.present = present;
    rig_send(rig, FLEET_EVENT_RESIDENCY, &event);
}

void rig_retire(struct rig *rig, adapter_id adapter)
{
    struct fleet_event event = blank();

    event.adapter_retired.adapter = adapter;
    rig_send(rig, FLEET_EVENT_ADAPTER_RETIRED, &event);
}

void rig_done(struct rig *rig, request_id request, replica_id replica)
{
    struct fleet_event event = blank();

    event.request_done.request = request;
    event.request_done.replica = replica;
    rig_send(rig, FLEET_EVENT_REQUEST_DONE, &event);
}

const struct fleet_command *rig_request(struct rig *rig, request_id request, adapter_id adapter, uint16_t base)
{
    struct fleet_event event = blank();

    event.request.request = request;
    event.request.adapter = adapter;
    event.request.tenant.value = 1;
    event.request.prompt_tokens = 100;
    event.request.output_tokens_max = 10;
    event.request.base.value = base;
    rig_send(rig, FLEET_EVENT_REQUEST, &event);
    assert_int_equal(rig->out.count, 1);
    return &rig->out.items[0];
}

replica_id rig_pass(struct rig *rig, uint64_t ordinal, adapter_id adapter)
{
    request_id id = request_id_make(ordinal, 0);
    const struct fleet_command *command = rig_request(rig, id, adapter, 0);

    assert_int_equal(command->kind, FLEET_COMMAND_ROUTE);

    replica_id replica = command->route.replica;

    rig_done(rig, id, replica);
    return replica;
}

void rig_open_full(struct rig *rig, const struct route_policy *policy)
{
    struct fleet_config config = rig_config(policy);

    rig_open(rig, &config);
    for (uint32_t i = 0; i < 8; i++)
        rig_up(rig, i, 1, (uint16_t)(i / 2), 0);
}

struct rig_seen rig_seen;

static uint32_t look(const struct fleet_view *view, const struct fleet_ask *ask)
{
    (void)view;
    rig_seen.ask = *ask;
    rig_seen.gpu_known = ask->gpu_bits != NULL;
    rig_seen.host_known = ask->host_bits != NULL;
    rig_seen.gpu_bits = rig_seen.gpu_known ? ask->gpu_bits[0] : 0;
    rig_seen.host_bits = rig_seen.host_known ? ask->host_bits[0] : 0;
    for (uint32_t i = 0; i < ask->pool_count; i++)
        rig_seen.pool[i] = ask->pool[i];
    return ask->pool[0];
}

const struct route_policy route_looking = {.name = "looking", .about = "sees", .pick = look};
