/* What a server holds at once, and what happens when that is little: queueing, loading anew, moving; batches of many shapes. */
#include "rig.h"

static struct place place;

static int open_place(void **context)
{
    (void)context;
    place_begin(&place, DTYPE_F32);
    return 0;
}

static int close_place(void **context)
{
    (void)context;
    place_end(&place);
    return 0;
}

/* --- slots ------------------------------------------------------------------------------------------------------------------ */

static void slots_fewer_than_active_adapters_starve_nobody(void **context)
{
    enum { ADAPTERS = 8, ROUNDS = 6, REQUESTS = ADAPTERS * ROUNDS };
    static struct reply reply[ADAPTERS], cold[ADAPTERS];
    uint32_t rounds[ADAPTERS] = {0};
    uint32_t asked = 0;
    struct worker_config config;
    struct worker *worker;
    uint64_t loads;

    (void)context;
    place_worker_config(&place, &config);
    config.slots = 2;
    config.max_loras = 2;
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "thrash", ADAPTERS, 8);
    for (uint32_t i = 0; i < ADAPTERS; i++) {
        char name[32];

        snprintf(name, sizeof(name), "thrash-%u", i);
        place_ask_cold(&place, name, 10, i, 12, &cold[i]);
        reply[i] = (struct reply){.ends = 1};
    }
    /* Each adapter's next request comes when its last one is over. */
    while (asked < REQUESTS) {
        for (uint32_t i = 0; i < ADAPTERS; i++) {
            char name[32];

            if (reply[i].ends == 0 || rounds[i] == ROUNDS)
                continue;
            if (rounds[i] > 0)
                assert_same(&reply[i], &cold[i], "two slots for eight adapters");
            snprintf(name, sizeof(name), "thrash-%u", i);
            worker_ask_drawn(worker, name, 10, i, 12, &reply[i]);
            rounds[i]++;
            asked++;
        }
        worker_turn(worker);
    }
    worker_finish(worker, reply, ADAPTERS);
    loads = worker_state(worker).loads;
    printf("%d requests of %d adapters over 2 slots: %llu loads\n", REQUESTS, ADAPTERS, (unsigned long long)loads);
    assert_in_range(loads, ADAPTERS, REQUESTS);
    assert_int_equal(worker_state(worker).fetches, ADAPTERS); /* host memory holds them all */
    for (uint32_t i = 0; i < ADAPTERS; i++)
        assert_same(&reply[i], &cold[i], "two slots for eight adapters");
    worker_close(worker);
}

static void cache_full_of_busy_adapters_queues(void **context)
{
    static struct reply busy[2], waits;
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.slots = 2;
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "busy", 3, 8);
    worker_warm(worker, "busy-0");
    worker_warm(worker, "busy-1");
    worker_ask_drawn(worker, "busy-0", 10, 1, 50, &busy[0]);
    worker_ask_drawn(worker, "busy-1", 10, 2, 50, &busy[1]);
    worker_until(worker, &busy[0], 3);
    worker_until(worker, &busy[1], 3);
    worker_ask_drawn(worker, "busy-2", 10, 3, 5, &waits);
    for (int i = 0; i < 10; i++) {
        worker_turn(worker);
        assert_int_equal(waits.ends + waits.count, 0);
    }
    worker_finish(worker, &waits, 1);
    assert_int_equal(waits.end.reason, WORKER_END_LENGTH);
    worker_finish(worker, busy, 2);
    worker_close(worker);
}

