/* Answers of models. chat.c: from a request to what is asked of the core loop; chat_answer.c: what comes back, to its end; chat_base.c: the
 * bases' tokenizers and templates; chat_measure.c: how long it took.
 *
 * A chat is a task of the pool: its first run asks, the last one, when every choice has ended, says the end and frees it. Between them the
 * loop's thread pushes pieces into the stream; what the stream has no room for waits here, at most CORE_CREDIT_TOKENS a choice, until the
 * client takes more. One lock a chat; gone() and taken() come under the HTTP floor's own and take none of ours but the pool's and the
 * core's queue. */
#ifndef API_CHAT_H
#define API_CHAT_H

#include <stdatomic.h>

#include "control/api/chat_ask.h"
#include "control/api/chat_text.h"
#include "engine/chat/chat.h"

/* Of a chat that says no max_tokens: what is left of the base's positions, at most so many. */
#define CHAT_TOKENS_DEFAULT 4096u
#define CHAT_BODY_BYTES_MAX (UINT64_C(8) << 20)
/* Of all answers together that are kept until they are whole. */
#define CHAT_KEPT_BYTES_MAX (UINT64_C(256) << 20)
/* Tokens, each with its alternatives, of an answer that isn't a stream: about a hundred bytes each. */
#define CHAT_ODDS_MAX (1u << 20)
/* More events than a stream may be ahead of its reader. */
#define CHAT_RING 1024u

/* What is measured of a base's answers: chat_measure.c. Bounds in seconds. */
#define CHAT_SPREAD_BOUNDS 19
struct chat_spread {
    atomic_uint_fast64_t counts[CHAT_SPREAD_BOUNDS + 1];
    atomic_uint_fast64_t ns;
};
struct chat_measures {
    struct chat_spread first_token;    /* since it was asked */
    struct chat_spread between_tokens; /* after the first */
    struct chat_spread whole;          /* of answers that ended as they should */
    atomic_uint_fast64_t prompt_tokens, output_tokens, stopped, cut, aborted;
};

struct chat_base {
    const struct core_base *core;
    const struct tokenizer *tokenizer; /* NULL: it has none */
    struct chat_template *template; /* NULL: none */
    char fingerprint[16];
    struct chat_measures *measures;
};
struct chats {
    struct chat_base *bases;        /* the core's, in its order */
    uint32_t bases_count;
    atomic_uint_fast64_t kept_bytes;
    atomic_bool stopping;
};

struct chat_held {
    struct chat_held *next;
    struct chat_piece piece;        /* text and odds are behind it */
};

struct chat;
struct chat_choice {
    struct chat *chat;
    uint32_t index;
    uint64_t request;               /* the core's; there before the loop calls, and once `asked` */
    atomic_bool asked;
    atomic_bool ended;
    bool said_role;
    int64_t asked_at_ns, last_token_at_ns; /* 0: none yet */
    const char *finish;
    struct token_text text;         /* of an answer that isn't a stream */
    struct token_text odds;         /* struct chat_odds, as bytes */
    uint32_t tokens;
    uint32_t offset;                /* characters said, for completions' logprobs */
};

struct chat {
    struct task task;
    struct api *api;
    struct http_request *request;
    struct meta_caller caller;
    struct call_tenant tenant;
    json_t *body;
    struct chat_ask ask;
    const struct chat_base *base;
    struct core_adapter adapter;
    bool has_adapter;
    char model[META_MODEL_NAME_BYTES];
    char id[64];
    char account[META_MODEL_NAME_BYTES + NAME_BYTES];
    struct chat_head head;
    struct token_list *prompts;     /* [ask.prompts] */
    uint64_t prompt_tokens;
    uint64_t taken_tokens;          /* of the tenant's minute */
    bool has_run;
    bool entered;                   /* counted among what runs */

    atomic_bool gone;
    atomic_bool waits;              /* for room: taken() wakes it */
    uint32_t taken_at;              /* taken()'s place in the ring */
    struct chat_event {
        uint32_t choice, tokens;
    } ring[CHAT_RING];              /* of events that were pushed; ordered by the stream's own lock */

    pthread_mutex_t lock;           /* of what follows and of the choices */
    bool asked_all;
    bool begun;                     /* the stream */
    bool over;                      /* nobody listens: it was answered, or the client is gone */
    bool answered;
    bool said_usage;
    struct fault fault;             /* of the first that failed; status 0: none */
    uint32_t open;                  /* choices */
    uint32_t pushed_at;
    uint64_t output_tokens;
    uint64_t kept_bytes;
    struct chat_held *first_held, *last_held;
    struct token_text scratch;
    uint32_t choices_count;
    struct chat_choice choices[];
};

/* --- chat_base.c ---- */
enum status chats_open(const struct core_base *bases, const struct tokenizer *const *tokenizers, uint32_t count, struct chats **ret_chats, struct refusal *refusal);
void chats_close(struct chats *chats); /* NULL is fine */
/* NULL: `fault`. */
const struct chat_base *chats_find(const struct chats *chats, const char *name, struct fault *fault);
/* Ids of what was asked. False: `fault`. */
bool chat_prompt_messages(const struct chat_base *base, const struct chat_ask *ask, struct token_list *ret_ids, struct fault *fault);
bool chat_prompt_text(const struct chat_base *base, const json_t *prompt, struct token_list *ret_ids, struct fault *fault);

/* --- chat.c ---- */
api_serve chat_begin;
api_serve completion_begin;
void chat_free(struct chat *chat);

/* --- chat_measure.c ---- */
void chat_measure_asked(struct chat_choice *choice);
void chat_measure_tokens(struct chat_choice *choice, uint32_t tokens);
void chat_measure_end(struct chat_choice *choice, const struct core_end *end);
/* Under the names that operators know, one sample a base. */
void chat_measures_say(struct chats *chats, struct core *core, struct exposition *exposition);

/* --- chat_answer.c ---- */
void chat_got_tokens(void *owner, const struct wire_tokens *tokens);
void chat_got_end(void *owner, const struct core_end *end);
void chat_gone(void *context);
/* Under the lock: all of it ends with that fault, unless it has one. */
void chat_fail(struct chat *chat, const struct fault *fault);
/* On a thread of the pool. True: it is over, and what it held is free. */
bool chat_look(struct chat *chat);

#endif
