/* What lies where, whose it is and how long: bytes of each account in the object store and in host memory, integrated over
 * time. Integers only: an account's cost is floor(price * byte-nanoseconds / GB-month) of all its time at once, as a GPU's
 * bill is, so how often it is looked at changes nothing. */
#ifndef ENGINE_STORAGE_H
#define ENGINE_STORAGE_H

#include "base/base.h"

/* 730 hours, a twelfth of 365 days; a GB is 1e9 bytes. */
#define MONTH_NS (INT64_C(730) * 3600 * NS_PER_S)
#define GB_BYTES INT64_C(1000000000)

enum storage_tier { STORAGE_STORE, STORAGE_HOST, STORAGE_TIER_COUNT };

struct stored {
    uint128 byte_ns;       /* up to at_ns */
    uint64_t bytes;
    int64_t at_ns;
};

struct storage {
    struct stored *accounts; /* [accounts_count][STORAGE_TIER_COUNT] */
    uint32_t accounts_count;
};

/* Owns its memory; storage_free() accepts {0}. Out of memory stops the program. */
void storage_init(struct storage *storage, uint32_t accounts_count);
void storage_free(struct storage *storage);
/* Time never goes back within an account; what leaves must be there. */
void storage_add(struct storage *storage, enum storage_tier tier, uint32_t account, uint64_t bytes, int64_t at_ns);
void storage_remove(struct storage *storage, enum storage_tier tier, uint32_t account, uint64_t bytes, int64_t at_ns);
/* From the beginning to at_ns. */
int64_t storage_cost_nano(const struct storage *storage, enum storage_tier tier, uint32_t account, int64_t at_ns,
                          int64_t price_nano_per_gb_month);

/* floor(price * byte_ns / GB-month), for any price of an int64_t >= 0; the result must be one. */
int64_t storage_price_nano(uint128 byte_ns, int64_t price_nano_per_gb_month);

#endif
