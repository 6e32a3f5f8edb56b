/* Each rule by itself: line, column, code and path of what is said; and nothing else is. */
#include "rig.h"

#include <stdio.h>
#include <string.h>

#define U(text) "{\"role\": \"user\", \"content\": \"" text "\"}"
#define A(text) "{\"role\": \"assistant\", \"content\": \"" text "\"}"
#define CHAT(turns) "{\"messages\": [" turns "]}\n"
#define GOOD CHAT(U("Hi") ", " A("Hello"))
#define WEIGHED(weight) "{\"role\": \"assistant\", \"content\": \"x\", \"weight\": " weight "}"
#define CALL(id, function) "{\"role\": \"assistant\", \"tool_calls\": [{" id "\"type\": \"function\", \"function\": {" function "}}]}"
#define CALLED CALL("\"id\": \"c\", ", "\"name\": \"f\", \"arguments\": \"{}\"")
#define ANSWER(id) "{\"role\": \"tool\", \"tool_call_id\": \"" id "\", \"content\": \"4\"}"
#define TOOLED(turns) "{\"messages\": [" turns "], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]}\n"
#define PAIR(turns, preferred, other) \
    "{\"input\": {\"messages\": [" turns "]}, \"preferred_output\": [" preferred "], \"non_preferred_output\": [" other "]}\n"
#define CHOICE(prompt, chosen, rejected) "{\"prompt\": " prompt ", \"chosen\": " chosen ", \"rejected\": " rejected "}\n"

/* Each ^ in `text` marks the byte behind it, and is taken out; each ^ in `said` is the next marked one's line and column. */
struct rule {
    const char *text;
    const char *said;
};

static void take_marks(const char *marked, char *ret_text, int places[8][2])
{
    int line = 1;
    int column = 1;
    int count = 0;

    for (; *marked != '\0'; marked++) {
        if (*marked == '^') {
            check(count < 8);
            places[count][0] = line;
            places[count++][1] = column;
            continue;
        }
        *ret_text++ = *marked;
        column = *marked == '\n' ? 1 : column + 1;
        line += *marked == '\n';
    }
    *ret_text = '\0';
}

static void hold(struct rig *rig, const struct rule *rules, size_t count)
{
    char text[4096];
    char wanted[512];

    for (size_t i = 0; i < count; i++) {
        int places[8][2] = {{0}};
        int(*place)[2] = places;
        char *to = wanted;

        take_marks(rules[i].text, text, places);
        for (const char *from = rules[i].said; *from != '\0'; from++) {
            if (*from != '^') {
                *to++ = *from;
                continue;
            }
            to += sprintf(to, "%d:%d", (*place)[0], (*place)[1]);
            place++;
        }
        *to = '\0';
        if (strcmp(rig_said(rig, text), wanted) != 0)
            fail_msg("%s\nsays  %s\nnot   %s", text, rig->said, wanted);
    }
}
#define HOLD(rig, rules) hold(rig, rules, ARRAY_COUNT(rules))

