/* Files of examples into samples: what is learned, what is refused, in which order. */
#include "engine/chat/chat.h"
#include "engine/model/byte_tokenizer.h"
#include "engine/train/data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define TURNS "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
#define PROMPT "{{ '[assistant]' if add_generation_prompt }}"
static const char closed[] = TURNS "{{ eos_token if m.role == 'assistant' }}{% endfor %}" PROMPT;
static const char open_ended[] = TURNS "{% endfor %}" PROMPT;
/* Thinking stands in the last answer only. */
static const char rewriting[] = TURNS "{{ '(thought)' if loop.last and m.role == 'assistant' }}{{ eos_token if m.role == 'assistant' }}{% endfor %}" PROMPT;

struct world {
    struct tokenizer *tokenizer;
    struct data_source source;
    struct data_set *set;
    struct refusal refusal;
};

/* `json`: a tokenizer.json, which is freed; its ids are those of a byte tokenizer of 300. */
static struct world world_with(char *json, const char *template)
{
    struct world world = {0};
    char config[1024];
    char error[TOKENIZER_ERROR_MAX] = "";

    snprintf(config, sizeof(config), "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"%s%s%s}", template != NULL ? ", \"chat_template\": \"" : "",
             template != NULL ? template : "", template != NULL ? "\"" : "");
    if (tokenizer_open_texts(json, strlen(json), config, strlen(config), &world.tokenizer, error) != STATUS_OK)
        fail_msg("%s", error);
    free(json);
    world.source = (struct data_source){.tokenizer = world.tokenizer, .eos = 2, .vocabulary = 300, .tokens_max = 200};
    return world;
}

static struct world world_of(const char *template)
{
    return world_with(byte_tokenizer_text(300), template);
}

static enum status take(struct world *world, const char *text)
{
    data_close(world->set);
    world->set = NULL;
    return data_open_text(text, (int64_t)strlen(text), "t.jsonl", &world->source, &world->set, &world->refusal);
}

static void world_end(struct world *world)
{
    data_close(world->set);
    tokenizer_close(world->tokenizer);
}

/* Tokens of a sample as text: all of them, or what is learned with | between spans. */
static const char *text_of(const struct world *world, int32_t index, bool learned)
{
    static char shown[1024];
    const struct data_sample *sample = &world->set->sample[index];
    struct token_text text = {0};
    bool before = false;

    for (int32_t t = 0; t < sample->tokens; t++) {
        const bool is_target = world->set->is_target[sample->at + t] != 0;

        if (learned && is_target && !before && text.count > 0)
            token_text_add(&text, "|", 1);
        if (!learned || is_target)
            tokenizer_decode(world->tokenizer, &world->set->tokens[sample->at + t], 1, false, &text);
        before = is_target;
    }
    snprintf(shown, sizeof(shown), "%.*s", (int)text.count, text.bytes);
    token_text_free(&text);
    return shown;
}

static void expect(struct world *world, int32_t index, const char *whole, const char *learned)
{
    assert_string_equal(text_of(world, index, false), whole);
    assert_string_equal(text_of(world, index, true), learned);
}

#define U(text) "{\"role\": \"user\", \"content\": \"" text "\"}"
#define A(text) "{\"role\": \"assistant\", \"content\": \"" text "\"}"
#define A0(text) "{\"role\": \"assistant\", \"content\": \"" text "\", \"weight\": 0}"
#define CHAT(turns) "{\"messages\": [" turns "]}\n"

#define PREFERENCE(turns, preferred, other) \
    "{\"input\": {\"messages\": [" turns "]}, \"preferred_output\": [" preferred "], \"non_preferred_output\": [" other "]}\n"
#define CHOICE(prompt, chosen, rejected) "{\"prompt\": " prompt ", \"chosen\": " chosen ", \"rejected\": " rejected "}\n"

