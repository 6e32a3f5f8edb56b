/* A long life of merged replicas: who is hot changes, starts fail, replicas are lost, adapters are renewed and retired. After
 * each step all invariants, and nobody is ever served by weights that are not his. */
#include "merge_rig.h"

#include "base/hash.h"

enum { ADAPTERS = 6, SLOTS = 64 };

struct life {
    struct scene scene;
    uint64_t random;
    uint64_t heard;            /* hash of who went where */
    uint32_t version[ADAPTERS + 1];
    replica_id replica_of[SLOTS];
    request_id request_of[SLOTS];
    bool used[SLOTS];
    uint32_t merged_served;
    uint32_t overflowed;
    uint32_t lost;
};

/* Who is hot changes with time. */
static adapter_id some_adapter(struct life *life)
{
    uint32_t favourite = 1 + (uint32_t)(life->scene.rig.at_ns / (90 * SECOND)) % ADAPTERS;
    uint32_t index = draw_below(&life->random, 4) ? favourite : (uint32_t)draw_below(&life->random, ADAPTERS + 1);

    if (index == 0)
        return (adapter_id){0, 0};
    return (adapter_id){index, life->version[index] - (life->version[index] > 0 && draw_below(&life->random, 30) == 0)};
}

static void a_request(struct life *life)
{
    uint32_t slot = (uint32_t)draw_below(&life->random, SLOTS);
    adapter_id adapter = some_adapter(life);
    struct fleet *fleet = life->scene.rig.fleet;
    enum route_reason reason;
    replica_id replica;
    replica_id merged;

    if (life->used[slot])
        return;
    replica = scene_begin(&life->scene, adapter, slot, &life->request_of[slot], &reason);
    assert_int_equal(reason == ROUTE_MERGED, replica_index(replica) >= FIRST);
    if (reason == ROUTE_MERGED) {
        assert_true(adapter_id_equal(life->scene.merged_of[replica_index(replica)], adapter));
        assert_true(fleet_outstanding(fleet, replica) <= 3);
        life->merged_served++;
    } else if (fleet_merged(fleet, adapter, &merged)) {
        assert_true(fleet_outstanding(fleet, merged) == 3);
        life->overflowed++;
    }
    life->used[slot] = true;
    life->replica_of[slot] = replica;
    life->heard = hash_fold(life->heard, (uint64_t)reason << 32 | replica.value);
}

static void an_end(struct life *life)
{
    uint32_t slot = (uint32_t)draw_below(&life->random, SLOTS);

    if (!life->used[slot])
        return;
    life->used[slot] = false;
    scene_end(&life->scene, life->request_of[slot], life->replica_of[slot], (uint32_t)draw_below(&life->random, 1500));
}

static void a_loss(struct life *life)
{
    struct fleet_event event;
    uint32_t index = FIRST + (uint32_t)draw_below(&life->random, 3);
    replica_id replica;

    if (!fleet_merged(life->scene.rig.fleet, life->scene.merged_of[index], &replica) || replica_index(replica) != index)
        return;
    memset(&event, 0, sizeof(event));
    event.replica_down.replica = replica;
    rig_send(&life->scene.rig, FLEET_EVENT_REPLICA_DOWN, &event);
    for (uint32_t i = 0; i < SLOTS; i++)
        life->used[i] = life->used[i] && life->replica_of[i].value != replica.value;
    life->lost++;
}

/* A drain is answered when nothing is left. */
static void an_answer(struct life *life)
{
    struct scene *scene = &life->scene;

    if (scene->asked_count == 0 ||
        (scene->asked[0].drain && fleet_outstanding(scene->rig.fleet, scene->asked[0].replica) > 0))
        return;
    scene_answer(scene, draw_below(&life->random, 6) != 0);
    scene_hear(scene);
}

static void a_version(struct life *life)
{
    uint32_t index = 1 + (uint32_t)draw_below(&life->random, ADAPTERS);

    if (draw_below(&life->random, 2) == 0) {
        rig_retire(&life->scene.rig, (adapter_id){index, life->version[index]});
        scene_hear(&life->scene);
    }
    life->version[index]++;
}

/* The digest at its end. */
static uint64_t live(uint64_t seed, uint32_t steps, bool checked, struct life *life)
{
    uint64_t digest;

    *life = (struct life){.random = seed};
    scene_open(&life->scene, 3);
    life->scene.answers = false;
    life->scene.rig.checked = checked;
    for (uint32_t step = 0; step < steps; step++) {
        uint64_t luck = draw_below(&life->random, 1000);

        scene_advance(&life->scene, life->scene.rig.at_ns + (int64_t)draw_below(&life->random, SECOND / 8));
        if (luck < 400)
            a_request(life);
        else if (luck < 880)
            an_end(life);
        else if (luck < 990)
            an_answer(life);
        else if (luck < 995)
            a_loss(life);
        else
            a_version(life);
    }
    digest = fleet_digest(life->scene.rig.fleet);
    rig_close(&life->scene.rig);
    return digest;
}

static void a_random_life_keeps_every_promise(void **state)
{
    (void)state;
    static struct life life;
    uint32_t starts = 0;
    uint32_t drains = 0;

    for (uint32_t i = 0; i < 4; i++) {
        uint64_t seed = test_seed(500 + i);

        live(seed, 60000, true, &life);
        starts += life.scene.starts;
        drains += life.scene.drains;
        print_message("seed %llu: %u starts, %u drains, %u served merged, %u overflowed, %u lost\n", (unsigned long long)seed,
                      life.scene.starts, life.scene.drains, life.merged_served, life.overflowed, life.lost);
        assert_true(life.merged_served > 100 && life.overflowed > 50 && life.lost > 0);
    }
    assert_true(starts > 100 && drains > 50);
}

static void equal_histories_give_equal_digests_and_others_do_not(void **state)
{
    (void)state;
    static struct life lives[3];
    uint64_t seed = test_seed(900);
    uint64_t digest = live(seed, 8000, false, &lives[0]);

    assert_true(digest == live(seed, 8000, false, &lives[1]));
    assert_true(lives[0].heard == lives[1].heard);
    assert_true(digest != live(seed + 1, 8000, false, &lives[2]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_random_life_keeps_every_promise),
        cmocka_unit_test(equal_histories_give_equal_digests_and_others_do_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
