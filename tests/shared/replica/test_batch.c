/* Batches and KV blocks: chunks within the budget, prefill first, blocks, watermark, preemption by recompute. */
#include "shared/replica/rig.h"

static void expect_row(const struct rig *rig, uint32_t row, uint64_t ordinal, uint32_t context, uint32_t tokens,
                       uint32_t flags)
{
    assert_true(row < rig->plan_count);
    assert_int_equal(request_ordinal(rig->plan[row].request), ordinal);
    assert_int_equal(rig->plan[row].context_tokens, context);
    assert_int_equal(rig->plan[row].tokens, tokens);
    assert_int_equal(rig->plan[row].flags, flags);
}

static void decodes_go_first_and_prefills_share_the_rest_of_the_budget(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.rows_max = 4;
    config.token_budget = 8;
    rig = rig_new(&config);
    (void)rig_request(rig, 0, 0, 3, 50, 50);
    expect_row(rig, 0, 1, 0, 3, ROW_PREFILL | ROW_LAST | ROW_ADMITTED);
    (void)rig_request(rig, 0, 0, 10, 50, 50);
    (void)rig_request(rig, 0, 0, 4, 50, 50);
    rig_step_done(rig, 1, 1);
    expect_row(rig, 0, 1, 3, 1, 0);
    expect_row(rig, 1, 2, 0, 7, ROW_PREFILL | ROW_ADMITTED);
    expect_row(rig, 2, 3, 0, 0, ROW_PREFILL | ROW_ADMITTED);
    assert_int_equal(rig->run_steps_max, 1);
    rig_step_done(rig, 1, 1);
    expect_row(rig, 0, 1, 4, 1, 0);
    expect_row(rig, 1, 2, 7, 3, ROW_PREFILL | ROW_LAST);
    expect_row(rig, 2, 3, 0, 4, ROW_PREFILL | ROW_LAST);
    rig_step_done(rig, 1, 1);
    expect_row(rig, 0, 1, 5, 1, 0);
    expect_row(rig, 1, 2, 10, 1, 0); /* its last chunk produced a token that is not in KV yet */
    expect_row(rig, 2, 3, 4, 1, 0);
    assert_int_equal(rig->run_steps_max, 47); /* request 1 has 3 of its 50 */
    rig_free(rig);
}

static void prefill_first_lets_decodes_stand_still(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.rows_max = 6;
    config.token_budget = 8;
    config.batching = BATCHING_PREFILL_FIRST;
    rig = rig_new(&config);
    (void)rig_request(rig, 0, 0, 20, 50, 50); /* larger than the budget: whole all the same */
    expect_row(rig, 0, 1, 0, 20, ROW_PREFILL | ROW_LAST | ROW_ADMITTED);
    (void)rig_request(rig, 0, 0, 5, 50, 50);
    (void)rig_request(rig, 0, 0, 4, 50, 50); /* does not fit beside 5 */
    (void)rig_request(rig, 0, 0, 2, 50, 50); /* would, but does not overtake */
    rig_step_done(rig, 1, 100);
    expect_row(rig, 0, 1, 20, 0, 0);
    expect_row(rig, 1, 2, 0, 5, ROW_PREFILL | ROW_LAST | ROW_ADMITTED);
    expect_row(rig, 2, 3, 0, 0, ROW_PREFILL | ROW_ADMITTED);
    expect_row(rig, 3, 4, 0, 0, ROW_PREFILL | ROW_ADMITTED);
    rig_step_done(rig, 1, 100);
    expect_row(rig, 0, 1, 20, 0, 0);
    expect_row(rig, 1, 2, 5, 0, 0);
    expect_row(rig, 2, 3, 0, 4, ROW_PREFILL | ROW_LAST);
    expect_row(rig, 3, 4, 0, 2, ROW_PREFILL | ROW_LAST);
    rig_step_done(rig, 1, 100);
    for (uint32_t row = 0; row < 4; row++)
        assert_int_equal(rig->plan[row].tokens, 1);
    rig_finish(rig); /* compute_ns leaves out the steps that stood still: the rig compares */
    rig_free(rig);
}

/* Blocks of 4, 10 in all. Requests of 12 + 8 tokens take ceil(13 / 4) = 4 blocks when admitted, 5 at the end. */
static struct replica_config ten_blocks(void)
{
    struct replica_config config = rig_config();

    config.block_tokens = 4;
    config.kv_blocks = 10;
    return config;
}

