/* What follows from the records of a node: sums of its GPUs, its rooms, its bits in the bitmaps, its share of the digest.
 * All of it is made anew whenever something on the node changes. */
#include "fleet/devices_state.h"

#include "base/hash.h"

static void bit_set(uint64_t *bitmap, uint32_t node)
{
    bitmap[node / 64] |= UINT64_C(1) << (node % 64);
}

static void bit_clear(uint64_t *bitmap, uint32_t node)
{
    bitmap[node / 64] &= ~(UINT64_C(1) << (node % 64));
}

static void count_gpus(struct devices *devices, const struct node *node, bool add)
{
    if (node->class == NO_CLASS)
        return;
    uint32_t flavor = devices->classes[node->class].flavor;
    uint64_t open = mask_count(node->open);
    uint64_t busy = mask_count((uint16_t)(node->open & ~node->free));

    devices->gpus[flavor] = add ? devices->gpus[flavor] + open : devices->gpus[flavor] - open;
    devices->gpus_busy[flavor] = add ? devices->gpus_busy[flavor] + busy : devices->gpus_busy[flavor] - busy;
}

void node_unfile(struct devices *devices, uint32_t index)
{
    struct node *node = &devices->nodes[index];

    devices->digest_sum -= node->share;
    devices->sizes[mask_count(node->present)]--;
    count_gpus(devices, node, false);
    bit_clear(devices->trusted_nodes, index);
    for (uint16_t left = node->open; left != 0; left &= (uint16_t)(left - 1)) {
        const struct gpu *gpu = &node->gpus[mask_first(left)];

        if (gpu->mode == GPU_SHARED && gpu->tenant != NONE_INDEX)
            bit_clear(tenant_nodes(devices, gpu->isolation, gpu->tenant), index);
    }
    if (node->class != NO_CLASS) {
        bit_clear(free_nodes(devices, node->class, mask_count(node->free)), index);
        for (uint32_t profile = 0; profile < MIG_PROFILES; profile++)
            bit_clear(slice_nodes(devices, node->class, profile), index);
    }
    for (uint32_t at = node->holdings_head; at != NONE_INDEX; at = devices->holdings[at].next)
        for (uint32_t place = 0; place < HOLDING_PLACES; place++)
            bit_clear(base_nodes(devices, devices->holdings[at].base, place), index);
}

static void sum_holding(struct node *node, const struct holding *holding)
{
    for (uint16_t left = holding->gpu_mask; left != 0; left &= (uint16_t)(left - 1)) {
        struct gpu *gpu = &node->gpus[mask_first(left)];

        gpu->holdings_bytes += holding->bytes;
        if (holding->claims > 0 || !holding->ready)
            gpu->fixed_bytes += holding->bytes;
    }
}

static void sum_slice(struct gpu *gpu, uint16_t slice)
{
    gpu->mode = GPU_MIG;
    gpu->mig_memory |= mig_slice_bits(slice_profile(slice), slice_start(slice));
    gpu->mig_compute = (uint8_t)(gpu->mig_compute + mig_compute_slices(slice_profile(slice)));
    gpu->mig_count[slice_profile(slice)]++;
}

static void sum_sharer(struct gpu *gpu, const struct claim *claim)
{
    bool first = gpu->jobs == 1;

    gpu->mode = GPU_SHARED;
    gpu->isolation = claim->isolation;
    gpu->tenant = first || gpu->tenant == claim->tenant ? claim->tenant : NONE_INDEX;
    gpu->trusted = (first || gpu->trusted) && claim->trusted;
}

static void sum_claim(struct node *node, const struct claim *claim)
{
    for (uint16_t left = claim->gpu_mask; left != 0; left &= (uint16_t)(left - 1)) {
        struct gpu *gpu = &node->gpus[mask_first(left)];

        gpu->jobs++;
        gpu->claims_bytes += claim->bytes + claim->base_bytes;
        if (claim->isolation == ISOLATION_EXCLUSIVE)
            gpu->mode = GPU_WHOLE;
        else if (claim->isolation == ISOLATION_MIG)
            sum_slice(gpu, claim->slice);
        else
            sum_sharer(gpu, claim);
    }
}

