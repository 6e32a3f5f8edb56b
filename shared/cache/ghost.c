#include "cache/ghost.h"

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

uint32_t evict_ghosts_longest(const struct evict_ghosts *ghosts)
{
    uint32_t list = 0;

    for (uint32_t i = 1; i < EVICT_GHOST_LISTS_MAX; i++)
        if (ghosts->lists[i].count > ghosts->lists[list].count)
            list = i;
    return list;
}

void evict_ghosts_move(struct evict_ghosts *ghosts, void *memory, uint32_t max)
{
    check(max >= ghosts->max);
    if (ghosts->used > 0)
        memcpy(memory, ghosts->ghosts, ghosts->used * sizeof(struct evict_ghost));
    place(ghosts, memory, max);
    for (uint32_t list = 0; list < EVICT_GHOST_LISTS_MAX; list++)
        for (uint32_t at = ghosts->lists[list].head; at != NONE_INDEX; at = ghosts->ghosts[at].next)
            evict_ghost_chain_add(ghosts, at);
}

void evict_ghosts_check_size(const struct evict_ghosts *ghosts, uint32_t list, uint64_t size_max)
{
    const struct evict_ghost_list *of = &ghosts->lists[list];

    for (uint32_t at = of->head; of->size > size_max && at != NONE_INDEX; at = ghosts->ghosts[at].next)
        check(ghosts->ghosts[at].size == 0 || ghosts->ghosts[at].size == of->size);
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
