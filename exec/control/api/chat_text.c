#include "control/api/chat_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/tokenizer/utf8.h"

/* What stands for the logarithm of 0, as OpenAI has it. */
#define LOGPROB_LEAST (-9999.0)

static void add(struct token_text *text, const char *words)
{
    token_text_add(text, words, strlen(words));
}

__attribute__((format(printf, 2, 3)))
static void add_form(struct token_text *text, const char *form, ...)
{
    char buffer[128];
    va_list values;

    va_start(values, form);
    check(vsnprintf(buffer, sizeof(buffer), form, values) < (int)sizeof(buffer));
    va_end(values);
    add(text, buffer);
}

static void add_character(struct token_text *text, const char *at, const struct utf8 *character)
{
    if (!character->good)
        add(text, UTF8_REPLACEMENT);
    else if (character->code == '"' || character->code == '\\')
        add_form(text, "\\%c", (char)character->code);
    else if (character->code == '\n')
        add(text, "\\n");
    else if (character->code < 0x20 || character->code == 0x7f)
        add_form(text, "\\u%04x", (unsigned)character->code);
    else
        token_text_add(text, at, character->bytes);
}

/* A string of JSON, whatever the bytes. */
static void add_string(struct token_text *text, const char *bytes, size_t count)
{
    add(text, "\"");
    for (size_t at = 0; at < count;) {
        const struct utf8 character = utf8_at(bytes + at, count - at);

        add_character(text, bytes + at, &character);
        at += character.bytes;
    }
    add(text, "\"");
}

static void add_words(struct token_text *text, const char *name, const char *words)
{
    add_form(text, "\"%s\":", name);
    add_string(text, words, strlen(words));
}

/* --- tokens ----------------------------------------------------------------------------------------------------------------- */

struct token_view {
    const char *bytes; /* NULL: the tokenizer has no such id */
    size_t count;
};

static struct token_view view_of(const struct chat_head *head, int32_t id)
{
    struct token_view view = {0};

    if (head->tokenizer != NULL && id >= 0)
        view.bytes = token_bytes(head->tokenizer, id, &view.count);
    return view;
}

static double logprob_of(const struct chat_odds *odds)
{
    return odds->logprob > LOGPROB_LEAST ? (double)odds->logprob : LOGPROB_LEAST;
}

/* Special tokens are in no text, and so in no list of what it is made of. */
static bool is_shown(const struct chat_head *head, const struct chat_odds *odds)
{
    return head->tokenizer == NULL || !token_is_special(head->tokenizer, odds->id);
}

static void add_odds(const struct chat_head *head, const struct chat_odds *odds, struct token_text *text)
{
    const struct token_view view = view_of(head, odds->id);

    add(text, "{\"token\":");
    add_string(text, view.bytes, view.count);
    add_form(text, ",\"logprob\":%.9g,\"bytes\":", logprob_of(odds));
    if (view.bytes == NULL) {
        add(text, "null");
        return;
    }
    add(text, "[");
    for (size_t i = 0; i < view.count; i++)
        add_form(text, i == 0 ? "%u" : ",%u", (unsigned)(unsigned char)view.bytes[i]);
    add(text, "]");
}

static void add_content(const struct chat_head *head, const struct chat_piece *piece, struct token_text *text)
{
    const uint32_t each = 1 + head->top_logprobs;
    bool first = true;

    add(text, "{\"content\":[");
    for (uint32_t i = 0; i < piece->tokens_count; i++) {
        const struct chat_odds *odds = &piece->odds[(size_t)i * each];
        bool first_best = true;

        if (!is_shown(head, odds))
            continue;
        add(text, first ? "" : ",");
        first = false;
        add_odds(head, odds, text);
        add(text, ",\"top_logprobs\":[");
        for (uint32_t j = 1; j < each; j++) {
            if (odds[j].id == TOKENIZER_NO_ID)
                continue;
            add(text, first_best ? "" : ",");
            first_best = false;
            add_odds(head, &odds[j], text);
            add(text, "}");
        }
        add(text, "]}");
    }
    add(text, "],\"refusal\":null}");
}

