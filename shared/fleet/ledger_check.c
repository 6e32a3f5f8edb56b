/* Everything the ledger keeps in sums, added up anew; its digest; and the split that printing uses. */
#include "base/hash.h"
#include "fleet/ledger_state.h"

static void base_check(const struct ledger *ledger, const struct ledger_gpu *gpu, const struct ledger_base *base)
{
    uint32_t sharers = 0;
    uint32_t claims = 0;

    for (uint32_t i = base->sharers; i != NONE_INDEX; i = sharer_at(ledger, i)->next) {
        const struct ledger_sharer *sharer = sharer_at(ledger, i);
        uint32_t own = 0;
        uint32_t borrowed = 0;

        for (uint32_t c = gpu->claims; c != NONE_INDEX; c = claim_at(ledger, c)->next)
            if (claim_at(ledger, c)->base == base->base && claim_at(ledger, c)->tenant == sharer->tenant) {
                own++;
                borrowed += claim_at(ledger, c)->borrowed;
            }
        check(own >= 1);
        check(sharer->claims == own);
        check(sharer->claims_borrowed == borrowed);
        check(sharer->residency_from <= base->residency.atto);
        claims += own;
        sharers++;
    }
    check(base->sharers_count == sharers);
    check(base->residency.from <= gpu->running);
    check(base->residency.carry == 0 || base->residency.carry < (uint128)HOUR_NS * sharers);
    for (uint32_t c = gpu->claims; c != NONE_INDEX; c = claim_at(ledger, c)->next)
        claims -= claim_at(ledger, c)->base == base->base;
    check(claims == 0);
}

static void gpu_check(const struct ledger *ledger, const struct ledger_gpu *gpu)
{
    int64_t used_share = 0;
    uint64_t bytes_taken = 0;
    uint64_t compute_milli = 0;
    uint32_t waiting = 0;

    for (uint32_t b = gpu->bases; b != NONE_INDEX; b = base_at(ledger, b)->next) {
        const struct ledger_base *base = base_at(ledger, b);

        base_check(ledger, gpu, base);
        used_share += base->sharers_count > 0 ? base->share : 0;
        waiting += base->loading ? base->sharers_count : 0;
        bytes_taken += base->bytes;
    }
    for (uint32_t c = gpu->claims; c != NONE_INDEX; c = claim_at(ledger, c)->next) {
        const struct ledger_claim *claim = claim_at(ledger, c);

        used_share += claim->memory_share + claim->compute_share;
        bytes_taken += claim->bytes;
        compute_milli += claim->compute_milli;
        check(claim->from <= gpu->running);
    }
    check(gpu->bytes_taken == bytes_taken);
    check(gpu->compute_milli == compute_milli);
    check(gpu->used_share == used_share);
    check(gpu->waiting == waiting);
    check(gpu->wait.from <= gpu->loading);
    check(gpu->wait.carry == 0 || gpu->wait.carry < (uint128)HOUR_NS * waiting);
    check(gpu->at_ns <= ledger->at_ns);
    check(gpu->idle_rate == (waiting > 0 ? 0 : (int128)gpu->price * (WHOLE - used_share)));
}

static void accounts_check(const struct ledger *ledger)
{
    int64_t booked_nano = 0;
    int64_t discounts_nano = 0;
    uint64_t unused_milli = 0;

    for (uint32_t i = 0; i <= ledger->config.tenants_max; i++) {
        const struct ledger_account *account = &ledger->accounts[i];

        for (uint32_t component = 0; component < CHARGE_COUNT; component++) {
            booked_nano += account->full[component].nano;
            check(account->full[component].atto >= 0);
            check(account->full[component].atto < ATTO_PER_NANO);
        }
        for (uint32_t component = 0; component < SHARED_COMPONENTS; component++)
            check(account->borrowed[component].nano >= 0);
        check(account->idle_from <= ledger->idle_atto);
        discounts_nano += account->full[CHARGE_DISCOUNT].nano;
        unused_milli += (uint64_t)account->unused_milli;
    }
    check(ledger->booked_nano == booked_nano);
    check(ledger->unused_milli == unused_milli);
    check(discounts_nano == 0);
}

void ledger_check(const struct ledger *ledger)
{
    int64_t bill_nano = ledger->closed_nano;
    int128 idle_rate = 0;
    uint128 price_sum = 0;
    uint64_t up_count = 0;

    for (uint32_t i = 0; i < ledger->config.gpus_max; i++) {
        const struct ledger_gpu *gpu = &ledger->gpus[i];

        if (!gpu->up) {
            check(gpu->idle_rate == 0);
            continue;
        }
        gpu_check(ledger, gpu);
        idle_rate += gpu->idle_rate;
        price_sum += (uint64_t)gpu->price;
        up_count++;
        bill_nano += ledger_gpu_bill(gpu);
    }
    check(ledger->idle_rate == idle_rate);
    check(ledger->price_sum == price_sum);
    check(ledger->up_count == up_count);
    check(ledger->reserved_rate == ledger_reserved_rate(ledger));
    check(ledger->idle_carry == 0 || ledger->idle_carry < (uint128)HOUR_NS * ledger->unused_milli);
    accounts_check(ledger);
    /* Whatever came at this very instant after the settling has cost nothing. */
    if (ledger->settled_at_ns == ledger->at_ns) {
        check(ledger->bill_nano == bill_nano);
        check(ledger->booked_nano == bill_nano);
    }
}

