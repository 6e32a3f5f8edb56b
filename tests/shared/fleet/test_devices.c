#include "devices_rig.h"

/* N + k * (adapter + optimizer + activations): 16 GB of base once, then 500 MB a job. */
static void jobs_share_one_base_to_the_byte(void **state)
{
    (void)state;
    uint64_t base = 16000000000;
    uint64_t job = 500000000;
    struct devices *devices = rig_devices(1, 64);

    devices_up(devices, 0, 1, 0, GPU_NO_MIG, base + 5 * job);
    for (uint32_t i = 0; i < 5; i++) {
        struct devices_ask ask = rig_ask(i, 1, 1, ISOLATION_MPS, base, job);

        assert_int_equal(rig_place(devices, &ask).kind, i == 0 ? PLACE_LOAD : PLACE_RESIDENT);
    }
    struct devices_ask one_more = rig_ask(5, 1, 1, ISOLATION_MPS, base, 1);

    assert_int_equal(devices_find(devices, &one_more, true, true).kind, PLACE_NONE);
    devices_release(devices, 2);
    one_more.bytes = job + 1;
    assert_int_equal(devices_find(devices, &one_more, true, true).kind, PLACE_NONE);
    one_more.bytes = job;
    assert_int_equal(devices_find(devices, &one_more, true, true).kind, PLACE_RESIDENT);
    free(devices);
}

/* 24 x 2000 MiB once went onto 46,068 MiB: 23 fit, and not one more. */
static void twenty_four_times_2000_mib_do_not_fit_on_46068(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(1, 48);

    devices_up(devices, 0, 1, 0, GPU_NO_MIG, 46068 * MIB);
    for (uint32_t i = 0; i < 24; i++) {
        struct devices_ask ask = rig_ask(i, 0, 1, ISOLATION_MPS, 0, 2000 * MIB);

        assert_int_equal(rig_place(devices, &ask).kind != PLACE_NONE, i < 23);
    }
    assert_int_equal(devices_jobs_on(devices, 0, 0), 23);
    free(devices);
}

static void small_jobs_keep_whole_nodes_whole(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(3, 1);

    for (uint16_t node = 0; node < 3; node++)
        devices_up(devices, node, 0xff, 0, GPU_NO_MIG, 80 * GIB);
    /* The second node is begun: all that is small goes there until it is full. */
    rig_hold(devices, 9, GIB, 1, 1);
    struct devices_ask first = rig_ask(60, 9, 1, ISOLATION_EXCLUSIVE, GIB, GIB);

    assert_int_equal(rig_place(devices, &first).node, 1);
    for (uint32_t i = 0; i < 7; i++) {
        struct devices_ask ask = rig_ask(i, 1, 1, ISOLATION_EXCLUSIVE, 16 * GIB, GIB);

        assert_int_equal(rig_place(devices, &ask).node, 1);
    }
    struct devices_ask gang = rig_ask(10, 2, 8, ISOLATION_EXCLUSIVE, 20 * GIB, GIB);

    struct devices_place place = rig_place(devices, &gang);

    assert_int_equal(place.kind, PLACE_LOAD);
    assert_int_equal(place.gpu_mask, 0xff);
    gang.job = 11;
    assert_int_equal(rig_place(devices, &gang).gpu_mask, 0xff);
    gang.job = 12;
    assert_int_equal(devices_find(devices, &gang, true, true).kind, PLACE_NONE);
    free(devices);
}

static void gangs_take_aligned_blocks_from_what_is_broken(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(1, 1);
    const struct {
        uint16_t gpus;
        uint16_t mask;
    } steps[] = {{1, 0x01}, {2, 0x0c}, {1, 0x02}, {4, 0xf0}};

    devices_up(devices, 0, 0xff, 0, GPU_NO_MIG, 80 * GIB);
    for (uint32_t i = 0; i < ARRAY_COUNT(steps); i++) {
        struct devices_ask ask = rig_ask(i, (uint16_t)i, steps[i].gpus, ISOLATION_EXCLUSIVE, GIB, GIB);

        assert_int_equal(rig_place(devices, &ask).gpu_mask, steps[i].mask);
    }
    /* Scattered GPUs do when no block is left. */
    devices_release(devices, 0);
    devices_release(devices, 1);
    struct devices_ask three = rig_ask(9, 9, 3, ISOLATION_EXCLUSIVE, GIB, GIB);

    assert_int_equal(rig_place(devices, &three).gpu_mask, 0x0d);
    free(devices);
}

