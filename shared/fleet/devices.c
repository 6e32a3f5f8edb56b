/* What is on the GPUs. Records change between node_unfile() and node_file(), which sum the node anew (devices_sums.c).
 * Every mistake of the caller that would make a sum wrong stops here. */
#include "fleet/devices_state.h"

#define MIB_SHIFT 20
/* GDSF keys: fraction bits, and a bound that leaves the clock room to grow for ever. */
#define KEY_FRACTION_BITS 8
#define KEY_VALUE_MAX (UINT64_C(1) << 56)

/* ---- memory ---- */

struct layout {
    unsigned char *memory; /* NULL: only count */
    size_t bytes;
};

static void *take(struct layout *layout, size_t count, size_t each)
{
    void *taken = layout->memory == NULL ? NULL : layout->memory + layout->bytes;

    layout->bytes += (count * each + 15) & ~(size_t)15;
    return taken;
}

static void lay_out(struct layout *layout, const struct devices_config *config, struct devices *devices)
{
    size_t words = (config->nodes_max + 63) / 64;

    take(layout, 1, sizeof(*devices));
    devices->nodes = take(layout, config->nodes_max, sizeof(*devices->nodes));
    devices->holdings = take(layout, config->holdings_max, sizeof(*devices->holdings));
    devices->claims = take(layout, config->claims_max, sizeof(*devices->claims));
    devices->earmarks = take(layout, config->claims_max, sizeof(*devices->earmarks));
    devices->rooms = take(layout, (size_t)ROOM_KINDS * NODE_GPUS_MAX * config->nodes_max, sizeof(uint64_t));
    devices->free_nodes = take(layout, DEVICES_CLASSES_MAX * (NODE_GPUS_MAX + 1) * words, sizeof(uint64_t));
    devices->slice_nodes = take(layout, DEVICES_CLASSES_MAX * MIG_PROFILES * words, sizeof(uint64_t));
    devices->tenant_nodes = take(layout, (size_t)ISOLATION_COUNT * TENANT_ROWS * words, sizeof(uint64_t));
    devices->trusted_nodes = take(layout, words, sizeof(uint64_t));
    devices->sharer_nodes = take(layout, words, sizeof(uint64_t));
    devices->base_nodes = take(layout, (size_t)config->bases_max * HOLDING_PLACES * words, sizeof(uint64_t));
    devices->base_counts = take(layout, config->bases_max, sizeof(*devices->base_counts));
    devices->of_base.cells = take(layout, 1, table_bytes(config->holdings_max));
    devices->droppable = take(layout, config->holdings_max, sizeof(*devices->droppable));
    devices->victims = take(layout, config->holdings_max, sizeof(*devices->victims));
    devices->gpus = take(layout, config->flavors_max, sizeof(*devices->gpus));
    devices->gpus_busy = take(layout, config->flavors_max, sizeof(*devices->gpus_busy));
}

size_t devices_bytes(const struct devices_config *config)
{
    struct layout layout = {0};
    struct devices devices;

    lay_out(&layout, config, &devices);
    return layout.bytes;
}

struct devices *devices_create(void *memory, size_t memory_bytes, const struct devices_config *config)
{
    struct layout layout = {.memory = memory};
    struct devices *devices = memory;

    check(config->nodes_max >= 1 && config->nodes_max <= UINT16_MAX);
    check(config->bases_max >= 1 && config->bases_max <= UINT16_MAX + 1);
    check(config->claims_max >= 1);
    check(config->holdings_max >= 1);
    check(config->flavors_max >= 1 && config->flavors_max <= 32);
    check(config->sharers_max >= 1 && config->sharers_max <= UINT16_MAX);
    check((uintptr_t)memory % _Alignof(struct devices) == 0);
    check(memory_bytes >= devices_bytes(config));
    memset(memory, 0, devices_bytes(config));
    devices->config = *config;
    devices->words = (config->nodes_max + 63) / 64;
    lay_out(&layout, config, devices);
    table_init(&devices->of_base, devices->of_base.cells, config->holdings_max);
    for (uint32_t i = 0; i < config->nodes_max; i++) {
        struct node *node = &devices->nodes[i];

        node->holdings_head = node->claims_head = node->claims_tail = node->earmarks_head = NONE_INDEX;
        node->class = NO_CLASS;
    }
    for (uint32_t i = 0; i < config->holdings_max; i++)
        devices->holdings[i].next = i + 1 < config->holdings_max ? i + 1 : NONE_INDEX;
    devices->holdings_free_count = config->holdings_max;
    devices->sizes[0] = config->nodes_max;
    return devices;
}

