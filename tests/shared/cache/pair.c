#include "pair.h"


#include <stdio.h>
#include <stdlib.h>

enum { NOBODY = 1000 }; /* an adapter that never comes */

/* --- what twins are made of ---------------------------------------------------------------------------------------------- */

bool twin_may_leave(const struct twin_entry *entry)
{
    return entry->ready && entry->pins == 0 && !entry->held;
}

uint64_t twin_share(const struct twin *twin, uint64_t percent)
{
    const uint64_t share = twin->config.capacity * percent / 100;

    return share > 0 ? share : 1;
}

void twin_to_head(struct twin *twin, struct twin_entry *entry, uint32_t queue)
{
    entry->queue = queue;
    entry->rank = ++twin->ranks;
}

uint64_t twin_queue_size(const struct twin *twin, uint32_t queue)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < twin->count; i++)
        size += twin->entries[i].queue == queue ? twin->entries[i].size : 0;
    return size;
}

uint32_t twin_queue_count(const struct twin *twin, uint32_t queue)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < twin->count; i++)
        count += twin->entries[i].queue == queue;
    return count;
}

static uint32_t last(const struct twin *twin, uint32_t queue, bool all)
{
    uint32_t best = NONE_INDEX;

    for (uint32_t i = 0; i < twin->count; i++)
        if (twin->entries[i].queue == queue && (all || twin_may_leave(&twin->entries[i])) &&
            (best == NONE_INDEX || twin->entries[i].rank < twin->entries[best].rank))
            best = i;
    return best;
}

uint32_t twin_last(const struct twin *twin, uint32_t queue)
{
    return last(twin, queue, false);
}

uint32_t twin_last_of_all(const struct twin *twin, uint32_t queue)
{
    return last(twin, queue, true);
}

uint32_t twin_before(const struct twin *twin, uint32_t at)
{
    uint32_t best = NONE_INDEX;

    for (uint32_t i = 0; i < twin->count; i++)
        if (twin->entries[i].queue == twin->entries[at].queue && twin->entries[i].rank > twin->entries[at].rank &&
            (best == NONE_INDEX || twin->entries[i].rank < twin->entries[best].rank))
            best = i;
    return best;
}

uint32_t twin_ghost_find(const struct twin *twin, uint64_t name)
{
    for (uint32_t i = 0; i < twin->ghosts_count; i++)
        if (twin->ghosts[i].name == name)
            return i;
    return NONE_INDEX;
}

void twin_ghost_remove(struct twin *twin, uint32_t at)
{
    twin->ghosts_count--;
    memmove(&twin->ghosts[at], &twin->ghosts[at + 1], (twin->ghosts_count - at) * sizeof(twin->ghosts[0]));
}

uint64_t twin_ghosts_size(const struct twin *twin, uint32_t queue)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < twin->ghosts_count; i++)
        size += twin->ghosts[i].queue == queue ? twin->ghosts[i].size : 0;
    return size;
}

uint32_t twin_ghost_oldest(const struct twin *twin, uint32_t queue)
{
    for (uint32_t i = 0; i < twin->ghosts_count; i++)
        if (twin->ghosts[i].queue == queue)
            return i;
    return NONE_INDEX;
}

void twin_ghost_add(struct twin *twin, uint32_t queue, const struct twin_entry *entry, uint64_t key)
{
    if (twin->ghosts_count == twin->ghosts_max) { /* the oldest of the longer queue, of equals the first queue */
        uint32_t second = 0;

        for (uint32_t i = 0; i < twin->ghosts_count; i++)
            second += twin->ghosts[i].queue == 1;
        twin_ghost_remove(twin, twin_ghost_oldest(twin, 2 * second > twin->ghosts_count));
    }
    twin->ghosts[twin->ghosts_count++] = (struct twin_ghost){entry->name, entry->size, key, queue};
}

/* --- a cache of them ------------------------------------------------------------------------------------------------------ */

static uint32_t twin_find(const struct twin *twin, adapter_id adapter)
{
    for (uint32_t i = 0; i < twin->count; i++)
        if (!twin->entries[i].doomed && adapter_id_equal(twin->entries[i].adapter, adapter))
            return i;
    return NONE_INDEX;
}

static uint64_t twin_size_of(const struct twin *twin, uint64_t bytes)
{
    return twin->config.unit == CACHE_BYTES ? bytes : 1;
}

static void twin_ask(struct twin *twin, adapter_id adapter, uint64_t bytes)
{
    const struct twin_entry asked = {.name = adapter_key(adapter), .size = twin_size_of(twin, bytes), .bytes = bytes};

    if (twin->asked_open && twin->asked.name == asked.name && twin->asked.size == asked.size)
        return;
    twin->asked = asked;
    twin->asked_open = true;
    if (twin->policy->miss != NULL)
        twin->policy->miss(twin);
}

