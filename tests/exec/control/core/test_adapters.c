/* Adapters: fetched once, said before what names them, let go when there are too many. */
#include <fcntl.h>
#include <unistd.h>

#include "rig.h"

static void answer_fetch(struct rig *rig, uint32_t n, enum status status)
{
    const uint8_t key[32] = {(uint8_t)(n + 1)};
    int object = status == STATUS_OK ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;

    OK(rig, core_fetched(rig->core, rig->seen.fetches[n], status, key, object));
}

static void an_adapter_is_fetched_once_for_all_who_wait(void **state)
{
    struct answer answers[10] = {{0}};
    struct answer base = {0};
    struct core_adapter adapter;
    struct actor *server;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    adapter = rig_adapter(&rig, "one");
    for (uint32_t i = 0; i < 10; i++)
        OK(&rig, rig_ask(&rig, 1, &adapter, 10, &answers[i]));
    OK(&rig, rig_ask(&rig, 1, NULL, 10, &base)); /* the base waits for nobody */
    UNTIL(&rig, (server = rig_has(&rig, base.request)) != NULL && rig.seen.fetches_count > 0);
    rig_turn_for(&rig, 20);
    assert_int_equal(rig.seen.fetches_count, 1);
    assert_memory_equal(&rig.seen.fetched[0], &adapter, sizeof(adapter));
    assert_int_equal(server->asked_count, 1);
    answer_fetch(&rig, 0, STATUS_OK);
    for (uint32_t i = 0; i < 10; i++)
        UNTIL(&rig, actor_asked(server, answers[i].request) != NULL);
    assert_int_equal(server->loads, 1);
    assert_int_equal(server->learned[0].key_first, 1);
    assert_memory_equal(server->learned[0].digest, adapter.key, 32);
    assert_string_equal(server->learned[0].tenant, rig.tenant);
    assert_int_equal(actor_asked(server, answers[4].request)->generation, server->learned[0].generation);
    assert_memory_equal(actor_asked(server, answers[4].request)->digest, adapter.key, 32);
    assert_int_equal(core_counts(rig.core).loads, 1);
    rig_end(&rig);
}

static void keys_tell_tenants_and_contents_apart(void **state)
{
    uint8_t keys[4][32];

    (void)state;
    core_adapter_key("org-a", "digest", keys[0]);
    core_adapter_key("org-b", "digest", keys[1]);
    core_adapter_key("org-a", "digesu", keys[2]);
    core_adapter_key("org-ad", "igest", keys[3]);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t k = 0; k < i; k++)
            assert_memory_not_equal(keys[i], keys[k], 32);
    }
}

static void a_fetch_that_fails_ends_who_waits_for_it(void **state)
{
    struct answer answers[3] = {{0}};
    struct core_adapter one;
    struct core_adapter two;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    one = rig_adapter(&rig, "one");
    two = rig_adapter(&rig, "two");
    OK(&rig, rig_ask(&rig, 1, &one, 10, &answers[0]));
    OK(&rig, rig_ask(&rig, 1, &one, 10, &answers[1]));
    UNTIL(&rig, rig.seen.fetches_count == 1);
    OK(&rig, rig_ask(&rig, 1, &two, 10, &answers[2]));
    UNTIL(&rig, rig.seen.fetches_count == 2);
    answer_fetch(&rig, 0, STATUS_NOT_FOUND);
    UNTIL(&rig, answers[0].ends == 1 && answers[1].ends == 1);
    assert_int_equal(answers[0].end.reason, CORE_END_REFUSED);
    assert_non_null(strstr(answers[0].text, "no longer there"));
    assert_int_equal(answers[2].ends, 0);
    OK(&rig, rig_ask(&rig, 1, &one, 10, &answers[0])); /* asked anew */
    UNTIL(&rig, rig.seen.fetches_count == 3);
    answer_fetch(&rig, 1, STATUS_OK);
    answer_fetch(&rig, 2, STATUS_OK);
    answer_fetch(&rig, 2, STATUS_OK); /* nobody asked for that */
    UNTIL(&rig, rig_has(&rig, answers[0].request) != NULL && rig_has(&rig, answers[2].request) != NULL);
    rig_end(&rig);
}

static void a_load_that_fails_is_tried_for_the_next_request(void **state)
{
    struct answer first = {0};
    struct answer second = {0};
    struct core_adapter adapter;
    struct actor *server;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    adapter = rig_adapter(&rig, "one");
    rig.stage.fails_loads = true;
    OK(&rig, rig_ask(&rig, 1, &adapter, 10, &first));
    UNTIL(&rig, rig.seen.fetches_count == 1);
    answer_fetch(&rig, 0, STATUS_OK);
    UNTIL(&rig, (server = rig_has(&rig, first.request)) != NULL);
    actor_done(server, first.request, CORE_END_REFUSED);
    UNTIL(&rig, first.ends == 1);
    rig.stage.fails_loads = false;
    rig_turn_for(&rig, 20);
    OK(&rig, rig_ask(&rig, 1, &adapter, 10, &second));
    UNTIL(&rig, rig.seen.fetches_count == 2);
    answer_fetch(&rig, 1, STATUS_OK);
    UNTIL(&rig, rig_has(&rig, second.request) != NULL);
    assert_int_equal(server->loads, 2);
    rig_end(&rig);
}

