#include "engine/storage.h"

#include <stdlib.h>

void storage_init(struct storage *storage, uint32_t accounts_count)
{
    *storage = (struct storage){.accounts_count = accounts_count};
    storage->accounts = calloc((size_t)max_u32(accounts_count, 1) * STORAGE_TIER_COUNT, sizeof(*storage->accounts));
    check(storage->accounts != NULL);
}

void storage_free(struct storage *storage)
{
    free(storage->accounts);
    *storage = (struct storage){0};
}

static struct stored *stored_of(const struct storage *storage, enum storage_tier tier, uint32_t account)
{
    check(tier < STORAGE_TIER_COUNT);
    check(account < storage->accounts_count);
    return &storage->accounts[(size_t)account * STORAGE_TIER_COUNT + tier];
}

static uint128 byte_ns_at(const struct stored *stored, int64_t at_ns)
{
    check(at_ns >= stored->at_ns);
    return stored->byte_ns + (uint128)stored->bytes * (uint64_t)(at_ns - stored->at_ns);
}

static struct stored *advance(struct storage *storage, enum storage_tier tier, uint32_t account, int64_t at_ns)
{
    struct stored *stored = stored_of(storage, tier, account);

    stored->byte_ns = byte_ns_at(stored, at_ns);
    stored->at_ns = at_ns;
    return stored;
}

void storage_add(struct storage *storage, enum storage_tier tier, uint32_t account, uint64_t bytes, int64_t at_ns)
{
    struct stored *stored = advance(storage, tier, account, at_ns);

    check(bytes <= UINT64_MAX - stored->bytes);
    stored->bytes += bytes;
}

void storage_remove(struct storage *storage, enum storage_tier tier, uint32_t account, uint64_t bytes, int64_t at_ns)
{
    struct stored *stored = advance(storage, tier, account, at_ns);

    check(stored->bytes >= bytes);
    stored->bytes -= bytes;
}

/* Long division by a GB-month in two digits of 32 bits: the product itself may need more than 128. */
int64_t storage_price_nano(uint128 byte_ns, int64_t price_nano_per_gb_month)
{
    const uint128 gb_month = (uint128)GB_BYTES * (uint64_t)MONTH_NS; /* below 2^82 */
    uint64_t price_nano = (uint64_t)price_nano_per_gb_month;
    uint128 whole = byte_ns / gb_month;
    uint128 rest = byte_ns % gb_month;
    uint128 high;
    uint128 low;

    check(price_nano_per_gb_month >= 0);
    check(price_nano == 0 || whole <= INT64_MAX / price_nano);
    high = rest * (price_nano >> 32);
    low = ((high % gb_month) << 32) + rest * (price_nano & UINT32_MAX);
    whole = whole * price_nano + ((high / gb_month) << 32) + low / gb_month;
    check(whole <= INT64_MAX);
    return (int64_t)whole;
}

int64_t storage_cost_nano(const struct storage *storage, enum storage_tier tier, uint32_t account, int64_t at_ns,
                          int64_t price_nano_per_gb_month)
{
    return storage_price_nano(byte_ns_at(stored_of(storage, tier, account), at_ns), price_nano_per_gb_month);
}
