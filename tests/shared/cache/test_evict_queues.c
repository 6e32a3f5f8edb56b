/* Policies of queues against twins written from their papers: positions are ranks, queues are numbers, and
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

static void each_policy_agrees_with_its_twin(void **state)
{
    static const struct twin_policy twins[] = {
        {.policy = &evict_clock, .victim = victim_clock, .insert = insert_below, .touch = touch_clock},
        {.policy = &evict_slru, .victim = victim_slru, .insert = insert_below, .touch = touch_slru},
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
