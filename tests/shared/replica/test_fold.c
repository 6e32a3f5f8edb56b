/* step_done{steps = k} equals k times step_done{steps = 1}: the same arrivals, cancellations, retirements and loads are
 * played to two replicas, one told of each engine step, the other of random runs of them. */
#include <stdlib.h>

#include "base/hash.h"
#include "shared/replica/rig.h"

enum { ADAPTERS = 6, TENANTS = 3 };

/* Plays physics: how long a step and a load take is a hash of which they are, so both worlds have the same. */
struct world {
    struct rig *rig;
    uint64_t *chance; /* how many steps to tell at once; NULL: one by one */
    int64_t step_began_at_ns;
    int64_t load_ends_at_ns[RIG_SLOTS];
    uint64_t tellings;
};

static int64_t step_ns(uint64_t step)
{
    return 1000 + (int64_t)(hash_mix(step) % 300);
}

/* After something was told: starts the clocks of what was asked for. */
static void world_note(struct world *world, bool ran_before)
{
    struct rig *rig = world->rig;

    if (!ran_before && rig->plan_count > 0)
        world->step_began_at_ns = rig->at_ns;
    for (uint32_t i = 0; i < rig->config.slots.entries_max; i++) {
        if (rig->slots[i].state != SLOT_LOADING)
            world->load_ends_at_ns[i] = NEVER_NS;
        else if (world->load_ends_at_ns[i] == NEVER_NS)
            world->load_ends_at_ns[i] =
                rig->at_ns + 3000 + (int64_t)(hash_mix((uint64_t)rig->at_ns ^ rig->slots[i].adapter.index) % 9000);
    }
}

/* Tells the steps that have ended by `until_ns`, some or all of them. False: none has. */
static bool world_steps(struct world *world, int64_t until_ns)
{
    struct rig *rig = world->rig;
    /* Once something has happened in the middle of a step, that step ends alone. */
    uint32_t most = world->chance == NULL || rig->touched ? min_u32(rig_steps_most(rig), 1) : rig_steps_most(rig);
    int64_t at_ns = world->step_began_at_ns;
    uint32_t ended = 0;

    while (ended < most && at_ns + step_ns(rig->steps + ended + 1) <= until_ns)
        at_ns += step_ns(rig->steps + ++ended);
    if (ended == 0)
        return false;
    if (world->chance != NULL && draw_below(world->chance, 2) == 0) {
        ended = (uint32_t)(1 + draw_below(world->chance, ended));
        at_ns = world->step_began_at_ns;
        for (uint32_t i = 1; i <= ended; i++)
            at_ns += step_ns(rig->steps + i);
    }
    rig->at_ns = at_ns;
    rig_step_done(rig, ended, at_ns - world->step_began_at_ns);
    world->tellings++;
    world_note(world, false);
    return true;
}

static void world_advance(struct world *world, int64_t until_ns)
{
    struct rig *rig = world->rig;

    for (;;) {
        uint32_t slot = 0;
        int64_t load_ns;

        for (uint32_t i = 1; i < rig->config.slots.entries_max; i++) {
            if (world->load_ends_at_ns[i] < world->load_ends_at_ns[slot])
                slot = i;
        }
        load_ns = world->load_ends_at_ns[slot];
        if (world_steps(world, min_i64(load_ns, until_ns)))
            continue;
        if (load_ns > until_ns)
            break;
        bool ran = rig->plan_count > 0;
        bool arrives = hash_mix((uint64_t)load_ns) % 8 != 0;

        rig->at_ns = load_ns;
        rig_load_done(rig, slot, arrives, load_ns % 2 ? TIER_HOST : TIER_STORE);
        world_note(world, ran);
    }
    rig->at_ns = until_ns;
}

static struct replica_config tight_config(const struct queue_policy *queue, enum batching batching)
{
    struct replica_config config = rig_config();

    config.requests_max = 64;
    config.rows_max = 6;
    config.token_budget = 32;
    config.block_tokens = 8;
    config.kv_blocks = 40;
    config.kv_watermark_permille = 30;
    config.max_loras = 3;
    config.passes_max = 3;
    config.tenants_max = TENANTS;
    config.loads_max = 2;
    config.prefetch_max = 2;
    config.queue = queue;
    config.batching = batching;
    config.slots.capacity = 4;
    config.slots.entries_max = 4;
    return config;
}

