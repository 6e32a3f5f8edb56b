/* The ledger's accounts: amounts, discounts, the idle money of the whole fleet, and settling. */
#include "fleet/ledger_state.h"

/* Returns by how many whole nano the amount grew. */
static int64_t amount_grow(struct amount *amount, uint128 atto)
{
    uint128 whole = atto < UINT64_MAX ? (uint64_t)atto / (uint64_t)ATTO_PER_NANO : atto / (uint64_t)ATTO_PER_NANO;
    int64_t rest = amount->atto + (int64_t)(atto - whole * (uint64_t)ATTO_PER_NANO);
    int64_t grown;

    check(whole < INT64_MAX);
    grown = (int64_t)whole + (rest >= ATTO_PER_NANO);
    amount->atto = rest >= ATTO_PER_NANO ? rest - ATTO_PER_NANO : rest;
    amount->nano = nano_add(amount->nano, grown);
    return grown;
}

static void nano_book(struct ledger *ledger, uint32_t account, enum charge_component component, int64_t nano)
{
    struct amount *amount = &ledger->accounts[account].full[component];

    amount->nano = nano_add(amount->nano, nano);
    ledger->booked_nano = nano_add(ledger->booked_nano, nano);
}

/* What the usage factor takes off `nano`. */
static int64_t discount_of(const struct ledger *ledger, int64_t nano)
{
    return nano - (int64_t)((uint128)(uint64_t)nano * ledger->config.usage_factor_milli / 1000);
}

void ledger_amount_add(struct ledger *ledger, uint32_t account, enum charge_component component, uint128 atto,
                       bool borrowed)
{
    struct ledger_account *to = &ledger->accounts[account];
    int64_t discount;

    if (atto == 0)
        return;
    ledger->booked_nano = nano_add(ledger->booked_nano, amount_grow(&to->full[component], atto));
    if (!borrowed)
        return;
    /* A function of the whole borrowed amount, so that it does not matter in how many pieces it came. */
    check(component < SHARED_COMPONENTS);
    discount = -discount_of(ledger, to->borrowed[component].nano);
    amount_grow(&to->borrowed[component], atto);
    discount += discount_of(ledger, to->borrowed[component].nano);
    nano_book(ledger, account, CHARGE_DISCOUNT, -discount);
    nano_book(ledger, ledger->config.tenants_max, CHARGE_DISCOUNT, discount);
}

void ledger_book(struct ledger *ledger, uint32_t account, enum charge_component component, int64_t amount_nano)
{
    check(account <= ledger->config.tenants_max);
    check(component < CHARGE_COUNT);
    nano_book(ledger, account, component, amount_nano);
    ledger->closed_nano = nano_add(ledger->closed_nano, amount_nano);
    ledger->bill_nano = nano_add(ledger->bill_nano, amount_nano);
}

/* All idle money, but no more than the unused thousandths would cost at the mean price. The limits on prices (2^46),
 * GPUs (2^20) and unused thousandths (2^40) keep the product within 128 bits. */
uint128 ledger_reserved_rate(const struct ledger *ledger)
{
    uint128 most;

    if (ledger->up_count == 0 || ledger->unused_milli == 0 || ledger->idle_rate <= 0)
        return 0;
    most = ledger->price_sum * ledger->unused_milli * (WHOLE / 1000) / ledger->up_count;
    return most < (uint128)ledger->idle_rate ? most : (uint128)ledger->idle_rate;
}

void ledger_idle_rate_set(struct ledger *ledger)
{
    ledger->reserved_rate = ledger_reserved_rate(ledger);
}

/* Steps of 19 hours: with rates below 2^80 (1.2 million of the currency an hour) a step's product fits 128 bits. */
#define IDLE_STEP_NS (INT64_C(1) << 46)

void ledger_idle_turn(struct ledger *ledger, int64_t at_ns)
{
    uint128 divisor = (uint128)HOUR_NS * ledger->unused_milli;

    check(at_ns >= ledger->at_ns);
    check(ledger->reserved_rate < (uint128)1 << 80);
    while (ledger->reserved_rate > 0 && ledger->at_ns < at_ns) {
        int64_t step_ns = min_i64(at_ns - ledger->at_ns, IDLE_STEP_NS);
        uint128 owed = ledger->reserved_rate * (uint64_t)step_ns + ledger->idle_carry;
        uint128 rise = owed / divisor;

        ledger->idle_atto += rise;
        ledger->idle_carry = owed - rise * divisor;
        ledger->at_ns += step_ns;
    }
    ledger->at_ns = at_ns;
}

