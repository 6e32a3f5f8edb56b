/* The books of serving GPUs that are no jobs' GPUs: pools of their own. The same ledger as the core's, in the host's hands: a
 * replica is a claim of the platform's on its GPUs, from when it starts to when it is drained. No decision looks at these, so
 * no core is told of them, and a price changes nothing of what happens. At the end they join the books of jobs. */
#include <stdlib.h>

#include "engine/internal.h"
#include "fleet/ledger.h"
#include "model/footprint.h"

#define PLATFORM 0 /* nobody else has an account */

/* Of one replica. */
struct stay {
    uint32_t gpu;               /* the first of its GPUs in the ledger */
    bool booked;                /* its pool has a price, and GPUs of its own */
    bool held;
};

struct serving_books {
    struct ledger *ledger;      /* NULL: nothing is booked */
    void *memory;
    struct stay *stays;         /* [replicas_count] */
    bool known;                 /* no GPU is without a price */
};

static const struct scenario_pool *pool_of(const struct sim *sim, const struct sim_replica *replica)
{
    return &sim->scenario->pools[replica->pool];
}

static int64_t price_nano(const struct scenario_pool *pool)
{
    return (int64_t)(pool_price_per_h(pool) * 1e9 + 0.5);
}

void serving_books_open(struct sim *sim)
{
    struct serving_books *books = sim->serving_books = calloc(1, sizeof(*books));
    struct ledger_config config = {.claims_max = max_u32(sim->replicas_count, 1),
                                   .usage_factor_milli = 1000,
                                   .memory_milli = 500,
                                   .claims_per_gpu_max = 1,
                                   .bases_per_gpu_max = 1};

    check(books != NULL);
    books->known = true;
    books->stays = calloc(max_u32(sim->replicas_count, 1), sizeof(*books->stays));
    check(books->stays != NULL);
    for (uint32_t i = 0; i < sim->replicas_count; i++) {
        const struct scenario_pool *pool = pool_of(sim, &sim->replicas[i]);

        if (pool->keys.shared)
            continue;
        books->known = books->known && price_nano(pool) > 0;
        books->stays[i] = (struct stay){.gpu = config.gpus_max, .booked = price_nano(pool) > 0};
        config.gpus_max += books->stays[i].booked ? sim->replicas[i].tp : 0;
    }
    if (config.gpus_max == 0)
        return;
    books->memory = calloc(1, ledger_bytes(&config));
    check(books->memory != NULL);
    books->ledger = ledger_create(books->memory, ledger_bytes(&config), &config);
}

void serving_books_free(struct sim *sim)
{
    if (sim->serving_books == NULL)
        return;
    free(sim->serving_books->stays);
    free(sim->serving_books->memory);
    free(sim->serving_books);
    sim->serving_books = NULL;
}

/* All of a GPU that its pool may use is the replica's: the base, and the rest for itself. Until it is up the base loads. */
void serving_books_held(struct sim_replica *replica)
{
    const struct sim *sim = replica->sim;
    struct serving_books *books = sim->serving_books;
    struct stay *stay = &books->stays[replica->index];
    const struct scenario_pool *pool = pool_of(sim, replica);
    uint64_t base_bytes = div_up_u64(footprint_weights_bytes(&pool->shape), pool->keys.tp);
    uint64_t gpu_bytes = max_u64((uint64_t)(pool->profile.memory_bytes * pool->keys.memory_share), base_bytes);
    uint16_t base = (uint16_t)pool->base_index;

    if (!stay->booked)
        return;
    check(!stay->held);
    stay->held = true;
    for (uint32_t gpu = stay->gpu; gpu < stay->gpu + replica->tp; gpu++) {
        ledger_gpu_up(books->ledger, gpu, sim->now_ns, price_nano(pool), gpu_bytes);
        ledger_base_on(books->ledger, gpu, sim->now_ns, base, base_bytes, true);
        ledger_claim_on(books->ledger, gpu, sim->now_ns, replica->index, PLATFORM, base, gpu_bytes - base_bytes, 1000, false);
    }
}

void serving_books_up(struct sim_replica *replica)
{
    struct serving_books *books = replica->sim->serving_books;
    struct stay *stay = &books->stays[replica->index];

    if (!stay->booked)
        return;
    if (!stay->held) /* there from the beginning */
        serving_books_held(replica);
    for (uint32_t gpu = stay->gpu; gpu < stay->gpu + replica->tp; gpu++)
        ledger_base_ready(books->ledger, gpu, replica->sim->now_ns, (uint16_t)pool_of(replica->sim, replica)->base_index);
}

void serving_books_gone(struct sim_replica *replica)
{
    struct serving_books *books = replica->sim->serving_books;
    struct stay *stay = &books->stays[replica->index];

    if (!stay->booked)
        return;
    check(stay->held);
    stay->held = false;
    for (uint32_t gpu = stay->gpu; gpu < stay->gpu + replica->tp; gpu++)
        ledger_gpu_down(books->ledger, gpu, replica->sim->now_ns);
}

/* Each GPU's bill is rounded down, so what is left for idle time may be a nano a GPU short. With nobody's reservation to take it from, it
 * is the platform's own: its largest part gives it. */
static void round_idle(struct serving_bill *bill)
{
    uint32_t largest = 0;

    if (bill->cost_nano[CHARGE_IDLE] >= 0)
        return;
    for (uint32_t part = 1; part < CHARGE_COUNT; part++)
        if (bill->cost_nano[part] > bill->cost_nano[largest])
            largest = part;
    bill->cost_nano[largest] += bill->cost_nano[CHARGE_IDLE];
    bill->cost_nano[CHARGE_IDLE] = 0;
}

void serving_books_close(struct sim *sim)
{
    struct serving_books *books = sim->serving_books;
    struct serving_bill *bill = &sim->facts.serving;

    bill->known = books->known;
    if (books->ledger == NULL)
        return;
    ledger_settle(books->ledger, sim->now_ns);
    ledger_check(books->ledger);
    for (uint32_t part = 0; part < CHARGE_COUNT; part++) {
        bill->cost_nano[part] = ledger_account(books->ledger, PLATFORM, (enum charge_component)part);
        bill->total_nano += bill->cost_nano[part];
    }
    check(bill->total_nano == ledger_bill(books->ledger));
    round_idle(bill);
}