static void room_insert(uint64_t *rooms, uint32_t *count, uint64_t room)
{
    uint32_t at = (*count)++;

    for (; at > 0 && rooms[at - 1] < room; at--)
        rooms[at] = rooms[at - 1];
    rooms[at] = room;
}

static void file_rooms(struct devices *devices, uint32_t index, const struct node *node)
{
    uint64_t rooms[ROOM_KINDS][NODE_GPUS_MAX] = {{0}};
    uint32_t counts[ROOM_KINDS] = {0};

    for (uint16_t left = node->open; left != 0; left &= (uint16_t)(left - 1)) {
        const struct gpu_class *class = &devices->classes[node->class];
        const struct gpu *gpu = &node->gpus[mask_first(left)];

        if (gpu->mode == GPU_FREE) {
            room_insert(rooms[ROOM_NOW], &counts[ROOM_NOW], gpu_room_now(class, gpu));
            room_insert(rooms[ROOM_CLEARED], &counts[ROOM_CLEARED], gpu_room_cleared(class, gpu));
        }
        if (gpu->mode == GPU_FREE || gpu_shareable(devices, gpu))
            room_insert(rooms[ROOM_ANY], &counts[ROOM_ANY], gpu_room_cleared(class, gpu));
    }
    for (uint32_t kind = 0; kind < ROOM_KINDS; kind++)
        for (uint32_t gpus = 1; gpus <= NODE_GPUS_MAX; gpus++)
            rooms_of(devices, kind, gpus)[index] = rooms[kind][gpus - 1];
}

static void file_gpus(struct devices *devices, uint32_t index, struct node *node)
{
    uint16_t model = devices->classes[node->class].model;

    node->free = 0;
    for (uint16_t left = node->open; left != 0; left &= (uint16_t)(left - 1)) {
        const struct gpu *gpu = &node->gpus[mask_first(left)];

        if (gpu->mode == GPU_FREE)
            node->free |= gpu_bit(mask_first(left));
        if (gpu_shareable(devices, gpu) && gpu->tenant != NONE_INDEX)
            bit_set(tenant_nodes(devices, gpu->isolation, gpu->tenant), index);
        if (gpu_shareable(devices, gpu) && gpu->isolation == ISOLATION_MPS && gpu->trusted)
            bit_set(devices->trusted_nodes, index);
        if (gpu->mode != GPU_MIG)
            continue;
        for (uint32_t profile = 0; profile < MIG_PROFILES; profile++)
            if (mig_fits_somewhere(model, gpu, profile))
                bit_set(slice_nodes(devices, node->class, profile), index);
    }
    bit_set(free_nodes(devices, node->class, mask_count(node->free)), index);
}

static void file_holding(struct devices *devices, uint32_t index, const struct node *node,
                         const struct holding *holding)
{
    bool idle = true;

    if ((holding->gpu_mask & ~node->open) != 0)
        return;
    for (uint16_t left = holding->gpu_mask; left != 0; left &= (uint16_t)(left - 1)) {
        const struct gpu *gpu = &node->gpus[mask_first(left)];

        if (gpu->mode == GPU_FREE)
            continue;
        if (!gpu_shareable(devices, gpu))
            return;
        idle = false;
    }
    if (holding->ready)
        bit_set(base_nodes(devices, holding->base, idle ? READY_IDLE : READY_SHARED), index);
    else
        bit_set(base_nodes(devices, holding->base, idle ? LOADING_IDLE : LOADING_SHARED), index);
}

static uint64_t fold_holding(uint64_t digest, uint32_t index, const struct holding *holding)
{
    const uint64_t words[] = {
        index, holding->bytes, holding->key, holding->used_order, (uint64_t)holding->load_ns, holding->uses,
        holding->claims, (uint64_t)holding->gpu_mask << 32 | (uint64_t)holding->base << 1 | holding->ready,
    };

    return hash_words(digest, words, ARRAY_COUNT(words));
}

static uint64_t fold_claim(uint64_t digest, uint32_t job, const struct claim *claim)
{
    const uint64_t words[] = {
        job, claim->bytes, claim->base_bytes, (uint64_t)claim->tenant << 32 | claim->holding,
        (uint64_t)claim->gpu_mask << 48 | (uint64_t)claim->slice << 32 | (uint64_t)claim->base << 16 |
            (uint64_t)claim->isolation << 8 | (uint64_t)claim->clear << 1 | claim->trusted,
    };

    return hash_words(digest, words, ARRAY_COUNT(words));
}

