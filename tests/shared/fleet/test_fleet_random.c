/* The fleet core under a host that does everything a host may do, in no order at all: every invariant after every
 * event, under each policy; a naive account of who serves what beside it; and equal histories give equal digests. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"

enum { REPLICAS = 5, NODES = 2, BASES = 2, ADAPTERS = 6, REQUESTS = 24 };

/* Under a sanitizer a step costs ten times as much. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EVENTS = 300000 };
#elif defined(__OPTIMIZE__)
enum { EVENTS = 1000000 };
#else
enum { EVENTS = 150000 };
#endif

struct twin {
    bool up[REPLICAS];
    uint32_t generation[REPLICAS];
    uint16_t base[REPLICAS];
    uint32_t version[ADAPTERS + 1]; /* the newest there is */
    bool busy[REQUESTS];
    request_id request[REQUESTS];
    replica_id server[REQUESTS];
    uint64_t ordinal;
};

struct trial {
    struct rig rig;
    struct twin twin;
    uint64_t seed;
    uint64_t random;
    uint64_t heard; /* hash of all commands */
    uint32_t routed;
    uint32_t refused;
};

static replica_id live_id(const struct twin *twin, uint32_t replica)
{
    return replica_id_make(twin->generation[replica], replica);
}

static adapter_id some_adapter(struct trial *trial)
{
    uint32_t index = (uint32_t)draw_below(&trial->random, ADAPTERS + 1);
    uint32_t newest = trial->twin.version[index];

    if (index == 0)
        return (adapter_id){0, 0};
    /* Now and then the version before. */
    return (adapter_id){index, newest > 0 && draw_below(&trial->random, 8) == 0 ? newest - 1 : newest};
}

static void a_request(struct trial *trial)
{
    struct twin *twin = &trial->twin;
    uint32_t slot = (uint32_t)draw_below(&trial->random, REQUESTS);
    uint16_t base = (uint16_t)draw_below(&trial->random, BASES);
    bool served = false;

    if (twin->busy[slot])
        return;

    request_id id = request_id_make(twin->ordinal++, slot);
    const struct fleet_command *command = rig_request(&trial->rig, id, some_adapter(trial), base);

    for (uint32_t i = 0; i < REPLICAS; i++)
        served |= twin->up[i] && twin->base[i] == base;
    trial->heard = hash_words(trial->heard, command->word, ARRAY_COUNT(command->word));
    if (!served) {
        assert_int_equal(command->kind, FLEET_COMMAND_REFUSE);
        trial->refused++;
        return;
    }
    assert_int_equal(command->kind, FLEET_COMMAND_ROUTE);
    assert_true(request_id_equal(command->route.request, id));

    uint32_t replica = replica_index(command->route.replica);

    assert_true(twin->up[replica] && twin->base[replica] == base);
    assert_int_equal(command->route.replica.value, live_id(twin, replica).value);
    twin->busy[slot] = true;
    twin->request[slot] = id;
    twin->server[slot] = command->route.replica;
    trial->routed++;
}

/* The end of a request; sometimes also a late word of the end of one whose replica is gone. */
static void an_end(struct trial *trial)
{
    struct twin *twin = &trial->twin;
    uint32_t slot = (uint32_t)draw_below(&trial->random, REQUESTS);
    uint32_t replica = replica_index(twin->server[slot]);
    bool late = twin->server[slot].value != live_id(twin, replica).value || !twin->up[replica];

    if (!twin->busy[slot] && !late)
        return;
    rig_done(&trial->rig, twin->request[slot], twin->server[slot]);
    twin->busy[slot] = false;
}

static void a_turn_of_a_replica(struct trial *trial)
{
    struct twin *twin = &trial->twin;
    uint32_t replica = (uint32_t)draw_below(&trial->random, REPLICAS);

    if (twin->up[replica]) {
        rig_down(&trial->rig, replica, twin->generation[replica]);
        for (uint32_t i = 0; i < REQUESTS; i++)
            if (twin->busy[i] && twin->server[i].value == live_id(twin, replica).value)
                twin->busy[i] = false;
        twin->up[replica] = false;
        return;
    }
    twin->generation[replica]++;
    twin->base[replica] = (uint16_t)draw_below(&trial->random, BASES);
    twin->up[replica] = true;
    rig_up(&trial->rig, replica, twin->generation[replica], (uint16_t)draw_below(&trial->random, NODES),
           twin->base[replica]);
}

static void a_residency(struct trial *trial)
{
    adapter_id adapter = some_adapter(trial);
    bool present = draw_below(&trial->random, 2) == 0;
    uint32_t replica = (uint32_t)draw_below(&trial->random, REPLICAS);
    uint32_t generation = trial->twin.generation[replica];

    if (adapter_is_base(adapter))
        return;
    if (draw_below(&trial->random, 3) == 0)
        rig_host(&trial->rig, (uint16_t)draw_below(&trial->random, NODES), adapter, present);
    else
        rig_gpu(&trial->rig, replica, generation - (generation > 0 && draw_below(&trial->random, 10) == 0), adapter,
                present);
}

