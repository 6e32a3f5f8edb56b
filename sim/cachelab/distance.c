/* Every request takes the next slot of a row and gives up the object's last one, so the live slots to the right of an
 * object's are the objects asked for since. They are counted by a Fenwick tree (Fenwick 1994) over blocks of slots and, within
 * a block, by its bits and sizes. When the row is used up, the live slots move together and the row becomes twice as long as
 * they are many: work and memory an object stay constant, whatever the number of requests. */
#include "cachelab/distance.h"

#include <stdlib.h>

#define BLOCK_SLOTS 32u
#define SLOTS_MIN 1024u

struct node {
    uint64_t bytes; /* modulo 2^64: what is between two slots is right as long as it is less */
    uint64_t objects;
};

struct distance {
    uint32_t *slot_of; /* [objects_max]; NONE_INDEX: not asked for yet */
    uint32_t objects_max;
    uint32_t slots;  /* a multiple of BLOCK_SLOTS */
    uint32_t next;   /* the first slot never used since they moved */
    uint32_t live;
    uint128 live_bytes;
    bool bytes_unknown;
    uint64_t *sizes; /* [slots]; 0 where nothing is live */
    uint32_t *masks; /* [blocks]; a bit a live slot */
    struct node *tree; /* [blocks + 1], from 1 */
};

static uint32_t blocks_of(const struct distance *distance)
{
    return distance->slots / BLOCK_SLOTS;
}

/* Longer arrays; what is in them counts only up to the old length. */
static enum status slots_reserve(struct distance *distance, uint32_t slots)
{
    const size_t blocks = slots / BLOCK_SLOTS;
    uint64_t *sizes = realloc(distance->sizes, slots * sizeof(*sizes));
    uint32_t *masks = realloc(distance->masks, blocks * sizeof(*masks));
    struct node *tree = realloc(distance->tree, (blocks + 1) * sizeof(*tree));

    distance->sizes = sizes != NULL ? sizes : distance->sizes;
    distance->masks = masks != NULL ? masks : distance->masks;
    distance->tree = tree != NULL ? tree : distance->tree;
    return sizes != NULL && masks != NULL && tree != NULL ? STATUS_OK : STATUS_FULL;
}

static enum status objects_reserve(struct distance *distance, uint32_t object)
{
    uint32_t objects_max = max_u32(distance->objects_max, SLOTS_MIN);
    uint32_t *slot_of;

    if (object >= DISTANCE_OBJECTS_MAX)
        return STATUS_FULL;
    while (objects_max <= object)
        objects_max += objects_max / 2;
    slot_of = realloc(distance->slot_of, objects_max * sizeof(*slot_of));
    if (slot_of == NULL)
        return STATUS_FULL;
    for (uint32_t i = distance->objects_max; i < objects_max; i++)
        slot_of[i] = NONE_INDEX;
    distance->slot_of = slot_of;
    distance->objects_max = objects_max;
    return STATUS_OK;
}

/* The tree from the blocks: each node hands its sum to the next above. */
static void tree_build(struct distance *distance)
{
    const uint32_t blocks = blocks_of(distance);

    memset(distance->tree, 0, (blocks + 1) * sizeof(*distance->tree));
    for (uint32_t block = 0; block < blocks; block++) {
        struct node *node = &distance->tree[block + 1];
        const uint32_t above = block + 1 + ((block + 1) & -(block + 1));

        for (uint32_t i = 0; i < BLOCK_SLOTS; i++)
            node->bytes += distance->sizes[block * BLOCK_SLOTS + i];
        node->objects += (uint32_t)__builtin_popcount(distance->masks[block]);
        if (above <= blocks) {
            distance->tree[above].bytes += node->bytes;
            distance->tree[above].objects += node->objects;
        }
    }
}

static uint32_t bits_below(uint32_t slot)
{
    return (1u << slot % BLOCK_SLOTS) - 1;
}

/* Where each object's slot comes to lie: as many live ones are before it. The tree's memory, rebuilt afterwards, holds how many
 * are before each block. */
