/* Where could a job go? The search asks the indexes for nodes in the order of preference and looks at a node's GPUs only
 * when its rooms say that they might do. It prefers, in this order: what is resident to what is on its way to a load; what
 * takes nothing from others to what drops a base; a GPU of its own to sharing one; a node with few free GPUs, so that
 * whole nodes stay whole. Among equals the lowest node and GPU: the order in which things came leaves no trace. */
#include "fleet/devices_state.h"

struct score {
    uint64_t level;      /* the largest key that would be dropped; 0: none */
    uint64_t used_order; /* of that holding */
    uint64_t left;       /* what remains: bytes, slices, or free neighbours */
    uint64_t at;         /* node and GPUs: no two places are equal */
};

struct search {
    struct devices *devices;
    const struct devices_ask *ask;
    bool resident_first;
    bool may_load;
    bool earmarks;       /* respected */
    uint32_t classes;    /* bits: of allowed flavors, with nodes */
    uint32_t found;
    struct score score;  /* of `place`, when found */
    struct devices_place place;
};

/* ---- common ---- */

static bool score_less(const struct score *a, const struct score *b)
{
    if (a->level != b->level)
        return a->level < b->level;
    if (a->used_order != b->used_order)
        return a->used_order < b->used_order;
    return a->left != b->left ? a->left < b->left : a->at < b->at;
}

static void offer(struct search *search, struct score score, const struct devices_place *place)
{
    score.at = (uint64_t)place->node << 16 | place->gpu_mask;
    if (search->found++ == 0 || score_less(&score, &search->score)) {
        search->score = score;
        search->place = *place;
    }
}

/* The first node at or after `from` in both bitmaps (`b` may be NULL). */
static uint32_t next_node(const struct devices *devices, const uint64_t *a, const uint64_t *b, uint32_t from)
{
    uint64_t skip = ~UINT64_C(0) << (from % 64);

    for (uint32_t word = from / 64; word < devices->words; word++) {
        uint64_t bits = a[word] & (b != NULL ? b[word] : ~UINT64_C(0)) & skip;

        if (bits != 0)
            return word * 64 + (uint32_t)__builtin_ctzll(bits);
        skip = ~UINT64_C(0);
    }
    return NONE_INDEX;
}

static bool allowed(const struct search *search, const struct node *node)
{
    return node->class != NO_CLASS && (search->classes >> node->class & 1) != 0;
}

/* Of the node's GPUs, those open to this job. */
static uint16_t open_to(const struct search *search, const struct node *node)
{
    const struct devices *devices = search->devices;
    uint16_t mask = node->open;

    for (uint32_t at = node->earmarks_head; search->earmarks && at != NONE_INDEX; at = devices->earmarks[at].next)
        if (at != search->ask->job && search->ask->end_estimate_ns > devices->earmarks[at].from_ns)
            mask &= (uint16_t)~devices->earmarks[at].gpu_mask;
    return mask;
}

static bool droppable(const struct holding *holding)
{
    return holding->claims == 0 && holding->ready;
}

/* ---- victims ---- */

/* What may be dropped on the node, but for `keep`: looked at once, then chosen from for GPU after GPU. */
static void gather_droppable(struct devices *devices, const struct node *node, uint32_t keep)
{
    devices->droppable_count = 0;
    for (uint32_t at = node->holdings_head; at != NONE_INDEX; at = devices->holdings[at].next) {
        const struct holding *holding = &devices->holdings[at];

        if (at != keep && droppable(holding))
            devices->droppable[devices->droppable_count++] = (struct droppable){
                .key = holding->key,
                .used_order = holding->used_order,
                .bytes = holding->bytes,
                .holding = at,
                .gpu_mask = holding->gpu_mask,
            };
    }
}

