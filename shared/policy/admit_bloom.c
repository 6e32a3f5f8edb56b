/* On its second request only (Maggs, Sitaraman, ACM SIGCOMM Computer Communication Review 45(3), 2015, 3.2: "cache on second hit"): what
 * is asked for once never pushes anything out. Two bloom filters remember who was asked for; the older is emptied in turn, so a name is
 * remembered for one turn at least and two at most. */
#include "cache/sketch.h"
#include "policy/policy.h"

enum { KEY_names };

static size_t bloom_state_bytes(uint32_t entries_max)
{
    return bloom_bytes(entries_max);
}

static void bloom_set_up(struct admit_view *view)
{
    bloom_begin(view->state, view->entries_max);
}

static void bloom_enlarge(struct admit_view *view, const void *old_state, uint32_t old_entries_max)
{
    (void)old_entries_max;
    bloom_grow(view->state, view->entries_max, old_state);
}

static void bloom_use(struct admit_view *view, uint64_t name, uint64_t size)
{
    (void)size;
    (void)bloom_add(view->state, name, (uint64_t)(view->parameters[KEY_names] * view->entries_max));
}

static bool bloom_wants(struct admit_view *view, const struct evict_ask *asked, const struct evict_entry *victim)
{
    const struct bloom *bloom = view->state;

    (void)asked, (void)victim;
    return bloom->seen;
}

static const struct evict_key bloom_keys[] = {{"names", "per entry, remembered for a turn at least", 16, 1, 16}};

const struct admit_policy admit_bloom = {
    .name = "bloom",
    .about = "what was asked for before",
    .source = "Maggs, Sitaraman, ACM SIGCOMM CCR 45(3), 2015",
    .keys = bloom_keys,
    .keys_count = ARRAY_COUNT(bloom_keys),
    .state_bytes = bloom_state_bytes,
    .begin = bloom_set_up,
    .grow = bloom_enlarge,
    .use = bloom_use,
    .wants = bloom_wants,
};
