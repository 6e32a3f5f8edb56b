#include "devices_rig.h"

enum { P_1G, P_1G_WIDE, P_2G, P_3G, P_4G, P_7G };

static uint64_t usable(enum gpu_model model)
{
    return (model == GPU_H200_141 ? 140 : 80) * GIB;
}

static struct devices *one_gpu(enum gpu_model model)
{
    struct devices *devices = rig_devices(1, 4);

    devices_up(devices, 0, 1, 0, (uint16_t)model, usable(model));
    return devices;
}

static struct devices_place slice_at(uint32_t profile, uint32_t start)
{
    return (struct devices_place){
        .kind = PLACE_LOAD,
        .gpu_mask = 1,
        .slice = (uint16_t)(profile << 8 | (start + 1)),
        .holding = NONE_INDEX,
    };
}

static void put(struct devices *devices, uint32_t job, uint32_t profile, uint32_t start)
{
    struct devices_ask ask = rig_ask(job, 1, 1, ISOLATION_MIG, GIB, GIB);
    struct devices_place place = slice_at(profile, start);

    devices_claim(devices, job, &ask, &place);
    devices_check(devices);
}

struct attempt {
    struct devices *devices;
    uint32_t job;
    uint32_t profile;
    uint32_t start;
};

static void try_put(void *context)
{
    struct attempt *attempt = context;

    put(attempt->devices, attempt->job, attempt->profile, attempt->start);
}

static bool may_put(struct devices *devices, uint32_t profile, uint32_t start)
{
    struct attempt attempt = {devices, 63, profile, start};

    if (check_stops(try_put, &attempt))
        return false;
    devices_release(devices, 63);
    return true;
}

/* The layouts that drivers were seen to make. */
static void captured_layouts_are_lawful(void **state)
{
    (void)state;
    struct devices *devices = one_gpu(GPU_H100_80);

    put(devices, 0, P_4G, 0);
    put(devices, 1, P_2G, 4);
    put(devices, 2, P_1G, 6);
    /* Seven compute slices are out, the eighth memory slice is of no use. */
    for (uint32_t start = 0; start < 8; start++)
        assert_false(may_put(devices, P_1G, start));
    free(devices);
    devices = one_gpu(GPU_H100_80);
    put(devices, 0, P_3G, 0);
    put(devices, 1, P_3G, 4);
    for (uint32_t start = 0; start < 8; start++)
        assert_false(may_put(devices, P_1G, start));
    free(devices);
}

static void instances_start_only_where_hardware_lets_them(void **state)
{
    (void)state;
    const uint16_t lawful[] = {0x7f, 0x55, 0x15, 0x11, 0x01, 0x01};

    for (uint32_t profile = 0; profile < ARRAY_COUNT(lawful); profile++)
        for (uint32_t start = 0; start < 8; start++) {
            struct devices *devices = one_gpu(GPU_A100_80);

            assert_int_equal(may_put(devices, profile, start), lawful[profile] >> start & 1);
            free(devices);
        }
}

static void counts_are_those_of_the_data_sheets(void **state)
{
    (void)state;
    const uint32_t counts[] = {7, 4, 3, 2, 1, 1};

    for (enum gpu_model model = GPU_A100_80; model <= GPU_H200_141; model++)
        for (uint32_t profile = 0; profile < ARRAY_COUNT(counts); profile++) {
            struct devices *devices = one_gpu(model);
            struct mig_profile of;
            uint32_t count = 0;

            assert_true(mig_profile_at(model, profile, &of));
            assert_int_equal(of.count_max, counts[profile]);
            for (uint32_t start = 0; start < 8; start++)
                if (may_put(devices, profile, start))
                    put(devices, count++, profile, start);
            assert_int_equal(count, counts[profile]);
            free(devices);
        }
    struct mig_profile of;

    assert_false(mig_profile_at(GPU_A100_80, 6, &of));
    assert_false(mig_profile_at(GPU_NO_MIG, 0, &of));
}