/* GPUs of the mask that lack room even without what was chosen. */
static uint16_t lacking(const struct devices *devices, const struct node *node, uint16_t mask, uint64_t need)
{
    uint16_t lack = 0;

    for (uint16_t left = mask; left != 0; left &= (uint16_t)(left - 1)) {
        uint16_t gpu = gpu_bit(mask_first(left));
        uint64_t room = gpu_room_now(&devices->classes[node->class], &node->gpus[mask_first(left)]);

        for (uint32_t i = 0; i < devices->droppable_count && room < need; i++)
            if (devices->droppable[i].chosen && (devices->droppable[i].gpu_mask & gpu) != 0)
                room += devices->droppable[i].bytes;
        if (room < need)
            lack |= gpu;
    }
    return lack;
}

static bool dropped_before(const struct droppable *a, const struct droppable *b)
{
    return a->key != b->key ? a->key < b->key : a->used_order < b->used_order;
}

static struct droppable *next_victim(const struct devices *devices, uint16_t lack, uint32_t keep)
{
    struct droppable *best = NULL;

    for (uint32_t i = 0; i < devices->droppable_count; i++) {
        struct droppable *victim = &devices->droppable[i];

        if (!victim->chosen && victim->holding != keep && (victim->gpu_mask & lack) != 0 &&
            (best == NULL || dropped_before(victim, best)))
            best = victim;
    }
    return best;
}

/* Chooses among what was gathered, so that each GPU of the mask has `need`: the smallest keys first, then without those
 * that turned out to be needless, the dearest first. False when even everything is not enough. */
static bool choose_victims(struct devices *devices, const struct node *node, uint16_t mask, uint32_t keep, uint64_t need,
                           struct score *score)
{
    uint32_t count = 0;
    uint16_t lack;

    for (uint32_t i = 0; i < devices->droppable_count; i++)
        devices->droppable[i].chosen = false;
    while ((lack = lacking(devices, node, mask, need)) != 0) {
        struct droppable *victim = next_victim(devices, lack, keep);

        if (victim == NULL)
            return false;
        victim->chosen = true;
        devices->victims[count++] = (uint32_t)(victim - devices->droppable);
    }
    devices->victims_count = 0;
    for (uint32_t i = count; i-- > 0;) {
        struct droppable *victim = &devices->droppable[devices->victims[i]];

        victim->chosen = false;
        victim->chosen = lacking(devices, node, mask, need) != 0;
    }
    score->level = score->used_order = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct droppable *victim = &devices->droppable[devices->victims[i]];

        if (!victim->chosen)
            continue;
        score->level = victim->key; /* they were chosen in this order */
        score->used_order = victim->used_order;
        devices->victims[devices->victims_count++] = victim->holding;
    }
    return true;
}

/* ---- on a holding of the base ---- */

/* Whether the holding could take the job: `least` becomes the fewest bytes left on any of its GPUs. */
static bool holding_takes(const struct search *search, const struct node *node, const struct holding *holding, uint16_t open,
                          bool sharing, bool drop, uint64_t *least)
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
            gather_droppable(devices, node, at);
        if (drop && !choose_victims(devices, node, holding->gpu_mask, at, search->ask->bytes, &score))
            continue;
        struct devices_place place = {
            .kind = ready ? PLACE_RESIDENT : PLACE_LOADING,
            .node = (uint16_t)index,
            .gpu_mask = holding->gpu_mask,
            .flavor = devices->classes[node->class].flavor,
            .holding = at,
        };

        offer(search, score, &place);
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

            for (uint32_t at = next_node(devices, nodes, in, 0); at != NONE_INDEX; at = next_node(devices, nodes, in, at + 1)) {
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

    for (uint32_t at = next_node(devices, nodes, in, 0); at != NONE_INDEX; at = next_node(devices, nodes, in, at + 1)) {
        if (allowed(search, &devices->nodes[at]))
            visit_holdings(search, at, ready, drop, true);
        if (search->found >= PLACES_COMPARED)
            break;
    }
    return search->found > 0;
}

