/* A request as a person or a client writes it, in JSON. Read strictly: a key that is not known is an error, for a server that drops an
 * adapter's name it does not understand answers with the wrong model. */
#ifndef WORKER_ASK_H
#define WORKER_ASK_H

#include <jansson.h>

#include "engine/sample/stop.h"
#include "engine/tokenizer/tokenizer.h"
#include "worker/worker.h"

#define ASK_MAX_TOKENS_DEFAULT 128

struct ask {
    char adapter[WORKER_NAME_MAX + 1]; /* "": the base */
    struct token_list prompt;          /* ids */
    struct sample_params sample;
    struct stop_scan stops;
    uint32_t tenant;
    uint32_t max_tokens;
    bool ignore_eos;
    bool wants_logprobs;
};

/* Defaults, an empty prompt. */
void ask_init(struct ask *ask);
void ask_free(struct ask *ask);
/* `object` has keys of: adapter, prompt or prompt_ids or messages (with tools and chat_variables, an object), max_tokens, temperature, top_k, top_p, min_p, seed, repetition_penalty,
 * presence_penalty, frequency_penalty, logit_bias, logprobs, stop, ignore_eos, tenant, and those in `others` (a list that ends in NULL),
 * which are the caller's. Over what `ask` holds already. */
enum status ask_read(struct ask *ask, const json_t *object, const char *const *others, const struct tokenizer *tokenizer,
                     struct refusal *refusal);
/* The prompt's ids from text: the model's own special tokens around it, none of its own. */
enum status ask_prompt(struct ask *ask, const char *text, size_t bytes, const struct tokenizer *tokenizer, struct refusal *refusal);
/* The prompt's ids from messages, by the model's chat template, up to where the assistant is to speak. tools, variables: may be NULL. */
enum status ask_chat(struct ask *ask, const json_t *messages, const json_t *tools, const json_t *variables,
                     const struct tokenizer *tokenizer, struct refusal *refusal);

#endif
