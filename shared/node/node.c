/* The node core's step: hear one event, say what is due (READYs and LOSTs in order, then fetches while there is room),
 * and remember the rest for the next step. */
#include "node/state.h"

#include "base/hash.h"

static size_t aligned(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

/* Without a tier every want passes through, but a cache has at least one entry. */
static struct cache_config host_config(const struct node_config *config)
{
    struct cache_config host = config->host;

    if (host.capacity == 0)
        host.entries_max = max_u32(host.entries_max, 1);
    return host;
}

size_t node_bytes(const struct node_config *config)
{
    struct cache_config host = host_config(config);
    size_t wants = config->wants_max;
    size_t items = node_items_max(config);

    return aligned(sizeof(struct node)) + aligned(cache_bytes(&host)) + aligned(table_bytes(config->wants_max)) +
           aligned(table_bytes(node_items_max(config))) + aligned(wants * sizeof(struct want)) +
           aligned(wants * sizeof(struct link)) + aligned(items * sizeof(struct item)) +
           aligned(items * sizeof(struct link));
}

static void *take(unsigned char **at, size_t bytes)
{
    void *taken = *at;

    *at += aligned(bytes);
    return taken;
}

static uint32_t chain_all(struct link *links, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        links[i] = (struct link){NONE_INDEX, i + 1 < count ? i + 1 : NONE_INDEX};
    return 0;
}

struct node *node_create(void *memory, size_t memory_bytes, const struct node_config *config)
{
    struct cache_config host = host_config(config);
    uint32_t items_max = node_items_max(config);
    unsigned char *at = memory;
    struct node *node;

    check(config->host.unit == CACHE_BYTES);
    check(config->wants_max >= 1);
    check(config->fetches_max >= 1);
    check(config->fetches_max <= UINT32_MAX - config->wants_max);
    check((uintptr_t)memory % _Alignof(struct node) == 0);
    check(memory_bytes >= node_bytes(config));
    memset(memory, 0, node_bytes(config));
    node = take(&at, sizeof(*node));
    node->config = *config;
    node->cache = cache_create(take(&at, cache_bytes(&host)), cache_bytes(&host), &host);
    table_init(&node->want_by_number, take(&at, table_bytes(config->wants_max)), config->wants_max);
    table_init(&node->item_by_adapter, take(&at, table_bytes(items_max)), items_max);
    node->wants = take(&at, config->wants_max * sizeof(struct want));
    node->want_links = take(&at, config->wants_max * sizeof(struct link));
    node->items = take(&at, items_max * sizeof(struct item));
    node->item_links = take(&at, items_max * sizeof(struct link));
    node->wants_free = chain_all(node->want_links, config->wants_max);
    node->items_free = chain_all(node->item_links, items_max);
    node->says = (struct list){NONE_INDEX, NONE_INDEX};
    node->queue = (struct list){NONE_INDEX, NONE_INDEX};
    node->now_ns = INT64_MIN;
    return node;
}

static void list_push(struct list *list, struct link *links, uint32_t at)
{
    links[at] = (struct link){list->tail, NONE_INDEX};
    if (list->tail != NONE_INDEX)
        links[list->tail].next = at;
    else
        list->head = at;
    list->tail = at;
}

static void list_remove(struct list *list, struct link *links, uint32_t at)
{
    if (links[at].prev != NONE_INDEX)
        links[links[at].prev].next = links[at].next;
    else
        list->head = links[at].next;
    if (links[at].next != NONE_INDEX)
        links[links[at].next].prev = links[at].prev;
    else
        list->tail = links[at].prev;
}

static uint32_t free_pop(uint32_t *free, const struct link *links)
{
    uint32_t at = *free;

    check(at != NONE_INDEX);
    *free = links[at].next;
    return at;
}

static void free_push(uint32_t *free, struct link *links, uint32_t at)
{
    links[at] = (struct link){NONE_INDEX, *free};
    *free = at;
}

static struct node_command *say(struct node *node, struct node_commands *out, uint16_t kind, uint16_t reason)
{
    struct node_command *command = &out->items[out->count];

    check(out->count < COMMANDS_MAX);
    out->count++;
    memset(command, 0, sizeof(*command));
    command->id = ++node->command_id;
    command->kind = kind;
    command->reason = reason;
    return command;
}

static void say_drop(struct node *node, struct node_commands *out, adapter_id adapter, uint64_t bytes,
                     enum node_drop reason)
{
    struct node_command *command = say(node, out, NODE_COMMAND_DROP, (uint16_t)reason);

    command->drop.adapter = adapter;
    command->drop.bytes = bytes;
}

static void item_remove(struct node *node, uint32_t at)
{
    check(node->items[at].wants == 0);
    table_remove(&node->item_by_adapter, adapter_key(node->items[at].adapter));
    free_push(&node->items_free, node->item_links, at);
}

/* At the first want: it may be in the cache already, idle until now. */
static uint32_t item_add(struct node *node, adapter_id adapter, uint64_t bytes)
{
    uint32_t at = free_pop(&node->items_free, node->item_links);
    struct item *item = &node->items[at];

    *item = (struct item){
        .adapter = adapter,
        .bytes = bytes,
        .entry = cache_find(node->cache, adapter),
        .waiting = {NONE_INDEX, NONE_INDEX},
        .passes = cache_room(node->cache, bytes) == CACHE_OVERSIZE,
    };
    item->state = item->entry == NONE_INDEX ? ITEM_QUEUED : ITEM_HERE;
    if (item->state == ITEM_QUEUED)
        list_push(&node->queue, node->item_links, at);
    table_insert(&node->item_by_adapter, adapter_key(adapter), at);
    return at;
}

/* A want takes part in what is in host memory or on its way there. */
static void item_use(struct node *node, const struct item *item)
{
    if (item->entry != NONE_INDEX) {
        cache_touch(node->cache, item->entry);
        cache_pin(node->cache, item->entry);
    } else if (item->state == ITEM_HERE) {
        node->passed.hits++;
    } else {
        node->passed.coalesced++;
    }
}

static void want_forget(struct node *node, uint32_t at)
{
    table_remove(&node->want_by_number, node->wants[at].number);
    free_push(&node->wants_free, node->want_links, at);
}

/* READY or LOST becomes due; the want is in no list. */
static void want_answer(struct node *node, uint32_t at, enum want_state state, uint16_t reason)
{
    node->wants[at].state = (uint16_t)state;
    node->wants[at].reason = reason;
    list_push(&node->says, node->want_links, at);
}

/* Takes a want without READY away from its item, of which the cache's entry must not be doomed by then. */
static void want_lose(struct node *node, uint32_t at, enum node_lost reason)
{
    struct want *want = &node->wants[at];
    struct item *item = &node->items[want->item];

    if (want->state == WANT_WAITING)
        list_remove(&item->waiting, node->want_links, at);
    else
        list_remove(&node->says, node->want_links, at);
    if (item->entry != NONE_INDEX)
        cache_unpin(node->cache, item->entry);
    item->wants--;
    want->item = NONE_INDEX;
    want_answer(node, at, WANT_LOST, (uint16_t)reason);
}

static void hear_want(struct node *node, const struct node_event *event)
{
    uint32_t at = free_pop(&node->wants_free, node->want_links);
    struct want *want = &node->wants[at];
    struct item *item;

    check(!adapter_is_base(event->want.adapter));
    check(event->want.bytes > 0);
    *want = (struct want){.number = event->want.want, .bytes = event->want.bytes, .adapter = event->want.adapter};
    table_insert(&node->want_by_number, want->number, at);
    node->waiting++;
    want->item = table_find(&node->item_by_adapter, adapter_key(want->adapter));
    if (want->item == NONE_INDEX)
        want->item = item_add(node, want->adapter, want->bytes);
    item = &node->items[want->item];
    check(item->bytes == want->bytes);
    if (item->retired) {
        want->item = NONE_INDEX;
        want_answer(node, at, WANT_LOST, NODE_LOST_RETIRED);
        return;
    }
    item->wants++;
    if (item->state != ITEM_QUEUED)
        item_use(node, item);
    if (item->state == ITEM_HERE)
        want_answer(node, at, WANT_FOUND, TIER_HOST);
    else
        list_push(&item->waiting, node->want_links, at);
}

/* Its last want has gone. What is being fetched stays wanted by the fetch; what has a place in the cache keeps it. */
static void item_idle(struct node *node, uint32_t at, struct node_commands *out)
{
    struct item *item = &node->items[at];

    if (item->state == ITEM_FETCHING)
        return;
    if (item->state == ITEM_QUEUED)
        list_remove(&node->queue, node->item_links, at);
    else if (item->passes)
        say_drop(node, out, item->adapter, item->bytes, item->retired ? NODE_DROP_RETIRED : NODE_DROP_PASSED);
    item_remove(node, at);
}

static void hear_unwant(struct node *node, const struct node_event *event, struct node_commands *out)
{
    uint32_t at = table_find(&node->want_by_number, event->unwant.want);
    struct want *want;
    struct item *item;
    uint32_t item_at;

    check(at != NONE_INDEX);
    want = &node->wants[at];
    item_at = want->item;
    check(adapter_id_equal(want->adapter, event->unwant.adapter));
    if (want->state != WANT_HELD)
        node->waiting--;
    if (want->state == WANT_FOUND || want->state == WANT_LOST)
        list_remove(&node->says, node->want_links, at);
    if (want->state == WANT_WAITING)
        list_remove(&node->items[item_at].waiting, node->want_links, at);
    want_forget(node, at);
    if (item_at == NONE_INDEX)
        return;
    item = &node->items[item_at];
    item->wants--;
    if (item->entry != NONE_INDEX && cache_unpin(node->cache, item->entry))
        say_drop(node, out, item->adapter, item->bytes, NODE_DROP_RETIRED);
    if (item->wants == 0)
        item_idle(node, item_at, out);
}

/* The item whose fetch this answers; it is no longer in flight. */
static uint32_t fetch_end(struct node *node, const struct node_event *event, adapter_id adapter)
{
    uint32_t at = table_find(&node->item_by_adapter, adapter_key(adapter));

    check(at != NONE_INDEX);
    check(node->items[at].state == ITEM_FETCHING);
    check(node->items[at].fetch_id == event->answers);
    node->fetching--;
    return at;
}

static void hear_fetched(struct node *node, const struct node_event *event, struct node_commands *out)
{
    uint32_t at = fetch_end(node, event, event->fetched.adapter);
    struct item *item = &node->items[at];

    item->state = ITEM_HERE;
    if (item->entry != NONE_INDEX && cache_arrived(node->cache, item->entry))
        say_drop(node, out, item->adapter, item->bytes, NODE_DROP_RETIRED);
    while (item->waiting.head != NONE_INDEX) {
        uint32_t want = item->waiting.head;

        list_remove(&item->waiting, node->want_links, want);
        want_answer(node, want, WANT_FOUND, TIER_STORE);
    }
    if (item->wants == 0)
        item_idle(node, at, out);
}

static void hear_failed(struct node *node, const struct node_event *event)
{
    uint32_t at = fetch_end(node, event, event->failed.adapter);
    struct item *item = &node->items[at];

    while (item->waiting.head != NONE_INDEX)
        want_lose(node, item->waiting.head, NODE_LOST_FETCH_FAILED);
    if (item->entry != NONE_INDEX)
        cache_failed(node->cache, item->entry);
    item_remove(node, at);
}

/* Wants without READY are lost; those with it may finish, and a fetch in flight must end, before the room is free. */
static void hear_retired(struct node *node, const struct node_event *event, struct node_commands *out)
{
    adapter_id adapter = event->retired.adapter;
    uint32_t at = table_find(&node->item_by_adapter, adapter_key(adapter));
    uint32_t entry = cache_find(node->cache, adapter);
    struct item *item;

    if (at != NONE_INDEX && node->items[at].retired)
        return;
    if (at != NONE_INDEX) {
        item = &node->items[at];
        while (item->waiting.head != NONE_INDEX)
            want_lose(node, item->waiting.head, NODE_LOST_RETIRED);
        /* The walk stops at the last of today: those it loses join behind. */
        for (uint32_t want = node->says.head, last = node->says.tail, next; want != NONE_INDEX; want = next) {
            next = want == last ? NONE_INDEX : node->want_links[want].next;
            if (node->wants[want].item == at)
                want_lose(node, want, NODE_LOST_RETIRED);
        }
        item->retired = true;
    }
    if (entry != NONE_INDEX) {
        uint64_t bytes = cache_entry_bytes(node->cache, entry);

        if (cache_drop(node->cache, entry))
            say_drop(node, out, adapter, bytes, NODE_DROP_RETIRED);
    }
    if (at != NONE_INDEX && node->items[at].wants == 0)
        item_idle(node, at, out);
}

static void say_answers(struct node *node, struct node_commands *out)
{
    while (node->says.head != NONE_INDEX && out->count < COMMANDS_MAX) {
        uint32_t at = node->says.head;
        struct want *want = &node->wants[at];
        bool found = want->state == WANT_FOUND;
        struct node_command *command = say(node, out, found ? NODE_COMMAND_READY : NODE_COMMAND_LOST, want->reason);

        command->ready.adapter = want->adapter; /* ready and lost are one struct */
        command->ready.bytes = want->bytes;
        command->ready.want = want->number;
        list_remove(&node->says, node->want_links, at);
        node->waiting--;
        if (found)
            want->state = WANT_HELD;
        else
            want_forget(node, at);
    }
}

static void fetch_begin(struct node *node, uint32_t at, struct node_commands *out)
{
    struct item *item = &node->items[at];
    struct node_command *command = say(node, out, NODE_COMMAND_FETCH, 0);

    command->fetch.adapter = item->adapter;
    command->fetch.bytes = item->bytes;
    item->fetch_id = command->id;
    list_remove(&node->queue, node->item_links, at);
    item->state = ITEM_FETCHING;
    node->fetching++;
    if (item->passes) {
        node->passed.misses++;
        node->passed.loaded_bytes += item->bytes;
        node->passed.coalesced += item->wants - 1;
        return;
    }
    item->entry = cache_insert(node->cache, item->adapter, item->bytes);
    for (uint32_t want = item->waiting.head; want != NONE_INDEX; want = node->want_links[want].next)
        item_use(node, item);
}

/* Strictly in order: hits pass the queue anyway, and what blocks its head are copies, which are short, or fetches,
 * whose room is taken for everyone. */
static void begin_fetches(struct node *node, struct node_commands *out)
{
    node->more = false;
    while (node->queue.head != NONE_INDEX && node->fetching < node->config.fetches_max) {
        struct item *item = &node->items[node->queue.head];
        enum cache_room room = item->passes ? CACHE_FITS : cache_room(node->cache, item->bytes);
        uint32_t entry;
        uint64_t bytes;
        adapter_id evicted;

        if (room == CACHE_BLOCKED) {
            node->passed.blocked += !item->blocked;
            item->blocked = true;
            return;
        }
        if (out->count == COMMANDS_MAX) {
            node->more = true;
            return;
        }
        if (room == CACHE_EVICTABLE) {
            evicted = cache_evict_one(node->cache, item->adapter, item->bytes, &entry, &bytes);
            say_drop(node, out, evicted, bytes, NODE_DROP_EVICTED);
        } else {
            fetch_begin(node, node->queue.head, out);
        }
    }
}

/* The bodies alone: not times, sequence numbers, command ids nor ticks. word[] is adapter, bytes and, for wants, their
 * number. */
static void past_add(struct node *node, const struct node_event *event, const struct node_commands *out)
{
    bool is_want = event->kind == NODE_EVENT_WANT || event->kind == NODE_EVENT_UNWANT;

    if (event->kind != NODE_EVENT_TICK) {
        node->digest_past = hash_fold(node->digest_past, event->kind);
        node->digest_past = hash_words(node->digest_past, event->word, is_want ? 3 : 2);
    }
    for (uint32_t i = 0; i < out->count; i++) {
        const struct node_command *command = &out->items[i];

        node->digest_past = hash_fold(node->digest_past, (uint64_t)command->kind << 16 | command->reason);
        node->digest_past = hash_words(node->digest_past, command->word, 3);
    }
}

void node_step(struct node *node, const struct node_event *event, struct node_commands *out)
{
    check(event->at_ns >= node->now_ns);
    node->now_ns = event->at_ns;
    out->count = 0;
    switch ((enum node_event_kind)event->kind) {
    case NODE_EVENT_WANT:
        hear_want(node, event);
        break;
    case NODE_EVENT_UNWANT:
        hear_unwant(node, event, out);
        break;
    case NODE_EVENT_FETCHED:
        hear_fetched(node, event, out);
        break;
    case NODE_EVENT_FAILED:
        hear_failed(node, event);
        break;
    case NODE_EVENT_RETIRED:
        hear_retired(node, event, out);
        break;
    case NODE_EVENT_TICK:
        break;
    case NODE_EVENT_NONE:
    case NODE_EVENT_COUNT:
    default:
        check(event->kind > NODE_EVENT_NONE && event->kind < NODE_EVENT_COUNT);
    }
    say_answers(node, out);
    begin_fetches(node, out);
    past_add(node, event, out);
}

int64_t node_wakeup_at_ns(const struct node *node)
{
    return node->says.head != NONE_INDEX || node->more ? node->now_ns : NEVER_NS;
}

uint64_t node_digest(const struct node *node)
{
    const uint64_t words[] = {
        cache_digest(node->cache),
        (uint64_t)node->want_by_number.count << 32 | node->item_by_adapter.count,
        (uint64_t)node->waiting << 32 | node->fetching,
    };

    return hash_words(node->digest_past, words, ARRAY_COUNT(words));
}

struct node_state node_state(const struct node *node)
{
    struct cache_counts counts = cache_counts(node->cache);

    counts.hits += node->passed.hits;
    counts.misses += node->passed.misses;
    counts.coalesced += node->passed.coalesced;
    counts.blocked += node->passed.blocked;
    counts.loaded_bytes += node->passed.loaded_bytes;
    return (struct node_state){
        .used_bytes = cache_used_bytes(node->cache),
        .adapters = cache_count(node->cache),
        .fetching = node->fetching,
        .waiting = node->waiting,
        .cache = counts,
    };
}
