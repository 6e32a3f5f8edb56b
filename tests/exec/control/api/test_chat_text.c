/* Answers, byte for byte, over a tokenizer of a few tokens: some are half a character, one is special. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "control/api/chat_text.h"
#include "support.h"

/* Byte-level: "\u00c3\u0125" spells nothing whole; 0 is "a", 1 a quote, 2 and 3 the halves of e with acute, 4 the end. */
static const char json[] =
    "{\"added_tokens\":[{\"id\":4,\"content\":\"</s>\",\"special\":true,\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false}],"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\\"\":1,\"\xc3\x83\":2,\"\xc2\xa9\":3},\"merges\":[]}}";
#define HEAD "{\"id\":\"x-1\",\"object\":\"%s\",\"created\":7,\"model\":\"m\",\"system_fingerprint\":\"fp_1\","

static struct tokenizer *tokenizer;
static struct token_text text;
static struct chat_head head;

static int begin(void **context)
{
    char error[TOKENIZER_ERROR_MAX] = "";

    (void)context;
    if (tokenizer_open_texts(json, strlen(json), NULL, 0, &tokenizer, error) != STATUS_OK)
        fail_msg("%s", error);
    head = (struct chat_head){.is_chat = true, .id = "x-1", .model = "m", .fingerprint = "fp_1", .created_s = 7, .tokenizer = tokenizer};
    return 0;
}

static int end(void **context)
{
    (void)context;
    tokenizer_close(tokenizer);
    token_text_free(&text);
    text = (struct token_text){0};
    return 0;
}

static void says(const char *object, const char *rest)
{
    char whole[4096];

    snprintf(whole, sizeof(whole), HEAD "%s", object, rest);
    token_text_add(&text, "", 1);
    assert_string_equal(text.bytes, whole);
    text.count = 0;
}

static void chunks_of_a_chat(void **context)
{
    const struct chat_piece piece = {.choice = 2, .text = "a\"\n\x01\xc3\xa9\xff", .text_bytes = 7};

    (void)context;
    chat_text_role(&head, 2, &text);
    says("chat.completion.chunk", "\"choices\":[{\"index\":2,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null,"
                                  "\"finish_reason\":null}]}");
    chat_text_chunk(&head, &piece, &text);
    says("chat.completion.chunk", "\"choices\":[{\"index\":2,\"delta\":{\"content\":\"a\\\"\\n\\u0001\xc3\xa9\xef\xbf\xbd\"},\"logprobs\":null,"
                                  "\"finish_reason\":null}]}");
    chat_text_chunk(&head, &(struct chat_piece){.choice = 2, .finish = "length"}, &text);
    says("chat.completion.chunk", "\"choices\":[{\"index\":2,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\"}]}");
}

static void usage_is_null_in_every_chunk_but_the_one_that_has_it(void **context)
{
    (void)context;
    head.wants_usage = true;
    chat_text_chunk(&head, &(struct chat_piece){.finish = "stop"}, &text);
    says("chat.completion.chunk", "\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":null}");
    chat_text_usage(&head, &(struct chat_usage){.prompt_tokens = 3, .output_tokens = 4}, &text);
    says("chat.completion.chunk", "\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,\"total_tokens\":7,"
                                  "\"prompt_tokens_details\":{\"cached_tokens\":0,\"audio_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":0,"
                                  "\"audio_tokens\":0,\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}}");
}

static void logprobs_have_bytes_and_leave_special_tokens_out(void **context)
{
    const struct chat_odds odds[] = {{2, -0.5f}, {0, -1}, {3, -2}, {0, 0}, {TOKENIZER_NO_ID, 0}, {TOKENIZER_NO_ID, 0}, {4, -1}, {0, 0}, {0, 0}};
    struct chat_piece piece = {.text = "", .odds = odds, .tokens_count = 3};

    (void)context;
    head.wants_logprobs = true;
    head.top_logprobs = 2;
    chat_text_chunk(&head, &piece, &text);
    says("chat.completion.chunk", "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"logprobs\":{\"content\":[{\"token\":\"\xef\xbf\xbd\","
                                  "\"logprob\":-0.5,\"bytes\":[195],\"top_logprobs\":[{\"token\":\"a\",\"logprob\":-1,\"bytes\":[97]},"
                                  "{\"token\":\"\xef\xbf\xbd\",\"logprob\":-2,\"bytes\":[169]}]},{\"token\":\"a\",\"logprob\":0,\"bytes\":[97],"
                                  "\"top_logprobs\":[]}],\"refusal\":null},\"finish_reason\":null}]}");
}

static void a_whole_answer_has_all_choices(void **context)
{
    const struct chat_piece pieces[] = {{.choice = 0, .text = "a", .text_bytes = 1, .finish = "stop"}, {.choice = 1, .finish = "length"}};

    (void)context;
    chat_text_whole(&head, pieces, 2, &(struct chat_usage){.prompt_tokens = 1, .output_tokens = 1}, &text);
    says("chat.completion", "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"a\",\"refusal\":null},\"logprobs\":null,"
                            "\"finish_reason\":\"stop\"},{\"index\":1,\"message\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},"
                            "\"logprobs\":null,\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"total_tokens\":2,"
                            "\"prompt_tokens_details\":{\"cached_tokens\":0,\"audio_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":0,"
                            "\"audio_tokens\":0,\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}}");
}

static void completions_have_columns_and_name_what_is_no_text_by_its_bytes(void **context)
{
    const struct chat_odds odds[] = {{2, -0.5f}, {0, -1}, {3, -INFINITY}, {1, -3}};
    const struct chat_piece piece = {.text = "\xc3\xa9", .text_bytes = 2, .odds = odds, .tokens_count = 2, .offset = 5};

    (void)context;
    head.is_chat = false;
    head.wants_logprobs = true;
    head.top_logprobs = 1;
    chat_text_chunk(&head, &piece, &text);
    says("text_completion", "\"choices\":[{\"index\":0,\"text\":\"\xc3\xa9\",\"logprobs\":{\"tokens\":[\"bytes:\\\\xc3\",\"bytes:\\\\xa9\"],"
                            "\"token_logprobs\":[-0.5,-9999],\"top_logprobs\":[{\"a\":-1,\"bytes:\\\\xc3\":-0.5},{\"\\\"\":-3,\"bytes:\\\\xa9\":-9999}],"
                            "\"text_offset\":[5,6]},\"finish_reason\":null}]}");
    assert_int_equal(chat_text_characters(&head, odds, 2), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chunks_of_a_chat, begin, end),
        cmocka_unit_test_setup_teardown(usage_is_null_in_every_chunk_but_the_one_that_has_it, begin, end),
        cmocka_unit_test_setup_teardown(logprobs_have_bytes_and_leave_special_tokens_out, begin, end),
        cmocka_unit_test_setup_teardown(a_whole_answer_has_all_choices, begin, end),
        cmocka_unit_test_setup_teardown(completions_have_columns_and_name_what_is_no_text_by_its_bytes, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
