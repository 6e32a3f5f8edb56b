/* Random valid events in random order under every queue policy, eviction policy and batching, on a replica where
 * every limit binds. The rig compares each command with its own record, and every invariant is checked after each
 * step. */
#include <stdio.h>

#include "shared/replica/rig.h"

/* Per combination. In release 10^6 and more under each policy; where instrumentation or -O0 makes it slow, fewer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
enum { EVENTS = 20000 };
#else
enum { EVENTS = 250000 };
#endif
enum { ROUNDS = 20 };
enum { ADAPTERS = 7, TENANTS = 4 };

static struct replica_config small_config(const struct queue_policy *queue, const struct evict_policy *evict,
                                          enum batching batching, uint64_t *random)
{
    struct replica_config config = rig_config();

    config.requests_max = 24;
    config.rows_max = 4;
    config.token_budget = (uint32_t)(4 + draw_below(random, 29));
    config.block_tokens = 4;
    config.kv_blocks = 20;
    config.kv_watermark_permille = (uint32_t)draw_below(random, 120);
    config.max_loras = (uint32_t)(1 + draw_below(random, 3));
    config.passes_max = (uint32_t)(1 + draw_below(random, 4));
    config.adapters_max = ADAPTERS + 2; /* versions compete for room */
    config.tenants_max = TENANTS;
    config.loads_max = (uint32_t)(1 + draw_below(random, 2));
    config.prefetch_max = (uint32_t)draw_below(random, 4);
    config.batching = batching;
    config.queue = queue;
    config.slots = (struct cache_config){.unit = draw_below(random, 2) ? CACHE_BYTES : CACHE_SLOTS,
                                         .capacity = 3,
                                         .entries_max = 3,
                                         .evict = evict,
                                         .cost_fixed_ns = 1000,
                                         .cost_ns_per_mib = 10};
    if (config.slots.unit == CACHE_BYTES)
        config.slots = (struct cache_config){CACHE_BYTES, 10, 5, evict, 1000, 10, 0};
    return config;
}

/* In bytes mode some are larger than the slots, and one takes them all. */
static uint64_t bytes_of(uint32_t index)
{
    return index == 1 ? 10 : index == 2 ? 11 : 1 + index % 5;
}

static void random_request(struct rig *rig, const uint32_t *versions, uint64_t *random)
{
    uint32_t index = (uint32_t)draw_below(random, ADAPTERS + 1);
    uint32_t prompt = (uint32_t)(1 + draw_below(random, draw_below(random, 8) == 0 ? 80 : 24));
    uint32_t output_max = (uint32_t)(1 + draw_below(random, 24));
    uint32_t truth = (uint32_t)(1 + draw_below(random, output_max));
    uint32_t tenant = (uint32_t)draw_below(random, TENANTS + (draw_below(random, 32) == 0));
    uint32_t version = index == 0 ? 0 : versions[index] - (uint32_t)(draw_below(random, 16) == 0);

    if (rig->live == rig->config.requests_max)
        return;
    rig_request_version(rig, (adapter_id){index, version}, tenant, prompt, output_max, truth);
}

static void random_load_answer(struct rig *rig, uint64_t *random)
{
    uint32_t slots = rig->config.slots.entries_max;
    uint32_t first = (uint32_t)draw_below(random, slots);

    for (uint32_t i = 0; i < slots; i++) {
        uint32_t slot = (first + i) % slots;

        if (rig->slots[slot].state != SLOT_LOADING)
            continue;
        rig_load_done(rig, slot, draw_below(random, 10) > 0, draw_below(random, 2) ? TIER_HOST : TIER_STORE);
        return;
    }
}

static void random_cancel(struct rig *rig, uint64_t *random)
{
    uint32_t slot = (uint32_t)draw_below(random, rig->config.requests_max);

    if (rig->requests[slot].live && !rig->requests[slot].cancelled)
        rig_cancel(rig, slot);
}

static void random_event(struct rig *rig, uint32_t *versions, uint64_t arrivals_permille, uint64_t *random)
{
    uint64_t what = draw_below(random, 1000);

    if (replica_wakeup_at_ns(rig->replica) == NEVER_NS)
        rig->at_ns += (int64_t)draw_below(random, 5);
    if (what < arrivals_permille) {
        random_request(rig, versions, random);
    } else if (what < 720) {
        uint32_t most = rig_steps_most(rig);

        if (most > 0)
            rig_step_done(rig, (uint32_t)(1 + draw_below(random, most)), (int64_t)draw_below(random, 100));
    } else if (what < 930) {
        random_load_answer(rig, random);
    } else if (what < 970) {
        random_cancel(rig, random);
    } else if (what < 980) { /* a new version replaces the old */
        uint32_t index = (uint32_t)(1 + draw_below(random, ADAPTERS));

        if (draw_below(random, 4) > 0)
            rig_retire(rig, (adapter_id){index, versions[index]});
        rig_know(rig, index, ++versions[index], bytes_of(index));
    } else if (what < 990) { /* the table may have been full when this was made known: tidy up and say it again */
        uint32_t index = (uint32_t)(1 + draw_below(random, ADAPTERS));

        for (uint32_t version = versions[index]; version-- > 0 && version + 8 > versions[index];)
            rig_retire(rig, (adapter_id){index, version});
        rig_know(rig, index, versions[index], bytes_of(index));
    } else {
        bool owed = replica_wakeup_at_ns(rig->replica) != NEVER_NS;
        uint64_t before = replica_digest(rig->replica);

        rig_tick(rig);
        if (!owed) { /* a tick that nobody asked for says and changes nothing */
            assert_int_equal(rig->out.count, 0);
            assert_true(replica_digest(rig->replica) == before);
        }
    }
    while (replica_wakeup_at_ns(rig->replica) != NEVER_NS && draw_below(random, 2) == 0)
        rig_tick(rig);
}