/* A token's name in completions: its text, or where that is no text, "bytes:\xe2\x80". */
static void add_name(const struct chat_head *head, int32_t id, struct token_text *text)
{
    const struct token_view view = view_of(head, id);

    if (utf8_valid(view.bytes, view.count) == view.count) {
        add_string(text, view.bytes, view.count);
        return;
    }
    add(text, "\"bytes:");
    for (size_t i = 0; i < view.count; i++)
        add_form(text, "\\\\x%02x", (unsigned)(unsigned char)view.bytes[i]);
    add(text, "\"");
}

static uint32_t characters_of(const struct chat_head *head, int32_t id)
{
    const struct token_view view = view_of(head, id);
    uint32_t count = 0;

    for (size_t i = 0; i < view.count; i++)
        count += ((unsigned char)view.bytes[i] & 0xc0) != 0x80;
    return count;
}

uint32_t chat_text_characters(const struct chat_head *head, const struct chat_odds *odds, uint32_t tokens_count)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < tokens_count; i++, odds += 1 + head->top_logprobs)
        count += is_shown(head, odds) ? characters_of(head, odds->id) : 0;
    return count;
}

/* The likeliest ones and, where it isn't among them, the chosen one. */
static void add_best(const struct chat_head *head, const struct chat_odds *odds, struct token_text *text)
{
    bool first = true;
    bool is_among = false;

    add(text, "{");
    for (uint32_t j = 1; j <= head->top_logprobs + 1; j++) {
        const struct chat_odds *one = j <= head->top_logprobs ? &odds[j] : &odds[0];

        if (one->id == TOKENIZER_NO_ID || (j > head->top_logprobs && is_among))
            continue;
        is_among |= one->id == odds[0].id;
        add(text, first ? "" : ",");
        first = false;
        add_name(head, one->id, text);
        add_form(text, ":%.9g", logprob_of(one));
    }
    add(text, "}");
}

enum column { COLUMN_TOKENS, COLUMN_LOGPROBS, COLUMN_BEST, COLUMN_OFFSETS };

static void add_column(const struct chat_head *head, const struct chat_piece *piece, enum column column, struct token_text *text)
{
    const struct chat_odds *odds = piece->odds;
    uint32_t offset = piece->offset;
    bool first = true;

    add(text, "[");
    for (uint32_t i = 0; i < piece->tokens_count; i++, odds += 1 + head->top_logprobs) {
        if (!is_shown(head, odds))
            continue;
        add(text, first ? "" : ",");
        first = false;
        switch (column) {
        case COLUMN_TOKENS: add_name(head, odds->id, text); break;
        case COLUMN_LOGPROBS: add_form(text, "%.9g", logprob_of(odds)); break;
        case COLUMN_BEST: add_best(head, odds, text); break;
        case COLUMN_OFFSETS: add_form(text, "%u", offset); break;
        }
        offset += characters_of(head, odds->id);
    }
    add(text, "]");
}

static void add_columns(const struct chat_head *head, const struct chat_piece *piece, struct token_text *text)
{
    add(text, "{\"tokens\":");
    add_column(head, piece, COLUMN_TOKENS, text);
    add(text, ",\"token_logprobs\":");
    add_column(head, piece, COLUMN_LOGPROBS, text);
    add(text, ",\"top_logprobs\":");
    if (head->top_logprobs == 0)
        add(text, "null");
    else
        add_column(head, piece, COLUMN_BEST, text);
    add(text, ",\"text_offset\":");
    add_column(head, piece, COLUMN_OFFSETS, text);
    add(text, "}");
}