static void lack_of_blocks_holds_the_queue(void **state)
{
    (void)state;
    struct replica_config config = ten_blocks();
    struct rig *rig = rig_new(&config);

    (void)rig_request(rig, 0, 0, 12, 8, 8); /* 4 blocks */
    (void)rig_request(rig, 0, 0, 23, 8, 8); /* 6 blocks: all */
    (void)rig_request(rig, 0, 0, 12, 2, 2); /* 4: does not fit */
    (void)rig_request(rig, 0, 0, 1, 2, 2);  /* 1: would not fit either */
    rig_step_done(rig, 1, 1);
    rig_expect_admitted(rig, "1 2");
    assert_int_equal(replica_state(rig->replica).kv_blocks_used, 10);
    assert_int_equal(replica_state(rig->replica).kv_free_permille, 0);
    rig_free(rig);

    rig = rig_new(&config);
    (void)rig_request(rig, 0, 0, 12, 8, 8);
    (void)rig_request(rig, 0, 0, 28, 8, 8); /* 8 blocks: does not fit beside 4 */
    (void)rig_request(rig, 0, 0, 1, 2, 2);  /* would, and waits its turn */
    rig_step_done(rig, 1, 1);
    rig_expect_admitted(rig, "1");
    rig_finish(rig);
    rig_expect_admitted(rig, "1 2 3");
    rig_free(rig);
}

static void watermark_is_kept_free_unless_nothing_runs(void **state)
{
    (void)state;
    struct replica_config config = ten_blocks();
    struct rig *rig;

    config.kv_watermark_permille = 150; /* 1.5 of 10 blocks: 2 */
    rig = rig_new(&config);
    (void)rig_request(rig, 0, 0, 35, 2, 2); /* 9 blocks: more than 8, but alone */
    rig_expect_admitted(rig, "1");
    rig_finish(rig);
    (void)rig_request(rig, 0, 0, 12, 2, 2); /* 4 */
    (void)rig_request(rig, 0, 0, 16, 2, 2); /* 5: would leave 1 */
    rig_step_done(rig, 1, 1);
    rig_expect_admitted(rig, "1 2");
    rig_step_done(rig, 1, 1);
    rig_expect_admitted(rig, "1 2 3");
    (void)rig_request(rig, 0, 0, 11, 2, 2); /* 3: leaves 2 */
    rig_step_done(rig, 1, 1);
    rig_expect_admitted(rig, "1 2 3 4");
    rig_free(rig);
}

static void what_fits_exactly_finishes_alone(void **state)
{
    (void)state;
    struct replica_config config = ten_blocks();

    for (uint32_t prompt = 1; prompt < 40; prompt++) {
        struct rig *rig = rig_new(&config);

        (void)rig_request(rig, 0, 0, prompt, 40 - prompt, 40 - prompt);
        rig_finish(rig);
        assert_int_equal(rig->counts[REPLICA_COMMAND_REFUSE], 0);
        assert_int_equal(rig->counts[REPLICA_COMMAND_PREEMPT], 0);
        rig_free(rig);
    }
}

/* Two of 12 + 20 tokens in blocks of 4, 10 in all: 4 + 4 blocks to begin with. Both hold 5 from context 16 on, and at 20
 * the older takes the block that the newer had. */
static void newest_is_preempted_and_prefills_again_what_it_had(void **state)
{
    (void)state;
    struct replica_config config = ten_blocks();
    const struct rig_line *line;
    struct rig *rig = rig_new(&config);
    uint32_t newer;

    (void)rig_request(rig, 0, 0, 12, 20, 20);
    rig_step_done(rig, 1, 5); /* 1: context 12, generated 1 */
    newer = rig_request(rig, 0, 0, 12, 20, 20);
    rig_step_done(rig, 1, 5); /* 1: 13 */
    while (rig->counts[REPLICA_COMMAND_PREEMPT] == 0)
        rig_step_done(rig, 1, 5);
    line = rig_last(rig, REPLICA_COMMAND_PREEMPT);
    assert_int_equal(line->subject, 2);
    /* When 1 has context 20 the step after needs its 6th block; 2 is one prefill behind: context 18, generated 7. */
    assert_int_equal(rig->plan_count, 1);
    expect_row(rig, 0, 1, 20, 1, 0);
    assert_int_equal(line->command.preempt.output_tokens, 7);
    assert_int_equal(rig->requests[newer].most_context, 18);
    while (request_ordinal(rig->plan[0].request) == 1)
        rig_step_done(rig, 1, 5);
    /* Its 12 + 7 tokens in one chunk, 18 of which had been in KV. The same step yields its 8th token. */
    expect_row(rig, 0, 2, 0, 19, ROW_PREFILL | ROW_LAST | ROW_ADMITTED | ROW_RECOMPUTE);
    rig_finish(rig);
    line = rig_last(rig, REPLICA_COMMAND_DONE);
    assert_int_equal(line->command.done.recomputed_tokens, 18);
    assert_int_equal(line->command.done.output_tokens, 20);
    assert_int_equal(replica_state(rig->replica).preemptions, 1);
    rig_free(rig);
}

