/* Adapters come, are replaced and go while requests run: whose weights answer, and what is free afterwards. */
#include "rig.h"

#include <unistd.h>

#include "engine/files/file.h"

enum { PROMPT = 20 };

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

static struct worker *open_small(void)
{
    struct worker_config config;

    place_worker_config(&place, &config);
    return worker_opened(&config);
}

/* Prompts are told apart by their seed. */
static struct worker_request request_of(const char *adapter, uint64_t seed, uint32_t max_tokens, int32_t *ret_prompt)
{
    draw_prompt(seed, ret_prompt, PROMPT);
    return (struct worker_request){
        .adapter = adapter, .prompt = ret_prompt, .prompt_tokens = PROMPT, .max_tokens = max_tokens, .ignore_eos = true};
}

static void ask(struct worker *worker, const char *adapter, uint64_t seed, uint32_t max_tokens, struct reply *reply)
{
    worker_ask_drawn(worker, adapter, PROMPT, seed, max_tokens, reply);
}

static void ask_cold(const char *adapter, uint64_t seed, uint32_t max_tokens, struct reply *ret_reply)
{
    place_ask_cold(&place, adapter, PROMPT, seed, max_tokens, ret_reply);
}

static enum status ask_refused(struct worker *worker, const char *adapter)
{
    struct refusal refusal = {{0}};
    struct reply reply = {.count = 0};
    int32_t prompt[PROMPT];
    struct worker_request request = request_of(adapter, 1, 4, prompt);
    enum status status = worker_asks(worker, &request, &reply, &refusal);

    assert_int_not_equal(status, STATUS_OK);
    assert_true(refusal.text[0] != '\0');
    assert_int_equal(reply.ends, 0);
    return status;
}

/* --- which weights ---------------------------------------------------------------------------------------------------------- */

static void same_name_reload_never_serves_old_weights(void **context)
{
    static struct reply old_cold, new_cold, old, during, after;
    struct worker *worker = open_small();

    (void)context;
    place_adapter(&place, "reload", 8, 1);
    worker_add(worker, &place, "reload");
    ask_cold("reload", 5, 40, &old_cold);
    ask(worker, "reload", 5, 40, &old);
    worker_until(worker, &old, 10);
    assert_int_equal(old.count, 10);
    place_adapter(&place, "reload", 8, 2);
    worker_add(worker, &place, "reload");
    ask_cold("reload", 5, 40, &new_cold);
    ask(worker, "reload", 5, 40, &during); /* the same prompt while the old version still answers */
    worker_finish(worker, &old, 1);
    worker_finish(worker, &during, 1);
    ask(worker, "reload", 5, 40, &after);
    worker_finish(worker, &after, 1);
    assert_same(&old, &old_cold, "in flight when it was replaced");
    assert_same(&during, &new_cold, "asked while the old one answered");
    assert_same(&after, &new_cold, "asked afterwards");
    assert_memory_not_equal(old_cold.logprobs, new_cold.logprobs, 4 * sizeof(float));
    assert_int_equal(worker_state(worker).adapters, 1);
    worker_settle(worker);
    worker_close(worker);
}

static void a_version_that_comes_back_is_served_as_it_is(void **context)
{
    static struct reply cold[2], now;
    struct worker *worker = open_small();

    (void)context;
    for (int i = 0; i < 2; i++) {
        place_adapter(&place, "flip", 4, 10 + (uint64_t)i);
        ask_cold("flip", 6, 6, &cold[i]);
    }
    for (int i = 0; i < 12; i++) {
        place_adapter(&place, "flip", 4, 10 + (uint64_t)i % 2);
        worker_add(worker, &place, "flip");
        ask(worker, "flip", 6, 6, &now);
        worker_finish(worker, &now, 1);
        assert_same(&now, &cold[i % 2], "replaced again and again");
    }
    worker_close(worker);
}

static void the_same_content_again_changes_nothing(void **context)
{
    static struct reply reply;
    struct worker *worker = open_small();
    struct worker_adapter before;
    struct worker_adapter after;

    (void)context;
    place_adapter(&place, "again", 8, 3);
    worker_add(worker, &place, "again");
    ask(worker, "again", 1, 4, &reply);
    worker_finish(worker, &reply, 1);
    assert_true(worker_adapter_at(worker, 0, &before));
    assert_int_equal(before.tier, TIER_GPU);
    worker_add(worker, &place, "again");
    assert_true(worker_adapter_at(worker, 0, &after));
    assert_int_equal(after.tier, TIER_GPU);
    assert_memory_equal(before.digest, after.digest, DIGEST_BYTES);
    ask(worker, "again", 1, 4, &reply);
    worker_finish(worker, &reply, 1);
    assert_int_equal(worker_state(worker).fetches, 1);
    worker_close(worker);
}

