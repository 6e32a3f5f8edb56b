/* A small fleet to poke at: events in, one command or none out, checked after each step if asked. */
#ifndef TESTS_FLEET_RIG_H
#define TESTS_FLEET_RIG_H

#include "fleet/fleet.h"
#include "support.h"

struct rig {
    struct fleet *fleet;
    void *memory;
    struct fleet_config config;
    struct fleet_commands out;
    int64_t at_ns;
    uint64_t seq;
    bool checked;
};

/* 8 replicas on 4 nodes (two each, in order), 2 bases, 64 adapters, 256 requests. */
struct fleet_config rig_config(const struct route_policy *route);
void rig_open(struct rig *rig, const struct fleet_config *config);
void rig_close(struct rig *rig);

/* Sends `event` at rig->at_ns; the rest of the head is filled in. */
void rig_send(struct rig *rig, enum fleet_event_kind kind, struct fleet_event *event);

void rig_up(struct rig *rig, uint32_t replica, uint32_t generation, uint16_t node, uint16_t base);
void rig_down(struct rig *rig, uint32_t replica, uint32_t generation);
void rig_gpu(struct rig *rig, uint32_t replica, uint32_t generation, adapter_id adapter, bool present);
void rig_host(struct rig *rig, uint16_t node, adapter_id adapter, bool present);
void rig_retire(struct rig *rig, adapter_id adapter);
void rig_done(struct rig *rig, request_id request, replica_id replica);
/* The command that answers the request: exactly one. */
const struct fleet_command *rig_request(struct rig *rig, request_id request, adapter_id adapter, uint16_t base);

#endif
