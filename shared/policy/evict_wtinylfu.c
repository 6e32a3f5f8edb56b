/* W-TinyLFU (Einziger, Friedman, Manes, ACM Transactions on Storage 13(4), 2017, 4): a small LRU window takes in what comes, and the
 * rest is a segmented LRU of two parts. What falls out of the window goes over into the main part only if it was asked for more
 * often, lately, than what would leave there for it; how often, a sketch says that halves its counts now and then.
 *
 * Sizes: the paper has none. What falls out must have been asked for more often than all together that would have to leave for it
 * ("aggregated victims": Einziger, Eytan, Friedman, Manes, ACM Transactions on Storage 18(3), 2022, 3.3); with one size that is the
 * paper's rule. The window has room for one at least: an object larger than it is in there alone, and the main part makes room. */
#include "cache/sketch.h"
#include "policy/policy.h"

enum { WINDOW, PROBATION, PROTECTED };
enum { KEY_window, KEY_protected, KEY_sample };

static uint64_t window_limit(const struct evict_view *view)
{
    return max_u64(1, (uint64_t)((double)view->capacity * view->parameters[KEY_window] / 100.0));
}

static uint64_t main_limit(const struct evict_view *view)
{
    return view->capacity - min_u64(window_limit(view), view->capacity);
}

static uint64_t main_size(const struct evict_view *view)
{
    return view->lists[PROBATION].size + view->lists[PROTECTED].size;
}

/* The period follows what is there, for a cache of bytes can't say how many entries it will hold. Halving walks over a sketch that is
 * sized by the most there may be; a sixteenth of it bounds the cost of that to two words an addition. */
static void count(struct evict_view *view, uint64_t name)
{
    const uint32_t entries = max_u32(1, max_u32(view->entries_used, view->entries_max / 16));

    sketch_add(view->state, name, (uint64_t)(view->parameters[KEY_sample] * entries));
}

static void move(struct evict_view *view, uint32_t entry, uint8_t list)
{
    evict_list_remove(view, entry);
    evict_list_push_head(view, list, entry);
}

static size_t wtinylfu_state_bytes(uint32_t entries_max)
{
    return sketch_bytes(entries_max);
}

static void wtinylfu_begin(struct evict_view *view)
{
    sketch_begin(view->state, view->entries_max);
}

static void wtinylfu_grow(struct evict_view *view, const void *old_state, uint32_t old_entries_max)
{
    (void)old_entries_max;
    sketch_grow(view->state, view->entries_max, old_state);
}

static bool wtinylfu_miss(struct evict_view *view)
{
    count(view, view->asked.name);
    return true;
}

/* While there is room, what falls out of the window needs nobody's place. */
static void wtinylfu_insert(struct evict_view *view, uint32_t entry)
{
    evict_list_push_head(view, WINDOW, entry);
    while (view->lists[WINDOW].size > window_limit(view) && view->lists[WINDOW].count > 1)
        move(view, view->lists[WINDOW].tail, PROBATION);
}

/* The protected part, too, has room for one at least. */
static void wtinylfu_touch(struct evict_view *view, uint32_t entry)
{
    const uint64_t limit = (uint64_t)((double)main_limit(view) * view->parameters[KEY_protected] / 100.0);

    count(view, view->entries[entry].name);
    if (view->entries[entry].list != PROBATION) {
        evict_list_to_head(view, entry);
        return;
    }
    move(view, entry, PROTECTED);
    while (view->lists[PROTECTED].size > limit && view->lists[PROTECTED].count > 1)
        move(view, view->lists[PROTECTED].tail, PROBATION);
}

static void wtinylfu_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    evict_list_remove(view, entry);
}

static uint32_t main_victim(const struct evict_view *view)
{
    const uint32_t entry = evict_list_victim(view, PROBATION);

    return entry != NONE_INDEX ? entry : evict_list_victim(view, PROTECTED);
}

/* Whether `room` can be made in the main part by what was asked for less often, all together, than `frequency` times. */
static bool wins(const struct evict_view *view, uint32_t frequency, uint64_t room)
{
    for (uint8_t list = PROBATION; list <= PROTECTED; list++)
        for (uint32_t at = view->lists[list].tail; at != NONE_INDEX; at = view->entries[at].prev) {
            const struct evict_entry *entry = &view->entries[at];
            uint32_t theirs;

            if (!entry->evictable)
                continue;
            theirs = sketch_estimate(view->state, entry->name);
            if (theirs >= frequency)
                return false;
            if (entry->size >= room)
                return true;
            frequency -= theirs;
            room -= entry->size;
        }
    return false;
}

/* The window makes room for what comes, and for whom it lets go there is room in the main part, or a contest. It ends: each turn takes
 * one out of the window. */
static uint32_t wtinylfu_victim(struct evict_view *view)
{
    for (;;) {
        const uint32_t candidate = evict_list_victim(view, WINDOW);
        const uint32_t victim = main_victim(view);
        uint64_t needed;

        if (candidate == NONE_INDEX)
            return victim;
        if (victim != NONE_INDEX && view->lists[WINDOW].size <= window_limit(view) &&
            view->asked.size <= window_limit(view) - view->lists[WINDOW].size)
            return victim;
        needed = main_size(view) + view->entries[candidate].size;
        if (needed > main_limit(view)) {
            if (!wins(view, sketch_estimate(view->state, view->entries[candidate].name), needed - main_limit(view)))
                return candidate;
            move(view, candidate, PROBATION);
            return victim;
        }
        move(view, candidate, PROBATION);
    }
}

static const struct evict_key wtinylfu_keys[] = {
    {"window", "percent of the cache that takes in what comes", 1, 0, 100},
    {"protected", "percent of the rest for what was used again there", 80, 0, 100},
    {"sample", "uses per entry until counts are halved", 32, 1, 1000},
};

const struct evict_policy evict_wtinylfu = {
    .name = "wtinylfu",
    .about = "a window, and beyond it what was used more often than what it replaces",
    .source = "Einziger, Friedman, Manes, ACM Transactions on Storage 13(4), 2017, 3 and 4",
    .keys = wtinylfu_keys,
    .keys_count = ARRAY_COUNT(wtinylfu_keys),
    .state_bytes = wtinylfu_state_bytes,
    .begin = wtinylfu_begin,
    .grow = wtinylfu_grow,
    .miss = wtinylfu_miss,
    .insert = wtinylfu_insert,
    .touch = wtinylfu_touch,
    .remove = wtinylfu_remove,
    .victim = wtinylfu_victim,
};
