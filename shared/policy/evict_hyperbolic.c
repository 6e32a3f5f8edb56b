/* Hyperbolic caching (Blankstein, Sen, Freedman, USENIX ATC 2017, 2 and 3): what was used least per time since it came, times what its
 * load costs, per byte, leaves first. All priorities change all the time, so none is kept in order: the least of a sample leaves.
 *
 * uses * weight / age, where weight = cost / size with 24 fraction bits is worked out once. Two are compared crosswise, without a
 * division: uses and ages up to 2^32 and a weight of 64 bits fit 128. Where the sample is not smaller than the cache, all are looked at. */
#include "base/hash.h"
#include "policy/policy.h"

enum { KEY_samples };

#define PURPOSE 0x68797065 /* "hype" */
#define SAMPLES_MAX 1024

/* Of an entry. Its key is its weight. */
static uint64_t *came_at(const struct evict_view *view)
{
    return view->state;
}

static size_t hyperbolic_state_bytes(uint32_t entries_max)
{
    return entries_max * sizeof(uint64_t);
}

static void hyperbolic_insert(struct evict_view *view, uint32_t entry)
{
    struct evict_entry *came = &view->entries[entry];
    const uint128 weight = ((uint128)evict_reload_cost(view, came->bytes) << 24) / max_u64(came->size, 1);

    came->key = weight < UINT64_MAX ? max_u64((uint64_t)weight, 1) : UINT64_MAX;
    came_at(view)[entry] = view->now;
}

static void hyperbolic_touch(struct evict_view *view, uint32_t entry)
{
    (void)view, (void)entry;
}

static void hyperbolic_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)view, (void)entry, (void)evicted;
}

/* The best so far, with all that a comparison needs. */
struct best {
    uint32_t entry;
    uint64_t uses, age, weight, order;
};

/* Nothing is larger. */
static struct best none(void)
{
    return (struct best){NONE_INDEX, UINT32_MAX, 1, UINT64_MAX, UINT64_MAX};
}

static inline void look_at(const struct evict_view *view, uint32_t at, struct best *best)
{
    const struct evict_entry *entry = &view->entries[at];
    const uint64_t uses = min_u64(entry->hits, UINT32_MAX);
    const uint64_t age = min_u64(view->now + 1 - came_at(view)[at], UINT32_MAX);
    const uint128 left = (uint128)(uses * best->age) * entry->key;
    const uint128 right = (uint128)(best->uses * age) * best->weight;

    /* One branch, and seldom taken: that an entry is there and may leave is no more foreseeable than its order. */
    if (entry->evictable & ((left < right) | ((left == right) & (entry->order < best->order))))
        *best = (struct best){at, uses, age, entry->key, entry->order};
}

/* One draw starts a stream, and each of its numbers gives two; all are under way from memory before the first is looked at. */
static uint32_t sample(struct evict_view *view, uint32_t samples)
{
    const uint64_t start = evict_draw(view, PURPOSE);
    uint32_t drawn[SAMPLES_MAX];
    struct best best = none();

    for (uint32_t i = 0; i < samples; i += 2) {
        const uint64_t draw = hash_mix(start + i);

        drawn[i] = (uint32_t)(((draw & UINT32_MAX) * view->entries_used) >> 32);
        drawn[i + 1] = (uint32_t)(((draw >> 32) * view->entries_used) >> 32);
        __builtin_prefetch(&view->entries[drawn[i]]);
        __builtin_prefetch(&view->entries[drawn[i + 1]]);
    }
    for (uint32_t i = 0; i < samples; i++)
        look_at(view, drawn[i], &best);
    return best.entry != NONE_INDEX ? best.entry : evict_draw_entry(view, PURPOSE);
}

static uint32_t hyperbolic_victim(struct evict_view *view)
{
    const uint32_t samples = (uint32_t)view->parameters[KEY_samples];
    struct best best = none();

    if (view->entries_used > samples)
        return sample(view, samples);
    for (uint32_t i = 0; i < view->entries_used; i++)
        look_at(view, i, &best);
    return best.entry;
}

static const struct evict_key hyperbolic_keys[] = {{"samples", "entries that are looked at, the least of which leaves", 64, 1, SAMPLES_MAX - 1}};

const struct evict_policy evict_hyperbolic = {
    .name = "hyperbolic",
    .about = "least use times reload cost per byte and time since it came, of a sample",
    .source = "Blankstein, Sen, Freedman, USENIX ATC 2017, 2 and 3",
    .keys = hyperbolic_keys,
    .keys_count = ARRAY_COUNT(hyperbolic_keys),
    .state_bytes = hyperbolic_state_bytes,
    .insert = hyperbolic_insert,
    .touch = hyperbolic_touch,
    .remove = hyperbolic_remove,
    .victim = hyperbolic_victim,
};