static void bytes_and_lines(void **state)
{
    static const struct rule rules[] = {
        {"", "0 file_empty"},
        {"\n \n\t\r\n", "0 file_empty"},
        {GOOD, ""},
        {"\n\n" GOOD "\n" GOOD "\n\n", "1 blank_line; 4 blank_line; 5 duplicate_example; 6 blank_line"},
        {"\xef\xbb\xbf" GOOD, "1 utf8_bom"},
        {GOOD "^\xef\xbb\xbf" CHAT(U("Ho") ", " A("x")), "^ bad_json"},
        {"\xff\xfe{\n", "1 not_utf8"},
        {"\xfe\xff{\n", "1 not_utf8"},
        {CHAT(U("a^\xe9") ", " A("x")), "^ invalid_utf8"},
        {CHAT(U("\xc3\xa9") ", " A("^\xed\xa0\x80")), "^ invalid_utf8"},      /* a surrogate */
        {CHAT(U("Hi") ", " A("^\xc0\xaf")), "^ invalid_utf8"},                /* a long form */
        {CHAT(U("Hi") ", " A("^\xf4\x90\x80\x80")), "^ invalid_utf8"},        /* above U+10FFFF */
        {CHAT(U("^\xe9") ", {\"role\": ^\"bot\", \"content\": \"x\"}"), "^ invalid_utf8; ^ bad_role messages[1].role"},
        {"{\"messages\": [" U("Hi") ", " A("x") "]}\r\n{\"messages\": [" U("Ho") ", " A("y") "]}\r", ""},
        {"{\"messages\": [" U("Hi") ", " A("x") "]}\r^{\"messages\": [" U("Ho") ", " A("y") "]}\r", "^ bad_json"},
        {"\x1f\x8b\x08", "1 not_jsonl"},
        {"PK\3\4", "1 not_jsonl"},
        {"<html>\n<p>\n", "1 not_jsonl"},
        {"q,a\n1,2\n", "1 not_jsonl"},
        {"q,a\n" GOOD "^x\n", "1 not_jsonl; ^ bad_json"},
        {"[\n" GOOD "]\n", "1 file_is_json_array"},
        {"[{\"messages\": []}]\n", "1 file_is_json_array"},
        {"[1]\n" GOOD, "1 not_an_object"},
        {GOOD "[1]\n\"x\"\n3\ntrue\nnull\n", "2 not_an_object; 3 not_an_object; 4 not_an_object; 5 not_an_object; 6 not_an_object"},
        {"{^\n  \"messages\": [\n  ]\n}\n{^\n  \"messages\": [\n  ]\n}\n", "^ bad_json; ^ bad_json"},
        {GOOD "{\"messages\": [^\n" CHAT(U("Ho") ", " A("x")), "^ bad_json"},
        {CHAT(U("a^\nb") ", " A("x")) GOOD, "^ bad_json"},
    };
    struct rig rig = rig_of(false);

    (void)state;
    HOLD(&rig, rules);
    /* Zeros end no text of these. */
    assert_string_equal(rig_take(&rig, "{\0\n\0", 4, 1, NULL), "1 not_utf8");
    assert_string_equal(rig_take(&rig, "\0{", 2, 2, NULL), "1 not_utf8");
    assert_string_equal(rig_take(&rig, "\xff\xfe\0\0{\0\0\0", 8, 3, NULL), "1 not_utf8");
    assert_string_equal(rig_take(&rig, "{\"a\": \0}", 8, 8, NULL), "1:7 bad_json");
    rig_end(&rig);
}

