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

/* What a comparison needs of an entry, apart from it: looked at by the dozen, in any order. */
struct use {
    uint64_t weight;
    uint64_t came_at;
    uint32_t uses;   /* up to the largest number. An absent one has that, and the largest weight: nothing leaves after it. */
    uint32_t entry;
};

static struct use *uses_of(const struct evict_view *view)
{
    return view->state;
}

static size_t hyperbolic_state_bytes(uint32_t entries_max)
{
    return entries_max * sizeof(struct use);
}

static void hyperbolic_insert(struct evict_view *view, uint32_t entry)
{
    const struct evict_entry *came = &view->entries[entry];
    const uint128 weight = ((uint128)evict_reload_cost(view, came->bytes) << 24) / max_u64(came->size, 1);

    uses_of(view)[entry] = (struct use){weight < UINT64_MAX ? max_u64((uint64_t)weight, 1) : UINT64_MAX, view->now, 1, entry};
}

static void hyperbolic_touch(struct evict_view *view, uint32_t entry)
{
    struct use *use = &uses_of(view)[entry];

    use->uses += use->uses < UINT32_MAX;
}

static void hyperbolic_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    uses_of(view)[entry] = (struct use){UINT64_MAX, view->now, UINT32_MAX, NONE_INDEX};
}

/* The least of those that may leave. `best` is the least so far, and `age` its age; at first what nothing leaves after. */
struct least {
    struct use best;
    uint64_t age;
};

static struct least none(void)
{
    return (struct least){{UINT64_MAX, 0, UINT32_MAX, NONE_INDEX}, 1};
}

static bool is_older(const struct evict_view *view, uint32_t a, uint32_t b)
{
    return b == NONE_INDEX || (a != NONE_INDEX && view->entries[a].order < view->entries[b].order);
}

static inline void look_at(const struct evict_view *view, uint32_t at, struct least *least)
{
    const struct use *use = &uses_of(view)[at];
    const uint64_t age = min_u64(view->now + 1 - use->came_at, UINT32_MAX);
    const uint128 left = (uint128)(use->uses * least->age) * use->weight;
    const uint128 right = (uint128)(least->best.uses * age) * least->best.weight;

    if (left > right || (left == right && !is_older(view, use->entry, least->best.entry)))
        return;
    if (view->entries[at].evictable)
        *least = (struct least){*use, age};
}

/* One draw starts a stream, and each of its numbers gives two; all are under way from memory before the first is looked at. */
static uint32_t sample(struct evict_view *view, uint32_t samples)
{
    const uint64_t start = evict_draw(view, PURPOSE);
    uint32_t drawn[SAMPLES_MAX];
    struct least least = none();

    for (uint32_t i = 0; i < samples; i += 2) {
        const uint64_t draw = hash_mix(start + i);

        drawn[i] = (uint32_t)(((draw & UINT32_MAX) * view->entries_used) >> 32);
        drawn[i + 1] = (uint32_t)(((draw >> 32) * view->entries_used) >> 32);
        __builtin_prefetch(&uses_of(view)[drawn[i]]);
        __builtin_prefetch(&uses_of(view)[drawn[i + 1]]);
    }
    for (uint32_t i = 0; i < samples; i++)
        look_at(view, drawn[i], &least);
    return least.best.entry != NONE_INDEX ? least.best.entry : evict_draw_entry(view, PURPOSE);
}

static uint32_t hyperbolic_victim(struct evict_view *view)
{
    const uint32_t samples = (uint32_t)view->parameters[KEY_samples];
    struct least least = none();

    if (view->entries_used > samples)
        return sample(view, samples);
    for (uint32_t i = 0; i < view->entries_used; i++)
        look_at(view, i, &least);
    return least.best.entry;
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
