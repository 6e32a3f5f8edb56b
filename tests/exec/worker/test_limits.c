/* What a server holds at most, and what happens there: queueing, refusals with the arithmetic, bad adapters among good ones. */
#include "rig.h"

#include <unistd.h>

enum { PROMPT_MAX = 60 };

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

static void ask(struct worker *worker, const char *adapter, uint32_t prompt_tokens, uint64_t seed, uint32_t max_tokens, struct reply *reply)
{
    int32_t prompt[PROMPT_MAX];
    const struct worker_request request = {.adapter = adapter, .prompt = prompt, .prompt_tokens = prompt_tokens,
                                           .max_tokens = max_tokens, .ignore_eos = true};

    draw_prompt(seed, prompt, prompt_tokens);
    memset(reply, 0, sizeof(*reply));
    worker_ask(worker, &request, reply);
}

static void add_some(struct worker *worker, const char *prefix, int count, int32_t rank)
{
    for (int i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "%s-%d", prefix, i);
        place_adapter(&place, name, rank, 100 + (uint64_t)i);
        worker_add(worker, &place, name);
    }
}

/* In its slot, with nothing running. */
static void warm(struct worker *worker, const char *adapter)
{
    static struct reply reply;

    ask(worker, adapter, 3, 1, 1, &reply);
    worker_finish(worker, &reply, 1);
}

/* What the same requests get one after the other on a server with room for all. */
static void ask_cold(const char *adapter, uint32_t prompt_tokens, uint64_t seed, uint32_t max_tokens, struct reply *ret_reply)
{
    struct worker_config config;
    struct worker *worker;

    place_worker_config(&place, &config);
    worker = worker_opened(&config);
    if (adapter != NULL)
        worker_add(worker, &place, adapter);
    ask(worker, adapter, prompt_tokens, seed, max_tokens, ret_reply);
    worker_finish(worker, ret_reply, 1);
    worker_close(worker);
}

/* --- slots ------------------------------------------------------------------------------------------------------------------ */

static void slots_fewer_than_active_adapters_starve_nobody(void **context)
{
    enum { ADAPTERS = 8, ROUNDS = 6, REQUESTS = ADAPTERS * ROUNDS };
    static struct reply reply[ADAPTERS], cold[ADAPTERS];
    uint32_t rounds[ADAPTERS] = {0};
    uint32_t asked = 0;
    struct worker_config config;
    struct worker *worker;
    uint64_t loads;

    (void)context;
    place_worker_config(&place, &config);
    config.slots = 2;
    config.max_loras = 2;
    worker = worker_opened(&config);
    add_some(worker, "thrash", ADAPTERS, 8);
    for (uint32_t i = 0; i < ADAPTERS; i++) {
        char name[32];

        snprintf(name, sizeof(name), "thrash-%u", i);
        ask_cold(name, 10, i, 12, &cold[i]);
        reply[i] = (struct reply){.ends = 1};
    }
    /* Each adapter's next request comes when its last one is over. */
    while (asked < REQUESTS) {
        for (uint32_t i = 0; i < ADAPTERS; i++) {
            char name[32];

            if (reply[i].ends == 0 || rounds[i] == ROUNDS)
                continue;
            if (rounds[i] > 0)
                assert_same(&reply[i], &cold[i], "two slots for eight adapters");
            snprintf(name, sizeof(name), "thrash-%u", i);
            ask(worker, name, 10, i, 12, &reply[i]);
            rounds[i]++;
            asked++;
        }
        worker_turn(worker);
    }
    worker_finish(worker, reply, ADAPTERS);
    loads = worker_state(worker).loads;
    printf("%d requests of %d adapters over 2 slots: %llu loads\n", REQUESTS, ADAPTERS, (unsigned long long)loads);
    assert_in_range(loads, ADAPTERS, REQUESTS);
    assert_int_equal(worker_state(worker).fetches, ADAPTERS); /* host memory holds them all */
    for (uint32_t i = 0; i < ADAPTERS; i++)
        assert_same(&reply[i], &cold[i], "two slots for eight adapters");
    worker_close(worker);
}

