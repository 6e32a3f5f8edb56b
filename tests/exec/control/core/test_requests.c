/* Requests between clients and model servers: where they go, credit, ends, deaths. */
#include "rig.h"

static void requests_are_spread_over_the_replicas_of_their_base(void **state)
{
    struct answer answers[32] = {{0}};
    uint32_t on[2] = {0};
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    assert_int_equal(core_base_counts(rig.core, 0).up, 2);
    assert_int_equal(core_base_counts(rig.core, 1).up, 1);
    assert_string_equal(rig_server(&rig, 1, 0)->settings,
                        "{\"task\":\"serve\",\"tenant\":\"\",\"base\":{\"fd\":0,\"name\":\"other\"},"
                        "\"options\":{\"threads\":2,\"requests\":256,\"adapters\":8192,\"max_loras\":32},\"device\":\"cpu\"}");
    assert_int_equal(rig_rows(&rig), 3);
    for (uint32_t i = 0; i < 32; i++)
        OK(&rig, rig_ask(&rig, i == 31, NULL, 10, &answers[i]));
    for (uint32_t i = 0; i < 32; i++)
        UNTIL(&rig, rig_has(&rig, answers[i].request) != NULL);
    for (uint32_t i = 0; i < 31; i++)
        on[rig_has(&rig, answers[i].request) == rig_server(&rig, 0, 0)]++;
    assert_ptr_equal(rig_has(&rig, answers[31].request), rig_server(&rig, 1, 0));
    if (on[0] < 8 || on[1] < 8)
        fail_msg("%u and %u requests of 31", on[0], on[1]);
    for (uint32_t i = 0; i < 32; i++) {
        struct actor *server = rig_has(&rig, answers[i].request);

        assert_true(actor_tokens(server, answers[i].request, 10));
        actor_done(server, answers[i].request, CORE_END_LENGTH);
    }
    for (uint32_t i = 0; i < 32; i++) {
        UNTIL(&rig, answers[i].ends == 1);
        assert_int_equal(answers[i].end.reason, CORE_END_LENGTH);
        assert_int_equal(answers[i].tokens, 10);
        assert_int_equal(answers[i].end.output_tokens, 10);
        assert_int_equal(answers[i].end.prompt_tokens, 8);
    }
    UNTIL(&rig, core_counts(rig.core).requests == 0);
    assert_int_equal(core_counts(rig.core).routed, 32);
    rig_end(&rig);
}

/* The server has no credit for more; when the reader takes, it goes on. */
static void a_slow_reader_is_512_tokens_behind_at_most(void **state)
{
    struct answer answer = {0};
    struct actor *server;
    uint32_t said = 0;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    OK(&rig, rig_ask(&rig, 1, NULL, 2000, &answer));
    UNTIL(&rig, (server = rig_has(&rig, answer.request)) != NULL);
    while (actor_tokens(server, answer.request, 16))
        said += 16;
    assert_int_equal(said, CORE_CREDIT_TOKENS);
    rig_turn_for(&rig, 50);
    assert_false(actor_tokens(server, answer.request, 1));
    assert_int_equal(answer.tokens, 512);
    for (uint32_t taken = 0; said < 2000;) {
        core_taken(rig.core, answer.request, 100);
        taken += 100;
        rig_turn_for(&rig, 3);
        while (said < 2000 && actor_tokens(server, answer.request, (uint32_t)min_u64(16, 2000 - said)))
            said += (uint32_t)min_u64(16, 2000 - said);
        if (said > taken + CORE_CREDIT_TOKENS)
            fail_msg("%u tokens said, %u taken", said, taken);
    }
    actor_done(server, answer.request, CORE_END_STOP);
    UNTIL(&rig, answer.ends == 1);
    assert_int_equal(answer.tokens, 2000);
    rig_end(&rig);
}