static void twin_remove(struct twin *twin, uint32_t at, bool evicted)
{
    if (twin->policy->remove != NULL)
        twin->policy->remove(twin, &twin->entries[at], evicted);
    twin->count--;
    memmove(&twin->entries[at], &twin->entries[at + 1], (twin->count - at) * sizeof(twin->entries[0]));
    if (at < twin->hand)
        twin->hand--;
    if (twin->hand == twin->count)
        twin->hand = 0;
}

static void twin_insert(struct twin *twin, adapter_id adapter, uint64_t bytes, uint32_t in_cache)
{
    struct twin_entry *entry = &twin->entries[twin->count];

    twin_ask(twin, adapter, bytes);
    if (++twin->count > twin->most) {
        twin->most = twin->count;
        twin->ghosts_max = (twin->most * twin->policy->policy->ghosts_percent + 99) / 100;
    }
    *entry = (struct twin_entry){.adapter = adapter, .name = adapter_key(adapter), .size = twin_size_of(twin, bytes), .bytes = bytes,
                                 .hits = 1, .used_at = ++twin->now, .entry = in_cache, .fresh = true};
    twin->counts.misses++;
    twin->counts.loaded_bytes += bytes;
    if (twin->policy->insert != NULL)
        twin->policy->insert(twin, entry);
    twin->asked_open = false;
}

static void twin_touch(struct twin *twin, struct twin_entry *entry)
{
    if (entry->fresh) {
        entry->fresh = false;
        return;
    }
    entry->hits++;
    entry->used_at = ++twin->now;
    if (twin->policy->touch != NULL)
        twin->policy->touch(twin, entry);
    if (entry->ready)
        twin->counts.hits++;
    else
        twin->counts.coalesced++;
}

static uint64_t twin_sum(const struct twin *twin, bool (*counts)(const struct twin_entry *entry))
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < twin->count; i++)
        if (counts(&twin->entries[i]))
            sum += twin->entries[i].size;
    return sum;
}

static bool is_any(const struct twin_entry *entry) { return entry != NULL; }
static bool is_pinned(const struct twin_entry *entry) { return entry->pins > 0; }

static bool any_may_leave(const struct twin *twin)
{
    for (uint32_t i = 0; i < twin->count; i++)
        if (twin_may_leave(&twin->entries[i]))
            return true;
    return false;
}

static enum cache_room twin_room(const struct twin *twin, uint64_t bytes)
{
    uint64_t size = twin_size_of(twin, bytes);
    uint64_t used = twin_sum(twin, is_any);
    uint64_t stays = used - twin_sum(twin, twin_may_leave);
    bool full = twin->count == twin->config.entries_max;

    if (size > twin->config.capacity)
        return CACHE_OVERSIZE;
    if (used + size <= twin->config.capacity && !full)
        return CACHE_FITS;
    return stays + size <= twin->config.capacity && (!full || any_may_leave(twin)) ? CACHE_EVICTABLE : CACHE_BLOCKED;
}

/* --- the pair ------------------------------------------------------------------------------------------------------------- */

/* One cache and its twin, and what names a failure. */
struct pair {
    struct cache *cache;
    struct twin twin;
    const struct pair_run *run;
    uint64_t random;
    uint32_t turn;
};

