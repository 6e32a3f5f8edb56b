#include <stdlib.h>

#include "model/footprint.h"
#include "sim/workload/scene.h"
#include "support.h"
#include "workload/catalog.h"

/* Two bases, a kind of job on each, 20 adapters, room for 30 more. */
static struct scenario scenario;

static struct keys_workload *begin(void)
{
    scene_default(&scenario);
    scene_add_base(&scenario, 1);
    scenario.pools[1].shape.layers = 48;
    scenario.jobs.source = KEY_JOBS_GENERATED;
    scenario.scheduler.evaluate = true;
    scenario.job_kinds_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        scenario.job_kinds[i].base_index = i;
        scenario.job_kinds[i].shape = scenario.pools[i].shape;
        scenario.job_kinds[i].keys.rank = i == 0 ? 8 : 64;
        scenario.job_kinds[i].keys.modules = i == 0 ? KEY_MODULES_ATTENTION : KEY_MODULES_ALL;
    }
    scenario.workload.adapters.count = 20;
    scenario.workload.adapters.publish_max = 30;
    scenario.workload.adapters.publish_rank = KEY_PUBLISH_RANDOM;
    return &scenario.workload;
}

static adapter_id publish(struct source *source, uint32_t kind, uint32_t tenant, int64_t at_ns)
{
    adapter_id adapter;

    assert_int_equal(source_publish(source, (base_id){(uint16_t)kind}, kind, (tenant_id){tenant}, at_ns, &adapter), STATUS_OK);
    return adapter;
}

static struct arrival take(struct source *source)
{
    struct arrival arrival;

    assert_int_equal(source_take(source, &arrival), STATUS_OK);
    return arrival;
}

/* Field by field: what lies between them is nobody's. */
static void expect_same(const struct arrival *a, const struct arrival *b)
{
    assert_int_equal(a->at_ns, b->at_ns);
    assert_int_equal(a->adapter.index, b->adapter.index);
    assert_int_equal(a->adapter.version, b->adapter.version);
    assert_int_equal(a->tenant.value, b->tenant.value);
    assert_int_equal(a->base.value, b->base.value);
    assert_int_equal(a->prompt_tokens, b->prompt_tokens);
    assert_int_equal(a->output_tokens, b->output_tokens);
    assert_int_equal(a->output_tokens_max, b->output_tokens_max);
    assert_int_equal(a->timeout_ns, b->timeout_ns);
    assert_int_equal(a->session, b->session);
    assert_int_equal(a->attempt, b->attempt);
}

/* Whatever else the workload does: the k-th request of a run with publications is that of one without, unless an adapter
 * that joined has its place. Then only whom it asks differs, within the base. */
static void expect_common_luck(uint32_t source_kind, double drift_per_h)
{
    struct keys_workload *keys = begin();
    struct source *plain;
    struct source *fed;
    uint32_t taken_over = 0;
    uint32_t same = 0;
    uint32_t joined = 0;

    keys->source = source_kind;
    keys->adapters.base_share = 0.2;
    keys->adapters.drift_per_h = drift_per_h;
    plain = scene_open(&scenario);
    fed = scene_open(&scenario);
    for (uint32_t k = 0; k < 20000 && source_next_at_ns(plain) != NEVER_NS; k++) {
        struct arrival a = take(plain);
        struct arrival b;

        if (k % 1000 == 500) {
            publish(fed, k / 1000 % 2, joined, a.at_ns);
            joined++;
        }
        b = take(fed);
        if (b.adapter.index <= 20) {
            expect_same(&a, &b);
            same++;
        } else {
            struct adapter_fact was = source_adapter(plain, a.adapter);
            struct adapter_fact is = source_adapter(fed, b.adapter);

            assert_int_equal(is.base.value, was.base.value);
            assert_int_equal(b.base.value, a.base.value);
            b.adapter = a.adapter;
            b.tenant = a.tenant;
            expect_same(&a, &b);
            taken_over++;
        }
        source_finished(plain, &a, a.at_ns, OUTCOME_DONE);
        b.adapter = a.adapter;
        source_finished(fed, &b, a.at_ns, OUTCOME_DONE);
    }
    assert_int_equal(joined, 20);
    assert_int_equal(source_adapters_count(fed), 40);
    assert_true(taken_over > 1000 && same > 1000);
    source_close(plain);
    source_close(fed);
}

static void a_publication_moves_no_request_but_those_of_its_place(void **state)
{
    (void)state;
    expect_common_luck(KEY_SOURCE_GENERATED, 0);
}

