/* Inside the search: what its parts say to each other. A part looks for places of its kind, in the order of preference,
 * and offers them; true: one is in search->place. */
#ifndef FLEET_PLACE_H
#define FLEET_PLACE_H

#include "fleet/devices_state.h"

struct score {
    uint64_t level;      /* the largest key that would be dropped; 0: none */
    uint64_t used_order; /* of that holding */
    uint64_t left;       /* what remains: bytes, slices, or free neighbours */
    uint64_t at;         /* node and GPUs: no two places are equal */
};

struct search {
    struct devices *devices;
    const struct devices_ask *ask;
    bool resident_first;
    bool may_load;
    bool earmarks;       /* respected */
    uint32_t classes;    /* bits: of allowed flavors, with nodes */
    uint32_t found;
    struct score score;  /* of `place`, when found */
    struct devices_place place;
};

/* The first node at or after `from` in both bitmaps (`b` may be NULL). */
static inline uint32_t next_node(const struct devices *devices, const uint64_t *a, const uint64_t *b, uint32_t from)
{
    uint64_t skip = ~UINT64_C(0) << (from % 64);

    for (uint32_t word = from / 64; word < devices->words; word++) {
        uint64_t bits = a[word] & (b != NULL ? b[word] : ~UINT64_C(0)) & skip;

        if (bits != 0)
            return word * 64 + (uint32_t)__builtin_ctzll(bits);
        skip = ~UINT64_C(0);
    }
    return NONE_INDEX;
}

static inline bool allowed(const struct search *search, const struct node *node)
{
    return node->class != NO_CLASS && (search->classes >> node->class & 1) != 0;
}

/* Of the node's GPUs, those open to this job. */
static inline uint16_t open_to(const struct search *search, const struct node *node)
{
    const struct devices *devices = search->devices;
    uint16_t mask = node->open;

    for (uint32_t at = node->earmarks_head; search->earmarks && at != NONE_INDEX; at = devices->earmarks[at].next)
        if (at != search->ask->job && search->ask->end_estimate_ns > devices->earmarks[at].from_ns)
            mask &= (uint16_t)~devices->earmarks[at].gpu_mask;
    return mask;
}

static inline bool droppable(const struct holding *holding)
{
    return holding->claims == 0 && holding->ready;
}

static inline bool place_may_share(const struct search *search)
{
    return search->ask->isolation != ISOLATION_EXCLUSIVE && search->devices->config.sharers_max > 1;
}

/* Keeps the better of this place and the best so far. */
void place_offer(struct search *search, struct score score, const struct devices_place *place);
/* Sharing GPUs with jobs that are there, or on GPUs of its own. */
bool place_on_holding(struct search *search, bool sharing);
bool place_by_load(struct search *search, bool sharing);
/* On GPUs that are cut already; and also on such as would have to be. */
bool place_in_cut(struct search *search);
bool place_in_slice(struct search *search);

/* Free neighbours in the aligned blocks around, the closest block weighing most: like a buddy allocator, take from what is
 * broken already. */
uint64_t place_neighbours(const struct node *node, uint32_t first, uint32_t size);

/* What may be dropped on the node, but for `keep`: looked at once, then chosen from for GPU after GPU. */
void place_gather(struct devices *devices, const struct node *node, uint32_t keep);
/* Chooses among what was gathered, so that each GPU of the mask has `need`: the smallest keys first, then without those
 * that turned out to be needless, the dearest first. False when even everything is not enough. */
bool place_victims(struct devices *devices, const struct node *node, uint16_t mask, uint32_t keep, uint64_t need,
                   struct score *score);

#endif