static void reserved_pay(struct ledger *ledger, uint32_t tenant)
{
    struct ledger_account *account = &ledger->accounts[tenant];
    uint128 rise = ledger->idle_atto - account->idle_from;

    ledger_amount_add(ledger, tenant, CHARGE_RESERVED_IDLE, rise * (uint64_t)account->unused_milli, false);
    account->idle_from = ledger->idle_atto;
}

void ledger_unused(struct ledger *ledger, int64_t at_ns, uint32_t tenant, int64_t unused_milli)
{
    struct ledger_account *account;

    check(tenant < ledger->config.tenants_max);
    check(unused_milli >= 0);
    check(unused_milli < INT64_C(1) << 40);
    ledger_idle_turn(ledger, at_ns);
    account = &ledger->accounts[tenant];
    reserved_pay(ledger, tenant);
    if (account->unused_milli == unused_milli)
        return;
    ledger->unused_milli += (uint64_t)unused_milli - (uint64_t)account->unused_milli;
    check(ledger->unused_milli < UINT64_C(1) << 40);
    account->unused_milli = unused_milli;
    ledger->idle_carry = 0;
    ledger_idle_rate_set(ledger);
}

int64_t ledger_gpu_bill(const struct ledger_gpu *gpu)
{
    uint128 bill = (gpu->running + gpu->loading) / (uint64_t)HOUR_NS;

    check(bill < INT64_MAX);
    return (int64_t)bill;
}

/* The platform's IDLE is what is left of the bill. Each F rounds down, so it may be short of less than a nano a GPU;
 * no part of a GPU exceeds its F, so the unused reservations have at least what is missing. */
static void remainder_book(struct ledger *ledger)
{
    uint32_t platform = ledger->config.tenants_max;
    int64_t left_nano = ledger->bill_nano - ledger->booked_nano;
    int64_t short_nano = -(ledger->accounts[platform].full[CHARGE_IDLE].nano + left_nano);

    nano_book(ledger, platform, CHARGE_IDLE, left_nano);
    for (uint32_t tenant = 0; tenant < platform && short_nano > 0; tenant++) {
        struct ledger_account *account = &ledger->accounts[tenant];
        int64_t take_nano = min_i64(short_nano, account->full[CHARGE_RESERVED_IDLE].nano);

        if (take_nano <= 0)
            continue;
        account->withheld_nano = take_nano;
        nano_book(ledger, tenant, CHARGE_RESERVED_IDLE, -take_nano);
        nano_book(ledger, platform, CHARGE_IDLE, take_nano);
        short_nano -= take_nano;
    }
}

void ledger_settle(struct ledger *ledger, int64_t at_ns)
{
    int64_t bill_nano = ledger->closed_nano;

    ledger_idle_turn(ledger, at_ns);
    for (uint32_t i = 0; i < ledger->config.gpus_max; i++)
        if (ledger->gpus[i].up) {
            ledger_gpu_pay(ledger, &ledger->gpus[i]);
            bill_nano = nano_add(bill_nano, ledger_gpu_bill(&ledger->gpus[i]));
        }
    for (uint32_t tenant = 0; tenant < ledger->config.tenants_max; tenant++) {
        struct ledger_account *account = &ledger->accounts[tenant];

        reserved_pay(ledger, tenant);
        nano_book(ledger, tenant, CHARGE_RESERVED_IDLE, account->withheld_nano);
        nano_book(ledger, ledger->config.tenants_max, CHARGE_IDLE, -account->withheld_nano);
        account->withheld_nano = 0;
    }
    ledger->bill_nano = bill_nano;
    remainder_book(ledger);
    ledger->settled_at_ns = at_ns;
}

int64_t ledger_account(const struct ledger *ledger, uint32_t account, enum charge_component component)
{
    check(account <= ledger->config.tenants_max);
    check(component < CHARGE_COUNT);
    return ledger->accounts[account].full[component].nano;
}

int64_t ledger_account_total(const struct ledger *ledger, uint32_t account)
{
    int64_t total_nano = 0;

    for (uint32_t component = 0; component < CHARGE_COUNT; component++)
        total_nano = nano_add(total_nano, ledger_account(ledger, account, component));
    return total_nano;
}

int64_t ledger_bill(const struct ledger *ledger)
{
    return ledger->bill_nano;
}
