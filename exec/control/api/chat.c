#include "control/api/chat.h"

#include <stdio.h>
#include <stdlib.h>

/* --- what is asked for ------------------------------------------------------------------------------------------------------ */

static bool find_model(struct chat *chat, struct metadata *metadata, struct fault *fault)
{
    struct meta_results results = {0};
    struct meta_model model;

    if (model_find(chat->api, metadata, chat->caller.tenant, chat->ask.model, &results, &model, fault)) {
        chat->base = chats_find(chat->api->chats, model.base, fault);
        snprintf(chat->model, sizeof(chat->model), "%s", model.name);
        chat->has_adapter = model.id != NULL;
        if (chat->has_adapter) {
            core_adapter_key(chat->caller.tenant, model.digest, chat->adapter.key);
            snprintf(chat->adapter.tenant, sizeof(chat->adapter.tenant), "%s", chat->caller.tenant);
            snprintf(chat->adapter.object, sizeof(chat->adapter.object), "%s", model.object);
            chat->adapter.rank = (uint32_t)model.rank;
            chat->adapter.bytes = (uint64_t)model.bytes;
        }
    }
    meta_results_free(&results);
    return fault->status == 0;
}

static const json_t *prompt_at(const struct chat_ask *ask, uint32_t index)
{
    const json_t *first = json_array_get(ask->prompt, 0);

    return first == NULL || json_is_integer(first) ? ask->prompt : json_array_get(ask->prompt, index);
}

/* Ids of every prompt, and the tokens that an answer may have, which all of them leave room for. */
static bool make_prompts(struct chat *chat, struct fault *fault)
{
    const uint32_t positions_max = chat->base->core->positions_max;
    size_t longest = 0;

    chat->prompts = calloc(chat->ask.prompts, sizeof(chat->prompts[0]));
    check(chat->prompts != NULL);
    for (uint32_t i = 0; i < chat->ask.prompts; i++) {
        const bool fine = chat->ask.is_chat ? chat_prompt_messages(chat->base, &chat->ask, &chat->prompts[i], fault)
                                            : chat_prompt_text(chat->base, prompt_at(&chat->ask, i), &chat->prompts[i], fault);

        if (!fine)
            return false;
        longest = (size_t)max_u64(longest, chat->prompts[i].count);
        chat->prompt_tokens += chat->prompts[i].count;
    }
    if (longest + max_u64(chat->ask.max_tokens, 1) > positions_max) {
        fault_set(fault, 400, "context_length_exceeded", chat->ask.is_chat ? "messages" : "prompt",
                  "this model's maximum context length is %u tokens; %zu are in the %s and %u may be in the answer", (unsigned)positions_max,
                  longest, chat->ask.is_chat ? "messages" : "prompt", (unsigned)max_u64(chat->ask.max_tokens, 1));
        return false;
    }
    if (chat->ask.max_tokens == 0)
        chat->ask.max_tokens = min_u32(positions_max - (uint32_t)longest, CHAT_TOKENS_DEFAULT);
    return true;
}

static bool fits_memory(const struct chat *chat, struct fault *fault)
{
    const uint64_t odds = (uint64_t)chat->choices_count * chat->ask.max_tokens * (1 + chat->ask.top_logprobs);

    if (chat->ask.streams || !chat->ask.wants_logprobs || odds <= CHAT_ODDS_MAX)
        return true;
    fault_set(fault, 400, NULL, "logprobs", "so many log-probabilities come as a stream only: with n, max_tokens and alternatives there may be %llu, "
              "and %u fit into one answer", (unsigned long long)odds, CHAT_ODDS_MAX);
    return false;
}

/* --- what the tenant may ---------------------------------------------------------------------------------------------------- */

