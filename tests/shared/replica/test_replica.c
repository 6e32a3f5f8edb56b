/* The border of the replica core: refusals with their arithmetic, ends, cancellation, drain, more to say than fits into a
 * step, the digest, and misuse, which stops the program. */
#include <stdlib.h>

#include "replica/internal.h"
#include "shared/replica/rig.h"

static void expect_refusal(const struct rig *rig, enum refuse_reason reason, uint64_t need, uint64_t have)
{
    const struct rig_line *line = rig_last(rig, REPLICA_COMMAND_REFUSE);

    assert_int_equal(line->reason, reason);
    assert_int_equal(line->subject, rig->ordinal); /* at once */
    assert_int_equal(line->command.refuse.need, need);
    assert_int_equal(line->command.refuse.have, have);
}

static void what_can_never_fit_is_refused_at_once_with_the_arithmetic(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.block_tokens = 16;
    config.kv_blocks = 10;
    config.adapters_max = 2;
    config.tenants_max = 4;
    config.slots = (struct cache_config){.unit = CACHE_BYTES, .capacity = 1000, .entries_max = 4, .evict = &evict_lru};
    rig = rig_new(&config);
    (void)rig_request(rig, 0, 0, 150, 11, 11); /* 161 tokens: 11 blocks */
    expect_refusal(rig, REFUSE_TOO_LONG, 11, 10);
    (void)rig_request(rig, 0, 0, UINT32_MAX, UINT32_MAX, 1);
    expect_refusal(rig, REFUSE_TOO_LONG, 536870912, 10);
    (void)rig_request(rig, 0, 4, 1, 1, 1);
    expect_refusal(rig, REFUSE_TENANTS_FULL, 4, 4);
    (void)rig_request(rig, 1, 0, 1, 1, 1);
    expect_refusal(rig, REFUSE_ADAPTER_UNKNOWN, 0, 0);
    rig_know(rig, 1, 1, 1001);
    (void)rig_request(rig, 1, 0, 1, 1, 1);
    expect_refusal(rig, REFUSE_ADAPTER_TOO_LARGE, 1001, 1000);
    rig_know(rig, 2, 1, 1000);
    rig_know(rig, 3, 1, 10); /* does not fit into the table */
    (void)rig_request(rig, 3, 0, 1, 1, 1);
    expect_refusal(rig, REFUSE_ADAPTERS_FULL, 3, 2);
    rig_retire(rig, (adapter_id){1, 1});
    (void)rig_request(rig, 3, 0, 1, 1, 1);
    expect_refusal(rig, REFUSE_ADAPTER_UNKNOWN, 0, 0);
    (void)rig_request(rig, 2, 0, 1, 1, 1); /* just fits */
    (void)rig_request(rig, 0, 0, 150, 10, 10);
    assert_int_equal(rig->live, 2);
    rig_finish(rig);
    assert_int_equal(rig->counts[REPLICA_COMMAND_DONE], 2);
    rig_drain(rig);
    (void)rig_request(rig, 0, 0, 1, 1, 1);
    expect_refusal(rig, REFUSE_DRAINING, 0, 0);
    rig_free(rig);
}

static void ends_are_said_with_what_was_used(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    const struct replica_command *done;
    struct rig *rig = rig_new(&config);

    (void)rig_request(rig, 0, 0, 100, 30, 7); /* stops by itself: the rig announces it */
    (void)rig_request(rig, 0, 0, 50, 5, 5);   /* reaches its maximum: nobody needs to say so */
    rig_step_done(rig, 1, 1000);              /* 1 prefills alone */
    rig_step_done(rig, 1, 300);
    rig_step_done(rig, 4, 900);
    rig_expect(rig, REPLICA_COMMAND_DONE, "2");
    done = &rig_last(rig, REPLICA_COMMAND_DONE)->command;
    assert_int_equal(done->reason, SEQUENCE_FINISHED);
    assert_int_equal(done->done.compute_ns, 1200);
    assert_int_equal(done->done.output_tokens, 5);
    rig_step_done(rig, 1, 10);
    done = &rig_last(rig, REPLICA_COMMAND_DONE)->command;
    assert_int_equal(done->done.compute_ns, 2210);
    assert_int_equal(done->done.output_tokens, 7);
    assert_int_equal(done->done.prompt_tokens, 100);
    assert_int_equal(rig->plan_count, 0);
    rig_free(rig);
}