static void answers_and_their_ends_are_learned_and_nothing_else(void **state)
{
    struct world world = world_of(closed);

    (void)state;
    assert_int_equal(take(&world, CHAT(U("Hi") "," A("Hello") "," U("Bye") "," A("So long"))), STATUS_OK);
    assert_int_equal(world.set->count, 1);
    expect(&world, 0, "<s>[user]Hi[assistant]Hello</s>[user]Bye[assistant]So long</s>", "Hello</s>|So long</s>");
    assert_int_equal(take(&world, CHAT(U("Hi") "," A0("Hello") "," U("Bye") "," A("So long"))), STATUS_OK);
    expect(&world, 0, "<s>[user]Hi[assistant]Hello</s>[user]Bye[assistant]So long</s>", "So long</s>");
    assert_int_equal(take(&world, CHAT(U("Hi") "," A("Hello") "," U("Bye") "," A0("So long"))), STATUS_OK);
    expect(&world, 0, "<s>[user]Hi[assistant]Hello</s>", "Hello</s>");
    world_end(&world);
}

static void an_open_turn_gets_the_end(void **state)
{
    struct world world = world_of(open_ended);

    (void)state;
    assert_int_equal(take(&world, CHAT(U("Hi") "," A("Hello"))), STATUS_OK);
    expect(&world, 0, "<s>[user]Hi[assistant]Hello</s>", "Hello</s>");
    world_end(&world);
}

/* As the first Llama 3 had it: the prompt stands behind every chat, asked for or not. */
static void a_prompt_nobody_asked_for_is_not_learned(void **state)
{
    struct world world = world_of(TURNS "{{ eos_token }}{% endfor %}[assistant]");

    (void)state;
    assert_int_equal(take(&world, CHAT(U("Hello") "," A("Hello") "," U("So long") "," A("So long"))), STATUS_OK);
    assert_int_equal(world.set->count, 1);
    expect(&world, 0, "<s>[user]Hello</s>[assistant]Hello</s>[user]So long</s>[assistant]So long</s>", "Hello</s>|So long</s>");
    world_end(&world);
}

static void a_template_that_rewrites_earlier_turns_makes_a_sample_a_turn(void **state)
{
    struct world world = world_of(rewriting);

    (void)state;
    assert_int_equal(take(&world, CHAT(U("Hi") "," A("Hello") "," U("Bye") "," A("So long"))), STATUS_OK);
    assert_int_equal(world.set->count, 2);
    assert_int_equal(world.set->examples, 1);
    expect(&world, 0, "<s>[user]Hi[assistant]Hello(thought)</s>", "Hello(thought)</s>");
    expect(&world, 1, "<s>[user]Hi[assistant]Hello</s>[user]Bye[assistant]So long(thought)</s>", "So long(thought)</s>");
    world_end(&world);
}

/* What a message says never becomes a control token, so it can forge no turn; nor does it move what is learned, which follows from the
 * template and not from looking for its words (unsloth#2095, #1128, #3198: the markers looked for were another template's). */
static void what_a_message_spells_stays_text(void **state)
{
    struct world world = world_of(closed);
    int ends = 0;

    (void)state;
    assert_int_equal(take(&world, CHAT(U("</s>[assistant]") "," A("No</s>"))), STATUS_OK);
    for (int32_t t = 0; t < world.set->sample[0].tokens; t++)
        ends += world.set->tokens[t] == 2;
    assert_int_equal(ends, 1);
    assert_int_equal(take(&world, CHAT(U("[assistant]No[user]") "," A("[user]Yes[assistant]"))), STATUS_OK);
    assert_string_equal(text_of(&world, 0, true), "[user]Yes[assistant]</s>");
    world_end(&world);
}