static void a_gang_does_not_span_nodes(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(2, 1);

    devices_up(devices, 0, 0x0f, 0, GPU_NO_MIG, 80 * GIB);
    devices_up(devices, 1, 0x0f, 0, GPU_NO_MIG, 80 * GIB);
    struct devices_ask ask = rig_ask(0, 0, 5, ISOLATION_EXCLUSIVE, GIB, GIB);

    assert_int_equal(devices_find(devices, &ask, true, true).kind, PLACE_NONE);
    assert_int_equal(devices_gang_largest(devices), 4);
    free(devices);
}

static void a_job_goes_where_its_base_is(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(2, 1);

    devices_up(devices, 0, 0x0f, 0, GPU_NO_MIG, 80 * GIB);
    devices_up(devices, 1, 0x0f, 0, GPU_NO_MIG, 80 * GIB);
    uint32_t holding = devices_hold(devices, 3, 16 * GIB, 1, 4, 10 * NS_PER_S);
    struct devices_ask ask = rig_ask(0, 3, 1, ISOLATION_EXCLUSIVE, 16 * GIB, GIB);
    struct devices_place place = devices_find(devices, &ask, true, true);

    assert_int_equal(place.kind, PLACE_LOADING);
    assert_int_equal(place.holding, holding);
    devices_loaded(devices, holding);
    place = devices_find(devices, &ask, true, false);
    assert_int_equal(place.kind, PLACE_RESIDENT);
    assert_int_equal(place.node, 1);
    assert_int_equal(place.gpu_mask, 4);
    /* Naive placement does not look for it. */
    place = devices_find(devices, &ask, false, true);
    assert_int_equal(place.kind, PLACE_LOAD);
    assert_int_equal(place.node, 0);
    /* Another base may not load when no work pays for it. */
    ask.base = 4;
    assert_int_equal(devices_find(devices, &ask, true, false).kind, PLACE_NONE);
    free(devices);
}

static void a_holding_of_ones_own_is_preferred_to_sharing(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(1, 4);

    devices_up(devices, 0, 3, 0, GPU_NO_MIG, 80 * GIB);
    rig_hold(devices, 3, 16 * GIB, 0, 1);
    rig_hold(devices, 3, 16 * GIB, 0, 2);
    for (uint32_t i = 0; i < 3; i++) {
        struct devices_ask ask = rig_ask(i, 3, 1, ISOLATION_MPS, 16 * GIB, (i + 1) * GIB);
        struct devices_place place = rig_place(devices, &ask);

        assert_int_equal(place.kind, PLACE_RESIDENT);
        /* The third shares: where the fewest bytes are left, beside the second. */
        assert_int_equal(place.gpu_mask, i == 0 ? 1 : 2);
    }
    free(devices);
}

