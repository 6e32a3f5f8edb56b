/* What a server does not take, each with its reason, while what it has taken goes on. */
#include "rig.h"

static struct place place;

static int open_place(void **context)
{
    (void)context;
    place_begin(&place, DTYPE_F32);
    return 0;
}

static int close_place(void **context)
{
    (void)context;
    place_end(&place);
    return 0;
}

/* --- requests --------------------------------------------------------------------------------------------------------------- */

static void expect_refused(struct worker *worker, const struct worker_request *request, enum status status, const char *why)
{
    struct refusal refusal = {{0}};
    struct reply reply = {.count = 0};

    assert_int_equal(worker_asks(worker, request, &reply, &refusal), status);
    if (strstr(refusal.text, why) == NULL)
        fail_msg("expected \"%s\" in: %s", why, refusal.text);
    assert_int_equal(reply.ends, 0);
}

static void a_too_long_prompt_is_refused_with_the_arithmetic(void **context)
{
    static struct reply reply;
    const struct dims *dims = &place.config.dims;
    int32_t prompt[PROMPT_TOKENS_MAX];
    struct worker_request request = {.prompt = prompt, .prompt_tokens = 60, .max_tokens = 5};
    struct sample_params sample;
    struct worker_config config;
    struct worker *worker;

    (void)context;
    draw_prompt(1, prompt, 60);
    place_worker_config(&place, &config);
    config.kv_bytes = 3 * 2 * 4 * (uint64_t)(dims->layers * dims->kv_heads * dims->head_dim * KV_BLOCK_TOKENS);
    worker = worker_opened(&config);
    expect_refused(worker, &request, STATUS_INVALID, "60 tokens and max_tokens 5 are more than the 64");
    request.max_tokens = UINT32_MAX;
    expect_refused(worker, &request, STATUS_INVALID, "4294967295");
    request.prompt_tokens = 0;
    expect_refused(worker, &request, STATUS_INVALID, "at least one");
    request.prompt_tokens = 10;
    request.max_tokens = 0;
    expect_refused(worker, &request, STATUS_INVALID, "at least one");
    request.max_tokens = 2;
    prompt[7] = place.config.dims.vocabulary;
    expect_refused(worker, &request, STATUS_INVALID, "token 7 is 288");
    prompt[7] = -1;
    expect_refused(worker, &request, STATUS_INVALID, "token 7 is -1");
    prompt[7] = 3;
    request.tenant = WORKER_TENANTS_MAX;
    expect_refused(worker, &request, STATUS_INVALID, "tenant");
    request.tenant = 0;
    sample_params_init(&sample);
    sample.top_p = 2;
    request.sample = &sample;
    expect_refused(worker, &request, STATUS_INVALID, "top_p");
    request.sample = NULL;
    request.adapter = "nobody";
    expect_refused(worker, &request, STATUS_NOT_FOUND, "no adapter of that name");
    request.adapter = "";
    expect_refused(worker, &request, STATUS_NOT_FOUND, "no adapter of that name");
    request.adapter = NULL;
    request.prompt_tokens = 55;
    request.max_tokens = 5;
    expect_refused(worker, &request, STATUS_INVALID, "55 tokens and max_tokens 5 need 4 KV blocks, this server has 3");
    worker_ask_drawn(worker, NULL, 43, 1, 5, &reply); /* 48 tokens: all of them */
    worker_finish(worker, &reply, 1);
    assert_int_equal(reply.end.reason, WORKER_END_LENGTH);
    worker_close(worker);
}

static void one_request_too_many_is_refused(void **context)
{
    static struct reply reply[4];
    int32_t prompt[10];
    const struct worker_request request = {.prompt = prompt, .prompt_tokens = 10, .max_tokens = 4};
    struct worker_config config;
    struct worker *worker;

    (void)context;
    draw_prompt(1, prompt, 10);
    place_worker_config(&place, &config);
    config.requests_max = 4;
    worker = worker_opened(&config);
    for (uint32_t i = 0; i < 4; i++)
        worker_ask_drawn(worker, NULL, 10, i, 4, &reply[i]);
    expect_refused(worker, &request, STATUS_FULL, "4 requests");
    worker_finish(worker, reply, 4);
    worker_ask_drawn(worker, NULL, 10, 1, 4, &reply[0]);
    worker_drain(worker);
    worker_drain(worker);
    expect_refused(worker, &request, STATUS_FULL, "draining");
    assert_false(worker_drained(worker));
    worker_finish(worker, &reply[0], 1);
    assert_int_equal(reply[0].end.reason, WORKER_END_LENGTH);
    assert_true(worker_drained(worker));
    worker_close(worker);
}

