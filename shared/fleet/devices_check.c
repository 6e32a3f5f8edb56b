/* I1 and its kin, from the records alone: whole tables are walked, not the lists and summaries that the search trusts.
 * Costs O(everything); tests call it after every step. */
#include "fleet/devices_state.h"

struct sums {
    uint64_t holdings;
    uint64_t fixed;
    uint64_t claims;
    uint32_t jobs;
    uint32_t exclusive;
    uint32_t slices;
    uint8_t slice_bits;
    uint32_t compute;
};

static void add_holdings(const struct devices *devices, uint32_t index, struct sums *sums)
{
    for (uint32_t i = 0; i < devices->config.holdings_max; i++) {
        const struct holding *holding = &devices->holdings[i];

        if (holding->gpu_mask == 0 || holding->node != index)
            continue;
        for (uint32_t gpu = 0; gpu < NODE_GPUS_MAX; gpu++)
            if ((holding->gpu_mask >> gpu & 1) != 0) {
                sums[gpu].holdings += holding->bytes;
                sums[gpu].fixed += holding->claims > 0 || !holding->ready ? holding->bytes : 0;
            }
    }
}

static void add_slice(const struct claim *claim, uint16_t model, struct sums *sums)
{
    struct mig_profile profile;
    uint32_t start = slice_start(claim->slice);

    check(mig_profile_at((enum gpu_model)model, slice_profile(claim->slice), &profile));
    check((profile.starts >> start & 1) != 0);
    check(claim->bytes + claim->base_bytes <= profile.bytes);
    for (uint32_t slice = start; slice < start + profile.memory_slices; slice++) {
        check((sums->slice_bits >> slice & 1) == 0);
        sums->slice_bits |= (uint8_t)(1u << slice);
    }
    sums->compute += profile.compute_slices;
    sums->slices++;
    check(sums->compute <= MIG_COMPUTE_SLICES);
}

static void add_claims(const struct devices *devices, uint32_t index, struct sums *sums)
{
    const struct node *node = &devices->nodes[index];

    for (uint32_t job = 0; job < devices->config.claims_max; job++) {
        const struct claim *claim = &devices->claims[job];

        if (claim->gpu_mask == 0 || claim->node != index)
            continue;
        check((claim->gpu_mask & ~node->present) == 0);
        check((claim->slice != 0) == (claim->isolation == ISOLATION_MIG));
        for (uint32_t gpu = 0; gpu < NODE_GPUS_MAX; gpu++) {
            if ((claim->gpu_mask >> gpu & 1) == 0)
                continue;
            sums[gpu].claims += claim->bytes + claim->base_bytes;
            sums[gpu].jobs++;
            sums[gpu].exclusive += claim->isolation == ISOLATION_EXCLUSIVE;
            if (claim->slice != 0)
                add_slice(claim, devices->classes[node->class].model, &sums[gpu]);
        }
    }
}

/* Two jobs that share a GPU are of one isolation class, and of one tenant or both trusted under MPS. */
static void check_sharers(const struct devices *devices, uint32_t index)
{
    for (uint32_t a = devices->nodes[index].claims_head; a != NONE_INDEX; a = devices->claims[a].next)
        for (uint32_t b = devices->claims[a].next; b != NONE_INDEX; b = devices->claims[b].next) {
            const struct claim *one = &devices->claims[a];
            const struct claim *other = &devices->claims[b];

            if ((one->gpu_mask & other->gpu_mask) == 0)
                continue;
            check(one->isolation == other->isolation);
            check(one->isolation != ISOLATION_EXCLUSIVE);
            if (one->isolation == ISOLATION_MIG || one->tenant == other->tenant)
                continue;
            check(one->isolation == ISOLATION_MPS);
            check(one->trusted && other->trusted);
        }
}

static void check_gpu(const struct devices *devices, const struct node *node, uint32_t index, const struct sums *sums)
{
    const struct gpu *gpu = &node->gpus[index];

    if ((node->present >> index & 1) == 0) {
        check(sums->holdings == 0 && sums->jobs == 0);
        check((node->free >> index & 1) == 0);
        return;
    }
    check(sums->holdings + sums->claims <= devices->classes[node->class].bytes);
    check(gpu->holdings_bytes == sums->holdings);
    check(gpu->fixed_bytes == sums->fixed);
    check(gpu->claims_bytes == sums->claims);
    check(gpu->jobs == sums->jobs);
    check(gpu->mig_memory == sums->slice_bits);
    check(gpu->mig_compute == sums->compute);
    check(sums->slices == 0 || sums->slices == sums->jobs);
    check(sums->slices == 0 || sums->holdings == 0);
    check(sums->exclusive == 0 || sums->jobs == 1);
    check(sums->slices > 0 || sums->jobs <= max_u32(devices->config.sharers_max, 1));
    check((gpu->mode == GPU_FREE) == (sums->jobs == 0));
    check((gpu->mode == GPU_MIG) == (sums->slices > 0));
    check((gpu->mode == GPU_WHOLE) == (sums->exclusive > 0));
    check((node->free >> index & 1) == ((node->open >> index & 1) != 0 && sums->jobs == 0));
}

static bool bit(const uint64_t *bitmap, uint32_t node)
{
    return (bitmap[node / 64] >> (node % 64) & 1) != 0;
}

