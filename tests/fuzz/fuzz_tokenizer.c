/* Any bytes as a tokenizer.json, or as a chat template: it opens or says why not, and what it then makes of texts, ids and messages
 * keeps the promises of the headers. The first byte chooses. Built for libFuzzer with FUZZ_TOKENIZER defined; the test of mutations
 * calls the same function; everywhere else this file is empty. */
#ifdef FUZZ_TOKENIZER

#include <jansson.h>
#include <stdlib.h>

#include "engine/chat/chat.h"
#include "engine/tokenizer/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_message(enum status status, const char *message)
{
    check((status == STATUS_OK) == (message[0] == 0));
    for (const char *at = message; *at != 0; at++)
        check((unsigned char)*at >= 0x20 && *at != 0x7f);
}

/* Streamed or whole, with special tokens or without: the same valid text. */
static void fuzz_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special)
{
    struct token_text whole = {0}, streamed = {0};
    struct token_stream stream;

    tokenizer_decode(tokenizer, ids, count, skip_special, &whole);
    token_stream_begin(&stream, tokenizer, skip_special);
    for (size_t i = 0; i < count; i++)
        token_stream_push(&stream, ids[i], &streamed);
    token_stream_finish(&stream, &streamed);
    check(whole.count == streamed.count);
    check(whole.count == 0 || memcmp(whole.bytes, streamed.bytes, whole.count) == 0);
    check(utf8_valid(whole.bytes, whole.count) == whole.count);
    token_text_free(&whole);
    token_text_free(&streamed);
}

static void fuzz_tokenizer(const char *json, size_t count)
{
    static const char text[] = "<s> Hello,  world! <|end|>\n12 \xc3\xa9" "e\xcc\x81 \xe6\x97\xa5\xf0\x9f\x98\x80<think> ab \xe2\x96\x81";
    char message[TOKENIZER_ERROR_MAX] = "";
    struct tokenizer *tokenizer;
    enum status status = tokenizer_open_texts(json, count, json, count, &tokenizer, message);

    check_message(status, message);
    if (status != STATUS_OK)
        return;
    for (unsigned flags = 0; flags < 4; flags++) {
        struct token_list list = {0};

        if (tokenizer_encode(tokenizer, text, sizeof(text) - 1, NULL, flags, &list, message) == STATUS_OK) {
            for (size_t i = 0; i < list.count; i++) {
                check(list.ids[i] >= 0 && list.ids[i] < tokenizer_ids_count(tokenizer));
                check(flags != TOKENIZER_PLAIN || !token_is_control(tokenizer, list.ids[i]) ||
                      list.ids[i] == tokenizer_id_of(tokenizer, "<unk>", 5));
            }
            fuzz_decode(tokenizer, list.ids, list.count, flags & 1);
        }
        token_list_free(&list);
    }
    tokenizer_close(tokenizer);
}

static void fuzz_template(const char *text, size_t count)
{
    static const char messages[] = "[{\"role\": \"user\", \"content\": \"Hi <|end|> \\u00e9\"}, {\"role\": \"assistant\", \"content\": null,"
                                   " \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, 2.5, true]}}}]}]";
    char message[CHAT_ERROR_MAX] = "";
    struct chat_template *template;
    struct chat_text rendered = {0};
    struct chat_request request = {.add_generation_prompt = true};
    json_t *root;
    enum status status = chat_template_open(text, count, &template, message);

    check_message(status, message);
    if (status != STATUS_OK)
        return;
    root = json_loads(messages, 0, NULL);
    check(root != NULL);
    request.messages = root;
    status = chat_render(template, NULL, &request, &rendered, message);
    check_message(status, message);
    check(status == STATUS_OK || rendered.text.count == 0);
    check(utf8_valid(rendered.text.bytes, rendered.text.count) == rendered.text.count);
    chat_text_free(&rendered);
    chat_template_close(template);
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;

    if (size == 0)
        return 0;
    if (data[0] % 2 == 0)
        fuzz_tokenizer(text + 1, size - 1);
    else
        fuzz_template(text + 1, size - 1);
    return 0;
}

#endif