static void an_abort_ends_wherever_it_is(void **state)
{
    struct answer said = {0};
    struct answer waits = {0};
    const struct core_adapter adapter = {.tenant = "x", .object = "y"};
    struct actor *server;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    OK(&rig, rig_ask(&rig, 1, NULL, 100, &said));
    OK(&rig, rig_ask(&rig, 1, &adapter, 100, &waits));
    UNTIL(&rig, (server = rig_has(&rig, said.request)) != NULL && rig.seen.of[CORE_HEARD_FETCH] == 1);
    core_abort(rig.core, said.request);
    core_abort(rig.core, waits.request);
    UNTIL(&rig, waits.ends == 1);
    assert_int_equal(waits.end.reason, CORE_END_CANCELLED);
    UNTIL(&rig, actor_asked(server, said.request)->aborted);
    assert_int_equal(said.ends, 0); /* its USAGE is to come */
    actor_done(server, said.request, CORE_END_CANCELLED);
    UNTIL(&rig, said.ends == 1);
    assert_int_equal(said.end.reason, CORE_END_CANCELLED);
    core_abort(rig.core, said.request); /* of what has ended: nothing */
    core_taken(rig.core, said.request, 1);
    rig_turn_for(&rig, 5);
    assert_int_equal(said.ends, 1);
    rig_end(&rig);
}

struct looked {
    uint32_t at_server, waiting, with_adapter;
    uint8_t key_first;
};

static void see(void *context, const struct core_seen *seen)
{
    struct looked *looked = context;

    assert_int_equal(seen->base, 1);
    looked->at_server += seen->at_server;
    looked->waiting += !seen->at_server;
    looked->with_adapter += seen->key != NULL;
    if (seen->key != NULL)
        looked->key_first = seen->key[0];
}

static void who_looks_sees_what_is_under_way(void **state)
{
    const struct core_adapter adapter = {.key = {7}, .tenant = "x", .object = "y"};
    struct answer answers[2] = {{0}};
    struct looked looked = {0};
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    assert_int_equal(core_base_counts(rig.core, 1).step_adapters_max, 32);
    assert_int_equal(core_base_counts(rig.core, 1).kv_used_permille, 0);
    assert_int_equal(core_counts(rig.core).devices, 3);
    OK(&rig, rig_ask(&rig, 1, NULL, 100, &answers[0]));
    OK(&rig, rig_ask(&rig, 1, &adapter, 100, &answers[1]));
    UNTIL(&rig, rig_has(&rig, answers[0].request) != NULL && rig.seen.of[CORE_HEARD_FETCH] == 1);
    core_look(rig.core, see, &looked);
    assert_int_equal(looked.at_server, 1);
    assert_int_equal(looked.waiting, 1);
    assert_int_equal(looked.with_adapter, 1);
    assert_int_equal(looked.key_first, 7);
    actor_done(rig_has(&rig, answers[0].request), answers[0].request, CORE_END_STOP);
    core_abort(rig.core, answers[1].request);
    UNTIL(&rig, answers[0].ends + answers[1].ends == 2);
    looked = (struct looked){0};
    core_look(rig.core, see, &looked);
    assert_int_equal(looked.at_server + looked.waiting, 0);
    rig_end(&rig);
}

/* Of one base with one server: a request without tokens waits for the next server, one with tokens is over and its tokens are billed. */
static void a_server_that_dies_loses_only_what_it_had_begun(void **state)
{
    struct answer begun = {0};
    struct answer not_begun = {0};
    struct actor *server;
    int64_t output = 0;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    OK(&rig, rig_ask(&rig, 1, NULL, 100, &begun));
    OK(&rig, rig_ask(&rig, 1, NULL, 100, &not_begun));
    UNTIL(&rig, (server = rig_has(&rig, not_begun.request)) != NULL && rig_has(&rig, begun.request) != NULL);
    assert_true(actor_tokens(server, begun.request, 7));
    UNTIL(&rig, begun.tokens == 7);
    rig_kill(&rig, server);
    UNTIL(&rig, begun.ends == 1);
    assert_int_equal(begun.end.reason, CORE_END_LOST);
    assert_int_equal(begun.end.output_tokens, 7);
    UNTIL(&rig, rig_server(&rig, 1, 0) != NULL && rig_has(&rig, not_begun.request) == rig_server(&rig, 1, 0));
    server = rig_server(&rig, 1, 0);
    assert_true(actor_tokens(server, not_begun.request, 5));
    actor_done(server, not_begun.request, CORE_END_STOP);
    UNTIL(&rig, not_begun.ends == 1);
    assert_int_equal(not_begun.end.reason, CORE_END_STOP);
    UNTIL(&rig, rig.stage.forgotten == 1 && rig_usage(&rig, &output) == 2);
    assert_int_equal(output, 12);
    assert_int_equal(core_counts(rig.core).lost, 1);
    assert_int_equal(core_counts(rig.core).rerouted, 1);
    assert_int_equal(rig_rows(&rig), 3);
    rig_end(&rig);
}

