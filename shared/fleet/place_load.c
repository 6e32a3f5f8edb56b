/* Places where the base would have to be loaded: free GPUs first, then beside jobs on other bases. */
#include "fleet/place.h"

uint64_t place_neighbours(const struct node *node, uint32_t first, uint32_t size)
{
    uint64_t count = 0;

    for (; size <= NODE_GPUS_MAX; size *= 2) {
        uint32_t block = (1u << size) - 1;

        count = count << 5 | mask_count((uint16_t)(node->free & block << (first / size * size)));
    }
    return count;
}

static uint16_t lowest(uint16_t mask, uint32_t count)
{
    uint16_t taken = 0;

    for (; count > 0; count--, mask &= (uint16_t)(mask - 1))
        taken |= gpu_bit(mask_first(mask));
    return taken;
}

/* Holdings that could serve stand in a bitmap: most nodes have none, and are not asked. */
static uint32_t own_first(const struct devices *devices, uint32_t node, uint32_t base)
{
    uint64_t bits = 0;

    for (uint32_t place = 0; place < HOLDING_PLACES; place++)
        bits |= base_nodes(devices, base, place)[node / 64];
    return (bits >> (node % 64) & 1) != 0 ? holding_of_base(devices, node, base) : NONE_INDEX;
}

/* The base may be there already, even where that was not asked for. */
static uint32_t own_holding(const struct devices *devices, uint32_t first, uint16_t mask)
{
    while (first != NONE_INDEX && devices->holdings[first].gpu_mask != mask)
        first = devices->holdings[first].next_of_base;
    return first;
}

static uint16_t gpus_with_room(const struct search *search, uint32_t index, bool drop, bool sharing)
{
    const struct devices *devices = search->devices;
    const struct node *node = &devices->nodes[index];
    const struct gpu_class *class = &devices->classes[node->class];
    uint32_t first = search->ask->gpus == 1 ? own_first(devices, index, search->ask->base) : NONE_INDEX;
    uint16_t fit = 0;

    for (uint16_t left = open_to(search, node); left != 0; left &= (uint16_t)(left - 1)) {
        const struct gpu *gpu = &node->gpus[mask_first(left)];
        uint64_t room = drop ? gpu_room_cleared(class, gpu) : gpu_room_now(class, gpu);
        uint32_t own = own_holding(devices, first, gpu_bit(mask_first(left)));
        uint64_t need = search->ask->bytes + (own == NONE_INDEX ? search->ask->base_bytes : 0);

        if (gpu->mode != GPU_FREE && !(sharing && gpu_joinable(devices, gpu, search->ask)))
            continue;

        if (drop && own != NONE_INDEX && droppable(&devices->holdings[own]))
            need += devices->holdings[own].bytes;
        if (room >= need)
            fit |= gpu_bit(mask_first(left));
    }
    return fit;
}

static void offer_load(struct search *search, uint32_t index, uint16_t mask, bool drop, uint64_t left)
{
    struct devices *devices = search->devices;
    const struct node *node = &devices->nodes[index];
    uint32_t own = own_holding(devices, holding_of_base(devices, index, search->ask->base), mask);
    uint64_t need = search->ask->bytes + (own == NONE_INDEX ? search->ask->base_bytes : 0);
    struct score score = {.left = left};

    devices->victims_count = 0;
    if (drop && !place_victims(devices, node, mask, own, need, &score))
        return;
    if (own == NONE_INDEX && devices->holdings_free_count == 0 && devices->victims_count == 0)
        return;
    struct devices_place place = {
        .kind = own == NONE_INDEX ? PLACE_LOAD : devices->holdings[own].ready ? PLACE_RESIDENT : PLACE_LOADING,
        .node = (uint16_t)index,
        .gpu_mask = mask,
        .flavor = devices->classes[node->class].flavor,
        .holding = own,
    };

    place_offer(search, score, &place);
}

/* Aligned blocks first; a gang that finds none takes the lowest GPUs there are. */
static void visit_gang(struct search *search, uint32_t index, uint16_t fit, bool drop)
{
    const struct node *node = &search->devices->nodes[index];
    uint32_t gpus = search->ask->gpus;
    uint32_t before = search->found;
    uint32_t size = 1;

    while (size < gpus)
        size *= 2;
    for (uint32_t first = 0; first < NODE_GPUS_MAX; first += size) {
        uint16_t block = (uint16_t)(fit & ((1u << size) - 1) << first);

        if (mask_count(block) >= gpus)
            offer_load(search, index, lowest(block, gpus), drop, place_neighbours(node, first, size));
    }
    if (search->found == before)
        offer_load(search, index, lowest(fit, gpus), drop, 0);
}

static void visit_room(struct search *search, uint32_t index, enum room_kind kind, bool drop, bool sharing)
{
    const struct devices_ask *ask = search->ask;
    const struct devices *devices = search->devices;
    uint64_t room = rooms_of(devices, kind, ask->gpus)[index];

    if (room < ask->bytes)
        return;
    if (room < ask->bytes + ask->base_bytes &&
        (search->resident_first || own_first(devices, index, ask->base) == NONE_INDEX))
        return;
    uint16_t fit = gpus_with_room(search, index, drop, sharing);

    if (mask_count(fit) < ask->gpus)
        return;
    if (drop)
        place_gather(search->devices, &devices->nodes[index], NONE_INDEX);
    visit_gang(search, index, fit, drop);
}

static bool find_own_room(struct search *search, bool drop)
{
    const struct devices *devices = search->devices;

    for (uint32_t free = search->ask->gpus; free <= NODE_GPUS_MAX && search->found == 0; free++)
        for (uint32_t left = search->classes; left != 0; left &= left - 1) {
            const uint64_t *in = free_nodes(devices, (uint32_t)__builtin_ctz(left), free);

            for (uint32_t at = next_node(devices, in, NULL, 0); at != NONE_INDEX;
                 at = next_node(devices, in, NULL, at + 1)) {
                visit_room(search, at, drop ? ROOM_CLEARED : ROOM_NOW, drop, false);
                if (search->found >= (drop ? PLACES_COMPARED : 1))
                    return true;
            }
        }
    return search->found > 0;
}

/* Beside jobs on other bases. */
static bool find_shared_room(struct search *search, bool drop)
{
    const struct devices *devices = search->devices;
    const uint64_t *in = devices->sharer_nodes;

    for (uint32_t at = next_node(devices, in, NULL, 0); at != NONE_INDEX; at = next_node(devices, in, NULL, at + 1)) {
        if (allowed(search, &devices->nodes[at]))
            visit_room(search, at, ROOM_ANY, drop, true);
        if (search->found >= PLACES_COMPARED)
            break;
    }
    return search->found > 0;
}

bool place_by_load(struct search *search, bool sharing)
{
    if (!search->may_load)
        return false;
    if (!sharing)
        return find_own_room(search, false) || find_own_room(search, true);
    return place_may_share(search) && (find_shared_room(search, false) || find_shared_room(search, true));
}