static void cache_full_of_busy_adapters_queues(void **context)
{
    static struct reply busy[2], waits;
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.slots = 2;
    worker = worker_opened(&config);
    add_some(worker, "busy", 3, 8);
    warm(worker, "busy-0");
    warm(worker, "busy-1");
    ask(worker, "busy-0", 10, 1, 50, &busy[0]);
    ask(worker, "busy-1", 10, 2, 50, &busy[1]);
    worker_until(worker, &busy[0], 3);
    worker_until(worker, &busy[1], 3);
    ask(worker, "busy-2", 10, 3, 5, &waits);
    for (int i = 0; i < 10; i++) {
        worker_turn(worker);
        assert_int_equal(waits.ends + waits.count, 0);
    }
    worker_finish(worker, &waits, 1);
    assert_int_equal(waits.end.reason, WORKER_END_LENGTH);
    worker_finish(worker, busy, 2);
    worker_close(worker);
}

/* Bytes suffice but lie in two holes: what is between moves, and goes on answering as before. */
static void a_pool_in_pieces_is_brought_together_while_its_adapters_answer(void **context)
{
    static struct reply stays, big, cold, big_cold;
    struct worker_config config;
    struct worker *worker;
    struct worker_adapter adapter;

    (void)context;
    place_worker_config(&place, &config);
    worker = worker_opened(&config);
    add_some(worker, "piece", 3, 8);
    assert_true(worker_adapter_at(worker, 0, &adapter));
    worker_close(worker);
    config.pool_bytes = 3 * (uint64_t)adapter.packed_bytes;
    worker = worker_opened(&config);
    add_some(worker, "piece", 3, 8);
    place_adapter(&place, "wide", 32, 9);
    worker_add(worker, &place, "wide");
    ask_cold("piece-1", 10, 2, 50, &cold);
    ask_cold("wide", 10, 3, 5, &big_cold);
    warm(worker, "piece-0");
    warm(worker, "piece-1");
    warm(worker, "piece-2");
    ask(worker, "piece-1", 10, 2, 50, &stays);
    worker_until(worker, &stays, 2);
    ask(worker, "wide", 10, 3, 5, &big);
    while (big.ends == 0) {
        worker_turn(worker);
        if (stays.ends == 0)
            continue;
        assert_same(&stays, &cold, "beside one that is put into the pool");
        ask(worker, "piece-1", 10, 2, 50, &stays);
    }
    worker_finish(worker, &stays, 1);
    assert_true(worker_state(worker).pool_moves >= 1);
    assert_same(&stays, &cold, "moved while it answered");
    assert_same(&big, &big_cold, "put where holes were");
    worker_close(worker);
}

static void base_takes_no_slot(void **context)
{
    static struct reply base[4], one;
    struct worker_config config;
    struct worker *worker;
    struct worker_adapter adapter;

    (void)context;
    place_worker_config(&place, &config);
    config.slots = 1;
    config.max_loras = 1;
    worker = worker_opened(&config);
    add_some(worker, "alone", 1, 8);
    for (uint32_t i = 0; i < 4; i++)
        ask(worker, NULL, 10, i, 40, &base[i]);
    worker_until(worker, &base[3], 2);
    assert_int_equal(worker_state(worker).pool_used_bytes, 0);
    assert_int_equal(worker_state(worker).loads, 0);
    worker_finish(worker, base, 4);
    assert_int_equal(base[0].end.tier_found, TIER_BASE);
    warm(worker, "alone-0");
    for (uint32_t i = 0; i < 4; i++)
        ask(worker, NULL, 10, i, 40, &base[i]);
    ask(worker, "alone-0", 10, 9, 10, &one);
    worker_finish(worker, &one, 1);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(base[i].ends, 0); /* it came among them */
    worker_finish(worker, base, 4);
    assert_true(worker_adapter_at(worker, 0, &adapter));
    assert_int_equal(worker_state(worker).pool_used_bytes, adapter.packed_bytes);
    assert_int_equal(one.end.tier_found, TIER_GPU);
    worker_close(worker);
}