static uint64_t fold(uint64_t digest, uint128 x)
{
    return hash_fold(hash_fold(digest, (uint64_t)x), (uint64_t)(x >> 64));
}

static uint64_t gpu_digest(const struct ledger *ledger, const struct ledger_gpu *gpu, uint64_t digest)
{
    digest = hash_fold(digest, (uint64_t)gpu->at_ns);
    digest = hash_fold(digest, (uint64_t)gpu->price);
    digest = hash_fold(digest, gpu->bytes);
    digest = fold(fold(digest, gpu->running), gpu->loading);
    digest = fold(fold(digest, gpu->wait.atto), gpu->wait.carry);
    for (uint32_t c = gpu->claims; c != NONE_INDEX; c = claim_at(ledger, c)->next) {
        const struct ledger_claim *claim = claim_at(ledger, c);

        digest = hash_fold(digest, (uint64_t)claim->job << 32 | claim->tenant);
        digest = hash_fold(digest, (uint64_t)claim->base << 1 | claim->borrowed);
        digest = hash_fold(digest, (uint64_t)claim->memory_share);
        digest = hash_fold(digest, (uint64_t)claim->compute_share);
        digest = fold(digest, claim->from);
        digest = hash_fold(hash_fold(digest, claim->memory_carry), claim->compute_carry);
    }
    for (uint32_t b = gpu->bases; b != NONE_INDEX; b = base_at(ledger, b)->next) {
        const struct ledger_base *base = base_at(ledger, b);

        digest = hash_fold(digest, (uint64_t)base->base << 1 | base->loading);
        digest = hash_fold(digest, (uint64_t)base->share);
        digest = fold(fold(digest, base->residency.atto), base->residency.carry);
        for (uint32_t i = base->sharers; i != NONE_INDEX; i = sharer_at(ledger, i)->next)
            digest = fold(hash_fold(digest, sharer_at(ledger, i)->tenant), sharer_at(ledger, i)->residency_from);
    }
    return digest;
}

uint64_t ledger_digest(const struct ledger *ledger)
{
    uint64_t digest = hash_fold(0, (uint64_t)ledger->at_ns);

    digest = hash_fold(digest, (uint64_t)ledger->closed_nano);
    digest = fold(fold(digest, ledger->idle_atto), ledger->idle_carry);
    for (uint32_t i = 0; i < ledger->config.gpus_max; i++)
        if (ledger->gpus[i].up)
            digest = gpu_digest(ledger, &ledger->gpus[i], hash_fold(digest, i));
    for (uint32_t i = 0; i <= ledger->config.tenants_max; i++) {
        const struct ledger_account *account = &ledger->accounts[i];

        for (uint32_t component = 0; component < CHARGE_COUNT; component++) {
            digest = hash_fold(digest, (uint64_t)account->full[component].nano);
            digest = hash_fold(digest, (uint64_t)account->full[component].atto);
        }
        digest = fold(hash_fold(digest, (uint64_t)account->unused_milli), account->idle_from);
    }
    return digest;
}

static uint128 remainder_of(uint64_t total, int64_t part_weight, uint128 weight)
{
    return (uint128)total * (uint64_t)part_weight % weight;
}

/* The remainders above `limit`. */
static uint32_t remainders_above(uint64_t total, const int64_t *weights, uint32_t count, uint128 weight, uint128 limit)
{
    uint32_t above = 0;

    for (uint32_t i = 0; i < count; i++)
        above += remainder_of(total, weights[i], weight) > limit;
    return above;
}

void ledger_split(int64_t total, const int64_t *weights, uint32_t count, uint32_t sink, int64_t *ret_parts)
{
    uint64_t size = total < 0 ? 0 - (uint64_t)total : (uint64_t)total;
    uint128 weight = 0;
    uint128 low = 0;
    uint128 high;
    uint64_t given = 0;
    uint64_t ties;

    check(sink < count);
    for (uint32_t i = 0; i < count; i++) {
        check(weights[i] >= 0);
        weight += (uint64_t)weights[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        ret_parts[i] = weight > 0 ? (int64_t)((uint128)size * (uint64_t)weights[i] / weight) : 0;
        given += (uint64_t)ret_parts[i];
    }
    if (weight == 0) {
        ret_parts[sink] = total;
        return;
    }
    /* Fewer than `count` units are left. The smallest limit that at most so many remainders exceed: those have one
     * each, and what is still left goes to remainders equal to the limit, in order. */
    high = weight;
    while (low < high) {
        uint128 middle = low + (high - low) / 2;

        if (remainders_above(size, weights, count, weight, middle) <= size - given)
            high = middle;
        else
            low = middle + 1;
    }
    ties = size - given - remainders_above(size, weights, count, weight, low);
    for (uint32_t i = 0; i < count; i++) {
        uint128 remainder = remainder_of(size, weights[i], weight);

        if (remainder > low) {
            ret_parts[i]++;
        } else if (remainder == low && ties > 0) {
            ret_parts[i]++;
            ties--;
        }
    }
    if (total < 0)
        for (uint32_t i = 0; i < count; i++)
            ret_parts[i] = (int64_t)(0 - (uint64_t)ret_parts[i]);
}