/* The folder may be another one, and the first may be gone by the time it is read. */
static void the_same_content_from_another_folder_is_read_there(void **context)
{
    static struct reply reply, cold;
    struct refusal refusal = {{0}};
    struct worker *worker = open_small();

    (void)context;
    place_adapter(&place, "moved-from", 8, 3);
    place_adapter(&place, "moved-to", 8, 3);
    ask_cold("moved-to", 1, 4, &cold);
    assert_int_equal(worker_adapter_add(worker, "moved", scratch_at(&place.scratch, "moved-from"), &refusal), STATUS_OK);
    assert_int_equal(rename(scratch_at(&place.scratch, "moved-from"), scratch_at(&place.scratch, "moved-away")), 0);
    assert_int_equal(worker_adapter_add(worker, "moved", scratch_at(&place.scratch, "moved-to"), &refusal), STATUS_OK);
    ask(worker, "moved", 1, 4, &reply);
    worker_finish(worker, &reply, 1);
    assert_same(&reply, &cold, "moved");
    worker_close(worker);
}

static void no_adapter_is_bit_equal_to_a_server_without_adapters(void **context)
{
    static struct reply cold, alone, among, others[3];
    static const char *const names[] = {"plain-a", "plain-b", "plain-c"};
    struct worker *worker = open_small();

    (void)context;
    ask_cold(NULL, 9, 40, &cold);
    for (int i = 0; i < 3; i++) {
        place_adapter(&place, names[i], 8, 20 + (uint64_t)i);
        worker_add(worker, &place, names[i]);
    }
    ask(worker, NULL, 9, 40, &alone); /* registered, not loaded */
    worker_finish(worker, &alone, 1);
    for (int i = 0; i < 3; i++)
        ask(worker, names[i], 9, 30, &others[i]);
    worker_until(worker, &others[2], 2);
    ask(worker, NULL, 9, 40, &among);
    worker_finish(worker, &among, 1);
    worker_finish(worker, others, 3);
    assert_same(&alone, &cold, "adapters are registered");
    assert_same(&among, &cold, "adapters are in the same batch");
    ask(worker, NULL, 9, 40, &among);
    worker_finish(worker, &among, 1);
    assert_same(&among, &cold, "adapters have been in the batch");
    worker_close(worker);
}

/* Neither tenants nor names that look like each other's: blocks are counted, and answers are those of cold servers. */
static void equal_prompts_under_two_adapters_share_no_block(void **context)
{
    static struct reply cold[3], reply[6];
    static const char *const names[] = {"0", "base", NULL};
    struct worker *worker = open_small();
    uint64_t most = 0;

    (void)context;
    place_adapter(&place, "0", 8, 30);
    place_adapter(&place, "base", 8, 31);
    worker_add(worker, &place, "0");
    worker_add(worker, &place, "base");
    for (int i = 0; i < 3; i++) {
        ask_cold(names[i], 2, 40, &cold[i]);
        ask(worker, names[i], 1, 1, &reply[0]); /* all are there when the six come */
        worker_finish(worker, &reply[0], 1);
    }
    for (uint32_t i = 0; i < 6; i++) {
        int32_t prompt[PROMPT];
        struct worker_request request = request_of(names[i % 3], 2, 40, prompt);

        request.tenant = i / 3;
        memset(&reply[i], 0, sizeof(reply[i]));
        worker_ask(worker, &request, &reply[i]);
    }
    while (reply[5].count < 20) {
        worker_turn(worker);
        most = max_u64(most, worker_state(worker).replica.kv_blocks_used);
    }
    worker_finish(worker, reply, 6);
    assert_true(most >= 6 * 3); /* 39 of 40 tokens at least */
    for (int i = 0; i < 6; i++)
        assert_same(&reply[i], &cold[i % 3], names[i % 3] != NULL ? names[i % 3] : "the base");
    worker_close(worker);
}

/* --- going ------------------------------------------------------------------------------------------------------------------ */