/* One request after the other, each of another adapter, at a server that may know three of them; and the core's table holds five. */
static void what_was_not_used_for_longest_is_unloaded(void **state)
{
    struct core_adapter adapters[8];
    struct actor *server;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig.config.server_adapters_max = 3;
    rig.config.adapters_max = 5;
    rig_up(&rig);
    server = rig_server(&rig, 1, 0);
    for (uint32_t i = 0; i < 12; i++) {
        struct answer answer = {0};
        char digest[8];

        snprintf(digest, sizeof(digest), "%u", i == 11 ? 8 : i % 8);
        adapters[i % 8] = rig_adapter(&rig, digest);
        OK(&rig, rig_ask(&rig, 1, &adapters[i % 8], 10, &answer));
        UNTIL(&rig, rig.seen.fetches_count == i + 1);
        answer_fetch(&rig, i, STATUS_OK);
        UNTIL(&rig, actor_asked(server, answer.request) != NULL);
        actor_done(server, answer.request, CORE_END_STOP);
        UNTIL(&rig, answer.ends == 1);
        assert_true(server->learned_count <= 3);
    }
    assert_int_equal(server->unloads, 9);
    for (uint32_t i = 0; i < 3; i++) { /* the last ones are there and need no fetch: 9, 10, 11 */
        struct core_adapter adapter = i == 2 ? rig_adapter(&rig, "8") : adapters[1 + i];
        struct answer answer = {0};

        OK(&rig, rig_ask(&rig, 1, &adapter, 10, &answer));
        UNTIL(&rig, actor_asked(server, answer.request) != NULL);
        actor_done(server, answer.request, CORE_END_STOP);
        UNTIL(&rig, answer.ends == 1);
    }
    assert_int_equal(rig.seen.fetches_count, 12);
    rig_end(&rig);
}

static void adapters_in_use_stay(void **state)
{
    struct answer answers[3] = {{0}};
    struct actor *server;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig.config.server_adapters_max = 2;
    rig_up(&rig);
    server = rig_server(&rig, 1, 0);
    for (uint32_t i = 0; i < 3; i++) {
        struct core_adapter adapter = rig_adapter(&rig, i == 0 ? "a" : i == 1 ? "b" : "c");

        OK(&rig, rig_ask(&rig, 1, &adapter, 10, &answers[i]));
        UNTIL(&rig, rig.seen.fetches_count == i + 1);
        answer_fetch(&rig, i, STATUS_OK);
    }
    UNTIL(&rig, actor_asked(server, answers[1].request) != NULL);
    rig_turn_for(&rig, 30);
    assert_null(actor_asked(server, answers[2].request));
    actor_done(server, answers[0].request, CORE_END_STOP);
    UNTIL(&rig, actor_asked(server, answers[2].request) != NULL);
    assert_int_equal(server->unloads, 1);
    rig_end(&rig);
}

/* Its fetch is in the air when it dies; the one that comes next asks for itself. */
static void a_fetch_for_a_dead_server_is_nobodys(void **state)
{
    struct answer answer = {0};
    struct core_adapter adapter;
    struct actor *server;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    adapter = rig_adapter(&rig, "one");
    server = rig_server(&rig, 1, 0);
    OK(&rig, rig_ask(&rig, 1, &adapter, 10, &answer));
    UNTIL(&rig, rig.seen.fetches_count == 1);
    rig_kill(&rig, server);
    UNTIL(&rig, rig.seen.fetches_count == 2);
    answer_fetch(&rig, 0, STATUS_OK);
    rig_turn_for(&rig, 20);
    assert_null(rig_has(&rig, answer.request));
    answer_fetch(&rig, 1, STATUS_OK);
    UNTIL(&rig, rig_has(&rig, answer.request) == rig_server(&rig, 1, 0) && rig_has(&rig, answer.request) != NULL);
    assert_int_equal(rig_server(&rig, 1, 0)->learned[0].key_first, 2);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_adapter_is_fetched_once_for_all_who_wait),
        cmocka_unit_test(keys_tell_tenants_and_contents_apart),
        cmocka_unit_test(a_fetch_that_fails_ends_who_waits_for_it),
        cmocka_unit_test(a_load_that_fails_is_tried_for_the_next_request),
        cmocka_unit_test(what_was_not_used_for_longest_is_unloaded),
        cmocka_unit_test(adapters_in_use_stay),
        cmocka_unit_test(a_fetch_for_a_dead_server_is_nobodys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
