/* The cache proper: who is present, who may leave, how much is free. All sums (used, pinned, evictable, digest) are
 * kept as entries change, so every question but cache_check() is O(1), and every change costs what the policy's order
 * costs. What leaves is the policy's choice; that it may leave is checked here. */
#include "cache/cache.h"

#include "base/hash.h"
#include "base/table.h"

/* What the cache knows of an entry beyond what a policy sees. */
struct slot {
    adapter_id adapter;
    uint64_t salt;    /* hash of what stays the same while it is present */
    uint64_t share;   /* what it adds to digest_sum */
    uint32_t pins;
    uint32_t held_at; /* position in `held`; NONE_INDEX: not held */
    bool ready;
    bool doomed;      /* retired; no longer in `names` */
    bool fresh;       /* not touched since its insertion */
};

struct cache {
    struct cache_config config;
    struct evict_view view;
    struct table names;       /* adapter_key -> entry, doomed ones excluded */
    struct slot *slots;       /* [entries_max] */
    uint32_t *held;           /* entries the scan holds, in no order */
    uint32_t held_count;
    uint32_t count;
    uint32_t doomed_count;
    uint32_t evictable_count;
    uint64_t evictable;       /* in the unit, as are the next two */
    uint64_t used;
    uint64_t pinned;
    uint64_t used_bytes;
    uint64_t digest_sum;      /* of the shares: what is present */
    uint64_t digest_past;     /* folded: who came, was used and went, in order. It stands for the policy's state. */
    struct cache_counts counts;
};

