/* Hyperbolic caching (Blankstein, Sen, Freedman, USENIX ATC 2017, 2 and 3): what was used least per time since it came, times what its
 * load costs, per byte, leaves first. All priorities change all the time, so none is kept in order: the least of a sample leaves.
 *
 * uses * weight / age, where weight = cost / size with 24 fraction bits is worked out once. Two are compared crosswise, without a
 * division: uses and ages up to 2^32 and a weight of 64 bits fit 128. That is done for the few that are least to within a double's
 * precision, which one multiplication each finds. Where the sample is not smaller than the cache, all are looked at. */
#include "policy/policy.h"

enum { KEY_samples };

#define PURPOSE 0x68797065 /* "hype" */
#define SAMPLES_MAX 1024
#define NEAR_ENTRIES 1000u /* are in the first cache anyway */

/* What a comparison needs of an entry, apart from it: looked at by the dozen, in any order. */
struct use {
    uint64_t weight;
    double came_at;  /* a whole number, as is every `now` below 2^53 */
    double inverse;  /* 1 / (uses * weight) */
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

static void used(struct use *use)
{
    use->inverse = 1 / ((double)use->uses * (double)use->weight);
}

static void hyperbolic_insert(struct evict_view *view, uint32_t entry)
{
    const struct evict_entry *came = &view->entries[entry];
    const uint128 weight = ((uint128)evict_reload_cost(view, came->bytes) << 24) / max_u64(came->size, 1);

    uses_of(view)[entry] = (struct use){.weight = weight < UINT64_MAX ? max_u64((uint64_t)weight, 1) : UINT64_MAX,
                                        .came_at = (double)view->now, .uses = 1, .entry = entry};
    used(&uses_of(view)[entry]);
}

static void hyperbolic_touch(struct evict_view *view, uint32_t entry)
{
    struct use *use = &uses_of(view)[entry];

    use->uses += use->uses < UINT32_MAX;
    used(use);
}

static void hyperbolic_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    uses_of(view)[entry] = (struct use){UINT64_MAX, (double)view->now, 0, UINT32_MAX, NONE_INDEX};
}

/* The least of those that may leave. `best` is the least so far, and `age` its age; at first what nothing leaves after. */
struct least {
    struct use best;
    uint64_t age;
};

static struct least none(void)
{
    return (struct least){{UINT64_MAX, 0, 0, UINT32_MAX, NONE_INDEX}, 1};
}

static bool is_older(const struct evict_view *view, uint32_t a, uint32_t b)
{
    return b == NONE_INDEX || (a != NONE_INDEX && view->entries[a].order < view->entries[b].order);
}

static inline double age_of(double now, const struct use *use)
{
    const double age = now + 1 - use->came_at;

    return age < UINT32_MAX ? age : UINT32_MAX;
}

static void look_at(const struct evict_view *view, uint32_t at, struct least *least)
{
    const struct use *use = &uses_of(view)[at];
    const uint64_t age = (uint64_t)age_of((double)view->now, use);
    const uint128 left = (uint128)(use->uses * least->age) * use->weight;
    const uint128 right = (uint128)(least->best.uses * age) * least->best.weight;

    if (left > right || (left == right && !is_older(view, use->entry, least->best.entry)))
        return;
    if (view->entries[at].evictable)
        *least = (struct least){*use, age};
}

/* What is off by more than a double's error isn't the least. Where all of the rest may not leave, everything is looked at. */
static uint32_t least_of(const struct evict_view *view, const uint32_t *drawn, uint32_t count)
{
    double ratios[SAMPLES_MAX]; /* age / (uses * weight): the largest leaves */
    double largest = 0;
    const double now = (double)view->now;
    struct least least = none();

    for (uint32_t i = 0; i < count; i++) {
        const struct use *use = &uses_of(view)[drawn[i]];

        ratios[i] = age_of(now, use) * use->inverse;
        largest = ratios[i] > largest ? ratios[i] : largest;
    }
    for (uint32_t i = 0; i < count; i++)
        if (ratios[i] >= largest * (1 - 0x1p-40))
            look_at(view, drawn[i], &least);
    if (least.best.entry != NONE_INDEX)
        return least.best.entry;
    for (uint32_t i = 0; i < count; i++)
        look_at(view, drawn[i], &least);
    return least.best.entry;
}

static uint32_t hyperbolic_victim(struct evict_view *view)
{
    const uint32_t samples = (uint32_t)view->parameters[KEY_samples];
    uint32_t drawn[SAMPLES_MAX];
    uint32_t entry;

    if (view->entries_used > samples) {
        evict_draw_sample(view, PURPOSE, samples, drawn);
        for (uint32_t i = 0; view->entries_used > NEAR_ENTRIES && i < samples; i++)
            __builtin_prefetch(&uses_of(view)[drawn[i]]);
        entry = least_of(view, drawn, samples);
        return entry != NONE_INDEX ? entry : evict_draw_entry(view, PURPOSE);
    }
    for (uint32_t i = 0; i < view->entries_used; i++)
        drawn[i] = i;
    return least_of(view, drawn, view->entries_used);
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