/* ---- capacity ---- */

static struct node *node_at(struct devices *devices, uint16_t node)
{
    check(node < devices->config.nodes_max);
    return &devices->nodes[node];
}

static uint32_t class_find(const struct devices *devices, uint16_t flavor, uint16_t model, uint64_t bytes)
{
    uint32_t unused = DEVICES_CLASSES_MAX;

    for (uint32_t i = 0; i < DEVICES_CLASSES_MAX; i++) {
        const struct gpu_class *class = &devices->classes[i];

        if ((class->nodes > 0 || devices->restoring) && class->flavor == flavor && class->model == model && class->bytes == bytes)
            return i;
        if (class->nodes == 0)
            unused = min_u32(unused, i);
    }
    return unused;
}

bool devices_can_up(const struct devices *devices, uint16_t node, uint16_t gpu_mask, uint16_t flavor, uint16_t model,
                    uint64_t bytes)
{
    if (node >= devices->config.nodes_max || gpu_mask == 0 || flavor >= devices->config.flavors_max ||
        model > GPU_H200_141 || bytes == 0)
        return false;
    const struct node *there = &devices->nodes[node];
    uint32_t class = class_find(devices, flavor, model, bytes);

    if (class == DEVICES_CLASSES_MAX || (there->present & gpu_mask) != 0)
        return false;
    return there->present == 0 || there->class == class;
}

void devices_up(struct devices *devices, uint16_t node, uint16_t gpu_mask, uint16_t flavor, uint16_t model,
                uint64_t bytes)
{
    check(devices_can_up(devices, node, gpu_mask, flavor, model, bytes));
    struct node *there = &devices->nodes[node];

    node_unfile(devices, node);
    if (there->present == 0) {
        there->class = (uint8_t)class_find(devices, flavor, model, bytes);
        struct gpu_class *class = &devices->classes[there->class];

        class->flavor = flavor;
        class->model = model;
        class->bytes = bytes;
        class->nodes++;
    }
    there->present |= gpu_mask;
    there->open |= gpu_mask;
    for (uint16_t left = gpu_mask; left != 0; left &= (uint16_t)(left - 1))
        for (uint32_t slice = 0; slice < MIG_MEMORY_SLICES; slice++)
            there->gpus[mask_first(left)].last_tenant[slice] = devices->restoring ? TENANT_UNKNOWN : NONE_INDEX;
    node_file(devices, node);
}

void devices_close(struct devices *devices, uint16_t node, uint16_t gpu_mask)
{
    struct node *there = node_at(devices, node);

    check((there->present & gpu_mask) == gpu_mask);
    node_unfile(devices, node);
    there->open &= (uint16_t)~gpu_mask;
    node_file(devices, node);
}

/* ---- lists of a node; the node is unfiled ---- */

static void link_of_base(struct devices *devices, uint32_t index)
{
    struct holding *holding = &devices->holdings[index];
    uint64_t key = (uint64_t)holding->base << 16 | holding->node;

    holding->next_of_base = holding_of_base(devices, holding->node, holding->base);
    if (holding->next_of_base != NONE_INDEX)
        table_remove(&devices->of_base, key);
    table_insert(&devices->of_base, key, index);
    devices->base_counts[holding->base]++;
}

