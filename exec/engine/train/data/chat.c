/* Chats into samples. What a turn's answer is follows from rendering, never from looking for words: the chat before the turn, with the
 * prompt for an answer, is what a server would have sent; the chat with the turn goes on from there. Learned are the tokens by which they
 * differ, up to and with the last special one, which ends the turn. */
#include <stdio.h>

#include "engine/train/data/internal.h"

/* Of templates that write the day: 26 July 2024, Llama 3's own default, so that a file's samples are the same every day. */
#define DAY_S 1721952000

static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", "function"};
static const char *const message_keys[] = {"role", "content", "name", "weight", "tool_calls", "tool_call_id", "refusal", "reasoning_content"};

static bool is_among(const char *word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

enum status data_message(struct data_reader *reader, const char *field, json_t *message, size_t index, bool *ret_learned)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    const json_t *weight = json_object_get(message, "weight");
    const bool answers = role != NULL && strcmp(role, "assistant") == 0;
    const char *key;
    json_t *value;

    if (!json_is_object(message))
        return data_fault(reader, "%s[%zu]: an object is wanted", field, index);
    json_object_foreach(message, key, value)
        if (!is_among(key, message_keys, ARRAY_COUNT(message_keys)))
            return data_fault(reader, "%s[%zu].%.40s: no such key", field, index, key);
    if (role == NULL || !is_among(role, roles, ARRAY_COUNT(roles)))
        return data_fault(reader, "%s[%zu].role: system, user, assistant or tool is wanted", field, index);
    if (!json_is_string(content) && !(answers && json_array_size(json_object_get(message, "tool_calls")) > 0))
        return data_fault(reader, "%s[%zu].content: a text is wanted", field, index);
    if (weight != NULL && !answers)
        return data_fault(reader, "%s[%zu].weight: only an assistant's message has one", field, index);
    if (weight != NULL && (!json_is_integer(weight) || json_integer_value(weight) < 0 || json_integer_value(weight) > 1))
        return data_fault(reader, "%s[%zu].weight: 0 or 1 is wanted", field, index);
    *ret_learned = answers && (weight == NULL || json_integer_value(weight) == 1);
    json_object_del(message, "weight");
    return STATUS_OK;
}

static enum status check_messages(struct data_reader *reader, const json_t *messages, bool *ret_learned)
{
    const size_t count = json_array_size(messages);
    bool any = false;
    bool answered = false;

    if (!json_is_array(messages) || count == 0 || count > DATA_MESSAGES_MAX)
        return data_fault(reader, "messages: a list of 1 to %d objects is wanted", DATA_MESSAGES_MAX);
    for (size_t i = 0; i < count; i++) {
        if (data_message(reader, "messages", json_array_get(messages, i), i, &ret_learned[i]) != STATUS_OK)
            return STATUS_INVALID;
        any |= ret_learned[i];
        answered |= strcmp(json_string_value(json_object_get(json_array_get(messages, i), "role")), "assistant") == 0;
    }
    if (!answered)
        return data_fault(reader, "messages: no assistant's message, so there is nothing to learn");
    if (!any)
        return data_fault(reader, "messages: all assistant's messages have weight 0, so there is nothing to learn");
    return STATUS_OK;
}

/* --- turns ------------------------------------------------------------------------------------------------------------------ */

/* The first `count` messages as ids. */
static enum status encode_turns(struct data_reader *reader, const json_t *example, size_t count, bool prompts, const char *name,
                                struct token_list *ids)
{
    json_t *messages = json_array();
    const struct chat_request request = {.messages = messages, .tools = json_object_get(example, "tools"), .add_generation_prompt = prompts,
                                         .now_s = DAY_S};
    struct chat_text text = {0};
    char error[CHAT_ERROR_MAX] = "";
    enum status status;

    check(messages != NULL);
    for (size_t i = 0; i < count; i++)
        check(json_array_append(messages, json_array_get(json_object_get(example, "messages"), i)) == 0);
    status = chat_render(reader->template, reader->source->tokenizer, &request, &text, error);
    if (status == STATUS_OK)
        status = tokenizer_encode(reader->source->tokenizer, text.text.bytes != NULL ? text.text.bytes : "", text.text.count, text.plain, 0,
                                  ids, error);
    chat_text_free(&text);
    json_decref(messages);
    return status == STATUS_OK ? STATUS_OK : data_fault(reader, "%s, or before it: %.250s", name, error);
}

/* The turn's tokens, from where the prompt ends to its last special one. */
static enum status find_span(struct data_reader *reader, const struct token_list *prompt, const struct token_list *ids, const char *name,
                             struct data_span *ret_span)
{
    size_t until = ids->count;

    ret_span->from = data_common(prompt, ids);
    /* One token at most may be another once the answer stands behind it. */
    if (ret_span->from + 1 < prompt->count)
        return data_fault(reader, "%s: with the answer, the model's template writes what came before differently; such a turn cannot "
                                  "be learned as it will be asked for",
                          name);
    while (until > ret_span->from && !token_is_special(reader->source->tokenizer, ids->ids[until - 1]))
        until--;
    ret_span->until = until > ret_span->from ? until : ids->count;
    return STATUS_OK;
}

