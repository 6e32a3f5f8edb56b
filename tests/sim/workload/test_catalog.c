#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "model/footprint.h"
#include "sim/workload/scene.h"
#include "workload/catalog.h"

static struct scenario scenario;
static struct rng_streams streams;

static void assert_near(const char *what, double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%s is %.9g, not %.9g within %.3g", what, got, wanted, tolerance);
}

static struct keys_adapters *begin(void)
{
    scene_default(&scenario);
    return &scenario.workload.adapters;
}

static void open_catalog(struct catalog *catalog)
{
    rng_streams_close(&streams);
    rng_streams_open(&streams, scenario.seed);
    assert_int_equal(catalog_open(catalog, &scenario, &streams, NULL, 0, stderr), STATUS_OK);
}

static const char *refusal(void)
{
    static char message[1024];
    FILE *errors = fmemopen(message, sizeof(message), "w");
    struct catalog catalog;

    rng_streams_close(&streams);
    rng_streams_open(&streams, scenario.seed);
    assert_int_equal(catalog_open(&catalog, &scenario, &streams, NULL, 0, errors), STATUS_INVALID);
    fclose(errors);
    return message;
}

static void ranks_are_taken_in_turn(void **state)
{
    (void)state;
    begin()->ranks = (struct key_list){.count = 3, .values = {8, 16, 64}};
    struct catalog catalog;

    open_catalog(&catalog);
    for (uint32_t index = 1; index <= 9; index++) {
        const uint16_t turn[] = {8, 16, 64};
        struct adapter_fact fact = catalog_fact(&catalog, index);

        assert_int_equal(fact.rank, turn[(index - 1) % 3]);
        assert_int_equal(fact.bytes, footprint_adapter_bytes(&scenario.pools[0].shape, LORA_ALL_LINEAR, fact.rank));
    }
    assert_int_equal(catalog_fact(&catalog, 2).bytes, 83886080);
    catalog_close(&catalog);
}

static void attention_modules_make_smaller_adapters(void **state)
{
    (void)state;
    begin()->modules = KEY_MODULES_ATTENTION;
    struct catalog catalog;

    open_catalog(&catalog);
    assert_int_equal(catalog_fact(&catalog, 1).bytes,
                     footprint_adapter_bytes(&scenario.pools[0].shape, LORA_ATTENTION, 16));
    catalog_close(&catalog);
}

/* Exact to one adapter at every prefix, in each base. */
static void rank_weights_and_traffic_shares_are_kept(void **state)
{
    (void)state;
    struct keys_adapters *keys = begin();
    struct catalog catalog;
    double requests[2] = {0};
    double adapters[2] = {0};
    double of_rank[2][3] = {{0}};
    const double shares[] = {0.5, 0.3, 0.2};

    keys->ranks = (struct key_list){.count = 3, .values = {8, 16, 64}};
    keys->rank_weights = (struct key_list){.count = 3, .values = {5, 3, 2}};
    scene_add_base(&scenario, 3);
    scenario.pools[1].shape.layers = 64;
    open_catalog(&catalog);
    for (uint32_t index = 1; index <= 1000; index++) {
        struct adapter_fact fact = catalog_fact(&catalog, index);
        uint32_t base = fact.base.value;
        uint32_t choice = fact.rank == 8 ? 0 : fact.rank == 16 ? 1 : 2;

        requests[base] += popularity_share(&catalog.popularity, index - 1);
        adapters[base] += 1;
        of_rank[base][choice] += 1;
        for (uint32_t i = 0; i < 3; i++)
            assert_near("adapters of a rank", of_rank[base][i], shares[i] * adapters[base], 1.0001);
        assert_int_equal(fact.bytes, footprint_adapter_bytes(&scenario.pools[base].shape, LORA_ALL_LINEAR, fact.rank));
    }
    assert_near("requests of the second base", requests[1], 0.75, 1e-3);
    assert_near("requests of the first base", requests[0], 0.25, 1e-3);
    catalog_close(&catalog);
}

static void a_base_without_traffic_gets_no_adapter(void **state)
{
    (void)state;
    struct catalog catalog;

    begin();
    scene_add_base(&scenario, 0);
    open_catalog(&catalog);
    for (uint32_t index = 1; index <= 1000; index++)
        assert_int_equal(catalog_fact(&catalog, index).base.value, 0);
    for (uint32_t i = 1; i < 1000; i++)
        assert_int_equal(catalog_draw_base(&catalog, i / 1000.0).value, 0);
    catalog_close(&catalog);
}