static void check_indexes(const struct devices *devices, uint32_t index)
{
    const struct node *node = &devices->nodes[index];

    for (uint32_t class = 0; class < DEVICES_CLASSES_MAX; class++)
        for (uint32_t free = 0; free <= NODE_GPUS_MAX; free++)
            check(bit(free_nodes(devices, class, free), index) == (class == node->class && free == mask_count(node->free)));
    for (uint32_t class = 0; class < DEVICES_CLASSES_MAX; class++)
        for (uint32_t profile = 0; profile < MIG_PROFILES; profile++) {
            bool fits = false;

            for (uint32_t gpu = 0; gpu < NODE_GPUS_MAX && class == node->class; gpu++)
                fits |= (node->open >> gpu & 1) != 0 && node->gpus[gpu].mode == GPU_MIG &&
                        mig_best_start(devices->classes[class].model, &node->gpus[gpu], profile) != NONE_INDEX;
            check(bit(slice_nodes(devices, class, profile), index) == fits);
        }
    for (uint32_t gpus = 1; gpus < NODE_GPUS_MAX; gpus++)
        for (uint32_t kind = 0; kind < ROOM_KINDS; kind++)
            check(rooms_of(devices, kind, gpus)[index] >= rooms_of(devices, kind, gpus + 1)[index]);
}

static void check_node(const struct devices *devices, uint32_t index)
{
    const struct node *node = &devices->nodes[index];
    struct sums sums[NODE_GPUS_MAX] = {0};

    check((node->open & ~node->present) == 0);
    check((node->class == NO_CLASS) == (node->present == 0));
    if (node->present == 0)
        check(node->claims_head == NONE_INDEX && node->holdings_head == NONE_INDEX);
    add_holdings(devices, index, sums);
    add_claims(devices, index, sums);
    for (uint32_t gpu = 0; gpu < NODE_GPUS_MAX; gpu++)
        check_gpu(devices, node, gpu, &sums[gpu]);
    check_sharers(devices, index);
    check_indexes(devices, index);
}

static void check_holdings(const struct devices *devices)
{
    uint32_t live = 0;

    for (uint32_t i = 0; i < devices->config.holdings_max; i++) {
        const struct holding *holding = &devices->holdings[i];
        uint32_t claims = 0;

        if (holding->gpu_mask == 0)
            continue;
        live++;
        check((holding->gpu_mask & ~devices->nodes[holding->node].present) == 0);
        check(devices_holding_at(devices, holding->node, holding->gpu_mask, holding->base) == i);
        for (uint32_t job = 0; job < devices->config.claims_max; job++)
            if (devices->claims[job].gpu_mask != 0 && devices->claims[job].holding == i) {
                claims++;
                check(devices->claims[job].gpu_mask == holding->gpu_mask);
                check(devices->claims[job].node == holding->node);
                check(devices->claims[job].base == holding->base);
            }
        check(claims == holding->claims);
    }
    check(live + devices->holdings_free_count == devices->config.holdings_max);
}

static void check_claims(const struct devices *devices)
{
    uint32_t live = 0;
    uint32_t listed = 0;
    uint32_t earmarks = 0;

    for (uint32_t job = 0; job < devices->config.claims_max; job++) {
        const struct claim *claim = &devices->claims[job];

        earmarks += devices->earmarks[job].gpu_mask != 0;
        check(!claim->away);
        if (claim->gpu_mask == 0)
            continue;
        live++;
        check((claim->holding == NONE_INDEX) == (claim->isolation == ISOLATION_MIG));
    }
    for (uint32_t i = 0; i < devices->config.nodes_max; i++) {
        uint32_t before = NONE_INDEX;

        for (uint32_t job = devices->nodes[i].claims_head; job != NONE_INDEX; job = devices->claims[job].next) {
            check(devices->claims[job].node == i && devices->claims[job].previous == before);
            check(devices->claims[job].gpu_mask != 0);
            before = job;
            listed++;
        }
        check(devices->nodes[i].claims_tail == before);
        for (uint32_t job = devices->nodes[i].earmarks_head; job != NONE_INDEX; job = devices->earmarks[job].next) {
            check(devices->earmarks[job].node == i);
            check((devices->earmarks[job].gpu_mask & ~devices->nodes[i].present) == 0);
            check(earmarks-- > 0);
        }
    }
    check(listed == live);
    check(earmarks == 0);
}

static void check_totals(const struct devices *devices)
{
    uint64_t share = 0;

    for (uint32_t flavor = 0; flavor < devices->config.flavors_max; flavor++) {
        uint64_t open = 0;
        uint64_t busy = 0;

        for (uint32_t i = 0; i < devices->config.nodes_max; i++) {
            const struct node *node = &devices->nodes[i];

            if (node->class == NO_CLASS || devices->classes[node->class].flavor != flavor)
                continue;
            open += mask_count(node->open);
            busy += mask_count((uint16_t)(node->open & ~node->free));
        }
        check(devices->gpus[flavor] == open);
        check(devices->gpus_busy[flavor] == busy);
    }
    for (uint32_t i = 0; i < devices->config.nodes_max; i++)
        share += devices->nodes[i].share;
    check(devices->digest_sum == share);
}

void devices_check(const struct devices *devices)
{
    for (uint32_t i = 0; i < devices->config.nodes_max; i++)
        check_node(devices, i);
    check_holdings(devices);
    check_claims(devices);
    check_totals(devices);
}
