#include "shared/fleet/ledger_twin.h"

#include "support.h"

#define HOUR_NS (3600 * NS_PER_S)
#define WHOLE INT64_C(1000000000)

/* cost_share, price * time * share, is in atto times HOUR_NS: 27720 parts each. */
static void amount_add(struct twin_amount *amount, uint128 cost_share, uint32_t sharers)
{
    uint128 parts = cost_share % TWIN_PARTS * (27720 / sharers);

    amount->atto += cost_share / TWIN_PARTS * (27720 / sharers);
    amount->atto += (amount->parts + parts) / TWIN_PARTS;
    amount->parts = (amount->parts + parts) % TWIN_PARTS;
}

static void add(struct twin *twin, uint32_t tenant, enum charge_component component, uint128 cost_share,
                uint32_t sharers, bool borrowed)
{
    amount_add(&twin->full[tenant][component], cost_share, sharers);
    if (borrowed)
        amount_add(&twin->borrowed[tenant][component], cost_share, sharers);
}

static int64_t share_of_bytes(const struct twin *twin, uint64_t bytes)
{
    return (int64_t)((uint128)bytes * twin->config.memory_milli * 1000000 / TWIN_BYTES);
}

/* How many claims the tenant has on the base; of these, borrowed. */
static uint32_t claims_of(const struct twin_gpu *gpu, uint32_t base, uint32_t tenant, uint32_t *ret_borrowed)
{
    uint32_t claims = 0;

    *ret_borrowed = 0;
    for (uint32_t j = 0; j < TWIN_JOBS; j++)
        if (gpu->claims[j].on && gpu->claims[j].base == base && gpu->claims[j].tenant == tenant) {
            claims++;
            *ret_borrowed += gpu->claims[j].borrowed;
        }
    return claims;
}

static uint32_t sharers_of(const struct twin_gpu *gpu, uint32_t base)
{
    uint32_t sharers = 0;
    uint32_t borrowed;

    for (uint32_t tenant = 0; tenant < TWIN_TENANTS; tenant++)
        sharers += claims_of(gpu, base, tenant, &borrowed) > 0;
    return sharers;
}

static uint32_t waiting_of(const struct twin_gpu *gpu)
{
    uint32_t waiting = 0;

    for (uint32_t b = 0; b < TWIN_BASES; b++)
        if (gpu->bases[b].on && gpu->bases[b].loading)
            waiting += sharers_of(gpu, b);
    return waiting;
}

/* Splits `cost` = price * time of a GPU, and returns its idle part. */
static uint128 gpu_pass(struct twin *twin, const struct twin_gpu *gpu, uint128 cost)
{
    uint32_t waiting = waiting_of(gpu);
    int64_t idle = waiting > 0 ? 0 : WHOLE;

    for (uint32_t b = 0; b < TWIN_BASES; b++) {
        uint32_t sharers = sharers_of(gpu, b);
        int64_t share = share_of_bytes(twin, gpu->bases[b].bytes);

        if (!gpu->bases[b].on || sharers == 0)
            continue;
        for (uint32_t tenant = 0; tenant < TWIN_TENANTS; tenant++) {
            uint32_t borrowed;
            uint32_t claims = claims_of(gpu, b, tenant, &borrowed);

            if (claims == 0)
                continue;
            if (waiting == 0)
                add(twin, tenant, CHARGE_RESIDENCY, cost * (uint64_t)share, sharers, claims == borrowed);
            else if (gpu->bases[b].loading)
                add(twin, tenant, CHARGE_LOADING, cost * (uint64_t)WHOLE, waiting, claims == borrowed);
        }
        idle -= waiting > 0 ? 0 : share;
    }
    for (uint32_t j = 0; j < TWIN_JOBS && waiting == 0; j++) {
        const struct twin_claim *claim = &gpu->claims[j];
        int64_t memory = share_of_bytes(twin, claim->bytes);
        int64_t compute = (int64_t)(1000 - twin->config.memory_milli) * claim->compute_milli * 1000;

        if (!claim->on)
            continue;
        add(twin, claim->tenant, CHARGE_EXCLUSIVE, cost * (uint64_t)memory, 1, claim->borrowed);
        add(twin, claim->tenant, CHARGE_COMPUTE, cost * (uint64_t)compute, 1, claim->borrowed);
        idle -= memory + compute;
    }
    assert_true(idle >= 0);
    return cost * (uint64_t)idle;
}

