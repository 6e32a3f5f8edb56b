/* Requests for answers, as clients write them: what is taken, what is passed over, what is refused and by which name. */
#include <stdlib.h>
#include <string.h>

#include "control/api/chat_ask.h"
#include "support.h"

#define CHAT "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define TEXT "\"model\":\"m\",\"prompt\":\"hi\""

static struct chat_ask ask;
static struct fault fault;
static json_t *body;

static bool reads(bool is_chat, const char *text)
{
    json_error_t wrong;

    chat_ask_free(&ask);
    json_decref(body);
    body = json_loads(text, JSON_REJECT_DUPLICATES, &wrong);
    if (body == NULL)
        fail_msg("the test's own JSON: %s", wrong.text);
    fault = (struct fault){0};
    return chat_ask_read(body, is_chat, &ask, &fault);
}

static void refuses(bool is_chat, const char *text, const char *param)
{
    if (reads(is_chat, text))
        fail_msg("taken: %s", text);
    assert_int_equal(fault.status, 400);
    if (fault.param == NULL || strcmp(fault.param, param) != 0)
        fail_msg("%s: blames %s, not %s", text, fault.param != NULL ? fault.param : "nothing", param);
}

static int end(void **context)
{
    (void)context;
    chat_ask_free(&ask);
    json_decref(body);
    body = NULL;
    return 0;
}

static void what_is_asked_becomes_settings(void **context)
{
    char *settings;

    (void)context;
    assert_true(reads(true, "{" CHAT ",\"temperature\":0.5,\"top_p\":0,\"seed\":7,\"n\":3,\"stop\":[\"a\",\"b\"],\"max_completion_tokens\":9,"
                            "\"logprobs\":true,\"top_logprobs\":2,\"logit_bias\":{\"5\":-100},\"presence_penalty\":1,\"frequency_penalty\":-2,"
                            "\"stream\":true,\"stream_options\":{\"include_usage\":true}}"));
    assert_string_equal(ask.model, "m");
    assert_int_equal(ask.choices, 3);
    assert_int_equal(ask.max_tokens, 9);
    assert_true(ask.streams && ask.wants_usage && ask.wants_logprobs);
    settings = chat_ask_settings(&ask, 2);
    assert_string_equal(settings, "{\"temperature\":0.5,\"top_p\":9.9999999999999995e-7,\"presence_penalty\":1.0,\"frequency_penalty\":-2.0,"
                                  "\"logit_bias\":{\"5\":-100},\"stop\":[\"a\",\"b\"],\"logprobs\":2,\"seed\":9}");
    free(settings);
}

static void what_servers_of_many_adapters_take_beside_openais_is_taken(void **context)
{
    char *settings;

    (void)context;
    assert_true(reads(true, "{" CHAT ",\"seed\":1,\"top_k\":40,\"min_p\":0.5,\"repetition_penalty\":1.5,\"ignore_eos\":true}"));
    settings = chat_ask_settings(&ask, 0);
    assert_string_equal(settings, "{\"temperature\":1.0,\"top_k\":40,\"min_p\":0.5,\"repetition_penalty\":1.5,\"ignore_eos\":true,\"seed\":1}");
    free(settings);
    assert_true(reads(false, "{" TEXT ",\"top_k\":-1,\"min_p\":0,\"repetition_penalty\":10,\"ignore_eos\":false}"));
    assert_int_equal(json_integer_value(json_object_get(ask.settings, "top_k")), 0);
    refuses(true, "{" CHAT ",\"top_k\":-2}", "top_k");
    refuses(true, "{" CHAT ",\"top_k\":1.5}", "top_k");
    refuses(true, "{" CHAT ",\"top_k\":99999999999}", "top_k");
    refuses(true, "{" CHAT ",\"min_p\":1}", "min_p");
    refuses(true, "{" CHAT ",\"min_p\":-0.1}", "min_p");
    refuses(true, "{" CHAT ",\"repetition_penalty\":0}", "repetition_penalty");
    refuses(false, "{" TEXT ",\"repetition_penalty\":10.1}", "repetition_penalty");
    refuses(false, "{" TEXT ",\"ignore_eos\":1}", "ignore_eos");
}

static void without_a_seed_each_request_has_its_own_and_the_defaults_are_openais(void **context)
{
    int64_t seed;

    (void)context;
    assert_true(reads(true, "{" CHAT "}"));
    seed = ask.seed;
    assert_int_equal(ask.max_tokens, 0);
    assert_float_equal(json_number_value(json_object_get(ask.settings, "temperature")), 1, 0);
    assert_true(reads(true, "{" CHAT "}"));
    assert_true(seed != ask.seed);
    assert_true(reads(false, "{" TEXT "}"));
    assert_int_equal(ask.max_tokens, 16);
}

static void what_clients_send_and_what_changes_nothing_is_passed_over(void **context)
{
    (void)context;
    assert_true(reads(true, "{" CHAT ",\"user\":\"u\",\"store\":false,\"metadata\":{\"a\":\"b\"},\"service_tier\":\"auto\",\"parallel_tool_calls\":true,"
                            "\"safety_identifier\":\"s\",\"prompt_cache_key\":\"k\",\"modalities\":[\"text\"],\"response_format\":{\"type\":\"text\"},"
                            "\"tools\":null,\"stop\":null,\"n\":null,\"audio\":null,\"tool_choice\":\"auto\"}"));
}

