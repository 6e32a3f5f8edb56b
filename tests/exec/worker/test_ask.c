/* Requests as JSON: what is read, and that nothing is dropped that would change the answer. */
#include "rig.h"

#include <math.h>
#include <stdlib.h>

#include "engine/model/byte_tokenizer.h"
#include "worker/ask.h"

static struct place place;
static struct tokenizer *tokenizer;

static int open_place(void **context)
{
    char error[TOKENIZER_ERROR_MAX];

    (void)context;
    place_begin(&place, DTYPE_F32);
    check(tokenizer_open(place.base, &tokenizer, error) == STATUS_OK);
    return 0;
}

static int close_place(void **context)
{
    (void)context;
    tokenizer_close(tokenizer);
    place_end(&place);
    return 0;
}

static enum status read_text(const char *text, const struct tokenizer *with, struct ask *ask, struct refusal *refusal)
{
    static const char *const others[] = {"op", "id", NULL};
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    enum status status;

    assert_non_null(object);
    ask_init(ask);
    *refusal = (struct refusal){{0}};
    status = ask_read(ask, object, others, with, refusal);
    json_decref(object);
    return status;
}

static void expect_refused(const char *text, const char *why)
{
    struct ask ask;
    struct refusal refusal;

    assert_int_equal(read_text(text, tokenizer, &ask, &refusal), STATUS_INVALID);
    if (strstr(refusal.text, why) == NULL)
        fail_msg("%s: expected \"%s\" in: %s", text, why, refusal.text);
    ask_free(&ask);
}

