/* The ledger against its slow twin over random events: the same shares, sums that equal the bill after every event, and
 * amounts that depend neither on how often it is settled nor on events that change nothing. */
#include <stdlib.h>

#include "shared/fleet/ledger_twin.h"
#include "support.h"

#if defined(__SANITIZE_ADDRESS__)
#define STEPS 200000
#else
#define STEPS 1000000
#endif

static struct ledger *ledger_make(const struct ledger_config *config, void **ret_memory)
{
    *ret_memory = malloc(ledger_bytes(config));
    return ledger_create(*ret_memory, ledger_bytes(config), config);
}

static struct ledger_config config_draw(uint64_t *random)
{
    const uint32_t factors[] = {1000, 300, 333, 0};
    const uint32_t weights[] = {500, 300, 0, 1000};

    return (struct ledger_config){.gpus_max = TWIN_GPUS, .tenants_max = TWIN_TENANTS, .claims_max = TWIN_JOBS,
                                  .claims_per_gpu_max = TWIN_JOBS, .bases_per_gpu_max = TWIN_BASES,
                                  .usage_factor_milli = factors[draw_below(random, 4)],
                                  .memory_milli = weights[draw_below(random, 4)]};
}

static void sums_equal_the_bill(const struct ledger *ledger, const struct twin *twin, uint64_t seed, uint32_t step)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i <= TWIN_TENANTS; i++)
        sum += ledger_account_total(ledger, i);
    if (sum != ledger_bill(ledger) || sum != twin_bill(twin) || ledger_account(ledger, TWIN_TENANTS, CHARGE_IDLE) < 0)
        fail_msg("seed %llu step %u: accounts add up to %lld, bill %lld, twin's %lld, idle %lld",
                 (unsigned long long)seed, step, (long long)sum, (long long)ledger_bill(ledger),
                 (long long)twin_bill(twin), (long long)ledger_account(ledger, TWIN_TENANTS, CHARGE_IDLE));
}

static int64_t nano_of(const struct twin_amount *amount)
{
    return (int64_t)(amount->atto / 1000000000);
}

/* The ledger rounds each payment down to an atto, so a whole unit may be missing, and never is there one too many;
 * shares of unused reservations are rounded by the twin as well, and the platform may hold back a unit a GPU. */
static void tenants_agree(const struct ledger *ledger, const struct twin *twin, uint64_t seed, uint32_t step)
{
    for (uint32_t tenant = 0; tenant < TWIN_TENANTS; tenant++) {
        int64_t discount = 0;

        for (uint32_t component = 0; component <= CHARGE_RESERVED_IDLE; component++) {
            int64_t had = ledger_account(ledger, tenant, component);
            int64_t exact = nano_of(&twin->full[tenant][component]);
            bool shared = component != CHARGE_RESERVED_IDLE;
            int64_t borrowed = nano_of(&twin->borrowed[tenant][component]);

            if (had > exact + !shared || had < exact - (shared ? 1 : 1 + TWIN_GPUS))
                fail_msg("seed %llu step %u: tenant %u component %u has %lld, exactly %lld",
                         (unsigned long long)seed, step, tenant, component, (long long)had, (long long)exact);
            discount += borrowed - (int64_t)((uint128)(uint64_t)borrowed * twin->config.usage_factor_milli / 1000);
        }
        if (llabs(ledger_account(ledger, tenant, CHARGE_DISCOUNT) + discount) > 4)
            fail_msg("seed %llu step %u: tenant %u has discount %lld, exactly %lld",
                     (unsigned long long)seed, step, tenant,
                     (long long)ledger_account(ledger, tenant, CHARGE_DISCOUNT), (long long)-discount);
    }
}

