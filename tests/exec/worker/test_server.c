/* A server behind its socket: answers and adapters. */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "talk.h"

#define PROMPT "\"prompt_ids\": [1, 30, 40, 50, 60]"

static struct served served;

/* --- answers ---------------------------------------------------------------------------------------------------------------- */

static void tokens_come_one_by_one_then_the_end(void **context)
{
    static const int32_t prompt[] = {1, 30, 40, 50, 60};
    static struct reply cold;
    const struct worker_request request = {.prompt = prompt, .prompt_tokens = 5, .max_tokens = 30, .ignore_eos = true};
    struct token_text text = {0};
    struct token_text want = {0};
    struct talk talk;
    json_t *object;
    uint32_t count = 0;

    (void)context;
    served_begin(&served, NULL);
    worker_answer(served.config.worker, &request, &cold);
    served_start(&served);
    talk_begin(&talk, &served);
    talk_say(&talk, "{\"op\": \"generate\", \"id\": 7, " PROMPT ", \"max_tokens\": 30, \"temperature\": 0, \"ignore_eos\": true, \"logprobs\": 3}");
    for (; count < 30; count++) {
        object = talk_hear(&talk);
        assert_int_equal(number_of(object, "id"), 7);
        assert_int_equal(number_of(object, "index"), count);
        assert_int_equal(number_of(object, "token"), cold.ids[count]);
        assert_true((float)json_real_value(json_object_get(object, "logprob")) == cold.logprobs[count]);
        assert_int_equal(json_array_size(json_object_get(object, "top_logprobs")), 3);
        assert_int_equal(number_of(json_array_get(json_object_get(object, "top_logprobs"), 0), "id"), cold.ids[count]);
        token_text_add(&text, text_of(object, "text"), json_string_length(json_object_get(object, "text")));
        json_decref(object);
    }
    object = talk_hear(&talk);
    assert_string_equal(text_of(object, "finish_reason"), "length");
    assert_int_equal(number_of(object, "output_tokens"), 30);
    assert_int_equal(number_of(object, "prompt_tokens"), 5);
    token_text_add(&text, text_of(object, "text"), json_string_length(json_object_get(object, "text")));
    json_decref(object);
    tokenizer_decode(served.tokenizer, cold.ids, 30, true, &want);
    assert_int_equal(text.count, want.count);
    assert_memory_equal(text.bytes, want.bytes, want.count);
    token_text_free(&text);
    token_text_free(&want);
    talk_end(&talk);
    served_drain_and_end(&served);
}

static void a_stop_text_ends_an_answer_before_it(void **context)
{
    struct token_text text = {0};
    struct talk talk;
    json_t *object;
    char stop[8];

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    talk_begin(&talk, &served);
    for (int pass = 0; pass < 2; pass++) {
        struct token_text now = {0};

        if (pass == 0)
            talk_say(&talk, "{\"op\": \"generate\", \"id\": 1, \"prompt\": \"ab\", \"max_tokens\": 40, \"ignore_eos\": true}");
        else
            talk_say(&talk, "{\"op\": \"generate\", \"id\": 1, \"prompt\": \"ab\", \"max_tokens\": 40, \"ignore_eos\": true, \"stop\": \"%s\"}",
                     stop);
        do {
            object = talk_hear(&talk);
            token_text_add(&now, text_of(object, "text"), json_string_length(json_object_get(object, "text")));
            if (*text_of(object, "finish_reason") != '\0') {
                assert_string_equal(text_of(object, "finish_reason"), pass == 0 ? "length" : "stop");
                json_decref(object);
                break;
            }
            json_decref(object);
        } while (true);
        if (pass == 0) {
            size_t at = 8;

            /* A plain character of its middle. */
            while (at < now.count && !((now.bytes[at] >= 'a' && now.bytes[at] <= 'z') || (now.bytes[at] >= '0' && now.bytes[at] <= '9')))
                at++;
            assert_true(at < now.count);
            snprintf(stop, sizeof(stop), "%c", now.bytes[at]);
            text = now;
            continue;
        }
        assert_true(now.count < text.count && now.bytes != NULL);
        assert_memory_equal(now.bytes, text.bytes, now.count);
        assert_int_equal(text.bytes[now.count], stop[0]);
        assert_null(memchr(now.bytes, stop[0], now.count));
        token_text_free(&now);
    }
    token_text_free(&text);
    talk_end(&talk);
    served_drain_and_end(&served);
}