static void world_open(struct world *world, const struct replica_config *config, uint64_t *chance, uint64_t seed)
{
    *world = (struct world){.rig = rig_new(config), .chance = chance};
    world->rig->seed = seed;
    for (uint32_t i = 0; i < RIG_SLOTS; i++)
        world->load_ends_at_ns[i] = NEVER_NS;
    for (uint32_t i = 1; i <= ADAPTERS; i++)
        rig_know(world->rig, i, 1, 1);
}

static void play(struct world *world, uint64_t what, uint64_t luck)
{
    struct rig *rig = world->rig;
    bool ran = rig->plan_count > 0;
    uint32_t slot = (uint32_t)(luck % rig->config.requests_max);

    if (what < 85) {
        uint32_t output_max = 1 + (uint32_t)(luck >> 8) % 150;

        if (rig->live < rig->config.requests_max)
            rig_request(rig, (uint32_t)(luck >> 24) % (ADAPTERS + 1), (uint32_t)(luck >> 32) % TENANTS,
                        1 + (uint32_t)(luck >> 40) % 60, output_max, 1 + (uint32_t)(luck >> 48) % output_max);
    } else if (rig->requests[slot].live && !rig->requests[slot].cancelled) {
        rig_cancel(rig, slot);
    }
    world_note(world, ran);
}

static void compare_logs(const struct rig *a, const struct rig *b)
{
    assert_int_equal(a->log_count, b->log_count);
    assert_true(a->log_count <= RIG_LOG);
    for (uint32_t i = 0; i < a->log_count; i++) {
        assert_int_equal(a->log[i].kind, b->log[i].kind);
        assert_int_equal(a->log[i].reason, b->log[i].reason);
        assert_int_equal(a->log[i].at_ns, b->log[i].at_ns);
        assert_memory_equal(a->log[i].command.word, b->log[i].command.word, sizeof(a->log[i].command.word));
    }
}

static void compare_worlds(const struct queue_policy *queue, enum batching batching, uint64_t seed)
{
    struct replica_config config = tight_config(queue, batching);
    uint64_t random = seed;
    uint64_t chance = ~seed;
    struct world single;
    struct world folded;
    int64_t at_ns = 0;

    world_open(&single, &config, NULL, seed);
    world_open(&folded, &config, &chance, seed);
    for (uint32_t i = 0; i < 1200; i++) {
        uint64_t what = draw_below(&random, 100);
        uint64_t luck = draw(&random);

        /* Bursts that queue up, and lulls in which long runs fold. */
        at_ns += (int64_t)draw_below(&random, i % 60 < 30 ? 15000 : 100000);
        world_advance(&single, at_ns);
        world_advance(&folded, at_ns);
        if (replica_digest(single.rig->replica) != replica_digest(folded.rig->replica))
            fail_msg("seed %llu: digests part after event %u", (unsigned long long)seed, i);
        play(&single, what, luck);
        play(&folded, what, luck);
    }
    world_advance(&single, at_ns + NS_PER_S);
    world_advance(&folded, at_ns + NS_PER_S);
    assert_int_equal(single.rig->live, 0);
    assert_int_equal(folded.rig->live, 0);
    assert_true(replica_digest(single.rig->replica) == replica_digest(folded.rig->replica));
    compare_logs(single.rig, folded.rig);
    assert_int_equal(single.rig->steps, single.tellings);
    assert_int_equal(single.rig->steps, folded.rig->steps);
    assert_true(folded.tellings * 3 < single.tellings * 2); /* it did fold */
    assert_true(single.rig->counts[REPLICA_COMMAND_PREEMPT] > 0);
    rig_free(single.rig);
    rig_free(folded.rig);
}

static void folded_steps_equal_single_steps(void **state)
{
    (void)state;
    uint64_t seed = test_seed(7);

    for (uint32_t i = 0; i < 3; i++) {
        compare_worlds(&queue_fcfs, BATCHING_CHUNKED, seed + 10 * i);
        compare_worlds(&queue_fcfs, BATCHING_PREFILL_FIRST, seed + 10 * i + 1);
        compare_worlds(&queue_vtc, BATCHING_CHUNKED, seed + 10 * i + 2);
        compare_worlds(&queue_vtc, BATCHING_PREFILL_FIRST, seed + 10 * i + 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_steps_equal_single_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
