/* What others may read of devices, one fact a function. */
#include "fleet/devices_state.h"

bool devices_gpu_open(const struct devices *devices, uint16_t node, uint16_t gpu)
{
    check(node < devices->config.nodes_max && gpu < NODE_GPUS_MAX);
    return devices->nodes[node].open >> gpu & 1;
}

uint32_t devices_earmarked(const struct devices *devices, uint16_t node, uint16_t gpu)
{
    check(node < devices->config.nodes_max && gpu < NODE_GPUS_MAX);
    for (uint32_t job = devices->nodes[node].earmarks_head; job != NONE_INDEX; job = devices->earmarks[job].next)
        if (devices->earmarks[job].gpu_mask >> gpu & 1)
            return job;
    return NONE_INDEX;
}

struct devices_holding devices_holding(const struct devices *devices, uint32_t index)
{
    const struct holding *holding;

    check(index < devices->config.holdings_max);
    holding = &devices->holdings[index];
    check(holding->gpu_mask != 0);
    return (struct devices_holding){.bytes = holding->bytes,
                                    .base = holding->base,
                                    .node = holding->node,
                                    .gpu_mask = holding->gpu_mask,
                                    .ready = holding->ready,
                                    .claims = holding->claims};
}

static struct mig_profile profile_of(const struct devices *devices, const struct devices_place *place)
{
    struct mig_profile profile;
    const struct node *node;

    check(place->node < devices->config.nodes_max && place->slice != 0);
    node = &devices->nodes[place->node];
    check(node->class != NO_CLASS);
    check(mig_profile_at((enum gpu_model)devices->classes[node->class].model, place->slice >> 8, &profile));
    return profile;
}

uint32_t devices_slice_eighths(const struct devices *devices, const struct devices_place *place)
{
    return profile_of(devices, place).memory_slices;
}

uint32_t devices_slice_sevenths(const struct devices *devices, const struct devices_place *place)
{
    return profile_of(devices, place).compute_slices;
}