static void the_cheapest_base_is_dropped_and_no_more_than_needed(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(1, 1);

    devices_up(devices, 0, 1, 0, GPU_NO_MIG, 80 * GIB);
    uint32_t dear = devices_hold(devices, 1, 30 * GIB, 0, 1, 100 * NS_PER_S);
    uint32_t cheap = devices_hold(devices, 2, 30 * GIB, 0, 1, NS_PER_S);

    /* What is on its way is nobody's to drop. */
    struct devices_ask ask = rig_ask(0, 3, 1, ISOLATION_EXCLUSIVE, 30 * GIB, GIB);

    assert_int_equal(devices_find(devices, &ask, true, true).kind, PLACE_NONE);
    devices_loaded(devices, dear);
    devices_loaded(devices, cheap);
    struct devices_place place = devices_find(devices, &ask, true, true);

    assert_int_equal(place.kind, PLACE_LOAD);
    assert_int_equal(place.victims, 1);
    assert_int_equal(devices_victim_at(devices, 0), cheap);
    /* Room for a job beside its own base is made in the same way. */
    ask = rig_ask(0, 2, 1, ISOLATION_EXCLUSIVE, 30 * GIB, 21 * GIB);
    place = devices_find(devices, &ask, true, false);
    assert_int_equal(place.kind, PLACE_RESIDENT);
    assert_int_equal(place.victims, 1);
    assert_int_equal(devices_victim_at(devices, 0), dear);
    /* A claim keeps its base. */
    rig_claim(devices, &ask, place, true);
    ask = rig_ask(1, 3, 1, ISOLATION_EXCLUSIVE, GIB, GIB);
    assert_int_equal(devices_find(devices, &ask, true, true).kind, PLACE_NONE);
    free(devices);
}

struct isolation_case {
    uint8_t there;
    uint8_t comes;
    bool same_tenant;
    bool trusted; /* both */
    bool fits;
};

/* One GPU with one job on it and room for a second. */
static void isolation_decides_who_may_stand_beside_whom(void **state)
{
    (void)state;
    const struct isolation_case cases[] = {
        {ISOLATION_EXCLUSIVE, ISOLATION_EXCLUSIVE, true, true, false},
        {ISOLATION_EXCLUSIVE, ISOLATION_MPS, true, true, false},
        {ISOLATION_EXCLUSIVE, ISOLATION_MIG, true, true, false},
        {ISOLATION_MPS, ISOLATION_EXCLUSIVE, true, true, false},
        {ISOLATION_MPS, ISOLATION_MPS, true, false, true},
        {ISOLATION_MPS, ISOLATION_MPS, false, true, true},
        {ISOLATION_MPS, ISOLATION_MPS, false, false, false},
        {ISOLATION_MPS, ISOLATION_TIME_SLICE, true, true, false},
        {ISOLATION_MPS, ISOLATION_MIG, true, true, false},
        {ISOLATION_TIME_SLICE, ISOLATION_TIME_SLICE, true, false, true},
        {ISOLATION_TIME_SLICE, ISOLATION_TIME_SLICE, false, true, false},
        {ISOLATION_TIME_SLICE, ISOLATION_MPS, true, true, false},
        {ISOLATION_MIG, ISOLATION_EXCLUSIVE, true, true, false},
        {ISOLATION_MIG, ISOLATION_MPS, true, true, false},
        {ISOLATION_MIG, ISOLATION_MIG, false, false, true},
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct devices *devices = rig_devices(1, 4);
        struct devices_ask there = rig_ask(0, 1, 1, cases[i].there, 8 * GIB, GIB);
        struct devices_ask comes = rig_ask(1, 1, 1, cases[i].comes, 8 * GIB, GIB);

        devices_up(devices, 0, 1, 0, GPU_H100_80, 79 * GIB);
        there.trusted = comes.trusted = cases[i].trusted;
        comes.tenant = cases[i].same_tenant ? 0 : 1;
        assert_int_equal(rig_place(devices, &there).kind, PLACE_LOAD);
        struct devices_place place = devices_find(devices, &comes, true, true);

        if ((place.kind != PLACE_NONE) != cases[i].fits)
            fail_msg("case %u: kind %d, expected to fit: %d", i, (int)place.kind, cases[i].fits);
        /* Another class would do, unless the GPU is somebody's alone. */
        if (!cases[i].fits && place.blocked_by_isolation != (cases[i].there != ISOLATION_EXCLUSIVE))
            fail_msg("case %u: blocked_by_isolation %d", i, place.blocked_by_isolation);
        assert_false(place.blocked_by_earmark);
        devices_release(devices, 0);
        assert_int_not_equal(devices_find(devices, &comes, true, true).kind, PLACE_NONE);
        free(devices);
    }
}