static void json(void **state)
{
    static const struct rule rules[] = {
        {"{messages: []}", "1:2 bad_json"},
        {"{'messages': []}", "1:2 bad_json"},
        {"{\"messages\": ['a']}", "1:15 bad_json"},
        {"{\"messages\" []}", "1:13 bad_json"},
        {"{\"messages\": }", "1:14 bad_json"},
        {"{\"messages\": [1 2]}", "1:17 bad_json"},
        {"{\"messages\": [\"a \"b\" c\"]}", "1:19 bad_json"},
        {"{\"messages\": \"a \"b\" c\"}", "1:18 bad_json"},
        {"{\"messages\": [],}", "1:16 bad_json"},
        {"{\"messages\": [1,]}", "1:16 bad_json"},
        {"{,}", "1:2 bad_json"},
        {"{\"messages\": [,1]}", "1:15 bad_json"},
        {"{\"messages\": NaN}", "1:14 bad_json"},
        {"{\"messages\": -Infinity}", "1:14 bad_json"},
        {"{\"messages\": None}", "1:14 bad_json"},
        {"{\"messages\": [] /* x */}", "1:17 bad_json"},
        {"{\"messages\": // x\n", "1:14 bad_json"},
        {"{\"messages\": 01}", "1:14 bad_json"},
        {"{\"messages\": 1.}", "1:14 bad_json"},
        {"{\"messages\": .5}", "1:14 bad_json"},
        {"{\"messages\": +1}", "1:14 bad_json"},
        {"{\"messages\": 1e}", "1:14 bad_json"},
        {"{\"messages\": 1e999}", "1:14 bad_json"},
        {"{\"messages\": 9223372036854775808}", "1:14 bad_json"},
        {"{\"messages\": -9223372036854775808}", "1:14 messages_not_list messages"},
        {"{\"messages\": 1e-999}", "1:14 messages_not_list messages"},
        {"{\"messages\": \"\\x41\"}", "1:15 bad_json"},
        {"{\"messages\": \"\\u12g4\"}", "1:15 bad_json"},
        {"{\"messages\": \"a\tb\"}", "1:16 bad_json"},
        {"{\"messages\": \"\x01\"}", "1:15 bad_json"},
        {"{\"messages\": tru^", "^ bad_json"},
        {"{\"messages\": \"\\^", "^ bad_json"},
        {"{\"messages\": \"abc^", "^ bad_json"},
        {"{\"messages\": []} {}", "1:18 bad_json"},
        {"{\"messages\": []]", "1:16 bad_json"},
        {"{\"messages\": \"\\ud800\"}", "1:14 messages_not_list messages; 1:15 lone_surrogate messages"},
        {"{\"messages\": \"\\udc00\\ud800\"}", "1:14 messages_not_list messages; 1:15 lone_surrogate messages; 1:21 lone_surrogate messages"},
        {"{\"messages\": \"\\ud83d\\ude00\"}", "1:14 messages_not_list messages"},
        {"{\"messages\": \"\\u0000\"}", "1:14 messages_not_list messages; 1:15 null_character messages"},
        {"{\"messages\": [], \"messages\": [], \"m\\u0065ssages\": []}",
         "1:14 messages_empty messages; 1:18 duplicate_key messages; 1:34 duplicate_key messages"},
        {"{\"messages\": [" U("Hi") ", {\"role\": \"assistant\", \"content\": \"a\", ^\"content\": \"b\"}]}",
         "^ duplicate_key messages[1].content"},
    };
    struct rig rig = rig_of(false);

    (void)state;
    HOLD(&rig, rules);
    rig_end(&rig);
}

static void shapes(void **state)
{
    static const struct rule rules[] = {
        {"{}", "1 missing_messages"},
        {"{\"message\": []}", "1 missing_messages"},
        {"{\"messages\": ^{}}", "^ messages_not_list messages"},
        {"{\"messages\": ^[]}", "^ messages_empty messages"},
        {"{\"messages\": [^3, " A("x") "]}", "^ message_not_object messages[0]"},
        {CHAT("^{\"content\": \"Hi\"}, " A("x")), "^ missing_role messages[0]"},
        {CHAT("{\"role\": ^3, \"content\": \"Hi\"}, " A("x")), "^ bad_role messages[0].role"},
        {CHAT("{\"role\": ^\"User\", \"content\": \"Hi\"}, " A("x")), "^ bad_role messages[0].role"},
        {CHAT("^{\"role\": \"user\"}, " A("x")), "^ missing_content messages[0]"},
        {CHAT(U("Hi") ", {\"role\": \"assistant\", \"content\": ^null}"), "^ missing_content messages[1].content"},
        {CHAT(U("Hi") ", ^{\"role\": \"assistant\", \"refusal\": \"no\"}"), "^ missing_content messages[1]"},
        {CHAT("{\"role\": \"user\", \"content\": ^[{\"type\": \"text\", \"text\": \"Hi\"}]}, " A("x")), "^ content_type messages[0].content"},
        {CHAT("{\"role\": \"user\", \"content\": ^\"\"}, " A("x")), "^ empty_content messages[0].content"},
        {CHAT("{\"role\": \"user\", \"content\": \"Hi\", ^\"contnet\": 1}, " A("x")), "^ unrecognized_key messages[0].contnet"},
        {CHAT("{\"role\": \"user\", \"content\": \"Hi\", \"name\": ^1}, " A("x")), "^ key_type messages[0].name"},
        {"{\"messages\": [" U("Hi") ", " A("x") "], ^\"functions\": []}", "^ unrecognized_key functions"},
        {"{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}", "1 legacy_format"},
        {"{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}", "1 wrong_method"},
        {PAIR(U("a"), A("b"), A("c")), "1 wrong_method"},
        {"{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}]}", "1 sharegpt_format"},
        {"{\"instruction\": \"a\", \"input\": \"\", \"output\": \"b\"}", "1 renamed_columns"},
        {"{\"question\": \"a\", \"answer\": \"b\"}\n{\"conversations\": []}", "1 renamed_columns; 2 sharegpt_format"},
        {GOOD "{\"prompt\": \"a\", \"completion\": \"b\"}", "2 legacy_format"},
    };
    struct rig rig = rig_of(false);
    static char many[80000];
    size_t count;

    (void)state;
    HOLD(&rig, rules);
    rig_said(&rig, "{\"prompt\": \"a\", \"completion\": \"b\"}\n" GOOD "{\"prompt\": \"a\", \"completion\": \"b\"}");
    assert_non_null(strstr(validator_issues(rig.validator, &count)[0].message, "user and an assistant message. (2 lines)"));
    strcpy(many, "{\"messages\": [" A("x"));
    for (int i = 0; i < 1023; i++)
        strcat(many, ", " A("x"));
    strcat(many, "]}");
    assert_string_equal(rig_said(&rig, many), "1:14 too_many_messages messages");
    rig_end(&rig);
}