/* The same counts come out when jobs ask by bytes; a job too large for one profile takes the next. */
static void jobs_take_the_smallest_profile_that_holds_them(void **state)
{
    (void)state;
    const struct {
        uint32_t profile;
        uint32_t count;
    } expected[] = {{P_1G, 7}, {P_1G_WIDE, 4}, {P_3G, 2}, {P_7G, 1}};

    for (enum gpu_model model = GPU_A100_80; model <= GPU_H200_141; model++)
        for (uint32_t i = 0; i < ARRAY_COUNT(expected); i++) {
            struct devices *devices = one_gpu(model);
            struct mig_profile of;
            uint32_t count = 0;

            assert_true(mig_profile_at(model, expected[i].profile, &of));
            for (; count < 10; count++) {
                struct devices_ask ask = rig_ask(count, 1, 1, ISOLATION_MIG, of.bytes - GIB, GIB);
                struct devices_place place = rig_place(devices, &ask);

                if (place.kind == PLACE_NONE)
                    break;
                assert_int_equal(place.slice >> 8, expected[i].profile);
            }
            assert_int_equal(count, expected[i].count);
            free(devices);
        }
}

/* Whole cards, in MiB, as their drivers report them. */
static void instances_never_hold_more_than_their_card(void **state)
{
    (void)state;
    const uint64_t card_mib[] = {0, 81920, 81559, 143771};
    const uint64_t mib_1g[] = {0, 9728, 9984, 16384};

    for (enum gpu_model model = GPU_A100_80; model <= GPU_H200_141; model++) {
        struct mig_profile of;

        for (uint32_t i = 0; mig_profile_at(model, i, &of); i++) {
            assert_true(of.bytes * of.count_max <= card_mib[model] * MIB);
            assert_true(of.bytes <= of.memory_slices * (card_mib[model] * MIB / 8));
            assert_true(of.memory_slices * mib_1g[model] <= of.bytes / MIB);
        }
    }
}

/* Slices 2 and 6 are taken: six of eight are free, and yet no half is. */
static void free_slices_are_not_yet_room(void **state)
{
    (void)state;
    struct devices *devices = one_gpu(GPU_H100_80);
    struct devices_ask ask = rig_ask(5, 1, 1, ISOLATION_MIG, 30 * GIB, 5 * GIB);

    put(devices, 0, P_1G, 2);
    put(devices, 1, P_1G, 6);
    struct devices_place place = devices_find(devices, &ask, true, true);

    assert_int_equal(place.kind, PLACE_NONE);
    devices_release(devices, 1);
    place = devices_find(devices, &ask, true, true);
    assert_int_equal(place.slice, P_3G << 8 | 5);
    free(devices);
}

static void small_slices_leave_the_halves_whole(void **state)
{
    (void)state;
    struct devices *devices = one_gpu(GPU_H100_80);
    struct devices_ask small = rig_ask(0, 1, 1, ISOLATION_MIG, 8 * GIB, GIB);
    struct devices_ask half = rig_ask(3, 1, 1, ISOLATION_MIG, 30 * GIB, GIB);

    assert_int_equal(rig_place(devices, &small).slice, P_1G << 8 | 7);
    for (small.job = 1; small.job < 3; small.job++)
        assert_int_equal((rig_place(devices, &small).slice & 0xff) > 4, true);
    assert_int_equal(rig_place(devices, &half).slice, P_3G << 8 | 1);
    free(devices);
}

static void a_gpu_already_cut_is_preferred_the_fullest_first(void **state)
{
    (void)state;
    struct devices *devices = rig_devices(3, 4);

    for (uint16_t node = 0; node < 3; node++)
        devices_up(devices, node, 1, 0, GPU_H100_80, 80 * GIB);
    struct devices_ask ask = rig_ask(0, 1, 1, ISOLATION_MIG, GIB, GIB);
    struct devices_place place = slice_at(P_1G, 6);

    place.node = 1;
    devices_claim(devices, 0, &ask, &place);
    place = slice_at(P_4G, 0);
    place.node = 2;
    ask.job = 1;
    devices_claim(devices, 1, &ask, &place);
    for (ask.job = 2; ask.job < 5; ask.job++)
        assert_int_equal(rig_place(devices, &ask).node, 2);
    /* The third is full (seven compute slices), the second is cut. */
    assert_int_equal(rig_place(devices, &ask).node, 1);
    free(devices);
}