static void unload_after_aborts_ends(void **context)
{
    static struct reply reply[12];
    struct worker *worker = open_small(); /* 8 rows: some wait */

    (void)context;
    place_adapter(&place, "abort", 8, 40);
    worker_add(worker, &place, "abort");
    for (uint32_t i = 0; i < 12; i++) {
        ask(worker, "abort", 50 + i, 30, &reply[i]);
        reply[i].cancel_at = i % 3 == 0 ? 1 + i : 0;
    }
    worker_until(worker, &reply[0], 1);
    worker_cancel(worker, reply[11].handle); /* waits */
    worker_cancel(worker, reply[11].handle);
    worker_cancel(worker, reply[1].handle);
    assert_int_equal(worker_adapter_remove(worker, "abort"), STATUS_OK);
    assert_int_equal(ask_refused(worker, "abort"), STATUS_NOT_FOUND);
    worker_finish(worker, reply, 12);
    worker_settle(worker);
    for (uint32_t i = 0; i < 12; i++) {
        bool cancelled = i % 3 == 0 || i == 1 || i == 11;

        assert_int_equal(reply[i].end.reason, cancelled ? WORKER_END_CANCELLED : WORKER_END_LENGTH);
        if (i % 3 == 0 && i > 0)
            assert_int_equal(reply[i].count, 1 + i); /* nothing after it was asked to stop */
        worker_cancel(worker, reply[i].handle);      /* of one that has ended: nothing */
    }
    worker_settle(worker);
    assert_int_equal(worker_state(worker).pool_used_bytes, 0);
    assert_int_equal(worker_state(worker).host_used_bytes, 0);
    assert_int_equal(worker_state(worker).replica.kv_blocks_used, 0);
    worker_close(worker);
}

static void double_unload_is_harmless(void **context)
{
    static struct reply reply;
    struct worker *worker = open_small();

    (void)context;
    place_adapter(&place, "twice", 8, 41);
    worker_add(worker, &place, "twice");
    ask(worker, "twice", 1, 20, &reply);
    worker_until(worker, &reply, 2);
    assert_int_equal(worker_adapter_remove(worker, "twice"), STATUS_OK);
    assert_int_equal(worker_adapter_remove(worker, "twice"), STATUS_NOT_FOUND);
    assert_int_equal(worker_adapter_remove(worker, "never"), STATUS_NOT_FOUND);
    worker_finish(worker, &reply, 1);
    assert_int_equal(reply.end.reason, WORKER_END_LENGTH);
    assert_int_equal(worker_adapter_remove(worker, "twice"), STATUS_NOT_FOUND);
    worker_settle(worker);
    assert_int_equal(worker_adapter_remove(worker, "twice"), STATUS_NOT_FOUND);
    assert_int_equal(worker_state(worker).adapters, 0);
    worker_close(worker);
}

static void unload_frees_slot_and_host_bytes(void **context)
{
    static struct reply reply;
    struct worker *worker = open_small();
    struct worker_adapter adapter;
    uint64_t bytes;

    (void)context;
    place_adapter(&place, "freed", 16, 42);
    worker_add(worker, &place, "freed");
    assert_int_equal(worker_state(worker).pool_used_bytes, 0);
    ask(worker, "freed", 1, 4, &reply);
    worker_finish(worker, &reply, 1);
    assert_true(worker_adapter_at(worker, 0, &adapter));
    bytes = (uint64_t)adapter.packed_bytes;
    assert_true(bytes > 0);
    assert_int_equal(worker_state(worker).pool_used_bytes, bytes);
    assert_int_equal(worker_state(worker).host_used_bytes, bytes);
    assert_int_equal(worker_state(worker).replica.slots_used, bytes);
    assert_int_equal(worker_adapter_remove(worker, "freed"), STATUS_OK);
    worker_settle(worker);
    assert_int_equal(worker_state(worker).pool_used_bytes, 0);
    assert_int_equal(worker_state(worker).host_used_bytes, 0);
    assert_int_equal(worker_state(worker).replica.slots_used, 0);
    assert_false(worker_adapter_at(worker, 0, &adapter));
    worker_close(worker);
}

