/* The ledger's events. Each brings its GPU to the present (one product: price times time), lets those pay whose share
 * is about to change, and changes it; whoever is not touched owes by the integrals and pays later. */
#include "fleet/ledger_state.h"

#define CLAIMS_PER_GPU 16
#define BASES_PER_GPU 8

/* The memory is one block: parts in this order, each aligned for 128-bit integers. */
struct parts {
    size_t ledger, gpus, accounts, bases, claims, sharers, bytes;
};

static size_t take(size_t *used, size_t bytes)
{
    size_t at = *used;

    *used += (bytes + 15) & ~(size_t)15;
    return at;
}

static uint32_t pool_max(const struct ledger_config *config, uint32_t per_gpu, uint32_t per_gpu_default)
{
    uint64_t max = (uint64_t)config->gpus_max * (per_gpu != 0 ? per_gpu : per_gpu_default);

    check(max < UINT32_MAX);
    return (uint32_t)max;
}

static uint32_t claims_most(const struct ledger_config *config)
{
    return pool_max(config, config->claims_per_gpu_max, CLAIMS_PER_GPU);
}

static uint32_t bases_most(const struct ledger_config *config)
{
    return pool_max(config, config->bases_per_gpu_max, BASES_PER_GPU);
}

static struct parts parts_of(const struct ledger_config *config)
{
    struct parts parts;
    size_t used = 0;

    check(config->gpus_max >= 1);
    check(config->gpus_max <= 1u << 20);
    check(config->tenants_max < UINT32_MAX);
    check(config->claims_max >= 1);
    check(config->usage_factor_milli <= 1000);
    check(config->memory_milli <= 1000);
    parts.ledger = take(&used, sizeof(struct ledger));
    parts.gpus = take(&used, config->gpus_max * sizeof(struct ledger_gpu));
    parts.accounts = take(&used, ((size_t)config->tenants_max + 1) * sizeof(struct ledger_account));
    parts.bases = take(&used, bases_most(config) * sizeof(struct ledger_base));
    parts.claims = take(&used, claims_most(config) * sizeof(struct ledger_claim));
    parts.sharers = take(&used, claims_most(config) * sizeof(struct ledger_sharer));
    parts.bytes = used;
    return parts;
}

size_t ledger_bytes(const struct ledger_config *config)
{
    return parts_of(config).bytes + 8; /* the memory may be aligned to 8 only */
}

static struct pool pool_make(void *items, size_t item_bytes, uint32_t max)
{
    return (struct pool){.items = items, .item_bytes = item_bytes, .free = NONE_INDEX, .max = max};
}

struct ledger *ledger_create(void *memory, size_t memory_bytes, const struct ledger_config *config)
{
    struct parts parts = parts_of(config);
    unsigned char *bytes = memory;
    struct ledger *ledger;

    check(memory_bytes >= ledger_bytes(config));
    check((uintptr_t)memory % 8 == 0);
    bytes += (uintptr_t)memory % 16;
    memset(bytes, 0, parts.bases); /* records of the pools are written when they are taken */
    ledger = (void *)(bytes + parts.ledger);
    ledger->config = *config;
    ledger->gpus = (void *)(bytes + parts.gpus);
    ledger->accounts = (void *)(bytes + parts.accounts);
    ledger->bases = pool_make(bytes + parts.bases, sizeof(struct ledger_base), bases_most(config));
    ledger->claims = pool_make(bytes + parts.claims, sizeof(struct ledger_claim), claims_most(config));
    ledger->sharers = pool_make(bytes + parts.sharers, sizeof(struct ledger_sharer), claims_most(config));
    ledger->at_ns = INT64_MIN;
    ledger->settled_at_ns = INT64_MIN;
    return ledger;
}

static uint32_t *pool_next(const struct pool *pool, uint32_t i)
{
    return (uint32_t *)(void *)(pool->items + i * pool->item_bytes);
}

/* A zeroed record at the head of `list`. */
static uint32_t pool_take(struct pool *pool, uint32_t *list)
{
    uint32_t i = pool->free;

    if (i != NONE_INDEX)
        pool->free = *pool_next(pool, i);
    else
        i = pool->used++;
    check(i < pool->max);
    memset(pool_next(pool, i), 0, pool->item_bytes);
    *pool_next(pool, i) = *list;
    *list = i;
    return i;
}

