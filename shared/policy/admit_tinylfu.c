/* TinyLFU (Einziger, Friedman, Manes, ACM Transactions on Storage 13(4), 2017, 3): what comes in must have been asked for more often,
 * lately, than what would leave for it. The paper's doorkeeper (3.4.2) spares counters for what is asked for once; here they have four
 * bits each, and there are enough. */
#include "cache/sketch.h"
#include "policy/policy.h"

enum { KEY_sample };

static size_t tinylfu_state_bytes(uint32_t entries_max)
{
    return sketch_bytes(entries_max);
}

static void tinylfu_begin(struct admit_view *view)
{
    sketch_begin(view->state, view->entries_max);
}

static void tinylfu_grow(struct admit_view *view, const void *old_state, uint32_t old_entries_max)
{
    (void)old_entries_max;
    sketch_grow(view->state, view->entries_max, old_state);
}

static void tinylfu_use(struct admit_view *view, uint64_t name, uint64_t size)
{
    (void)size;
    sketch_add(view->state, name, (uint64_t)(view->parameters[KEY_sample] * view->entries_max));
}

static bool tinylfu_wants(struct admit_view *view, const struct evict_ask *asked, const struct evict_entry *victim)
{
    return victim == NULL || sketch_estimate(view->state, asked->name) > sketch_estimate(view->state, victim->name);
}

static const struct evict_key tinylfu_keys[] = {{"sample", "uses per entry until counts are halved", 32, 1, 1000}};

const struct admit_policy admit_tinylfu = {
    .name = "tinylfu",
    .about = "what was asked for more often than what would leave for it",
    .source = "Einziger, Friedman, Manes, ACM Transactions on Storage 13(4), 2017, 3",
    .keys = tinylfu_keys,
    .keys_count = ARRAY_COUNT(tinylfu_keys),
    .state_bytes = tinylfu_state_bytes,
    .begin = tinylfu_begin,
    .grow = tinylfu_grow,
    .use = tinylfu_use,
    .wants = tinylfu_wants,
};
