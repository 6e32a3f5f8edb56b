/* The life of a request for answers. It is a task of the pool, which asks the core for each answer, and ends it when all have ended; in between
 * the core's thread brings tokens, and the HTTP thread tells what the client took and whether it is gone.
 *
 * Locks: `lock` is held by whoever makes events, and http.h is called under it; the HTTP thread's calls take `taken_lock` alone, under which
 * nothing is called. What the client does not take waits in `backlog`: at most CORE_CREDIT_TOKENS tokens of each answer, for the core is told of
 * those that were taken, and no more come before. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/api/chat.h"
#include "control/metadata/model.h"

/* Where a request says nothing; of what is left of the model's context, if that is less. */
#define MAX_TOKENS_DEFAULT 4096u
#define BODY_REFUSED 400

/* Events that the client has not taken, in order: whose, and how many tokens. */
struct taken {
    uint32_t choice;
    uint32_t tokens;
};
struct waiting {
    struct waiting *next;
    struct taken taken;
    char *text;
};

struct chat {
    struct task task;
    struct api *api;
    struct http_request *request;
    struct chat_request asked;
    struct chat_head head;
    char tenant[NAME_BYTES];
    uint32_t tenant_number;
    uint64_t tokens_taken; /* of the tenant's minute */
    uint32_t base;
    bool has_adapter;
    struct core_adapter adapter;
    struct chat_choice *choices;
    uint32_t count;
    bool has_asked;
    bool has_aborted;
    atomic_bool is_gone;

    pthread_mutex_t lock; /* of what follows */
    uint32_t pending;
    bool is_stream;       /* it has begun */
    bool is_over;         /* nobody listens: refused or gone */
    bool has_usage;       /* its event was made */
    struct fault fault;   /* why it is not done */
    struct waiting *backlog;
    struct waiting **backlog_end;

    pthread_mutex_t taken_lock; /* of what follows */
    struct taken *ring;   /* [ring_size] */
    uint32_t ring_size, ring_from, ring_count;
};

/* --- what the client takes -------------------------------------------------------------------------------------------------- */

static void ring_push(struct chat *chat, struct taken taken)
{
    pthread_mutex_lock(&chat->taken_lock);
    if (chat->ring_count == chat->ring_size) {
        const uint32_t size = chat->ring_size > 0 ? 2 * chat->ring_size : 64;
        struct taken *ring = malloc(size * sizeof(*ring));

        check(ring != NULL);
        for (uint32_t i = 0; i < chat->ring_count; i++)
            ring[i] = chat->ring[(chat->ring_from + i) % chat->ring_size];
        free(chat->ring);
        chat->ring = ring;
        chat->ring_size = size;
        chat->ring_from = 0;
    }
    chat->ring[(chat->ring_from + chat->ring_count++) % chat->ring_size] = taken;
    pthread_mutex_unlock(&chat->taken_lock);
}

/* The newest, which was not sent after all. */
static void ring_unpush(struct chat *chat)
{
    pthread_mutex_lock(&chat->taken_lock);
    chat->ring_count--;
    pthread_mutex_unlock(&chat->taken_lock);
}

static bool ring_pop(struct chat *chat, struct taken *ret_taken)
{
    bool there;

    pthread_mutex_lock(&chat->taken_lock);
    there = chat->ring_count > 0;
    if (there) {
        *ret_taken = chat->ring[chat->ring_from];
        chat->ring_from = (chat->ring_from + 1) % chat->ring_size;
        chat->ring_count--;
    }
    pthread_mutex_unlock(&chat->taken_lock);
    return there;
}

/* On the HTTP thread, as the next one. */
static void taken(void *context, uint32_t events, uint64_t bytes)
{
    struct chat *chat = context;
    struct taken one;

    (void)bytes;
    while (events-- > 0 && ring_pop(chat, &one))
        if (one.tokens > 0)
            core_taken(chat->api->config.core, chat->choices[one.choice].id, one.tokens);
    pool_ask(chat->api->pool, &chat->task); /* there is room for what waits */
}

static void gone(void *context)
{
    struct chat *chat = context;

    atomic_store(&chat->is_gone, true);
    pool_ask(chat->api->pool, &chat->task);
}