static size_t aligned(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

size_t cache_bytes(const struct cache_config *config)
{
    size_t count = config->entries_max;

    return aligned(sizeof(struct cache)) + aligned(evict_view_bytes(config->evict, config->entries_max)) +
           aligned(count * sizeof(struct slot)) + aligned(count * sizeof(uint32_t)) + aligned(table_bytes(config->entries_max));
}

static void *take(unsigned char **at, size_t bytes)
{
    void *taken = *at;

    *at += aligned(bytes);
    return taken;
}

struct cache *cache_create(void *memory, size_t memory_bytes, const struct cache_config *config)
{
    unsigned char *at = memory;
    uint32_t count = config->entries_max;
    struct cache *cache;

    check(count >= 1);
    check(config->unit == CACHE_BYTES || config->unit == CACHE_SLOTS);
    check(config->evict != NULL && !config->evict->offline);
    check(config->cost_fixed_ns >= 0);
    check(config->cost_ns_per_mib >= 0);
    check((uintptr_t)memory % _Alignof(struct cache) == 0);
    check(memory_bytes >= cache_bytes(config));
    memset(memory, 0, cache_bytes(config));
    cache = take(&at, sizeof(*cache));
    cache->config = *config;
    evict_view_begin(&cache->view, take(&at, evict_view_bytes(config->evict, count)),
                     &(struct evict_setup){.policy = config->evict, .entries_max = count, .capacity = config->capacity,
                                           .cost_fixed_ns = config->cost_fixed_ns, .cost_ns_per_mib = config->cost_ns_per_mib,
                                           .salt = config->salt});
    cache->slots = take(&at, count * sizeof(struct slot));
    cache->held = take(&at, count * sizeof(uint32_t));
    table_init(&cache->names, take(&at, table_bytes(count)), count);
    return cache;
}

static struct slot *slot_at(struct cache *cache, uint32_t entry)
{
    check(entry < cache->config.entries_max);
    check(cache->view.entries[entry].present);
    return &cache->slots[entry];
}

static const struct slot *slot_seen(const struct cache *cache, uint32_t entry)
{
    check(entry < cache->config.entries_max);
    check(cache->view.entries[entry].present);
    return &cache->slots[entry];
}

uint32_t cache_find(const struct cache *cache, adapter_id adapter)
{
    return table_find(&cache->names, adapter_key(adapter));
}

bool cache_is_ready(const struct cache *cache, uint32_t entry)
{
    return slot_seen(cache, entry)->ready;
}

adapter_id cache_adapter(const struct cache *cache, uint32_t entry)
{
    return slot_seen(cache, entry)->adapter;
}

uint64_t cache_entry_bytes(const struct cache *cache, uint32_t entry)
{
    (void)slot_seen(cache, entry);
    return cache->view.entries[entry].bytes;
}

uint32_t cache_pins(const struct cache *cache, uint32_t entry)
{
    return slot_seen(cache, entry)->pins;
}

static uint64_t size_of(const struct cache *cache, uint64_t bytes)
{
    return cache->config.unit == CACHE_BYTES ? bytes : 1;
}

/* used <= capacity and evictable <= used always, so none of these differences wraps. */
enum cache_room cache_room(const struct cache *cache, uint64_t bytes)
{
    uint64_t size = size_of(cache, bytes);
    uint64_t room = cache->config.capacity - cache->used;
    bool entry_is_free = cache->count < cache->config.entries_max;

    if (size > cache->config.capacity)
        return CACHE_OVERSIZE;
    if (size <= room && entry_is_free)
        return CACHE_FITS;
    if (size <= room + cache->evictable && (entry_is_free || cache->evictable_count > 0))
        return CACHE_EVICTABLE;
    return CACHE_BLOCKED;
}

static bool may_leave(const struct slot *slot)
{
    return slot->ready && slot->pins == 0 && slot->held_at == NONE_INDEX;
}

static uint64_t share_of(const struct slot *slot)
{
    unsigned flags = (unsigned)slot->ready << 2 | (unsigned)slot->doomed << 1 | (unsigned)slot->fresh;

    return hash_mix(slot->salt ^ ((uint64_t)slot->pins << 3 | flags));
}

/* After anything about a present entry has changed: brings the evictable sums and the digest up to date. */
static void settle(struct cache *cache, uint32_t entry)
{
    struct evict_entry *seen = &cache->view.entries[entry];
    struct slot *slot = &cache->slots[entry];
    bool evictable = may_leave(slot);
    uint64_t share = share_of(slot);

    cache->digest_sum += share - slot->share;
    slot->share = share;
    if (evictable == seen->evictable)
        return;
    seen->evictable = evictable;
    if (evictable) {
        cache->evictable += seen->size;
        cache->evictable_count++;
    } else {
        cache->evictable -= seen->size;
        cache->evictable_count--;
    }
}

/* Holds are not in the digest: they last for one scan, inside one step. */
static void unhold(struct cache *cache, uint32_t entry)
{
    struct slot *slot = &cache->slots[entry];
    uint32_t last;

    if (slot->held_at == NONE_INDEX)
        return;
    last = cache->held[--cache->held_count];
    cache->held[slot->held_at] = last;
    cache->slots[last].held_at = slot->held_at;
    slot->held_at = NONE_INDEX;
}

enum past { PAST_INSERT, PAST_TOUCH, PAST_EVICT, PAST_REMOVE };

static void past_add(struct cache *cache, enum past what, uint32_t entry)
{
    cache->digest_past = hash_fold(cache->digest_past, (uint64_t)what << 32 | entry);
}

/* An unpinned entry becomes absent. */
static void entry_remove(struct cache *cache, uint32_t entry, bool evicted)
{
    struct evict_entry *seen = &cache->view.entries[entry];
    struct slot *slot = &cache->slots[entry];

    check(slot->pins == 0);
    cache->config.evict->remove(&cache->view, entry, evicted);
    if (seen->evictable) {
        cache->evictable -= seen->size;
        cache->evictable_count--;
    }
    unhold(cache, entry);
    if (slot->doomed)
        cache->doomed_count--;
    else
        table_remove(&cache->names, adapter_key(slot->adapter));
    cache->used -= seen->size;
    cache->used_bytes -= seen->bytes;
    cache->digest_sum -= slot->share;
    cache->count--;
    evict_entry_give_back(&cache->view, entry);
    past_add(cache, evicted ? PAST_EVICT : PAST_REMOVE, entry);
}

/* That it is let in is the host's decision here, and made. */
static void ask(struct cache *cache, adapter_id adapter, uint64_t bytes)
{
    check(evict_ask(&cache->view, adapter_key(adapter), size_of(cache, bytes), bytes));
}

adapter_id cache_evict_one(struct cache *cache, adapter_id adapter, uint64_t bytes_wanted, uint32_t *ret_entry, uint64_t *ret_bytes)
{
    uint32_t entry;
    uint64_t bytes;

    check(cache->evictable_count > 0);
    ask(cache, adapter, bytes_wanted);
    entry = cache->config.evict->victim(&cache->view);
    check(entry < cache->config.entries_max);
    check(cache->view.entries[entry].present);
    check(may_leave(&cache->slots[entry]));
    bytes = cache->view.entries[entry].bytes;
    entry_remove(cache, entry, true);
    cache->counts.evictions++;
    cache->counts.evicted_bytes += bytes;
    *ret_entry = entry;
    *ret_bytes = bytes;
    return cache->slots[entry].adapter;
}

uint32_t cache_insert(struct cache *cache, adapter_id adapter, uint64_t bytes)
{
    struct evict_entry *seen;
    struct slot *slot;
    uint32_t entry;

    check(!adapter_is_base(adapter));
    check(cache_room(cache, bytes) == CACHE_FITS);
    ask(cache, adapter, bytes);
    entry = evict_entry_take(&cache->view, adapter_key(adapter), size_of(cache, bytes), bytes);
    seen = &cache->view.entries[entry];
    slot = &cache->slots[entry];
    *slot = (struct slot){
        .adapter = adapter,
        .salt = hash_words(0, (const uint64_t[]){entry, adapter_key(adapter), bytes}, 3),
        .held_at = NONE_INDEX,
        .fresh = true,
    };
    table_insert(&cache->names, adapter_key(adapter), entry); /* and that it was absent is checked there */
    cache->count++;
    cache->used += seen->size;
    cache->used_bytes += bytes;
    cache->counts.misses++;
    cache->counts.loaded_bytes += bytes;
    settle(cache, entry);
    past_add(cache, PAST_INSERT, entry);
    cache->view.now++;
    cache->config.evict->insert(&cache->view, entry);
    cache->view.asked.open = false;
    return entry;
}

/* A doomed entry goes when neither a load nor a pin needs its room. */
static bool go_if_doomed(struct cache *cache, uint32_t entry)
{
    const struct slot *slot = &cache->slots[entry];

    if (!slot->doomed || !slot->ready || slot->pins > 0)
        return false;
    entry_remove(cache, entry, false);
    return true;
}

bool cache_arrived(struct cache *cache, uint32_t entry)
{
    struct slot *slot = slot_at(cache, entry);

    check(!slot->ready);
    slot->ready = true;
    if (go_if_doomed(cache, entry))
        return true;
    settle(cache, entry);
    return false;
}

void cache_failed(struct cache *cache, uint32_t entry)
{
    check(!slot_at(cache, entry)->ready);
    entry_remove(cache, entry, false);
}

bool cache_drop(struct cache *cache, uint32_t entry)
{
    struct slot *slot = slot_at(cache, entry);

    check(!slot->doomed);
    if (slot->ready && slot->pins == 0) {
        entry_remove(cache, entry, false);
        return true;
    }
    slot->doomed = true;
    cache->doomed_count++;
    table_remove(&cache->names, adapter_key(slot->adapter));
    settle(cache, entry);
    return false;
}

void cache_pin(struct cache *cache, uint32_t entry)
{
    struct slot *slot = slot_at(cache, entry);

    check(slot->pins < UINT32_MAX);
    if (slot->pins++ == 0)
        cache->pinned += cache->view.entries[entry].size;
    settle(cache, entry);
}

bool cache_unpin(struct cache *cache, uint32_t entry)
{
    struct slot *slot = slot_at(cache, entry);

    check(slot->pins > 0);
    if (--slot->pins == 0)
        cache->pinned -= cache->view.entries[entry].size;
    if (go_if_doomed(cache, entry))
        return true;
    settle(cache, entry);
    return false;
}

bool cache_touch(struct cache *cache, uint32_t entry)
{
    struct slot *slot = slot_at(cache, entry);

    if (slot->fresh) {
        slot->fresh = false;
        settle(cache, entry);
        return false;
    }
    cache->view.entries[entry].hits++;
    cache->view.now++;
    past_add(cache, PAST_TOUCH, entry);
    cache->config.evict->touch(&cache->view, entry);
    if (slot->ready)
        cache->counts.hits++;
    else
        cache->counts.coalesced++;
    return slot->ready;
}

void cache_hold_begin(struct cache *cache)
{
    while (cache->held_count > 0) {
        uint32_t entry = cache->held[--cache->held_count];

        cache->slots[entry].held_at = NONE_INDEX;
        settle(cache, entry);
    }
}

void cache_hold(struct cache *cache, uint32_t entry)
{
    struct slot *slot = slot_at(cache, entry);

    if (slot->held_at != NONE_INDEX)
        return;
    slot->held_at = cache->held_count;
    cache->held[cache->held_count++] = entry;
    settle(cache, entry);
}

enum cache_answer cache_acquire(struct cache *cache, adapter_id adapter, uint64_t bytes, adapter_id *victims,
                                uint32_t victims_max, uint32_t *ret_victims, uint32_t *ret_entry)
{
    enum cache_answer answer;
    enum cache_room room;
    uint32_t count = 0;
    uint32_t entry = cache_find(cache, adapter);

    if (entry != NONE_INDEX) {
        check(cache->view.entries[entry].bytes == bytes);
        answer = cache->slots[entry].ready ? CACHE_HIT : CACHE_LOADING;
    } else {
        room = cache_room(cache, bytes);
        if (room == CACHE_OVERSIZE)
            return CACHE_NEVER;
        if (room == CACHE_BLOCKED) {
            cache->counts.blocked++;
            return CACHE_WAIT;
        }
        for (; room == CACHE_EVICTABLE; room = cache_room(cache, bytes)) {
            uint32_t left_entry;
            uint64_t left_bytes;

            check(count < victims_max);
            victims[count++] = cache_evict_one(cache, adapter, bytes, &left_entry, &left_bytes);
        }
        entry = cache_insert(cache, adapter, bytes);
        answer = CACHE_MISS;
    }
    cache_touch(cache, entry);
    cache_pin(cache, entry);
    *ret_victims = count;
    *ret_entry = entry;
    return answer;
}

/* The oldest doomed entry of this name that is pinned; NONE_INDEX when there is none. Rare, so a scan will do. */
static uint32_t find_doomed(const struct cache *cache, adapter_id adapter)
{
    uint32_t found = NONE_INDEX;

    for (uint32_t i = 0; cache->doomed_count > 0 && i < cache->view.entries_used; i++) {
        const struct evict_entry *seen = &cache->view.entries[i];
        const struct slot *slot = &cache->slots[i];

        if (!seen->present || !slot->doomed || slot->pins == 0 || !adapter_id_equal(slot->adapter, adapter))
            continue;
        if (found == NONE_INDEX || seen->order < cache->view.entries[found].order)
            found = i;
    }
    return found;
}

void cache_release(struct cache *cache, adapter_id adapter)
{
    uint32_t entry = find_doomed(cache, adapter);

    if (entry == NONE_INDEX)
        entry = cache_find(cache, adapter);
    check(entry != NONE_INDEX);
    cache_unpin(cache, entry);
}

uint64_t cache_used(const struct cache *cache)
{
    return cache->used;
}

uint64_t cache_used_bytes(const struct cache *cache)
{
    return cache->used_bytes;
}

uint64_t cache_pinned(const struct cache *cache)
{
    return cache->pinned;
}

uint32_t cache_count(const struct cache *cache)
{
    return cache->count;
}

struct cache_counts cache_counts(const struct cache *cache)
{
    return cache->counts;
}

uint64_t cache_digest(const struct cache *cache)
{
    return hash_fold(cache->digest_past, cache->digest_sum);
}

/* The sums as a walk over the present entries finds them. */
struct sums {
    uint32_t count, doomed, evictable_count, held;
    uint64_t used, used_bytes, pinned, evictable, digest;
};

static void entry_check(const struct cache *cache, uint32_t entry, struct sums *sums)
{
    const struct evict_entry *seen = &cache->view.entries[entry];
    const struct slot *slot = &cache->slots[entry];

    check(seen->size == size_of(cache, seen->bytes));
    check(seen->hits >= 1);
    check(seen->order < cache->view.order_next);
    check(seen->evictable == may_leave(slot));
    check(!(slot->doomed && seen->evictable)); /* it should have gone */
    check(slot->doomed || cache_find(cache, slot->adapter) == entry);
    check(slot->share == share_of(slot));
    check(slot->held_at == NONE_INDEX || slot->held_at < cache->held_count);
    check(slot->held_at == NONE_INDEX || cache->held[slot->held_at] == entry);
    sums->count++;
    sums->doomed += slot->doomed;
    sums->held += slot->held_at != NONE_INDEX;
    sums->used += seen->size;
    sums->used_bytes += seen->bytes;
    sums->digest += slot->share;
    if (slot->pins > 0)
        sums->pinned += seen->size;
    if (seen->evictable) {
        sums->evictable += seen->size;
        sums->evictable_count++;
    }
}

void cache_check(const struct cache *cache)
{
    struct sums sums = {0};

    for (uint32_t i = 0; i < cache->view.entries_used; i++)
        if (cache->view.entries[i].present)
            entry_check(cache, i, &sums);
    check(sums.count == cache->count);
    check(sums.doomed == cache->doomed_count);
    check(sums.count - sums.doomed == cache->names.count);
    check(sums.held == cache->held_count);
    check(sums.used == cache->used);
    check(sums.used <= cache->config.capacity);
    check(sums.used_bytes == cache->used_bytes);
    check(sums.pinned == cache->pinned);
    check(sums.evictable == cache->evictable);
    check(sums.evictable_count == cache->evictable_count);
    check(sums.digest == cache->digest_sum);
    evict_view_check(&cache->view);
}