static void preempted_request_goes_back_to_its_place(void **state)
{
    (void)state;
    struct replica_config config = ten_blocks();
    struct rig *rig = rig_new(&config);

    (void)rig_request(rig, 0, 0, 12, 20, 20);
    (void)rig_request(rig, 0, 0, 12, 20, 20);
    rig_step_done(rig, 1, 5);
    (void)rig_request(rig, 0, 0, 12, 2, 2); /* waits behind 2, whatever happens to 2 */
    rig_finish(rig);
    rig_expect(rig, REPLICA_COMMAND_PREEMPT, "2");
    rig_expect_admitted(rig, "1 2 2 3");
    rig_free(rig);
}

/* A row preempted while it prefills loses its progress, and only what had been done is called recomputed. */
static void preempted_prefill_starts_over(void **state)
{
    (void)state;
    struct replica_config config = ten_blocks();
    struct rig *rig;

    config.token_budget = 4;
    config.rows_max = 2;
    rig = rig_new(&config);
    (void)rig_request(rig, 0, 0, 4, 30, 30); /* 2 blocks, grows */
    rig_step_done(rig, 1, 1);
    (void)rig_request(rig, 0, 0, 31, 5, 5); /* 8 blocks at once, 3 tokens a step beside the decode */
    while (rig->counts[REPLICA_COMMAND_PREEMPT] == 0)
        rig_step_done(rig, 1, 1);
    assert_int_equal(rig_last(rig, REPLICA_COMMAND_PREEMPT)->command.preempt.output_tokens, 0);
    rig_finish(rig);
    /* 1 fills its blocks at context 8; by then 2 had run beside it for 2 steps of 3 tokens. */
    assert_int_equal(rig_last(rig, REPLICA_COMMAND_DONE)->subject, 2);
    assert_int_equal(rig_last(rig, REPLICA_COMMAND_DONE)->command.done.recomputed_tokens, 9);
    rig_free(rig);
}

/* steps_max against counting step by step (the rig does that at each RUN), for all block sizes and near exhaustion. */
static void steps_max_is_exactly_what_blocks_allow(void **state)
{
    (void)state;
    uint64_t random = test_seed(31);

    for (uint32_t i = 0; i < 400; i++) {
        struct replica_config config = rig_config();
        uint32_t block = 1u << draw_below(&random, 9);
        struct rig *rig;

        config.block_tokens = block;
        config.rows_max = 8;
        config.requests_max = 8;
        config.kv_blocks = 8 + draw_below(&random, 600 / block + 8);
        rig = rig_new(&config);
        rig->seed = i;
        for (uint32_t j = 0; j < 8; j++) {
            uint64_t most = config.kv_blocks * block;
            uint32_t prompt = (uint32_t)(1 + draw_below(&random, min_u64(most - 1, 90)));
            uint32_t output = (uint32_t)(1 + draw_below(&random, min_u64(most - prompt, 300)));

            (void)rig_request(rig, 0, 0, prompt, output, output);
        }
        while (rig->live > 0)
            rig_step_done(rig, (uint32_t)(1 + draw_below(&random, rig_steps_most(rig))), 1);
        rig_free(rig);
    }
}

/* A hundred rows reach the end of their blocks in the same step: more than a step's commands can say. */
static void many_preemptions_at_once_are_said_over_several_ticks(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.rows_max = 200;
    config.block_tokens = 16;
    config.kv_blocks = 200;
    rig = rig_new(&config);
    (void)rig_request(rig, 0, 0, 14, 400, 400);
    for (uint32_t i = 0; i < 199; i++) /* one block each, and each needs a second one soon */
        (void)rig_request(rig, 0, 0, 14, 40, 40);
    for (uint32_t i = 0; i < 4; i++)
        rig_step_done(rig, 1, 1);
    assert_true(rig->counts[REPLICA_COMMAND_PREEMPT] >= 99);
    assert_true(rig->plan_count > 0);
    rig_finish(rig);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_go_first_and_prefills_share_the_rest_of_the_budget),
        cmocka_unit_test(prefill_first_lets_decodes_stand_still),
        cmocka_unit_test(lack_of_blocks_holds_the_queue),
        cmocka_unit_test(watermark_is_kept_free_unless_nothing_runs),
        cmocka_unit_test(what_fits_exactly_finishes_alone),
        cmocka_unit_test(newest_is_preempted_and_prefills_again_what_it_had),
        cmocka_unit_test(preempted_request_goes_back_to_its_place),
        cmocka_unit_test(preempted_prefill_starts_over),
        cmocka_unit_test(steps_max_is_exactly_what_blocks_allow),
        cmocka_unit_test(many_preemptions_at_once_are_said_over_several_ticks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