/* The one that waits for its place takes none from those that could run meanwhile. */
static void an_adapter_counts_against_max_loras_only_when_scheduled(void **context)
{
    static struct reply runs, waits, passes;
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.max_loras = 1;
    worker = worker_opened(&config);
    add_some(worker, "counts", 2, 8);
    ask(worker, "counts-0", 10, 1, 50, &runs);
    worker_until(worker, &runs, 2);
    ask(worker, "counts-1", 10, 2, 5, &waits);
    worker_turn(worker);
    ask(worker, "counts-0", 10, 3, 5, &passes);
    worker_finish(worker, &passes, 1);
    assert_int_equal(runs.ends, 0);
    assert_int_equal(waits.count, 0);
    worker_finish(worker, &waits, 1);
    worker_finish(worker, &runs, 1);
    assert_int_equal(waits.end.reason, WORKER_END_LENGTH);
    worker_close(worker);
}

/* --- reading and listing ---------------------------------------------------------------------------------------------------- */

static void an_adapter_is_read_once_not_each_step(void **context)
{
    static struct reply reply;
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    worker = worker_opened(&config);
    add_some(worker, "once", 1, 8);
    ask(worker, "once-0", 10, 1, 4, &reply);
    worker_finish(worker, &reply, 1);
    assert_int_equal(rename(scratch_at(&place.scratch, "once-0"), scratch_at(&place.scratch, "once-gone")), 0);
    for (uint64_t i = 0; i < 20; i++) {
        ask(worker, "once-0", 10, i, 4, &reply);
        worker_finish(worker, &reply, 1);
        assert_int_equal(reply.end.reason, WORKER_END_LENGTH);
        assert_int_equal(reply.end.tier_found, TIER_GPU);
    }
    assert_int_equal(worker_state(worker).fetches, 1);
    assert_int_equal(worker_state(worker).loads, 1);
    worker_close(worker);
}

/* Evicted from its slot it is still in host memory, and comes back from there; the disk is not asked. */
static void an_evicted_adapter_comes_back_from_host_memory(void **context)
{
    static struct reply reply, cold;
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.slots = 1;
    worker = worker_opened(&config);
    add_some(worker, "back", 2, 8);
    ask_cold("back-0", 10, 1, 4, &cold);
    for (int i = 0; i < 6; i++) {
        ask(worker, i % 2 == 0 ? "back-0" : "back-1", 10, 1, 4, &reply);
        worker_finish(worker, &reply, 1);
        assert_int_equal(reply.end.tier_found, i < 2 ? TIER_STORE : TIER_HOST);
        if (i % 2 == 0)
            assert_same(&reply, &cold, "back in its slot");
    }
    assert_int_equal(worker_state(worker).fetches, 2);
    assert_int_equal(worker_state(worker).loads, 6);
    worker_close(worker);
}

/* Host memory for one: each is read again when it is asked for again, one larger than all of it passes through. */
static void host_memory_is_never_more_than_was_said(void **context)
{
    static struct reply reply, cold;
    struct worker_config config;
    struct worker *worker;
    struct worker_adapter adapter;
    uint64_t host_bytes;

    (void)context;
    place_worker_config(&place, &config);
    worker = worker_opened(&config);
    add_some(worker, "host", 3, 8);
    assert_true(worker_adapter_at(worker, 0, &adapter));
    host_bytes = (uint64_t)adapter.packed_bytes;
    worker_close(worker);
    ask_cold("host-1", 10, 1, 4, &cold);
    for (int pass = 0; pass < 2; pass++) {
        config.host_bytes = pass == 0 ? host_bytes : host_bytes / 2;
        config.slots = 1;
        worker = worker_opened(&config);
        for (int i = 0; i < 3; i++) {
            char name[16];

            snprintf(name, sizeof(name), "host-%d", i);
            worker_add(worker, &place, name);
        }
        for (int i = 0; i < 6; i++) {
            char name[16];

            snprintf(name, sizeof(name), "host-%d", i % 3);
            ask(worker, name, 10, 1, 4, &reply);
            while (reply.ends == 0) {
                worker_turn(worker);
                assert_true(worker_state(worker).host_used_bytes <= config.host_bytes);
            }
            if (i % 3 == 1)
                assert_same(&reply, &cold, "read again");
        }
        assert_int_equal(worker_state(worker).fetches, 6);
        worker_close(worker);
    }
}

