/* Places where the base is, or is on its way to: its holdings stand in bitmaps over nodes. */
#include "fleet/place.h"

/* Whether the holding could take the job: `least` becomes the fewest bytes left on any of its GPUs. */
static bool holding_takes(const struct search *search, const struct node *node, const struct holding *holding,
                          uint16_t open, bool sharing, bool drop, uint64_t *least)
{
    const struct devices *devices = search->devices;
    const struct gpu_class *class = &devices->classes[node->class];

    if (mask_count(holding->gpu_mask) != search->ask->gpus || (holding->gpu_mask & ~open) != 0)
        return false;
    *least = UINT64_MAX;
    for (uint16_t left = holding->gpu_mask; left != 0; left &= (uint16_t)(left - 1)) {
        const struct gpu *gpu = &node->gpus[mask_first(left)];
        uint64_t room = gpu_room_now(class, gpu);

        if (gpu->mode != GPU_FREE && !(sharing && gpu_joinable(devices, gpu, search->ask)))
            return false;
        if (drop)
            room = gpu_room_cleared(class, gpu) - (droppable(holding) ? holding->bytes : 0);
        if (room < search->ask->bytes)
            return false;
        *least = min_u64(*least, room - search->ask->bytes);
    }
    return true;
}

static void visit_holdings(struct search *search, uint32_t index, bool ready, bool drop, bool sharing)
{
    struct devices *devices = search->devices;
    const struct node *node = &devices->nodes[index];
    enum room_kind kind = sharing ? ROOM_ANY : drop ? ROOM_CLEARED : ROOM_NOW;

    if (rooms_of(devices, kind, search->ask->gpus)[index] < search->ask->bytes)
        return;
    uint16_t open = open_to(search, node);

    for (uint32_t at = holding_of_base(devices, index, search->ask->base); at != NONE_INDEX;
         at = devices->holdings[at].next_of_base) {
        const struct holding *holding = &devices->holdings[at];
        struct score score = {0};

        if (holding->ready != ready || !holding_takes(search, node, holding, open, sharing, drop, &score.left))
            continue;
        if (drop)
            place_gather(devices, node, at);
        if (drop && !place_victims(devices, node, holding->gpu_mask, at, search->ask->bytes, &score))
            continue;
        struct devices_place place = {
            .kind = ready ? PLACE_RESIDENT : PLACE_LOADING,
            .node = (uint16_t)index,
            .gpu_mask = holding->gpu_mask,
            .flavor = devices->classes[node->class].flavor,
            .holding = at,
        };

        place_offer(search, score, &place);
    }
}

static bool find_idle_holding(struct search *search, bool ready, bool drop)
{
    const struct devices *devices = search->devices;
    const uint64_t *nodes = base_nodes(devices, search->ask->base, ready ? READY_IDLE : LOADING_IDLE);

    if (next_node(devices, nodes, NULL, 0) == NONE_INDEX)
        return false;
    for (uint32_t free = search->ask->gpus; free <= NODE_GPUS_MAX && search->found == 0; free++)
        for (uint32_t left = search->classes; left != 0; left &= left - 1) {
            const uint64_t *in = free_nodes(devices, (uint32_t)__builtin_ctz(left), free);

            for (uint32_t at = next_node(devices, nodes, in, 0); at != NONE_INDEX;
                 at = next_node(devices, nodes, in, at + 1)) {
                visit_holdings(search, at, ready, drop, false);
                if (search->found >= (drop ? PLACES_COMPARED : 1))
                    return true;
            }
        }
    return search->found > 0;
}

static bool find_shared_holding(struct search *search, bool ready, bool drop)
{
    const struct devices *devices = search->devices;
    const uint64_t *nodes = base_nodes(devices, search->ask->base, ready ? READY_SHARED : LOADING_SHARED);

    const uint64_t *in = devices->sharer_nodes;

    for (uint32_t at = next_node(devices, nodes, in, 0); at != NONE_INDEX;
         at = next_node(devices, nodes, in, at + 1)) {
        if (allowed(search, &devices->nodes[at]))
            visit_holdings(search, at, ready, drop, true);
        if (search->found >= PLACES_COMPARED)
            break;
    }
    return search->found > 0;
}

bool place_on_holding(struct search *search, bool sharing)
{
    if (search->devices->base_counts[search->ask->base] == 0 || (sharing && !place_may_share(search)))
        return false;
    for (uint32_t i = 0; i < 4; i++) {
        bool ready = i < 2;
        bool drop = i % 2 == 1;

        if (sharing ? find_shared_holding(search, ready, drop) : find_idle_holding(search, ready, drop))
            return true;
    }
    return false;
}