/* Removed at each point of a load: before it begins, while it is read, while it is copied, when it is there. */
static void unload_at_any_moment_of_a_load_lets_the_request_end(void **context)
{
    static struct reply reply, cold;

    (void)context;
    place_adapter(&place, "moment", 8, 43);
    ask_cold("moment", 3, 6, &cold);
    for (uint32_t pumps = 0; pumps < 12; pumps++) {
        struct worker *worker = open_small();

        worker_add(worker, &place, "moment");
        ask(worker, "moment", 3, 6, &reply);
        for (uint32_t i = 0; i < pumps && reply.ends == 0; i++)
            worker_turn(worker);
        assert_int_equal(worker_adapter_remove(worker, "moment"), STATUS_OK);
        worker_check(worker);
        worker_finish(worker, &reply, 1);
        assert_same(&reply, &cold, "removed while its request was in flight");
        worker_settle(worker);
        assert_int_equal(worker_state(worker).pool_used_bytes + worker_state(worker).host_used_bytes, 0);
        worker_close(worker);
    }
}

/* The only request that wanted it leaves, and its name too. */
static void cancel_and_unload_at_any_moment_of_a_load(void **context)
{
    static struct reply reply;

    (void)context;
    place_adapter(&place, "moment", 8, 43);
    for (uint32_t pumps = 0; pumps < 8; pumps++) {
        struct worker *worker = open_small();

        worker_add(worker, &place, "moment");
        ask(worker, "moment", 3, 6, &reply);
        for (uint32_t i = 0; i < pumps && reply.ends == 0; i++)
            worker_turn(worker);
        worker_cancel(worker, reply.handle);
        assert_int_equal(worker_adapter_remove(worker, "moment"), STATUS_OK);
        worker_finish(worker, &reply, 1);
        worker_settle(worker);
        assert_int_equal(worker_state(worker).pool_used_bytes + worker_state(worker).host_used_bytes, 0);
        worker_close(worker);
    }
}

static void a_server_may_close_in_the_middle_of_anything(void **context)
{
    static struct reply reply[6];

    (void)context;
    place_adapter(&place, "moment", 8, 43);
    place_adapter(&place, "other", 8, 44);
    for (uint32_t pumps = 0; pumps < 8; pumps++) {
        struct worker *worker = open_small();

        worker_add(worker, &place, "moment");
        worker_add(worker, &place, "other");
        for (uint32_t i = 0; i < 6; i++)
            ask(worker, i % 3 == 0 ? "moment" : i % 3 == 1 ? "other" : NULL, i, 6, &reply[i]);
        for (uint32_t i = 0; i < pumps; i++)
            (void)worker_pump(worker);
        worker_close(worker);
    }
}

/* --- storms ----------------------------------------------------------------------------------------------------------------- */

static void load_unload_storm_while_streaming(void **context)
{
    static struct reply cold, stream, reply[8];
    struct worker *worker = open_small();
    uint64_t seed = test_seed(1);
    uint32_t streams = 0;

    (void)context;
    ask_cold(NULL, 8, 44, &cold);
    ask(worker, NULL, 8, 44, &stream);
    for (uint32_t i = 0; i < 8; i++)
        reply[i] = (struct reply){.ends = 1};
    for (int round = 0; round < 300; round++) {
        char name[32];
        uint32_t at = (uint32_t)draw_below(&seed, 8);
        struct refusal refusal = {{0}};
        int32_t prompt[PROMPT];
        struct worker_request request;

        snprintf(name, sizeof(name), "storm-%d", (int)draw_below(&seed, 3));
        if (round % 5 == 0)
            place_adapter(&place, name, 4, draw_below(&seed, 4));
        if (draw_below(&seed, 2) == 0 && access(scratch_at(&place.scratch, name), F_OK) == 0)
            worker_add(worker, &place, name);
        else if (draw_below(&seed, 3) == 0)
            (void)worker_adapter_remove(worker, name);
        if (reply[at].ends > 0) {
            memset(&reply[at], 0, sizeof(reply[at]));
            request = request_of(name, draw(&seed), 1 + (uint32_t)draw_below(&seed, 12), prompt);
            if (worker_asks(worker, &request, &reply[at], &refusal) != STATUS_OK)
                reply[at].ends = 1;
        } else if (draw_below(&seed, 4) == 0) {
            worker_cancel(worker, reply[at].handle);
        }
        worker_turn(worker);
        if (stream.ends > 0) {
            assert_same(&stream, &cold, "the stream");
            ask(worker, NULL, 8, 44, &stream);
            streams++;
        }
    }
    worker_finish(worker, reply, 8);
    worker_finish(worker, &stream, 1);
    assert_same(&stream, &cold, "the last stream");
    assert_true(streams >= 2);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(reply[i].ends, 1);
        /* Files are written over while they are registered: that is said, and nothing else goes wrong. */
        if (reply[i].end.reason == WORKER_END_FAILED && strstr(reply[i].why, "changed after it was registered") == NULL)
            fail_msg("%s", reply[i].why);
    }
    for (int i = 0; i < 3; i++) {
        char name[32];

        snprintf(name, sizeof(name), "storm-%d", i);
        (void)worker_adapter_remove(worker, name);
    }
    worker_settle(worker);
    assert_int_equal(worker_state(worker).adapters, 0);
    assert_int_equal(worker_state(worker).pool_used_bytes, 0);
    assert_int_equal(worker_state(worker).host_used_bytes, 0);
    worker_close(worker);
}

