/* How answers are shown: OpenAI's two forms, whole or in events. */
#include <stdio.h>
#include <stdlib.h>

#include "control/api/chat.h"

const char *chat_finish(enum core_end_reason reason)
{
    return reason == CORE_END_LENGTH ? "length" : "stop";
}

/* --- logprobs --------------------------------------------------------------------------------------------------------------- */

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* A token as text that is UTF-8 whatever it holds; its bytes are beside it. */
static json_t *token_json(const struct tokenizer *tokenizer, int32_t id)
{
    struct token_text text = {0};
    json_t *json;

    tokenizer_decode(tokenizer, &id, 1, false, &text);
    json = json_stringn(text.bytes != NULL ? text.bytes : "", text.count);
    token_text_free(&text);
    return json != NULL ? json : json_string("");
}

static json_t *bytes_json(const struct tokenizer *tokenizer, int32_t id)
{
    size_t count = 0;
    const char *bytes = token_bytes(tokenizer, id, &count);
    json_t *json = bytes != NULL ? json_array() : json_null();

    for (size_t i = 0; bytes != NULL && i < count; i++)
        json_array_append_new(json, json_integer((unsigned char)bytes[i]));
    return json;
}

/* -inf is no JSON. */
static json_t *logprob_json(uint32_t bits)
{
    const float value = float_of(bits);

    return json_real(value > -9999.0f ? (double)value : -9999.0);
}

static json_t *chat_token(const struct tokenizer *tokenizer, const struct wire_token *token)
{
    return json_pack("{s:o,s:o,s:o}", "token", token_json(tokenizer, (int32_t)token->id), "logprob", logprob_json(token->logprob_bits), "bytes",
                     bytes_json(tokenizer, (int32_t)token->id));
}

static void add_chat_token(const struct chat_head *head, struct chat_choice *choice, const struct wire_tokens *tokens, uint32_t i)
{
    struct wire_token token;
    json_t *best = json_array();
    json_t *json;

    for (uint32_t k = 0; k < tokens->best_each; k++) {
        wire_token_read(tokens->best + (size_t)(i * tokens->best_each + k) * WIRE_TOKEN_BYTES, &token);
        json_array_append_new(best, chat_token(head->tokenizer, &token));
    }
    wire_token_read(tokens->tokens + (size_t)i * WIRE_TOKEN_BYTES, &token);
    json = chat_token(head->tokenizer, &token);
    json_object_set_new(json, "top_logprobs", best);
    json_array_append_new(json_object_get(choice->logprobs, "content"), json);
}

/* The old form: lists side by side. */
static void add_old_token(const struct chat_head *head, struct chat_choice *choice, const struct wire_tokens *tokens, uint32_t i)
{
    struct wire_token token;
    json_t *best = json_object();
    json_t *text;

    for (uint32_t k = 0; k < tokens->best_each; k++) {
        wire_token_read(tokens->best + (size_t)(i * tokens->best_each + k) * WIRE_TOKEN_BYTES, &token);
        text = token_json(head->tokenizer, (int32_t)token.id);
        json_object_set_new(best, json_string_value(text), logprob_json(token.logprob_bits));
        json_decref(text);
    }
    wire_token_read(tokens->tokens + (size_t)i * WIRE_TOKEN_BYTES, &token);
    text = token_json(head->tokenizer, (int32_t)token.id);
    json_array_append_new(json_object_get(choice->logprobs, "text_offset"), json_integer(choice->text_offset));
    choice->text_offset += (uint32_t)json_string_length(text);
    json_array_append_new(json_object_get(choice->logprobs, "tokens"), text);
    json_array_append_new(json_object_get(choice->logprobs, "token_logprobs"), logprob_json(token.logprob_bits));
    json_array_append_new(json_object_get(choice->logprobs, "top_logprobs"), best);
}

static json_t *no_logprobs(bool is_chat)
{
    return is_chat ? json_pack("{s:[],s:n}", "content", "refusal")
                   : json_pack("{s:[],s:[],s:[],s:[]}", "tokens", "token_logprobs", "top_logprobs", "text_offset");
}