static void turns_and_weights(void **state)
{
    static const struct rule rules[] = {
        {CHAT(U("Hi")), "1 no_assistant"},
        {CHAT(U("Hi") ", " A("x") ", ^" U("y")), "^ last_not_assistant messages[2]"},
        {CHAT(U("Hi") ", ^" U("Ho") ", " A("x")), "^ consecutive_roles messages[1]"},
        {CHAT(U("Hi") ", " A("x") ", ^" A("y")), "^ consecutive_roles messages[2]"},
        {CHAT("{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"developer\", \"content\": \"s\"}, " U("Hi") ", " A("x")), ""},
        {CHAT(U("Hi") ", ^{\"role\": \"system\", \"content\": \"s\"}, " A("x")), "^ system_not_first messages[1]"},
        {CHAT(A("x")), "1 no_user"},
        {CHAT(U("Hi") ", " WEIGHED("^2")), "^ bad_weight messages[1].weight"},
        {CHAT(U("Hi") ", " WEIGHED("^1.0")), "^ bad_weight messages[1].weight"},
        {CHAT(U("Hi") ", " WEIGHED("^0.5")), "^ bad_weight messages[1].weight"},
        {CHAT(U("Hi") ", " WEIGHED("^-1")), "^ bad_weight messages[1].weight"},
        {CHAT(U("Hi") ", " WEIGHED("^true")), "^ bad_weight messages[1].weight"},
        {CHAT(U("Hi") ", " WEIGHED("^\"1\"")), "^ bad_weight messages[1].weight"},
        {CHAT(U("Hi") ", " WEIGHED("^null")), "^ bad_weight messages[1].weight"},
        {CHAT(U("Hi") ", " WEIGHED("0")), "1 no_trainable_tokens"},
        {CHAT("{\"role\": \"user\", \"content\": \"x\", \"weight\": ^0}, " A("x")), "^ weight_on_non_assistant messages[0].weight"},
        {CHAT(U("Hi") ", " WEIGHED("0") ", " U("Ho") ", " WEIGHED("1")), ""},
    };
    struct rig rig = rig_of(false);

    (void)state;
    HOLD(&rig, rules);
    rig_end(&rig);
}