static void slots_renumber(struct distance *distance)
{
    uint64_t before = 0;

    for (uint32_t block = 0; block < blocks_of(distance); block++) {
        distance->tree[block].objects = before;
        before += (uint32_t)__builtin_popcount(distance->masks[block]);
    }
    for (uint32_t object = 0; object < distance->objects_max; object++) {
        const uint32_t slot = distance->slot_of[object];
        const uint32_t block = slot / BLOCK_SLOTS;

        if (slot != NONE_INDEX)
            distance->slot_of[object] =
                (uint32_t)distance->tree[block].objects + (uint32_t)__builtin_popcount(distance->masks[block] & bits_below(slot));
    }
}

static void sizes_compact(struct distance *distance)
{
    uint32_t to = 0;

    for (uint32_t slot = 0; slot < distance->next; slot++)
        if ((distance->masks[slot / BLOCK_SLOTS] >> slot % BLOCK_SLOTS & 1) != 0)
            distance->sizes[to++] = distance->sizes[slot];
    check(to == distance->live);
}

/* Live slots move to the left, in their order. */
static enum status compact(struct distance *distance)
{
    const uint32_t wanted = max_u32(SLOTS_MIN, (uint32_t)div_up_u64(2 * (uint64_t)distance->live, BLOCK_SLOTS) * BLOCK_SLOTS);
    const uint32_t slots = max_u32(distance->slots, wanted);

    if (slots > distance->slots && slots_reserve(distance, slots) != STATUS_OK)
        return STATUS_FULL;
    slots_renumber(distance);
    sizes_compact(distance);
    distance->slots = slots;
    distance->next = distance->live;
    memset(distance->sizes + distance->live, 0, (slots - distance->live) * sizeof(*distance->sizes));
    memset(distance->masks, 0, blocks_of(distance) * sizeof(*distance->masks));
    memset(distance->masks, 0xff, distance->live / BLOCK_SLOTS * sizeof(*distance->masks));
    if (distance->live % BLOCK_SLOTS != 0)
        distance->masks[distance->live / BLOCK_SLOTS] = bits_below(distance->live);
    tree_build(distance);
    return STATUS_OK;
}

enum status distance_create(struct distance **ret_distance)
{
    struct distance *distance = calloc(1, sizeof(*distance));

    if (distance == NULL || compact(distance) != STATUS_OK) {
        distance_free(distance);
        return STATUS_FULL;
    }
    *ret_distance = distance;
    return STATUS_OK;
}

void distance_free(struct distance *distance)
{
    if (distance == NULL)
        return;
    free(distance->slot_of);
    free(distance->sizes);
    free(distance->masks);
    free(distance->tree);
    free(distance);
}

/* What is live to the right of the slot. */
static struct node beyond(const struct distance *distance, uint32_t slot)
{
    const uint32_t block = slot / BLOCK_SLOTS;
    const uint32_t end = min_u32((block + 1) * BLOCK_SLOTS, distance->next);
    struct node sum = {.bytes = (uint64_t)distance->live_bytes, .objects = distance->live};

    for (uint32_t i = block + 1; i != 0; i &= i - 1) {
        sum.bytes -= distance->tree[i].bytes;
        sum.objects -= distance->tree[i].objects;
    }
    for (uint32_t i = slot + 1; i < end; i++)
        sum.bytes += distance->sizes[i];
    sum.objects += (uint32_t)__builtin_popcount(distance->masks[block] & ~bits_below(slot) & ~(1u << slot % BLOCK_SLOTS));
    return sum;
}

static uint32_t above(uint32_t i, uint32_t blocks)
{
    return min_u32(i + (i & -i), blocks + 1);
}

/* Takes from block `from` on and gives to block `to`, at or after it, on: where both ways up meet, nothing of a size that stays
 * changes. */
static void tree_move(struct distance *distance, uint32_t from, uint32_t to, uint64_t size_bytes)
{
    const uint32_t blocks = blocks_of(distance);
    uint32_t i = from + 1;
    uint32_t j = to + 1;

    while (i != j)
        if (i < j) {
            distance->tree[i].bytes -= size_bytes;
            distance->tree[i].objects--;
            i = above(i, blocks);
        } else {
            distance->tree[j].bytes += size_bytes;
            distance->tree[j].objects++;
            j = above(j, blocks);
        }
}