/* A stop that the owner asks for, the last token of all, and one token in all. */
static void answers_end_where_they_should(void **context)
{
    static struct reply reply, full;
    struct worker_config config;
    struct worker *worker;
    uint32_t at;

    (void)context;
    place_worker_config(&place, &config);
    worker = worker_opened(&config);
    worker_ask_drawn(worker, NULL, 10, 1, 20, &full);
    worker_finish(worker, &full, 1);
    for (at = 1; at <= 20; at++) {
        int32_t prompt[10];
        const struct worker_request request = {.prompt = prompt, .prompt_tokens = 10, .max_tokens = 20, .ignore_eos = true};

        draw_prompt(1, prompt, 10);
        memset(&reply, 0, sizeof(reply));
        reply.stop_at = at;
        worker_ask(worker, &request, &reply);
        worker_finish(worker, &reply, 1);
        assert_int_equal(reply.end.reason, WORKER_END_STOP);
        assert_int_equal(reply.count, at);
        assert_int_equal(reply.end.output_tokens, at);
        assert_memory_equal(reply.ids, full.ids, at * sizeof(int32_t));
    }
    worker_ask_drawn(worker, NULL, 10, 1, 1, &reply);
    worker_finish(worker, &reply, 1);
    assert_int_equal(reply.count, 1);
    worker_ask_drawn(worker, NULL, 1, 1, 63, &reply); /* every position */
    worker_finish(worker, &reply, 1);
    assert_int_equal(reply.count, 63);
    worker_settle(worker);
    assert_int_equal(worker_state(worker).replica.kv_blocks_used, 0);
    worker_close(worker);
}

/* --- bad adapters ----------------------------------------------------------------------------------------------------------- */

static void write_config(const char *name, const char *fields)
{
    char path[64];
    char text[512];

    snprintf(path, sizeof(path), "%s/adapter_config.json", name);
    snprintf(text, sizeof(text), "{\"peft_type\": \"LORA\", %s}", fields);
    scratch_text(&place.scratch, path, text);
}

static void expect_bad(struct worker *worker, const char *name, const char *why)
{
    struct refusal refusal = {{0}};
    struct worker_adapter adapter;
    enum status status = worker_adapter_add(worker, name, scratch_at(&place.scratch, name), &refusal);

    assert_int_not_equal(status, STATUS_OK);
    if (strstr(refusal.text, why) == NULL)
        fail_msg("%s: expected \"%s\" in: %s", name, why, refusal.text);
    for (uint32_t i = 0; worker_adapter_at(worker, i, &adapter); i++)
        assert_string_not_equal(adapter.name, name);
}

#define ALL7 "\"target_modules\": [\"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\", \"gate_proj\", \"up_proj\", \"down_proj\"]"

static void a_bad_adapter_is_refused_and_others_go_on(void **context)
{
    static struct reply stream, base, cold, cold_base;
    struct worker_config config;
    struct worker *worker;
    struct refusal refusal = {{0}};

    (void)context;
    place_worker_config(&place, &config);
    config.rank_max = 32;
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "good", 1, 8);
    place_ask_cold(&place, "good-0", 10, 1, 50, &cold);
    place_ask_cold(&place, NULL, 10, 2, 50, &cold_base);
    worker_ask_drawn(worker, "good-0", 10, 1, 50, &stream);
    worker_ask_drawn(worker, NULL, 10, 2, 50, &base);
    worker_until(worker, &stream, 3);

    place_adapter(&place, "bad-rank", 64, 1);
    expect_bad(worker, "bad-rank", "rank");
    worker_turn(worker);
    place_adapter(&place, "bad-file", 8, 1);
    scratch_text(&place.scratch, "bad-file/adapter_model.safetensors", "\x09\0\0\0\0\0\0\0{\"a\": 1}");
    expect_bad(worker, "bad-file", "adapter_model.safetensors");
    worker_turn(worker);
    place_adapter(&place, "bad-json", 8, 1);
    scratch_text(&place.scratch, "bad-json/adapter_config.json", "{\"peft_type\": \"LORA\", ");
    expect_bad(worker, "bad-json", "adapter_config.json");
    worker_turn(worker);
    place_adapter(&place, "bad-save", 8, 1);
    write_config("bad-save", "\"r\": 8, \"lora_alpha\": 16, " ALL7 ", \"modules_to_save\": [\"lm_head\"]");
    expect_bad(worker, "bad-save", "modules_to_save");
    worker_turn(worker);
    scratch_folder(&place.scratch, "bad-empty");
    expect_bad(worker, "bad-empty", "adapter_config.json");
    expect_bad(worker, "bad-absent", "bad-absent");
    worker_turn(worker);
    assert_int_equal(worker_adapter_add(worker, "../good-0", scratch_at(&place.scratch, "good-0"), &refusal), STATUS_INVALID);

    worker_finish(worker, &stream, 1);
    worker_finish(worker, &base, 1);
    assert_same(&stream, &cold, "among bad adapters");
    assert_same(&base, &cold_base, "among bad adapters");
    assert_int_equal(worker_state(worker).adapters, 1);
    worker_close(worker);
}