static void unlink_of_base(struct devices *devices, uint32_t index)
{
    const struct holding *holding = &devices->holdings[index];
    uint64_t key = (uint64_t)holding->base << 16 | holding->node;
    uint32_t at = table_find(&devices->of_base, key);

    devices->base_counts[holding->base]--;
    if (at == index) {
        table_remove(&devices->of_base, key);
        if (holding->next_of_base != NONE_INDEX)
            table_insert(&devices->of_base, key, holding->next_of_base);
        return;
    }
    while (devices->holdings[at].next_of_base != index)
        at = devices->holdings[at].next_of_base;
    devices->holdings[at].next_of_base = holding->next_of_base;
}

static void unlink_holding(struct devices *devices, uint32_t index)
{
    struct holding *holding = &devices->holdings[index];

    if (holding->previous != NONE_INDEX)
        devices->holdings[holding->previous].next = holding->next;
    else
        devices->nodes[holding->node].holdings_head = holding->next;
    if (holding->next != NONE_INDEX)
        devices->holdings[holding->next].previous = holding->previous;
    unlink_of_base(devices, index);
    *holding = (struct holding){.next = devices->holdings_free};
    devices->holdings_free = index;
    devices->holdings_free_count++;
}

static void unlink_claim(struct devices *devices, uint32_t job)
{
    struct claim *claim = &devices->claims[job];
    struct node *node = &devices->nodes[claim->node];

    if (claim->previous != NONE_INDEX)
        devices->claims[claim->previous].next = claim->next;
    else
        node->claims_head = claim->next;
    if (claim->next != NONE_INDEX)
        devices->claims[claim->next].previous = claim->previous;
    else
        node->claims_tail = claim->previous;
    if (claim->holding != NONE_INDEX)
        devices->holdings[claim->holding].claims--;
}

/* Between the neighbours it remembers. */
static void link_claim(struct devices *devices, uint32_t job)
{
    struct claim *claim = &devices->claims[job];
    struct node *node = &devices->nodes[claim->node];

    if (claim->previous != NONE_INDEX)
        devices->claims[claim->previous].next = job;
    else
        node->claims_head = job;
    if (claim->next != NONE_INDEX)
        devices->claims[claim->next].previous = job;
    else
        node->claims_tail = job;
    if (claim->holding != NONE_INDEX)
        devices->holdings[claim->holding].claims++;
}

static void unlink_earmark(struct devices *devices, uint32_t job)
{
    struct earmark *earmark = &devices->earmarks[job];

    if (earmark->previous != NONE_INDEX)
        devices->earmarks[earmark->previous].next = earmark->next;
    else
        devices->nodes[earmark->node].earmarks_head = earmark->next;
    if (earmark->next != NONE_INDEX)
        devices->earmarks[earmark->next].previous = earmark->previous;
    *earmark = (struct earmark){0};
    devices->earmarks_count--;
}

static struct claim *claim_at(struct devices *devices, uint32_t job)
{
    check(job < devices->config.claims_max);
    check(devices->claims[job].gpu_mask != 0);
    check(!devices->claims[job].away);
    return &devices->claims[job];
}

void claim_detach(struct devices *devices, uint32_t job)
{
    struct claim *claim = claim_at(devices, job);

    node_unfile(devices, claim->node);
    unlink_claim(devices, job);
    claim->away = true;
    node_file(devices, claim->node);
}

void claim_attach(struct devices *devices, uint32_t job)
{
    struct claim *claim = &devices->claims[job];

    check(claim->away);
    node_unfile(devices, claim->node);
    claim->away = false;
    link_claim(devices, job);
    node_file(devices, claim->node);
}

/* ---- what goes ---- */

static void trim_earmarks(struct devices *devices, struct node *there, uint16_t gpu_mask)
{
    for (uint32_t at = there->earmarks_head, next; at != NONE_INDEX; at = next) {
        next = devices->earmarks[at].next;
        if ((devices->earmarks[at].gpu_mask & ~gpu_mask) == 0)
            unlink_earmark(devices, at);
        else
            devices->earmarks[at].gpu_mask &= (uint16_t)~gpu_mask;
    }
}

