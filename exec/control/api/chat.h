/* Answers of models: /v1/chat/completions and /v1/completions. chat_request.c: what was asked. chat.c: the life of a request between its
 * client and the core. chat_json.c: how an answer is shown, whole or in events. */
#ifndef API_CHAT_H
#define API_CHAT_H

#include "control/api/internal.h"
#include "worker/ask.h"

#define CHAT_CHOICES_MAX 128 /* prompts times n */
#define CHAT_TOP_LOGPROBS_MAX 20

struct chat_request {
    bool is_chat;              /* otherwise /v1/completions */
    bool stream;
    bool include_usage;
    bool logprobs;             /* each token with its own; `best` beside it */
    uint32_t best;
    uint32_t n;
    uint32_t max_tokens;       /* 0: what is left */
    const char *model;         /* lies in the body */
    json_t *settings;          /* for the core, without the seed */
    uint64_t seed;             /* of choice 0; the i-th has seed + i */
    struct token_list *prompts;
    uint32_t prompts_count;
};
/* All but the prompts, which need a tokenizer. False: `fault` names the field. Free it in either case. */
bool chat_request_read(const json_t *body, bool is_chat, struct chat_request *ret_request, struct fault *fault);
bool chat_request_prompts(const json_t *body, struct chat_request *request, const struct tokenizer *tokenizer, struct fault *fault);
void chat_request_free(struct chat_request *request);

/* One answer of several. */
struct chat_choice {
    struct chat *chat;
    uint32_t index;
    uint64_t id;               /* the core's; 0: none */
    bool has_begun;            /* its first event was made */
    bool has_ended;
    struct core_end end;       /* without its text */
    char why[256];             /* of REFUSED */
    struct token_text text;    /* of an answer in one piece */
    json_t *logprobs;          /* of that, or of events to come; NULL: not wanted */
    uint32_t text_offset;      /* characters so far, for the old form */
};

/* What all events and the answer have in common. */
struct chat_head {
    char id[NAME_BYTES];
    bool is_chat;
    int64_t created_s;
    char model[256];
    char fingerprint[20];
    bool include_usage;
    const struct tokenizer *tokenizer;
};

/* Adds tokens to the choice's logprobs in the endpoint's own form. */
void chat_add_logprobs(const struct chat_head *head, struct chat_choice *choice, const struct wire_tokens *tokens);
/* One event's JSON, free() it: a piece of text with the logprobs gathered since the last (which are taken), the first of a chat with its
 * role; `finish`: NULL, or why it ended. */
char *chat_event(const struct chat_head *head, struct chat_choice *choice, const char *text, size_t bytes, const char *finish);
char *chat_usage_event(const struct chat_head *head, uint64_t prompt_tokens, uint64_t output_tokens);
json_t *chat_answer(const struct chat_head *head, struct chat_choice *choices, uint32_t count, uint64_t prompt_tokens, uint64_t output_tokens);
const char *chat_finish(enum core_end_reason reason);

/* On a thread of the pool. */
api_serve chat_create;
api_serve completion_create;

#endif
