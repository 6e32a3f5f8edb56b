/* Least frequently used, counted while in the cache: a count is forgotten when its entry leaves. Of equals leaves the one whose last use
 * is longest ago. It never ages, so yesterday's favourite stays until something was used more often: gdsf mends that.
 *
 * In constant time (Shah, Mitra, Matani, "An O(1) algorithm for implementing the LFU cache eviction scheme", 2010): entries of one
 * count are a list, the list of a bucket, and the buckets are a list by their counts. A use moves an entry to the next bucket. */
#include "policy/policy.h"

struct bucket {
    uint64_t hits;
    uint32_t head;   /* used last */
    uint32_t tail;
    uint32_t lower;  /* the buckets around it */
    uint32_t higher; /* of a free bucket: the next free one */
};

/* No bucket is empty, so there are as many as entries at most, and one more while an entry moves. */
struct lfu_state {
    uint32_t lowest;
    uint32_t free;
    uint32_t used; /* never taken beyond */
    uint32_t zero;
    struct bucket buckets[];
};

static size_t lfu_state_bytes(uint32_t entries_max)
{
    return sizeof(struct lfu_state) + ((size_t)entries_max + 1) * sizeof(struct bucket);
}

static void lfu_begin(struct evict_view *view)
{
    struct lfu_state *state = view->state;

    state->lowest = NONE_INDEX;
    state->free = NONE_INDEX;
}

static uint32_t bucket_add(struct lfu_state *state, uint64_t hits, uint32_t lower, uint32_t higher)
{
    uint32_t bucket = state->free;

    if (bucket == NONE_INDEX)
        bucket = state->used++;
    else
        state->free = state->buckets[bucket].higher;
    state->buckets[bucket] = (struct bucket){hits, NONE_INDEX, NONE_INDEX, lower, higher};
    if (lower != NONE_INDEX)
        state->buckets[lower].higher = bucket;
    else
        state->lowest = bucket;
    if (higher != NONE_INDEX)
        state->buckets[higher].lower = bucket;
    return bucket;
}

static void bucket_remove(struct lfu_state *state, uint32_t bucket)
{
    struct bucket *gone = &state->buckets[bucket];

    if (gone->lower != NONE_INDEX)
        state->buckets[gone->lower].higher = gone->higher;
    else
        state->lowest = gone->higher;
    if (gone->higher != NONE_INDEX)
        state->buckets[gone->higher].lower = gone->lower;
    gone->higher = state->free;
    state->free = bucket;
}

static void join(struct evict_view *view, uint32_t bucket, uint32_t entry)
{
    struct lfu_state *state = view->state;
    struct bucket *into = &state->buckets[bucket];
    struct evict_entry *joining = &view->entries[entry];

    joining->key = bucket;
    joining->prev = NONE_INDEX;
    joining->next = into->head;
    if (into->head != NONE_INDEX)
        view->entries[into->head].prev = entry;
    else
        into->tail = entry;
    into->head = entry;
}

static void leave(struct evict_view *view, uint32_t entry)
{
    struct lfu_state *state = view->state;
    const struct evict_entry *leaving = &view->entries[entry];
    const uint32_t bucket = (uint32_t)leaving->key;
    struct bucket *from = &state->buckets[bucket];

    if (leaving->prev != NONE_INDEX)
        view->entries[leaving->prev].next = leaving->next;
    else
        from->head = leaving->next;
    if (leaving->next != NONE_INDEX)
        view->entries[leaving->next].prev = leaving->prev;
    else
        from->tail = leaving->prev;
    if (from->head == NONE_INDEX)
        bucket_remove(state, bucket);
}

static void lfu_insert(struct evict_view *view, uint32_t entry)
{
    struct lfu_state *state = view->state;
    uint32_t bucket = state->lowest;

    if (bucket == NONE_INDEX || state->buckets[bucket].hits > 1)
        bucket = bucket_add(state, 1, NONE_INDEX, bucket);
    join(view, bucket, entry);
}

static void lfu_touch(struct evict_view *view, uint32_t entry)
{
    struct lfu_state *state = view->state;
    const uint64_t hits = view->entries[entry].hits;
    const uint32_t bucket = (uint32_t)view->entries[entry].key;
    struct bucket *from = &state->buckets[bucket];
    uint32_t next = from->higher;

    if (next == NONE_INDEX || state->buckets[next].hits > hits) {
        if (from->head == from->tail) { /* alone: its bucket rises with it */
            from->hits = hits;
            return;
        }
        next = bucket_add(state, hits, bucket, next);
    }
    leave(view, entry);
    join(view, next, entry);
}

static void lfu_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    leave(view, entry);
}

static uint32_t lfu_victim(struct evict_view *view)
{
    const struct lfu_state *state = view->state;

    for (uint32_t bucket = state->lowest; bucket != NONE_INDEX; bucket = state->buckets[bucket].higher)
        for (uint32_t entry = state->buckets[bucket].tail; entry != NONE_INDEX; entry = view->entries[entry].prev)
            if (view->entries[entry].evictable)
                return entry;
    return NONE_INDEX;
}

static void lfu_verify(const struct evict_view *view)
{
    const struct lfu_state *state = view->state;
    uint64_t hits = 0;
    uint32_t count = 0;
    uint32_t present = 0;

    for (uint32_t bucket = state->lowest; bucket != NONE_INDEX; bucket = state->buckets[bucket].higher) {
        check(bucket < state->used && state->used <= view->entries_max + 1);
        check(state->buckets[bucket].hits > hits);
        hits = state->buckets[bucket].hits;
        check(state->buckets[bucket].head != NONE_INDEX);
        for (uint32_t at = state->buckets[bucket].head; at != NONE_INDEX; at = view->entries[at].next) {
            check(view->entries[at].key == bucket && view->entries[at].hits == hits);
            check(++count <= view->entries_used);
        }
    }
    for (uint32_t i = 0; i < view->entries_used; i++)
        present += view->entries[i].present;
    check(count == present);
}

const struct evict_policy evict_lfu = {
    .name = "lfu",
    .about = "least often used since it was loaded",
    .source = "folklore; Shah, Mitra, Matani, An O(1) algorithm for implementing the LFU cache eviction scheme, 2010",
    .state_bytes = lfu_state_bytes,
    .begin = lfu_begin,
    .insert = lfu_insert,
    .touch = lfu_touch,
    .remove = lfu_remove,
    .victim = lfu_victim,
    .verify = lfu_verify,
};