/* The other replica has it at once. */
static void what_a_dead_server_had_not_begun_goes_to_another(void **state)
{
    struct answer answers[20] = {{0}};
    struct actor *other;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    for (uint32_t i = 0; i < 20; i++)
        OK(&rig, rig_ask(&rig, 0, NULL, 10, &answers[i]));
    for (uint32_t i = 0; i < 20; i++)
        UNTIL(&rig, rig_has(&rig, answers[i].request) != NULL);
    other = rig_server(&rig, 0, 1);
    rig.stage.silent = true; /* nobody comes up in its place */
    rig_kill(&rig, rig_server(&rig, 0, 0));
    for (uint32_t i = 0; i < 20; i++)
        UNTIL(&rig, rig_has(&rig, answers[i].request) == other);
    assert_true(core_counts(rig.core).rerouted > 0);
    rig_end(&rig);
}

static void what_does_not_fit_the_model_is_refused(void **state)
{
    struct answer answer = {0};
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig.bases[0].positions_max = 50;
    rig_up(&rig);
    OK(&rig, rig_ask(&rig, 0, NULL, 43, &answer));
    UNTIL(&rig, answer.ends == 1);
    assert_int_equal(answer.end.reason, CORE_END_REFUSED);
    assert_non_null(strstr(answer.text, "context"));
    answer.ends = 0;
    OK(&rig, rig_ask(&rig, 0, NULL, 42, &answer));
    UNTIL(&rig, rig_has(&rig, answer.request) != NULL);
    rig_end(&rig);
}

static void a_full_table_says_so(void **state)
{
    struct answer answers[9] = {{0}};
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig.config.requests_max = 8;
    rig_open(&rig); /* not restored: all wait */
    for (uint32_t i = 0; i < 8; i++)
        OK(&rig, rig_ask(&rig, 0, NULL, 1, &answers[i]));
    assert_int_equal(rig_ask(&rig, 0, NULL, 1, &answers[8]), STATUS_FULL);
    core_abort(rig.core, answers[3].request);
    UNTIL(&rig, answers[3].ends == 1);
    OK(&rig, rig_ask(&rig, 0, NULL, 1, &answers[8]));
    core_stop(rig.core, 0);
    for (uint32_t i = 0; i < 9; i++)
        assert_int_equal(answers[i].ends, 1);
    assert_int_equal(answers[8].end.reason, CORE_END_BUSY);
    assert_int_equal(rig_ask(&rig, 0, NULL, 1, &answers[0]), STATUS_END);
    rig_end(&rig);
}

static void *stop_soon(void *core)
{
    core_stop(core, 20000);
    return NULL;
}

/* What is under way ends in its time, what has not begun too; then the core is over, and servers live. */
static void a_stop_lets_answers_end(void **state)
{
    struct answer answer = {0};
    struct answer late = {0};
    struct actor *server;
    pthread_t thread;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    OK(&rig, rig_ask(&rig, 1, NULL, 10, &answer));
    UNTIL(&rig, (server = rig_has(&rig, answer.request)) != NULL);
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, rig.core), 0);
    while (rig_ask(&rig, 1, NULL, 10, &late) == STATUS_OK) { /* the stop has not begun */
        UNTIL(&rig, actor_asked(server, late.request) != NULL);
        actor_done(server, late.request, CORE_END_STOP);
    }
    assert_int_equal(rig_ask(&rig, 1, NULL, 10, &late), STATUS_END);
    assert_int_equal(answer.ends, 0);
    assert_true(actor_tokens(server, answer.request, 3));
    actor_done(server, answer.request, CORE_END_STOP);
    UNTIL(&rig, answer.ends == 1);
    assert_int_equal(answer.end.reason, CORE_END_STOP);
    assert_int_equal(answer.tokens, 3);
    pthread_join(thread, NULL);
    rig_turn_for(&rig, 5);
    assert_false(server->has_exited);
    rig_end(&rig);
}