static void neither_does_it_where_popularity_drifts(void **state)
{
    (void)state;
    expect_common_luck(KEY_SOURCE_GENERATED, 2);
}

static void neither_does_it_in_a_closed_loop(void **state)
{
    (void)state;
    expect_common_luck(KEY_SOURCE_SESSIONS, 0);
}

/* The whole catalogue by hand: who holds which place. */
static void open_catalog(struct catalog *catalog, struct rng_streams *streams)
{
    rng_streams_open(streams, scenario.seed);
    assert_int_equal(catalog_open(catalog, &scenario, streams, NULL, 0, stderr), STATUS_OK);
}

static uint32_t place_of(const struct catalog *catalog, uint32_t index)
{
    for (uint32_t place = 0; place < catalog->count; place++)
        if (catalog->order[place] == index - 1)
            return place;
    return NONE_INDEX;
}

static void each_law_has_its_places(void **state)
{
    (void)state;
    const struct {
        enum key_publish_rank rank;
        uint32_t from;
        uint32_t until;
    } laws[] = {{KEY_PUBLISH_HEAD, 0, 20}, {KEY_PUBLISH_TAIL, 180, 200}, {KEY_PUBLISH_RANDOM, 0, 200}};

    for (size_t i = 0; i < ARRAY_COUNT(laws); i++) {
        struct keys_workload *keys = begin();
        struct rng_streams streams;
        struct catalog catalog;
        double sum = 0;

        scenario.pools_count = scenario.bases_count = scenario.job_kinds_count = 1;
        keys->adapters.count = 200;
        keys->adapters.publish_max = 1000;
        keys->adapters.publish_rank = laws[i].rank;
        open_catalog(&catalog, &streams);
        for (uint32_t n = 0; n < 1000; n++) {
            uint32_t index = catalog_publish(&catalog, 0, 0, n);
            uint32_t place = place_of(&catalog, index);

            assert_int_equal(index, 201 + n);
            assert_in_range(place, laws[i].from, laws[i].until - 1);
            sum += place;
        }
        /* In the middle of its places, within four deviations of a uniform law's mean. */
        assert_true(sum / 1000 > (laws[i].from + laws[i].until) / 2.0 - (laws[i].until - laws[i].from) * 0.0366);
        assert_true(sum / 1000 < (laws[i].from + laws[i].until) / 2.0 + (laws[i].until - laws[i].from) * 0.0366);
        catalog_close(&catalog);
        rng_streams_close(&streams);
    }
}

static void a_new_adapter_takes_a_place_of_its_own_base(void **state)
{
    (void)state;
    struct rng_streams streams;
    struct catalog catalog;
    uint8_t bases[20];

    begin();
    open_catalog(&catalog, &streams);
    for (uint32_t place = 0; place < 20; place++)
        bases[place] = catalog.adapters[catalog.order[place]].base;
    for (uint32_t n = 0; n < 30; n++)
        catalog_publish(&catalog, n % 2, n % 2, 0);
    for (uint32_t place = 0; place < 20; place++)
        assert_int_equal(catalog.adapters[catalog.order[place]].base, bases[place]);
    catalog_close(&catalog);
    rng_streams_close(&streams);
}

static void the_first_of_a_base_that_nobody_asked_for_takes_any_place(void **state)
{
    (void)state;
    struct rng_streams streams;
    struct catalog catalog;
    uint32_t place;

    begin();
    scenario.pools[1].keys.traffic_share = 0;
    open_catalog(&catalog, &streams);
    place = place_of(&catalog, catalog_publish(&catalog, 1, 1, 0));
    assert_true(place < 20);
    /* The second one is of a base that has a place by now: that one. */
    assert_int_equal(place_of(&catalog, catalog_publish(&catalog, 1, 1, 0)), place);
    catalog_close(&catalog);
    rng_streams_close(&streams);
}

static void it_has_the_rank_and_the_bytes_of_its_kind(void **state)
{
    (void)state;
    struct source *source;
    struct adapter_fact fact;

    begin();
    source = scene_open(&scenario);
    fact = source_adapter(source, publish(source, 0, 49, 0));
    assert_int_equal(fact.rank, 8);
    assert_int_equal(fact.tenant.value, 49);
    assert_int_equal(fact.bytes, footprint_adapter_bytes(&scenario.pools[0].shape, LORA_ATTENTION, 8));
    fact = source_adapter(source, publish(source, 1, 3, 0));
    assert_int_equal(fact.rank, 64);
    assert_int_equal(fact.base.value, 1);
    assert_int_equal(fact.bytes, footprint_adapter_bytes(&scenario.pools[1].shape, LORA_ALL_LINEAR, 64));
    source_close(source);
}