static void pool_give(struct pool *pool, uint32_t *list, uint32_t i)
{
    while (*list != i) {
        check(*list != NONE_INDEX);
        list = pool_next(pool, *list);
    }
    *list = *pool_next(pool, i);
    *pool_next(pool, i) = pool->free;
    pool->free = i;
}

/* The integral's rise since the last time, times `share`, in equal parts; what does not divide waits. */
static void accumulator_turn(struct accumulator *accumulator, uint128 integral, int64_t share, uint32_t count)
{
    uint128 rise = integral - accumulator->from;
    uint128 divisor = (uint128)HOUR_NS * count;
    uint128 owed;
    uint128 each;

    accumulator->from = integral;
    if (count == 0 || rise == 0)
        return;
    check(rise < (uint128)1 << 97);
    owed = rise * (uint64_t)share + accumulator->carry;
    each = owed / divisor;
    accumulator->atto += each;
    accumulator->carry = owed - each * divisor;
}

static uint128 part_take(uint128 rise, int64_t share, uint64_t *carry)
{
    uint128 owed = rise * (uint64_t)share + *carry;
    uint128 atto = owed / (uint64_t)HOUR_NS;

    *carry = (uint64_t)(owed - atto * (uint64_t)HOUR_NS);
    return atto;
}

static void claim_pay(struct ledger *ledger, const struct ledger_gpu *gpu, struct ledger_claim *claim)
{
    uint128 rise = gpu->running - claim->from;
    uint128 memory_atto;
    uint128 compute_atto;

    claim->from = gpu->running;
    if (rise == 0)
        return;
    check(rise < (uint128)1 << 97);
    memory_atto = part_take(rise, claim->memory_share, &claim->memory_carry);
    compute_atto = part_take(rise, claim->compute_share, &claim->compute_carry);
    ledger_amount_add(ledger, claim->tenant, CHARGE_EXCLUSIVE, memory_atto, claim->borrowed);
    ledger_amount_add(ledger, claim->tenant, CHARGE_COMPUTE, compute_atto, claim->borrowed);
}

static void splits_turn(struct ledger_gpu *gpu, struct ledger_base *base)
{
    accumulator_turn(&base->residency, gpu->running, base->share, base->sharers_count);
    if (base->loading)
        accumulator_turn(&gpu->wait, gpu->loading, WHOLE, gpu->waiting);
}

static void sharer_pay(struct ledger *ledger, struct ledger_gpu *gpu, struct ledger_base *base,
                       struct ledger_sharer *sharer)
{
    bool borrowed = sharer->claims_borrowed == sharer->claims;

    splits_turn(gpu, base);
    ledger_amount_add(ledger, sharer->tenant, CHARGE_RESIDENCY, base->residency.atto - sharer->residency_from,
                      borrowed);
    sharer->residency_from = base->residency.atto;
    if (base->loading) {
        ledger_amount_add(ledger, sharer->tenant, CHARGE_LOADING, gpu->wait.atto - sharer->loading_from, borrowed);
        sharer->loading_from = gpu->wait.atto;
    }
}

/* The carries are given up (to the platform): those who come or stay do not pay for the time before. */
static void waiting_set(struct ledger_gpu *gpu, uint32_t waiting)
{
    accumulator_turn(&gpu->wait, gpu->loading, WHOLE, gpu->waiting);
    gpu->waiting = waiting;
    gpu->wait.carry = 0;
}

static void sharers_count_set(struct ledger_gpu *gpu, struct ledger_base *base, uint32_t count)
{
    splits_turn(gpu, base);
    if (base->loading)
        waiting_set(gpu, gpu->waiting + count - base->sharers_count);
    gpu->used_share += (count > 0 ? base->share : 0) - (base->sharers_count > 0 ? base->share : 0);
    base->sharers_count = count;
    base->residency.carry = 0;
}

static uint32_t sharer_find(const struct ledger *ledger, const struct ledger_base *base, uint32_t tenant)
{
    uint32_t i = base->sharers;

    while (i != NONE_INDEX && sharer_at(ledger, i)->tenant != tenant)
        i = sharer_at(ledger, i)->next;
    return i;
}