static void a_report(struct trial *trial)
{
    struct fleet_event event;
    uint32_t replica = (uint32_t)draw_below(&trial->random, REPLICAS);

    memset(&event, 0, sizeof(event));
    event.replica_state.replica = live_id(&trial->twin, replica);
    event.replica_state.waiting = (uint32_t)draw_below(&trial->random, 100);
    event.replica_state.kv_free_permille = (uint32_t)draw_below(&trial->random, 1001);
    rig_send(&trial->rig, FLEET_EVENT_REPLICA_STATE, &event);
}

static void a_version(struct trial *trial)
{
    uint32_t index = 1 + (uint32_t)draw_below(&trial->random, ADAPTERS);

    if (draw_below(&trial->random, 2) == 0)
        rig_retire(&trial->rig, (adapter_id){index, trial->twin.version[index]});
    trial->twin.version[index]++;
}

static void turn(struct trial *trial)
{
    uint64_t luck = draw_below(&trial->random, 1000);

    trial->rig.at_ns += (int64_t)draw_below(&trial->random, luck == 0 ? 1000 * NS_PER_S : NS_PER_S / 10);
    if (luck < 400)
        a_request(trial);
    else if (luck < 700)
        an_end(trial);
    else if (luck < 900)
        a_residency(trial);
    else if (luck < 970)
        a_report(trial);
    else if (luck < 985)
        a_version(trial);
    else
        a_turn_of_a_replica(trial);
}

static void compare(const struct trial *trial, const char *policy, uint32_t event)
{
    const struct twin *twin = &trial->twin;

    for (uint32_t i = 0; i < REPLICAS; i++) {
        uint32_t expected = 0;
        uint32_t got = fleet_outstanding(trial->rig.fleet, live_id(twin, i));

        for (uint32_t slot = 0; slot < REQUESTS; slot++)
            expected += twin->busy[slot] && twin->up[i] && twin->server[slot].value == live_id(twin, i).value;
        if (got != expected)
            fail_msg("seed %llu, %s, event %u: replica %u has %u outstanding, the twin %u",
                     (unsigned long long)trial->seed, policy, event, i, got, expected);
    }
}

/* `events` events from `seed`; the fleet's digest at the end. */
static uint64_t run(const struct route_policy *policy, uint64_t seed, uint32_t events, bool checked,
                    uint64_t *ret_heard)
{
    struct fleet_config config = rig_config(policy);
    struct trial trial = {.seed = seed, .random = seed};

    config.replicas_max = REPLICAS;
    config.nodes_max = NODES;
    config.bases_max = BASES;
    config.adapters_max = ADAPTERS;
    config.requests_max = REQUESTS;
    config.bound_add = 1;
    config.rate_half_life_ns = 10 * NS_PER_S;
    rig_open(&trial.rig, &config);
    trial.rig.checked = checked;
    for (uint32_t i = 0; i < events; i++) {
        turn(&trial);
        if (checked)
            compare(&trial, policy->name, i);
    }
    assert_true(trial.routed > events / 10);
    assert_true(trial.refused > events / 1000);
    fleet_check(trial.rig.fleet);

    uint64_t digest = fleet_digest(trial.rig.fleet);

    rig_close(&trial.rig);
    *ret_heard = trial.heard;
    return digest;
}

static const struct route_policy *const policies[] = {
#define X(name) &route_##name,
    ROUTE_POLICIES(X)
#undef X
};

static void invariants_hold_after_every_event_under_every_policy(void **state)
{
    (void)state;
    uint64_t heard;

    for (size_t i = 0; i < ARRAY_COUNT(policies); i++)
        run(policies[i], test_seed(100 + i), EVENTS, true, &heard);
}

static void equal_histories_give_equal_digests_and_others_do_not(void **state)
{
    (void)state;
    uint64_t digests[ARRAY_COUNT(policies)];

    for (size_t i = 0; i < ARRAY_COUNT(policies); i++) {
        uint64_t heard;
        uint64_t heard_again;
        uint64_t heard_other;
        uint64_t seed = test_seed(200);

        digests[i] = run(policies[i], seed, 5000, false, &heard);
        if (digests[i] != run(policies[i], seed, 5000, false, &heard_again) || heard != heard_again)
            fail_msg("seed %llu: two runs of %s differ", (unsigned long long)seed, policies[i]->name);
        assert_true(digests[i] != run(policies[i], seed + 1, 5000, false, &heard_other));
        assert_true(digests[i] != run(policies[i], seed, 4990, false, &heard_other));
        for (size_t k = 0; k < i; k++)
            assert_true(digests[k] != digests[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invariants_hold_after_every_event_under_every_policy),
        cmocka_unit_test(equal_histories_give_equal_digests_and_others_do_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