static void run(const struct queue_policy *queue, const struct evict_policy *evict, enum batching batching, uint64_t seed)
{
    uint64_t random = seed;
    uint64_t totals[REPLICA_COMMAND_COUNT] = {0};
    uint64_t refused[REFUSE_COUNT] = {0};
    uint64_t passes_most = 0;

    /* Several configurations, so that each limit binds alone and together; arrivals come in waves. */
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct replica_config config = small_config(queue, evict, batching, &random);
        struct rig *rig = rig_new(&config);
        uint32_t versions[ADAPTERS + 1];
        char label[96];

        snprintf(label, sizeof(label), "%s %s batching %d round %u", queue->name, evict->name, batching, round);
        rig->label = label;
        rig->seed = seed;
        for (uint32_t i = 1; i <= ADAPTERS; i++)
            rig_know(rig, i, versions[i] = 1, bytes_of(i));
        while (rig->told < EVENTS / ROUNDS)
            random_event(rig, versions, rig->told % 1000 < 500 ? 400 : 60, &random);
        rig_drain(rig);
        random_request(rig, versions, &random);
        rig_finish(rig);
        assert_true(rig->drained);
        passes_most = max_u64(passes_most, replica_state(rig->replica).passes_most);
        for (uint32_t i = 0; i < REPLICA_COMMAND_COUNT; i++)
            totals[i] += rig->counts[i];
        for (uint32_t i = 0; i < REFUSE_COUNT; i++)
            refused[i] += rig->refused[i];
        rig_free(rig);
    }
    /* The test would be worth little if some of it never happened. */
    for (uint32_t i = 1; i < REPLICA_COMMAND_COUNT; i++)
        assert_true(totals[i] > 0);
    for (uint32_t i = REFUSE_NONE + 1; i < REFUSE_COUNT; i++)
        assert_true(refused[i] > 0);
    assert_true(passes_most > 1);
}

/* A wide replica whose sequences end, fail, are cancelled and lose their blocks by the hundred, and whose other
 * events come between the ticks over which that is said. */
static void bursts_are_said_over_ticks_with_other_events_between(void **state)
{
    (void)state;
    uint64_t random = test_seed(77);
    uint64_t cut = 0;

    for (uint32_t round = 0; round < 12; round++) {
        struct replica_config config = small_config(round % 2 ? &queue_vtc : &queue_fcfs, &evict_lru,
                                                    round % 4 < 2 ? BATCHING_CHUNKED : BATCHING_PREFILL_FIRST, &random);
        uint32_t versions[ADAPTERS + 1];
        struct rig *rig;

        config.requests_max = 300;
        config.rows_max = 200;
        config.token_budget = 4000;
        config.kv_blocks = 1200;
        config.max_loras = 4;
        config.slots = (struct cache_config){CACHE_SLOTS, 5, 5, &evict_lru, 1, 1, 0};
        rig = rig_new(&config);
        rig->lazy_ticks = true;
        rig->label = "bursts";
        rig->seed = round;
        for (uint32_t i = 1; i <= ADAPTERS; i++)
            rig_know(rig, i, versions[i] = 1, 1);
        while (rig->told < 4000) {
            uint64_t what = draw_below(&random, 100);
            uint32_t adapter = (uint32_t)(what % 3);

            if (replica_wakeup_at_ns(rig->replica) == NEVER_NS)
                rig->at_ns++;
            else
                cut++;
            if (what < 70 && rig->live < config.requests_max) /* alike, so that they end alike */
                (void)rig_request_version(rig, (adapter_id){adapter, adapter > 0},
                                          (uint32_t)draw_below(&random, TENANTS), 20, 6, 6);
            else if (what < 80)
                random_load_answer(rig, &random);
            else if (what < 84)
                random_cancel(rig, &random);
            else if (what < 86 && rig_steps_most(rig) > 0) /* rare, so that rows and ends are many */
                rig_step_done(rig, rig_steps_most(rig), 1);
            else if (replica_wakeup_at_ns(rig->replica) != NEVER_NS)
                rig_tick(rig);
        }
        rig_drain(rig);
        rig_finish(rig);
        assert_true(rig->drained);
        rig_free(rig);
    }
    assert_true(cut > 150); /* events that came between */
}

static void every_invariant_holds_under_random_events(void **state)
{
    (void)state;
    static const struct queue_policy *const queues[] = {&queue_fcfs, &queue_vtc};
    static const struct evict_policy *const evicts[] = {
#define X(name) &evict_##name,
        EVICT_POLICIES(X)
#undef X
    };
    uint64_t seed = test_seed(2024);

    /* Every policy meets either queue and either batching, not each pair of them: the policies are many. */
    for (size_t q = 0; q < ARRAY_COUNT(queues); q++)
        for (size_t e = 0; e < ARRAY_COUNT(evicts); e++)
            run(queues[q], evicts[e], (q + e) % 2 == 0 ? BATCHING_CHUNKED : BATCHING_PREFILL_FIRST, seed++);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bursts_are_said_over_ticks_with_other_events_between),
        cmocka_unit_test(every_invariant_holds_under_random_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