uint32_t devices_gone(struct devices *devices, uint16_t node, uint16_t gpu_mask, uint32_t *ret_jobs, uint32_t jobs_max)
{
    struct node *there = node_at(devices, node);
    uint32_t count = 0;

    check(gpu_mask != 0);
    check((there->present & gpu_mask) == gpu_mask);
    node_unfile(devices, node);
    for (uint32_t at = there->claims_head, next; at != NONE_INDEX; at = next) {
        next = devices->claims[at].next;
        if ((devices->claims[at].gpu_mask & gpu_mask) == 0)
            continue;
        check(count < jobs_max);
        ret_jobs[count++] = at;
        unlink_claim(devices, at);
        devices->claims[at] = (struct claim){0};
    }
    for (uint32_t at = there->holdings_head, next; at != NONE_INDEX; at = next) {
        next = devices->holdings[at].next;
        if ((devices->holdings[at].gpu_mask & gpu_mask) == 0)
            continue;
        check(devices->holdings[at].claims == 0);
        unlink_holding(devices, at);
    }
    trim_earmarks(devices, there, gpu_mask);
    there->present &= (uint16_t)~gpu_mask;
    there->open &= (uint16_t)~gpu_mask;
    if (there->present == 0) {
        devices->classes[there->class].nodes--;
        there->class = NO_CLASS;
    }
    node_file(devices, node);
    return count;
}

/* ---- holdings ---- */

static struct holding *holding_at(struct devices *devices, uint32_t holding)
{
    check(holding < devices->config.holdings_max);
    check(devices->holdings[holding].gpu_mask != 0);
    return &devices->holdings[holding];
}

/* GreedyDual-Size-Frequency, as for adapters: dear to reload, often used and small stays; the clock ages the rest. */
static uint64_t holding_key(const struct devices *devices, const struct holding *holding)
{
    uint128 value = ((uint128)(uint64_t)holding->load_ns * max_u64(holding->uses, 1)) << KEY_FRACTION_BITS;

    value /= (holding->bytes >> MIB_SHIFT) + 1;
    return devices->clock + (value < KEY_VALUE_MAX ? (uint64_t)value : KEY_VALUE_MAX);
}

uint32_t devices_hold(struct devices *devices, uint16_t base, uint64_t bytes, uint16_t node, uint16_t gpu_mask,
                      int64_t load_ns)
{
    struct node *there = node_at(devices, node);
    uint32_t index = devices->holdings_free;

    check(base < devices->config.bases_max);
    check(gpu_mask != 0 && (there->open & gpu_mask) == gpu_mask);
    check(load_ns >= 0);
    check(index != NONE_INDEX);
    check(devices_holding_at(devices, node, gpu_mask, base) == NONE_INDEX);
    for (uint16_t left = gpu_mask; left != 0; left &= (uint16_t)(left - 1)) {
        check(there->gpus[mask_first(left)].mode != GPU_MIG);
        check(gpu_room_now(&devices->classes[there->class], &there->gpus[mask_first(left)]) >= bytes);
    }
    node_unfile(devices, node);
    struct holding *holding = &devices->holdings[index];

    devices->holdings_free = holding->next;
    devices->holdings_free_count--;
    *holding = (struct holding){
        .bytes = bytes,
        .load_ns = load_ns,
        .used_order = ++devices->orders,
        .next = there->holdings_head,
        .previous = NONE_INDEX,
        .node = node,
        .gpu_mask = gpu_mask,
        .base = base,
    };
    holding->key = holding_key(devices, holding);
    if (there->holdings_head != NONE_INDEX)
        devices->holdings[there->holdings_head].previous = index;
    there->holdings_head = index;
    link_of_base(devices, index);
    node_file(devices, node);
    return index;
}

void devices_loaded(struct devices *devices, uint32_t holding)
{
    struct holding *loaded = holding_at(devices, holding);

    check(!loaded->ready);
    node_unfile(devices, loaded->node);
    loaded->ready = true;
    node_file(devices, loaded->node);
}

