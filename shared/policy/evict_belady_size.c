/* Belady's rule with sizes: the largest product of size and distance to the next use leaves first, and what isn't asked for again
 * doesn't come in. A strong heuristic, not a bound (which cache is best is NP-hard with sizes: Chrobak, Woeginger, Makino, Xu,
 * Algorithmica 2012); Berger, Beckmann, Harchol-Balter, SIGMETRICS 2018, 2 call it Belady-Size.
 *
 * Exact, and fast though every product shrinks as time goes by, the larger objects' faster. An entry's product is a line over
 * time, size * (next - now), and the largest of many lines is kept by a kinetic tournament (Basch, Guibas, Hershberger, SODA 1997,
 * 3): a binary tree over the entries whose nodes hold the winner below them, and the first time when any node below may have
 * another one. Only those nodes are played again. A use or an insertion plays the nodes above its entry, and stops where neither
 * winner nor time changes; a choice plays what has expired. Memory: 24 bytes an entry. An entry that may not leave and would
 * costs a scan of all. */
#include "policy/policy.h"

__extension__ typedef __int128 int128; /* size < 2^63, and a time 2^64 at most: their product fits */

struct node {
    uint64_t until;  /* as long as `now` is before it, every winner from here down stands */
    uint32_t winner; /* NONE_INDEX: there is none */
    uint32_t zero;
};

/* nodes[1] is the root, those of [1, entries_max) have two below each, [2i] and [2i + 1]; from entries_max on they would be leaves,
 * which are the entries themselves. nodes[0].until is 1 + the entry that left and whose way up has not been played, or 0: what comes
 * next nearly always takes its place, and then one way does for both. */
static struct node *nodes_of(const struct evict_view *view)
{
    return view->state;
}

static inline int128 product(const struct evict_entry *entry, uint64_t now)
{
    return (int128)entry->size * ((int128)entry->key - (int128)now);
}

/* Total: what is never used again first, the larger of two such; then the larger product; then the older. */
static inline bool leaves_before(const struct evict_entry *a, const struct evict_entry *b, uint64_t now)
{
    int128 first, second;

    if (a->key == NONE_USE || b->key == NONE_USE) {
        if (a->key != b->key)
            return a->key == NONE_USE;
        return a->size != b->size ? a->size > b->size : a->order < b->order;
    }
    first = product(a, now);
    second = product(b, now);
    return first != second ? first > second : a->order < b->order;
}

/* When the loser's line has come above the winner's: size_w * (next_w - t) < size_l * (next_l - t), or equal and the loser is older. */
static inline uint64_t overtaken_at(const struct evict_entry *winner, const struct evict_entry *loser)
{
    uint64_t slower;
    uint128 lead;

    if (winner->key == NONE_USE || loser->size >= winner->size)
        return UINT64_MAX;
    slower = winner->size - loser->size;
    lead = (uint128)((int128)winner->size * winner->key - (int128)loser->size * loser->key); /* it leads now, so this isn't negative */
    if (loser->order < winner->order)
        lead += slower - 1;
    else
        lead += slower;
    if (lead >> 64 == 0)
        return (uint64_t)lead / slower; /* a machine's division, and nearly always */
    lead /= slower;
    return lead < UINT64_MAX ? (uint64_t)lead : UINT64_MAX;
}

static inline struct node node_at(const struct evict_view *view, uint32_t at)
{
    const uint32_t entry = at - view->entries_max;

    if (at < view->entries_max)
        return nodes_of(view)[at];
    return (struct node){UINT64_MAX, entry < view->entries_used && view->entries[entry].mark != 0 ? entry : NONE_INDEX, 0};
}