/* --- events; under the lock ------------------------------------------------------------------------------------------------- */

static bool begin_stream(struct chat *chat)
{
    const struct http_stream stream = {.taken = taken, .context = chat};

    if (chat->is_stream || chat->is_over)
        return !chat->is_over;
    chat->is_stream = http_stream_begin(chat->request, &stream) == STATUS_OK;
    if (!chat->is_stream)
        chat->is_over = true; /* it was answered: too many streams */
    return chat->is_stream;
}

static enum status send_event(struct chat *chat, struct taken what, const char *text)
{
    enum status status;

    ring_push(chat, what);
    status = http_stream_event(chat->request, text, strlen(text));
    if (status != STATUS_OK)
        ring_unpush(chat);
    if (status == STATUS_END) {
        chat->is_over = true;
        atomic_store(&chat->is_gone, true);
    }
    return status;
}

/* Takes the text. */
static void push_event(struct chat *chat, struct taken what, char *text)
{
    struct waiting *waiting;

    if (!begin_stream(chat) || (chat->backlog == NULL && send_event(chat, what, text) != STATUS_FULL)) {
        free(text);
        return;
    }
    waiting = malloc(sizeof(*waiting));
    check(waiting != NULL);
    *waiting = (struct waiting){.taken = what, .text = text};
    *chat->backlog_end = waiting;
    chat->backlog_end = &waiting->next;
}

static void drop_first(struct chat *chat)
{
    struct waiting *waiting = chat->backlog;

    chat->backlog = waiting->next;
    if (chat->backlog == NULL)
        chat->backlog_end = &chat->backlog;
    free(waiting->text);
    free(waiting);
}

static void flush(struct chat *chat)
{
    while (chat->backlog != NULL && (chat->is_over || send_event(chat, chat->backlog->taken, chat->backlog->text) != STATUS_FULL))
        drop_first(chat);
}

/* --- on the core's thread --------------------------------------------------------------------------------------------------- */

static void on_tokens(void *owner, const struct wire_tokens *tokens)
{
    struct chat_choice *choice = owner;
    struct chat *chat = choice->chat;
    const struct taken what = {choice->index, tokens->tokens_count};

    pthread_mutex_lock(&chat->lock);
    if (chat->asked.logprobs)
        chat_add_logprobs(&chat->head, choice, tokens);
    if (!chat->asked.stream)
        token_text_add(&choice->text, (const char *)tokens->text, tokens->text_count);
    if (chat->asked.stream && (tokens->text_count > 0 || chat->asked.logprobs || !choice->has_begun))
        push_event(chat, what, chat_event(&chat->head, choice, (const char *)tokens->text, tokens->text_count, NULL));
    else
        core_taken(chat->api->config.core, choice->id, what.tokens); /* nothing of it waits for the client */
    pthread_mutex_unlock(&chat->lock);
}

static void set_fault(struct chat *chat, const struct core_end *end)
{
    struct fault *fault = &chat->fault;

    if (fault->status != 0 || end->reason == CORE_END_CANCELLED)
        return;
    if (end->reason == CORE_END_REFUSED) {
        fault_set(fault, BODY_REFUSED, NULL, NULL, "%.*s", (int)min_u64(end->text_bytes, 200), end->text);
    } else if (end->reason == CORE_END_BUSY) {
        fault_set(fault, 503, "overloaded", "model", "no server takes this model's requests now; try again");
        fault->retry_ms = 1000;
    } else {
        fault_set(fault, 502, "server_lost", NULL, "the model's server was lost in the middle of the answer; ask again");
    }
}

/* What an answer ends with. Under the lock. */
static void end_choice(struct chat *chat, struct chat_choice *choice, const struct core_end *end)
{
    const bool good = end->reason == CORE_END_STOP || end->reason == CORE_END_LENGTH;

    choice->end = *end;
    choice->end.text = NULL;
    choice->has_ended = true;
    if (!good)
        set_fault(chat, end);
    else if (chat->asked.stream)
        push_event(chat, (struct taken){choice->index, 0},
                   chat_event(&chat->head, choice, end->text != NULL ? end->text : "", end->text_bytes, chat_finish(end->reason)));
    else if (end->text_bytes > 0)
        token_text_add(&choice->text, end->text, end->text_bytes);
    chat->pending--;
}

