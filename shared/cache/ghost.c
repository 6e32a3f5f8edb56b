#include "cache/ghost.h"

static size_t ghosts_part(uint32_t max)
{
    return max * sizeof(struct evict_ghost);
}

size_t evict_ghosts_bytes(uint32_t max)
{
    return max == 0 ? 0 : ghosts_part(max) + table_bytes(max);
}

void evict_ghosts_begin(struct evict_ghosts *ghosts, void *memory, uint32_t max)
{
    *ghosts = (struct evict_ghosts){.ghosts = memory, .max = max, .bound = max, .free = NONE_INDEX};
    for (uint32_t i = 0; i < EVICT_GHOST_LISTS_MAX; i++)
        ghosts->lists[i] = (struct evict_ghost_list){NONE_INDEX, NONE_INDEX, 0, 0};
    if (max > 0)
        table_init(&ghosts->names, (unsigned char *)memory + ghosts_part(max), max);
}

void evict_ghosts_move(struct evict_ghosts *ghosts, void *memory, uint32_t max)
{
    struct evict_ghosts moved = *ghosts;

    check(max >= ghosts->max);
    if (max == 0)
        return;
    moved.ghosts = memory;
    moved.max = max;
    if (ghosts->used > 0)
        memcpy(memory, ghosts->ghosts, ghosts->used * sizeof(struct evict_ghost));
    table_init(&moved.names, (unsigned char *)memory + ghosts_part(max), max);
    for (uint32_t list = 0; list < EVICT_GHOST_LISTS_MAX; list++)
        for (uint32_t at = moved.lists[list].head; at != NONE_INDEX; at = moved.ghosts[at].next)
            table_insert(&moved.names, moved.ghosts[at].name, at);
    *ghosts = moved;
}

uint32_t evict_ghost_find(const struct evict_ghosts *ghosts, uint64_t name)
{
    return ghosts->max == 0 ? NONE_INDEX : table_find(&ghosts->names, name);
}

static uint32_t longest(const struct evict_ghosts *ghosts)
{
    uint32_t list = 0;

    for (uint32_t i = 1; i < EVICT_GHOST_LISTS_MAX; i++)
        if (ghosts->lists[i].count > ghosts->lists[list].count)
            list = i;
    return list;
}

static uint32_t take(struct evict_ghosts *ghosts)
{
    uint32_t taken = ghosts->free;

    if (taken == NONE_INDEX)
        return ghosts->used++;
    ghosts->free = ghosts->ghosts[taken].next;
    return taken;
}

uint32_t evict_ghost_add(struct evict_ghosts *ghosts, uint32_t list, uint64_t name, uint64_t size, uint64_t key)
{
    struct evict_ghost_list *into = &ghosts->lists[list];
    uint32_t ghost;

    check(list < EVICT_GHOST_LISTS_MAX);
    check(ghosts->bound > 0 && ghosts->bound <= ghosts->max);
    if (ghosts->names.count == ghosts->bound)
        evict_ghost_remove(ghosts, ghosts->lists[longest(ghosts)].tail);
    ghost = take(ghosts);
    check(ghost < ghosts->max);
    ghosts->ghosts[ghost] = (struct evict_ghost){.name = name, .size = size, .key = key, .prev = NONE_INDEX, .next = into->head, .list = list};
    if (into->head != NONE_INDEX)
        ghosts->ghosts[into->head].prev = ghost;
    else
        into->tail = ghost;
    into->head = ghost;
    into->count++;
    into->size += size;
    table_insert(&ghosts->names, name, ghost);
    return ghost;
}

uint32_t evict_ghost_remember(struct evict_ghosts *ghosts, uint32_t list, uint64_t name, uint64_t size, uint64_t size_max)
{
    const struct evict_ghost_list *into = &ghosts->lists[list];
    const uint64_t others_max = size_max - min_u64(size, size_max);

    while (into->count > 0 && into->size > others_max)
        evict_ghost_remove(ghosts, into->tail);
    return evict_ghost_add(ghosts, list, name, size, 0);
}

void evict_ghosts_check_size(const struct evict_ghosts *ghosts, uint32_t list, uint64_t size_max)
{
    const struct evict_ghost_list *of = &ghosts->lists[list];

    for (uint32_t at = of->head; of->size > size_max && at != NONE_INDEX; at = ghosts->ghosts[at].next)
        check(ghosts->ghosts[at].size == 0 || ghosts->ghosts[at].size == of->size);
}

void evict_ghost_remove(struct evict_ghosts *ghosts, uint32_t ghost)
{
    struct evict_ghost *gone = &ghosts->ghosts[ghost];
    struct evict_ghost_list *from = &ghosts->lists[gone->list];

    table_remove(&ghosts->names, gone->name);
    if (gone->prev != NONE_INDEX)
        ghosts->ghosts[gone->prev].next = gone->next;
    else
        from->head = gone->next;
    if (gone->next != NONE_INDEX)
        ghosts->ghosts[gone->next].prev = gone->prev;
    else
        from->tail = gone->prev;
    from->count--;
    from->size -= gone->size;
    gone->next = ghosts->free;
    ghosts->free = ghost;
}

void evict_ghosts_check(const struct evict_ghosts *ghosts)
{
    uint32_t count = 0;

    for (uint32_t list = 0; list < EVICT_GHOST_LISTS_MAX; list++) {
        uint32_t before = NONE_INDEX;
        uint64_t size = 0;
        uint32_t in_list = 0;

        for (uint32_t at = ghosts->lists[list].head; at != NONE_INDEX; at = ghosts->ghosts[at].next) {
            check(at < ghosts->used);
            check(ghosts->ghosts[at].list == list);
            check(ghosts->ghosts[at].prev == before);
            check(evict_ghost_find(ghosts, ghosts->ghosts[at].name) == at);
            before = at;
            size += ghosts->ghosts[at].size;
            check(++in_list <= ghosts->max);
        }
        check(ghosts->lists[list].tail == before);
        check(ghosts->lists[list].count == in_list);
        check(ghosts->lists[list].size == size);
        count += in_list;
    }
    check(ghosts->max == 0 || count == ghosts->names.count);
    check(ghosts->used <= ghosts->bound);
}
