/* The fleet core: pools, generations, residency, refusals, mistakes, digests, and the known answer of routing. */
#include "rig.h"

#include <math.h>
#include <stdlib.h>

enum { KNOWN_ADAPTERS = 300, KNOWN_SERVERS = 4, KNOWN_SLOTS = 40, KNOWN_REQUESTS = 20000 };

/* Least recently used first. True when it was there. */
static bool lru_touch(uint32_t *slots, uint32_t adapter)
{
    uint32_t i = 0;

    while (i < KNOWN_SLOTS - 1 && slots[i] != adapter)
        i++;

    bool hit = slots[i] == adapter;

    memmove(slots + 1, slots, i * sizeof(slots[0]));
    slots[0] = adapter;
    return hit;
}

static double known_hit_ratio(const struct route_policy *policy, uint64_t seed)
{
    struct fleet_config config = rig_config(policy);
    static uint32_t slots[KNOWN_SERVERS][KNOWN_SLOTS];
    double cumulative[KNOWN_ADAPTERS];
    double sum = 0;
    uint32_t hits = 0;
    struct rig rig;

    memset(slots, 0, sizeof(slots));
    for (uint32_t i = 0; i < KNOWN_ADAPTERS; i++)
        cumulative[i] = sum += 1.0 / (i + 1);
    config.adapters_max = KNOWN_ADAPTERS;
    rig_open(&rig, &config);
    rig.checked = false;
    for (uint32_t i = 0; i < KNOWN_SERVERS; i++)
        rig_up(&rig, i, 1, 0, 0);
    for (uint32_t turn = 0; turn < 2 * KNOWN_REQUESTS; turn++) {
        double at = draw_unit(&seed) * sum;
        uint32_t i = 0;

        while (cumulative[i] < at)
            i++;
        rig.at_ns += NS_PER_MS;

        replica_id replica = rig_pass(&rig, turn, (adapter_id){i + 1, 0});
        bool hit = lru_touch(slots[replica_index(replica)], i + 1);

        hits += turn >= KNOWN_REQUESTS && hit;
    }
    fleet_check(rig.fleet);
    rig_close(&rig);
    return (double)hits / KNOWN_REQUESTS;
}

static void sticky_homes_hit_0_857_and_round_robin_0_556(void **state)
{
    (void)state;
    uint64_t seed = test_seed(3);
    double sticky = known_hit_ratio(&route_sticky, seed);
    double round_robin = known_hit_ratio(&route_round_robin, seed);

    if (fabs(sticky - 0.857) > 0.01 || fabs(round_robin - 0.556) > 0.01)
        fail_msg("seed %llu: sticky %.4f, round-robin %.4f", (unsigned long long)seed, sticky, round_robin);
    /* Requests end at once here, so affinity never overflows: it differs from sticky by its homes and the hot ones. */
    assert_true(known_hit_ratio(&route_affinity, seed) > 0.80);
}

static void requests_stay_in_the_pool_of_their_base(void **state)
{
    (void)state;
    struct fleet_config config = rig_config(&route_random);
    struct rig rig;

    rig_open(&rig, &config);
    rig_up(&rig, 5, 1, 0, 1);
    rig_up(&rig, 2, 1, 0, 0);
    rig_up(&rig, 7, 1, 0, 0);
    rig_up(&rig, 0, 1, 0, 1);
    for (uint64_t i = 0; i < 100; i++) {
        uint16_t base = (uint16_t)(i % 2);
        request_id id = request_id_make(i, (uint32_t)i);
        uint32_t replica = replica_index(rig_request(&rig, id, (adapter_id){1, 0}, base)->route.replica);

        assert_true(base == 0 ? replica == 2 || replica == 7 : replica == 0 || replica == 5);
    }
    rig_close(&rig);
}

