/* A server behind its socket: answers, adapters, what is refused, what is bounded, and how it ends. */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "talk.h"

#define PROMPT "\"prompt_ids\": [1, 30, 40, 50, 60]"

static struct served served;

/* For a test with an own server, which ends when it is told to drain. */
static void drain(struct talk *talk)
{
    json_t *object = talk_ask(talk, "{\"op\": \"drain\"}");

    assert_string_equal(text_of(object, "op"), "drain");
    json_decref(object);
}

static void drain_and_end(void)
{
    struct talk talk;

    talk_begin(&talk, &served);
    drain(&talk);
    assert_null(talk_hear(&talk));
    talk_end(&talk);
    assert_int_equal(served_wait(&served), STATUS_OK);
    assert_int_not_equal(access(served.socket, F_OK), 0);
    served_end(&served);
}

/* The words of one request, its tokens in `ret_ids`; returns the end, and how many tokens came before. */
static json_t *hear_answer(struct talk *talk, json_int_t id, int32_t *ret_ids, uint32_t *ret_count)
{
    *ret_count = 0;
    for (;;) {
        json_t *object = talk_hear(talk);

        assert_non_null(object);
        assert_int_equal(number_of(object, "id"), id);
        if (number_of(object, "token") < 0)
            return object;
        assert_int_equal(number_of(object, "index"), *ret_count);
        ret_ids[(*ret_count)++] = (int32_t)number_of(object, "token");
        json_decref(object);
    }
}

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
    drain_and_end();
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
    drain_and_end();
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
        json_decref(hear_answer(&talk[i], -5, ids[i], &counts[i]));
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
    drain_and_end();
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
    json_decref(hear_answer(&talk, 3, ids, &count));
    assert_int_equal(count, 2);
    talk_end(&talk);
    drain_and_end();
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
    drain_and_end();
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
    json_decref(hear_answer(&talk, 1, base, &count));
    talk_say(&talk, "{\"op\": \"generate\", \"id\": 1, \"adapter\": \"mine\", " PROMPT ", \"max_tokens\": 16, \"ignore_eos\": true}");
    object = hear_answer(&talk, 1, one, &count);
    assert_string_equal(text_of(object, "adapter_found_in"), "store");
    json_decref(object);
    assert_memory_not_equal(base, one, sizeof(base));

    served_adapter(&served, "mine", 2); /* written anew: served after the next load */
    object = talk_ask(&talk, "{\"op\": \"load\", \"name\": \"mine\"}");
    assert_string_not_equal(text_of(object, "digest"), digest);
    json_decref(object);
    talk_say(&talk, "{\"op\": \"generate\", \"id\": 1, \"adapter\": \"mine\", " PROMPT ", \"max_tokens\": 16, \"ignore_eos\": true}");
    json_decref(hear_answer(&talk, 1, other, &count));
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
    drain_and_end();
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
    drain_and_end();
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

/* --- what is refused and bounded -------------------------------------------------------------------------------------------- */