/* Bytes suffice but lie in two holes: what is between moves, and goes on answering as before. */
static void a_pool_in_pieces_is_brought_together_while_its_adapters_answer(void **context)
{
    static struct reply stays, big, cold, big_cold;
    struct worker_config config;
    struct worker *worker;
    struct worker_adapter adapter;

    (void)context;
    place_worker_config(&place, &config);
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "piece", 3, 8);
    assert_true(worker_adapter_at(worker, 0, &adapter));
    worker_close(worker);
    config.pool_bytes = 3 * (uint64_t)adapter.packed_bytes;
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "piece", 3, 8);
    place_adapter(&place, "wide", 32, 9);
    worker_add(worker, &place, "wide");
    place_ask_cold(&place, "piece-1", 10, 2, 50, &cold);
    place_ask_cold(&place, "wide", 10, 3, 5, &big_cold);
    worker_warm(worker, "piece-0");
    worker_warm(worker, "piece-1");
    worker_warm(worker, "piece-2");
    worker_ask_drawn(worker, "piece-1", 10, 2, 50, &stays);
    worker_until(worker, &stays, 2);
    worker_ask_drawn(worker, "wide", 10, 3, 5, &big);
    while (big.ends == 0) {
        worker_turn(worker);
        if (stays.ends == 0)
            continue;
        assert_same(&stays, &cold, "beside one that is put into the pool");
        worker_ask_drawn(worker, "piece-1", 10, 2, 50, &stays);
    }
    worker_finish(worker, &stays, 1);
    assert_true(worker_state(worker).pool_moves >= 1);
    assert_same(&stays, &cold, "moved while it answered");
    assert_same(&big, &big_cold, "put where holes were");
    worker_close(worker);
}

static void base_takes_no_slot(void **context)
{
    static struct reply base[4], one;
    struct worker_config config;
    struct worker *worker;
    struct worker_adapter adapter;

    (void)context;
    place_worker_config(&place, &config);
    config.slots = 1;
    config.max_loras = 1;
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "alone", 1, 8);
    for (uint32_t i = 0; i < 4; i++)
        worker_ask_drawn(worker, NULL, 10, i, 40, &base[i]);
    worker_until(worker, &base[3], 2);
    assert_int_equal(worker_state(worker).pool_used_bytes, 0);
    assert_int_equal(worker_state(worker).loads, 0);
    worker_finish(worker, base, 4);
    assert_int_equal(base[0].end.tier_found, TIER_BASE);
    worker_warm(worker, "alone-0");
    for (uint32_t i = 0; i < 4; i++)
        worker_ask_drawn(worker, NULL, 10, i, 40, &base[i]);
    worker_ask_drawn(worker, "alone-0", 10, 9, 10, &one);
    worker_finish(worker, &one, 1);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(base[i].ends, 0); /* it came among them */
    worker_finish(worker, base, 4);
    assert_true(worker_adapter_at(worker, 0, &adapter));
    assert_int_equal(worker_state(worker).pool_used_bytes, adapter.packed_bytes);
    assert_int_equal(one.end.tier_found, TIER_GPU);
    worker_close(worker);
}

/* The one that waits for its place takes none from those that could run meanwhile. */
static void an_adapter_counts_against_max_loras_only_when_scheduled(void **context)
{
    static struct reply runs, waits, passes;
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.max_loras = 1;
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "counts", 2, 8);
    worker_ask_drawn(worker, "counts-0", 10, 1, 50, &runs);
    worker_until(worker, &runs, 2);
    worker_ask_drawn(worker, "counts-1", 10, 2, 5, &waits);
    worker_turn(worker);
    worker_ask_drawn(worker, "counts-0", 10, 3, 5, &passes);
    worker_finish(worker, &passes, 1);
    assert_int_equal(runs.ends, 0);
    assert_int_equal(waits.count, 0);
    worker_finish(worker, &waits, 1);
    worker_finish(worker, &runs, 1);
    assert_int_equal(waits.end.reason, WORKER_END_LENGTH);
    worker_close(worker);
}

/* --- reading and listing ---------------------------------------------------------------------------------------------------- */

static void an_adapter_is_read_once_not_each_step(void **context)
{
    static struct reply reply;
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "once", 1, 8);
    worker_ask_drawn(worker, "once-0", 10, 1, 4, &reply);
    worker_finish(worker, &reply, 1);
    assert_int_equal(rename(scratch_at(&place.scratch, "once-0"), scratch_at(&place.scratch, "once-gone")), 0);
    for (uint64_t i = 0; i < 20; i++) {
        worker_ask_drawn(worker, "once-0", 10, i, 4, &reply);
        worker_finish(worker, &reply, 1);
        assert_int_equal(reply.end.reason, WORKER_END_LENGTH);
        assert_int_equal(reply.end.tier_found, TIER_GPU);
    }
    assert_int_equal(worker_state(worker).fetches, 1);
    assert_int_equal(worker_state(worker).loads, 1);
    worker_close(worker);
}

