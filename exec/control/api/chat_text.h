/* Answers as OpenAI's clients read them: whole ones, and chunks of streams. Written straight as text, for an answer with log-probabilities
 * has hundreds of values a token. Pure: what goes in is all that is known. */
#ifndef API_CHAT_TEXT_H
#define API_CHAT_TEXT_H

#include "engine/tokenizer/tokenizer.h"

/* What is the same in all chunks of a request. */
struct chat_head {
    bool is_chat;
    const char *id;
    const char *model;
    const char *fingerprint;
    int64_t created_s;
    const struct tokenizer *tokenizer;
    bool wants_logprobs;
    bool wants_usage;      /* of a stream */
    uint32_t top_logprobs;
};

/* A token as it is kept: its id and log-probability, then `top_logprobs` of the likeliest ones. */
struct chat_odds {
    int32_t id;            /* TOKENIZER_NO_ID: none is known */
    float logprob;
};

/* Some of a choice's answer, or all of it. */
struct chat_piece {
    uint32_t choice;
    const char *text;
    size_t text_bytes;
    const struct chat_odds *odds; /* tokens_count times 1 + top_logprobs */
    uint32_t tokens_count;
    uint32_t offset;       /* characters of tokens before it, for completions */
    const char *finish;    /* NULL: it goes on */
};

struct chat_usage {
    uint64_t prompt_tokens;
    uint64_t output_tokens;
};

/* All append. */
void chat_text_role(const struct chat_head *head, uint32_t choice, struct token_text *text);
/* A chunk; the last one of a choice has its finish, and no text. */
void chat_text_chunk(const struct chat_head *head, const struct chat_piece *piece, struct token_text *text);
void chat_text_usage(const struct chat_head *head, const struct chat_usage *usage, struct token_text *text);
void chat_text_whole(const struct chat_head *head, const struct chat_piece *pieces, uint32_t count, const struct chat_usage *usage,
                     struct token_text *text);
/* Characters that tokens add to a completion's offsets. */
uint32_t chat_text_characters(const struct chat_head *head, const struct chat_odds *odds, uint32_t tokens_count);

#endif