static void no_more_than_sharers_max_share(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(1, 2);

    devices_up(devices, 0, 1, 0, GPU_NO_MIG, 80 * GIB);
    for (uint32_t i = 0; i < 3; i++) {
        struct devices_ask ask = rig_ask(i, 1, 1, ISOLATION_TIME_SLICE, GIB, GIB);

        assert_int_equal(rig_place(devices, &ask).kind != PLACE_NONE, i < 2);
    }
    assert_int_equal(devices_job_at(devices, 0, 0, 0), 0);
    assert_int_equal(devices_job_at(devices, 0, 0, 1), 1);
    assert_int_equal(devices_job_at(devices, 0, 0, 2), NONE_INDEX);
    free(devices);
}

static void earmarked_gpus_wait_for_one_job(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(1, 1);
    struct devices_ask other = rig_ask(1, 1, 1, ISOLATION_EXCLUSIVE, GIB, GIB);
    struct devices_ask owner = rig_ask(2, 1, 2, ISOLATION_EXCLUSIVE, GIB, GIB);

    devices_up(devices, 0, 3, 0, GPU_NO_MIG, 80 * GIB);
    devices_earmark(devices, 0, 3, 2, 0);
    other.end_estimate_ns = NS_PER_S;
    struct devices_place place = devices_find(devices, &other, true, true);

    assert_int_equal(place.kind, PLACE_NONE);
    assert_true(place.blocked_by_earmark);
    assert_false(place.blocked_by_isolation);
    assert_int_equal(devices_find(devices, &owner, true, true).kind, PLACE_LOAD);
    devices_unearmark(devices, 2);
    devices_unearmark(devices, 2);
    assert_int_equal(devices_find(devices, &other, true, true).kind, PLACE_LOAD);
    free(devices);
}

static void backfill_may_use_a_reservation_until_it_begins(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(1, 1);
    struct devices_ask ask = rig_ask(1, 1, 1, ISOLATION_EXCLUSIVE, GIB, GIB);

    devices_up(devices, 0, 1, 0, GPU_NO_MIG, 80 * GIB);
    devices_earmark(devices, 0, 1, 2, 100 * NS_PER_S);
    ask.end_estimate_ns = 100 * NS_PER_S;
    assert_int_equal(devices_find(devices, &ask, true, true).kind, PLACE_LOAD);
    ask.end_estimate_ns++;
    assert_true(devices_find(devices, &ask, true, true).blocked_by_earmark);
    ask.end_estimate_ns = NEVER_NS;
    assert_true(devices_find(devices, &ask, true, true).blocked_by_earmark);
    /* A second call replaces the first. */
    devices_earmark(devices, 0, 1, 2, 200 * NS_PER_S);
    ask.end_estimate_ns = 200 * NS_PER_S;
    assert_int_equal(devices_find(devices, &ask, true, true).kind, PLACE_LOAD);
    devices_check(devices);
    free(devices);
}

static void find_without_changes_nothing(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(1, 4);
    const uint32_t both[] = {0, 1};
    const uint32_t middle[] = {3};

    devices_up(devices, 0, 3, 0, GPU_NO_MIG, 80 * GIB);
    for (uint32_t i = 0; i < 2; i++) {
        struct devices_ask ask = rig_ask(i, 1, 1, ISOLATION_EXCLUSIVE, 16 * GIB, GIB);

        rig_place(devices, &ask);
    }
    struct devices_ask gang = rig_ask(9, 2, 2, ISOLATION_EXCLUSIVE, 70 * GIB, GIB);
    uint64_t digest = devices_digest(devices);

    assert_int_equal(devices_find(devices, &gang, true, true).kind, PLACE_NONE);
    assert_int_equal(devices_find_without(devices, &gang, both, 1).kind, PLACE_NONE);
    struct devices_place place = devices_find_without(devices, &gang, both, 2);

    assert_int_equal(place.kind, PLACE_LOAD);
    assert_int_equal(place.gpu_mask, 3);
    assert_int_equal(place.victims, 2);
    assert_true(devices_digest(devices) == digest);
    devices_check(devices);

    /* The middle one of three keeps its place in the order. */
    devices_release(devices, 0);
    for (uint32_t i = 2; i < 5; i++) {
        struct devices_ask ask = rig_ask(i, 1, 1, ISOLATION_MPS, 16 * GIB, GIB);

        rig_place(devices, &ask);
    }
    digest = devices_digest(devices);
    devices_find_without(devices, &gang, middle, 1);
    assert_true(devices_digest(devices) == digest);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(devices_job_at(devices, 0, 0, i), 2 + i);
    free(devices);
}