/* Evicted from its slot it is still in host memory, and comes back from there; the disk is not asked. */
static void an_evicted_adapter_comes_back_from_host_memory(void **context)
{
    static struct reply reply, cold;
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.slots = 1;
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "back", 2, 8);
    place_ask_cold(&place, "back-0", 10, 1, 4, &cold);
    for (int i = 0; i < 6; i++) {
        worker_ask_drawn(worker, i % 2 == 0 ? "back-0" : "back-1", 10, 1, 4, &reply);
        worker_finish(worker, &reply, 1);
        assert_int_equal(reply.end.tier_found, i < 2 ? TIER_STORE : TIER_HOST);
        if (i % 2 == 0)
            assert_same(&reply, &cold, "back in its slot");
    }
    assert_int_equal(worker_state(worker).fetches, 2);
    assert_int_equal(worker_state(worker).loads, 6);
    worker_close(worker);
}

/* Host memory for one: each is read again when it is asked for again, one larger than all of it passes through. */
static void host_memory_is_never_more_than_was_said(void **context)
{
    static struct reply reply, cold;
    struct worker_config config;
    struct worker *worker;
    struct worker_adapter adapter;
    uint64_t host_bytes;

    (void)context;
    place_worker_config(&place, &config);
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "host", 3, 8);
    assert_true(worker_adapter_at(worker, 0, &adapter));
    host_bytes = (uint64_t)adapter.packed_bytes;
    worker_close(worker);
    place_ask_cold(&place, "host-1", 10, 1, 4, &cold);
    for (int pass = 0; pass < 2; pass++) {
        config.host_bytes = pass == 0 ? host_bytes : host_bytes / 2;
        config.slots = 1;
        worker = worker_opened(&config);
        for (int i = 0; i < 3; i++) {
            char name[32];

            snprintf(name, sizeof(name), "host-%d", i);
            worker_add(worker, &place, name);
        }
        for (int i = 0; i < 6; i++) {
            char name[32];

            snprintf(name, sizeof(name), "host-%d", i % 3);
            worker_ask_drawn(worker, name, 10, 1, 4, &reply);
            while (reply.ends == 0) {
                worker_turn(worker);
                assert_true(worker_state(worker).host_used_bytes <= config.host_bytes);
            }
            if (i % 3 == 1)
                assert_same(&reply, &cold, "read again");
        }
        assert_int_equal(worker_state(worker).fetches, 6);
        worker_close(worker);
    }
}

static void a_loaded_adapter_is_listed_at_once(void **context)
{
    static const char *const names[] = {"m", "a", "z", "k"};
    static const char *const sorted[] = {"a", "k", "m", "z"};
    struct worker_config config;
    struct worker *worker;
    struct worker_adapter adapter;

    (void)context;
    place_worker_config(&place, &config);
    worker = worker_opened(&config);
    assert_false(worker_adapter_at(worker, 0, &adapter));
    for (uint32_t i = 0; i < 4; i++) {
        bool found = false;

        place_adapter(&place, names[i], 4 + (int32_t)i, i);
        worker_add(worker, &place, names[i]);
        for (uint32_t at = 0; worker_adapter_at(worker, at, &adapter); at++)
            found = found || strcmp(adapter.name, names[i]) == 0;
        assert_true(found);
        assert_int_equal(worker_state(worker).adapters, i + 1);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(worker_adapter_at(worker, i, &adapter));
        assert_string_equal(adapter.name, sorted[i]);
        assert_int_equal(adapter.tier, TIER_STORE);
        assert_int_equal(adapter.rank, 16);
    }
    assert_int_equal(worker_adapter_remove(worker, "k"), STATUS_OK);
    assert_true(worker_adapter_at(worker, 1, &adapter));
    assert_string_equal(adapter.name, "m");
    assert_false(worker_adapter_at(worker, 3, &adapter));
    worker_close(worker);
}

/* --- shapes ----------------------------------------------------------------------------------------------------------------- */

