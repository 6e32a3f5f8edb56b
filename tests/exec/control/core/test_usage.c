/* Usage: each record once, whoever hears it and however often it is said. */
#include "rig.h"

static void usage_is_on_disk_before_the_server_may_forget_it(void **state)
{
    struct answer answer = {0};
    struct actor *server;
    int64_t output = 0;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    OK(&rig, rig_ask(&rig, 1, NULL, 10, &answer));
    UNTIL(&rig, (server = rig_has(&rig, answer.request)) != NULL);
    assert_true(actor_tokens(server, answer.request, 4));
    actor_done(server, answer.request, CORE_END_STOP);
    UNTIL(&rig, wire_state(server->wire).committed_seq == wire_state(server->wire).seq);
    assert_int_equal(rig_usage(&rig, &output), 1);
    assert_int_equal(output, 4);
    rig_end(&rig);
}

static enum status wait_for(struct metadata *metadata, void *context, struct refusal *refusal)
{
    (void)metadata, (void)refusal;
    pthread_mutex_lock(context);
    pthread_mutex_unlock(context);
    return STATUS_OK;
}

static void let_be(void *context, enum status status, const struct refusal *refusal)
{
    (void)context, (void)status, (void)refusal;
}

/* A disk that is slow is seen before clients feel it. */
static void what_is_not_on_disk_yet_is_counted_and_timed(void **state)
{
    pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;
    struct answer answer = {0};
    struct actor *server;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    OK(&rig, rig_ask(&rig, 1, NULL, 10, &answer));
    UNTIL(&rig, (server = rig_has(&rig, answer.request)) != NULL);
    UNTIL(&rig, core_counts(rig.core).tells_waiting == 0);
    pthread_mutex_lock(&disk);
    OK(&rig, meta_writer_submit(rig.writer, wait_for, let_be, &disk, &rig.refusal));
    assert_true(actor_tokens(server, answer.request, 4));
    actor_done(server, answer.request, CORE_END_STOP);
    UNTIL(&rig, core_counts(rig.core).tells_waiting > 0 && core_counts(rig.core).tells_lag_ns > 0);
    pthread_mutex_unlock(&disk);
    UNTIL(&rig, core_counts(rig.core).tells_waiting == 0);
    assert_int_equal(core_counts(rig.core).tells_lag_ns, 0);
    rig_end(&rig);
}

/* A commit that takes as long as it likes: answers of that server, and tokens of its streams, come all the while. */
static void a_slow_disk_holds_up_no_answer(void **state)
{
    enum { ANSWERS = 200 };
    pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;
    struct answer stream = {0};
    struct actor *server;
    int64_t output = 0;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    OK(&rig, rig_ask(&rig, 1, NULL, 10, &stream));
    UNTIL(&rig, (server = rig_has(&rig, stream.request)) != NULL);
    UNTIL(&rig, core_counts(rig.core).tells_waiting == 0);
    pthread_mutex_lock(&disk);
    OK(&rig, meta_writer_submit(rig.writer, wait_for, let_be, &disk, &rig.refusal));
    for (uint32_t i = 0; i < ANSWERS; i++) {
        struct answer answer = {0};

        OK(&rig, rig_ask(&rig, 1, NULL, 10, &answer));
        UNTIL(&rig, rig_has(&rig, answer.request) == server);
        assert_true(actor_tokens(server, answer.request, 1));
        actor_done(server, answer.request, CORE_END_STOP);
        UNTIL(&rig, answer.ends == 1);
    }
    assert_true(actor_tokens(server, stream.request, 4));
    UNTIL(&rig, stream.tokens == 4);
    assert_true(core_counts(rig.core).tells_waiting >= ANSWERS);
    pthread_mutex_unlock(&disk);
    actor_done(server, stream.request, CORE_END_STOP);
    UNTIL(&rig, wire_state(server->wire).committed_seq == wire_state(server->wire).seq);
    assert_int_equal(rig_usage(&rig, &output), ANSWERS + 1);
    assert_int_equal(output, ANSWERS + 4);
    rig_end(&rig);
}

