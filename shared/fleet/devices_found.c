/* What is told of GPUs after a restart: bases and claims that are there already. What the world says may be more than a GPU has
 * room for by now, so each is asked about before it is taken. */
#include "fleet/devices_state.h"

bool devices_can_hold(const struct devices *devices, uint16_t node, uint16_t gpu_mask, uint16_t base, uint64_t bytes)
{
    const struct node *there;

    if (node >= devices->config.nodes_max || devices->holdings_free == NONE_INDEX)
        return false;
    there = &devices->nodes[node];
    if (gpu_mask == 0 || (there->open & gpu_mask) != gpu_mask || devices_holding_at(devices, node, gpu_mask, base) != NONE_INDEX)
        return false;
    for (uint16_t left = gpu_mask; left != 0; left &= (uint16_t)(left - 1)) {
        const struct gpu *gpu = &there->gpus[mask_first(left)];

        if (gpu->mode == GPU_MIG || gpu_room_now(&devices->classes[there->class], gpu) < bytes)
            return false;
    }
    return true;
}

static bool slice_is_free(const struct devices *devices, const struct node *there, const struct devices_ask *ask,
                          const struct devices_place *place)
{
    const struct gpu_class *class = &devices->classes[there->class];
    const struct gpu *gpu = &there->gpus[mask_first(place->gpu_mask)];
    struct mig_profile profile;

    if (place->slice == 0 || (place->slice & 0xff) == 0 || (gpu->mode != GPU_FREE && gpu->mode != GPU_MIG) ||
        gpu->holdings_bytes != 0)
        return false;
    return mig_profile_at((enum gpu_model)class->model, slice_profile(place->slice), &profile) &&
           mig_fits(class->model, gpu, slice_profile(place->slice), slice_start(place->slice)) &&
           ask->base_bytes + ask->bytes <= profile.bytes && ask->base_bytes + ask->bytes <= gpu_room_now(class, gpu);
}

bool devices_can_claim(const struct devices *devices, const struct devices_ask *ask, const struct devices_place *place)
{
    const struct node *there;

    if (place->node >= devices->config.nodes_max || mask_count(place->gpu_mask) != ask->gpus)
        return false;
    there = &devices->nodes[place->node];
    if (place->gpu_mask == 0 || (there->open & place->gpu_mask) != place->gpu_mask)
        return false;
    if (ask->isolation == ISOLATION_MIG)
        return ask->gpus == 1 && slice_is_free(devices, there, ask, place);
    if (place->slice != 0 || devices_holding_at(devices, place->node, place->gpu_mask, ask->base) == NONE_INDEX)
        return false;
    for (uint16_t left = place->gpu_mask; left != 0; left &= (uint16_t)(left - 1)) {
        const struct gpu *gpu = &there->gpus[mask_first(left)];

        if (gpu->mode != GPU_FREE && !gpu_joinable(devices, gpu, ask))
            return false;
        if (gpu_room_now(&devices->classes[there->class], gpu) < ask->bytes)
            return false;
    }
    return true;
}

bool devices_flavor_at(const struct devices *devices, uint16_t node, uint16_t *ret_flavor)
{
    if (node >= devices->config.nodes_max || devices->nodes[node].class == NO_CLASS)
        return false;
    *ret_flavor = devices->classes[devices->nodes[node].class].flavor;
    return true;
}

uint16_t devices_present(const struct devices *devices, uint16_t node)
{
    return node < devices->config.nodes_max ? devices->nodes[node].present : 0;
}

void devices_restore(struct devices *devices, uint64_t clock, uint64_t orders)
{
    devices->restoring = true;
    devices->clock = clock;
    devices->orders = orders;
}

void devices_restored(struct devices *devices)
{
    devices->restoring = false;
}

void devices_class_found(struct devices *devices, uint32_t rank, uint16_t flavor, uint16_t model, uint64_t bytes)
{
    check(devices->restoring && rank < DEVICES_CLASSES_MAX);
    if (devices->classes[rank].nodes == 0)
        devices->classes[rank] = (struct gpu_class){.bytes = bytes, .flavor = flavor, .model = model};
}

void devices_found(struct devices *devices, uint32_t index, uint32_t uses, uint64_t used_order, uint64_t key)
{
    struct holding *holding = &devices->holdings[index];

    check(devices->restoring && index < devices->config.holdings_max && holding->gpu_mask != 0);
    node_unfile(devices, holding->node);
    holding->uses = uses;
    if (used_order > 0) {
        devices->orders = max_u64(devices->orders - 1, used_order); /* not the one it got when it was held */
        holding->used_order = used_order;
    }
    if (key > 0)
        holding->key = key;
    node_file(devices, holding->node);
}

void devices_memory_found(struct devices *devices, uint16_t node, uint16_t gpu, const uint32_t *tenants)
{
    check(devices->restoring && node < devices->config.nodes_max && gpu < NODE_GPUS_MAX);
    node_unfile(devices, node);
    memcpy(devices->nodes[node].gpus[gpu].last_tenant, tenants, sizeof(devices->nodes[node].gpus[gpu].last_tenant));
    node_file(devices, node);
}