static void base_join(struct ledger *ledger, struct ledger_gpu *gpu, struct ledger_base *base,
                      const struct ledger_claim *claim)
{
    uint32_t i = sharer_find(ledger, base, claim->tenant);
    struct ledger_sharer *sharer;

    if (i == NONE_INDEX) {
        sharers_count_set(gpu, base, base->sharers_count + 1);
        sharer = sharer_at(ledger, pool_take(&ledger->sharers, &base->sharers));
        sharer->tenant = claim->tenant;
        sharer->residency_from = base->residency.atto;
        sharer->loading_from = gpu->wait.atto;
    } else {
        sharer = sharer_at(ledger, i);
        sharer_pay(ledger, gpu, base, sharer); /* from here on it may be borrowed no more */
    }
    sharer->claims++;
    sharer->claims_borrowed += claim->borrowed;
}

static void base_leave(struct ledger *ledger, struct ledger_gpu *gpu, struct ledger_base *base,
                       const struct ledger_claim *claim)
{
    uint32_t i = sharer_find(ledger, base, claim->tenant);
    struct ledger_sharer *sharer;

    check(i != NONE_INDEX);
    sharer = sharer_at(ledger, i);
    sharer_pay(ledger, gpu, base, sharer);
    sharer->claims--;
    sharer->claims_borrowed -= claim->borrowed;
    if (sharer->claims == 0) {
        pool_give(&ledger->sharers, &base->sharers, i);
        sharers_count_set(gpu, base, base->sharers_count - 1);
    }
}

static uint32_t base_find(const struct ledger *ledger, const struct ledger_gpu *gpu, uint16_t base)
{
    uint32_t i = gpu->bases;

    while (i != NONE_INDEX && base_at(ledger, i)->base != base)
        i = base_at(ledger, i)->next;
    return i;
}

static uint32_t claim_find(const struct ledger *ledger, const struct ledger_gpu *gpu, uint32_t job)
{
    uint32_t i = gpu->claims;

    while (i != NONE_INDEX && claim_at(ledger, i)->job != job)
        i = claim_at(ledger, i)->next;
    return i;
}

static struct ledger_gpu *gpu_of(struct ledger *ledger, uint32_t gpu)
{
    check(gpu < ledger->config.gpus_max);
    return &ledger->gpus[gpu];
}

static void gpu_turn(const struct ledger *ledger, struct ledger_gpu *gpu)
{
    uint128 cost = (uint128)(uint64_t)gpu->price * (uint64_t)(ledger->at_ns - gpu->at_ns);

    if (ledger->at_ns == gpu->at_ns)
        return;
    /* More than there is may be given away for an instant only. */
    check(gpu->bytes_taken <= gpu->bytes);
    check(gpu->compute_milli <= 1000);
    if (gpu->waiting > 0)
        gpu->loading += cost;
    else
        gpu->running += cost;
    gpu->at_ns = ledger->at_ns;
}

/* All that has passed counts under the old state: call it before any change. */
static void gpu_open(struct ledger *ledger, struct ledger_gpu *gpu, int64_t at_ns)
{
    check(gpu->up);
    ledger_idle_turn(ledger, at_ns);
    gpu_turn(ledger, gpu);
}

/* The changes count from here on. */
static void gpu_close(struct ledger *ledger, struct ledger_gpu *gpu)
{
    int64_t idle_share = gpu->waiting > 0 ? 0 : WHOLE - gpu->used_share;
    int128 idle_rate = gpu->up ? (int128)gpu->price * idle_share : 0;

    ledger->idle_rate += idle_rate - gpu->idle_rate;
    gpu->idle_rate = idle_rate;
    ledger_idle_rate_set(ledger);
}

static void price_check(int64_t price_nano_per_hour)
{
    check(price_nano_per_hour >= 0);
    check(price_nano_per_hour < INT64_C(1) << 46); /* 70,000 an hour */
}

void ledger_gpu_up(struct ledger *ledger, uint32_t gpu_index, int64_t at_ns, int64_t price_nano_per_hour,
                   uint64_t bytes)
{
    struct ledger_gpu *gpu = gpu_of(ledger, gpu_index);

    check(!gpu->up);
    check(bytes >= 1);
    price_check(price_nano_per_hour);
    ledger_idle_turn(ledger, at_ns);
    *gpu = (struct ledger_gpu){.up = true, .bases = NONE_INDEX, .claims = NONE_INDEX, .at_ns = at_ns,
                               .price = price_nano_per_hour, .bytes = bytes};
    ledger->price_sum += (uint64_t)price_nano_per_hour;
    ledger->up_count++;
    gpu_close(ledger, gpu);
}