static void add_logprobs(const struct chat_head *head, const struct chat_piece *piece, struct token_text *text)
{
    add(text, ",\"logprobs\":");
    if (!head->wants_logprobs || piece->odds == NULL)
        add(text, "null");
    else if (head->is_chat)
        add_content(head, piece, text);
    else
        add_columns(head, piece, text);
}

/* --- choices ---------------------------------------------------------------------------------------------------------------- */

static void add_head(const struct chat_head *head, const char *object, struct token_text *text)
{
    add(text, "{");
    add_words(text, "id", head->id);
    add_form(text, ",\"object\":\"%s\",\"created\":%lld,", object, (long long)head->created_s);
    add_words(text, "model", head->model);
    add(text, ",");
    add_words(text, "system_fingerprint", head->fingerprint);
}

static void add_finish(const char *finish, struct token_text *text)
{
    if (finish == NULL)
        add(text, ",\"finish_reason\":null}");
    else
        add_form(text, ",\"finish_reason\":\"%s\"}", finish);
}

static const char *chunk_object(const struct chat_head *head)
{
    return head->is_chat ? "chat.completion.chunk" : "text_completion";
}

static void end_chunk(const struct chat_head *head, struct token_text *text)
{
    add(text, head->wants_usage ? "],\"usage\":null}" : "]}");
}

void chat_text_role(const struct chat_head *head, uint32_t choice, struct token_text *text)
{
    add_head(head, chunk_object(head), text);
    add_form(text, ",\"choices\":[{\"index\":%u,", choice);
    add(text, "\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null");
    add_finish(NULL, text);
    end_chunk(head, text);
}

void chat_text_chunk(const struct chat_head *head, const struct chat_piece *piece, struct token_text *text)
{
    add_head(head, chunk_object(head), text);
    add_form(text, ",\"choices\":[{\"index\":%u,", piece->choice);
    if (head->is_chat && piece->finish != NULL) {
        add(text, "\"delta\":{}");
    } else {
        add(text, head->is_chat ? "\"delta\":{\"content\":" : "\"text\":");
        add_string(text, piece->text, piece->text_bytes);
        add(text, head->is_chat ? "}" : "");
    }
    add_logprobs(head, piece, text);
    add_finish(piece->finish, text);
    end_chunk(head, text);
}

static void add_usage(const struct chat_usage *usage, struct token_text *text)
{
    add_form(text, "\"usage\":{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,", (unsigned long long)usage->prompt_tokens,
             (unsigned long long)usage->output_tokens);
    add_form(text, "\"total_tokens\":%llu,", (unsigned long long)(usage->prompt_tokens + usage->output_tokens));
    add(text, "\"prompt_tokens_details\":{\"cached_tokens\":0,\"audio_tokens\":0},"
              "\"completion_tokens_details\":{\"reasoning_tokens\":0,\"audio_tokens\":0,\"accepted_prediction_tokens\":0,"
              "\"rejected_prediction_tokens\":0}}}");
}

void chat_text_usage(const struct chat_head *head, const struct chat_usage *usage, struct token_text *text)
{
    add_head(head, chunk_object(head), text);
    add(text, ",\"choices\":[],");
    add_usage(usage, text);
}

void chat_text_whole(const struct chat_head *head, const struct chat_piece *pieces, uint32_t count, const struct chat_usage *usage,
                     struct token_text *text)
{
    add_head(head, head->is_chat ? "chat.completion" : "text_completion", text);
    add(text, ",\"choices\":[");
    for (uint32_t i = 0; i < count; i++) {
        add_form(text, "%s{\"index\":%u,", i == 0 ? "" : ",", pieces[i].choice);
        add(text, head->is_chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
        add_string(text, pieces[i].text, pieces[i].text_bytes);
        add(text, head->is_chat ? ",\"refusal\":null}" : "");
        add_logprobs(head, &pieces[i], text);
        add_finish(pieces[i].finish, text);
    }
    add(text, "],");
    add_usage(usage, text);
}