static void the_pool_shown_is_ascending_and_counts_its_requests(void **state)
{
    (void)state;
    struct fleet_config config = rig_config(&route_looking);
    struct rig rig;

    rig_open(&rig, &config);
    rig_up(&rig, 5, 1, 0, 0);
    rig_up(&rig, 2, 1, 0, 0);
    rig_up(&rig, 7, 1, 0, 0);
    rig_up(&rig, 3, 1, 0, 1);
    for (uint64_t i = 0; i < 3; i++) {
        rig_request(&rig, request_id_make(i, (uint32_t)i), (adapter_id){0, 0}, 0);
        assert_int_equal(rig_seen.ask.pool_ordinal, i);
        assert_int_equal(rig_seen.ask.pool_outstanding, i);
    }
    assert_int_equal(rig_seen.ask.pool_count, 3);
    assert_int_equal(rig_seen.pool[0], 2);
    assert_int_equal(rig_seen.pool[1], 5);
    assert_int_equal(rig_seen.pool[2], 7);
    assert_int_equal(fleet_outstanding(rig.fleet, replica_id_make(1, 2)), 3);
    rig_done(&rig, request_id_make(1, 1), replica_id_make(1, 2));
    assert_int_equal(fleet_outstanding(rig.fleet, replica_id_make(1, 2)), 2);
    assert_int_equal(rig.out.count, 0);
    rig_down(&rig, 5, 1);
    rig_request(&rig, request_id_make(9, 9), (adapter_id){0, 0}, 0);
    assert_int_equal(rig_seen.ask.pool_count, 2);
    assert_int_equal(rig_seen.pool[1], 7);
    assert_int_equal(rig_seen.ask.pool_outstanding, 2);
    rig_close(&rig);
}

static void a_request_without_a_replica_is_refused(void **state)
{
    (void)state;
    struct fleet_config config = rig_config(&route_affinity);
    struct rig rig;

    rig_open(&rig, &config);
    rig_up(&rig, 0, 1, 0, 1);

    request_id id = request_id_make(77, 3);
    const struct fleet_command *command = rig_request(&rig, id, (adapter_id){1, 0}, 0);

    assert_int_equal(command->kind, FLEET_COMMAND_REFUSE);
    assert_int_equal(command->reason, FLEET_REFUSE_NO_REPLICA);
    assert_int_equal(command->refuse.request_or_job, id.value);
    /* The slot was never taken. */
    rig_up(&rig, 1, 1, 0, 0);
    assert_int_equal(rig_request(&rig, id, (adapter_id){1, 0}, 0)->kind, FLEET_COMMAND_ROUTE);
    rig_close(&rig);
}

static void an_adapter_beyond_the_table_is_refused(void **state)
{
    (void)state;
    struct rig rig;

    rig_open_full(&rig, &route_affinity);
    assert_int_equal(rig_request(&rig, request_id_make(0, 0), (adapter_id){64, 0}, 0)->kind, FLEET_COMMAND_ROUTE);

    const struct fleet_command *command = rig_request(&rig, request_id_make(1, 1), (adapter_id){65, 0}, 0);

    assert_int_equal(command->kind, FLEET_COMMAND_REFUSE);
    assert_int_equal(command->reason, FLEET_REFUSE_ADAPTERS_FULL);
    assert_int_equal(command->refuse.need, 65);
    assert_int_equal(command->refuse.have, 64);
    rig_close(&rig);
}

static void a_lost_replica_frees_its_requests_and_comes_back_as_another(void **state)
{
    (void)state;
    struct fleet_config config = rig_config(&route_sticky);
    struct rig rig;
    adapter_id adapter = {1, 0};

    rig_open(&rig, &config);
    rig_up(&rig, 0, 1, 0, 0);
    for (uint32_t i = 0; i < 10; i++)
        rig_request(&rig, request_id_make(i, i), adapter, 0);
    rig_gpu(&rig, 0, 1, adapter, true);
    rig_down(&rig, 0, 1);
    assert_int_equal(fleet_outstanding(rig.fleet, replica_id_make(1, 0)), 0);
    rig_up(&rig, 0, 2, 1, 0);
    /* The host sends the same requests again, under their own ids. */
    for (uint32_t i = 0; i < 10; i++) {
        const struct fleet_command *command = rig_request(&rig, request_id_make(i, i), adapter, 0);

        assert_int_equal(command->route.replica.value, replica_id_make(2, 0).value);
    }
    /* Words of the dead replica come late and change nothing. */
    rig_done(&rig, request_id_make(4, 4), replica_id_make(1, 0));
    rig_gpu(&rig, 0, 1, adapter, true);
    assert_int_equal(fleet_outstanding(rig.fleet, replica_id_make(2, 0)), 10);
    assert_int_equal(fleet_outstanding(rig.fleet, replica_id_make(1, 0)), 0);
    rig_done(&rig, request_id_make(4, 4), replica_id_make(2, 0));
    assert_int_equal(fleet_outstanding(rig.fleet, replica_id_make(2, 0)), 9);
    rig_close(&rig);
}