/* Records of nobody's hold nothing up. */
static void a_record_without_an_account_is_passed_over(void **state)
{
    static const char *const accounts[] = {"", "nobody", "org-none tiny", " x"};
    struct actor *server;
    int64_t output = 0;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    server = rig_server(&rig, 1, 0);
    for (uint32_t i = 0; i < ARRAY_COUNT(accounts); i++) {
        const struct wire_usage usage = {.at_ms = 1, .prompt_tokens = 1, .account_count = (uint32_t)strlen(accounts[i]),
                                         .account = (const uint8_t *)accounts[i]};

        assert_int_equal(wire_say(server->wire, WIRE_USAGE, &usage, 0, NULL, 0), STATUS_OK);
    }
    UNTIL(&rig, wire_state(server->wire).committed_seq == wire_state(server->wire).seq);
    assert_int_equal(rig_usage(&rig, &output), 0);
    rig_end(&rig);
}

/* Some of them among others, in one commit and in several. */
static void records_beside_one_without_an_account_count(void **state)
{
    enum { RECORDS = 600 };
    pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;
    char account[128];
    struct actor *server;
    int64_t output = 0;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    server = rig_server(&rig, 1, 0);
    snprintf(account, sizeof(account), "%s tiny", rig.tenant);
    UNTIL(&rig, core_counts(rig.core).tells_waiting == 0);
    pthread_mutex_lock(&disk);
    OK(&rig, meta_writer_submit(rig.writer, wait_for, let_be, &disk, &rig.refusal));
    for (uint32_t i = 0; i < RECORDS; i++) {
        const char *whose = i % 100 == 7 ? "org-none tiny" : account;
        const struct wire_usage usage = {.at_ms = 1, .output_tokens = 3, .account_count = (uint32_t)strlen(whose),
                                         .account = (const uint8_t *)whose};

        assert_int_equal(wire_say(server->wire, WIRE_USAGE, &usage, 0, NULL, 0), STATUS_OK);
    }
    UNTIL(&rig, core_counts(rig.core).tells_waiting >= RECORDS);
    pthread_mutex_unlock(&disk);
    UNTIL(&rig, wire_state(server->wire).committed_seq == wire_state(server->wire).seq);
    assert_int_equal(rig_usage(&rig, &output), RECORDS - RECORDS / 100);
    assert_int_equal(output, 3 * (RECORDS - RECORDS / 100));
    rig_end(&rig);
}

/* Control planes that go in the middle of it, servers that are killed at times. What a control plane has put on disk and not told the
 * server is said again to the next one. */
static void no_record_is_lost_or_doubled_by_control_planes_that_go(void **state)
{
    const uint64_t seed = test_seed(3);
    uint64_t random = seed;
    int64_t records = 0;
    int64_t tokens = 0;
    int64_t output = 0;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    for (uint32_t life = 0; life < 12; life++) {
        rig_open(&rig);
        assert_int_equal(core_restored(rig.core), STATUS_OK);
        for (uint32_t i = 0; i < 4; i++) {
            struct answer answer = {0};
            struct actor *server;
            const uint32_t count = 1 + (uint32_t)draw_below(&random, 9);

            OK(&rig, rig_ask(&rig, (uint32_t)draw_below(&random, 2), NULL, 10, &answer));
            UNTIL(&rig, (server = rig_has(&rig, answer.request)) != NULL);
            assert_true(actor_tokens(server, answer.request, count));
            actor_done(server, answer.request, CORE_END_STOP);
            records++;
            tokens += count;
            UNTIL(&rig, answer.ends == 1);
            if (draw_below(&random, 8) == 0)
                rig_kill(&rig, server);
        }
        rig_core_gone(&rig);
    }
    rig_open(&rig);
    UNTIL(&rig, rig_usage(&rig, &output) == records);
    rig_turn_for(&rig, 100);
    if (rig_usage(&rig, &output) != records || output != tokens)
        fail_msg("seed %llu: %lld tokens of %lld", (unsigned long long)seed, (long long)output, (long long)tokens);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usage_is_on_disk_before_the_server_may_forget_it),
        cmocka_unit_test(what_is_not_on_disk_yet_is_counted_and_timed),
        cmocka_unit_test(a_slow_disk_holds_up_no_answer),
        cmocka_unit_test(a_record_without_an_account_is_passed_over),
        cmocka_unit_test(records_beside_one_without_an_account_count),
        cmocka_unit_test(no_record_is_lost_or_doubled_by_control_planes_that_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
