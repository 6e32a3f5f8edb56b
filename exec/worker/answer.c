#include "worker/answer.h"

/* The stream has seen the prompt, so that a word's beginning is told from a text's; what it said of it is dropped. */
static void begin_text(struct answer *answer)
{
    token_stream_begin(&answer->stream, answer->tokenizer, true);
    for (size_t i = 0; i < answer->ask.prompt.count; i++) {
        token_stream_push(&answer->stream, answer->ask.prompt.ids[i], &answer->piece);
        answer->piece.count = 0;
    }
}

static void show_best(const struct answer *answer, const struct worker_token *token, struct answer_token *ret_token)
{
    uint32_t count = min_u32(answer->ask.sample.logprobs, token->best_count);

    *ret_token = (struct answer_token){.id = token->id, .logprob = token->logprob, .best_count = count};
    for (uint32_t i = 0; i < count; i++) {
        ret_token->best_ids[i] = token->best_ids[i];
        ret_token->best_logprobs[i] = token->best_logits[i] - token->lse;
    }
}

static bool got_token(void *owner, const struct worker_token *token)
{
    struct answer *answer = owner;
    struct answer_token shown;
    const char *text = "";
    size_t bytes = 0;

    show_best(answer, token, &shown);
    if (answer->tokenizer != NULL && !token->ends) {
        answer->piece.count = 0;
        token_stream_push(&answer->stream, token->id, &answer->piece);
        answer->stopped = stop_feed(&answer->ask.stops, answer->piece.bytes, answer->piece.count, &text, &bytes);
    }
    answer->token(answer->owner, &shown, text, bytes);
    return answer->stopped;
}

static void got_end(void *owner, const struct worker_end *end)
{
    struct answer *answer = owner;
    struct token_text text = {0};

    answer->handle = (worker_handle){0};
    if (answer->tokenizer != NULL && !answer->stopped) {
        const char *rest;
        size_t bytes;

        answer->piece.count = 0;
        token_stream_finish(&answer->stream, &answer->piece);
        if (!stop_feed(&answer->ask.stops, answer->piece.bytes, answer->piece.count, &rest, &bytes)) {
            token_text_add(&text, rest, bytes);
            stop_flush(&answer->ask.stops, &rest, &bytes);
        }
        token_text_add(&text, rest, bytes);
    }
    answer->end(answer->owner, end, text.bytes != NULL ? text.bytes : "", text.count);
    token_text_free(&text);
}

enum status answer_begin(struct answer *answer, struct worker *worker, struct refusal *refusal)
{
    const struct ask *ask = &answer->ask;
    const struct worker_request request = {.adapter = ask->adapter[0] != '\0' ? ask->adapter : NULL,
                                           .tenant = ask->tenant,
                                           .prompt = ask->prompt.ids,
                                           .prompt_tokens = (uint32_t)ask->prompt.count,
                                           .max_tokens = ask->max_tokens,
                                           .ignore_eos = ask->ignore_eos,
                                           .sample = &ask->sample,
                                           .owner = answer,
                                           .token = got_token,
                                           .end = got_end};

    if (ask->stops.count > 0 && answer->tokenizer == NULL)
        return refuse(refusal, STATUS_INVALID, "stop: this model has no tokenizer, so there is no text to stop at");
    if (answer->tokenizer != NULL)
        begin_text(answer);
    return worker_submit(worker, &request, &answer->handle, refusal);
}

void answer_free(struct answer *answer)
{
    ask_free(&answer->ask);
    token_text_free(&answer->piece);
}