static void tools(void **state)
{
    static const struct rule rules[] = {
        {TOOLED(U("Hi") ", " CALLED), ""},
        {TOOLED(U("Hi") ", " CALLED ", " ANSWER("c") ", " A("x")), ""},
        {CHAT(U("Hi") ", " CALL("\"id\": \"c\", ", "\"name\": ^\"f\", \"arguments\": \"{}\"")), "^ undeclared_tool messages[1].tool_calls[0].function.name"},
        {TOOLED(U("Hi") ", {\"role\": \"assistant\", \"tool_calls\": [^{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]}, "
                ANSWER("c") ", " A("x")), "^ tool_call_missing_id messages[1].tool_calls[0]"},
        {TOOLED(U("Hi") ", " CALL("\"id\": \"c\", ", "\"name\": \"f\", \"arguments\": ^{}")), "^ tool_arguments_type messages[1].tool_calls[0].function.arguments"},
        {TOOLED(U("Hi") ", " CALL("\"id\": \"c\", ", "\"name\": \"f\", \"arguments\": ^\"\"")),
         "^ tool_arguments_not_json messages[1].tool_calls[0].function.arguments"},
        {TOOLED(U("Hi") ", " CALL("\"id\": \"c\", ", "\"name\": \"f\", \"arguments\": ^\"{\\\"x\\\": 1,}\"")),
         "^ tool_arguments_not_json messages[1].tool_calls[0].function.arguments"},
        {TOOLED(U("Hi") ", {\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"c\", \"function\": ^{\"name\": \"f\"}}]}"),
         "^ tool_arguments_type messages[1].tool_calls[0].function"},
        {TOOLED(U("Hi") ", {\"role\": \"assistant\", \"tool_calls\": [^{\"id\": \"c\", \"function\": {\"arguments\": \"{}\"}}]}"),
         "^ tool_calls_type messages[1].tool_calls[0]"},
        {TOOLED(U("Hi") ", {\"role\": \"assistant\", \"content\": \"x\", \"tool_calls\": ^{}}"), "^ tool_calls_type messages[1].tool_calls"},
        {TOOLED(U("Hi") ", {\"role\": \"assistant\", \"content\": \"x\", \"tool_calls\": [^3]}"), "^ tool_calls_type messages[1].tool_calls[0]"},
        {TOOLED(U("Hi") ", {\"role\": \"assistant\", \"content\": \"x\", \"tool_calls\": null}"), ""},
        {TOOLED("{\"role\": \"user\", \"content\": \"x\", \"tool_calls\": ^[1]}, " A("x")), "^ tool_calls_on_non_assistant messages[0].tool_calls"},
        {TOOLED(U("Hi") ", " CALLED ", {\"role\": \"tool\", \"tool_call_id\": ^\"d\", \"content\": \"4\"}, " A("x")),
         "^ unknown_tool_call_id messages[2].tool_call_id"},
        {TOOLED(U("Hi") ", " CALLED ", ^{\"role\": \"tool\", \"content\": \"4\"}, " A("x")), "^ unknown_tool_call_id messages[2]"},
        {TOOLED(U("Hi") ", ^" ANSWER("c") ", " A("x")), "^ unknown_tool_call_id messages[1]"},
        {TOOLED(U("Hi") ", ^" CALLED ", " A("x")), "^ tool_call_unanswered messages[1]"},
        {TOOLED(U("Hi") ", ^" CALLED ", " U("Ho") ", " A("x")), "^ tool_call_unanswered messages[1]"},
        {"{\"messages\": [" U("Hi") ", " A("x") "], \"tools\": ^{}}", "^ tools_type tools"},
        {"{\"messages\": [" U("Hi") ", " A("x") "], \"tools\": [^{}]}", "^ tools_type tools[0]"},
    };
    struct rig rig = rig_of(false);

    (void)state;
    HOLD(&rig, rules);
    rig_end(&rig);
}

