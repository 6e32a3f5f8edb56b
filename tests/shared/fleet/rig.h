/* A small fleet to poke at: events in, one command or none out, checked after each step if asked. */
#ifndef TESTS_FLEET_RIG_H
#define TESTS_FLEET_RIG_H

#include "fleet/fleet.h"
#include "fleet/view.h"
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
/* Asks for base 0 in slot 0, and is done at once: who served it. */
replica_id rig_pass(struct rig *rig, uint64_t ordinal, adapter_id adapter);

/* Eight replicas of base 0, generation 1, on nodes 0 to 3. */
void rig_open_full(struct rig *rig, const struct route_policy *policy);

/* A policy that only looks: what the core showed it last is kept here, the answer is the first of the pool. */
extern const struct route_policy route_looking;
struct rig_seen {
    struct fleet_ask ask; /* its pointers are dead by now */
    uint32_t pool[8];
    uint64_t gpu_bits;
    uint64_t host_bits;
    bool gpu_known;
    bool host_known;
};
extern struct rig_seen rig_seen;

#endif