static void a_loaded_adapter_is_listed_at_once(void **context)
{
    static const char *const names[] = {"m", "a", "z", "k"};
    static const char *const sorted[] = {"a", "k", "m", "z"};
    struct worker_config config;
    struct worker *worker;
    struct worker_adapter adapter;

    (void)context;
    place_worker_config(&place, &config);
    worker = worker_opened(&config);
    assert_false(worker_adapter_at(worker, 0, &adapter));
    for (uint32_t i = 0; i < 4; i++) {
        bool found = false;

        place_adapter(&place, names[i], 4 + (int32_t)i, i);
        worker_add(worker, &place, names[i]);
        for (uint32_t at = 0; worker_adapter_at(worker, at, &adapter); at++)
            found = found || strcmp(adapter.name, names[i]) == 0;
        assert_true(found);
        assert_int_equal(worker_state(worker).adapters, i + 1);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(worker_adapter_at(worker, i, &adapter));
        assert_string_equal(adapter.name, sorted[i]);
        assert_int_equal(adapter.tier, TIER_STORE);
        assert_int_equal(adapter.rank, 16);
    }
    assert_int_equal(worker_adapter_remove(worker, "k"), STATUS_OK);
    assert_true(worker_adapter_at(worker, 1, &adapter));
    assert_string_equal(adapter.name, "m");
    assert_false(worker_adapter_at(worker, 3, &adapter));
    worker_close(worker);
}

/* --- shapes ----------------------------------------------------------------------------------------------------------------- */

static void ranks_16_to_64_under_load_equal_alone(void **context)
{
    static const int32_t ranks[] = {16, 64, 1, 48, 17, 32};
    static struct reply reply[24], cold[24];
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.max_loras = 6;
    config.slots = 6;
    worker = worker_opened(&config);
    for (uint32_t i = 0; i < ARRAY_COUNT(ranks); i++) {
        char name[16];

        snprintf(name, sizeof(name), "rank-%d", ranks[i]);
        place_adapter(&place, name, ranks[i], i);
        worker_add(worker, &place, name);
    }
    for (uint32_t i = 0; i < 24; i++) {
        char name[16];

        snprintf(name, sizeof(name), "rank-%d", ranks[i % 6]);
        ask_cold(name, 3 + i, i, 12, &cold[i]);
        ask(worker, name, 3 + i, i, 12, &reply[i]);
    }
    worker_finish(worker, reply, 24);
    for (uint32_t i = 0; i < 24; i++)
        assert_same(&reply[i], &cold[i], "six ranks in one batch");
    worker_close(worker);
}

static void one_segment_then_many_then_none(void **context)
{
    static struct reply one, many[5], none, cold_one, cold_none, cold_many[5];
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.slots = 8;
    config.max_loras = 6;
    worker = worker_opened(&config);
    add_some(worker, "segment", 6, 8);
    ask(worker, "segment-0", 10, 1, 40, &one);
    worker_until(worker, &one, 4);
    for (uint32_t i = 0; i < 5; i++) {
        char name[16];

        snprintf(name, sizeof(name), "segment-%u", i + 1);
        ask(worker, name, 10, i, 12, &many[i]);
        ask_cold(name, 10, i, 12, &cold_many[i]);
    }
    worker_finish(worker, many, 5);
    worker_finish(worker, &one, 1);
    ask(worker, NULL, 10, 2, 12, &none);
    worker_finish(worker, &none, 1);
    ask_cold("segment-0", 10, 1, 40, &cold_one);
    ask_cold(NULL, 10, 2, 12, &cold_none);
    assert_same(&one, &cold_one, "one, then six");
    for (uint32_t i = 0; i < 5; i++)
        assert_same(&many[i], &cold_many[i], "six");
    assert_same(&none, &cold_none, "none after six");
    worker_close(worker);
}

static void a_large_rank_max_is_fine(void **context)
{
    static struct reply reply, cold;
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.rank_max = LORA_RANK_MAX;
    worker = worker_opened(&config);
    add_some(worker, "small", 1, 4);
    place_adapter(&place, "large", LORA_RANK_MAX, 3);
    worker_add(worker, &place, "large");
    ask_cold("small-0", 10, 1, 12, &cold);
    ask(worker, "small-0", 10, 1, 12, &reply);
    worker_finish(worker, &reply, 1);
    assert_same(&reply, &cold, "rank 4 where 256 may come");
    ask(worker, "large", 10, 1, 12, &reply);
    worker_finish(worker, &reply, 1);
    assert_int_equal(reply.end.reason, WORKER_END_LENGTH);
    worker_close(worker);
}