void ledger_gpu_price(struct ledger *ledger, uint32_t gpu_index, int64_t at_ns, int64_t price_nano_per_hour)
{
    struct ledger_gpu *gpu = gpu_of(ledger, gpu_index);

    price_check(price_nano_per_hour);
    gpu_open(ledger, gpu, at_ns);
    ledger->price_sum += (uint64_t)price_nano_per_hour;
    ledger->price_sum -= (uint64_t)gpu->price;
    gpu->price = price_nano_per_hour;
    gpu_close(ledger, gpu);
}

static void claim_end(struct ledger *ledger, struct ledger_gpu *gpu, uint32_t i)
{
    struct ledger_claim *claim = claim_at(ledger, i);
    uint32_t base = base_find(ledger, gpu, claim->base);

    claim_pay(ledger, gpu, claim);
    if (base != NONE_INDEX)
        base_leave(ledger, gpu, base_at(ledger, base), claim);
    gpu->used_share -= claim->memory_share + claim->compute_share;
    gpu->bytes_taken -= claim->bytes;
    gpu->compute_milli -= claim->compute_milli;
    pool_give(&ledger->claims, &gpu->claims, i);
}

static void base_end(struct ledger *ledger, struct ledger_gpu *gpu, uint32_t i)
{
    struct ledger_base *base = base_at(ledger, i);

    for (uint32_t claim = gpu->claims; claim != NONE_INDEX; claim = claim_at(ledger, claim)->next)
        if (claim_at(ledger, claim)->base == base->base)
            base_leave(ledger, gpu, base, claim_at(ledger, claim));
    gpu->bytes_taken -= base->bytes;
    pool_give(&ledger->bases, &gpu->bases, i);
}

void ledger_gpu_down(struct ledger *ledger, uint32_t gpu_index, int64_t at_ns)
{
    struct ledger_gpu *gpu = gpu_of(ledger, gpu_index);

    if (!gpu->up)
        return;
    gpu_open(ledger, gpu, at_ns);
    while (gpu->claims != NONE_INDEX)
        claim_end(ledger, gpu, gpu->claims);
    while (gpu->bases != NONE_INDEX)
        base_end(ledger, gpu, gpu->bases);
    ledger->closed_nano = nano_add(ledger->closed_nano, ledger_gpu_bill(gpu));
    ledger->price_sum -= (uint64_t)gpu->price;
    ledger->up_count--;
    gpu->up = false;
    gpu_close(ledger, gpu);
}

/* Billionths of the GPU that these bytes are, at the memory's weight; rounded down: the rest is idle. */
static int64_t memory_share(const struct ledger *ledger, const struct ledger_gpu *gpu, uint64_t bytes)
{
    check(bytes <= gpu->bytes);
    return (int64_t)((uint128)bytes * ledger->config.memory_milli * (WHOLE / 1000) / gpu->bytes);
}

static int64_t compute_share(const struct ledger *ledger, uint32_t compute_milli)
{
    check(compute_milli <= 1000);
    return (int64_t)(1000 - ledger->config.memory_milli) * compute_milli * (WHOLE / 1000000);
}

void ledger_base_on(struct ledger *ledger, uint32_t gpu_index, int64_t at_ns, uint16_t base_index, uint64_t bytes,
                    bool loading)
{
    struct ledger_gpu *gpu = gpu_of(ledger, gpu_index);
    struct ledger_base *base;

    check(base_index != LEDGER_NO_BASE);
    gpu_open(ledger, gpu, at_ns);
    check(base_find(ledger, gpu, base_index) == NONE_INDEX);
    base = base_at(ledger, pool_take(&ledger->bases, &gpu->bases));
    base->base = base_index;
    base->loading = loading;
    base->bytes = bytes;
    base->share = memory_share(ledger, gpu, bytes);
    base->sharers = NONE_INDEX;
    base->residency.from = gpu->running;
    gpu->bytes_taken += bytes;
    for (uint32_t i = gpu->claims; i != NONE_INDEX; i = claim_at(ledger, i)->next)
        if (claim_at(ledger, i)->base == base_index)
            base_join(ledger, gpu, base, claim_at(ledger, i));
    gpu_close(ledger, gpu);
}

