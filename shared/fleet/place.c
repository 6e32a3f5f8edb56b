/* Where could a job go? The search asks the indexes for nodes in the order of preference and looks at a node's GPUs only
 * when its rooms say that they might do. It prefers, in this order: a GPU of its own to sharing one, for neighbours
 * halve each other's speed for as long as they run, and a load takes seconds; what is resident to what is on its way to a load;
 * what takes nothing from others to what drops a base; a node with few free GPUs, so that whole nodes stay whole. Among equals the lowest node and GPU: the order in which things came leaves no trace. */
#include "fleet/place.h"

static bool score_less(const struct score *a, const struct score *b)
{
    if (a->level != b->level)
        return a->level < b->level;
    if (a->used_order != b->used_order)
        return a->used_order < b->used_order;
    return a->left != b->left ? a->left < b->left : a->at < b->at;
}

void place_offer(struct search *search, struct score score, const struct devices_place *place)
{
    score.at = (uint64_t)place->node << 16 | place->gpu_mask;
    if (search->found++ == 0 || score_less(&score, &search->score)) {
        search->score = score;
        search->place = *place;
    }
}

/* Nodes with a GPU where the job may stand beside those that are there, as far as isolation goes. */
static void gather_sharers(const struct search *search)
{
    const struct devices *devices = search->devices;
    const uint64_t *own = tenant_nodes(devices, search->ask->isolation, search->ask->tenant);
    bool trusted = search->ask->isolation == ISOLATION_MPS && search->ask->trusted;

    for (uint32_t word = 0; word < devices->words; word++)
        devices->sharer_nodes[word] = own[word] | (trusted ? devices->trusted_nodes[word] : 0);
}

static bool find(struct search *search)
{
    search->found = 0;
    if (search->ask->isolation == ISOLATION_MIG)
        return search->may_load && search->ask->gpus == 1 && place_in_slice(search);
    gather_sharers(search);
    for (uint32_t sharing = 0; search->resident_first && sharing < 2; sharing++)
        if (place_on_holding(search, sharing) || place_by_load(search, sharing))
            return true;
    if (search->resident_first)
        return false;
    return place_by_load(search, false) || place_by_load(search, true) || place_on_holding(search, false) ||
           place_on_holding(search, true);
}

/* Room as it would be if no isolation class forbade anything but whole GPUs taken by others. */
static bool node_has_room(const struct search *search, uint32_t index, uint16_t among, uint64_t need, uint64_t spared)
{
    const struct devices *devices = search->devices;
    const struct node *node = &devices->nodes[index];
    uint32_t count = 0;

    for (uint16_t left = (uint16_t)(open_to(search, node) & among); left != 0; left &= (uint16_t)(left - 1)) {
        const struct gpu *gpu = &node->gpus[mask_first(left)];

        if (gpu->mode == GPU_FREE || gpu_shareable(devices, gpu))
            count += gpu_room_cleared(&devices->classes[node->class], gpu) >= need + spared;
    }
    return count >= search->ask->gpus;
}

static bool node_holding_has_room(const struct search *search, uint32_t index)
{
    const struct devices *devices = search->devices;

    if (rooms_of(devices, ROOM_ANY, search->ask->gpus)[index] < search->ask->bytes)
        return false;
    for (uint32_t at = holding_of_base(devices, index, search->ask->base); at != NONE_INDEX;
         at = devices->holdings[at].next_of_base) {
        const struct holding *holding = &devices->holdings[at];

        if (mask_count(holding->gpu_mask) == search->ask->gpus &&
            node_has_room(search, index, holding->gpu_mask, search->ask->bytes,
                          droppable(holding) ? holding->bytes : 0))
            return true;
    }
    return false;
}

/* Idle holdings with room would have been found, but by a job that wants a slice. */
static bool holding_has_room(const struct search *search)
{
    const struct devices *devices = search->devices;

    for (uint32_t place = 0; place < HOLDING_PLACES; place++) {
        const uint64_t *in = base_nodes(devices, search->ask->base, place);

        if (search->ask->isolation != ISOLATION_MIG && (place == READY_IDLE || place == LOADING_IDLE))
            continue;
        for (uint32_t at = next_node(devices, in, NULL, 0); at != NONE_INDEX;
             at = next_node(devices, in, NULL, at + 1))
            if (allowed(search, &devices->nodes[at]) && node_holding_has_room(search, at))
                return true;
    }
    return false;
}