static void pools_of_one_base_state_its_share_once(void **state)
{
    (void)state;
    struct catalog catalog;
    double share = 0;

    begin();
    scene_add_base(&scenario, 3);
    scene_add_base(&scenario, 1);
    scenario.pools[2].base_index = 0;
    scenario.bases_count = 2;
    open_catalog(&catalog);
    for (uint32_t i = 0; i < 10000; i++)
        share += catalog_draw_base(&catalog, (i + 0.5) / 1e4).value == 1;
    assert_near("share of the second base", share / 1e4, 0.75, 1e-4);
    catalog_close(&catalog);
}

static void tenants_own_their_shares(void **state)
{
    (void)state;
    const double alphas[] = {0, 1};

    for (size_t i = 0; i < ARRAY_COUNT(alphas); i++) {
        struct catalog catalog;
        uint32_t owned[50] = {0};
        double norm = 0;

        begin();
        scenario.workload.tenant_alpha = alphas[i];
        open_catalog(&catalog);
        for (uint32_t tenant = 0; tenant < 50; tenant++)
            norm += pow(tenant + 1, -alphas[i]);
        for (uint32_t index = 1; index <= 1000; index++)
            owned[catalog_fact(&catalog, index).tenant.value]++;
        for (uint32_t tenant = 0; tenant < 50; tenant++)
            assert_near("adapters of a tenant", owned[tenant], 1000 * pow(tenant + 1, -alphas[i]) / norm, 3);
        catalog_close(&catalog);
    }
}

/* With tenants and ranks both taken in turn, half of the tenants would own the large adapters. */
static void tenants_and_ranks_are_not_in_step(void **state)
{
    (void)state;
    struct catalog catalog;
    uint32_t owned[50][2] = {{0}};

    begin()->ranks = (struct key_list){.count = 2, .values = {8, 64}};
    open_catalog(&catalog);
    for (uint32_t index = 1; index <= 1000; index++) {
        struct adapter_fact fact = catalog_fact(&catalog, index);

        owned[fact.tenant.value][fact.rank == 64]++;
    }
    for (uint32_t tenant = 0; tenant < 50; tenant++) {
        assert_true(owned[tenant][0] >= 6);
        assert_true(owned[tenant][1] >= 6);
    }
    catalog_close(&catalog);
}

static void popular_lists_all_adapters_by_share(void **state)
{
    (void)state;
    const char *path = scene_file("weights", "1\n5\n0\n5\n3\n");
    const uint32_t wanted[] = {2, 4, 5, 1, 3};
    struct keys_adapters *keys = begin();
    struct catalog catalog;
    adapter_id adapter;

    keys->law = KEY_ADAPTER_EMPIRICAL;
    keys->count = 5;
    keys->drift_per_h = 1000;
    strcpy(keys->counts_path, path);
    open_catalog(&catalog);
    catalog_advance(&catalog, 3600 * NS_PER_S);
    for (uint32_t place = 0; place < 5; place++) {
        assert_true(catalog_popular(&catalog, place, &adapter));
        assert_int_equal(adapter.index, wanted[place]);
        assert_int_equal(adapter.version, 1);
    }
    assert_false(catalog_popular(&catalog, 5, &adapter));
    catalog_close(&catalog);
    scene_remove(path);
}

/* Every adapter keeps one place, and as many move as the rate says. */
static void drift_permutes_popularity(void **state)
{
    (void)state;
    struct catalog catalog;
    bool seen[1000] = {false};
    uint32_t same = 0;

    begin()->drift_per_h = 0.5;
    open_catalog(&catalog);
    catalog_advance(&catalog, 3600 * NS_PER_S);
    for (uint32_t place = 0; place < 1000; place++) {
        uint32_t index = catalog_draw(&catalog, place == 0 ? 1e-9 : catalog.popularity.cumulative[place - 1], 0).index;

        assert_false(seen[index - 1]);
        seen[index - 1] = true;
        same += index == place + 1;
    }
    /* 500 swaps: a place is untouched with (1 - 1/1000)^1000. */
    assert_near("untouched places", same, 1000 * exp(-1), 60);
    assert_int_equal(catalog_draw(&catalog, 0.5, 0).version, 1);
    catalog_close(&catalog);
}

static void nothing_changes_before_its_time(void **state)
{
    (void)state;
    struct keys_adapters *keys = begin();
    struct catalog catalog;
    adapter_id adapter;

    keys->churn_per_h = 1;
    open_catalog(&catalog);
    catalog_advance(&catalog, catalog.churn.next_ns - 1);
    assert_false(catalog_retired(&catalog, &adapter));
    catalog_advance(&catalog, catalog.churn.next_ns);
    assert_true(catalog_retired(&catalog, &adapter));
    assert_int_equal(adapter.version, 1);
    assert_int_equal(catalog_current(&catalog, adapter.index).version, 2);
    assert_false(catalog_retired(&catalog, &adapter));
    catalog_close(&catalog);
}

