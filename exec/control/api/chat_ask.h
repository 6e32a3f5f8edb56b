/* A request for an answer as OpenAI's clients write it, for chats and for plain completions. Read strictly: what is not known is refused by
 * name, for who asks for something and does not get it is not told otherwise. What clients send and what changes nothing here is passed
 * over, by a list. */
#ifndef API_CHAT_ASK_H
#define API_CHAT_ASK_H

#include "control/api/internal.h"

#define ASK_CHOICES_MAX 128u
/* Of /v1/completions, where a client says none. */
#define ASK_TEXT_TOKENS_DEFAULT 16u

struct chat_ask {
    bool is_chat;
    const char *model;       /* the body's, as are these */
    const json_t *prompt;    /* of completions: a text, ids, or a list of either */
    json_t *messages;        /* of chats: a copy as templates read them */
    const json_t *tools;     /* NULL: none, or not for the model to see */
    uint32_t prompts;        /* of completions; 1 for chats */
    uint32_t choices;        /* of each prompt */
    bool streams;
    bool wants_usage;        /* of a stream */
    bool wants_logprobs;
    uint32_t top_logprobs;
    uint32_t max_tokens;     /* 0: not said */
    bool has_seed;
    int64_t seed;
    json_t *settings;        /* as worker/ask.h has them, without the seed */
};
/* False: `fault`. `ret_ask` lives no longer than the body. */
bool chat_ask_read(const json_t *body, bool is_chat, struct chat_ask *ret_ask, struct fault *fault);
void chat_ask_free(struct chat_ask *ask);
/* The settings of one choice: its seed is the request's plus its number among its prompt's. To free(). */
char *chat_ask_settings(const struct chat_ask *ask, uint32_t choice);

#endif