void ledger_base_ready(struct ledger *ledger, uint32_t gpu_index, int64_t at_ns, uint16_t base_index)
{
    struct ledger_gpu *gpu = gpu_of(ledger, gpu_index);
    struct ledger_base *base;
    uint32_t i;

    gpu_open(ledger, gpu, at_ns);
    i = base_find(ledger, gpu, base_index);
    check(i != NONE_INDEX);
    base = base_at(ledger, i);
    if (!base->loading)
        return;
    for (i = base->sharers; i != NONE_INDEX; i = sharer_at(ledger, i)->next)
        sharer_pay(ledger, gpu, base, sharer_at(ledger, i));
    waiting_set(gpu, gpu->waiting - base->sharers_count);
    base->loading = false;
    gpu_close(ledger, gpu);
}

void ledger_base_off(struct ledger *ledger, uint32_t gpu_index, int64_t at_ns, uint16_t base_index)
{
    struct ledger_gpu *gpu = gpu_of(ledger, gpu_index);
    uint32_t i = gpu->up ? base_find(ledger, gpu, base_index) : NONE_INDEX;

    if (i == NONE_INDEX)
        return;
    gpu_open(ledger, gpu, at_ns);
    base_end(ledger, gpu, i);
    gpu_close(ledger, gpu);
}

void ledger_claim_on(struct ledger *ledger, uint32_t gpu_index, int64_t at_ns, uint32_t job, uint32_t tenant,
                     uint16_t base_index, uint64_t bytes, uint32_t compute_milli, bool borrowed)
{
    struct ledger_gpu *gpu = gpu_of(ledger, gpu_index);
    struct ledger_claim *claim;
    uint32_t base;

    check(job < ledger->config.claims_max);
    check(tenant <= ledger->config.tenants_max);
    gpu_open(ledger, gpu, at_ns);
    check(claim_find(ledger, gpu, job) == NONE_INDEX);
    claim = claim_at(ledger, pool_take(&ledger->claims, &gpu->claims));
    claim->job = job;
    claim->tenant = tenant;
    claim->base = base_index;
    claim->borrowed = borrowed;
    claim->bytes = bytes;
    claim->memory_share = memory_share(ledger, gpu, bytes);
    claim->compute_milli = compute_milli;
    claim->compute_share = compute_share(ledger, compute_milli);
    claim->from = gpu->running;
    gpu->bytes_taken += bytes;
    gpu->compute_milli += compute_milli;
    gpu->used_share += claim->memory_share + claim->compute_share;
    base = base_find(ledger, gpu, base_index);
    if (base != NONE_INDEX)
        base_join(ledger, gpu, base_at(ledger, base), claim);
    gpu_close(ledger, gpu);
}

void ledger_compute(struct ledger *ledger, uint32_t gpu_index, int64_t at_ns, uint32_t job, uint32_t compute_milli)
{
    struct ledger_gpu *gpu = gpu_of(ledger, gpu_index);
    int64_t share = compute_share(ledger, compute_milli);
    struct ledger_claim *claim;
    uint32_t i;

    gpu_open(ledger, gpu, at_ns);
    i = claim_find(ledger, gpu, job);
    check(i != NONE_INDEX);
    claim = claim_at(ledger, i);
    claim_pay(ledger, gpu, claim);
    gpu->used_share += share - claim->compute_share;
    gpu->compute_milli += compute_milli;
    gpu->compute_milli -= claim->compute_milli;
    claim->compute_share = share;
    claim->compute_milli = compute_milli;
    gpu_close(ledger, gpu);
}

void ledger_claim_off(struct ledger *ledger, uint32_t gpu_index, int64_t at_ns, uint32_t job)
{
    struct ledger_gpu *gpu = gpu_of(ledger, gpu_index);
    uint32_t i = gpu->up ? claim_find(ledger, gpu, job) : NONE_INDEX;

    if (i == NONE_INDEX)
        return;
    gpu_open(ledger, gpu, at_ns);
    claim_end(ledger, gpu, i);
    gpu_close(ledger, gpu);
}

void ledger_gpu_pay(struct ledger *ledger, struct ledger_gpu *gpu)
{
    gpu_turn(ledger, gpu);
    for (uint32_t i = gpu->claims; i != NONE_INDEX; i = claim_at(ledger, i)->next)
        claim_pay(ledger, gpu, claim_at(ledger, i));
    for (uint32_t b = gpu->bases; b != NONE_INDEX; b = base_at(ledger, b)->next)
        for (uint32_t i = base_at(ledger, b)->sharers; i != NONE_INDEX; i = sharer_at(ledger, i)->next)
            sharer_pay(ledger, gpu, base_at(ledger, b), sharer_at(ledger, i));
}