/* Told in between or all at the end: each old version exactly once and in order, never a current one. */
static void every_old_version_is_retired_once(void **state)
{
    (void)state;
    for (uint32_t tell_every = 1; tell_every <= 100; tell_every += 99) {
        struct keys_adapters *keys = begin();
        struct catalog catalog;
        uint32_t told[1001] = {0};
        uint64_t old = 0;
        uint64_t count = 0;
        adapter_id adapter;

        keys->churn_per_h = 2;
        keys->update_per_h = 3;
        open_catalog(&catalog);
        for (int64_t step = 1; step <= 100; step++) {
            catalog_advance(&catalog, step * 36 * NS_PER_S);
            while (step % tell_every == 0 && catalog_retired(&catalog, &adapter)) {
                assert_int_equal(adapter.version, ++told[adapter.index]);
                assert_true(adapter.version < catalog_current(&catalog, adapter.index).version);
                count++;
            }
        }
        for (uint32_t index = 1; index <= 1000; index++) {
            assert_int_equal(catalog_current(&catalog, index).version, told[index] + 1);
            old += told[index];
        }
        assert_int_equal(count, old);
        assert_near("changes of an hour", (double)count, 5000, 4 * sqrt(5000));
        catalog_close(&catalog);
    }
}

static void given_weights_make_the_adapters(void **state)
{
    (void)state;
    const double weights[] = {1, 7, 2};
    struct catalog catalog;
    adapter_id adapter;

    begin();
    rng_streams_close(&streams);
    rng_streams_open(&streams, 1);
    assert_int_equal(catalog_open(&catalog, &scenario, &streams, weights, 3, stderr), STATUS_OK);
    assert_int_equal(catalog.count, 3);
    assert_true(catalog_popular(&catalog, 0, &adapter));
    assert_int_equal(adapter.index, 2);
    catalog_own(&catalog, 2, 41);
    assert_int_equal(catalog_fact(&catalog, 2).tenant.value, 41);
    catalog_close(&catalog);
}

static void refusals_name_the_key(void **state)
{
    (void)state;
    struct keys_adapters *keys = begin();

    keys->ranks.count = 0;
    assert_non_null(strstr(refusal(), "workload.adapters.ranks: is empty"));
    keys->ranks = (struct key_list){.count = 2, .values = {8, 12.5}};
    assert_non_null(strstr(refusal(), "12.5 is not a whole number"));
    keys->ranks.values[1] = 16;
    keys->rank_weights = (struct key_list){.count = 1, .values = {8}};
    assert_non_null(strstr(refusal(), "1 weights for 2 ranks"));
    keys->rank_weights = (struct key_list){.count = 2};
    assert_non_null(strstr(refusal(), "rank_weights: their sum"));
    keys = begin();
    scenario.pools[0].keys.traffic_share = 0;
    assert_non_null(strstr(refusal(), "every traffic_share is 0"));
    keys = begin();
    keys->update_per_h = 1e6;
    keys->count = 10000000;
    assert_non_null(strstr(refusal(), "changes a second"));
    keys = begin();
    keys->law = KEY_ADAPTER_EMPIRICAL;
    assert_non_null(strstr(refusal(), "counts_path: is empty"));
}

static int close_streams(void **state)
{
    (void)state;
    rng_streams_close(&streams);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_taken_in_turn),
        cmocka_unit_test(attention_modules_make_smaller_adapters),
        cmocka_unit_test(rank_weights_and_traffic_shares_are_kept),
        cmocka_unit_test(a_base_without_traffic_gets_no_adapter),
        cmocka_unit_test(pools_of_one_base_state_its_share_once),
        cmocka_unit_test(tenants_own_their_shares),
        cmocka_unit_test(tenants_and_ranks_are_not_in_step),
        cmocka_unit_test(popular_lists_all_adapters_by_share),
        cmocka_unit_test(drift_permutes_popularity),
        cmocka_unit_test(nothing_changes_before_its_time),
        cmocka_unit_test(every_old_version_is_retired_once),
        cmocka_unit_test(given_weights_make_the_adapters),
        cmocka_unit_test(refusals_name_the_key),
    };

    return cmocka_run_group_tests_name("catalog", tests, NULL, close_streams);
}
