/* Policies of several queues and ghosts against twins written from their papers: positions are ranks, queues are numbers, and
 * whatever the policy keeps sorted is searched for. */
#include "pair.h"

/* --- CLOCK: the hand goes round; a use sets what the hand counts down ------------------------------------------------------ */

static void insert_below(struct twin *twin, struct twin_entry *entry)
{
    twin_to_head(twin, entry, 0);
}

static void touch_clock(struct twin *twin, struct twin_entry *entry)
{
    (void)twin;
    entry->mark = 1;
}

static uint32_t victim_of_hand(struct twin *twin, uint32_t queue)
{
    for (;;) {
        const uint32_t at = twin_last(twin, queue);

        if (at == NONE_INDEX || twin->entries[at].mark == 0)
            return at;
        twin->entries[at].mark--;
        twin_to_head(twin, &twin->entries[at], queue);
    }
}

static uint32_t victim_clock(struct twin *twin)
{
    return victim_of_hand(twin, 0);
}

/* --- SLRU: four segments --------------------------------------------------------------------------------------------------- */

static void touch_slru(struct twin *twin, struct twin_entry *entry)
{
    const uint64_t share = twin->config.capacity / 4 > 0 ? twin->config.capacity / 4 : 1;

    twin_to_head(twin, entry, entry->queue < 3 ? entry->queue + 1 : 3);
    for (uint32_t queue = 3; queue > 0; queue--)
        while (twin_queue_size(twin, queue) > share && twin_queue_count(twin, queue) > 1)
            twin_to_head(twin, &twin->entries[twin_last_of_all(twin, queue)], queue - 1);
}

static uint32_t victim_slru(struct twin *twin)
{
    for (uint32_t queue = 0; queue < 4; queue++)
        if (twin_last(twin, queue) != NONE_INDEX)
            return twin_last(twin, queue);
    return NONE_INDEX;
}

/* --- 2Q: A1in is queue 0, Am queue 1, A1out the ghosts --------------------------------------------------------------------- */

static void miss_forgets(struct twin *twin)
{
    const uint32_t ghost = twin_ghost_find(twin, twin->asked.name);

    twin->remembered = ghost != NONE_INDEX;
    if (twin->remembered)
        twin_ghost_remove(twin, ghost);
}

static void insert_by_memory(struct twin *twin, struct twin_entry *entry)
{
    twin_to_head(twin, entry, twin->remembered ? 1 : 0);
}

static void remember(struct twin *twin, const struct twin_entry *entry, uint64_t size_max)
{
    while (twin_ghost_oldest(twin, 0) != NONE_INDEX && twin_ghosts_size(twin, 0) + entry->size > size_max)
        twin_ghost_remove(twin, twin_ghost_oldest(twin, 0));
    twin_ghost_add(twin, 0, entry, 0);
}

static void touch_2q(struct twin *twin, struct twin_entry *entry)
{
    if (entry->queue == 1)
        twin_to_head(twin, entry, 1);
}

static void remove_2q(struct twin *twin, const struct twin_entry *entry, bool evicted)
{
    if (evicted && entry->queue == 0)
        remember(twin, entry, twin_share(twin, 50));
}

static uint32_t victim_2q(struct twin *twin)
{
    const uint32_t queue = twin_queue_size(twin, 0) > twin_share(twin, 25) ? 0 : 1;
    const uint32_t at = twin_last(twin, queue);

    return at != NONE_INDEX ? at : twin_last(twin, 1 - queue);
}

/* --- S3-FIFO: S is queue 0, M queue 1, G the ghosts ------------------------------------------------------------------------ */

static void touch_s3fifo(struct twin *twin, struct twin_entry *entry)
{
    (void)twin;
    entry->mark += entry->mark < 3;
}

static void remove_s3fifo(struct twin *twin, const struct twin_entry *entry, bool evicted)
{
    if (evicted && entry->queue == 0)
        remember(twin, entry, twin_share(twin, 90));
}

static uint32_t victim_of_small(struct twin *twin)
{
    for (;;) {
        const uint32_t at = twin_last(twin, 0);

        if (at == NONE_INDEX || twin->entries[at].mark < 2)
            return at;
        twin->entries[at].mark = 0;
        twin_to_head(twin, &twin->entries[at], 1);
    }
}

static uint32_t victim_s3fifo(struct twin *twin)
{
    uint32_t at = NONE_INDEX;

    if (twin_queue_size(twin, 1) + twin_share(twin, 10) > twin->config.capacity)
        at = victim_of_hand(twin, 1);
    if (at == NONE_INDEX)
        at = victim_of_small(twin);
    return at != NONE_INDEX ? at : victim_of_hand(twin, 1);
}

/* --- ARC: T1 is queue 0, T2 queue 1, B1 and B2 their ghosts ---------------------------------------------------------------- */

static bool l1_is_full(const struct twin *twin)
{
    return twin_queue_size(twin, 0) + twin_ghosts_size(twin, 0) + (twin->remembered ? 0 : twin->asked.size) > twin->config.capacity;
}

static uint64_t all_four(const struct twin *twin)
{
    return twin_queue_size(twin, 0) + twin_ghosts_size(twin, 0) + twin_queue_size(twin, 1) + twin_ghosts_size(twin, 1);
}

