#include "cache/ghost.h"

#include "base/hash.h"

static size_t ghosts_part(uint32_t max)
{
    return max * sizeof(struct evict_ghost);
}

/* At least twice as many as ghosts: half of the chains are empty, and few are longer than one. */
static uint32_t chains_for(uint32_t max)
{
    uint32_t chains = 4;

    check(max < 1u << 30);
    while (chains < 2 * max)
        chains *= 2;
    return chains;
}

size_t evict_ghosts_bytes(uint32_t max)
{
    return max == 0 ? 0 : ghosts_part(max) + chains_for(max) * sizeof(uint32_t);
}

static void place(struct evict_ghosts *ghosts, void *memory, uint32_t max)
{
    ghosts->ghosts = memory;
    ghosts->max = max;
    if (max == 0)
        return;
    ghosts->chains = (void *)((unsigned char *)memory + ghosts_part(max));
    ghosts->mask = chains_for(max) - 1;
    memset(ghosts->chains, 0xff, (ghosts->mask + (size_t)1) * sizeof(uint32_t));
}

void evict_ghosts_begin(struct evict_ghosts *ghosts, void *memory, uint32_t max)
{
    *ghosts = (struct evict_ghosts){.bound = max, .free = NONE_INDEX};
    for (uint32_t i = 0; i < EVICT_GHOST_LISTS_MAX; i++)
        ghosts->lists[i] = (struct evict_ghost_list){NONE_INDEX, NONE_INDEX, 0, 0};
    place(ghosts, memory, max);
}

static uint32_t *chain_of(const struct evict_ghosts *ghosts, uint64_t name)
{
    return &ghosts->chains[hash_mix(name) & ghosts->mask];
}

void evict_ghost_prefetch(const struct evict_ghosts *ghosts, uint64_t name)
{
    if (ghosts->max > 0)
        __builtin_prefetch(chain_of(ghosts, name), 1);
}

static void chain_add(struct evict_ghosts *ghosts, uint32_t ghost)
{
    uint32_t *chain = chain_of(ghosts, ghosts->ghosts[ghost].name);

    ghosts->ghosts[ghost].chain = *chain;
    *chain = ghost;
}

static void chain_remove(struct evict_ghosts *ghosts, uint32_t ghost)
{
    uint32_t *at = chain_of(ghosts, ghosts->ghosts[ghost].name);

    while (*at != ghost) {
        check(*at != NONE_INDEX);
        at = &ghosts->ghosts[*at].chain;
    }
    *at = ghosts->ghosts[ghost].chain;
}

void evict_ghosts_move(struct evict_ghosts *ghosts, void *memory, uint32_t max)
{
    check(max >= ghosts->max);
    if (ghosts->used > 0)
        memcpy(memory, ghosts->ghosts, ghosts->used * sizeof(struct evict_ghost));
    place(ghosts, memory, max);
    for (uint32_t list = 0; list < EVICT_GHOST_LISTS_MAX; list++)
        for (uint32_t at = ghosts->lists[list].head; at != NONE_INDEX; at = ghosts->ghosts[at].next)
            chain_add(ghosts, at);
}

uint32_t evict_ghost_find(const struct evict_ghosts *ghosts, uint64_t name)
{
    uint32_t ghost = ghosts->max == 0 ? NONE_INDEX : *chain_of(ghosts, name);

    while (ghost != NONE_INDEX && ghosts->ghosts[ghost].name != name)
        ghost = ghosts->ghosts[ghost].chain;
    return ghost;
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
    check(evict_ghost_find(ghosts, name) == NONE_INDEX);
    if (ghosts->count == ghosts->bound)
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
    chain_add(ghosts, ghost);
    ghosts->count++;
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

    chain_remove(ghosts, ghost);
    ghosts->count--;
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
    check(count == ghosts->count);
    check(ghosts->used <= ghosts->bound);
}