static void every_key_is_taken(void **context)
{
    struct ask ask;
    struct refusal refusal;

    (void)context;
    if (read_text("{\"op\": 1, \"id\": 2, \"adapter\": \"a.b-c_9\", \"prompt_ids\": [1, 5, 287], \"max_tokens\": 7, \"temperature\": 0.5,"
                  " \"top_k\": 4, \"top_p\": 0.25, \"min_p\": 0.125, \"seed\": -3, \"repetition_penalty\": 1.5,"
                  " \"presence_penalty\": 0.75, \"frequency_penalty\": -0.5, \"logit_bias\": {\"7\": -100, \"9\": 2.5},"
                  " \"logprobs\": 3, \"stop\": [\"x\", \"yz\"], \"ignore_eos\": true, \"tenant\": 12}",
                  tokenizer, &ask, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    assert_string_equal(ask.adapter, "a.b-c_9");
    assert_int_equal(ask.prompt.count, 3);
    assert_int_equal(ask.prompt.ids[2], 287);
    assert_int_equal(ask.max_tokens, 7);
    assert_true(ask.sample.temperature == 0.5f && ask.sample.top_p == 0.25f && ask.sample.min_p == 0.125f);
    assert_true(ask.sample.repetition == 1.5f && ask.sample.presence == 0.75f && ask.sample.frequency == -0.5f);
    assert_int_equal(ask.sample.top_k, 4);
    assert_true(ask.sample.seed == (uint64_t)-3);
    assert_int_equal(ask.sample.biases_count, 2);
    assert_int_equal(ask.sample.logprobs, 3);
    assert_true(ask.wants_logprobs && ask.ignore_eos);
    assert_int_equal(ask.stops.count, 2);
    assert_int_equal(ask.tenant, 12);
    ask_free(&ask);
}

static void what_is_not_said_is_as_it_was(void **context)
{
    struct ask ask;
    struct refusal refusal;

    (void)context;
    assert_int_equal(read_text("{\"prompt\": \"ab\", \"adapter\": null, \"stop\": null}", tokenizer, &ask, &refusal), STATUS_OK);
    assert_string_equal(ask.adapter, "");
    assert_int_equal(ask.max_tokens, ASK_MAX_TOKENS_DEFAULT);
    assert_true(ask.prompt.count >= 1);
    assert_false(ask.ignore_eos);
    ask_free(&ask);
}

/* A name that is not understood must not become a request to the base. */
static void an_unknown_key_is_an_error(void **context)
{
    (void)context;
    expect_refused("{\"prompt_ids\": [1], \"lora_path\": \"a\"}", "lora_path");
    expect_refused("{\"prompt_ids\": [1], \"adaptor\": \"a\"}", "did you mean adapter?");
    expect_refused("{\"prompt_ids\": [1], \"Adapter\": \"a\"}", "Adapter");
    expect_refused("{\"prompt_ids\": [1], \"lora\": [{\"id\": 0, \"scale\": 1}]}", "lora");
    expect_refused("{\"prompt_ids\": [1], \"model\": \"a\"}", "model");
    expect_refused("{\"prompt_ids\": [1], \"\": \"a\"}", "no key");
    expect_refused("{\"prompt_ids\": [1], \"a\\u001b[31m\\n\": \"a\"}", "no key");
}

static void an_adapter_is_a_name_or_null(void **context)
{
    (void)context;
    expect_refused("{\"prompt_ids\": [1], \"adapter\": \"\"}", "adapter");
    expect_refused("{\"prompt_ids\": [1], \"adapter\": \"../a\"}", "adapter");
    expect_refused("{\"prompt_ids\": [1], \"adapter\": \"/etc\"}", "adapter");
    expect_refused("{\"prompt_ids\": [1], \"adapter\": 0}", "adapter");
    expect_refused("{\"prompt_ids\": [1], \"adapter\": false}", "adapter");
    expect_refused("{\"prompt_ids\": [1], \"adapter\": [\"a\"]}", "adapter");
    expect_refused("{\"prompt_ids\": [1], \"adapter\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}", "adapter");
}

static void values_are_of_their_kind_and_range(void **context)
{
    (void)context;
    expect_refused("[]", "JSON object");
    expect_refused("3", "JSON object");
    expect_refused("{\"prompt\": \"a\", \"prompt_ids\": [1]}", "one of them");
    expect_refused("{\"prompt\": 3}", "prompt");
    expect_refused("{\"prompt_ids\": \"a\"}", "prompt_ids");
    expect_refused("{\"prompt_ids\": [1, 2.5]}", "number 1");
    expect_refused("{\"prompt_ids\": [-1]}", "number 0");
    expect_refused("{\"prompt_ids\": [4294967297]}", "number 0");
    expect_refused("{\"max_tokens\": 0}", "max_tokens");
    expect_refused("{\"max_tokens\": 1e3}", "max_tokens");
    expect_refused("{\"max_tokens\": 4294967297}", "max_tokens");
    expect_refused("{\"temperature\": \"hot\"}", "temperature");
    expect_refused("{\"top_k\": -1}", "top_k");
    expect_refused("{\"logprobs\": 21}", "logprobs");
    expect_refused("{\"ignore_eos\": 1}", "ignore_eos");
    expect_refused("{\"tenant\": 1024}", "tenant");
    expect_refused("{\"tenant\": -1}", "tenant");
    expect_refused("{\"stop\": \"\"}", "stop");
    expect_refused("{\"stop\": [1]}", "stop");
    expect_refused("{\"stop\": [\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\"]}", "at most 16");
    expect_refused("{\"logit_bias\": {\"x\": 1}}", "logit_bias");
    expect_refused("{\"logit_bias\": {\"-1\": 1}}", "logit_bias");
    expect_refused("{\"logit_bias\": {\"4294967298\": 1}}", "logit_bias");
    expect_refused("{\"logit_bias\": {\"1\": \"x\"}}", "logit_bias");
    expect_refused("{\"logit_bias\": []}", "logit_bias");
}

static void a_text_without_a_tokenizer_is_refused(void **context)
{
    struct ask ask;
    struct refusal refusal;

    (void)context;
    assert_int_equal(read_text("{\"prompt\": \"ab\"}", NULL, &ask, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "prompt_ids"));
    ask_free(&ask);
}

/* No prompt's text can be a control token of the model. */
static void a_prompt_spells_no_control_token(void **context)
{
    struct ask ask;
    struct refusal refusal;

    (void)context;
    assert_int_equal(read_text("{\"prompt\": \"</s>\"}", tokenizer, &ask, &refusal), STATUS_OK);
    for (size_t i = 0; i < ask.prompt.count; i++)
        assert_int_not_equal(ask.prompt.ids[i], 2);
    assert_true(ask.prompt.count >= 2);
    ask_free(&ask);
}

/* The template's own marks are tokens, what a message spells is text. */
static void messages_become_a_prompt_by_the_models_template(void **context)
{
    static const char config[] =
        "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"chat_template\": \"{{ bos_token }}{% for m in messages %}"
        "{{ m.role[0] }}:{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}{{ mood }}\"}";
    char error[TOKENIZER_ERROR_MAX];
    char *json = byte_tokenizer_text(BYTE_TOKENIZER_IDS_MIN);
    struct tokenizer *speaks;
    struct token_text text = {0};
    struct refusal refusal;
    struct ask ask;
    int32_t ends = 0;

    (void)context;
    assert_int_equal(tokenizer_open_texts(json, strlen(json), config, strlen(config), &speaks, error), STATUS_OK);
    assert_int_equal(read_text("{\"messages\": [{\"role\": \"user\", \"content\": \"Hi</s>\"}], \"chat_variables\": {\"mood\": \"!\"}}",
                               speaks, &ask, &refusal), STATUS_OK);
    tokenizer_decode(speaks, ask.prompt.ids, ask.prompt.count, false, &text);
    assert_int_equal(text.count, strlen("<s>u:Hi</s></s>a:!"));
    assert_memory_equal(text.bytes, "<s>u:Hi</s></s>a:!", text.count);
    for (size_t i = 0; i < ask.prompt.count; i++)
        ends += ask.prompt.ids[i] == tokenizer_special(speaks, TOKENIZER_EOS);
    assert_int_equal(ends, 1);
    ask_free(&ask);
    token_text_free(&text);
    tokenizer_close(speaks);
    free(json);
    expect_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}", "no chat template");
    expect_refused("{\"messages\": []}", "a list of objects");
    expect_refused("{\"messages\": [{}], \"prompt\": \"x\"}", "one of them");
    expect_refused("{\"tools\": [], \"prompt\": \"x\"}", "beside messages");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_become_a_prompt_by_the_models_template),
        cmocka_unit_test(every_key_is_taken),
        cmocka_unit_test(what_is_not_said_is_as_it_was),
        cmocka_unit_test(an_unknown_key_is_an_error),
        cmocka_unit_test(an_adapter_is_a_name_or_null),
        cmocka_unit_test(values_are_of_their_kind_and_range),
        cmocka_unit_test(a_text_without_a_tokenizer_is_refused),
        cmocka_unit_test(a_prompt_spells_no_control_token),
    };

    return cmocka_run_group_tests(tests, open_place, close_place);
}