static void preferences(void **state)
{
    static const struct rule rules[] = {
        {PAIR(U("a"), A("b"), A("c")), ""},
        {CHOICE("\"a\"", "\"b\"", "\"c\""), ""},
        {CHOICE("[" U("a") "]", "[" A("b") "]", "[" A("c") "]"), ""},
        {GOOD, "1 wrong_method"},
        {"{\"prompt\": \"a\", \"completion\": \"b\"}", "1 wrong_method"},
        {"{}", "1 missing_key"},
        {"{\"input\": {\"messages\": [" U("a") "]}}", "1 missing_key; 1 missing_key"},
        {"{\"chosen\": \"a\"}", "1 missing_key; 1 missing_key"},
        {"{\"input\": ^3, \"preferred_output\": [" A("b") "], \"non_preferred_output\": [" A("c") "]}", "^ preference_type input"},
        {"{\"input\": ^{}, \"preferred_output\": [" A("b") "], \"non_preferred_output\": [" A("c") "]}", "^ missing_messages input"},
        {"{\"input\": {\"messages\": [" U("a") "], ^\"x\": 1}, \"preferred_output\": [" A("b") "], \"non_preferred_output\": [" A("c") "]}",
         "^ unrecognized_key input.x"},
        {"{\"input\": {\"messages\": ^[]}, \"preferred_output\": [" A("b") "], \"non_preferred_output\": [" A("c") "]}", "^ messages_empty input.messages"},
        {PAIR(U("a") ", ^" A("x"), A("b"), A("c")), "^ input_ends_with_assistant input.messages[1]"},
        {"{\"input\": {\"messages\": [" U("a") "]}, \"preferred_output\": ^[], \"non_preferred_output\": [" A("c") "]}",
         "^ preference_not_single preferred_output"},
        {"{\"input\": {\"messages\": [" U("a") "]}, \"preferred_output\": [" A("b") "], \"non_preferred_output\": ^[" A("c") "," A("d") "]}",
         "^ preference_not_single non_preferred_output"},
        {PAIR(U("a"), "^" U("b"), A("c")), "^ bad_role preferred_output[0]"},
        {PAIR(U("a"), "^3", A("c")), "^ message_not_object preferred_output[0]"},
        {PAIR(U("a"), "{\"role\": \"assistant\", \"content\": ^\"\"}", A("c")), "^ preference_empty preferred_output[0].content"},
        {CHOICE("\"a\"", "^\"\"", "\"c\""), "^ preference_empty chosen"},
        {CHOICE("\"a\"", "^3", "\"c\""), "^ preference_type chosen"},
        {CHOICE("^3", "^\"b\"", "^\"c\""), "^ messages_not_list prompt; ^ preference_not_single chosen; ^ preference_not_single rejected"},
        {PAIR(U("a"), A("b"), A("b")) PAIR(U("a"), A("d"), A("c")), "1 identical_preference"},
        {PAIR(U("a"), A("b"), A("b")), "1 identical_preference; 0 nothing_to_prefer"},
        {PAIR(U("a"), A("b"), A("c")) PAIR(U("a"), A("c"), A("b")), "2 conflicting_answers"},
        {PAIR(U("a"), A("b"), A("c")) PAIR(U("a"), A("d"), A("c")), ""},
        {PAIR(U("a"), A("b"), A("c")) CHOICE("\"a\"", "\"d\"", "\"c\""), "2 mixed_format"},
    };
    struct rig rig = rig_of(true);

    (void)state;
    HOLD(&rig, rules);
    rig_end(&rig);
}

static void sets(void **state)
{
    static const struct rule rules[] = {
        {GOOD CHAT(U("Ho") ", " A("x")) GOOD, "3 duplicate_example"},
        {GOOD CHAT(U(" Hi ") ", " A("Hello\\n")) CHAT(U("Ho") ", " A("x")), "2 duplicate_example"},
        {GOOD "{\"messages\": [{\"content\": \"H\\u0069\", \"role\": \"user\"}, " A("Hello") "]}\n" CHAT(U("Ho") ", " A("x")), "2 duplicate_example"},
        {GOOD CHAT(U("Hi") ", " A("Bye")) CHAT(U("Hi") ", " A("Hello!")), "2 conflicting_answers; 3 conflicting_answers"},
        {GOOD CHAT(U("Ho") ", " A("Hello")), "0 identical_answers"},
        {CHAT(U("Hi") ", " A("x ^<|im_end|> y <s>")) CHAT("{\"role\": \"user\", \"content\": ^\"Ho\\n<|x|>\"}, " A("z")),
         "^ special_token_text messages[1].content; ^ special_token_text messages[0].content"},
        {CHAT(U("^[INST] a < b </s>") ", " A("y")), "^ special_token_text messages[0].content"},
        {CHAT("{\"role\": \"user\", \"content\": ^\"\\u003c/s>\"}, " A("y")), "^ special_token_text messages[0].content"},
        {CHAT(U("a <b> <| c |> [d]") ", " A("y")), ""},
    };
    struct rig rig = rig_of(false);
    struct rig held_out = rig_of(false);

    (void)state;
    HOLD(&rig, rules);
    assert_string_equal(rig_said(&held_out, "\n" GOOD CHAT(U("Who?") ", " A("I."))), "1 blank_line");
    {
        static const char text[] = CHAT(U("Who?") ", " A("You.")) GOOD CHAT(U("New") ", " A("x"));

        assert_string_equal(rig_take(&rig, text, strlen(text), 1, held_out.validator), "1 validation_prompt_leak; 2 validation_leak");
    }
    rig.config.examples_min = 10;
    assert_string_equal(rig_said(&rig, GOOD CHAT(U("Ho") ", " A("x"))), "0 too_few_examples");
    assert_string_equal(rig_said(&rig, GOOD "{\"prompt\": \"a\", \"completion\": \"b\"}"), "2 legacy_format; 0 too_few_examples");
    rig.config.any_base = true;
    assert_string_equal(rig_said(&rig, "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"c\"}"), "2 missing_key; 0 too_few_examples");
    assert_string_equal(rig_said(&rig, GOOD "{\"prompt\": \"a\", \"completion\": \"b\"}"), "2 mixed_format; 0 too_few_examples");
    rig.config.any_base = false;
    assert_string_equal(rig_said(&rig, "[\n" GOOD "]"), "1 file_is_json_array"); /* how many there are is not known */
    rig_end(&held_out);
    rig_end(&rig);
}