/* A template that leaves the last turn open gets the model's own end. */
static void close_last(struct data_reader *reader, struct token_list *ids, struct data_span *span)
{
    if (span->until > span->from && token_is_special(reader->source->tokenizer, ids->ids[span->until - 1]))
        return;
    token_list_add(ids, reader->source->eos);
    span->until = ids->count;
}

/* Turns gather in one sample as long as each goes on where the last one ended; where a template writes earlier turns anew (thinking
 * that it takes away), a new sample begins. */
struct gathering {
    struct token_list ids;
    struct data_span spans[DATA_MESSAGES_MAX];
    size_t count;
};

static enum status gathering_add(struct data_reader *reader, struct gathering *gathering, struct token_list *ids, struct data_span span)
{
    if (gathering->count > 0 && data_common(&gathering->ids, ids) < gathering->ids.count) {
        close_last(reader, &gathering->ids, &gathering->spans[gathering->count - 1]);
        if (data_add(reader, &gathering->ids, gathering->spans, gathering->count) != STATUS_OK)
            return STATUS_INVALID;
        gathering->count = 0;
    }
    token_list_free(&gathering->ids);
    gathering->ids = *ids;
    *ids = (struct token_list){0};
    gathering->spans[gathering->count++] = span;
    return STATUS_OK;
}

/* Some templates write the prompt for an answer behind every chat, asked or not. It ends the turn's ids then, as it ends the prompt's;
 * what both end with begins, but for equal words, with the token that ends a turn, which stays. */
static void trim_prompt(const struct data_reader *reader, const struct token_list *prompt, struct token_list *ids)
{
    size_t same = 0;

    while (same < ids->count && same < prompt->count && ids->ids[ids->count - 1 - same] == prompt->ids[prompt->count - 1 - same])
        same++;
    for (size_t at = ids->count - same; at < ids->count; at++)
        if (token_is_special(reader->source->tokenizer, ids->ids[at])) {
            ids->count = at + 1;
            return;
        }
}

/* The first `count` messages, the last of them a turn whose prompt is `prompt`. */
static enum status encode_answer(struct data_reader *reader, const json_t *example, size_t count, const struct token_list *prompt,
                                 const char *name, struct token_list *ids)
{
    struct token_list prompted = {0};
    enum status status = encode_turns(reader, example, count, false, name, ids);

    if (status == STATUS_OK)
        status = encode_turns(reader, example, count, true, name, &prompted);
    if (status == STATUS_OK && prompted.count == ids->count && data_common(&prompted, ids) == ids->count)
        trim_prompt(reader, prompt, ids);
    token_list_free(&prompted);
    return status;
}

/* `name` is what to call it. */
static enum status add_turn(struct data_reader *reader, const json_t *example, size_t index, const char *name, struct gathering *gathering)
{
    struct token_list prompt = {0};
    struct token_list ids = {0};
    struct data_span span = {0};
    enum status status = encode_turns(reader, example, index, true, name, &prompt);

    if (status == STATUS_OK)
        status = encode_answer(reader, example, index + 1, &prompt, name, &ids);
    if (status == STATUS_OK)
        status = find_span(reader, &prompt, &ids, name, &span);
    if (status == STATUS_OK)
        status = gathering_add(reader, gathering, &ids, span);
    token_list_free(&prompt);
    token_list_free(&ids);
    return status;
}

static enum status gathering_end(struct data_reader *reader, struct gathering *gathering)
{
    close_last(reader, &gathering->ids, &gathering->spans[gathering->count - 1]);
    return data_add(reader, &gathering->ids, gathering->spans, gathering->count);
}

enum status data_has_template(struct data_reader *reader, const char *field)
{
    if (reader->template == NULL && reader->template_error[0] != '\0')
        return data_fault(reader, "%s: the model's chat template: %.250s", field, reader->template_error);
    if (reader->template == NULL)
        return data_fault(reader, "%s: this model has no chat template; give lines of prompt and %s instead, of texts", field,
                          reader->source->preferences ? "chosen and rejected" : "completion");
    return STATUS_OK;
}

enum status data_answer(struct data_reader *reader, const json_t *chat, const char *field)
{
    struct gathering gathering = {0};
    enum status status = add_turn(reader, chat, json_array_size(json_object_get(chat, "messages")) - 1, field, &gathering);

    if (status == STATUS_OK)
        status = gathering_end(reader, &gathering);
    token_list_free(&gathering.ids);
    return status;
}

enum status data_chat(struct data_reader *reader, json_t *example)
{
    const json_t *messages = json_object_get(example, "messages");
    struct gathering gathering = {0};
    bool learned[DATA_MESSAGES_MAX] = {false};
    enum status status = data_has_template(reader, "messages");

    if (status == STATUS_OK)
        status = check_messages(reader, messages, learned);
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(messages); i++) {
        char name[40];

        snprintf(name, sizeof(name), "messages[%zu]", i);
        if (learned[i])
            status = add_turn(reader, example, i, name, &gathering);
    }
    if (status == STATUS_OK)
        status = gathering_end(reader, &gathering);
    token_list_free(&gathering.ids);
    return status;
}