static void on_end(void *owner, const struct core_end *end)
{
    struct chat_choice *choice = owner;
    struct chat *chat = choice->chat;

    pthread_mutex_lock(&chat->lock);
    end_choice(chat, choice, end);
    if (chat->pending == 0 || chat->fault.status != 0)
        pool_ask(chat->api->pool, &chat->task); /* under the lock: who sees that none is left frees all this */
    pthread_mutex_unlock(&chat->lock);
}

/* --- on the pool ------------------------------------------------------------------------------------------------------------ */

static void ask_one(struct chat *chat, struct chat_choice *choice, const char *account)
{
    const struct token_list *prompt = &chat->asked.prompts[choice->index / chat->asked.n];
    char *settings;
    enum status status;

    json_object_set_new(chat->asked.settings, "seed", json_integer((json_int_t)(chat->asked.seed + choice->index)));
    settings = json_dumps(chat->asked.settings, JSON_COMPACT);
    check(settings != NULL);
    status = core_ask(chat->api->config.core,
                      &(struct core_ask){.base = chat->base, .adapter = chat->has_adapter ? &chat->adapter : NULL, .tenant = chat->tenant_number,
                                         .prompt = prompt->ids, .prompt_tokens = (uint32_t)prompt->count, .max_tokens = chat->asked.max_tokens,
                                         .settings = settings, .account = account, .owner = choice, .tokens = on_tokens, .end = on_end},
                      &choice->id);
    free(settings);
    if (status == STATUS_OK)
        return;
    pthread_mutex_lock(&chat->lock);
    end_choice(chat, choice, &(struct core_end){.reason = CORE_END_BUSY});
    pthread_mutex_unlock(&chat->lock);
}

static void ask_all(struct chat *chat)
{
    char account[NAME_BYTES + sizeof(chat->head.model) + 1];

    snprintf(account, sizeof(account), "%s %s", chat->tenant, chat->head.model);
    chat->has_asked = true;
    http_on_gone(chat->request, gone, chat);
    for (uint32_t i = 0; i < chat->count; i++)
        ask_one(chat, &chat->choices[i], account);
}

/* What was asked and does not end by itself soon. */
static void abort_all(struct chat *chat)
{
    if (chat->has_aborted)
        return;
    chat->has_aborted = true;
    for (uint32_t i = 0; i < chat->count; i++)
        if (chat->choices[i].id != 0)
            core_abort(chat->api->config.core, chat->choices[i].id);
}

static void count_tokens(const struct chat *chat, uint64_t *ret_prompt, uint64_t *ret_output)
{
    *ret_prompt = 0;
    *ret_output = 0;
    for (uint32_t i = 0; i < chat->asked.prompts_count; i++)
        *ret_prompt += chat->asked.prompts[i].count;
    for (uint32_t i = 0; i < chat->count; i++)
        *ret_output += chat->choices[i].end.output_tokens;
}

/* Under the lock. True: all is said. */
static bool say_last(struct chat *chat)
{
    uint64_t prompt_tokens;
    uint64_t output_tokens;

    if (chat->pending > 0)
        return false;
    count_tokens(chat, &prompt_tokens, &output_tokens);
    if (chat->is_stream && chat->asked.include_usage && !chat->has_usage && chat->fault.status == 0) {
        chat->has_usage = true;
        push_event(chat, (struct taken){0, 0}, chat_usage_event(&chat->head, prompt_tokens, output_tokens));
    }
    return chat->backlog == NULL || chat->is_over;
}

static void chat_free(struct chat *chat)
{
    while (chat->backlog != NULL)
        drop_first(chat);
    for (uint32_t i = 0; i < chat->count; i++) {
        json_decref(chat->choices[i].logprobs);
        token_text_free(&chat->choices[i].text);
    }
    free(chat->choices);
    free(chat->ring);
    chat_request_free(&chat->asked);
    pthread_mutex_destroy(&chat->lock);
    pthread_mutex_destroy(&chat->taken_lock);
}