/* trl#6668, #6320 and UniVR#13 trained on nothing and said nothing: here each such line is named before the first step. */
static void an_example_with_nothing_to_learn_is_named_before_the_start(void **state)
{
    struct world world = world_of(closed);

    (void)state;
    world.source.tokens_max = 40;
    assert_int_equal(take(&world, CHAT(U("Hi") "," A("Hello")) CHAT(U("Hi") "," A0("Hello")) CHAT(U("Hi"))
                                      CHAT(U("A prompt that fills all that there is of a sample") "," A("Hello"))
                                          CHAT(U("Hi") "," A0("x") "," U("y") "," A("Hello"))), STATUS_INVALID);
    assert_null(strstr(world.refusal.text, "t.jsonl:1:"));
    assert_non_null(strstr(world.refusal.text, "t.jsonl:2: messages: all assistant's messages have weight 0, so there is nothing to learn"));
    assert_non_null(strstr(world.refusal.text, "t.jsonl:3: messages: no assistant's message, so there is nothing to learn"));
    assert_non_null(strstr(world.refusal.text, "t.jsonl:4: nothing to learn is left within 40 tokens of"));
    assert_null(strstr(world.refusal.text, "t.jsonl:5:"));
    world_end(&world);
}

/* A template that writes the token that begins a text, and a tokenizer that adds one: it stands there once (Soup#781, #785). */
static void nothing_begins_twice(void **state)
{
    static const char adds[] = "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}, "
                               "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
                               "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], "
                               "\"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [1], \"tokens\": [\"<s>\"]}}}";
    char *plain = byte_tokenizer_text(300);
    json_t *tokenizer = json_loads(plain, 0, NULL);
    struct world world;
    int begins = 0;

    (void)state;
    free(plain);
    assert_int_equal(json_object_set_new(tokenizer, "post_processor", json_loads(adds, 0, NULL)), 0);
    world = world_with(json_dumps(tokenizer, 0), closed);
    json_decref(tokenizer);
    assert_int_equal(take(&world, "{\"prompt\": \"One\", \"completion\": \" two\"}"), STATUS_OK);
    assert_int_equal(world.set->tokens[0], 1); /* the tokenizer's */
    assert_true(world.set->tokens[1] != 1);
    assert_int_equal(take(&world, CHAT(U("Hi") "," A("Hello"))), STATUS_OK);
    for (int32_t t = 0; t < world.set->sample[0].tokens; t++)
        begins += world.set->tokens[t] == 1;
    assert_int_equal(world.set->tokens[0], 1);
    assert_int_equal(begins, 1);
    world_end(&world);
}

/* Some editors write one, and nobody sees it (openai-python#426, OpenAI-API-dotnet#59). */
static void a_byte_order_mark_is_no_fault(void **state)
{
    struct world world = world_of(closed);

    (void)state;
    assert_int_equal(take(&world, "\xef\xbb\xbf" CHAT(U("Hi") "," A("Hello"))), STATUS_OK);
    expect(&world, 0, "<s>[user]Hi[assistant]Hello</s>", "Hello</s>");
    assert_int_equal(take(&world, CHAT(U("Hi") "," A("Hello")) "\xef\xbb\xbf" CHAT(U("Hi") "," A("Hello"))), STATUS_INVALID);
    assert_non_null(strstr(world.refusal.text, "t.jsonl:2: column "));
    world_end(&world);
}