static void lines_that_cannot_be_taken_are_answered_and_the_next_is_heard(void **context)
{
    static const struct {
        const char *line, *code, *why;
    } lines[] = {
        {"{", "bad_request", ""},
        {"3", "bad_request", ""},
        {"[]", "bad_request", "op:"},
        {"{}", "bad_request", "op:"},
        {"{\"op\": 5}", "bad_request", "op:"},
        {"{\"op\": \"generat\"}", "bad_request", "op:"},
        {"{\"op\": \"state\", \"op\": \"state\"}", "bad_request", "duplicate"},
        {"{\"op\": \"state\", \"verbose\": true}", "bad_request", "no key 'verbose'"},
        {"{\"op\": \"load\", \"name\": \"a\", \"path\": \"/etc\"}", "bad_request", "no key 'path'"},
        {"{\"op\": \"unload\", \"lora_name\": \"a\"}", "bad_request", "no key 'lora_name'"},
        {"{\"op\": \"generate\"}", "bad_request", "id"},
        {"{\"op\": \"generate\", \"id\": \"x\", \"prompt\": \"a\"}", "bad_request", "id"},
        {"{\"op\": \"generate\", \"id\": 1}", "bad_request", "prompt"},
        {"{\"op\": \"generate\", \"id\": 1, \"prompt\": \"a\", \"lora_path\": \"x\"}", "bad_request", "lora_path"},
        {"{\"op\": \"generate\", \"id\": 1, \"prompt_ids\": [300]}", "bad_request", "300"},
        {"{\"op\": \"generate\", \"id\": 1, \"prompt_ids\": [3], \"max_tokens\": 256}", "bad_request", "256"},
        {"{\"op\": \"generate\", \"id\": 1, \"prompt_ids\": [3], \"temperature\": 9}", "bad_request", "temperature"},
        {"\xff\xfe", "bad_request", ""},
    };
    struct talk talk;

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    talk_begin(&talk, &served);
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        talk_say(&talk, "\n%s", lines[i].line); /* an empty line is none */
        talk_expect_error(&talk, lines[i].code, lines[i].why);
    }
    json_decref(talk_ask(&talk, "{\"op\": \"state\"}"));
    talk_end(&talk);
    drain_and_end();
}

static void a_line_of_more_than_4_mib_is_told_and_closed(void **context)
{
    static char bytes[65536];
    struct talk talk;
    struct talk other;

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    talk_begin(&other, &served);
    talk_begin(&talk, &served);
    memset(bytes, 'x', sizeof(bytes));
    for (size_t at = 0; at < SERVER_LINE_BYTES_MAX;) {
        ssize_t sent = send(talk.fd, bytes, sizeof(bytes), MSG_NOSIGNAL);

        if (sent < 0)
            break;
        at += (size_t)sent;
    }
    talk_expect_error(&talk, "bad_request", "4 MiB");
    assert_null(talk_hear(&talk));
    talk_end(&talk);
    json_decref(talk_ask(&other, "{\"op\": \"state\"}"));
    talk_end(&other);
    drain_and_end();
}

/* It asks and asks and reads nothing: it is not heard any more until it reads, others are, and nothing is lost. */
static void one_that_asks_faster_than_it_reads_is_held_back(void **context)
{
    static const char line[] = "{\"op\": \"adapters\"}\n";
    struct talk talk;
    struct talk other;
    char many[sizeof(line) * 64];
    size_t sent = 0;
    size_t asked;

    (void)context;
    served_begin(&served, NULL);
    for (int i = 0; i < 16; i++) {
        char name[16];

        snprintf(name, sizeof(name), "a-%d", i);
        served_adapter(&served, name, 1);
    }
    assert_int_equal(server_scan(served.config.worker, served.adapters, served.log), 16);
    served_start(&served);
    for (int i = 0; i < 64; i++)
        memcpy(many + (size_t)i * (sizeof(line) - 1), line, sizeof(line) - 1);
    talk_begin(&other, &served);
    talk_begin(&talk, &served);
    /* Until nothing more is taken although the server has had a turn. */
    for (int quiet = 0; quiet < 20;) {
        size_t from = sent % (sizeof(line) - 1);
        size_t now = talk_push(&talk, many + from, 64 * (sizeof(line) - 1) - from);

        sent += now;
        quiet = now > 0 ? 0 : quiet + 1;
        if (now == 0)
            json_decref(talk_ask(&other, "{\"op\": \"state\"}"));
    }
    asked = sent / (sizeof(line) - 1);
    assert_true(asked * 16 * 100 > SERVER_OUT_BYTES_MAX); /* more than may wait */
    for (size_t i = 0; i < asked; i++) {
        json_t *object = talk_hear(&talk);

        if (object == NULL)
            fail_msg("closed after %zu of %zu answers", i, asked);
        assert_int_equal(json_array_size(json_object_get(object, "adapters")), 16);
        json_decref(object);
    }
    talk_end(&talk);
    talk_end(&other);
    drain_and_end();
}

