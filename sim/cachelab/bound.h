/* What no cache can beat, of whatever policy and knowing the future: an upper bound on hits for objects of any sizes (PFOO-L: Berger,
 * Beckmann, Harchol-Balter, Proc. ACM Meas. Anal. Comput. Syst. 2(2), 2018, 5.1). To hit a request, a cache must have kept the object since
 * the last one: its size, for so many requests. All that a cache can keep is its capacity at every request; so the hits that cost
 * least are counted, the cheapest first, until that is spent. Room is asked for over the whole trace only, not at each request, so
 * caches may come close or not; one that does can't be bettered. (Which cache is best is NP-hard with sizes.)
 *
 * By bytes, an object that comes in another size is a new one, and one that is larger than the cache is never hit. */
#ifndef CACHELAB_BOUND_H
#define CACHELAB_BOUND_H

#include "base/base.h"

struct bound_answer {
    uint64_t hits;
    uint128 hit_bytes; /* a bound of its own: no cache need reach both */
};

/* 16 bytes for each request but its object's first, twice that while it answers, and 16 an object. */
struct bound;

/* Hits of the first `warmup` requests are not counted. FULL: no memory. */
enum status bound_create(uint64_t warmup, struct bound **ret_bound);
void bound_free(struct bound *bound); /* accepts NULL */

/* Requests in their order; objects are small numbers, as intern_ids() gives them. FULL: no memory; what came before is there. */
enum status bound_requests(struct bound *bound, const uint32_t *objects, const uint64_t *sizes_bytes, uint32_t count);

/* At most so many hits, for each capacity below 2^63: of bytes, or of objects that weigh 1 each. FULL: no memory. */
enum status bound_answers(struct bound *bound, bool by_bytes, const uint64_t *capacities, uint32_t count, struct bound_answer *ret_answers);

#endif