/* Tokens of the byte tokenizer: one a letter but for pairs that it knows; marks of the template are its text too. */
static void models(void **state)
{
    struct rig rig = rig_of(false);
    struct validate_dry_run plan;
    const struct validate_statistics *statistics;

    (void)state;
    rig_model(&rig, rig_template, 40);
    assert_string_equal(rig_said(&rig, CHAT(U("A prompt that fills all that there is of a context") ", " A("x")) GOOD
                                 CHAT(U("Ho") ", " A("An answer that has no end in a context as short as this"))),
                        "1 no_trainable_tokens; 3 answer_cut");
    statistics = validator_statistics(rig.validator);
    assert_int_equal(statistics->good, 2);
    assert_int_equal(statistics->examples_cut, 1);
    assert_int_equal(statistics->samples, 2);
    assert_true(validate_plan(rig.validator, 0, 0, &plan));
    assert_int_equal(plan.epochs, 25); /* 100 examples at least, but for 25 epochs at most */
    assert_int_equal(plan.steps, 50);
    assert_int_equal(plan.tokens, 25 * statistics->tokens);
    assert_true(validate_plan(rig.validator, 3, 2, &plan));
    assert_int_equal(plan.steps, 3);
    rig.source.tokens_max = 200;
    assert_string_equal(rig_said(&rig, CHAT(U("a </s> b <|x|>") ", " A("[INST]"))), "1:46 special_token_text messages[0].content");
    rig_model(&rig, "{{ raise_exception('no') if messages|length > 2 }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}", 200);
    assert_string_equal(rig_said(&rig, CHAT(U("Hi") ", " A("x") ", " U("y") ", " A("z")) CHAT(U("Ho") ", " A("x"))), "1 not_renderable");
    rig_model(&rig, NULL, 200);
    assert_string_equal(rig_said(&rig, GOOD), "1 no_chat_template");
    assert_string_equal(rig_said(&rig, "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"c\", \"completion\": \"\"}\n{\"prompt\": 1, \"x\": 2}"),
                        "2:31 missing_content completion; 3 missing_key; 3:12 key_type prompt; 3:15 unrecognized_key x");
    rig_end(&rig);
    rig = rig_of(true);
    rig_model(&rig, NULL, 200);
    assert_string_equal(rig_said(&rig, PAIR(U("a"), A("b"), A("c")) PAIR(U("a"), A("d"), A("c"))), "1 no_chat_template");
    assert_string_equal(rig_said(&rig, CHOICE("\"a\"", "\"b\"", "\"c\"")), "");
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_and_lines), cmocka_unit_test(json),        cmocka_unit_test(shapes), cmocka_unit_test(turns_and_weights),
        cmocka_unit_test(tools),           cmocka_unit_test(preferences), cmocka_unit_test(sets),   cmocka_unit_test(models),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