/* Nobody else has it any more. */
static void finish(struct chat *chat)
{
    uint64_t prompt_tokens;
    uint64_t output_tokens;
    uint64_t used;

    count_tokens(chat, &prompt_tokens, &output_tokens);
    used = prompt_tokens * chat->asked.n + output_tokens;
    if (used < chat->tokens_taken)
        limits_give(chat->api->limits, chat->tenant, LIMITS_TOKENS, chat->tokens_taken - used);
    limits_leave(chat->api->limits, chat->tenant, chat->count);
    if (chat->is_stream && chat->fault.status != 0)
        http_stream_fail(chat->request, chat->fault.status, chat->fault.code, chat->fault.text);
    else if (chat->is_stream)
        http_stream_end(chat->request);
    else if (chat->is_over)
        ; /* refused as a stream: it was answered then */
    else if (chat->fault.status != 0)
        fault_answer(chat->request, &chat->fault);
    else if (chat->asked.stream || atomic_load(&chat->is_gone))
        http_answer_error(chat->request, 499, "cancelled", NULL, "the client has left");
    else
        http_answer_json(chat->request, 200, chat_answer(&chat->head, chat->choices, chat->count, prompt_tokens, output_tokens));
}

static bool chat_run(struct task *task, struct metadata *metadata)
{
    struct chat *chat = (struct chat *)task;
    bool over;
    bool stop;

    (void)metadata;
    if (!chat->has_asked)
        ask_all(chat);
    pthread_mutex_lock(&chat->lock);
    flush(chat);
    stop = chat->fault.status != 0 || chat->is_over;
    over = say_last(chat);
    pthread_mutex_unlock(&chat->lock);
    if (!over && (stop || atomic_load(&chat->is_gone)))
        abort_all(chat);
    if (!over)
        return false;
    finish(chat);
    chat_free(chat);
    return true;
}

/* --- beginning -------------------------------------------------------------------------------------------------------------- */

static bool find_base(struct chat *chat, const char *name, struct fault *fault)
{
    const struct api_config *config = &chat->api->config;

    while (chat->base < config->bases_count && strcmp(config->bases[chat->base].name, name) != 0)
        chat->base++;
    if (chat->base < config->bases_count)
        return true;
    fault_set(fault, 503, "model_not_served", "model", "this model's base is not served here now");
    return false;
}

static bool find_model(struct call *call, struct chat *chat, struct metadata *metadata, struct fault *fault)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_model model;
    const enum status status = meta_name_resolve(metadata, call->caller.tenant, chat->asked.model, &results, &model, &refusal);

    if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
        fault_from(call->api, fault, status, &refusal);
    } else if (status == STATUS_NOT_FOUND || !model_may_answer(&model)) {
        fault_no_model(fault);
    } else if (find_base(chat, model.base, fault) && model.id != NULL) {
        chat->has_adapter = true;
        core_adapter_key(call->caller.tenant, model.digest, chat->adapter.key);
        snprintf(chat->adapter.tenant, sizeof(chat->adapter.tenant), "%s", call->caller.tenant);
        snprintf(chat->adapter.object, sizeof(chat->adapter.object), "%s", model.object);
        chat->adapter.rank = (uint32_t)model.rank;
        chat->adapter.bytes = (uint64_t)model.bytes;
    }
    meta_results_free(&results);
    return fault->status == 0;
}

/* Each prompt with its answer within the base's context. */
static bool fit(struct chat *chat, struct fault *fault)
{
    const uint32_t positions = chat->api->config.bases[chat->base].positions_max;
    const bool chosen = chat->asked.max_tokens > 0;
    uint64_t longest = 0;

    for (uint32_t i = 0; i < chat->asked.prompts_count; i++)
        longest = max_u64(longest, chat->asked.prompts[i].count);
    if (longest + (chosen ? chat->asked.max_tokens : 1) > positions) {
        fault_set(fault, 400, "context_length_exceeded", chat->asked.is_chat ? "messages" : "prompt",
                  "this model's context is %u tokens; the prompt has %llu%s%s", positions, (unsigned long long)longest,
                  chosen ? ", and the answer may have max_tokens" : "", chosen ? ": ask for fewer" : "");
        return false;
    }
    if (!chosen)
        chat->asked.max_tokens = (uint32_t)min_u64(positions - longest, MAX_TOKENS_DEFAULT);
    return true;
}

