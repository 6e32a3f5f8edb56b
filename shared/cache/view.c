/* The list and the heap that eviction policies order their entries by. Plain bookkeeping: nothing here chooses, except
 * evict_heap_victim(), which answers the smallest key that may leave. */
#include "cache/view.h"

void evict_list_push_head(struct evict_view *view, uint32_t entry)
{
    struct evict_entry *pushed = &view->entries[entry];

    pushed->prev = NONE_INDEX;
    pushed->next = view->head;
    if (view->head != NONE_INDEX)
        view->entries[view->head].prev = entry;
    else
        view->tail = entry;
    view->head = entry;
}

void evict_list_remove(struct evict_view *view, uint32_t entry)
{
    struct evict_entry *removed = &view->entries[entry];

    if (removed->prev != NONE_INDEX)
        view->entries[removed->prev].next = removed->next;
    else
        view->head = removed->next;
    if (removed->next != NONE_INDEX)
        view->entries[removed->next].prev = removed->prev;
    else
        view->tail = removed->prev;
    removed->prev = NONE_INDEX;
    removed->next = NONE_INDEX;
}

/* Total, because `order` is unique: the heap's shape may differ between histories, its minimum never does. */
static bool leaves_before(const struct evict_view *view, uint32_t a, uint32_t b)
{
    const struct evict_entry *first = &view->entries[a];
    const struct evict_entry *second = &view->entries[b];

    return first->key != second->key ? first->key < second->key : first->order < second->order;
}

static void heap_place(struct evict_view *view, uint32_t at, uint32_t entry)
{
    view->heap[at] = entry;
    view->entries[entry].heap_at = at;
}

static uint32_t sift_up(struct evict_view *view, uint32_t at, uint32_t entry)
{
    while (at > 0 && leaves_before(view, entry, view->heap[(at - 1) / 2])) {
        heap_place(view, at, view->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    return at;
}

static uint32_t sift_down(struct evict_view *view, uint32_t at, uint32_t entry)
{
    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= view->heap_count)
            return at;
        if (child + 1 < view->heap_count && leaves_before(view, view->heap[child + 1], view->heap[child]))
            child++;
        if (!leaves_before(view, view->heap[child], entry))
            return at;
        heap_place(view, at, view->heap[child]);
        at = child;
    }
}

void evict_heap_insert(struct evict_view *view, uint32_t entry)
{
    check(view->heap_count < view->entries_max);
    view->heap_count++;
    heap_place(view, sift_up(view, view->heap_count - 1, entry), entry);
}

void evict_heap_remove(struct evict_view *view, uint32_t entry)
{
    uint32_t at = view->entries[entry].heap_at;
    uint32_t last;

    check(at < view->heap_count);
    check(view->heap[at] == entry);
    view->heap_count--;
    last = view->heap[view->heap_count];
    view->entries[entry].heap_at = NONE_INDEX;
    if (last == entry)
        return;
    heap_place(view, at, last);
    evict_heap_update(view, last);
}

void evict_heap_update(struct evict_view *view, uint32_t entry)
{
    uint32_t at = view->entries[entry].heap_at;

    check(at < view->heap_count);
    at = sift_up(view, at, entry);
    heap_place(view, at, entry);
    heap_place(view, sift_down(view, at, entry), entry);
}

/* The better of `best` and what the subtree at `at` offers. Keys only grow downwards, so a subtree ends at its first
 * evictable entry, and at anything that leaves after `best`. The depth is the heap's: at most 32. */
static uint32_t heap_search(const struct evict_view *view, uint32_t at, uint32_t best)
{
    uint32_t child = 2 * at + 1;
    uint32_t entry;

    if (at >= view->heap_count)
        return best;
    entry = view->heap[at];
    if (best != NONE_INDEX && !leaves_before(view, entry, best))
        return best;
    if (view->entries[entry].evictable)
        return entry;
    /* The likelier child first: what it finds prunes the other. */
    if (child + 1 < view->heap_count && leaves_before(view, view->heap[child + 1], view->heap[child])) {
        best = heap_search(view, child + 1, best);
        return heap_search(view, child, best);
    }
    best = heap_search(view, child, best);
    return heap_search(view, child + 1, best);
}

uint32_t evict_heap_victim(const struct evict_view *view)
{
    return heap_search(view, 0, NONE_INDEX);
}

static void list_check(const struct evict_view *view)
{
    uint32_t before = NONE_INDEX;
    uint32_t length = 0;

    for (uint32_t at = view->head; at != NONE_INDEX; at = view->entries[at].next) {
        check(at < view->entries_max);
        check(view->entries[at].present);
        check(view->entries[at].prev == before);
        before = at;
        length++;
        check(length <= view->entries_max);
    }
    check(view->tail == before);
    check(view->hand == NONE_INDEX || view->entries[view->hand].present);
}

void evict_view_check(const struct evict_view *view)
{
    list_check(view);
    check(view->heap_count <= view->entries_max);
    for (uint32_t at = 0; at < view->heap_count; at++) {
        uint32_t entry = view->heap[at];

        check(entry < view->entries_max);
        check(view->entries[entry].present);
        check(view->entries[entry].heap_at == at);
        check(at == 0 || leaves_before(view, view->heap[(at - 1) / 2], entry));
    }
}
