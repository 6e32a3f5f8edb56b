/* What to drop to make room: GreedyDual-Size-Frequency over the holdings of one node, as for adapters one level down. */
#include "fleet/place.h"

void place_gather(struct devices *devices, const struct node *node, uint32_t keep)
{
    devices->droppable_count = 0;
    for (uint32_t at = node->holdings_head; at != NONE_INDEX; at = devices->holdings[at].next) {
        const struct holding *holding = &devices->holdings[at];

        if (at != keep && droppable(holding))
            devices->droppable[devices->droppable_count++] = (struct droppable){
                .key = holding->key,
                .used_order = holding->used_order,
                .bytes = holding->bytes,
                .holding = at,
                .gpu_mask = holding->gpu_mask,
            };
    }
}

/* GPUs of the mask that lack room even without what was chosen. */
static uint16_t lacking(const struct devices *devices, const struct node *node, uint16_t mask, uint64_t need)
{
    uint16_t lack = 0;

    for (uint16_t left = mask; left != 0; left &= (uint16_t)(left - 1)) {
        uint16_t gpu = gpu_bit(mask_first(left));
        uint64_t room = gpu_room_now(&devices->classes[node->class], &node->gpus[mask_first(left)]);

        for (uint32_t i = 0; i < devices->droppable_count && room < need; i++)
            if (devices->droppable[i].chosen && (devices->droppable[i].gpu_mask & gpu) != 0)
                room += devices->droppable[i].bytes;
        if (room < need)
            lack |= gpu;
    }
    return lack;
}

static bool dropped_before(const struct droppable *a, const struct droppable *b)
{
    return a->key != b->key ? a->key < b->key : a->used_order < b->used_order;
}

static struct droppable *next_victim(const struct devices *devices, uint16_t lack, uint32_t keep)
{
    struct droppable *best = NULL;

    for (uint32_t i = 0; i < devices->droppable_count; i++) {
        struct droppable *victim = &devices->droppable[i];

        if (!victim->chosen && victim->holding != keep && (victim->gpu_mask & lack) != 0 &&
            (best == NULL || dropped_before(victim, best)))
            best = victim;
    }
    return best;
}

bool place_victims(struct devices *devices, const struct node *node, uint16_t mask, uint32_t keep, uint64_t need,
                   struct score *score)
{
    uint32_t count = 0;
    uint16_t lack;

    for (uint32_t i = 0; i < devices->droppable_count; i++)
        devices->droppable[i].chosen = false;
    while ((lack = lacking(devices, node, mask, need)) != 0) {
        struct droppable *victim = next_victim(devices, lack, keep);

        if (victim == NULL)
            return false;
        victim->chosen = true;
        devices->victims[count++] = (uint32_t)(victim - devices->droppable);
    }
    devices->victims_count = 0;
    for (uint32_t i = count; i-- > 0;) {
        struct droppable *victim = &devices->droppable[devices->victims[i]];

        victim->chosen = false;
        victim->chosen = lacking(devices, node, mask, need) != 0;
    }
    score->level = score->used_order = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct droppable *victim = &devices->droppable[devices->victims[i]];

        if (!victim->chosen)
            continue;
        score->level = victim->key; /* they were chosen in this order */
        score->used_order = victim->used_order;
        devices->victims[devices->victims_count++] = victim->holding;
    }
    return true;
}
