/* Places in MIG slices: on a GPU that is cut already, or on a whole one that would be. */
#include "fleet/place.h"

static void offer_slice(struct search *search, uint32_t index, uint32_t gpu, uint32_t profile, struct score score)
{
    const struct node *node = &search->devices->nodes[index];
    uint16_t model = search->devices->classes[node->class].model;
    uint32_t start = mig_best_start(model, &node->gpus[gpu], profile);

    if (start == NONE_INDEX)
        return;
    struct devices_place place = {
        .kind = PLACE_LOAD,
        .node = (uint16_t)index,
        .gpu_mask = gpu_bit(gpu),
        .slice = slice_make(profile, start),
        .flavor = search->devices->classes[node->class].flavor,
        .holding = NONE_INDEX,
    };

    place_offer(search, score, &place);
}

/* GPUs that are cut already; the fewest free slices first. */
static void visit_cut(struct search *search, uint32_t index, uint32_t profile, uint64_t need)
{
    const struct node *node = &search->devices->nodes[index];
    const struct gpu_class *class = &search->devices->classes[node->class];

    for (uint16_t left = open_to(search, node); left != 0; left &= (uint16_t)(left - 1)) {
        const struct gpu *gpu = &node->gpus[mask_first(left)];
        struct score score = {.left = MIG_MEMORY_SLICES - mask_count(gpu->mig_memory)};

        if (gpu->mode == GPU_MIG && gpu_room_now(class, gpu) >= need)
            offer_slice(search, index, mask_first(left), profile, score);
    }
}

/* Whole GPUs, to be cut: nothing may stay on them. */
static void visit_uncut(struct search *search, uint32_t index, uint32_t profile, bool drop)
{
    struct devices *devices = search->devices;
    const struct node *node = &devices->nodes[index];
    uint64_t all = devices->classes[node->class].bytes;

    if (rooms_of(devices, drop ? ROOM_CLEARED : ROOM_NOW, 1)[index] < all)
        return;
    place_gather(devices, node, NONE_INDEX);
    for (uint16_t left = (uint16_t)(open_to(search, node) & node->free); left != 0; left &= (uint16_t)(left - 1)) {
        uint32_t gpu = mask_first(left);
        struct score score = {.left = place_neighbours(node, gpu, 1)};

        devices->victims_count = 0;
        if (drop ? place_victims(devices, node, gpu_bit(gpu), NONE_INDEX, all, &score)
                 : node->gpus[gpu].holdings_bytes == 0)
            offer_slice(search, index, gpu, profile, score);
    }
}

static uint32_t profile_for(const struct search *search, uint32_t class)
{
    const struct gpu_class *of = &search->devices->classes[class];
    uint64_t need = search->ask->bytes + search->ask->base_bytes;

    return need > of->bytes ? MIG_PROFILES : mig_smallest(of->model, need);
}

bool place_in_cut(struct search *search)
{
    const struct devices *devices = search->devices;

    for (uint32_t left = search->classes; left != 0; left &= left - 1) {
        uint32_t profile = profile_for(search, (uint32_t)__builtin_ctz(left));

        if (profile == MIG_PROFILES)
            continue;
        const uint64_t *in = slice_nodes(devices, (uint32_t)__builtin_ctz(left), profile);

        for (uint32_t at = next_node(devices, in, NULL, 0); at != NONE_INDEX;
             at = next_node(devices, in, NULL, at + 1)) {
            visit_cut(search, at, profile, search->ask->bytes + search->ask->base_bytes);
            if (search->found >= PLACES_COMPARED)
                return true;
        }
    }
    return search->found > 0;
}

static bool find_uncut(struct search *search, bool drop)
{
    const struct devices *devices = search->devices;

    for (uint32_t free = 1; free <= NODE_GPUS_MAX && search->found == 0; free++)
        for (uint32_t left = search->classes; left != 0; left &= left - 1) {
            uint32_t profile = profile_for(search, (uint32_t)__builtin_ctz(left));
            const uint64_t *in = free_nodes(devices, (uint32_t)__builtin_ctz(left), free);

            if (profile == MIG_PROFILES)
                continue;
            for (uint32_t at = next_node(devices, in, NULL, 0); at != NONE_INDEX;
                 at = next_node(devices, in, NULL, at + 1)) {
                visit_uncut(search, at, profile, drop);
                if (search->found >= (drop ? PLACES_COMPARED : 1))
                    return true;
            }
        }
    return search->found > 0;
}

bool place_in_slice(struct search *search)
{
    return place_in_cut(search) || find_uncut(search, false) || find_uncut(search, true);
}
