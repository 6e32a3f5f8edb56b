/* A new control plane finds the servers of the last one: they keep their place, their devices and their adapters. */
#include <fcntl.h>
#include <unistd.h>

#include "rig.h"

static void servers_live_on(void **state)
{
    struct answer answers[8] = {{0}};
    uint64_t servers[3];
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    for (uint32_t i = 0; i < 3; i++)
        servers[i] = rig_server(&rig, i / 2, i % 2)->launch.worker;
    for (uint32_t life = 0; life < 4; life++) {
        rig_core_gone(&rig);
        rig_turn_for(&rig, 3);
        rig_open(&rig);
        for (uint32_t i = 0; i < 8; i++) { /* they wait until all is told */
            answers[i] = (struct answer){0};
            OK(&rig, rig_ask(&rig, i % 2, NULL, 10, &answers[i]));
        }
        rig_turn_for(&rig, 20);
        assert_null(rig_has(&rig, answers[0].request));
        OK(&rig, core_restored(rig.core));
        for (uint32_t i = 0; i < 8; i++)
            UNTIL(&rig, rig_has(&rig, answers[i].request) != NULL);
        for (uint32_t i = 0; i < 3; i++)
            assert_true(rig_worker(&rig, servers[i]) != NULL && !rig_worker(&rig, servers[i])->has_exited);
        if (life % 2 == 0) {
            for (uint32_t i = 0; i < 8; i++)
                actor_done(rig_has(&rig, answers[i].request), answers[i].request, CORE_END_STOP);
            for (uint32_t i = 0; i < 8; i++)
                UNTIL(&rig, answers[i].ends == 1);
        }
    }
    assert_int_equal(rig_rows(&rig), 3);
    assert_int_equal(core_counts(rig.core).servers_up, 3);
    rig_end(&rig);
}

static void what_a_server_knows_is_not_fetched_again(void **state)
{
    const uint8_t key[32] = {5};
    struct answer answer = {0};
    struct core_adapter adapter;
    struct actor *server;
    uint64_t generation;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    adapter = rig_adapter(&rig, "one");
    OK(&rig, rig_ask(&rig, 1, &adapter, 10, &answer));
    UNTIL(&rig, rig.seen.fetches_count == 1);
    OK(&rig, core_fetched(rig.core, rig.seen.fetches[0], STATUS_OK, key, open("/dev/null", O_RDONLY | O_CLOEXEC)));
    UNTIL(&rig, (server = rig_has(&rig, answer.request)) != NULL);
    generation = actor_asked(server, answer.request)->generation;
    rig_core_gone(&rig);
    rig_open(&rig);
    OK(&rig, core_restored(rig.core));
    UNTIL(&rig, core_counts(rig.core).servers_up == 3 && core_counts(rig.core).adapters_resident == 1);
    OK(&rig, rig_ask(&rig, 1, &adapter, 10, &answer));
    UNTIL(&rig, rig_has(&rig, answer.request) != NULL);
    assert_int_equal(actor_asked(server, answer.request)->generation, generation);
    assert_int_equal(rig.seen.fetches_count, 1);
    assert_int_equal(server->loads, 1);
    adapter = rig_adapter(&rig, "two"); /* its generation is above those of before */
    OK(&rig, rig_ask(&rig, 1, &adapter, 10, &answer));
    UNTIL(&rig, rig.seen.fetches_count == 2);
    OK(&rig, core_fetched(rig.core, rig.seen.fetches[1], STATUS_OK, key, open("/dev/null", O_RDONLY | O_CLOEXEC)));
    UNTIL(&rig, rig_has(&rig, answer.request) != NULL);
    assert_true(actor_asked(server, answer.request)->generation > generation);
    rig_end(&rig);
}

/* One that died meanwhile is replaced; its row ends, and that of one whose end nobody saw. */
static void dead_servers_are_replaced_and_their_rows_ended(void **state)
{
    const struct meta_worker_new lost = {.id = "worker-lost", .kind = "server", .placement = "{}"};
    uint64_t survivor;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    survivor = rig_server(&rig, 0, 1)->launch.worker;
    rig_core_gone(&rig);
    OK(&rig, meta_worker_add(rig.metadata, &lost, 1, &rig.refusal));
    rig_kill(&rig, rig_server(&rig, 0, 0));
    rig_kill(&rig, rig_server(&rig, 1, 0));
    rig_open(&rig);
    OK(&rig, core_restored(rig.core));
    UNTIL(&rig, core_counts(rig.core).servers_up == 3 && rig.stage.forgotten == 2);
    assert_true(rig_worker(&rig, survivor) != NULL && !rig_worker(&rig, survivor)->has_exited);
    UNTIL(&rig, rig_rows(&rig) == 3);
    rig_end(&rig);
}

/* What this control plane has no base or place for is asked to end. */
static void a_server_without_a_place_is_ended(void **state)
{
    uint64_t server;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    server = rig_server(&rig, 1, 0)->launch.worker;
    rig_core_gone(&rig);
    snprintf(rig.bases[1].name, sizeof(rig.bases[1].name), "third");
    rig_open(&rig);
    OK(&rig, core_restored(rig.core));
    UNTIL(&rig, rig_worker(&rig, server) == NULL && rig_server(&rig, 1, 0) != NULL && core_counts(rig.core).servers_up == 3);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_live_on),
        cmocka_unit_test(what_a_server_knows_is_not_fetched_again),
        cmocka_unit_test(dead_servers_are_replaced_and_their_rows_ended),
        cmocka_unit_test(a_server_without_a_place_is_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