static void ranks_16_to_64_under_load_equal_alone(void **context)
{
    static const int32_t ranks[] = {16, 64, 1, 48, 17, 32};
    static struct reply reply[24], cold[24];
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.max_loras = 6;
    config.slots = 6;
    worker = worker_opened(&config);
    for (uint32_t i = 0; i < ARRAY_COUNT(ranks); i++) {
        char name[32];

        snprintf(name, sizeof(name), "rank-%d", ranks[i]);
        place_adapter(&place, name, ranks[i], i);
        worker_add(worker, &place, name);
    }
    for (uint32_t i = 0; i < 24; i++) {
        char name[32];

        snprintf(name, sizeof(name), "rank-%d", ranks[i % 6]);
        place_ask_cold(&place, name, 3 + i, i, 12, &cold[i]);
        worker_ask_drawn(worker, name, 3 + i, i, 12, &reply[i]);
    }
    worker_finish(worker, reply, 24);
    for (uint32_t i = 0; i < 24; i++)
        assert_same(&reply[i], &cold[i], "six ranks in one batch");
    worker_close(worker);
}

static void one_segment_then_many_then_none(void **context)
{
    static struct reply one, many[5], none, cold_one, cold_none, cold_many[5];
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.slots = 8;
    config.max_loras = 6;
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "segment", 6, 8);
    worker_ask_drawn(worker, "segment-0", 10, 1, 40, &one);
    worker_until(worker, &one, 4);
    for (uint32_t i = 0; i < 5; i++) {
        char name[32];

        snprintf(name, sizeof(name), "segment-%u", i + 1);
        worker_ask_drawn(worker, name, 10, i, 12, &many[i]);
        place_ask_cold(&place, name, 10, i, 12, &cold_many[i]);
    }
    worker_finish(worker, many, 5);
    worker_finish(worker, &one, 1);
    worker_ask_drawn(worker, NULL, 10, 2, 12, &none);
    worker_finish(worker, &none, 1);
    place_ask_cold(&place, "segment-0", 10, 1, 40, &cold_one);
    place_ask_cold(&place, NULL, 10, 2, 12, &cold_none);
    assert_same(&one, &cold_one, "one, then six");
    for (uint32_t i = 0; i < 5; i++)
        assert_same(&many[i], &cold_many[i], "six");
    assert_same(&none, &cold_none, "none after six");
    worker_close(worker);
}

static void a_large_rank_max_is_fine(void **context)
{
    static struct reply reply, cold;
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.rank_max = LORA_RANK_MAX;
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "small", 1, 4);
    place_adapter(&place, "large", LORA_RANK_MAX, 3);
    worker_add(worker, &place, "large");
    place_ask_cold(&place, "small-0", 10, 1, 12, &cold);
    worker_ask_drawn(worker, "small-0", 10, 1, 12, &reply);
    worker_finish(worker, &reply, 1);
    assert_same(&reply, &cold, "rank 4 where 256 may come");
    worker_ask_drawn(worker, "large", 10, 1, 12, &reply);
    worker_finish(worker, &reply, 1);
    assert_int_equal(reply.end.reason, WORKER_END_LENGTH);
    worker_close(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_fewer_than_active_adapters_starve_nobody),
        cmocka_unit_test(cache_full_of_busy_adapters_queues),
        cmocka_unit_test(a_pool_in_pieces_is_brought_together_while_its_adapters_answer),
        cmocka_unit_test(base_takes_no_slot),
        cmocka_unit_test(an_adapter_counts_against_max_loras_only_when_scheduled),
        cmocka_unit_test(an_adapter_is_read_once_not_each_step),
        cmocka_unit_test(an_evicted_adapter_comes_back_from_host_memory),
        cmocka_unit_test(host_memory_is_never_more_than_was_said),
        cmocka_unit_test(a_loaded_adapter_is_listed_at_once),
        cmocka_unit_test(ranks_16_to_64_under_load_equal_alone),
        cmocka_unit_test(one_segment_then_many_then_none),
        cmocka_unit_test(a_large_rank_max_is_fine),
    };

    return cmocka_run_group_tests(tests, open_place, close_place);
}