#define expect_equal(pair, got, expected)                                                                          \
    do {                                                                                                           \
        uint64_t got_ = (got), expected_ = (expected);                                                             \
        if (got_ != expected_)                                                                                     \
            fail_msg("%s, capacity %llu, seed %llu, turn %u: %s is %llu, %s is %llu", (pair)->twin.config.evict->name, \
                     (unsigned long long)(pair)->twin.config.capacity, (unsigned long long)(pair)->run->seed, (pair)->turn, \
                     #got, (unsigned long long)got_, #expected, (unsigned long long)expected_);                    \
    } while (0)

/* Sizes differ by adapter alone; some exceed the capacity in bytes. */
static uint64_t bytes_of(const struct pair *pair, adapter_id adapter)
{
    return adapter.index % 13 == 12 ? pair->run->config.capacity + 1 : 1 + adapter.index * 7 % 40;
}

/* Popular ones often, and now and then the second version of one. */
static adapter_id draw_adapter(struct pair *pair)
{
    uint64_t bound = 1 + draw_below(&pair->random, pair->run->ids);

    return (adapter_id){1 + (uint32_t)draw_below(&pair->random, bound), 1 + (draw_below(&pair->random, 8) == 0)};
}

static adapter_id twin_evict(struct pair *pair, adapter_id wanted, uint64_t bytes)
{
    struct twin *twin = &pair->twin;
    adapter_id adapter;
    uint32_t at;

    twin_ask(twin, wanted, bytes);
    at = twin->policy->victim(twin);
    expect_equal(pair, at < twin->count, true);
    expect_equal(pair, twin_may_leave(&twin->entries[at]), true);
    adapter = twin->entries[at].adapter;
    twin->counts.evictions++;
    twin->counts.evicted_bytes += twin->entries[at].bytes;
    twin_remove(twin, at, true);
    return adapter;
}

static void do_acquire(struct pair *pair)
{
    adapter_id adapter = draw_adapter(pair);
    uint64_t bytes = bytes_of(pair, adapter);
    adapter_id victims[TWIN_MAX];
    uint32_t count = 0;
    uint32_t entry = NONE_INDEX;
    enum cache_answer answer = cache_acquire(pair->cache, adapter, bytes, victims, TWIN_MAX, &count, &entry);
    uint32_t at = twin_find(&pair->twin, adapter);

    if (at == NONE_INDEX) {
        enum cache_room room = twin_room(&pair->twin, bytes);

        expect_equal(pair, answer == CACHE_NEVER, room == CACHE_OVERSIZE);
        expect_equal(pair, answer == CACHE_WAIT, room == CACHE_BLOCKED);
        pair->twin.counts.blocked += room == CACHE_BLOCKED;
        if (answer == CACHE_NEVER || answer == CACHE_WAIT)
            return;
        expect_equal(pair, answer, CACHE_MISS);
        for (uint32_t i = 0; i < count; i++)
            expect_equal(pair, adapter_key(victims[i]), adapter_key(twin_evict(pair, adapter, bytes)));
        expect_equal(pair, twin_room(&pair->twin, bytes), CACHE_FITS);
        at = pair->twin.count;
        twin_insert(&pair->twin, adapter, bytes, entry);
    } else {
        expect_equal(pair, answer, pair->twin.entries[at].ready ? CACHE_HIT : CACHE_LOADING);
        expect_equal(pair, count, 0);
    }
    twin_touch(&pair->twin, &pair->twin.entries[at]);
    pair->twin.entries[at].pins++;
    if (!pair->run->quiet)
        return;
    if (answer == CACHE_MISS)
        cache_arrived(pair->cache, entry);
    cache_release(pair->cache, adapter);
    pair->twin.entries[at].ready = true;
    pair->twin.entries[at].pins--;
}

/* A doomed entry goes once nothing needs its room. */
static void go_if_over(struct twin *twin, uint32_t at)
{
    const struct twin_entry *entry = &twin->entries[at];

    if (entry->doomed && entry->ready && entry->pins == 0)
        twin_remove(twin, at, false);
}

/* Something happens to one entry: its load ends or fails, a pin ends, it is held, used or retired. */
static void do_one(struct pair *pair, uint32_t at)
{
    struct twin_entry *twin = &pair->twin.entries[at];
    uint32_t entry = twin->entry;

    switch (draw_below(&pair->random, 8)) {
    case 0:
    case 1:
        if (twin->ready)
            break;
        if (twin->pins == 0 && draw_below(&pair->random, 2) == 0) {
            cache_failed(pair->cache, entry);
            twin_remove(&pair->twin, at, false);
            break;
        }
        twin->ready = true;
        expect_equal(pair, cache_arrived(pair->cache, entry), twin->doomed && twin->pins == 0);
        go_if_over(&pair->twin, at);
        break;
    case 2:
    case 3:
    case 4:
        if (twin->pins == 0)
            break;
        twin->pins--;
        expect_equal(pair, cache_unpin(pair->cache, entry), twin->doomed && twin->ready && twin->pins == 0);
        go_if_over(&pair->twin, at);
        break;
    case 5:
        twin->held = true;
        cache_hold(pair->cache, entry);
        break;
    case 6:
        expect_equal(pair, cache_touch(pair->cache, entry), !twin->fresh && twin->ready);
        twin_touch(&pair->twin, twin);
        break;
    default:
        if (twin->doomed || draw_below(&pair->random, 4) != 0)
            break;
        expect_equal(pair, cache_drop(pair->cache, entry), twin->ready && twin->pins == 0);
        twin->doomed = true;
        go_if_over(&pair->twin, at);
    }
}

static void do_hold_begin(struct pair *pair)
{
    cache_hold_begin(pair->cache);
    for (uint32_t i = 0; i < pair->twin.count; i++)
        pair->twin.entries[i].held = false;
}

/* Room is made for somebody who does not come. */
static void do_evict(struct pair *pair)
{
    const adapter_id nobody = {NOBODY, 1};
    uint32_t entry;
    uint64_t bytes;
    adapter_id adapter;

    if (!any_may_leave(&pair->twin))
        return;
    adapter = cache_evict_one(pair->cache, nobody, 1, &entry, &bytes);
    expect_equal(pair, bytes, bytes_of(pair, adapter));
    expect_equal(pair, adapter_key(adapter), adapter_key(twin_evict(pair, nobody, 1)));
}

static void compare_counts(const struct pair *pair)
{
    const struct cache_counts counts = cache_counts(pair->cache);
    const struct cache_counts *expected = &pair->twin.counts;

    expect_equal(pair, counts.hits, expected->hits);
    expect_equal(pair, counts.misses, expected->misses);
    expect_equal(pair, counts.coalesced, expected->coalesced);
    expect_equal(pair, counts.evictions, expected->evictions);
    expect_equal(pair, counts.blocked, expected->blocked);
    expect_equal(pair, counts.loaded_bytes, expected->loaded_bytes);
    expect_equal(pair, counts.evicted_bytes, expected->evicted_bytes);
}

static void pair_compare(const struct pair *pair)
{
    cache_check(pair->cache);
    expect_equal(pair, cache_count(pair->cache), pair->twin.count);
    expect_equal(pair, cache_used(pair->cache), twin_sum(&pair->twin, is_any));
    expect_equal(pair, cache_pinned(pair->cache), twin_sum(&pair->twin, is_pinned));
    for (uint64_t bytes = 1; bytes <= 101; bytes += 25)
        expect_equal(pair, cache_room(pair->cache, bytes), twin_room(&pair->twin, bytes));
    for (uint32_t i = 0; i < pair->twin.count; i++) {
        const struct twin_entry *twin = &pair->twin.entries[i];

        expect_equal(pair, cache_find(pair->cache, twin->adapter) == twin->entry, !twin->doomed);
        expect_equal(pair, adapter_key(cache_adapter(pair->cache, twin->entry)), adapter_key(twin->adapter));
        expect_equal(pair, cache_pins(pair->cache, twin->entry), twin->pins);
        expect_equal(pair, cache_is_ready(pair->cache, twin->entry), twin->ready);
        expect_equal(pair, cache_entry_bytes(pair->cache, twin->entry), twin->bytes);
    }
    compare_counts(pair);
}

static void pair_turn(struct pair *pair)
{
    uint64_t what = draw_below(&pair->random, 16);

    if (what < 5 || pair->run->quiet || pair->twin.count == 0)
        do_acquire(pair);
    else if (what == 5)
        do_hold_begin(pair);
    else if (what == 6)
        do_evict(pair);
    else
        do_one(pair, (uint32_t)draw_below(&pair->random, pair->twin.count));
}

void run_pair(const struct twin_policy *policy, const struct pair_run *run)
{
    struct pair *pair = calloc(1, sizeof(*pair));
    struct cache_config config = run->config;
    void *memory;

    config.evict = policy->policy;
    memory = malloc(cache_bytes(&config));
    assert_in_range(config.entries_max, 1, TWIN_MAX);
    *pair = (struct pair){.run = run, .random = run->seed, .cache = cache_create(memory, cache_bytes(&config), &config)};
    pair->twin.policy = policy;
    pair->twin.config = config;
    for (pair->turn = 0; pair->turn < run->turns; pair->turn++) {
        pair_turn(pair);
        pair_compare(pair);
    }
    /* A history that evicted nothing would have shown nothing. */
    assert_true(cache_counts(pair->cache).evictions > run->turns / 200);
    assert_true(cache_counts(pair->cache).hits > run->turns / 200);
    free(memory);
    free(pair);
}

void run_pairs(const struct twin_policy *policy, uint64_t seed)
{
    static const uint32_t slots[] = {1, 2, 3, 4, 5, 8, 11, 16, 33, 64};
    struct pair_run run = {.config = {.unit = CACHE_BYTES, .capacity = 100, .entries_max = 12}, .ids = 40, .turns = 20000, .seed = seed};

    run_pair(policy, &run);
    run.config.entries_max = 3; /* binds before the bytes do */
    run.seed++;
    run_pair(policy, &run);
    run.config = (struct cache_config){.unit = CACHE_BYTES, .capacity = 700, .entries_max = 64};
    run.ids = 120;
    run.turns = 10000;
    run.seed++;
    run_pair(policy, &run);
    run.config = (struct cache_config){.unit = CACHE_SLOTS, .capacity = 7, .entries_max = 8};
    run.ids = 16;
    run.turns = 20000;
    run.seed++;
    run_pair(policy, &run);
    run.turns = 4000;
    run.quiet = true; /* so that nearly all may leave, and the policy's own choice decides */
    for (size_t i = 0; i < ARRAY_COUNT(slots); i++) {
        run.config.capacity = slots[i];
        run.config.entries_max = slots[i];
        run.ids = 2 * slots[i] + 4;
        run.seed++;
        run_pair(policy, &run);
    }
}
