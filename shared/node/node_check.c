/* Every invariant of the node core: lists, counts, pins, and that nothing waits which could go on. */
#include "node/state.h"

/* What a walk over the live wants and items finds. */
struct sums {
    uint32_t waiting, says, queued, fetching, lost;
    uint64_t pinned;
};

static uint32_t list_length(const struct list *list, const struct link *links, uint32_t most)
{
    uint32_t before = NONE_INDEX;
    uint32_t length = 0;

    for (uint32_t at = list->head; at != NONE_INDEX; at = links[at].next) {
        check(links[at].prev == before);
        before = at;
        length++;
        check(length <= most);
    }
    check(list->tail == before);
    return length;
}

static void says_check(const struct node *node, struct sums *sums)
{
    sums->says = list_length(&node->says, node->want_links, node->config.wants_max);
    for (uint32_t at = node->says.head; at != NONE_INDEX; at = node->want_links[at].next) {
        const struct want *want = &node->wants[at];

        check(table_find(&node->want_by_number, want->number) == at);
        check(want->state == WANT_FOUND || want->state == WANT_LOST);
        check((want->state == WANT_LOST) == (want->item == NONE_INDEX));
        check(want->item == NONE_INDEX || node->items[want->item].state == ITEM_HERE);
        check(want->item == NONE_INDEX || !node->items[want->item].retired);
        sums->lost += want->state == WANT_LOST;
    }
}

static void item_check(const struct node *node, uint32_t at, struct sums *sums)
{
    const struct item *item = &node->items[at];
    uint32_t waiting = list_length(&item->waiting, node->want_links, node->config.wants_max);

    for (uint32_t want = item->waiting.head; want != NONE_INDEX; want = node->want_links[want].next) {
        check(node->wants[want].state == WANT_WAITING);
        check(node->wants[want].item == at);
        check(adapter_id_equal(node->wants[want].adapter, item->adapter));
    }
    sums->waiting += waiting;
    sums->queued += item->state == ITEM_QUEUED;
    sums->fetching += item->state == ITEM_FETCHING;
    check(item->wants >= waiting);
    check(item->state == ITEM_FETCHING || item->wants > 0);
    check(item->state == ITEM_HERE ? waiting == 0 : waiting == item->wants);
    check(!(item->retired && (item->state == ITEM_QUEUED || waiting > 0)));
    check(item->passes == (item->bytes > node->config.host.capacity));
    check((item->entry == NONE_INDEX) == (item->passes || item->state == ITEM_QUEUED));
    if (item->entry == NONE_INDEX) {
        check(cache_find(node->cache, item->adapter) == NONE_INDEX);
        return;
    }
    check(adapter_id_equal(cache_adapter(node->cache, item->entry), item->adapter));
    check(cache_is_ready(node->cache, item->entry) == (item->state == ITEM_HERE));
    check(cache_pins(node->cache, item->entry) == item->wants);
    check((cache_find(node->cache, item->adapter) == item->entry) == !item->retired);
    if (item->wants > 0)
        sums->pinned += item->bytes;
}

/* Live ones are those their tables know. */
static bool item_lives(const struct node *node, uint32_t at)
{
    return table_find(&node->item_by_adapter, adapter_key(node->items[at].adapter)) == at;
}

static uint32_t chain_length(uint32_t free, const struct link *links, uint32_t most)
{
    uint32_t length = 0;

    for (; free != NONE_INDEX; free = links[free].next) {
        length++;
        check(length <= most);
    }
    return length;
}

void node_check(const struct node *node)
{
    struct sums sums = {0};
    uint32_t items_max = node_items_max(&node->config);
    uint32_t wants_of_items = 0;
    uint32_t items = 0;

    says_check(node, &sums);
    for (uint32_t at = 0; at < items_max; at++) {
        if (!item_lives(node, at))
            continue;
        item_check(node, at, &sums);
        wants_of_items += node->items[at].wants;
        items++;
    }
    check(items == node->item_by_adapter.count);
    check(items + chain_length(node->items_free, node->item_links, items_max) == items_max);
    check(node->want_by_number.count + chain_length(node->wants_free, node->want_links, node->config.wants_max) ==
          node->config.wants_max);
    check(wants_of_items + sums.lost == node->want_by_number.count);
    check(sums.waiting + sums.says == node->waiting);
    check(sums.queued == list_length(&node->queue, node->item_links, items_max));
    check(sums.fetching == node->fetching);
    check(node->fetching <= node->config.fetches_max);
    check(sums.pinned == cache_pinned(node->cache));
    /* Nothing sleeps that could go on: the queue's head waits for room, for a fetch to end, or for the next step. */
    if (node->queue.head != NONE_INDEX && !node->more && node->fetching < node->config.fetches_max) {
        const struct item *head = &node->items[node->queue.head];

        check(!head->passes);
        check(cache_room(node->cache, head->bytes) == CACHE_BLOCKED);
    }
    cache_check(node->cache);
}