static void two_connections_may_use_one_id(void **context)
{
    struct talk talk[2];
    int32_t ids[2][64];
    uint32_t counts[2];

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    for (int i = 0; i < 2; i++) {
        talk_begin(&talk[i], &served);
        talk_say(&talk[i], "{\"op\": \"generate\", \"id\": -5, \"prompt_ids\": [1, %d], \"max_tokens\": 40, \"ignore_eos\": true}", 20 + i);
    }
    for (int i = 0; i < 2; i++)
        json_decref(talk_hear_answer(&talk[i], -5, ids[i], &counts[i]));
    assert_int_equal(counts[0], 40);
    assert_int_equal(counts[1], 40);
    assert_memory_not_equal(ids[0], ids[1], 40 * sizeof(int32_t));
    /* On one connection it is taken while its request is there. */
    talk_say(&talk[0], "{\"op\": \"generate\", \"id\": 1, " PROMPT ", \"max_tokens\": 200, \"ignore_eos\": true}\n"
                       "{\"op\": \"generate\", \"id\": 1, " PROMPT "}");
    for (uint32_t errors = 0; errors == 0;) {
        json_t *object = talk_hear(&talk[0]);

        errors += *text_of(object, "error") != '\0';
        assert_true(*text_of(object, "finish_reason") == '\0');
        json_decref(object);
    }
    for (int i = 0; i < 2; i++)
        talk_end(&talk[i]);
    served_drain_and_end(&served);
}

static void a_cancelled_request_says_so(void **context)
{
    struct talk talk;
    int32_t ids[256];
    uint32_t count;
    json_t *object;

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    talk_begin(&talk, &served);
    talk_say(&talk, "{\"op\": \"generate\", \"id\": 3, " PROMPT ", \"max_tokens\": 240, \"ignore_eos\": true}");
    json_decref(talk_hear(&talk));
    talk_say(&talk, "{\"op\": \"cancel\", \"id\": 3}");
    do
        object = talk_hear(&talk);
    while (number_of(object, "token") >= 0 ? (json_decref(object), true) : false);
    /* Unless it was over by then, in which case the cancel is told so. */
    if (strcmp(text_of(object, "finish_reason"), "cancelled") != 0) {
        assert_string_equal(text_of(object, "finish_reason"), "length");
        talk_expect_error(&talk, "not_found", "in flight");
    }
    json_decref(object);
    talk_say(&talk, "{\"op\": \"cancel\", \"id\": 3}");
    talk_expect_error(&talk, "not_found", "in flight");
    talk_say(&talk, "{\"op\": \"cancel\"}");
    talk_expect_error(&talk, "not_found", "in flight");
    talk_say(&talk, "{\"op\": \"generate\", \"id\": 3, " PROMPT ", \"max_tokens\": 2, \"ignore_eos\": true}");
    json_decref(talk_hear_answer(&talk, 3, ids, &count));
    assert_int_equal(count, 2);
    talk_end(&talk);
    served_drain_and_end(&served);
}

static void one_sequence(struct worker_config *config)
{
    config->sequences_max = 1;
    config->requests_max = 4;
}

static void a_closed_connection_cancels_its_requests(void **context)
{
    struct talk leaves;
    struct talk stays;
    json_t *object;
    bool idle = false;

    (void)context;
    served_begin(&served, one_sequence);
    served_start(&served);
    talk_begin(&leaves, &served);
    talk_begin(&stays, &served);
    for (int i = 0; i < 4; i++)
        talk_say(&leaves, "{\"op\": \"generate\", \"id\": %d, " PROMPT ", \"max_tokens\": 250, \"ignore_eos\": true}", i);
    json_decref(talk_hear(&leaves));
    talk_end(&leaves);
    while (!idle) {
        object = talk_ask(&stays, "{\"op\": \"state\"}");
        idle = number_of(object, "waiting") + number_of(object, "running") == 0;
        if (idle) {
            assert_true(number_of(object, "steps") < 4 * 250);
            assert_int_equal(number_of(object, "kv_blocks_used"), 0);
        }
        json_decref(object);
    }
    talk_end(&stays);
    served_drain_and_end(&served);
}

/* --- adapters --------------------------------------------------------------------------------------------------------------- */