/* Could it stand in a slice of a GPU that is cut for others? */
static bool slice_has_room(const struct search *search)
{
    struct devices_ask ask = *search->ask;
    struct search other = *search;

    ask.isolation = ISOLATION_MIG;
    other.ask = &ask;
    other.found = 0;
    return ask.gpus == 1 && place_in_cut(&other);
}

static bool blocked_by_isolation(const struct search *search)
{
    const struct devices *devices = search->devices;
    uint64_t need = search->ask->bytes + search->ask->base_bytes;
    const uint64_t *rooms = rooms_of(devices, ROOM_ANY, search->ask->gpus);

    if (devices->base_counts[search->ask->base] > 0 && holding_has_room(search))
        return true;
    if (!search->may_load)
        return false;
    if (slice_has_room(search))
        return true;
    if (devices->holdings_free_count == 0)
        return false;
    for (uint32_t at = 0; at < devices->config.nodes_max; at++)
        if (rooms[at] >= need && allowed(search, &devices->nodes[at]) && node_has_room(search, at, UINT16_MAX, need, 0))
            return true;
    return false;
}

static uint32_t classes_of(const struct devices *devices, uint32_t flavors)
{
    uint32_t classes = 0;

    for (uint32_t i = 0; i < DEVICES_CLASSES_MAX; i++)
        if (devices->classes[i].nodes > 0 && (flavors >> devices->classes[i].flavor & 1) != 0)
            classes |= 1u << i;
    return classes;
}

/* The victims of the place that was chosen: the search has looked at others since. */
static void settle_victims(struct search *search)
{
    struct devices *devices = search->devices;
    const struct devices_place *place = &search->place;
    const struct node *node = &devices->nodes[place->node];
    uint64_t need = search->ask->bytes + (place->holding == NONE_INDEX ? search->ask->base_bytes : 0);
    struct score score;

    if (place->slice != 0)
        need = node->gpus[mask_first(place->gpu_mask)].mode == GPU_MIG ? 0 : devices->classes[node->class].bytes;
    place_gather(devices, node, place->holding);
    check(place_victims(devices, node, place->gpu_mask, place->holding, need, &score));
    search->place.victims = devices->victims_count;
}

struct devices_place devices_find(struct devices *devices, const struct devices_ask *ask, bool resident_first,
                                  bool may_load)
{
    struct search search = {
        .devices = devices,
        .ask = ask,
        .resident_first = resident_first,
        .may_load = may_load,
        .earmarks = true,
        .classes = classes_of(devices, ask->flavors),
    };

    check(ask->base < devices->config.bases_max);
    check(ask->gpus >= 1 && ask->gpus <= NODE_GPUS_MAX);
    check(ask->isolation < ISOLATION_COUNT);
    if (find(&search)) {
        settle_victims(&search);
        return search.place;
    }
    struct devices_place none = {.kind = PLACE_NONE, .holding = NONE_INDEX};

    none.blocked_by_isolation = blocked_by_isolation(&search);
    search.earmarks = false;
    none.blocked_by_earmark = devices->earmarks_count > 0 && find(&search);
    devices->victims_count = 0;
    return none;
}

struct devices_place devices_find_without(struct devices *devices, const struct devices_ask *ask, const uint32_t *jobs,
                                          uint32_t jobs_count)
{
    struct devices_place place;

    for (uint32_t i = 0; i < jobs_count; i++)
        claim_detach(devices, jobs[i]);
    place = devices_find(devices, ask, true, true);
    for (uint32_t i = jobs_count; i-- > 0;)
        claim_attach(devices, jobs[i]);
    return place;
}

uint32_t devices_victim_at(const struct devices *devices, uint32_t i)
{
    check(i < devices->victims_count);
    return devices->victims[i];
}