/* What the tenant may take in a minute, and have running. */
static bool enter(struct call *call, struct chat *chat, struct fault *fault)
{
    struct limits_state state;
    uint64_t tokens = 0;

    for (uint32_t i = 0; i < chat->asked.prompts_count; i++)
        tokens += (chat->asked.prompts[i].count + chat->asked.max_tokens) * chat->asked.n;
    if (!limits_enter(call->api->limits, call->caller.tenant, chat->count, api_now_ms())) {
        fault_set(fault, 429, "rate_limit_exceeded", NULL, "your organization has as many answers under way as it may");
        fault->retry_ms = 1000;
        return false;
    }
    if (limits_take(call->api->limits, call->caller.tenant, LIMITS_TOKENS, call->tenant.tokens_per_min, tokens, api_now_ms(), &state)) {
        chat->tokens_taken = tokens;
        call_limit_headers(call->request, "tokens", &state);
        return true;
    }
    limits_leave(call->api->limits, call->caller.tenant, chat->count);
    call_limit_headers(call->request, "tokens", &state);
    fault_set(fault, 429, "rate_limit_exceeded", NULL, "more than %llu tokens a minute: this is your organization's limit",
              (unsigned long long)state.limit);
    fault->retry_ms = state.retry_ms;
    return false;
}

static void name_it(struct call *call, struct chat *chat)
{
    const struct core_base *base = &call->api->config.bases[chat->base];

    meta_id(chat->asked.is_chat ? "chatcmpl-" : "cmpl-", chat->head.id);
    chat->head.is_chat = chat->asked.is_chat;
    chat->head.created_s = api_now_ms() / 1000;
    chat->head.include_usage = chat->asked.include_usage;
    chat->head.tokenizer = call->api->config.tokenizers[chat->base];
    snprintf(chat->head.model, sizeof(chat->head.model), "%s", chat->asked.model);
    snprintf(chat->head.fingerprint, sizeof(chat->head.fingerprint), "fp_%02x%02x%02x%02x%02x", base->digest[0], base->digest[1],
             base->digest[2], base->digest[3], base->digest[4]);
    snprintf(chat->tenant, sizeof(chat->tenant), "%s", call->caller.tenant);
    chat->tenant_number = call->tenant.number;
}

static bool prepare(struct call *call, struct chat *chat, struct metadata *metadata, const json_t *body, bool is_chat, struct fault *fault)
{
    if (!chat_request_read(body, is_chat, &chat->asked, fault) || !find_model(call, chat, metadata, fault) ||
        !chat_request_prompts(body, &chat->asked, call->api->config.tokenizers[chat->base], fault) || !fit(chat, fault))
        return false;
    chat->count = chat->asked.prompts_count * chat->asked.n;
    name_it(call, chat);
    chat->choices = calloc(chat->count, sizeof(*chat->choices));
    check(chat->choices != NULL);
    for (uint32_t i = 0; i < chat->count; i++)
        chat->choices[i] = (struct chat_choice){.chat = chat, .index = i};
    chat->pending = chat->count;
    return enter(call, chat, fault);
}

static void create(struct call *call, struct metadata *metadata, bool is_chat)
{
    json_t *body = http_json(call->request);
    struct fault fault = {0};
    struct chat *chat;

    if (body == NULL)
        return;
    chat = calloc(1, sizeof(*chat));
    check(chat != NULL);
    chat->task.run = chat_run;
    chat->api = call->api;
    chat->request = call->request;
    chat->backlog_end = &chat->backlog;
    pthread_mutex_init(&chat->lock, NULL);
    pthread_mutex_init(&chat->taken_lock, NULL);
    if (prepare(call, chat, metadata, body, is_chat, &fault)) {
        pool_begin(call->api->pool, &chat->task);
    } else {
        fault_answer(call->request, &fault);
        chat_free(chat);
        free(chat);
    }
    json_decref(body);
}

void chat_create(struct call *call, struct metadata *metadata)
{
    create(call, metadata, true);
}

void completion_create(struct call *call, struct metadata *metadata)
{
    create(call, metadata, false);
}