static void a_gang_that_loses_one_gpu_is_gone_as_a_whole(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(1, 4);
    struct devices_ask gang = rig_ask(0, 1, 2, ISOLATION_EXCLUSIVE, 16 * GIB, GIB);
    struct devices_ask single = rig_ask(1, 2, 1, ISOLATION_EXCLUSIVE, 16 * GIB, GIB);
    uint32_t jobs[4];

    devices_up(devices, 0, 7, 0, GPU_NO_MIG, 80 * GIB);
    assert_int_equal(rig_place(devices, &gang).gpu_mask, 3);
    assert_int_equal(rig_place(devices, &single).gpu_mask, 4);
    assert_int_equal(devices_gpus_busy(devices, 0), 3);
    assert_int_equal(devices_gone(devices, 0, 2, jobs, 4), 1);
    assert_int_equal(jobs[0], 0);
    devices_check(devices);
    struct devices_place place;

    assert_false(devices_claimed(devices, 0, &place));
    assert_true(devices_claimed(devices, 1, &place));
    assert_int_equal(place.gpu_mask, 4);
    /* Its shard on the GPU that is left is gone too; that GPU is free. */
    assert_int_equal(devices_holding_at(devices, 0, 3, 1), NONE_INDEX);
    assert_int_equal(devices_gpus(devices, 0), 2);
    assert_int_equal(devices_gpus_busy(devices, 0), 1);
    gang.gpus = 1;
    assert_int_equal(rig_place(devices, &gang).gpu_mask, 1);
    assert_int_equal(devices_gone(devices, 0, 5, jobs, 4), 2);
    assert_int_equal(devices_bytes_largest(devices), 0);
    assert_int_equal(devices_gang_largest(devices), 0);
    devices_check(devices);
    free(devices);
}

static void closed_gpus_keep_their_jobs_and_take_none(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(1, 4);
    struct devices_ask ask = rig_ask(0, 1, 1, ISOLATION_MPS, GIB, GIB);
    struct devices_place place;

    devices_up(devices, 0, 1, 1, GPU_NO_MIG, 80 * GIB);
    rig_place(devices, &ask);
    devices_close(devices, 0, 1);
    devices_check(devices);
    assert_true(devices_claimed(devices, 0, &place));
    assert_int_equal(place.flavor, 1);
    ask.job = 1;
    place = devices_find(devices, &ask, true, true);
    assert_int_equal(place.kind, PLACE_NONE);
    assert_false(place.blocked_by_isolation);
    assert_int_equal(devices_gpus(devices, 1), 0);
    devices_release(devices, 0);
    devices_check(devices);
    free(devices);
}

static void only_allowed_flavors_are_used(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(2, 1);
    struct devices_ask ask = rig_ask(0, 1, 1, ISOLATION_EXCLUSIVE, GIB, GIB);

    devices_up(devices, 0, 1, 1, GPU_NO_MIG, 80 * GIB);
    ask.flavors = 1;
    assert_int_equal(devices_find(devices, &ask, true, true).kind, PLACE_NONE);
    ask.flavors = 2;
    assert_int_equal(devices_find(devices, &ask, true, true).flavor, 1);
    free(devices);
}