static void what_is_not_known_or_out_of_range_is_refused_by_name(void **context)
{
    (void)context;
    refuses(true, "{" CHAT ",\"temprature\":1}", "temprature");
    assert_non_null(strstr(fault.text, "did you mean temperature"));
    refuses(true, "{" CHAT ",\"audio\":{}}", "audio");
    refuses(true, "{" CHAT ",\"temperature\":2.1}", "temperature");
    refuses(true, "{" CHAT ",\"top_p\":-0.1}", "top_p");
    refuses(true, "{" CHAT ",\"presence_penalty\":3}", "presence_penalty");
    refuses(true, "{" CHAT ",\"n\":129}", "n");
    refuses(true, "{" CHAT ",\"n\":0}", "n");
    refuses(true, "{" CHAT ",\"max_tokens\":0}", "max_tokens");
    refuses(true, "{" CHAT ",\"max_tokens\":1,\"max_completion_tokens\":1}", "max_completion_tokens");
    refuses(true, "{" CHAT ",\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}", "stop");
    refuses(true, "{" CHAT ",\"stop\":\"\"}", "stop");
    refuses(true, "{" CHAT ",\"top_logprobs\":2}", "top_logprobs");
    refuses(true, "{" CHAT ",\"logprobs\":true,\"top_logprobs\":21}", "top_logprobs");
    refuses(true, "{" CHAT ",\"logit_bias\":{\"x\":1}}", "logit_bias");
    refuses(true, "{" CHAT ",\"logit_bias\":{\"1\":101}}", "logit_bias");
    refuses(true, "{" CHAT ",\"response_format\":{\"type\":\"json_object\"}}", "response_format");
    refuses(true, "{" CHAT ",\"tool_choice\":\"required\"}", "tool_choice");
    refuses(true, "{" CHAT ",\"store\":true}", "store");
    refuses(true, "{" CHAT ",\"service_tier\":\"flex\"}", "service_tier");
    refuses(true, "{" CHAT ",\"stream_options\":{\"include_usage\":true}}", "stream_options");
    refuses(true, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", "model");
    refuses(true, "{\"model\":\"m\"}", "messages");
    refuses(true, "{" CHAT ",\"prompt\":\"x\"}", "prompt");
}

static void messages_are_texts_and_parts_are_joined(void **context)
{
    (void)context;
    assert_true(reads(true, "{\"model\":\"m\",\"messages\":[{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
                            "{\"role\":\"assistant\",\"content\":null,\"refusal\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\","
                            "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"1\"}]}"));
    assert_string_equal(json_string_value(json_object_get(json_array_get(ask.messages, 0), "content")), "ab");
    assert_true(json_is_null(json_object_get(json_array_get(ask.messages, 1), "content")));
    assert_null(json_object_get(json_array_get(ask.messages, 1), "refusal"));
    refuses(true, "{\"model\":\"m\",\"messages\":[]}", "messages");
    refuses(true, "{\"model\":\"m\",\"messages\":[{\"role\":\"king\",\"content\":\"a\"}]}", "messages");
    refuses(true, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}]}", "messages");
    refuses(true, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", "messages");
    refuses(true, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"wieght\":1}]}", "messages");
    assert_non_null(strstr(fault.text, "messages[0] has an unknown key 'wieght'"));
}

static void tools_that_the_model_may_not_call_are_not_shown(void **context)
{
    (void)context;
    assert_true(reads(true, "{" CHAT ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}"));
    assert_non_null(ask.tools);
    assert_true(reads(true, "{\"tool_choice\":\"none\"," CHAT ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}"));
    assert_null(ask.tools);
    refuses(true, "{" CHAT ",\"tools\":[{\"type\":\"web_search\"}]}", "tools");
}

static void prompts_are_texts_or_ids_and_all_their_answers_are_counted(void **context)
{
    (void)context;
    assert_true(reads(false, "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"],\"n\":64,\"logprobs\":5,\"best_of\":64,\"echo\":false,\"suffix\":null}"));
    assert_int_equal(ask.prompts, 2);
    assert_int_equal(ask.top_logprobs, 5);
    assert_true(reads(false, "{\"model\":\"m\",\"prompt\":[1,2,3]}"));
    assert_int_equal(ask.prompts, 1);
    assert_true(reads(false, "{\"model\":\"m\",\"prompt\":[[1,2],[3]]}"));
    assert_int_equal(ask.prompts, 2);
    refuses(false, "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"],\"n\":65}", "n");
    refuses(false, "{\"model\":\"m\",\"prompt\":[1,\"b\"]}", "prompt");
    refuses(false, "{\"model\":\"m\",\"prompt\":[-1]}", "prompt");
    refuses(false, "{\"model\":\"m\",\"prompt\":[]}", "prompt");
    refuses(false, "{" TEXT ",\"echo\":true}", "echo");
    refuses(false, "{" TEXT ",\"suffix\":\"x\"}", "suffix");
    refuses(false, "{" TEXT ",\"logprobs\":6}", "logprobs");
    refuses(false, "{" TEXT ",\"best_of\":2}", "best_of");
    refuses(false, "{" TEXT ",\"messages\":[]}", "messages");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_asked_becomes_settings, end),
        cmocka_unit_test_teardown(what_servers_of_many_adapters_take_beside_openais_is_taken, end),
        cmocka_unit_test_teardown(without_a_seed_each_request_has_its_own_and_the_defaults_are_openais, end),
        cmocka_unit_test_teardown(what_clients_send_and_what_changes_nothing_is_passed_over, end),
        cmocka_unit_test_teardown(what_is_not_known_or_out_of_range_is_refused_by_name, end),
        cmocka_unit_test_teardown(messages_are_texts_and_parts_are_joined, end),
        cmocka_unit_test_teardown(tools_that_the_model_may_not_call_are_not_shown, end),
        cmocka_unit_test_teardown(prompts_are_texts_or_ids_and_all_their_answers_are_counted, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