static void residency_is_shown_by_replica(void **state)
{
    (void)state;
    struct rig rig;
    adapter_id adapter = {5, 3};

    rig_open_full(&rig, &route_looking);
    rig_pass(&rig, 0, adapter);
    assert_false(rig_seen.gpu_known || rig_seen.host_known);
    rig_gpu(&rig, 6, 1, adapter, true);
    rig_gpu(&rig, 1, 1, adapter, true);
    rig_host(&rig, 1, adapter, true); /* replicas 2 and 3 */
    rig_host(&rig, 3, adapter, true); /* replicas 6 and 7 */
    rig_host(&rig, 3, adapter, true); /* said twice, counted once */
    rig_pass(&rig, 1, adapter);
    assert_int_equal(rig_seen.gpu_bits, 1 << 6 | 1 << 1);
    assert_int_equal(rig_seen.host_bits, 1 << 2 | 1 << 3 | 1 << 6 | 1 << 7);
    rig_down(&rig, 6, 1);
    rig_pass(&rig, 2, adapter);
    assert_int_equal(rig_seen.gpu_bits, 1 << 1);
    assert_int_equal(rig_seen.host_bits, 1 << 2 | 1 << 3 | 1 << 7);
    rig_up(&rig, 6, 2, 1, 0); /* on another node now */
    rig_pass(&rig, 3, adapter);
    assert_int_equal(rig_seen.gpu_bits, 1 << 1);
    assert_int_equal(rig_seen.host_bits, 1 << 2 | 1 << 3 | 1 << 6 | 1 << 7);
    rig_host(&rig, 3, adapter, false);
    rig_gpu(&rig, 1, 1, adapter, false);
    rig_pass(&rig, 4, adapter);
    assert_int_equal(rig_seen.gpu_bits, 0);
    assert_int_equal(rig_seen.host_bits, 1 << 2 | 1 << 3 | 1 << 6);
    rig_pass(&rig, 5, (adapter_id){4, 3});
    assert_false(rig_seen.gpu_known || rig_seen.host_known);
    rig_close(&rig);
}

static void a_new_version_is_nowhere_and_an_old_one_stays_forgotten(void **state)
{
    (void)state;
    struct rig rig;
    adapter_id old = {5, 1};
    adapter_id new = {5, 2};

    rig_open_full(&rig, &route_looking);
    rig_gpu(&rig, 3, 1, old, true);
    rig_host(&rig, 1, old, true);
    rig_pass(&rig, 0, new);
    assert_false(rig_seen.gpu_known || rig_seen.host_known);
    rig_gpu(&rig, 4, 1, new, true);
    rig_pass(&rig, 1, new);
    assert_int_equal(rig_seen.gpu_bits, 1 << 4);
    assert_false(rig_seen.host_known);
    rig_pass(&rig, 2, old);
    assert_false(rig_seen.gpu_known);
    /* The old one leaves, or even comes somewhere, after its successor came: not the successor's business. */
    rig_gpu(&rig, 4, 1, old, false);
    rig_gpu(&rig, 3, 1, old, true);
    rig_retire(&rig, old);
    rig_pass(&rig, 3, new);
    assert_int_equal(rig_seen.gpu_bits, 1 << 4);
    rig_retire(&rig, new);
    rig_pass(&rig, 4, new);
    assert_false(rig_seen.gpu_known);
    rig_close(&rig);
}

static void report(struct rig *rig, uint32_t waiting)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.replica_state.replica = replica_id_make(1, 3);
    event.replica_state.waiting = waiting;
    event.replica_state.kv_free_permille = 500;
    rig_send(rig, FLEET_EVENT_REPLICA_STATE, &event);
}