/* --- refusals --------------------------------------------------------------------------------------------------------------- */

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
    int32_t prompt[PROMPT_MAX];
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
    /* 60 tokens need 4 blocks, there are 3. */
    ask(worker, NULL, 55, 1, 5, &reply);
    worker_finish(worker, &reply, 1);
    assert_int_equal(reply.end.reason, WORKER_END_FAILED);
    assert_non_null(strstr(reply.why, "needs 4 KV blocks"));
    assert_non_null(strstr(reply.why, "has 3"));
    ask(worker, NULL, 43, 1, 5, &reply); /* 48 tokens: all of them */
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
        ask(worker, NULL, 10, i, 4, &reply[i]);
    expect_refused(worker, &request, STATUS_FULL, "4 requests");
    worker_finish(worker, reply, 4);
    ask(worker, NULL, 10, 1, 4, &reply[0]);
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
    ask(worker, NULL, 10, 1, 20, &full);
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
    ask(worker, NULL, 10, 1, 1, &reply);
    worker_finish(worker, &reply, 1);
    assert_int_equal(reply.count, 1);
    ask(worker, NULL, 1, 1, 63, &reply); /* every position */
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
    add_some(worker, "good", 1, 8);
    ask_cold("good-0", 10, 1, 50, &cold);
    ask_cold(NULL, 10, 2, 50, &cold_base);
    ask(worker, "good-0", 10, 1, 50, &stream);
    ask(worker, NULL, 10, 2, 50, &base);
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
    add_some(worker, "keeps", 1, 8);
    ask_cold("keeps-0", 10, 1, 8, &cold);
    ask(worker, "keeps-0", 10, 1, 8, &reply);
    worker_finish(worker, &reply, 1);
    write_config("keeps-0", "\"r\": 4, \"lora_alpha\": 16, " ALL7);
    assert_int_equal(worker_adapter_add(worker, "keeps-0", scratch_at(&place.scratch, "keeps-0"), &refusal), STATUS_INVALID);
    ask(worker, "keeps-0", 10, 1, 8, &reply);
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
    add_some(worker, "well", 1, 8);
    place_adapter(&place, "ill", 8, 5);
    worker_add(worker, &place, "ill");
    ask_cold("well-0", 10, 1, 40, &cold);
    scratch_text(&place.scratch, "ill/adapter_model.safetensors", "cut");
    ask(worker, "well-0", 10, 1, 40, &good);
    for (uint32_t i = 0; i < 3; i++)
        ask(worker, "ill", 10, i, 4, &bad[i]);
    worker_finish(worker, bad, 3);
    worker_finish(worker, &good, 1);
    assert_same(&good, &cold, "beside one that went bad");
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(bad[i].end.reason, WORKER_END_FAILED);
        assert_non_null(strstr(bad[i].why, "could not be loaded"));
        assert_non_null(strstr(bad[i].why, "adapter_model.safetensors"));
    }
    place_adapter(&place, "ill", 8, 5);
    ask(worker, "ill", 10, 1, 4, &mended);
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
        cmocka_unit_test(slots_fewer_than_active_adapters_starve_nobody),
        cmocka_unit_test(cache_full_of_busy_adapters_queues),
        cmocka_unit_test(a_pool_in_pieces_is_brought_together_while_its_adapters_answer),
        cmocka_unit_test(base_takes_no_slot),
        cmocka_unit_test(an_adapter_counts_against_max_loras_only_when_scheduled),
        cmocka_unit_test(an_adapter_is_read_once_not_each_step),
        cmocka_unit_test(an_evicted_adapter_comes_back_from_host_memory),
        cmocka_unit_test(host_memory_is_never_more_than_was_said),
        cmocka_unit_test(a_loaded_adapter_is_listed_at_once),
        cmocka_unit_test(ranks_16_to_64_under_load_equal_alone),
        cmocka_unit_test(one_segment_then_many_then_none),
        cmocka_unit_test(a_large_rank_max_is_fine),
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