static void bases_are_dropped_before_a_gpu_is_cut(void **state)
{
    (void)state;
    struct devices *devices = one_gpu(GPU_H100_80);
    uint32_t holding = rig_hold(devices, 3, 16 * GIB, 0, 1);
    struct devices_ask ask = rig_ask(0, 1, 1, ISOLATION_MIG, 8 * GIB, GIB);
    struct devices_place place = devices_find(devices, &ask, true, true);

    assert_int_equal(place.kind, PLACE_LOAD);
    assert_int_equal(place.victims, 1);
    assert_int_equal(devices_victim_at(devices, 0), holding);
    rig_claim(devices, &ask, place, true);
    devices_check(devices);
    /* A second slice needs no victim; the last one that leaves frees the GPU. */
    ask.job = 1;
    assert_int_equal(rig_place(devices, &ask).victims, 0);
    struct devices_ask whole = rig_ask(2, 3, 1, ISOLATION_EXCLUSIVE, 16 * GIB, GIB);

    devices_release(devices, 0);
    assert_int_equal(devices_find(devices, &whole, true, true).kind, PLACE_NONE);
    devices_release(devices, 1);
    assert_int_equal(devices_find(devices, &whole, true, true).kind, PLACE_LOAD);
    free(devices);
}

static void slices_are_cleared_by_their_own_memory(void **state)
{
    (void)state;
    struct devices *devices = one_gpu(GPU_H100_80);
    struct devices_ask ask = rig_ask(0, 1, 1, ISOLATION_MIG, GIB, GIB);
    struct devices_place low = slice_at(P_3G, 0);
    struct devices_place high = slice_at(P_3G, 4);

    ask.tenant = 1;
    assert_false(devices_claim(devices, 0, &ask, &low));
    ask.tenant = 2;
    assert_false(devices_claim(devices, 1, &ask, &high));
    devices_release(devices, 0);
    assert_true(devices_claim(devices, 0, &ask, &low));
    free(devices);
}

static void models_without_mig_and_gangs_get_no_slices(void **state)
{
    (void)state;
    struct devices *devices = one_gpu(GPU_NO_MIG);
    struct devices_ask ask = rig_ask(0, 1, 1, ISOLATION_MIG, GIB, GIB);
    struct devices_place place = devices_find(devices, &ask, true, true);

    assert_int_equal(place.kind, PLACE_NONE);
    assert_true(place.blocked_by_isolation);
    assert_int_equal(devices_slice_largest(devices), 0);
    free(devices);
    devices = rig_devices(1, 1);
    devices_up(devices, 0, 3, 0, GPU_H100_80, 80 * GIB);
    ask.gpus = 2;
    assert_int_equal(devices_find(devices, &ask, true, true).kind, PLACE_NONE);
    assert_true(devices_slice_largest(devices) == 81152 * MIB);
    free(devices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captured_layouts_are_lawful),
        cmocka_unit_test(instances_start_only_where_hardware_lets_them),
        cmocka_unit_test(counts_are_those_of_the_data_sheets),
        cmocka_unit_test(jobs_take_the_smallest_profile_that_holds_them),
        cmocka_unit_test(instances_never_hold_more_than_their_card),
        cmocka_unit_test(free_slices_are_not_yet_room),
        cmocka_unit_test(small_slices_leave_the_halves_whole),
        cmocka_unit_test(a_gpu_already_cut_is_preferred_the_fullest_first),
        cmocka_unit_test(bases_are_dropped_before_a_gpu_is_cut),
        cmocka_unit_test(slices_are_cleared_by_their_own_memory),
        cmocka_unit_test(models_without_mig_and_gangs_get_no_slices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