/* Each act leaves a digest that no act before it left; a tick leaves it as it was. */
static void the_digest_tells_every_history_apart(void **state)
{
    (void)state;
    uint64_t digests[16];
    uint32_t count = 0;
    struct fleet_event tick;
    struct rig rig;

    memset(&tick, 0, sizeof(tick));
    rig_open_full(&rig, &route_sticky);
    digests[count++] = fleet_digest(rig.fleet);
    report(&rig, 9);
    digests[count++] = fleet_digest(rig.fleet);
    report(&rig, 10);
    digests[count++] = fleet_digest(rig.fleet);
    rig_pass(&rig, 0, (adapter_id){1, 0});
    digests[count++] = fleet_digest(rig.fleet);
    rig_request(&rig, request_id_make(1, 1), (adapter_id){1, 0}, 0);
    digests[count++] = fleet_digest(rig.fleet);
    rig_done(&rig, request_id_make(1, 1), rig.out.items[0].route.replica);
    digests[count++] = fleet_digest(rig.fleet);
    rig_request(&rig, request_id_make(2, 2), (adapter_id){1, 0}, 1); /* refused */
    digests[count++] = fleet_digest(rig.fleet);
    rig_gpu(&rig, 2, 1, (adapter_id){1, 0}, true);
    digests[count++] = fleet_digest(rig.fleet);
    rig_host(&rig, 2, (adapter_id){1, 0}, true);
    digests[count++] = fleet_digest(rig.fleet);
    rig_retire(&rig, (adapter_id){1, 0});
    digests[count++] = fleet_digest(rig.fleet);
    rig_down(&rig, 7, 1);
    digests[count++] = fleet_digest(rig.fleet);
    rig_up(&rig, 7, 2, 3, 0);
    digests[count++] = fleet_digest(rig.fleet);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (digests[i] == digests[k])
                fail_msg("acts %u and %u leave the same digest", k, i);
    rig.at_ns += NS_PER_S;
    rig_send(&rig, FLEET_EVENT_TICK, &tick);
    assert_true(fleet_digest(rig.fleet) == digests[count - 1]);
    rig_close(&rig);

    /* Two adapters of one home: nothing but the command tells them apart. */
    struct rig other;

    rig_open_full(&rig, &route_sticky);
    rig_open_full(&other, &route_sticky);
    rig_pass(&rig, 0, (adapter_id){1, 0});
    rig_pass(&other, 0, (adapter_id){9, 0});
    assert_true(fleet_digest(rig.fleet) != fleet_digest(other.fleet));
    rig_close(&rig);
    rig_close(&other);
}

struct mistake {
    struct rig *rig;
    struct fleet_event event;
};

static void send(void *context)
{
    struct mistake *mistake = context;

    rig_send(mistake->rig, (enum fleet_event_kind)mistake->event.kind, &mistake->event);
}