/* Prompts and all that may be answered; what was not answered is given back at the end. */
static bool take_tokens(struct chat *chat, struct fault *fault)
{
    const uint64_t amount = chat->prompt_tokens + (uint64_t)chat->choices_count * chat->ask.max_tokens;
    struct limits_state state;
    const bool taken = limits_take(chat->api->limits, chat->caller.tenant, LIMITS_TOKENS, chat->tenant.tokens_per_min, amount, api_now_ms(), &state);

    call_limit_headers(chat->request, "tokens", &state);
    if (taken) {
        chat->taken_tokens = amount;
        return true;
    }
    fault_set(fault, 429, "rate_limit_exceeded", NULL, "more than %llu tokens a minute, those that may be answered among them: this is your "
              "organization's limit", (unsigned long long)state.limit);
    fault->retry_ms = state.retry_ms;
    return false;
}

static bool enter(struct chat *chat, struct fault *fault)
{
    chat->entered = limits_enter(chat->api->limits, chat->caller.tenant, chat->choices_count, api_now_ms());
    if (!chat->entered) {
        fault_set(fault, 429, "rate_limit_exceeded", NULL, "more than %u answers at once: this is your organization's limit",
                  LIMITS_TENANT_RUNNING_MAX);
        fault->retry_ms = 1000;
    }
    return chat->entered && take_tokens(chat, fault);
}

/* --- asking ----------------------------------------------------------------------------------------------------------------- */

static enum status ask_one(struct chat *chat, struct chat_choice *choice)
{
    const struct token_list *prompt = &chat->prompts[choice->index / chat->ask.choices];
    char *settings = chat_ask_settings(&chat->ask, choice->index);
    const struct core_ask ask = {.base = (uint32_t)(chat->base - chat->api->chats->bases),
                                 .adapter = chat->has_adapter ? &chat->adapter : NULL,
                                 .tenant = chat->tenant.number,
                                 .prompt = prompt->ids,
                                 .prompt_tokens = (uint32_t)prompt->count,
                                 .max_tokens = chat->ask.max_tokens,
                                 .settings = settings,
                                 .account = chat->account,
                                 .owner = choice,
                                 .tokens = chat_got_tokens,
                                 .end = chat_got_end};
    enum status status;

    pthread_mutex_lock(&chat->lock);
    chat->open++;
    pthread_mutex_unlock(&chat->lock);
    chat_measure_asked(choice);
    status = core_ask(chat->api->config.core, &ask, &choice->request);
    free(settings);
    if (status == STATUS_OK)
        atomic_store(&choice->asked, true);
    return status;
}

static void refuse_ask(struct chat *chat, enum status status)
{
    struct fault fault = {0};

    if (status == STATUS_FULL) {
        fault_set(&fault, 429, "rate_limit_exceeded", NULL, "too many requests at once; try again");
        fault.retry_ms = 1000;
    } else if (status == STATUS_END) {
        fault_set(&fault, 503, "stopping", NULL, "the server stops; try again");
        fault.retry_ms = 1000;
    } else {
        fault_set(&fault, 400, NULL, NULL, "the model's server cannot take this request: %s", status_text(status));
    }
    pthread_mutex_lock(&chat->lock);
    chat->open--;
    chat_fail(chat, &fault);
    pthread_mutex_unlock(&chat->lock);
}

/* Who leaves meanwhile is seen after each: either he finds the request asked, or it is aborted here. */
static void ask_all(struct chat *chat)
{
    bool goes_on = true;

    http_on_gone(chat->request, chat_gone, chat);
    for (uint32_t i = 0; goes_on && i < chat->choices_count; i++) {
        const enum status status = ask_one(chat, &chat->choices[i]);

        if (status != STATUS_OK)
            refuse_ask(chat, status);
        else if (atomic_load(&chat->gone))
            core_abort(chat->api->config.core, chat->choices[i].request);
        goes_on = status == STATUS_OK && !atomic_load(&chat->gone);
    }
    pthread_mutex_lock(&chat->lock);
    chat->asked_all = true;
    chat->over |= atomic_load(&chat->gone);
    pthread_mutex_unlock(&chat->lock);
}