void chat_add_logprobs(const struct chat_head *head, struct chat_choice *choice, const struct wire_tokens *tokens)
{
    if (choice->logprobs == NULL)
        choice->logprobs = no_logprobs(head->is_chat);
    check(choice->logprobs != NULL);
    for (uint32_t i = 0; i < tokens->tokens_count; i++) {
        if (head->is_chat)
            add_chat_token(head, choice, tokens, i);
        else
            add_old_token(head, choice, tokens, i);
    }
}

static json_t *take_logprobs(struct chat_choice *choice)
{
    json_t *logprobs = choice->logprobs;

    choice->logprobs = NULL;
    return logprobs != NULL ? logprobs : json_null();
}

/* --- events ----------------------------------------------------------------------------------------------------------------- */

static json_t *head_json(const struct chat_head *head, const char *object, json_t *choices)
{
    json_t *json = json_pack("{s:s,s:s,s:I,s:s,s:s,s:o}", "id", head->id, "object", object, "created", (json_int_t)head->created_s, "model",
                             head->model, "system_fingerprint", head->fingerprint, "choices", choices);

    check(json != NULL);
    return json;
}

static json_t *usage_json(uint64_t prompt_tokens, uint64_t output_tokens)
{
    return json_pack("{s:I,s:I,s:I,s:{s:i}}", "prompt_tokens", (json_int_t)prompt_tokens, "completion_tokens", (json_int_t)output_tokens,
                     "total_tokens", (json_int_t)(prompt_tokens + output_tokens), "prompt_tokens_details", "cached_tokens", 0);
}

static char *event_text(const struct chat_head *head, json_t *choices, json_t *usage)
{
    json_t *json = head_json(head, head->is_chat ? "chat.completion.chunk" : "text_completion", choices);
    char *text;

    if (usage != NULL)
        json_object_set_new(json, "usage", usage);
    text = json_dumps(json, JSON_COMPACT);
    check(text != NULL);
    json_decref(json);
    return text;
}

/* Pieces of a server's text end between characters. */
static json_t *text_json(const char *text, size_t bytes)
{
    json_t *json = json_stringn(text, bytes);

    return json != NULL ? json : json_string("\xef\xbf\xbd");
}

char *chat_event(const struct chat_head *head, struct chat_choice *choice, const char *text, size_t bytes, const char *finish)
{
    json_t *one = json_pack("{s:I,s:o,s:s?}", "index", (json_int_t)choice->index, "logprobs", take_logprobs(choice), "finish_reason", finish);

    check(one != NULL);
    if (!head->is_chat) {
        json_object_set_new(one, "text", text_json(text, bytes));
    } else {
        json_t *delta = json_object();

        if (!choice->has_begun) {
            json_object_set_new(delta, "role", json_string("assistant"));
            json_object_set_new(delta, "refusal", json_null());
        }
        if (!choice->has_begun || bytes > 0)
            json_object_set_new(delta, "content", text_json(text, bytes));
        json_object_set_new(one, "delta", delta);
    }
    choice->has_begun = true;
    return event_text(head, json_pack("[o]", one), head->include_usage ? json_null() : NULL);
}

char *chat_usage_event(const struct chat_head *head, uint64_t prompt_tokens, uint64_t output_tokens)
{
    return event_text(head, json_array(), usage_json(prompt_tokens, output_tokens));
}

/* --- in one piece ----------------------------------------------------------------------------------------------------------- */

json_t *chat_answer(const struct chat_head *head, struct chat_choice *choices, uint32_t count, uint64_t prompt_tokens, uint64_t output_tokens)
{
    json_t *list = json_array();
    json_t *answer;

    for (uint32_t i = 0; i < count; i++) {
        struct chat_choice *choice = &choices[i];
        json_t *text = text_json(choice->text.bytes != NULL ? choice->text.bytes : "", choice->text.count);
        json_t *one = json_pack("{s:I,s:o,s:s}", "index", (json_int_t)choice->index, "logprobs", take_logprobs(choice), "finish_reason",
                                chat_finish(choice->end.reason));

        check(one != NULL && text != NULL);
        if (head->is_chat)
            json_object_set_new(one, "message", json_pack("{s:s,s:o,s:n}", "role", "assistant", "content", text, "refusal"));
        else
            json_object_set_new(one, "text", text);
        json_array_append_new(list, one);
    }
    answer = head_json(head, head->is_chat ? "chat.completion" : "text_completion", list);
    json_object_set_new(answer, "usage", usage_json(prompt_tokens, output_tokens));
    return answer;
}