static void cancelled_requests_leave_at_once_or_with_their_step(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;
    uint32_t running;
    uint32_t waiting;

    config.rows_max = 1;
    rig = rig_new(&config);
    running = rig_request(rig, 0, 0, 10, 30, 30);
    waiting = rig_request(rig, 0, 0, 10, 30, 30);
    rig_step_done(rig, 1, 1);
    rig_cancel(rig, waiting);
    rig_expect(rig, REPLICA_COMMAND_DONE, "2");
    assert_int_equal(rig_last(rig, REPLICA_COMMAND_DONE)->reason, SEQUENCE_CANCELLED);
    assert_int_equal(rig_last(rig, REPLICA_COMMAND_DONE)->command.done.output_tokens, 0);
    rig_cancel(rig, running);
    rig_expect(rig, REPLICA_COMMAND_DONE, "2"); /* rows don't change under a step */
    rig_cancel(rig, running);                   /* said twice: the first stands */
    rig_step_done(rig, 1, 1);
    rig_expect(rig, REPLICA_COMMAND_DONE, "2 1");
    assert_int_equal(rig_last(rig, REPLICA_COMMAND_DONE)->command.done.output_tokens, 2);
    assert_int_equal(rig->plan_count, 0);
    assert_int_equal(replica_state(rig->replica).kv_blocks_used, 0);
    rig_free(rig);
}

static void cancel_storm_leaves_nothing_behind(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.rows_max = 150;
    config.passes_max = 1000;
    config.slots.capacity = 2; /* two of the four adapters wait for a slot */
    rig = rig_new(&config);
    for (uint32_t i = 1; i <= 4; i++)
        rig_know(rig, i, 1, 1);
    for (uint32_t i = 0; i < 400; i++)
        (void)rig_request(rig, i % 5, i % 16, 10, 30, 30);
    rig_loads_done(rig, TIER_HOST);
    rig_step_done(rig, 1, 1);
    assert_int_equal(rig->plan_count, 150);
    for (uint32_t i = 0; i < 400; i++) {
        if (rig->requests[i].live)
            rig_cancel(rig, i);
    }
    assert_int_equal(rig->live, 150);
    rig_step_done(rig, 1, 1); /* 150 at once, over several ticks */
    assert_int_equal(rig->live, 0);
    rig_loads_done(rig, TIER_HOST);
    assert_int_equal(replica_state(rig->replica).kv_blocks_used, 0);
    assert_int_equal(replica_state(rig->replica).slots_pinned, 0);
    assert_int_equal(replica_state(rig->replica).waiting, 0);
    rig_free(rig);
}

static void more_ends_than_a_step_can_say_are_said_before_the_next_run(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;
    uint32_t runs;

    config.rows_max = 200;
    rig = rig_new(&config);
    for (uint32_t i = 0; i < 201; i++) /* the first prefills alone and is one token ahead */
        (void)rig_request(rig, 0, 0, 10, i == 0 ? 21 : 20, i == 0 ? 21 : 20);
    (void)rig_request(rig, 0, 0, 10, 20, 20);
    rig_step_done(rig, 1, 1);
    rig_step_done(rig, 1, 1);
    runs = (uint32_t)rig->counts[REPLICA_COMMAND_RUN];
    rig->at_ns = 5000;
    rig_step_done(rig, 19, 1);
    assert_int_equal(rig->counts[REPLICA_COMMAND_DONE], 200);
    assert_int_equal(rig->counts[REPLICA_COMMAND_RUN], runs + 1);
    assert_int_equal(rig->out.items[rig->out.count - 1].kind, REPLICA_COMMAND_RUN);
    assert_true(rig->out.count < COMMANDS_MAX);
    assert_int_equal(rig->plan_count, 2);
    for (uint32_t i = 0; i < rig->log_count; i++)
        assert_int_equal(rig->log[i].at_ns, 5000);
    rig_free(rig);
}