/* The loop is held in a call of its own, so that the queue fills. */
struct hold {
    pthread_mutex_t lock;
    _Atomic bool held;
};

static void hold_on(void *context, const struct core_heard *heard)
{
    struct hold *hold = context;

    if (heard->kind != CORE_HEARD_LISTED)
        return;
    hold->held = true;
    pthread_mutex_lock(&hold->lock);
    pthread_mutex_unlock(&hold->lock);
}

static void a_full_queue_says_so(void **state)
{
    struct hold hold = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig.config.queue_max = 16;
    rig.config.hears = hold_on;
    rig.config.hears_context = &hold;
    pthread_mutex_lock(&hold.lock);
    rig_open(&rig);
    UNTIL(&rig, hold.held);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(core_end(rig.core, 1, false), STATUS_OK);
    assert_int_equal(core_end(rig.core, 1, false), STATUS_FULL);
    pthread_mutex_unlock(&hold.lock);
    UNTIL(&rig, core_end(rig.core, 1, false) == STATUS_OK);
    rig_end(&rig);
}

/* More than the server takes at once, then a prompt that fills no frame. */
static void what_a_server_has_no_room_for_waits(void **state)
{
    static int32_t prompt[30000];
    struct answer answers[40] = {{0}};
    struct answer large = {0};
    const struct core_ask ask = {.base = 1, .tenant = 1, .prompt = prompt, .prompt_tokens = 30000, .max_tokens = 5, .settings = "{}",
                                 .account = "a b", .owner = &large, .tokens = rig_hears_tokens, .end = rig_hears_end};
    struct actor *server;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig.config.server_requests_max = 16;
    rig_up(&rig);
    server = rig_server(&rig, 1, 0);
    for (uint32_t i = 0; i < 40; i++)
        OK(&rig, rig_ask(&rig, 1, NULL, 10, &answers[i]));
    for (uint32_t i = 0; i < 40; i++) {
        UNTIL(&rig, actor_asked(server, answers[i].request) != NULL);
        if (server->asked_count > 16)
            fail_msg("%u at once", server->asked_count);
        actor_done(server, answers[i].request, CORE_END_STOP);
        UNTIL(&rig, answers[i].ends == 1);
    }
    OK(&rig, core_ask(rig.core, &ask, &large.request));
    UNTIL(&rig, actor_asked(server, large.request) != NULL);
    assert_int_equal(actor_asked(server, large.request)->prompt_tokens, 30000);
    rig_kill(&rig, server); /* it goes to the next one, whole */
    UNTIL(&rig, rig_server(&rig, 1, 0) != NULL && actor_asked(rig_server(&rig, 1, 0), large.request) != NULL);
    assert_int_equal(actor_asked(rig_server(&rig, 1, 0), large.request)->prompt_tokens, 30000);
    rig.stage.silent = true;
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_spread_over_the_replicas_of_their_base),
        cmocka_unit_test(a_slow_reader_is_512_tokens_behind_at_most),
        cmocka_unit_test(an_abort_ends_wherever_it_is),
        cmocka_unit_test(who_looks_sees_what_is_under_way),
        cmocka_unit_test(a_server_that_dies_loses_only_what_it_had_begun),
        cmocka_unit_test(what_a_dead_server_had_not_begun_goes_to_another),
        cmocka_unit_test(what_does_not_fit_the_model_is_refused),
        cmocka_unit_test(a_full_table_says_so),
        cmocka_unit_test(a_stop_lets_answers_end),
        cmocka_unit_test(a_full_queue_says_so),
        cmocka_unit_test(what_a_server_has_no_room_for_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