static void mistakes_of_the_host_stop_the_core(void **state)
{
    (void)state;
    struct rig rig;

    rig_open_full(&rig, &route_affinity);
    rig_request(&rig, request_id_make(1, 1), (adapter_id){1, 0}, 0);

    replica_id serving = rig.out.items[0].route.replica;
    replica_id other = replica_id_make(1, (replica_index(serving) + 1) % 8);
    request_id taken = request_id_make(1, 1);
    request_id free_slot = request_id_make(2, 2);
    replica_id twice = replica_id_make(2, 0);
    const struct fleet_event mistakes[] = {
        {.kind = FLEET_EVENT_NONE},
        {.kind = FLEET_EVENT_COUNT},
        /* a slot that is taken, one out of range, a base out of range */
        {.kind = FLEET_EVENT_REQUEST, .request = {.request = request_id_make(2, 1)}},
        {.kind = FLEET_EVENT_REQUEST, .request = {.request = request_id_make(2, 256)}},
        {.kind = FLEET_EVENT_REQUEST, .request = {.request = free_slot, .base = {2}}},
        /* the end of a request that never was, of one served elsewhere, of another in its slot */
        {.kind = FLEET_EVENT_REQUEST_DONE, .request_done = {.request = free_slot, .replica = serving}},
        {.kind = FLEET_EVENT_REQUEST_DONE, .request_done = {.request = taken, .replica = other}},
        {.kind = FLEET_EVENT_REQUEST_DONE, .request_done = {.request = request_id_make(9, 1), .replica = serving}},
        /* up while up, down while it is another, out of range */
        {.kind = FLEET_EVENT_REPLICA_UP, .replica_up = {.replica = twice}},
        {.kind = FLEET_EVENT_REPLICA_DOWN, .replica_down = {.replica = twice}},
        {.kind = FLEET_EVENT_REPLICA_DOWN, .replica_down = {.replica = replica_id_make(1, 8)}},
        {.kind = FLEET_EVENT_REPLICA_STATE, .replica_state = {.replica = serving, .kv_free_permille = 1001}},
        /* the base is nowhere, the store is no place to report, an adapter out of range */
        {.kind = FLEET_EVENT_RESIDENCY, .residency = {.adapter = {0, 0}, .tier = TIER_HOST}},
        {.kind = FLEET_EVENT_RESIDENCY, .residency = {.adapter = {1, 0}, .tier = TIER_STORE}},
        {.kind = FLEET_EVENT_RESIDENCY, .residency = {.adapter = {65, 0}, .tier = TIER_HOST}},
        {.kind = FLEET_EVENT_RESIDENCY, .residency = {.adapter = {1, 0}, .tier = TIER_HOST, .node = {4}}},
        {.kind = FLEET_EVENT_ADAPTER_RETIRED, .adapter_retired = {.adapter = {0, 0}}},
    };

    for (size_t i = 0; i < ARRAY_COUNT(mistakes); i++) {
        struct mistake mistake = {&rig, mistakes[i]};

        if (!check_stops(send, &mistake))
            fail_msg("mistake %zu was taken", i);
        /* What was refused left no trace. */
        fleet_check(rig.fleet);
    }
    /* The generation that was cannot come back. */
    struct mistake again = {
        &rig, {.kind = FLEET_EVENT_REPLICA_UP, .replica_up = {.replica = replica_id_make(1, 0)}}};

    rig_down(&rig, 0, 1);
    assert_true(check_stops(send, &again));
    rig_close(&rig);
}

static void going_back(void *context)
{
    struct rig *rig = context;
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    rig->at_ns--;
    rig_send(rig, FLEET_EVENT_TICK, &event);
}

static void time_does_not_go_back(void **state)
{
    (void)state;
    struct rig rig;

    rig_open_full(&rig, &route_random);
    rig.at_ns = 5;
    rig_pass(&rig, 1, (adapter_id){0, 0});
    assert_true(check_stops(going_back, &rig));
    assert_int_equal(fleet_wakeup_at_ns(rig.fleet), NEVER_NS);
    rig_close(&rig);
}

static void create(void *context)
{
    struct rig *rig = context;

    fleet_create(rig->memory, fleet_bytes(&rig->config), &rig->config);
}

static void a_bound_below_the_mean_is_not_a_bound(void **state)
{
    (void)state;
    struct rig rig;

    rig_open_full(&rig, &route_bounded);
    rig.config.bound_milli = 999;
    assert_true(check_stops(create, &rig));
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sticky_homes_hit_0_857_and_round_robin_0_556),
        cmocka_unit_test(requests_stay_in_the_pool_of_their_base),
        cmocka_unit_test(the_pool_shown_is_ascending_and_counts_its_requests),
        cmocka_unit_test(a_request_without_a_replica_is_refused),
        cmocka_unit_test(an_adapter_beyond_the_table_is_refused),
        cmocka_unit_test(a_lost_replica_frees_its_requests_and_comes_back_as_another),
        cmocka_unit_test(residency_is_shown_by_replica),
        cmocka_unit_test(a_new_version_is_nowhere_and_an_old_one_stays_forgotten),
        cmocka_unit_test(the_digest_tells_every_history_apart),
        cmocka_unit_test(mistakes_of_the_host_stop_the_core),
        cmocka_unit_test(time_does_not_go_back),
        cmocka_unit_test(a_bound_below_the_mean_is_not_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