static void make_head(struct chat *chat)
{
    snprintf(chat->id, sizeof(chat->id), "%s-%s", chat->ask.is_chat ? "chatcmpl" : "cmpl", http_request_id(chat->request) + strlen("req_"));
    snprintf(chat->account, sizeof(chat->account), "%s %s", chat->caller.tenant, chat->model);
    chat->head = (struct chat_head){.is_chat = chat->ask.is_chat, .id = chat->id, .model = chat->model, .fingerprint = chat->base->fingerprint,
                                    .created_s = api_now_ms() / 1000, .tokenizer = chat->base->tokenizer,
                                    .wants_logprobs = chat->ask.wants_logprobs, .wants_usage = chat->ask.wants_usage,
                                    .top_logprobs = chat->ask.top_logprobs};
}

static bool chat_run(struct task *task, struct metadata *metadata)
{
    struct chat *chat = (struct chat *)task;
    struct fault fault = {0};

    if (chat->has_run)
        return chat_look(chat);
    chat->has_run = true;
    if (find_model(chat, metadata, &fault) && make_prompts(chat, &fault) && fits_memory(chat, &fault) && enter(chat, &fault)) {
        make_head(chat);
        ask_all(chat);
        return chat_look(chat);
    }
    fault_answer(chat->request, &fault);
    chat_free(chat);
    return true;
}

/* --- beginning and end ------------------------------------------------------------------------------------------------------ */

static void begin(struct call *call, struct metadata *metadata, bool is_chat)
{
    json_t *body = http_json(call->request);
    struct fault fault = {0};
    struct chat_ask ask;
    struct chat *chat;
    uint32_t count;

    if (body == NULL)
        return;
    if (!chat_ask_read(body, is_chat, &ask, &fault)) {
        fault_answer(call->request, &fault);
        json_decref(body);
        return;
    }
    count = ask.prompts * ask.choices;
    chat = calloc(1, sizeof(*chat) + count * sizeof(chat->choices[0]));
    check(chat != NULL);
    chat->task.run = chat_run;
    chat->api = call->api;
    chat->request = call->request;
    chat->caller = call->caller;
    chat->tenant = call->tenant;
    chat->body = body;
    chat->ask = ask;
    chat->choices_count = count;
    pthread_mutex_init(&chat->lock, NULL);
    for (uint32_t i = 0; i < count; i++) {
        chat->choices[i].chat = chat;
        chat->choices[i].index = i;
    }
    pool_go_on(call->api->pool, &chat->task, metadata);
}

void chat_begin(struct call *call, struct metadata *metadata)
{
    begin(call, metadata, true);
}

void completion_begin(struct call *call, struct metadata *metadata)
{
    begin(call, metadata, false);
}

/* The pool frees the chat itself. */
void chat_free(struct chat *chat)
{
    const uint64_t used = chat->prompt_tokens + chat->output_tokens;

    if (chat->entered)
        limits_leave(chat->api->limits, chat->caller.tenant, chat->choices_count);
    if (chat->taken_tokens > used)
        limits_give(chat->api->limits, chat->caller.tenant, LIMITS_TOKENS, chat->taken_tokens - used);
    atomic_fetch_sub(&chat->api->chats->kept_bytes, chat->kept_bytes);
    for (struct chat_held *held = chat->first_held, *next; held != NULL; held = next) {
        next = held->next;
        free(held);
    }
    for (uint32_t i = 0; i < chat->choices_count; i++) {
        token_text_free(&chat->choices[i].text);
        token_text_free(&chat->choices[i].odds);
    }
    for (uint32_t i = 0; chat->prompts != NULL && i < chat->ask.prompts; i++)
        token_list_free(&chat->prompts[i]);
    free(chat->prompts);
    token_text_free(&chat->scratch);
    chat_ask_free(&chat->ask);
    json_decref(chat->body);
    pthread_mutex_destroy(&chat->lock);
}