static void time_pass(struct twin *twin, int64_t at_ns)
{
    uint128 idle = 0;
    uint128 prices = 0;
    uint64_t unused = 0;
    uint32_t up = 0;
    uint64_t span_ns = (uint64_t)(at_ns - twin->at_ns);

    for (uint32_t i = 0; i < TWIN_GPUS; i++) {
        struct twin_gpu *gpu = &twin->gpus[i];
        uint128 cost = (uint64_t)gpu->price * (uint128)span_ns;

        if (!gpu->up)
            continue;
        gpu->cost += cost;
        idle += gpu_pass(twin, gpu, cost);
        prices += (uint64_t)gpu->price;
        up++;
    }
    for (uint32_t tenant = 0; tenant < TWIN_TENANTS; tenant++)
        unused += (uint64_t)twin->unused_milli[tenant];
    if (up > 0 && unused > 0) {
        uint128 most = prices * unused * 1000000 / up * span_ns;
        uint128 reserved = most < idle ? most : idle;

        for (uint32_t tenant = 0; tenant < TWIN_TENANTS; tenant++)
            twin->full[tenant][CHARGE_RESERVED_IDLE].atto +=
                reserved / (uint64_t)HOUR_NS * (uint64_t)twin->unused_milli[tenant] / unused;
    }
    twin->at_ns = at_ns;
}

static int64_t gpu_bill(const struct twin_gpu *gpu)
{
    return (int64_t)(gpu->cost / (uint64_t)HOUR_NS);
}

int64_t twin_bill(const struct twin *twin)
{
    int64_t bill = twin->closed_nano;

    for (uint32_t i = 0; i < TWIN_GPUS; i++)
        bill += twin->gpus[i].up ? gpu_bill(&twin->gpus[i]) : 0;
    return bill;
}

void twin_apply(struct twin *twin, const struct twin_event *event)
{
    struct twin_gpu *gpu = &twin->gpus[event->gpu];

    time_pass(twin, event->at_ns);
    switch (event->kind) {
    case TWIN_NOTHING: break;
    case TWIN_GPU_UP: *gpu = (struct twin_gpu){.up = true, .price = event->amount}; break;
    case TWIN_GPU_PRICE: gpu->price = event->amount; break;
    case TWIN_GPU_DOWN:
        twin->closed_nano += gpu_bill(gpu);
        *gpu = (struct twin_gpu){0};
        break;
    case TWIN_BASE_ON: gpu->bases[event->base] = (struct twin_base){true, event->flag, event->bytes}; break;
    case TWIN_BASE_READY: gpu->bases[event->base].loading = false; break;
    case TWIN_BASE_OFF: gpu->bases[event->base] = (struct twin_base){0}; break;
    case TWIN_CLAIM_ON:
        gpu->claims[event->job] = (struct twin_claim){true, event->flag, event->tenant, event->base, event->bytes,
                                                      (uint32_t)event->amount};
        break;
    case TWIN_COMPUTE: gpu->claims[event->job].compute_milli = (uint32_t)event->amount; break;
    case TWIN_CLAIM_OFF: gpu->claims[event->job] = (struct twin_claim){0}; break;
    case TWIN_UNUSED: twin->unused_milli[event->tenant] = event->amount; break;
    }
}

void twin_tell(struct ledger *ledger, const struct twin_event *event)
{
    const int64_t at_ns = event->at_ns;

    switch (event->kind) {
    case TWIN_NOTHING: break;
    case TWIN_GPU_UP: ledger_gpu_up(ledger, event->gpu, at_ns, event->amount, TWIN_BYTES); break;
    case TWIN_GPU_PRICE: ledger_gpu_price(ledger, event->gpu, at_ns, event->amount); break;
    case TWIN_GPU_DOWN: ledger_gpu_down(ledger, event->gpu, at_ns); break;
    case TWIN_BASE_ON: ledger_base_on(ledger, event->gpu, at_ns, event->base, event->bytes, event->flag); break;
    case TWIN_BASE_READY: ledger_base_ready(ledger, event->gpu, at_ns, event->base); break;
    case TWIN_BASE_OFF: ledger_base_off(ledger, event->gpu, at_ns, event->base); break;
    case TWIN_CLAIM_ON:
        ledger_claim_on(ledger, event->gpu, at_ns, event->job, event->tenant, event->base, event->bytes,
                        (uint32_t)event->amount, event->flag);
        break;
    case TWIN_COMPUTE: ledger_compute(ledger, event->gpu, at_ns, event->job, (uint32_t)event->amount); break;
    case TWIN_CLAIM_OFF: ledger_claim_off(ledger, event->gpu, at_ns, event->job); break;
    case TWIN_UNUSED: ledger_unused(ledger, at_ns, event->tenant, event->amount); break;
    }
}