static void drain_finishes_what_there_is_and_says_so_once(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig = rig_new(&config);

    rig_drain(rig);
    assert_true(rig->drained); /* nothing there */
    rig_drain(rig);
    assert_int_equal(rig->counts[REPLICA_COMMAND_DRAINED], 1);
    rig_free(rig);

    rig = rig_new(&config);
    rig_know(rig, 1, 1, 1);
    (void)rig_request(rig, 0, 0, 10, 5, 5);
    (void)rig_request(rig, 1, 0, 10, 5, 5);
    rig_drain(rig);
    assert_false(rig->drained);
    (void)rig_request(rig, 0, 0, 10, 5, 5);
    expect_refusal(rig, REFUSE_DRAINING, 0, 0);
    rig_finish(rig);
    assert_int_equal(rig->counts[REPLICA_COMMAND_DONE], 2);
    assert_true(rig->drained);
    rig_free(rig);

    rig = rig_new(&config); /* a load in flight is owed an answer */
    rig_know(rig, 1, 1, 1);
    rig_cancel(rig, rig_request(rig, 1, 0, 10, 5, 5));
    rig_drain(rig);
    assert_false(rig->drained);
    rig_loads_done(rig, TIER_HOST);
    assert_true(rig->drained);
    rig_free(rig);
}

static void digest_tells_histories_apart_and_ignores_idle_ticks(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *a = rig_new(&config);
    struct rig *b = rig_new(&config);

    for (uint32_t i = 0; i < 5; i++) {
        (void)rig_request(a, 0, 0, 10 + i, 5, 5);
        (void)rig_request(b, 0, 0, 10 + i, 5, 5);
        rig_tick(b);
        assert_true(replica_digest(a->replica) == replica_digest(b->replica));
    }
    rig_step_done(a, 1, 5);
    assert_true(replica_digest(a->replica) != replica_digest(b->replica));
    rig_step_done(b, 1, 6); /* the time spent is part of it */
    assert_true(replica_digest(a->replica) != replica_digest(b->replica));
    rig_free(a);
    rig_free(b);

    a = rig_new(&config);
    b = rig_new(&config);
    (void)rig_request(a, 0, 0, 10, 2, 2);
    (void)rig_request(b, 0, 0, 10, 2, 1);
    rig_finish(a);
    rig_finish(b); /* both are empty again, and have said different things */
    assert_true(replica_digest(a->replica) != replica_digest(b->replica));
    rig_free(a);
    rig_free(b);
}

static void state_reports_what_is_there(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;
    struct replica_state now;

    config.rows_max = 2;
    config.kv_blocks = 1000;
    rig = rig_new(&config);
    rig_know(rig, 1, 1, 1);
    rig_know(rig, 2, 1, 1);
    (void)rig_request(rig, 0, 0, 100, 30, 30); /* 7 blocks */
    (void)rig_request(rig, 1, 0, 10, 30, 30);
    (void)rig_request(rig, 2, 0, 10, 30, 30);
    now = replica_state(rig->replica);
    assert_int_equal(now.running, 1);
    assert_int_equal(now.waiting, 2);
    assert_int_equal(now.loading, 2);
    assert_int_equal(now.kv_blocks_used, 7);
    assert_int_equal(now.kv_free_permille, 993);
    assert_int_equal(now.slots_used, 2);
    assert_int_equal(now.slots_pinned, 0);
    assert_int_equal(now.step, 0);
    rig_loads_done(rig, TIER_HOST);
    rig_step_done(rig, 1, 1);
    now = replica_state(rig->replica);
    assert_int_equal(now.running, 2);
    assert_int_equal(now.slots_pinned, 1);
    assert_int_equal(now.step, 1);
    assert_int_equal(now.cache.misses, 2);
    rig_free(rig);
}