static void accounts_equal(const struct ledger *often, const struct ledger *seldom, uint64_t seed, uint32_t step)
{
    for (uint32_t i = 0; i <= TWIN_TENANTS; i++)
        for (uint32_t component = 0; component < CHARGE_COUNT; component++)
            if (ledger_account(often, i, component) != ledger_account(seldom, i, component))
                fail_msg("seed %llu step %u: account %u component %u: settled often %lld, seldom %lld",
                         (unsigned long long)seed, step, i, component, (long long)ledger_account(often, i, component),
                         (long long)ledger_account(seldom, i, component));
    /* Down to the last carry. */
    if (ledger_digest(often) != ledger_digest(seldom))
        fail_msg("seed %llu step %u: digest settled often %llx, seldom %llx", (unsigned long long)seed, step,
                 (unsigned long long)ledger_digest(often), (unsigned long long)ledger_digest(seldom));
}

/* Events that change nothing: told to one of two ledgers. */
static void tell_nothing(struct ledger *ledger, const struct twin *twin, uint64_t *random)
{
    uint32_t gpu = (uint32_t)draw_below(random, TWIN_GPUS);
    uint32_t job = (uint32_t)draw_below(random, TWIN_JOBS);
    uint32_t tenant = (uint32_t)draw_below(random, TWIN_TENANTS);

    ledger_unused(ledger, twin->at_ns, tenant, twin->unused_milli[tenant]);
    if (!twin->gpus[gpu].up) {
        ledger_claim_off(ledger, gpu, twin->at_ns, job);
        ledger_base_off(ledger, gpu, twin->at_ns, 0);
        ledger_gpu_down(ledger, gpu, twin->at_ns);
        return;
    }
    ledger_gpu_price(ledger, gpu, twin->at_ns, twin->gpus[gpu].price);
    if (twin->gpus[gpu].claims[job].on)
        ledger_compute(ledger, gpu, twin->at_ns, job, twin->gpus[gpu].claims[job].compute_milli);
    else
        ledger_claim_off(ledger, gpu, twin->at_ns, job);
}

static void run(uint64_t seed, uint32_t steps)
{
    uint64_t random = seed;
    struct ledger_config config = config_draw(&random);
    struct twin twin = {.config = config};
    void *often_memory, *seldom_memory;
    struct ledger *often = ledger_make(&config, &often_memory);
    struct ledger *seldom = ledger_make(&config, &seldom_memory);

    for (uint32_t step = 0; step < steps; step++) {
        struct twin_event event = twin_draw(&twin, &random);

        twin_apply(&twin, &event);
        twin_tell(often, &event);
        twin_tell(seldom, &event);
        tell_nothing(often, &twin, &random);
        ledger_settle(often, event.at_ns);
        ledger_check(often);
        sums_equal_the_bill(often, &twin, seed, step);
        tenants_agree(often, &twin, seed, step);
        if (draw_below(&random, 500) == 0 || step + 1 == steps) {
            ledger_check(seldom);
            ledger_settle(seldom, event.at_ns);
            ledger_check(seldom);
            accounts_equal(often, seldom, seed, step);
        }
    }
    free(often_memory);
    free(seldom_memory);
}

static void ledger_agrees_with_its_twin(void **state)
{
    (void)state;
    enum { RUNS = 20 };
    uint64_t seed = test_seed(1);

    for (uint32_t i = 0; i < RUNS; i++)
        run(seed + i, STEPS / RUNS);
}

static void the_same_events_leave_the_same_digest(void **state)
{
    (void)state;
    uint64_t seed = test_seed(5);
    uint64_t digests[3];

    for (uint32_t i = 0; i < 3; i++) {
        uint64_t random = seed;
        struct ledger_config config = config_draw(&random);
        struct twin twin = {.config = config};
        void *memory;
        struct ledger *ledger = ledger_make(&config, &memory);

        for (uint32_t step = 0; step < 3000; step++) {
            struct twin_event event = twin_draw(&twin, &random);

            twin_apply(&twin, &event);
            twin_tell(ledger, &event);
            if (i == 2 && step == 1500)
                ledger_book(ledger, 0, CHARGE_STORAGE, 1);
        }
        digests[i] = ledger_digest(ledger);
        free(memory);
    }
    assert_true(digests[0] == digests[1]);
    assert_true(digests[0] != digests[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ledger_agrees_with_its_twin),
        cmocka_unit_test(the_same_events_leave_the_same_digest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