static void registration_limit_is_not_lifetime(void **context)
{
    static struct reply reply;
    struct worker_config config;
    struct worker *worker;
    struct refusal refusal = {{0}};

    (void)context;
    place_worker_config(&place, &config);
    config.adapters_max = 2;
    worker = worker_opened(&config);
    for (int i = 0; i < 40; i++) {
        char name[32];

        snprintf(name, sizeof(name), "many-%d", i);
        place_adapter(&place, name, 4, 60 + (uint64_t)i);
        worker_add(worker, &place, name);
        ask(worker, name, 1, 2, &reply);
        worker_finish(worker, &reply, 1);
        assert_int_equal(reply.end.reason, WORKER_END_LENGTH);
        if (i == 0)
            continue;
        /* Two are here: a third is refused, with the number. */
        assert_int_equal(worker_adapter_add(worker, "third", scratch_at(&place.scratch, "many-0"), &refusal), STATUS_FULL);
        assert_non_null(strstr(refusal.text, "2 adapters"));
        assert_int_equal(worker_adapter_remove(worker, name), STATUS_OK);
    }
    worker_close(worker);
}

/* Each replacement leaves a version behind for as long as its request runs. */
static void replacements_are_not_limited_by_those_in_flight(void **context)
{
    static struct reply reply[30], cold[30];
    struct worker_config config;
    struct worker *worker;

    (void)context;
    place_worker_config(&place, &config);
    config.adapters_max = 1;
    config.slots = 2;
    config.max_loras = 2;
    worker = worker_opened(&config);
    for (uint32_t i = 0; i < 30; i++) {
        place_adapter(&place, "again", 4, 200 + i);
        worker_add(worker, &place, "again");
        ask(worker, "again", 4, 20, &reply[i]);
        ask_cold("again", 4, 20, &cold[i]);
    }
    /* What is read is looked at again: a version whose files are gone by then is refused with its reason, and never with other weights. */
    worker_finish(worker, reply, 30);
    for (uint32_t i = 0; i < 30; i++) {
        if (reply[i].end.reason == WORKER_END_FAILED)
            assert_non_null(strstr(reply[i].why, "changed after it was registered"));
        else
            assert_same(&reply[i], &cold[i], "replaced while it waited");
    }
    assert_same(&reply[29], &cold[29], "the last one");
    worker_settle(worker);
    worker_close(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_name_reload_never_serves_old_weights),
        cmocka_unit_test(a_version_that_comes_back_is_served_as_it_is),
        cmocka_unit_test(the_same_content_again_changes_nothing),
        cmocka_unit_test(the_same_content_from_another_folder_is_read_there),
        cmocka_unit_test(no_adapter_is_bit_equal_to_a_server_without_adapters),
        cmocka_unit_test(equal_prompts_under_two_adapters_share_no_block),
        cmocka_unit_test(unload_after_aborts_ends),
        cmocka_unit_test(double_unload_is_harmless),
        cmocka_unit_test(unload_frees_slot_and_host_bytes),
        cmocka_unit_test(unload_at_any_moment_of_a_load_lets_the_request_end),
        cmocka_unit_test(cancel_and_unload_at_any_moment_of_a_load),
        cmocka_unit_test(a_server_may_close_in_the_middle_of_anything),
        cmocka_unit_test(load_unload_storm_while_streaming),
        cmocka_unit_test(registration_limit_is_not_lifetime),
        cmocka_unit_test(replacements_are_not_limited_by_those_in_flight),
    };

    return cmocka_run_group_tests(tests, open_place, close_place);
}
