/* One tier of the adapter cache: byte-accurate or counting slots, with pins, coalesced loads and (id, version) identity.
 * The replica's GPU slots and the node's host tier are both this. Pure bookkeeping: it moves no byte and knows no time.
 *
 * Life of an entry: absent -> LOADING (its room is taken) -> READY -> evicted or dropped. Only READY entries that nobody
 * pins and that the current scan does not hold can be evicted. An entry's index is its slot: stable while it is present.
 * Identity is (index, version): replacing an adapter under one name never serves the old weights. */
#ifndef CACHE_CACHE_H
#define CACHE_CACHE_H

#include "base/ids.h"
#include "policy/policy.h"

struct cache;

enum cache_unit {
    CACHE_BYTES, /* an entry weighs its bytes; capacity is bytes */
    CACHE_SLOTS  /* an entry weighs 1; capacity is a count, as papers count */
};

struct cache_config {
    enum cache_unit unit;
    uint64_t capacity;     /* in the unit */
    uint32_t entries_max;  /* most entries present at once, at least 1; also a bound in byte mode */
    const struct evict_policy *evict;
    int64_t cost_fixed_ns; /* reload cost estimate, for policies that weigh it */
    int64_t cost_ns_per_mib;
    uint64_t salt;         /* of a policy's chance */
};

struct cache_counts {
    uint64_t hits;       /* touches that found it READY, but for the one that caused the load */
    uint64_t misses;     /* loads begun */
    uint64_t coalesced;  /* touches that found it LOADING, but for the one that caused the load */
    uint64_t evictions;
    uint64_t blocked;    /* acquires answered CACHE_BLOCKED */
    uint64_t loaded_bytes;
    uint64_t evicted_bytes;
};

size_t cache_bytes(const struct cache_config *config);
struct cache *cache_create(void *memory, size_t memory_bytes, const struct cache_config *config);

/* The entry of an adapter, LOADING or READY; NONE_INDEX when absent. Touches nothing. */
uint32_t cache_find(const struct cache *cache, adapter_id adapter);
bool cache_is_ready(const struct cache *cache, uint32_t entry);
adapter_id cache_adapter(const struct cache *cache, uint32_t entry);
uint64_t cache_entry_bytes(const struct cache *cache, uint32_t entry);
uint32_t cache_pins(const struct cache *cache, uint32_t entry);

/* Could `bytes` get in now? */
enum cache_room {
    CACHE_FITS,      /* as it is */
    CACHE_EVICTABLE, /* after evicting; cache_evict_one() until CACHE_FITS will not fail on the way */
    CACHE_BLOCKED,   /* what could be freed is pinned, held or loading: wait */
    CACHE_OVERSIZE   /* never: larger than the whole capacity */
};
enum cache_room cache_room(const struct cache *cache, uint64_t bytes);

/* Evicts the policy's victim for `adapter`, which is to come, and says which it was. There must be one (checked): ask cache_room()
 * first. */
adapter_id cache_evict_one(struct cache *cache, adapter_id adapter, uint64_t bytes, uint32_t *ret_entry, uint64_t *ret_bytes);

/* Takes room for a load: the adapter must be absent and cache_room() CACHE_FITS (checked). LOADING, pins 0; counts a
 * miss. */
uint32_t cache_insert(struct cache *cache, adapter_id adapter, uint64_t bytes);
/* LOADING -> READY. True when a doomed entry went with this. */
bool cache_arrived(struct cache *cache, uint32_t entry);
/* LOADING -> absent; must be unpinned. */
void cache_failed(struct cache *cache, uint32_t entry);
/* Retired by its owner. READY and unpinned: gone at once, true, even if the scan holds it. Otherwise it is doomed:
 * cache_find() no longer answers it, and it goes when both its load and its last pin have ended; false. */
bool cache_drop(struct cache *cache, uint32_t entry);

/* A pin is a count: one for each sequence, or copy, that uses the entry. LOADING entries can be pinned too. */
void cache_pin(struct cache *cache, uint32_t entry);
/* Unpinning what is not pinned is a caller's bug and stops the program. True when a doomed entry went with this. */
bool cache_unpin(struct cache *cache, uint32_t entry);
/* A use for the policy's sake. The first touch after an insertion is the one that caused it: not a hit, not told to the
 * policy. So hits + coalesced + misses is the number of uses, once every load has been used. Returns whether it was a
 * hit. */
bool cache_touch(struct cache *cache, uint32_t entry);

/* A scan over waiting work protects what earlier work needs: held entries count as pinned until the next scan begins. */
void cache_hold_begin(struct cache *cache);
void cache_hold(struct cache *cache, uint32_t entry);

/* All in one: find, or make room and begin a load; touch; pin. HIT and LOADING and MISS pin the entry. On MISS the
 * evicted adapters are in victims; more than victims_max of them is a mistake. WAIT and NEVER change nothing but
 * `blocked`, and leave ret_victims and ret_entry as they are. */
enum cache_answer { CACHE_HIT, CACHE_MISS, CACHE_LOADING, CACHE_WAIT, CACHE_NEVER };
enum cache_answer cache_acquire(struct cache *cache, adapter_id adapter, uint64_t bytes, adapter_id *victims,
                                uint32_t victims_max, uint32_t *ret_victims, uint32_t *ret_entry);
/* Unpins by name, for callers of cache_acquire(); of a doomed entry and its successor of the same name, the doomed. */
void cache_release(struct cache *cache, adapter_id adapter);

uint64_t cache_used(const struct cache *cache);     /* in the unit, loading included */
uint64_t cache_used_bytes(const struct cache *cache);
uint64_t cache_pinned(const struct cache *cache);   /* in the unit: what is pinned, held entries not included */
uint32_t cache_count(const struct cache *cache);    /* entries present */
struct cache_counts cache_counts(const struct cache *cache);

void cache_check(const struct cache *cache);        /* every invariant, O(entries_max) */
uint64_t cache_digest(const struct cache *cache);   /* O(1): kept as entries come, go and are pinned */

#endif
