/* Files of examples after accidents of many kinds, through the fuzz target. */
#define FUZZ_VALIDATE
#include "fuzz/fuzz_validate.c"

#include <stdio.h>

#include "support.h"

#define MUTATIONS 6000

static const char *const seeds[] = {
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Hello\"}]}\n"
    "{\"messages\": [{\"role\": \"system\", \"content\": \"\\u00e9\\ud83d\\ude00\"}, {\"role\": \"user\", \"content\": \"a\\nb\"}, "
    "{\"role\": \"assistant\", \"content\": \"no\", \"weight\": 0}, {\"role\": \"user\", \"content\": \"<|end|>\"}, "
    "{\"role\": \"assistant\", \"content\": \"yes\", \"weight\": 1}]}\r\n\n",
    "{\"messages\": [{\"role\": \"user\", \"content\": \"w?\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"c1\", "
    "\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{\\\"x\\\": 1}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"c1\", "
    "\"content\": \"4\"}, {\"role\": \"assistant\", \"content\": \"4\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}], "
    "\"parallel_tool_calls\": false}\n",
    ("{\"input\": {\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}, \"preferred_output\": [{\"role\": \"assistant\", \"content\": \"b\"}], "
    "\"non_preferred_output\": [{\"role\": \"assistant\", \"content\": \"c\"}]}\n"),
    "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n{\"prompt\": \"a\", \"chosen\": \"c\", \"rejected\": \"b\"}",
    "[1, -2.5e3, true]\n{\"prompt\": \"a\", \"completion\": \"b\"}\nq,a\n",
    "{\"messages\": [\n  {\"role\": \"user\"}\n]}\n{\"conversations\": []}\n",
};
/* What a mutation puts in: what means something to a reader of JSON. */
static const char *const bits[] = {"\"", "\\", "{", "}", "[", "]", ",", ":", "\n", "\r", "0", "1", "-", ".", "e9", "null", "true", "NaN", "\\u0000", "\\ud800", "\xff",
                                   "\xc3", "\xef\xbb\xbf", "'", "\t", " ", "messages", "role", "weight", "assistant", "user", "tool", "1e999", "99999999999999999999"};

/* What may take a text's place and leave the line JSON. */
static const char *const words[] = {"\"role\"", "\"content\"", "\"weight\"", "\"user\"", "\"assistant\"", "\"system\"", "\"developer\"", "\"tool\"", "\"function\"",
                                    "\"name\"", "\"refusal\"", "\"tool_calls\"", "\"tools\"", "\"messages\"", "\"\"", "\"x\"", "\"{}\"", "null", "0", "1", "1.0", "true",
                                    "[]", "{}", "\"\\u00e9\"", "\"</s>\""};

static void run(const uint8_t *first, const char *text, size_t count)
{
    static uint8_t input[8192];

    check(count + 1 <= sizeof(input));
    input[0] = *first;
    memcpy(input + 1, text, count);
    LLVMFuzzerTestOneInput(input, count + 1);
}

/* Takes a stretch out, doubles one, or puts something in. */
static size_t mutate(char *text, size_t count, uint64_t *state)
{
    const size_t at = (size_t)draw_below(state, count + 1);
    const size_t left = count - at;
    const size_t length = (size_t)draw_below(state, 12) % (left + 1);
    const char *bit = bits[draw_below(state, ARRAY_COUNT(bits))];

    switch (draw_below(state, 4)) {
    case 0:
        memmove(text + at, text + at + length, left - length);
        return count - length;
    case 1:
        memmove(text + at + length, text + at, left);
        return count + length;
    case 2:
        if (left > 0)
            text[at] = (char)draw(state);
        return count;
    default:
        memmove(text + at + strlen(bit), text + at, left);
        memcpy(text + at, bit, strlen(bit));
        return count + strlen(bit);
    }
}

/* Another word in a text's place. */
static size_t exchange(char *text, size_t count, uint64_t *state)
{
    const char *word = words[draw_below(state, ARRAY_COUNT(words))];
    uint64_t quote = 2 * draw_below(state, 20);
    size_t from = 0;
    size_t until;

    for (; from < count; from++)
        if (text[from] == '"' && quote-- == 0)
            break;
    for (until = from + 1; until < count && text[until] != '"';)
        until++;
    if (until >= count)
        return count;
    memmove(text + from + strlen(word), text + until + 1, count - until - 1);
    memcpy(text + from, word, strlen(word));
    return count - (until + 1 - from) + strlen(word);
}

static void files_after_accidents_are_accepted_only_if_they_train(void **state)
{
    const uint64_t seed = test_seed(7);
    uint64_t draws = seed;

    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    for (size_t s = 0; s < ARRAY_COUNT(seeds); s++)
        for (int first = 0; first < 8; first++) {
            const uint8_t choice = (uint8_t)(first + 8 * (int)s);

            run(&choice, seeds[s], strlen(seeds[s]));
        }
    for (int i = 0; i < MUTATIONS; i++) {
        static char text[4096];
        const size_t chosen = (size_t)draw_below(&draws, ARRAY_COUNT(seeds));
        const char *from = seeds[chosen];
        const bool preferences = (chosen == 2 || chosen == 3) != (draw_below(&draws, 16) == 0);
        const uint8_t choice = (uint8_t)((draw(&draws) & 0xfe) | preferences);
        const bool json = draw_below(&draws, 2) == 0;
        size_t count = strlen(from);

        memcpy(text, from, count);
        for (uint64_t times = 1 + draw_below(&draws, 3); times > 0; times--)
            count = json ? exchange(text, count, &draws) : mutate(text, count, &draws);
        run(&choice, text, count);
    }
    printf("%d were accepted\n", fuzz_accepted);
    assert_true(fuzz_accepted > MUTATIONS / 20);
}

/* What a message quotes of a file that is no text is text. */
static void what_is_quoted_is_text(void **state)
{
    static const char *const texts[] = {"C\xce\xdd\xe0\x97\x9f\xff", "{\"\xed\xa0\x80\": 1}", "{\"messages\": [{\"role\": \"\xf4\x90\x80\x80\"}]}",
                                        "\x01\x7f\x1b[2J", "{\"\\u001b\\u007f\": 1, \"messages\": []}"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        for (int first = 0; first < 8; first++) {
            const uint8_t choice = (uint8_t)(first + 8);

            run(&choice, texts[i], strlen(texts[i]));
        }
}

/* Every place where a file may end. */
static void files_that_were_cut_are_accepted_only_if_they_train(void **state)
{
    (void)state;
    for (size_t s = 0; s < ARRAY_COUNT(seeds); s++)
        for (size_t count = 0; count < strlen(seeds[s]); count++) {
            const uint8_t choice = (uint8_t)(count * 13 + s);

            run(&choice, seeds[s], count);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_after_accidents_are_accepted_only_if_they_train),
        cmocka_unit_test(files_that_were_cut_are_accepted_only_if_they_train),
        cmocka_unit_test(what_is_quoted_is_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