static void many_requests(struct worker_config *config)
{
    config->requests_max = 64;
}

static void one_that_does_not_read_its_answers_is_closed(void **context)
{
    struct talk talk;
    struct talk other;
    uint32_t ends = 0;
    json_t *object;

    (void)context;
    served_begin(&served, many_requests);
    served_start(&served);
    talk_begin(&talk, &served);
    talk_begin(&other, &served);
    for (int i = 0; i < 64; i++)
        talk_say(&talk, "{\"op\": \"generate\", \"id\": %d, " PROMPT ", \"max_tokens\": 250, \"ignore_eos\": true, \"logprobs\": 20}", i);
    for (bool idle = false; !idle;) {
        object = talk_ask(&other, "{\"op\": \"state\"}");
        idle = number_of(object, "waiting") + number_of(object, "running") == 0 && number_of(object, "steps") > 0;
        json_decref(object);
    }
    while ((object = talk_hear(&talk)) != NULL) {
        ends += *text_of(object, "finish_reason") != '\0';
        json_decref(object);
        if (memchr(talk.bytes, '\n', talk.count) == NULL && talk.count > 0) {
            char more[1];

            /* A line that was cut by the end. */
            if (recv(talk.fd, more, 1, MSG_PEEK) <= 0)
                break;
        }
    }
    assert_true(ends < 64);
    talk_end(&talk);
    talk_end(&other);
    {
        struct talk last;

        talk_begin(&last, &served);
        drain(&last);
        assert_null(talk_hear(&last));
        talk_end(&last);
    }
    assert_int_equal(served_wait(&served), STATUS_OK);
    assert_true(served_logged(&served, "does not read"));
    served_end(&served);
}

static void connection_65_is_closed(void **context)
{
    static struct talk talk[SERVER_CLIENTS_MAX + 1];

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    for (int i = 0; i < SERVER_CLIENTS_MAX; i++) {
        talk_begin(&talk[i], &served);
        json_decref(talk_ask(&talk[i], "{\"op\": \"state\"}"));
    }
    talk_begin(&talk[SERVER_CLIENTS_MAX], &served);
    assert_null(talk_hear(&talk[SERVER_CLIENTS_MAX]));
    talk_end(&talk[SERVER_CLIENTS_MAX]);
    json_decref(talk_ask(&talk[3], "{\"op\": \"state\"}"));
    talk_end(&talk[3]);
    talk_begin(&talk[3], &served);
    json_decref(talk_ask(&talk[3], "{\"op\": \"state\"}"));
    drain(&talk[3]);
    assert_int_equal(served_wait(&served), STATUS_OK);
    for (int i = 0; i < SERVER_CLIENTS_MAX; i++)
        talk_end(&talk[i]);
    served_end(&served);
}

/* --- how it begins and ends ------------------------------------------------------------------------------------------------- */

static void a_drain_lets_what_is_in_flight_finish(void **context)
{
    struct talk talk;
    struct talk other;
    int32_t ids[256];
    uint32_t count;
    json_t *object;

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    talk_begin(&talk, &served);
    talk_begin(&other, &served);
    talk_say(&talk, "{\"op\": \"generate\", \"id\": 1, " PROMPT ", \"max_tokens\": 250, \"ignore_eos\": true}\n"
                    "{\"op\": \"drain\"}\n"
                    "{\"op\": \"generate\", \"id\": 2, " PROMPT "}");
    object = talk_hear(&talk);
    assert_string_equal(text_of(object, "op"), "drain");
    json_decref(object);
    talk_expect_error(&talk, "busy", "draining");
    object = hear_answer(&talk, 1, ids, &count);
    assert_int_equal(count, 250);
    assert_string_equal(text_of(object, "finish_reason"), "length");
    json_decref(object);
    assert_null(talk_hear(&talk));
    assert_null(talk_hear(&other));
    talk_end(&talk);
    talk_end(&other);
    assert_int_equal(served_wait(&served), STATUS_OK);
    assert_int_not_equal(access(served.socket, F_OK), 0);
    served_end(&served);
}