static void an_adapter_is_loaded_listed_served_and_unloaded(void **context)
{
    struct talk talk;
    int32_t base[16], one[16], other[16];
    uint32_t count;
    char digest[DIGEST_TEXT_MAX];
    json_t *object;

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    talk_begin(&talk, &served);
    talk_say(&talk, "{\"op\": \"generate\", \"id\": 1, \"adapter\": \"mine\", " PROMPT "}");
    talk_expect_error(&talk, "not_found", "no adapter of that name");
    served_adapter(&served, "mine", 1);
    object = talk_ask(&talk, "{\"op\": \"load\", \"name\": \"mine\"}");
    assert_string_equal(text_of(object, "op"), "load");
    assert_string_equal(text_of(object, "name"), "mine");
    assert_int_equal(number_of(object, "rank"), 16);
    snprintf(digest, sizeof(digest), "%s", text_of(object, "digest"));
    assert_int_equal(strlen(digest), 64);
    json_decref(object);
    object = talk_ask(&talk, "{\"op\": \"adapters\"}");
    assert_int_equal(json_array_size(json_object_get(object, "adapters")), 1);
    assert_string_equal(text_of(json_array_get(json_object_get(object, "adapters"), 0), "digest"), digest);
    json_decref(object);
    talk_say(&talk, "{\"op\": \"generate\", \"id\": 1, " PROMPT ", \"max_tokens\": 16, \"ignore_eos\": true}");
    json_decref(talk_hear_answer(&talk, 1, base, &count));
    talk_say(&talk, "{\"op\": \"generate\", \"id\": 1, \"adapter\": \"mine\", " PROMPT ", \"max_tokens\": 16, \"ignore_eos\": true}");
    object = talk_hear_answer(&talk, 1, one, &count);
    assert_string_equal(text_of(object, "adapter_found_in"), "store");
    json_decref(object);
    assert_memory_not_equal(base, one, sizeof(base));

    served_adapter(&served, "mine", 2); /* written anew: served after the next load */
    object = talk_ask(&talk, "{\"op\": \"load\", \"name\": \"mine\"}");
    assert_string_not_equal(text_of(object, "digest"), digest);
    json_decref(object);
    talk_say(&talk, "{\"op\": \"generate\", \"id\": 1, \"adapter\": \"mine\", " PROMPT ", \"max_tokens\": 16, \"ignore_eos\": true}");
    json_decref(talk_hear_answer(&talk, 1, other, &count));
    assert_memory_not_equal(other, one, sizeof(base));

    json_decref(talk_ask(&talk, "{\"op\": \"unload\", \"name\": \"mine\"}"));
    talk_say(&talk, "{\"op\": \"unload\", \"name\": \"mine\"}");
    talk_expect_error(&talk, "not_found", "no adapter");
    talk_say(&talk, "{\"op\": \"generate\", \"id\": 1, \"adapter\": \"mine\", " PROMPT "}");
    talk_expect_error(&talk, "not_found", "no adapter of that name");
    object = talk_ask(&talk, "{\"op\": \"adapters\"}");
    assert_int_equal(json_array_size(json_object_get(object, "adapters")), 0);
    json_decref(object);
    talk_end(&talk);
    served_drain_and_end(&served);
}

static void a_name_leads_nowhere_else(void **context)
{
    static const char *const names[] = {"..", ".", "", "../base", "a/b", "/etc", "a\\u0001", "-a", "a b"};
    struct talk talk;

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    place_adapter(&served.place, "outside", 8, 1);
    served_adapter(&served, "inside", 1);
    assert_int_equal(symlink(scratch_at(&served.place.scratch, "outside"), scratch_at(&served.place.scratch, "adapters/link")), 0);
    talk_begin(&talk, &served);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        talk_say(&talk, "{\"op\": \"load\", \"name\": \"%s\"}", names[i]);
        talk_expect_error(&talk, "bad_request", "name");
    }
    talk_say(&talk, "{\"op\": \"load\", \"name\": \"link\"}");
    talk_expect_error(&talk, "not_found", "no adapter folder");
    talk_say(&talk, "{\"op\": \"load\"}");
    talk_expect_error(&talk, "bad_request", "name");
    talk_say(&talk, "{\"op\": \"load\", \"name\": \"absent\"}");
    talk_expect_error(&talk, "not_found", "absent");
    /* A link in the folder's place of a file. */
    assert_int_equal(unlink(scratch_at(&served.place.scratch, "adapters/inside/adapter_model.safetensors")), 0);
    assert_int_equal(symlink(scratch_at(&served.place.scratch, "outside/adapter_model.safetensors"),
                             scratch_at(&served.place.scratch, "adapters/inside/adapter_model.safetensors")), 0);
    talk_say(&talk, "{\"op\": \"load\", \"name\": \"inside\"}");
    talk_expect_error(&talk, "bad_request", "link");
    talk_end(&talk);
    served_drain_and_end(&served);
}

static void a_folder_is_scanned_and_bad_ones_are_left_out(void **context)
{
    struct worker_adapter adapter;

    (void)context;
    served_begin(&served, NULL);
    served_adapter(&served, "b-good", 1);
    served_adapter(&served, "a-good", 2);
    served_adapter(&served, "bad", 3);
    served_adapter(&served, ".hidden", 3);
    scratch_text(&served.place.scratch, "adapters/bad/adapter_config.json", "{}");
    scratch_text(&served.place.scratch, "adapters/a-file", "");
    assert_int_equal(symlink(scratch_at(&served.place.scratch, "adapters/a-good"), scratch_at(&served.place.scratch, "adapters/link")), 0);
    assert_int_equal(server_scan(served.config.worker, served.adapters, served.log), 2);
    assert_true(worker_adapter_at(served.config.worker, 0, &adapter));
    assert_string_equal(adapter.name, "a-good");
    assert_false(worker_adapter_at(served.config.worker, 2, &adapter));
    assert_true(served_logged(&served, "bad is left out"));
    fseek(served.log, 0, SEEK_END);
    assert_int_equal(server_scan(served.config.worker, "/nowhere-at-all", served.log), 0);
    served_end(&served);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_come_one_by_one_then_the_end),
        cmocka_unit_test(a_stop_text_ends_an_answer_before_it),
        cmocka_unit_test(two_connections_may_use_one_id),
        cmocka_unit_test(a_cancelled_request_says_so),
        cmocka_unit_test(a_closed_connection_cancels_its_requests),
        cmocka_unit_test(an_adapter_is_loaded_listed_served_and_unloaded),
        cmocka_unit_test(a_name_leads_nowhere_else),
        cmocka_unit_test(a_folder_is_scanned_and_bad_ones_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