static void miss_arc(struct twin *twin)
{
    const uint32_t ghost = twin_ghost_find(twin, twin->asked.name);
    const double capacity = (double)twin->config.capacity, b1 = (double)twin_ghosts_size(twin, 0), b2 = (double)twin_ghosts_size(twin, 1);

    twin->remembered = ghost != NONE_INDEX;
    if (twin->remembered) {
        const double size = (double)twin->asked.size;

        twin->remembered_in = twin->ghosts[ghost].queue;
        if (twin->remembered_in == 0)
            twin->target += size * (b2 > b1 ? b2 / b1 : 1);
        else
            twin->target -= size * (b1 > b2 ? b1 / b2 : 1);
        twin->target = twin->target < 0 ? 0 : twin->target > capacity ? capacity : twin->target;
        twin_ghost_remove(twin, ghost);
    }
    while (twin_ghost_oldest(twin, 0) != NONE_INDEX && l1_is_full(twin))
        twin_ghost_remove(twin, twin_ghost_oldest(twin, 0));
    while (twin->ghosts_count > 0 && all_four(twin) + twin->asked.size > 2 * twin->config.capacity)
        twin_ghost_remove(twin, twin_ghost_oldest(twin, twin_ghosts_size(twin, 1) > 0));
}

static void touch_arc(struct twin *twin, struct twin_entry *entry)
{
    twin_to_head(twin, entry, 1);
}

static void remove_arc(struct twin *twin, const struct twin_entry *entry, bool evicted)
{
    if (evicted && (entry->queue == 1 || !l1_is_full(twin)))
        twin_ghost_add(twin, entry->queue, entry, 0);
}

static uint32_t victim_arc(struct twin *twin)
{
    const double t1 = (double)twin_queue_size(twin, 0);
    const bool again = twin->remembered && twin->remembered_in == 1;
    const uint32_t queue = l1_is_full(twin) || t1 > twin->target || (again && t1 == twin->target) ? 0 : 1;
    const uint32_t at = twin_last(twin, queue);

    return at != NONE_INDEX ? at : twin_last(twin, 1 - queue);
}

/* --- LIRS: LIR is queue 0, the HIR in Q queue 1; S is all of them and ghosts, by last use ----------------------------------- */

static uint64_t bottom_of_stack(const struct twin *twin)
{
    uint64_t bottom = UINT64_MAX;

    for (uint32_t i = 0; i < twin->count; i++)
        if (twin->entries[i].queue == 0 && twin->entries[i].key < bottom)
            bottom = (uint64_t)twin->entries[i].key;
    return bottom;
}

static void miss_lirs(struct twin *twin)
{
    const uint32_t ghost = twin_ghost_find(twin, twin->asked.name);

    twin->remembered = ghost != NONE_INDEX && twin->ghosts[ghost].key > bottom_of_stack(twin);
    if (ghost != NONE_INDEX)
        twin_ghost_remove(twin, ghost);
}

/* `twin->clock` is 1 from when an entry was too large for what the LIR may have, until there is none. */
static void use_lirs(struct twin *twin, struct twin_entry *entry, bool was_in_stack)
{
    const uint64_t lir_max = twin->config.capacity - twin_share(twin, 1);

    entry->queue = 2;
    entry->key = entry->used_at;
    if (twin_queue_count(twin, 0) == 0)
        twin->clock = 0;
    else if (twin_queue_size(twin, 0) + entry->size > lir_max)
        twin->clock = 1;
    twin_to_head(twin, entry, was_in_stack || twin->clock == 0 ? 0 : 1);
    while (twin_queue_size(twin, 0) > lir_max)
        twin_to_head(twin, &twin->entries[twin_last_of_all(twin, 0)], 1);
}

static void insert_lirs(struct twin *twin, struct twin_entry *entry)
{
    entry->queue = 2;
    use_lirs(twin, entry, twin->remembered);
}

static void touch_lirs(struct twin *twin, struct twin_entry *entry)
{
    if (entry->queue == 0) {
        entry->key = entry->used_at;
        twin_to_head(twin, entry, 0);
    } else {
        use_lirs(twin, entry, (uint64_t)entry->key > bottom_of_stack(twin));
    }
}

static void remove_lirs(struct twin *twin, const struct twin_entry *entry, bool evicted)
{
    struct twin without = *twin;
    uint64_t bottom;

    without.entries[entry - twin->entries].queue = 2;
    bottom = bottom_of_stack(&without);
    while (twin->ghosts_count > 0 && twin->ghosts[0].key < bottom)
        twin_ghost_remove(twin, 0);
    if (evicted && (uint64_t)entry->key > bottom)
        twin_ghost_add(twin, 0, entry, (uint64_t)entry->key);
}

static uint32_t victim_lirs(struct twin *twin)
{
    const uint32_t at = twin_last(twin, 1);

    return at != NONE_INDEX ? at : twin_last(twin, 0);
}

static void each_policy_agrees_with_its_twin(void **state)
{
    static const struct twin_policy twins[] = {
        {.policy = &evict_clock, .victim = victim_clock, .insert = insert_below, .touch = touch_clock},
        {.policy = &evict_slru, .victim = victim_slru, .insert = insert_below, .touch = touch_slru},
        {.policy = &evict_2q, .victim = victim_2q, .miss = miss_forgets, .insert = insert_by_memory, .touch = touch_2q, .remove = remove_2q},
        {.policy = &evict_s3fifo, .victim = victim_s3fifo, .miss = miss_forgets, .insert = insert_by_memory, .touch = touch_s3fifo,
         .remove = remove_s3fifo},
        {.policy = &evict_arc, .victim = victim_arc, .miss = miss_arc, .insert = insert_by_memory, .touch = touch_arc, .remove = remove_arc},
        {.policy = &evict_lirs, .victim = victim_lirs, .miss = miss_lirs, .insert = insert_lirs, .touch = touch_lirs, .remove = remove_lirs},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(twins); i++)
        run_pairs(&twins[i], test_seed(1011 + 100 * i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_policy_agrees_with_its_twin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