static uint64_t bytes_free(const struct twin_gpu *gpu)
{
    uint64_t free = TWIN_BYTES;

    for (uint32_t b = 0; b < TWIN_BASES; b++)
        free -= gpu->bases[b].bytes;
    for (uint32_t j = 0; j < TWIN_JOBS; j++)
        free -= gpu->claims[j].bytes;
    return free;
}

static uint32_t compute_free(const struct twin_gpu *gpu, uint32_t without_job)
{
    uint32_t free = TWIN_MILLI;

    for (uint32_t j = 0; j < TWIN_JOBS; j++)
        free -= j == without_job ? 0 : gpu->claims[j].compute_milli;
    return free;
}

/* Mostly a while, sometimes none, and once in a while a long one. */
static int64_t span_draw(uint64_t *random)
{
    switch (draw_below(random, 8)) {
    case 0: return 0;
    case 1: return (int64_t)draw_below(random, 4);
    case 2: return (int64_t)draw_below(random, (uint64_t)(24 * HOUR_NS));
    default: return (int64_t)draw_below(random, (uint64_t)(600 * NS_PER_S));
    }
}

static enum twin_event_kind gpu_event_draw(const struct twin_gpu *gpu, const struct twin_event *event, uint64_t *random)
{
    if (!gpu->up)
        return TWIN_GPU_UP;
    if (draw_below(random, 40) == 0)
        return TWIN_GPU_DOWN;
    if (draw_below(random, 40) == 0)
        return TWIN_GPU_PRICE;
    if (draw_below(random, 3) == 0) {
        if (!gpu->bases[event->base].on)
            return TWIN_BASE_ON;
        if (gpu->bases[event->base].loading)
            return TWIN_BASE_READY;
        return draw_below(random, 4) == 0 ? TWIN_BASE_OFF : TWIN_NOTHING;
    }
    if (!gpu->claims[event->job].on)
        return TWIN_CLAIM_ON;
    return draw_below(random, 2) == 0 ? TWIN_CLAIM_OFF : TWIN_COMPUTE;
}

struct twin_event twin_draw(const struct twin *twin, uint64_t *random)
{
    struct twin_event event = {.at_ns = twin->at_ns + span_draw(random)};
    const struct twin_gpu *gpu;

    event.gpu = (uint32_t)draw_below(random, TWIN_GPUS);
    event.base = (uint16_t)draw_below(random, TWIN_BASES);
    event.job = (uint32_t)draw_below(random, TWIN_JOBS);
    event.tenant = (uint32_t)draw_below(random, TWIN_TENANTS);
    event.flag = draw_below(random, 2) == 0;
    gpu = &twin->gpus[event.gpu];
    event.kind = draw_below(random, 5) == 0 ? TWIN_UNUSED : gpu_event_draw(gpu, &event, random);
    switch (event.kind) {
    case TWIN_GPU_UP:
    case TWIN_GPU_PRICE:
        event.amount = (int64_t)draw_below(random, draw_below(random, 8) == 0 ? 5 : 8000000000);
        break;
    case TWIN_BASE_ON: event.bytes = draw_below(random, bytes_free(gpu) + 1); break;
    case TWIN_CLAIM_ON:
        event.bytes = draw_below(random, bytes_free(gpu) + 1);
        event.amount = (int64_t)draw_below(random, compute_free(gpu, event.job) + 1);
        break;
    case TWIN_COMPUTE: event.amount = (int64_t)draw_below(random, compute_free(gpu, event.job) + 1); break;
    case TWIN_UNUSED: /* none; some; more than there is, so that the platform has no idle money */
        event.amount = (int64_t)draw_below(random, (uint64_t[]){1, 2000, 100000}[draw_below(random, 3)]);
        break;
    default: break;
    }
    return event;
}