static void every_bad_field_of_a_configuration_is_named(void **state)
{
    (void)state;
    const char *field = NULL;
    struct replica_config config;

    config = rig_config();
    assert_int_equal(replica_config_validate(&config, &field), STATUS_OK);
    assert_null(field);
#define EXPECT_BAD(member, value)                                                  \
    do {                                                                           \
        config = rig_config();                                                     \
        config.member = (value);                                                   \
        assert_int_equal(replica_config_validate(&config, &field), STATUS_INVALID); \
        assert_string_equal(field, #member);                                       \
    } while (0)
    EXPECT_BAD(requests_max, 0);
    EXPECT_BAD(requests_max, REQUEST_SLOTS_MAX + 1);
    EXPECT_BAD(rows_max, 0);
    EXPECT_BAD(token_budget, 0);
    EXPECT_BAD(token_budget, 255); /* fewer than rows */
    EXPECT_BAD(block_tokens, 0);
    EXPECT_BAD(block_tokens, 24);
    EXPECT_BAD(block_tokens, 512);
    EXPECT_BAD(kv_blocks, 0);
    EXPECT_BAD(kv_blocks, (UINT64_C(1) << 27) + 1);
    EXPECT_BAD(kv_watermark_permille, 1000);
    EXPECT_BAD(max_loras, 0);
    EXPECT_BAD(passes_max, 0);
    EXPECT_BAD(adapters_max, 0);
    EXPECT_BAD(tenants_max, 0);
    EXPECT_BAD(loads_max, 0);
    EXPECT_BAD(prompt_weight, WEIGHT_MAX + 1);
    EXPECT_BAD(output_weight, WEIGHT_MAX + 1);
    EXPECT_BAD(queue, NULL);
    EXPECT_BAD(slots.capacity, 0);
    EXPECT_BAD(slots.entries_max, 65535);
    EXPECT_BAD(slots.evict, NULL);
#undef EXPECT_BAD
    config = rig_config();
    config.token_budget = 255;
    config.batching = BATCHING_PREFILL_FIRST; /* there decodes don't share the budget */
    assert_int_equal(replica_config_validate(&config, &field), STATUS_OK);
}

/* One wrong event against a replica that runs request 1 (slot 0) and has request 2 (slot 1) waiting for a load. */
struct misuse {
    struct replica_event event;
    struct rig *rig;
};

static void send_misuse(void *context)
{
    struct misuse *misuse = context;
    struct replica_commands out;

    replica_step(misuse->rig->replica, &misuse->event, &out);
}

static struct misuse misuse_begin(enum replica_event_kind kind)
{
    struct replica_config config = rig_config();
    struct misuse misuse;

    memset(&misuse, 0, sizeof(misuse));
    misuse.rig = rig_new(&config);
    rig_know(misuse.rig, 1, 1, 1);
    misuse.rig->at_ns = 100;
    (void)rig_request(misuse.rig, 0, 0, 10, 30, 30);
    rig_step_done(misuse.rig, 1, 1);
    (void)rig_request(misuse.rig, 1, 0, 10, 30, 30);
    misuse.event.kind = (uint16_t)kind;
    misuse.event.at_ns = 100;
    misuse.event.answers = misuse.rig->run_id;
    return misuse;
}

static void misuse_end(struct misuse *misuse, bool stops)
{
    assert_int_equal(check_stops(send_misuse, misuse), stops);
    rig_free(misuse->rig);
}

static void misuse_stops_the_program(void **state)
{
    (void)state;
    struct misuse misuse;

    misuse = misuse_begin(REPLICA_EVENT_STEP_DONE); /* as it should be */
    misuse.event.step_done.step = 2;
    misuse.event.step_done.steps = 3;
    misuse_end(&misuse, false);
    misuse = misuse_begin(REPLICA_EVENT_STEP_DONE); /* more steps than were allowed */
    misuse.event.step_done.step = 2;
    misuse.event.step_done.steps = 30;
    misuse_end(&misuse, true);
    misuse = misuse_begin(REPLICA_EVENT_STEP_DONE); /* none */
    misuse.event.step_done.step = 2;
    misuse_end(&misuse, true);
    misuse = misuse_begin(REPLICA_EVENT_STEP_DONE); /* another step */
    misuse.event.step_done.step = 1;
    misuse.event.step_done.steps = 1;
    misuse_end(&misuse, true);
    misuse = misuse_begin(REPLICA_EVENT_STEP_DONE); /* the answer to another command */
    misuse.event.step_done.step = 2;
    misuse.event.step_done.steps = 1;
    misuse.event.answers++;
    misuse_end(&misuse, true);
    misuse = misuse_begin(REPLICA_EVENT_TICK); /* time runs backwards */
    misuse.event.at_ns = 99;
    misuse_end(&misuse, true);
    misuse = misuse_begin(REPLICA_EVENT_REQUEST); /* the slot is taken */
    misuse.event.request.request = request_id_make(3, 1);
    misuse.event.request.prompt_tokens = 1;
    misuse.event.request.output_tokens_max = 1;
    misuse_end(&misuse, true);
    misuse = misuse_begin(REPLICA_EVENT_REQUEST); /* past the table */
    misuse.event.request.request = request_id_make(3, 512);
    misuse.event.request.prompt_tokens = 1;
    misuse.event.request.output_tokens_max = 1;
    misuse_end(&misuse, true);
    misuse = misuse_begin(REPLICA_EVENT_REQUEST); /* no prompt */
    misuse.event.request.request = request_id_make(3, 2);
    misuse.event.request.output_tokens_max = 1;
    misuse_end(&misuse, true);
    misuse = misuse_begin(REPLICA_EVENT_SEQUENCE_END); /* finished without having run */
    misuse.event.sequence_end.request = request_id_make(2, 1);
    misuse_end(&misuse, true);
    misuse = misuse_begin(REPLICA_EVENT_SEQUENCE_END); /* nobody by that id */
    misuse.event.reason = SEQUENCE_CANCELLED;
    misuse.event.sequence_end.request = request_id_make(7, 1);
    misuse_end(&misuse, true);
    misuse = misuse_begin(REPLICA_EVENT_ADAPTER_ARRIVED); /* not what LOAD was told */
    misuse.event.adapter_arrived.adapter = (adapter_id){1, 1};
    misuse.event.adapter_arrived.tier = TIER_HOST;
    misuse_end(&misuse, true);
    misuse = misuse_begin(REPLICA_EVENT_ADAPTER_ARRIVED); /* nobody asked */
    misuse.event.adapter_arrived.adapter = (adapter_id){2, 1};
    misuse.event.adapter_arrived.tier = TIER_HOST;
    misuse_end(&misuse, true);
    misuse = misuse_begin(REPLICA_EVENT_NONE);
    misuse_end(&misuse, true);
}

static void finished_at_another_count_stops_the_program(void **state)
{
    (void)state;
    struct misuse misuse = misuse_begin(REPLICA_EVENT_SEQUENCE_END);

    misuse.event.sequence_end.request = request_id_make(1, 0);
    misuse.event.sequence_end.output_tokens = 4; /* it has 1, and one step makes it 2 */
    assert_false(check_stops(send_misuse, &misuse));
    misuse.event.kind = REPLICA_EVENT_STEP_DONE;
    memset(misuse.event.word, 0, sizeof(misuse.event.word));
    misuse.event.step_done.step = 2;
    misuse.event.step_done.steps = 1;
    misuse_end(&misuse, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_never_fit_is_refused_at_once_with_the_arithmetic),
        cmocka_unit_test(ends_are_said_with_what_was_used),
        cmocka_unit_test(cancelled_requests_leave_at_once_or_with_their_step),
        cmocka_unit_test(cancel_storm_leaves_nothing_behind),
        cmocka_unit_test(more_ends_than_a_step_can_say_are_said_before_the_next_run),
        cmocka_unit_test(drain_finishes_what_there_is_and_says_so_once),
        cmocka_unit_test(digest_tells_histories_apart_and_ignores_idle_ticks),
        cmocka_unit_test(state_reports_what_is_there),
        cmocka_unit_test(every_bad_field_of_a_configuration_is_named),
        cmocka_unit_test(misuse_stops_the_program),
        cmocka_unit_test(finished_at_another_count_stops_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
