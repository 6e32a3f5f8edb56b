/* One request's answer as text: ids through the tokenizer's stream and the stop strings, pieces out. Both the command line and the server
 * speak through it. */
#ifndef WORKER_ANSWER_H
#define WORKER_ANSWER_H

#include "worker/ask.h"

/* One token of an answer with what may be shown of it. */
struct answer_token {
    int32_t id;
    float logprob;
    uint32_t best_count; /* of the alternatives that were asked for */
    int32_t best_ids[SAMPLE_LOGPROBS_MAX];
    float best_logprobs[SAMPLE_LOGPROBS_MAX];
};

struct answer {
    struct ask ask;
    const struct tokenizer *tokenizer;     /* NULL: no text */
    struct token_stream stream;
    struct token_text piece;               /* scratch */
    bool stopped;                          /* by a stop string */
    worker_handle handle;
    void *owner;
    /* Each token, with the text that may go out now: often none. */
    void (*token)(void *owner, const struct answer_token *token, const char *text, size_t bytes);
    /* The last text, and how it ended. */
    void (*end)(void *owner, const struct worker_end *end, const char *text, size_t bytes);
};

/* Takes the ask over. `owner`, token, end and tokenizer are set by the caller before. STATUS as worker_submit(); no call follows a
 * refusal, and answer_free() is due in either case. */
enum status answer_begin(struct answer *answer, struct worker *worker, struct refusal *refusal);
void answer_free(struct answer *answer);

#endif