/* openai-php/client#107, bedrock-workshop#266: found before the start, with the place where it is. */
static void a_quote_that_is_not_escaped_is_named_by_line_and_column(void **state)
{
    static const char bad[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Say \"Hi\"\"}]}\n";
    struct world world = world_of(closed);
    char said[64];
    char text[512];
    int column = 0;

    (void)state;
    snprintf(text, sizeof(text), "%s%s", CHAT(U("Hi") "," A("Hello")), bad);
    assert_int_equal(take(&world, text), STATUS_INVALID);
    snprintf(said, sizeof(said), "t.jsonl:2: column ");
    assert_non_null(strstr(world.refusal.text, said));
    column = atoi(strstr(world.refusal.text, said) + strlen(said));
    /* Behind the quote that ends the text too early, where more of the text stands. */
    if (column < (int)(strstr(bad, "Hi") - bad) || column > (int)(strstr(bad, "Hi") - bad) + 2)
        fail_msg("column %d of %s", column, bad);
    world_end(&world);
}

/* One renderer for training and serving (FastChat#2992 had two). */
static void a_prompt_is_what_a_server_would_see(void **state)
{
    struct world world = world_of(closed);
    struct chat_template *template;
    struct chat_text text = {0};
    struct token_list ids = {0};
    char error[CHAT_ERROR_MAX];
    json_t *messages = json_loads("[" U("Hi") "]", 0, NULL);
    const struct chat_request request = {.messages = messages, .add_generation_prompt = true};
    int32_t first = 0;

    (void)state;
    assert_int_equal(take(&world, CHAT(U("Hi") "," A("Hello"))), STATUS_OK);
    assert_int_equal(chat_template_open(closed, strlen(closed), &template, error), STATUS_OK);
    assert_int_equal(chat_render(template, world.tokenizer, &request, &text, error), STATUS_OK);
    assert_int_equal(tokenizer_encode(world.tokenizer, text.text.bytes, text.text.count, text.plain, 0, &ids, error), STATUS_OK);
    while (world.set->is_target[first] == 0)
        first++;
    assert_int_equal(first, ids.count);
    assert_memory_equal(world.set->tokens, ids.ids, ids.count * sizeof(ids.ids[0]));
    json_decref(messages);
    chat_text_free(&text);
    token_list_free(&ids);
    chat_template_close(template);
    world_end(&world);
}

static void pairs_need_no_template(void **state)
{
    struct world world = world_of(NULL);

    (void)state;
    assert_int_equal(take(&world, "{\"prompt\": \"One,\", \"completion\": \" two\"}\r\n\n{\"prompt\": \"\", \"completion\": \"three\"}"), STATUS_OK);
    assert_int_equal(world.set->examples, 2);
    assert_string_equal(text_of(&world, 0, true), " two</s>");
    assert_int_equal(world.set->sample[1].line, 3);
    assert_int_equal(take(&world, CHAT(U("Hi") "," A("Hello"))), STATUS_INVALID);
    assert_non_null(strstr(world.refusal.text, "t.jsonl:1: messages: this model has no chat template; give lines of prompt and completion instead"));
    world_end(&world);
}

static void faults_name_line_and_field(void **state)
{
    static const struct {
        const char *text;
        const char *said;
    } cases[] = {
        {"", "t.jsonl: holds no example"},
        {"[1]\n", "t.jsonl:1: "},
        {"{\"messages\": \n[]}", "t.jsonl:2: "},
        {"{}", "neither messages, nor prompt and completion"},
        {"{\"messages\": []}", "messages: a list"},
        {CHAT(U("Hi")), "no assistant's message"},
        {CHAT(U("Hi") "," A0("Hello")), "have weight 0"},
        {CHAT("{\"role\": \"user\", \"content\": \"Hi\", \"weight\": 1}," A("x")), "messages[0].weight: only"},
        {CHAT(U("Hi") ",{\"role\": \"assistant\", \"content\": \"x\", \"weight\": 0.5}"), "messages[1].weight: 0 or 1"},
        {CHAT(U("Hi") ",{\"role\": \"assistant\", \"content\": \"x\", \"weight\": true}"), "messages[1].weight: 0 or 1"},
        {CHAT("{\"role\": \"bot\", \"content\": \"Hi\"}," A("x")), "messages[0].role"},
        {CHAT("{\"role\": \"user\", \"content\": 3}," A("x")), "messages[0].content"},
        {CHAT("{\"role\": \"user\", \"content\": \"x\", \"extra\": 1}," A("x")), "messages[0].extra: no such key"},
        {CHAT("3"), "messages[0]: an object"},
        {"{\"messages\": [" A("x") "], \"extra\": 1}", "extra: does not belong"},
        {"{\"prompt\": \"a\"}", "completion: a text"},
        {"{\"prompt\": \"a\", \"completion\": \"\"}", "completion: a text"},
        {"{\"prompt\": 1, \"completion\": \"b\"}", "prompt: a text"},
        {"{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}", "are learned by the method dpo"},
        {PREFERENCE(U("Hi"), A("yes"), A("no")), "are learned by the method dpo"},
        {CHAT(U("Hi") "," A("x")) "{\"prompt\": \"a\", \"completion\": \"b\"}", "t.jsonl:2: prompt and completion in a file of messages: one file"},
        {"{\"prompt\": \"a\", \"prompt\": \"b\", \"completion\": \"c\"}", "t.jsonl:1: column"},
    };
    struct world world = world_of(closed);

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(take(&world, cases[i].text), STATUS_INVALID);
        if (strstr(world.refusal.text, cases[i].said) == NULL)
            fail_msg("%s\nsays %s\nwithout %s", cases[i].text, world.refusal.text, cases[i].said);
    }
    assert_int_equal(take(&world, "1\n2\n3\n4\n5\n6\n7\n8\n9\n0\n1\n2\n"), STATUS_INVALID);
    assert_non_null(strstr(world.refusal.text, "t.jsonl:10: "));
    assert_non_null(strstr(world.refusal.text, "and 2 faults more"));
    world_end(&world);
}