uint32_t devices_holding_at(const struct devices *devices, uint16_t node, uint16_t gpu_mask, uint16_t base)
{
    check(node < devices->config.nodes_max);
    check(base < devices->config.bases_max);
    uint32_t at = holding_of_base(devices, node, base);

    while (at != NONE_INDEX && devices->holdings[at].gpu_mask != gpu_mask)
        at = devices->holdings[at].next_of_base;
    return at;
}

void devices_drop(struct devices *devices, uint32_t holding)
{
    struct holding *dropped = holding_at(devices, holding);
    uint16_t node = dropped->node;

    check(dropped->claims == 0);
    devices->clock = max_u64(devices->clock, dropped->key);
    node_unfile(devices, node);
    unlink_holding(devices, holding);
    node_file(devices, node);
}

/* ---- claims ---- */

static uint32_t check_holding_place(struct devices *devices, const struct devices_ask *ask,
                                    const struct devices_place *place)
{
    struct node *there = node_at(devices, place->node);
    uint32_t index = place->holding != NONE_INDEX
                         ? place->holding
                         : devices_holding_at(devices, place->node, place->gpu_mask, ask->base);
    const struct holding *holding = holding_at(devices, index);

    check(holding->node == place->node && holding->gpu_mask == place->gpu_mask && holding->base == ask->base);
    for (uint16_t left = place->gpu_mask; left != 0; left &= (uint16_t)(left - 1)) {
        const struct gpu *gpu = &there->gpus[mask_first(left)];

        check(gpu->mode == GPU_FREE || gpu_joinable(devices, gpu, ask));
        check(gpu_room_now(&devices->classes[there->class], gpu) >= ask->bytes);
    }
    return index;
}

static void check_slice_place(struct devices *devices, const struct devices_ask *ask,
                              const struct devices_place *place)
{
    struct node *there = node_at(devices, place->node);
    const struct gpu_class *class = &devices->classes[there->class];
    const struct gpu *gpu = &there->gpus[mask_first(place->gpu_mask)];
    struct mig_profile profile;

    check(mask_count(place->gpu_mask) == 1);
    check(place->slice != 0);
    check(gpu->mode == GPU_FREE || gpu->mode == GPU_MIG);
    check(gpu->holdings_bytes == 0);
    check(mig_fits(class->model, gpu, slice_profile(place->slice), slice_start(place->slice)));
    check(mig_profile_at((enum gpu_model)class->model, slice_profile(place->slice), &profile));
    check(ask->base_bytes + ask->bytes <= profile.bytes);
    check(ask->base_bytes + ask->bytes <= gpu_room_now(class, gpu));
}

/* The memory it gets becomes the tenant's; true when it was another's. */
static bool take_memory(struct node *node, const struct claim *claim)
{
    uint8_t slices = UINT8_MAX;
    bool others = false;

    if (claim->slice != 0)
        slices = mig_slice_bits(slice_profile(claim->slice), slice_start(claim->slice));
    for (uint16_t left = claim->gpu_mask; left != 0; left &= (uint16_t)(left - 1))
        for (uint32_t slice = 0; slice < MIG_MEMORY_SLICES; slice++) {
            uint32_t *last = &node->gpus[mask_first(left)].last_tenant[slice];

            if ((slices >> slice & 1) == 0)
                continue;
            others |= *last != NONE_INDEX && *last != claim->tenant;
            *last = claim->tenant;
        }
    return others;
}

