/* Devices for tests: a few lines to have nodes, ask, place and claim. */
#ifndef TESTS_DEVICES_RIG_H
#define TESTS_DEVICES_RIG_H

#include "fleet/devices.h"
#include "support.h"

#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static inline struct devices *rig_devices(uint32_t nodes, uint32_t sharers_max)
{
    struct devices_config config = {
        .nodes_max = nodes,
        .bases_max = 16,
        .claims_max = 64,
        .holdings_max = 64,
        .flavors_max = 2,
        .sharers_max = sharers_max,
        .tenants_max = 16,
    };
    size_t bytes = devices_bytes(&config);

    return devices_create(malloc(bytes), bytes, &config);
}

static inline struct devices_ask rig_ask(uint32_t job, uint16_t base, uint16_t gpus, uint8_t isolation, uint64_t base_bytes,
                                         uint64_t bytes)
{
    return (struct devices_ask){
        .bytes = bytes,
        .base_bytes = base_bytes,
        .base = base,
        .gpus = gpus,
        .isolation = isolation,
        .flavors = 3,
        .job = job,
        .end_estimate_ns = NEVER_NS,
    };
}

static inline void rig_drop_victims(struct devices *devices, const struct devices_place *place)
{
    uint32_t victims[64];

    for (uint32_t i = 0; i < place->victims; i++)
        victims[i] = devices_victim_at(devices, i);
    for (uint32_t i = 0; i < place->victims; i++)
        devices_drop(devices, victims[i]);
}

/* Does what was found: drops, loads (at once, when `loaded`), claims. */
static inline bool rig_claim(struct devices *devices, const struct devices_ask *ask, struct devices_place place, bool loaded)
{
    rig_drop_victims(devices, &place);
    if (place.kind == PLACE_LOAD && place.slice == 0) {
        place.holding = devices_hold(devices, ask->base, ask->base_bytes, place.node, place.gpu_mask, 10 * NS_PER_S);
        if (loaded)
            devices_loaded(devices, place.holding);
    }
    return devices_claim(devices, ask->job, ask, &place);
}

static inline struct devices_place rig_place(struct devices *devices, const struct devices_ask *ask)
{
    struct devices_place place = devices_find(devices, ask, true, true);

    if (place.kind != PLACE_NONE)
        rig_claim(devices, ask, place, true);
    devices_check(devices);
    return place;
}

static inline uint32_t rig_hold(struct devices *devices, uint16_t base, uint64_t bytes, uint16_t node, uint16_t gpu_mask)
{
    uint32_t holding = devices_hold(devices, base, bytes, node, gpu_mask, 10 * NS_PER_S);

    devices_loaded(devices, holding);
    return holding;
}

#endif
