/* S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction", SOSP 2023, section 4.1 and algorithm 1):
 * three first-in-first-out queues. What is new enters S, a tenth of the cache; at S's end what was used more than once since goes to
 * M and the rest is remembered in G; who is asked for while in G comes to M. M spares what was used, with a counter up to 3.
 *
 * Where the paper leaves freedom, this follows the reference simulator, so that numbers can be compared: G remembers nine tenths of
 * the cache; a move to M clears the counter (section 4.1; algorithm 1 doesn't say), and M gives way not at the move but when
 * its turn comes, which is while it is larger than its nine tenths or S is empty. Unlike the reference, S takes an object
 * larger than itself, and has room for one whatever the capacity. */
#include "policy/policy.h"

enum { S, M };
#define G 0
#define MARK_MAX 3

struct s3fifo_state {
    uint64_t main_size;
    uint64_t ghost_size;
    uint8_t threshold;
    bool remembered; /* what is asked for was in G */
};

static size_t s3fifo_state_bytes(uint32_t entries_max)
{
    (void)entries_max;
    return sizeof(struct s3fifo_state);
}

static void s3fifo_begin(struct evict_view *view)
{
    struct s3fifo_state *state = view->state;
    const uint64_t small_size = evict_share(view, view->parameters[0]);

    state->main_size = view->capacity - min_u64(small_size, view->capacity);
    state->ghost_size = evict_share(view, view->parameters[1]);
    state->threshold = (uint8_t)view->parameters[2];
}

static bool s3fifo_miss(struct evict_view *view)
{
    struct s3fifo_state *state = view->state;
    const uint32_t ghost = evict_ghost_find(&view->ghosts, view->asked.name);

    state->remembered = ghost != NONE_INDEX;
    if (state->remembered)
        evict_ghost_remove(&view->ghosts, ghost);
    return true;
}

static void s3fifo_insert(struct evict_view *view, uint32_t entry)
{
    const struct s3fifo_state *state = view->state;

    evict_list_push_head(view, state->remembered ? M : S, entry);
}

static void s3fifo_touch(struct evict_view *view, uint32_t entry)
{
    struct evict_entry *used = &view->entries[entry];

    used->mark = (uint8_t)(used->mark + (used->mark < MARK_MAX));
}

static void s3fifo_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    const struct s3fifo_state *state = view->state;
    const struct evict_entry *gone = &view->entries[entry];

    if (evicted && gone->list == S)
        evict_ghost_remember(&view->ghosts, G, gone->name, gone->size, state->ghost_size);
    evict_list_remove(view, entry);
}

/* From S's tail: to M what was used enough, the answer what was not. */
static uint32_t small_victim(struct evict_view *view)
{
    const struct s3fifo_state *state = view->state;
    uint32_t entry = view->lists[S].tail;

    while (entry != NONE_INDEX) {
        struct evict_entry *passed = &view->entries[entry];
        const uint32_t before = passed->prev;

        if (passed->evictable && passed->mark < state->threshold)
            return entry;
        if (passed->evictable) {
            evict_list_remove(view, entry);
            passed->mark = 0;
            evict_list_push_head(view, M, entry);
        }
        entry = before;
    }
    return NONE_INDEX;
}

static uint32_t s3fifo_victim(struct evict_view *view)
{
    const struct s3fifo_state *state = view->state;
    uint32_t entry = NONE_INDEX;

    if (view->lists[M].size > state->main_size)
        entry = evict_list_second_chance(view, M);
    if (entry == NONE_INDEX)
        entry = small_victim(view);
    /* What could leave may just have come to M. */
    return entry != NONE_INDEX ? entry : evict_list_second_chance(view, M);
}

static void s3fifo_verify(const struct evict_view *view)
{
    const struct s3fifo_state *state = view->state;

    evict_ghosts_check_size(&view->ghosts, G, state->ghost_size);
    for (uint8_t list = S; list <= M; list++)
        for (uint32_t at = view->lists[list].head; at != NONE_INDEX; at = view->entries[at].next)
            check(view->entries[at].mark <= MARK_MAX);
}

static const struct evict_key s3fifo_keys[] = {
    {"small", "percent of the capacity for what is new (S)", 10, 0, 100},
    {"ghost", "percent of the capacity that is remembered (G)", 90, 0, 100},
    {"threshold", "uses in S after the first that bring to M", 2, 1, MARK_MAX},
};

const struct evict_policy evict_s3fifo = {
    .name = "s3fifo",
    .about = "three queues: on probation, proven, remembered",
    .source = "Yang, Zhang, Qiu, Yue, Rashmi, FIFO queues are all you need for cache eviction, SOSP 2023, section 4.1, algorithm 1",
    .keys = s3fifo_keys,
    .keys_count = ARRAY_COUNT(s3fifo_keys),
    .ghosts_percent = 100,
    .state_bytes = s3fifo_state_bytes,
    .begin = s3fifo_begin,
    .miss = s3fifo_miss,
    .insert = s3fifo_insert,
    .touch = s3fifo_touch,
    .remove = s3fifo_remove,
    .victim = s3fifo_victim,
    .verify = s3fifo_verify,
};