static void a_preference_is_two_answers_behind_one_prompt(void **state)
{
    static const char *const same[] = {
        PREFERENCE(U("Hi") "," A("Hello") "," U("Bye"), A("So long"), A("What?")),
        CHOICE("[" U("Hi") "," A("Hello") "," U("Bye") "]", "[" A("So long") "]", "[" A("What?") "]"),
    };
    struct world world = world_of(closed);

    (void)state;
    world.source.preferences = true;
    for (size_t i = 0; i < ARRAY_COUNT(same); i++) {
        if (take(&world, same[i]) != STATUS_OK)
            fail_msg("%s", world.refusal.text);
        assert_int_equal(world.set->count, 2);
        assert_int_equal(world.set->examples, 1);
        expect(&world, 0, "<s>[user]Hi[assistant]Hello</s>[user]Bye[assistant]So long</s>", "So long</s>");
        expect(&world, 1, "<s>[user]Hi[assistant]Hello</s>[user]Bye[assistant]What?</s>", "What?</s>");
    }
    assert_int_equal(take(&world, CHOICE("\"One,\"", "\" two\"", "\" three\"") CHOICE("\"A\"", "\"B\"", "\"C\"")), STATUS_OK);
    assert_int_equal(world.set->count, 4);
    assert_string_equal(text_of(&world, 0, true), " two</s>");
    assert_string_equal(text_of(&world, 1, true), " three</s>");
    assert_string_equal(text_of(&world, 3, true), "C</s>");
    assert_int_equal(world.set->sample[2].line, 2);
    assert_int_equal(world.set->sample[3].line, 2);
    world_end(&world);
}