static void memory_is_cleared_between_tenants(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(1, 1);
    const struct {
        uint32_t tenant;
        bool clear;
    } turns[] = {{1, false}, {1, false}, {2, true}, {2, false}, {1, true}};

    devices_up(devices, 0, 1, 0, GPU_NO_MIG, 80 * GIB);
    for (uint32_t i = 0; i < ARRAY_COUNT(turns); i++) {
        struct devices_ask ask = rig_ask(0, 1, 1, ISOLATION_EXCLUSIVE, GIB, GIB);

        ask.tenant = turns[i].tenant;
        assert_int_equal(rig_claim(devices, &ask, devices_find(devices, &ask, true, true), true), turns[i].clear);
        devices_release(devices, 0);
    }
    free(devices);
}

static void hold_too_much(void *devices)
{
    devices_hold(devices, 1, 80 * GIB + 1, 0, 1, 0);
}

static void drop_claimed(void *devices)
{
    devices_drop(devices, devices_holding_at(devices, 0, 1, 1));
}

static void claim_twice(void *devices)
{
    struct devices_ask ask = rig_ask(0, 1, 1, ISOLATION_EXCLUSIVE, GIB, GIB);
    struct devices_place place;

    devices_claimed(devices, 0, &place);
    devices_claim(devices, 0, &ask, &place);
}

static void claim_taken(void *devices)
{
    struct devices_ask ask = rig_ask(1, 1, 1, ISOLATION_MPS, GIB, GIB);
    struct devices_place place;

    devices_claimed(devices, 0, &place);
    devices_claim(devices, 1, &ask, &place);
}

static void release_nothing(void *devices)
{
    devices_release(devices, 7);
}

static void up_twice(void *devices)
{
    devices_up(devices, 0, 1, 0, GPU_NO_MIG, 80 * GIB);
}

static void mistakes_stop(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(2, 4);
    struct devices_ask ask = rig_ask(0, 1, 1, ISOLATION_EXCLUSIVE, GIB, GIB);

    devices_up(devices, 0, 1, 0, GPU_NO_MIG, 80 * GIB);
    assert_true(check_stops(hold_too_much, devices));
    rig_place(devices, &ask);
    assert_true(check_stops(drop_claimed, devices));
    assert_true(check_stops(claim_twice, devices));
    assert_true(check_stops(claim_taken, devices));
    assert_true(check_stops(release_nothing, devices));
    assert_true(check_stops(up_twice, devices));
    assert_false(devices_can_up(devices, 0, 2, 1, GPU_NO_MIG, 80 * GIB));
    assert_false(devices_can_up(devices, 0, 2, 0, GPU_NO_MIG, 40 * GIB));
    assert_true(devices_can_up(devices, 0, 2, 0, GPU_NO_MIG, 80 * GIB));
    assert_false(devices_can_up(devices, 2, 1, 0, GPU_NO_MIG, 80 * GIB));
    devices_check(devices);
    free(devices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_share_one_base_to_the_byte),
        cmocka_unit_test(twenty_four_times_2000_mib_do_not_fit_on_46068),
        cmocka_unit_test(small_jobs_keep_whole_nodes_whole),
        cmocka_unit_test(gangs_take_aligned_blocks_from_what_is_broken),
        cmocka_unit_test(a_gang_does_not_span_nodes),
        cmocka_unit_test(a_job_goes_where_its_base_is),
        cmocka_unit_test(a_holding_of_ones_own_is_preferred_to_sharing),
        cmocka_unit_test(the_cheapest_base_is_dropped_and_no_more_than_needed),
        cmocka_unit_test(isolation_decides_who_may_stand_beside_whom),
        cmocka_unit_test(no_more_than_sharers_max_share),
        cmocka_unit_test(earmarked_gpus_wait_for_one_job),
        cmocka_unit_test(backfill_may_use_a_reservation_until_it_begins),
        cmocka_unit_test(find_without_changes_nothing),
        cmocka_unit_test(a_gang_that_loses_one_gpu_is_gone_as_a_whole),
        cmocka_unit_test(closed_gpus_keep_their_jobs_and_take_none),
        cmocka_unit_test(only_allowed_flavors_are_used),
        cmocka_unit_test(memory_is_cleared_between_tenants),
        cmocka_unit_test(mistakes_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
