#include "crypto/vault_internal.h"

#define BURST_S 10

bool bucket_take(struct bucket *bucket, uint32_t per_s, int64_t now_ns, uint32_t *ret_wait_ms)
{
    const int64_t full = (int64_t)per_s * BURST_S * 1000;
    /* Beyond the burst there is nothing to reckon, and the product stays small. */
    int64_t passed_ns = min_i64(now_ns - bucket->at_ns, BURST_S * NS_PER_S);
    int64_t gained = bucket->at_ns == 0 ? full : passed_ns / NS_PER_US * per_s / 1000;

    check(per_s > 0);
    /* What is less than a thousandth of an act isn't lost: the clock stays until it is one. */
    if (gained > 0) {
        bucket->millis = min_i64(bucket->millis + gained, full);
        bucket->at_ns = now_ns;
    }
    if (bucket->millis < 1000) {
        *ret_wait_ms = (uint32_t)((1000 - bucket->millis) / per_s + 1);
        return false;
    }
    bucket->millis -= 1000;
    return true;
}