static bool may_share(const struct search *search)
{
    return search->ask->isolation != ISOLATION_EXCLUSIVE && search->devices->config.sharers_max > 1;
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

static bool find_holding(struct search *search)
{
    if (search->devices->base_counts[search->ask->base] == 0)
        return false;
    for (uint32_t i = 0; i < 4; i++) {
        bool ready = i < 2;
        bool drop = i % 2 == 1;

        if (find_idle_holding(search, ready, drop))
            return true;
        if (may_share(search) && find_shared_holding(search, ready, drop))
            return true;
    }
    return false;
}

/* ---- where the base would have to be loaded ---- */

/* Free neighbours in the aligned blocks around, the closest block weighing most: like a buddy allocator, take from what is
 * broken already. */
static uint64_t neighbours(const struct node *node, uint32_t first, uint32_t size)
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
    if (drop && !choose_victims(devices, node, mask, own, need, &score))
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

    offer(search, score, &place);
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
            offer_load(search, index, lowest(block, gpus), drop, neighbours(node, first, size));
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
        gather_droppable(search->devices, &devices->nodes[index], NONE_INDEX);
    visit_gang(search, index, fit, drop);
}

static bool find_own_room(struct search *search, bool drop)
{
    const struct devices *devices = search->devices;

    for (uint32_t free = search->ask->gpus; free <= NODE_GPUS_MAX && search->found == 0; free++)
        for (uint32_t left = search->classes; left != 0; left &= left - 1) {
            const uint64_t *in = free_nodes(devices, (uint32_t)__builtin_ctz(left), free);

            for (uint32_t at = next_node(devices, in, NULL, 0); at != NONE_INDEX; at = next_node(devices, in, NULL, at + 1)) {
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

static bool find_room(struct search *search)
{
    if (find_own_room(search, false) || find_own_room(search, true))
        return true;
    return may_share(search) && (find_shared_room(search, false) || find_shared_room(search, true));
}

/* ---- slices ---- */

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

    offer(search, score, &place);
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
    gather_droppable(devices, node, NONE_INDEX);
    for (uint16_t left = (uint16_t)(open_to(search, node) & node->free); left != 0; left &= (uint16_t)(left - 1)) {
        uint32_t gpu = mask_first(left);
        struct score score = {.left = neighbours(node, gpu, 1)};

        devices->victims_count = 0;
        if (drop ? choose_victims(devices, node, gpu_bit(gpu), NONE_INDEX, all, &score)
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

static bool find_cut(struct search *search)
{
    const struct devices *devices = search->devices;

    for (uint32_t left = search->classes; left != 0; left &= left - 1) {
        uint32_t profile = profile_for(search, (uint32_t)__builtin_ctz(left));

        if (profile == MIG_PROFILES)
            continue;
        const uint64_t *in = slice_nodes(devices, (uint32_t)__builtin_ctz(left), profile);

        for (uint32_t at = next_node(devices, in, NULL, 0); at != NONE_INDEX; at = next_node(devices, in, NULL, at + 1)) {
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
            for (uint32_t at = next_node(devices, in, NULL, 0); at != NONE_INDEX; at = next_node(devices, in, NULL, at + 1)) {
                visit_uncut(search, at, profile, drop);
                if (search->found >= (drop ? PLACES_COMPARED : 1))
                    return true;
            }
        }
    return search->found > 0;
}

/* ---- the whole ---- */

static bool find(struct search *search)
{
    search->found = 0;
    if (search->ask->isolation == ISOLATION_MIG)
        return search->may_load && search->ask->gpus == 1 &&
               (find_cut(search) || find_uncut(search, false) || find_uncut(search, true));
    gather_sharers(search);
    if (search->resident_first)
        return find_holding(search) || (search->may_load && find_room(search));
    return (search->may_load && find_room(search)) || find_holding(search);
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
            node_has_room(search, index, holding->gpu_mask, search->ask->bytes, droppable(holding) ? holding->bytes : 0))
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
        for (uint32_t at = next_node(devices, in, NULL, 0); at != NONE_INDEX; at = next_node(devices, in, NULL, at + 1))
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
    return ask.gpus == 1 && find_cut(&other);
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
    gather_droppable(devices, node, place->holding);
    check(choose_victims(devices, node, place->gpu_mask, place->holding, need, &score));
    search->place.victims = devices->victims_count;
}

struct devices_place devices_find(struct devices *devices, const struct devices_ask *ask, bool resident_first, bool may_load)
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