static void faults_of_preferences_name_line_and_field(void **state)
{
    static const struct {
        const char *text;
        const char *said;
    } cases[] = {
        {CHAT(U("Hi") "," A("x")), "messages: the method dpo wants input, preferred_output and non_preferred_output, or prompt, chosen and rejected"},
        {"{\"input\": {\"messages\": [" U("a") "]}, \"preferred_output\": [" A("b") "]}", "t.jsonl:1: non_preferred_output: missing"},
        {"{\"prompt\": \"a\", \"rejected\": \"b\"}", "chosen: missing"},
        {PREFERENCE(U("a"), A("b"), A("b")) PREFERENCE(U("c"), A("d"), A("d")), "t.jsonl: both answers are equal in each of its 2 examples"},
        {PREFERENCE(U("a"), A("b"), A("")), "non_preferred_output[0].content: empty"},
        {CHOICE("\"a\"", "\"\"", "\"b\""), "chosen: a text is wanted, and not an empty one"},
        {CHOICE("\"a\"", "[" A("b") "]", "\"b\""), "chosen: a text is wanted"},
        {CHOICE("[" U("a") "]", "\"b\"", "\"c\""), "chosen: a list of one"},
        {PREFERENCE(U("a"), U("b"), A("c")), "preferred_output[0].role: assistant"},
        {PREFERENCE(U("a"), A("b") "," A("b"), A("c")), "preferred_output: a list of one"},
        {PREFERENCE(U("a") "," A("b"), A("c"), A("d")), "input.messages: ends with an assistant's"},
        {PREFERENCE("{\"role\": \"bot\", \"content\": \"a\"}", A("c"), A("d")), "input.messages[0].role"},
        {PREFERENCE("", A("c"), A("d")), "input.messages: a list of 1"},
        {CHOICE("3", "[" A("b") "]", "[" A("c") "]"), "prompt: a list of 1"},
        {"{\"input\": 3, \"preferred_output\": [], \"non_preferred_output\": []}", "input: an object"},
        {"{\"input\": {\"messages\": [], \"x\": 1}, \"preferred_output\": [], \"non_preferred_output\": []}", "input.x: no such key"},
        {PREFERENCE(U("a"), A("b"), A("c")) CHOICE("\"a\"", "\"b\"", "\"c\""), "t.jsonl:2: prompt, chosen and rejected in a file of input,"},
        {"{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\", \"completion\": \"d\"}", "completion: does not belong"},
    };
    struct world world = world_of(closed);

    (void)state;
    world.source.preferences = true;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(take(&world, cases[i].text), STATUS_INVALID);
        if (strstr(world.refusal.text, cases[i].said) == NULL)
            fail_msg("%s\nsays %s\nwithout %s", cases[i].text, world.refusal.text, cases[i].said);
    }
    world_end(&world);
}

static void a_pair_of_equal_answers_is_left_out(void **state)
{
    struct world world = world_of(closed);

    (void)state;
    world.source.preferences = true;
    assert_int_equal(take(&world, CHOICE("\"a\"", "\"bc\"", "\"bc\"") CHOICE("\"a\"", "\"b\"", "\"c\"") CHOICE("\"d\"", "\"\\u0065\"", "\"e\"")), STATUS_OK);
    assert_int_equal(world.set->equal, 2);
    assert_int_equal(world.set->examples, 1);
    assert_int_equal(world.set->count, 2);
    assert_int_equal(world.set->sample[0].line, 2);
    assert_int_equal(world.set->targets_count, world.set->sample[0].targets + world.set->sample[1].targets);
    assert_int_equal(world.set->tokens_count, world.set->sample[1].at + world.set->sample[1].tokens);
    expect(&world, 0, "ab</s>", "b</s>");
    world.source.tokens_max = 6; /* what differs is cut away */
    assert_int_equal(take(&world, CHOICE("\"a\"", "\"bbbbbbbbbc\"", "\"bbbbbbbbbd\"") CHOICE("\"a\"", "\"b\"", "\"c\"")), STATUS_OK);
    assert_int_equal(world.set->equal, 1);
    assert_int_equal(world.set->cut, 0);
    assert_int_equal(world.set->sample[0].line, 2);
    world.source.equal_too = true;
    assert_int_equal(take(&world, CHOICE("\"a\"", "\"b\"", "\"b\"")), STATUS_OK);
    assert_int_equal(world.set->count, 2);
    world_end(&world);
}

static void what_is_too_long_is_cut_or_refused(void **state)
{
    struct world world = world_of(closed);

    (void)state;
    world.source.tokens_max = 24;
    assert_int_equal(take(&world, CHAT(U("Hi") "," A("Hello, hello, hello"))), STATUS_OK);
    assert_int_equal(world.set->cut, 1);
    assert_int_equal(world.set->sample[0].tokens, 24);
    assert_int_equal(take(&world, CHAT(U("Hi, hi, hi, hi, hi, hi, hi, hi, hi") "," A("Hello"))), STATUS_INVALID);
    assert_non_null(strstr(world.refusal.text, "nothing to learn is left within 24 tokens"));
    world.source.tokens_max = 200;
    world.source.vocabulary = 100;
    assert_int_equal(take(&world, CHAT(U("Hi") "," A("Hello"))), STATUS_INVALID);
    world_end(&world);
}