/* A bad version of a name that serves leaves the good one where it is. */
static void a_bad_replacement_changes_nothing(void **context)
{
    static struct reply reply, cold;
    struct worker_config config;
    struct worker *worker;
    struct refusal refusal = {{0}};

    (void)context;
    place_worker_config(&place, &config);
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "keeps", 1, 8);
    place_ask_cold(&place, "keeps-0", 10, 1, 8, &cold);
    worker_ask_drawn(worker, "keeps-0", 10, 1, 8, &reply);
    worker_finish(worker, &reply, 1);
    write_config("keeps-0", "\"r\": 4, \"lora_alpha\": 16, " ALL7);
    assert_int_equal(worker_adapter_add(worker, "keeps-0", scratch_at(&place.scratch, "keeps-0"), &refusal), STATUS_INVALID);
    worker_ask_drawn(worker, "keeps-0", 10, 1, 8, &reply);
    worker_finish(worker, &reply, 1);
    assert_same(&reply, &cold, "after a bad replacement");
    worker_close(worker);
}

static void an_adapter_that_matches_nothing_is_refused(void **context)
{
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    worker = worker_opened(&config);
    place_adapter(&place, "no-match", 8, 1);
    write_config("no-match", "\"r\": 8, \"lora_alpha\": 16, \"target_modules\": [\"c_attn\"]");
    expect_bad(worker, "no-match", "c_attn");
    write_config("no-match", "\"r\": 8, \"lora_alpha\": 16, \"target_modules\": []");
    expect_bad(worker, "no-match", "target_modules");
    /* The files hold more than is said, and less. */
    write_config("no-match", "\"r\": 8, \"lora_alpha\": 16, \"target_modules\": [\"q_proj\"]");
    expect_bad(worker, "no-match", "k_proj");
    worker_close(worker);
    if (test_shared_path("models/adapters/third_party/gradience-tiny-lora") != NULL) {
        struct refusal refusal = {{0}};

        worker = worker_opened(&config);
        assert_int_not_equal(worker_adapter_add(worker, "gpt", test_shared_path("models/adapters/third_party/gradience-tiny-lora"), &refusal),
                             STATUS_OK);
        worker_close(worker);
    }
}

/* Its files are cut after it was registered: its requests say so, those of others do not notice, and it may be mended. */
static void an_adapter_that_went_bad_fails_its_own_requests(void **context)
{
    static struct reply good, bad[3], cold, mended;
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    worker = worker_opened(&config);
    worker_add_some(worker, &place, "well", 1, 8);
    place_adapter(&place, "ill", 8, 5);
    worker_add(worker, &place, "ill");
    place_ask_cold(&place, "well-0", 10, 1, 40, &cold);
    scratch_text(&place.scratch, "ill/adapter_model.safetensors", "cut");
    worker_ask_drawn(worker, "well-0", 10, 1, 40, &good);
    for (uint32_t i = 0; i < 3; i++)
        worker_ask_drawn(worker, "ill", 10, i, 4, &bad[i]);
    worker_finish(worker, bad, 3);
    worker_finish(worker, &good, 1);
    assert_same(&good, &cold, "beside one that went bad");
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(bad[i].end.reason, WORKER_END_FAILED);
        assert_non_null(strstr(bad[i].why, "could not be loaded"));
        assert_non_null(strstr(bad[i].why, "adapter_model.safetensors"));
    }
    place_adapter(&place, "ill", 8, 5);
    worker_ask_drawn(worker, "ill", 10, 1, 4, &mended);
    worker_finish(worker, &mended, 1);
    assert_int_equal(mended.end.reason, WORKER_END_LENGTH);
    worker_settle(worker);
    worker_close(worker);
}

static void an_adapter_larger_than_the_pool_is_refused_when_it_is_registered(void **context)
{
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.pool_bytes = 4096;
    worker = worker_opened(&config);
    place_adapter(&place, "too-large", 8, 1);
    expect_bad(worker, "too-large", "the pool has 4096");
    worker_close(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_too_long_prompt_is_refused_with_the_arithmetic),
        cmocka_unit_test(one_request_too_many_is_refused),
        cmocka_unit_test(answers_end_where_they_should),
        cmocka_unit_test(a_bad_adapter_is_refused_and_others_go_on),
        cmocka_unit_test(a_bad_replacement_changes_nothing),
        cmocka_unit_test(an_adapter_that_matches_nothing_is_refused),
        cmocka_unit_test(an_adapter_that_went_bad_fails_its_own_requests),
        cmocka_unit_test(an_adapter_larger_than_the_pool_is_refused_when_it_is_registered),
    };

    return cmocka_run_group_tests(tests, open_place, close_place);
}