static void the_catalogue_is_bounded(void **state)
{
    (void)state;
    struct source *source;
    adapter_id adapter = {.index = 77};

    begin();
    source = scene_open(&scenario);
    assert_int_equal(source_adapters_max(source), 50);
    assert_int_equal(source_adapters_count(source), 20);
    for (uint32_t i = 0; i < 30; i++)
        assert_int_equal(publish(source, 0, 0, 0).index, 21 + i);
    assert_int_equal(source_publish(source, (base_id){0}, 0, (tenant_id){0}, 0, &adapter), STATUS_FULL);
    assert_int_equal(adapter.index, 77);
    assert_int_equal(source_adapters_count(source), 50);
    source_close(source);
}

static void room_is_made_only_where_something_can_be_published(void **state)
{
    (void)state;

    for (uint32_t i = 0; i < 3; i++) {
        struct source *source;

        begin();
        if (i == 0)
            scenario.jobs.source = KEY_JOBS_NONE;
        if (i == 1)
            scenario.scheduler.evaluate = false;
        if (i == 2)
            scenario.workload.adapters.publish_max = 0;
        source = scene_open(&scenario);
        assert_int_equal(source_adapters_max(source), 20);
        source_close(source);
    }
}

static void without_places_it_joins_and_idles(void **state)
{
    (void)state;
    struct source *source;
    adapter_id adapter;

    begin()->adapters.count = 0;
    source = scene_open(&scenario);
    assert_int_equal(publish(source, 0, 0, 0).index, 1);
    for (uint32_t i = 0; i < 100; i++)
        assert_true(adapter_is_base(take(source).adapter));
    assert_false(source_popular(source, 0, &adapter));
    source_close(source);
}

static void the_warm_start_is_that_of_the_beginning(void **state)
{
    (void)state;
    struct source *source;
    adapter_id adapter;

    begin();
    source = scene_open(&scenario);
    for (uint32_t i = 0; i < 30; i++)
        publish(source, i % 2, 0, 0);
    for (uint32_t rank = 0; rank < 20; rank++) {
        assert_true(source_popular(source, rank, &adapter));
        assert_int_equal(adapter.index, rank + 1);
    }
    assert_false(source_popular(source, 20, &adapter));
    source_close(source);
}

/* From then on, and for those who try again, too. */
static void a_new_version_is_asked_for_on_its_base(void **state)
{
    (void)state;
    struct keys_workload *keys = begin();
    struct source *source;
    struct arrival arrival;
    struct arrival refused;
    adapter_id adapter;
    uint64_t bytes;

    keys->adapters.count = 1;
    keys->retries_max = 1;
    scenario.pools[1].keys.traffic_share = 0;
    source = scene_open(&scenario);
    refused = take(source);
    assert_int_equal(refused.adapter.version, 1);
    assert_int_equal(refused.base.value, 0);
    bytes = source_adapter(source, refused.adapter).bytes;
    source_finished(source, &refused, refused.at_ns, OUTCOME_REFUSED);

    adapter = source_republish(source, 1, (base_id){1}, refused.at_ns);
    assert_int_equal(adapter.index, 1);
    assert_int_equal(adapter.version, 2);
    assert_true(source_retired(source, &adapter));
    assert_int_equal(adapter.version, 1);
    assert_false(source_retired(source, &adapter));
    assert_int_equal(source_adapter(source, adapter).bytes, bytes / 32 * 48);
    do {
        arrival = take(source);
        assert_int_equal(arrival.adapter.version, 2);
        assert_int_equal(arrival.base.value, 1);
    } while (arrival.attempt == 0);
    source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_publication_moves_no_request_but_those_of_its_place),
        cmocka_unit_test(neither_does_it_where_popularity_drifts),
        cmocka_unit_test(neither_does_it_in_a_closed_loop),
        cmocka_unit_test(each_law_has_its_places),
        cmocka_unit_test(a_new_adapter_takes_a_place_of_its_own_base),
        cmocka_unit_test(the_first_of_a_base_that_nobody_asked_for_takes_any_place),
        cmocka_unit_test(it_has_the_rank_and_the_bytes_of_its_kind),
        cmocka_unit_test(the_catalogue_is_bounded),
        cmocka_unit_test(room_is_made_only_where_something_can_be_published),
        cmocka_unit_test(without_places_it_joins_and_idles),
        cmocka_unit_test(the_warm_start_is_that_of_the_beginning),
        cmocka_unit_test(a_new_version_is_asked_for_on_its_base),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