static void tree_add(struct distance *distance, uint32_t block, uint64_t bytes, uint64_t objects)
{
    for (uint32_t i = block + 1; i <= blocks_of(distance); i += i & -i) {
        distance->tree[i].bytes += bytes;
        distance->tree[i].objects += objects;
    }
}

static void slot_clear(struct distance *distance, uint32_t slot)
{
    distance->sizes[slot] = 0;
    distance->masks[slot / BLOCK_SLOTS] &= ~(1u << slot % BLOCK_SLOTS);
}

void distance_remove(struct distance *distance, uint32_t object)
{
    uint32_t slot;

    check(object < distance->objects_max);
    slot = distance->slot_of[object];
    check(slot != NONE_INDEX);
    tree_add(distance, slot / BLOCK_SLOTS, -distance->sizes[slot], UINT64_MAX);
    distance->live_bytes -= distance->sizes[slot];
    distance->live--;
    slot_clear(distance, slot);
    distance->slot_of[object] = NONE_INDEX;
}

/* Gives up the slot of the object, if it has one that serves no more; the answer is about that one. */
static struct distance_answer leave(struct distance *distance, uint32_t object, uint64_t size_bytes)
{
    const uint32_t slot = distance->slot_of[object];
    struct distance_answer answer = {.bytes = UINT64_MAX, .objects = NONE_INDEX};
    struct node sum;

    if (slot == NONE_INDEX)
        return answer;
    sum = beyond(distance, slot);
    answer.objects = (uint32_t)sum.objects;
    answer.bytes = distance->bytes_unknown ? UINT64_MAX : sum.bytes;
    answer.changed = distance->sizes[slot] != size_bytes;
    return answer;
}

static void enter(struct distance *distance, uint32_t object, uint64_t size_bytes, bool changed)
{
    const uint32_t slot = distance->next++;
    const uint32_t old = distance->slot_of[object];

    if (old != NONE_INDEX && !changed) {
        slot_clear(distance, old);
        tree_move(distance, old / BLOCK_SLOTS, slot / BLOCK_SLOTS, size_bytes);
    } else {
        if (old != NONE_INDEX)
            distance_remove(distance, object);
        tree_add(distance, slot / BLOCK_SLOTS, size_bytes, 1);
        distance->live++;
        distance->live_bytes += size_bytes;
        distance->bytes_unknown |= distance->live_bytes > INT64_MAX;
    }
    distance->sizes[slot] = size_bytes;
    distance->masks[slot / BLOCK_SLOTS] |= 1u << slot % BLOCK_SLOTS;
    distance->slot_of[object] = slot;
}

/* What the requests will touch is on its way from memory while others are counted. */
static void prefetch(const struct distance *distance, const uint32_t *objects, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(&distance->slot_of[objects[i]], 1);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = distance->slot_of[objects[i]];

        if (slot != NONE_INDEX)
            __builtin_prefetch(&distance->sizes[slot], 1);
    }
}

enum status distance_requests(struct distance *distance, const uint32_t *objects, const uint64_t *sizes_bytes, uint32_t count,
                              struct distance_answer *ret_answers)
{
    check(count <= DISTANCE_BATCH_MAX);
    for (uint32_t i = 0; i < count; i++)
        if (objects[i] >= distance->objects_max && objects_reserve(distance, objects[i]) != STATUS_OK)
            return STATUS_FULL;
    prefetch(distance, objects, count);
    for (uint32_t i = 0; i < count; i++) {
        if (distance->next == distance->slots && compact(distance) != STATUS_OK)
            return STATUS_FULL;
        ret_answers[i] = leave(distance, objects[i], sizes_bytes[i]);
        enter(distance, objects[i], sizes_bytes[i], ret_answers[i].changed);
    }
    return STATUS_OK;
}

bool distance_bytes_known(const struct distance *distance)
{
    return !distance->bytes_unknown;
}

uint64_t distance_memory_bytes(const struct distance *distance)
{
    return sizeof(*distance) + distance->objects_max * sizeof(*distance->slot_of) + distance->slots * sizeof(*distance->sizes) +
           blocks_of(distance) * sizeof(*distance->masks) + (blocks_of(distance) + 1) * sizeof(*distance->tree);
}