static uint64_t node_share(const struct devices *devices, uint32_t index, const struct node *node)
{
    uint64_t digest = hash_fold(hash_mix(index), (uint64_t)node->present << 16 | node->open);

    if (node->class != NO_CLASS) {
        const struct gpu_class *class = &devices->classes[node->class];

        digest = hash_fold(digest, class->bytes);
        digest = hash_fold(digest, (uint64_t)class->flavor << 16 | class->model);
    }
    for (uint32_t at = node->holdings_head; at != NONE_INDEX; at = devices->holdings[at].next)
        digest = fold_holding(digest, at, &devices->holdings[at]);
    for (uint32_t at = node->claims_head; at != NONE_INDEX; at = devices->claims[at].next)
        digest = fold_claim(digest, at, &devices->claims[at]);
    for (uint32_t at = node->earmarks_head; at != NONE_INDEX; at = devices->earmarks[at].next) {
        digest = hash_fold(digest, (uint64_t)at << 16 | devices->earmarks[at].gpu_mask);
        digest = hash_fold(digest, (uint64_t)devices->earmarks[at].from_ns);
    }
    for (uint16_t left = node->present; left != 0; left &= (uint16_t)(left - 1))
        for (uint32_t slice = 0; slice < MIG_MEMORY_SLICES; slice++)
            digest = hash_fold(digest, node->gpus[mask_first(left)].last_tenant[slice]);
    return digest;
}

void node_file(struct devices *devices, uint32_t index)
{
    struct node *node = &devices->nodes[index];

    for (uint32_t i = 0; i < NODE_GPUS_MAX; i++)
        memset(&node->gpus[i], 0, offsetof(struct gpu, last_tenant));
    for (uint32_t at = node->holdings_head; at != NONE_INDEX; at = devices->holdings[at].next)
        sum_holding(node, &devices->holdings[at]);
    for (uint32_t at = node->claims_head; at != NONE_INDEX; at = devices->claims[at].next)
        sum_claim(node, &devices->claims[at]);
    node->free = 0;
    file_rooms(devices, index, node);
    if (node->class != NO_CLASS)
        file_gpus(devices, index, node);
    for (uint32_t at = node->holdings_head; at != NONE_INDEX; at = devices->holdings[at].next)
        file_holding(devices, index, node, &devices->holdings[at]);
    count_gpus(devices, node, true);
    devices->sizes[mask_count(node->present)]++;
    node->share = node_share(devices, index, node);
    devices->digest_sum += node->share;
}

/* ---- totals ---- */

uint64_t devices_bytes_largest(const struct devices *devices)
{
    uint64_t largest = 0;

    for (uint32_t i = 0; i < DEVICES_CLASSES_MAX; i++)
        if (devices->classes[i].nodes > 0)
            largest = max_u64(largest, devices->classes[i].bytes);
    return largest;
}

uint32_t devices_gang_largest(const struct devices *devices)
{
    uint32_t size = NODE_GPUS_MAX;

    while (size > 0 && devices->sizes[size] == 0)
        size--;
    return size;
}

uint64_t devices_slice_largest(const struct devices *devices)
{
    uint64_t largest = 0;
    struct mig_profile profile;

    for (uint32_t i = 0; i < DEVICES_CLASSES_MAX; i++) {
        const struct gpu_class *class = &devices->classes[i];

        if (class->nodes > 0 && mig_profile_at((enum gpu_model)class->model, MIG_PROFILES - 1, &profile))
            largest = max_u64(largest, min_u64(profile.bytes, class->bytes));
    }
    return largest;
}

uint64_t devices_gpus(const struct devices *devices, uint16_t flavor)
{
    check(flavor < devices->config.flavors_max);
    return devices->gpus[flavor];
}

uint64_t devices_gpus_busy(const struct devices *devices, uint16_t flavor)
{
    check(flavor < devices->config.flavors_max);
    return devices->gpus_busy[flavor];
}

uint64_t devices_digest(const struct devices *devices)
{
    uint64_t digest = hash_fold(devices->digest_sum, devices->orders);

    digest = hash_fold(digest, devices->clock);
    return hash_fold(digest, devices->holdings_free);
}