static void mutations_are_taken_or_refused(void **state)
{
    static const char prefers[] = PREFERENCE(U("Hi"), A("Hello"), A("No")) CHOICE("\"a\"", "\"bc\"", "\"d\"");
    static const char good[] = CHAT(U("Hi") "," A("Hello")) CHAT(U("Hi \\u00e9") "," A0("x") "," U("y") "," A("Hello"));
    const uint64_t seed = test_seed(1);
    struct world world = world_of(closed);
    uint64_t state_of_draws = seed;

    (void)state;
    for (int i = 0; i < 6000; i++) {
        const size_t count = (i % 2 == 0 ? sizeof(good) : sizeof(prefers)) - 1;
        char text[sizeof(good) + sizeof(prefers)];

        memcpy(text, i % 2 == 0 ? good : prefers, count);
        for (uint64_t changes = 1 + draw_below(&state_of_draws, 3); changes > 0; changes--)
            text[draw_below(&state_of_draws, count)] = (char)draw_below(&state_of_draws, 256);
        data_close(world.set);
        world.set = NULL;
        world.source.preferences = i % 2 != 0;
        if (data_open_text(text, (int64_t)count, "t.jsonl", &world.source, &world.set, &world.refusal) != STATUS_OK &&
            world.refusal.text[0] == '\0')
            fail_msg("seed %llu, change %d: refused without a reason", (unsigned long long)seed, i);
    }
    world_end(&world);
}

static void an_order_is_a_permutation_of_its_seed_and_epoch(void **state)
{
    int32_t first[100], again[100], other[100];
    bool seen[100] = {false};

    (void)state;
    data_order(7, 1, 100, first);
    data_order(7, 1, 100, again);
    data_order(7, 2, 100, other);
    assert_memory_equal(first, again, sizeof(first));
    assert_memory_not_equal(first, other, sizeof(first));
    for (int i = 0; i < 100; i++)
        seen[first[i]] = true;
    for (int i = 0; i < 100; i++)
        assert_true(seen[i]);
}

static void few_examples_get_more_epochs(void **state)
{
    (void)state;
    assert_int_equal(data_epochs(1), 25);
    assert_int_equal(data_epochs(10), 10);
    assert_int_equal(data_epochs(100), 3);
    assert_int_equal(data_epochs(8000), 3);
    assert_int_equal(data_epochs(10000), 2);
    assert_int_equal(data_epochs(1000000), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_and_their_ends_are_learned_and_nothing_else),
        cmocka_unit_test(an_open_turn_gets_the_end),
        cmocka_unit_test(a_prompt_nobody_asked_for_is_not_learned),
        cmocka_unit_test(a_template_that_rewrites_earlier_turns_makes_a_sample_a_turn),
        cmocka_unit_test(what_a_message_spells_stays_text),
        cmocka_unit_test(an_example_with_nothing_to_learn_is_named_before_the_start),
        cmocka_unit_test(nothing_begins_twice),
        cmocka_unit_test(a_byte_order_mark_is_no_fault),
        cmocka_unit_test(a_quote_that_is_not_escaped_is_named_by_line_and_column),
        cmocka_unit_test(a_prompt_is_what_a_server_would_see),
        cmocka_unit_test(pairs_need_no_template),
        cmocka_unit_test(faults_name_line_and_field),
        cmocka_unit_test(a_preference_is_two_answers_behind_one_prompt),
        cmocka_unit_test(faults_of_preferences_name_line_and_field),
        cmocka_unit_test(a_pair_of_equal_answers_is_left_out),
        cmocka_unit_test(what_is_too_long_is_cut_or_refused),
        cmocka_unit_test(mutations_are_taken_or_refused),
        cmocka_unit_test(an_order_is_a_permutation_of_its_seed_and_epoch),
        cmocka_unit_test(few_examples_get_more_epochs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