bool devices_claim(struct devices *devices, uint32_t job, const struct devices_ask *ask, const struct devices_place *place)
{
    struct node *there = node_at(devices, place->node);
    bool mig = ask->isolation == ISOLATION_MIG;
    uint32_t holding = NONE_INDEX;

    check(job < devices->config.claims_max);
    check(devices->claims[job].gpu_mask == 0);
    check(ask->isolation < ISOLATION_COUNT);
    check(ask->tenant < devices->config.tenants_max);
    check(place->gpu_mask != 0 && (there->open & place->gpu_mask) == place->gpu_mask);
    check(mask_count(place->gpu_mask) == ask->gpus);
    if (mig)
        check_slice_place(devices, ask, place);
    else
        holding = check_holding_place(devices, ask, place);
    struct claim *claim = &devices->claims[job];

    node_unfile(devices, place->node);
    *claim = (struct claim){
        .bytes = ask->bytes,
        .base_bytes = mig ? ask->base_bytes : 0,
        .tenant = ask->tenant,
        .holding = holding,
        .next = NONE_INDEX,
        .previous = there->claims_tail,
        .node = place->node,
        .gpu_mask = place->gpu_mask,
        .slice = mig ? place->slice : 0,
        .base = ask->base,
        .isolation = ask->isolation,
        .trusted = ask->trusted,
    };
    claim->clear = take_memory(there, claim);
    link_claim(devices, job);
    if (holding != NONE_INDEX && !devices->restoring) {
        devices->holdings[holding].uses++;
        devices->holdings[holding].used_order = ++devices->orders;
        devices->holdings[holding].key = holding_key(devices, &devices->holdings[holding]);
    }
    node_file(devices, place->node);
    return claim->clear;
}

void devices_release(struct devices *devices, uint32_t job)
{
    struct claim *claim = claim_at(devices, job);
    uint16_t node = claim->node;

    node_unfile(devices, node);
    if (claim->holding != NONE_INDEX)
        devices->holdings[claim->holding].used_order = ++devices->orders;
    unlink_claim(devices, job);
    *claim = (struct claim){0};
    node_file(devices, node);
}

bool devices_claimed(const struct devices *devices, uint32_t job, struct devices_place *ret_place)
{
    check(job < devices->config.claims_max);
    const struct claim *claim = &devices->claims[job];

    if (claim->gpu_mask == 0)
        return false;
    bool waits = claim->holding != NONE_INDEX && !devices->holdings[claim->holding].ready;

    *ret_place = (struct devices_place){
        .kind = waits ? PLACE_LOADING : PLACE_RESIDENT,
        .node = claim->node,
        .gpu_mask = claim->gpu_mask,
        .slice = claim->slice,
        .flavor = devices->classes[devices->nodes[claim->node].class].flavor,
        .holding = claim->holding,
    };
    return true;
}

uint32_t devices_job_at(const struct devices *devices, uint16_t node, uint16_t gpu, uint32_t i)
{
    check(node < devices->config.nodes_max);
    check(gpu < NODE_GPUS_MAX);
    for (uint32_t at = devices->nodes[node].claims_head; at != NONE_INDEX; at = devices->claims[at].next)
        if ((devices->claims[at].gpu_mask & gpu_bit(gpu)) != 0 && i-- == 0)
            return at;
    return NONE_INDEX;
}

uint32_t devices_jobs_on(const struct devices *devices, uint16_t node, uint16_t gpu)
{
    check(node < devices->config.nodes_max);
    check(gpu < NODE_GPUS_MAX);
    return devices->nodes[node].gpus[gpu].jobs;
}

/* ---- earmarks ---- */

void devices_earmark(struct devices *devices, uint16_t node, uint16_t gpu_mask, uint32_t job, int64_t from_ns)
{
    struct node *there = node_at(devices, node);

    check(job < devices->config.claims_max);
    check(gpu_mask != 0 && (there->present & gpu_mask) == gpu_mask);
    check(from_ns >= 0 && from_ns < NEVER_NS);
    devices_unearmark(devices, job);
    node_unfile(devices, node);
    devices->earmarks[job] = (struct earmark){
        .from_ns = from_ns,
        .next = there->earmarks_head,
        .previous = NONE_INDEX,
        .node = node,
        .gpu_mask = gpu_mask,
    };
    if (there->earmarks_head != NONE_INDEX)
        devices->earmarks[there->earmarks_head].previous = job;
    there->earmarks_head = job;
    devices->earmarks_count++;
    node_file(devices, node);
}

void devices_unearmark(struct devices *devices, uint32_t job)
{
    check(job < devices->config.claims_max);
    if (devices->earmarks[job].gpu_mask == 0)
        return;
    uint16_t node = devices->earmarks[job].node;

    node_unfile(devices, node);
    unlink_earmark(devices, job);
    node_file(devices, node);
}