static void a_stop_cancels_what_is_in_flight_and_says_so(void **context)
{
    struct talk talk;
    uint32_t ends = 0;
    json_t *object;

    (void)context;
    served_begin(&served, one_sequence);
    served_start(&served);
    talk_begin(&talk, &served);
    for (int i = 0; i < 4; i++)
        talk_say(&talk, "{\"op\": \"generate\", \"id\": %d, " PROMPT ", \"max_tokens\": 250, \"ignore_eos\": true}", i);
    json_decref(talk_hear(&talk));
    served_stop(&served);
    while ((object = talk_hear(&talk)) != NULL) {
        ends += *text_of(object, "finish_reason") != '\0';
        json_decref(object);
    }
    assert_int_equal(ends, 4);
    talk_end(&talk);
    assert_int_equal(served_wait(&served), STATUS_OK);
    served_end(&served);
}

static int listener_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    strcpy(address.sun_path, path);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void a_socket_that_was_left_behind_is_replaced(void **context)
{
    struct stat facts;
    struct talk talk;

    (void)context;
    served_begin(&served, NULL);
    close(listener_at(served.socket));
    served_start(&served);
    talk_begin(&talk, &served);
    json_decref(talk_ask(&talk, "{\"op\": \"state\"}"));
    assert_int_equal(stat(served.socket, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    talk_end(&talk);
    drain_and_end();
}

static void another_file_is_left_alone(void **context)
{
    struct stat facts;

    (void)context;
    served_begin(&served, NULL);
    scratch_text(&served.place.scratch, "socket", "precious");
    assert_int_equal(server_run(&served.config, &served.stop, &served.refusal), STATUS_IO);
    assert_non_null(strstr(served.refusal.text, served.socket));
    assert_int_equal(stat(served.socket, &facts), 0);
    assert_int_equal(facts.st_size, 8);
    served_end(&served);
}

static void a_second_server_is_refused(void **context)
{
    struct refusal refusal = {{0}};
    struct talk talk;

    (void)context;
    served_begin(&served, NULL);
    served_start(&served);
    talk_begin(&talk, &served);
    json_decref(talk_ask(&talk, "{\"op\": \"state\"}"));
    assert_int_equal(server_run(&served.config, &served.stop, &refusal), STATUS_IO);
    assert_non_null(strstr(refusal.text, "another server"));
    json_decref(talk_ask(&talk, "{\"op\": \"state\"}"));
    talk_end(&talk);
    drain_and_end();
}

static void a_path_too_long_for_a_socket_is_refused(void **context)
{
    struct refusal refusal = {{0}};
    char path[300];

    (void)context;
    served_begin(&served, NULL);
    memset(path, 'a', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    served.config.socket_path = path;
    assert_int_equal(server_run(&served.config, &served.stop, &refusal), STATUS_INVALID);
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
        cmocka_unit_test(lines_that_cannot_be_taken_are_answered_and_the_next_is_heard),
        cmocka_unit_test(a_line_of_more_than_4_mib_is_told_and_closed),
        cmocka_unit_test(one_that_asks_faster_than_it_reads_is_held_back),
        cmocka_unit_test(one_that_does_not_read_its_answers_is_closed),
        cmocka_unit_test(connection_65_is_closed),
        cmocka_unit_test(a_drain_lets_what_is_in_flight_finish),
        cmocka_unit_test(a_stop_cancels_what_is_in_flight_and_says_so),
        cmocka_unit_test(a_socket_that_was_left_behind_is_replaced),
        cmocka_unit_test(another_file_is_left_alone),
        cmocka_unit_test(a_second_server_is_refused),
        cmocka_unit_test(a_path_too_long_for_a_socket_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