static inline struct node play(const struct evict_view *view, uint32_t at)
{
    struct node left = node_at(view, 2 * at);
    struct node right = node_at(view, 2 * at + 1);
    const struct evict_entry *a, *b;

    left.until = min_u64(left.until, right.until);
    if (right.winner == NONE_INDEX)
        return left;
    if (left.winner == NONE_INDEX) {
        left.winner = right.winner;
        return left;
    }
    a = &view->entries[left.winner];
    b = &view->entries[right.winner];
    if (leaves_before(b, a, view->now)) {
        left.until = min_u64(left.until, overtaken_at(b, a));
        left.winner = right.winner;
    } else {
        left.until = min_u64(left.until, overtaken_at(a, b));
    }
    return left;
}

/* What is above `entry`, after its line has changed: a node that it neither wins nor won, and whose time stays, hides it from all above. */
static void entry_changed(struct evict_view *view, uint32_t entry)
{
    struct node *nodes = nodes_of(view);

    for (uint32_t at = (entry + view->entries_max) / 2; at >= 1; at /= 2) {
        const struct node before = nodes[at];

        nodes[at] = play(view, at);
        if (before.winner == nodes[at].winner && before.winner != entry && before.until == nodes[at].until)
            return;
    }
}

/* Before anything else is played. */
static void left_is_played(struct evict_view *view)
{
    struct node *left = nodes_of(view);
    const uint64_t entry = left->until;

    left->until = 0;
    if (entry > 0)
        entry_changed(view, (uint32_t)(entry - 1));
}

static void play_expired(struct evict_view *view, uint32_t at)
{
    if (at >= view->entries_max || nodes_of(view)[at].until > view->now)
        return;
    play_expired(view, 2 * at);
    play_expired(view, 2 * at + 1);
    nodes_of(view)[at] = play(view, at);
}

static size_t belady_size_state_bytes(uint32_t entries_max)
{
    return entries_max * sizeof(struct node);
}

static void play_all(struct evict_view *view)
{
    for (uint32_t at = view->entries_max - 1; at >= 1; at--)
        nodes_of(view)[at] = play(view, at);
}

static void belady_size_grow(struct evict_view *view, const void *old_state, uint32_t old_entries_max)
{
    (void)old_state, (void)old_entries_max;
    play_all(view); /* who left has no mark */
}

static bool belady_size_miss(struct evict_view *view)
{
    return view->next_use != NONE_USE;
}

static void belady_size_insert(struct evict_view *view, uint32_t entry)
{
    if (nodes_of(view)[0].until == (uint64_t)entry + 1)
        nodes_of(view)[0].until = 0;
    left_is_played(view);
    view->entries[entry].key = view->next_use;
    view->entries[entry].mark = 1;
    entry_changed(view, entry);
}

static void belady_size_touch(struct evict_view *view, uint32_t entry)
{
    left_is_played(view);
    view->entries[entry].key = view->next_use;
    entry_changed(view, entry);
}

static void belady_size_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)evicted;
    left_is_played(view);
    view->entries[entry].mark = 0;
    nodes_of(view)[0].until = (uint64_t)entry + 1;
}

static uint32_t scan(const struct evict_view *view)
{
    uint32_t best = NONE_INDEX;

    for (uint32_t i = 0; i < view->entries_used; i++)
        if (view->entries[i].evictable &&
            (best == NONE_INDEX || leaves_before(&view->entries[i], &view->entries[best], view->now)))
            best = i;
    return best;
}

static uint32_t belady_size_victim(struct evict_view *view)
{
    uint32_t winner;

    left_is_played(view);
    play_expired(view, 1);
    winner = node_at(view, 1).winner;
    return winner != NONE_INDEX && view->entries[winner].evictable ? winner : scan(view);
}

const struct evict_policy evict_belady_size = {
    .name = "belady-size",
    .about = "the largest size times distance to its next use",
    .source = "Berger, Beckmann, Harchol-Balter, SIGMETRICS 2018, 2 (Belady-Size)",
    .offline = true,
    .state_bytes = belady_size_state_bytes,
    .grow = belady_size_grow,
    .miss = belady_size_miss,
    .insert = belady_size_insert,
    .touch = belady_size_touch,
    .remove = belady_size_remove,
    .victim = belady_size_victim,
};
