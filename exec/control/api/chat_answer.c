#include <stdio.h>
#include <stdlib.h>

#include "control/api/chat.h"

static void abort_all(struct chat *chat)
{
    for (uint32_t i = 0; i < chat->choices_count; i++)
        if (atomic_load(&chat->choices[i].asked) && !atomic_load(&chat->choices[i].ended))
            core_abort(chat->api->config.core, chat->choices[i].request);
}

void chat_gone(void *context)
{
    struct chat *chat = context;

    atomic_store(&chat->gone, true);
    abort_all(chat);
    pool_ask(chat->api->pool, &chat->task);
}

void chat_fail(struct chat *chat, const struct fault *fault)
{
    if (chat->fault.status != 0)
        return;
    chat->fault = *fault;
    abort_all(chat);
}

/* --- the stream ------------------------------------------------------------------------------------------------------------- */

/* Under the stream's own lock. */
static void taken(void *context, uint32_t events, uint64_t bytes)
{
    struct chat *chat = context;

    (void)bytes;
    for (uint32_t i = 0; i < events; i++) {
        const struct chat_event *event = &chat->ring[chat->taken_at++ % CHAT_RING];

        if (event->tokens > 0)
            core_taken(chat->api->config.core, chat->choices[event->choice].request, event->tokens);
    }
    if (atomic_load(&chat->waits))
        pool_ask(chat->api->pool, &chat->task);
}

/* Of what is in the scratch. STATUS_END: nobody listens any more. */
static enum status push(struct chat *chat, uint32_t choice, uint32_t tokens)
{
    enum status status;

    chat->ring[chat->pushed_at % CHAT_RING] = (struct chat_event){.choice = choice, .tokens = tokens};
    status = http_stream_event(chat->request, chat->scratch.bytes, chat->scratch.count);
    if (status == STATUS_OK)
        chat->pushed_at++;
    if (status != STATUS_END)
        return status;
    chat->over = true;
    abort_all(chat);
    return status;
}

/* With the first piece: until then a refusal has a status of its own. */
static bool begin_stream(struct chat *chat)
{
    const struct http_stream stream = {.taken = taken, .context = chat};

    if (chat->begun)
        return true;
    if (http_stream_begin(chat->request, &stream) == STATUS_OK) {
        chat->begun = true;
        return true;
    }
    chat->answered = true;
    chat->over = true;
    abort_all(chat);
    return false;
}

static enum status say_role(struct chat *chat, struct chat_choice *choice)
{
    enum status status = STATUS_OK;

    if (chat->ask.is_chat && !choice->said_role) {
        chat->scratch.count = 0;
        chat_text_role(&chat->head, choice->index, &chat->scratch);
        status = push(chat, choice->index, 0);
    }
    if (status == STATUS_OK)
        choice->said_role = true;
    return status;
}

/* STATUS_FULL: not now. */
static enum status say(struct chat *chat, const struct chat_piece *piece)
{
    struct chat_choice *choice = &chat->choices[piece->choice];
    struct chat_piece shown = *piece;
    enum status status = begin_stream(chat) ? say_role(chat, choice) : STATUS_END;

    if (status != STATUS_OK)
        return status;
    chat->scratch.count = 0;
    shown.offset = choice->offset;
    chat_text_chunk(&chat->head, &shown, &chat->scratch);
    status = push(chat, piece->choice, piece->tokens_count);
    if (status == STATUS_OK && piece->odds != NULL && !chat->ask.is_chat)
        choice->offset += chat_text_characters(&chat->head, piece->odds, piece->tokens_count);
    return status;
}

static size_t odds_bytes(const struct chat *chat, const struct chat_piece *piece)
{
    return piece->odds == NULL ? 0 : (size_t)piece->tokens_count * (1 + chat->ask.top_logprobs) * sizeof(struct chat_odds);
}

static void hold(struct chat *chat, const struct chat_piece *piece)
{
    const size_t odds = odds_bytes(chat, piece);
    struct chat_held *held = malloc(sizeof(*held) + odds + piece->text_bytes);
    char *behind;

    check(held != NULL);
    behind = (char *)(held + 1);
    held->next = NULL;
    held->piece = *piece;
    if (odds > 0)
        held->piece.odds = memcpy(behind, piece->odds, odds);
    if (piece->text_bytes > 0)
        held->piece.text = memcpy(behind + odds, piece->text, piece->text_bytes);
    if (chat->last_held != NULL)
        chat->last_held->next = held;
    else
        chat->first_held = held;
    chat->last_held = held;
}

/* What waits, while there is room. It says that it waits before it looks, so that no taking is missed. */
static void say_held(struct chat *chat)
{
    atomic_store(&chat->waits, chat->first_held != NULL);
    while (chat->first_held != NULL && !chat->over && chat->fault.status == 0) {
        struct chat_held *held = chat->first_held;

        if (say(chat, &held->piece) == STATUS_FULL)
            return;
        chat->first_held = held->next;
        if (held->next == NULL)
            chat->last_held = NULL;
        free(held);
    }
    atomic_store(&chat->waits, false);
}

static void deliver(struct chat *chat, const struct chat_piece *piece)
{
    if (chat->asked_all && chat->first_held == NULL && say(chat, piece) != STATUS_FULL)
        return;
    hold(chat, piece);
    if (chat->asked_all)
        say_held(chat);
}

/* --- from the loop ---------------------------------------------------------------------------------------------------------- */

static void keep(struct chat *chat, struct chat_choice *choice, const struct chat_piece *piece)
{
    const uint64_t bytes = piece->text_bytes + odds_bytes(chat, piece);
    struct fault fault = {0};

    if (atomic_fetch_add(&chat->api->chats->kept_bytes, bytes) + bytes > CHAT_KEPT_BYTES_MAX) {
        fault_set(&fault, 503, "overloaded", NULL, "too many answers are kept until they are whole; try again, or ask for a stream");
        fault.retry_ms = 1000;
        chat_fail(chat, &fault);
    }
    chat->kept_bytes += bytes;
    token_text_add(&choice->text, piece->text, piece->text_bytes);
    token_text_add(&choice->odds, (const char *)piece->odds, odds_bytes(chat, piece));
    choice->tokens += piece->tokens_count;
}

static struct chat_odds odds_of(const uint8_t *bytes)
{
    struct wire_token token;
    struct chat_odds odds;

    wire_token_read(bytes, &token);
    odds.id = (int32_t)token.id;
    memcpy(&odds.logprob, &token.logprob_bits, sizeof(odds.logprob));
    return odds;
}

/* As asked, however many alternatives the frame has. To free(). */
static struct chat_odds *all_odds(const struct chat *chat, const struct wire_tokens *tokens)
{
    const uint32_t each = 1 + chat->ask.top_logprobs;
    const uint32_t best = tokens->best_count / max_u32(tokens->tokens_count, 1) >= tokens->best_each ? tokens->best_each : 0;
    struct chat_odds *odds = malloc(((size_t)tokens->tokens_count * each + 1) * sizeof(*odds));

    check(odds != NULL);
    for (uint32_t i = 0; i < tokens->tokens_count; i++) {
        odds[(size_t)i * each] = odds_of(tokens->tokens + (size_t)i * WIRE_TOKEN_BYTES);
        for (uint32_t j = 1; j < each; j++)
            odds[(size_t)i * each + j] = j <= best ? odds_of(tokens->best + ((size_t)i * best + j - 1) * WIRE_TOKEN_BYTES)
                                                   : (struct chat_odds){.id = TOKENIZER_NO_ID};
    }
    return odds;
}

void chat_got_tokens(void *owner, const struct wire_tokens *tokens)
{
    struct chat_choice *choice = owner;
    struct chat *chat = choice->chat;
    struct chat_odds *odds = chat->ask.wants_logprobs ? all_odds(chat, tokens) : NULL;
    const struct chat_piece piece = {.choice = choice->index, .text = (const char *)tokens->text, .text_bytes = tokens->text_count, .odds = odds,
                                     .tokens_count = tokens->tokens_count};
    /* What makes no event is taken at once. */
    const bool is_event = chat->ask.streams && (piece.text_bytes > 0 || odds != NULL);
    bool heard;

    chat_measure_tokens(choice, tokens->tokens_count);
    pthread_mutex_lock(&chat->lock);
    heard = !chat->over && chat->fault.status == 0;
    if (heard && is_event)
        deliver(chat, &piece);
    else if (heard && !chat->ask.streams)
        keep(chat, choice, &piece);
    pthread_mutex_unlock(&chat->lock);
    if (!heard || !is_event)
        core_taken(chat->api->config.core, choice->request, tokens->tokens_count);
    free(odds);
}

static void fail_with(struct chat *chat, const struct core_end *end)
{
    struct fault fault = {0};

    switch (end->reason) {
    case CORE_END_REFUSED:
        fault_set(&fault, 400, NULL, NULL, "%.*s", (int)min_u64(end->text_bytes, sizeof(fault.text) - 1), end->text_bytes > 0 ? end->text : "");
        break;
    case CORE_END_BUSY:
        fault_set(&fault, 503, "overloaded", NULL, "no model server takes the request now; try again");
        fault.retry_ms = 1000;
        break;
    case CORE_END_LOST:
        fault_set(&fault, 502, "server_lost", NULL, "the model's server was lost while it answered; try again");
        break;
    default:
        fault_set(&fault, 503, "stopping", NULL, "the request was ended by the server; try again");
        fault.retry_ms = 1000;
    }
    chat_fail(chat, &fault);
}

void chat_got_end(void *owner, const struct core_end *end)
{
    struct chat_choice *choice = owner;
    struct chat *chat = choice->chat;
    const bool whole = end->reason == CORE_END_STOP || end->reason == CORE_END_LENGTH;
    const struct chat_piece rest = {.choice = choice->index, .text = end->text, .text_bytes = end->text_bytes};
    const struct chat_piece last = {.choice = choice->index, .finish = end->reason == CORE_END_STOP ? "stop" : "length"};
    struct pool *pool = chat->api->pool;
    bool wakes;

    chat_measure_end(choice, end);
    pthread_mutex_lock(&chat->lock);
    atomic_store(&choice->ended, true);
    chat->output_tokens += end->output_tokens;
    choice->finish = last.finish;
    if (!whole) {
        fail_with(chat, end);
    } else if (!chat->over && chat->fault.status == 0 && !chat->ask.streams) {
        keep(chat, choice, &rest);
    } else if (!chat->over && chat->fault.status == 0) {
        if (rest.text_bytes > 0)
            deliver(chat, &rest);
        if (!chat->over)
            deliver(chat, &last);
    }
    chat->open--;
    wakes = pool_ask_asleep(pool, &chat->task); /* under the lock: its last look comes after */
    pthread_mutex_unlock(&chat->lock);
    if (wakes)
        pool_wake(pool);
}

/* --- the end ---------------------------------------------------------------------------------------------------------------- */

static bool say_usage(struct chat *chat)
{
    const struct chat_usage usage = {.prompt_tokens = chat->prompt_tokens, .output_tokens = chat->output_tokens};

    if (!chat->ask.wants_usage || chat->said_usage || chat->over || !chat->begun)
        return true;
    atomic_store(&chat->waits, true);
    chat->scratch.count = 0;
    chat_text_usage(&chat->head, &usage, &chat->scratch);
    chat->said_usage = push(chat, 0, 0) != STATUS_FULL;
    return chat->said_usage;
}

static void answer_whole(struct chat *chat)
{
    const struct chat_usage usage = {.prompt_tokens = chat->prompt_tokens, .output_tokens = chat->output_tokens};
    struct chat_piece *pieces = calloc(chat->choices_count, sizeof(*pieces));

    check(pieces != NULL);
    for (uint32_t i = 0; i < chat->choices_count; i++) {
        const struct chat_choice *choice = &chat->choices[i];

        pieces[i] = (struct chat_piece){.choice = i, .text = choice->text.bytes, .text_bytes = choice->text.count,
                                        .odds = (const struct chat_odds *)(const void *)choice->odds.bytes, .tokens_count = choice->tokens,
                                        .finish = choice->finish};
    }
    chat_text_whole(&chat->head, pieces, chat->choices_count, &usage, &chat->scratch);
    http_answer_bytes(chat->request, 200, "application/json", chat->scratch.bytes, chat->scratch.count);
    free(pieces);
}

static void conclude(struct chat *chat)
{
    struct fault fault = chat->fault;

    if (fault.status == 0 && chat->over)
        fault_set(&fault, 503, "stopping", NULL, "nobody waits for the answer");
    if (chat->answered)
        return;
    if (chat->begun && fault.status == 0)
        http_stream_end(chat->request);
    else if (chat->begun)
        http_stream_fail(chat->request, fault.status, fault.code, fault.text);
    else if (fault.status != 0)
        fault_answer(chat->request, &fault);
    else
        answer_whole(chat);
}

bool chat_look(struct chat *chat)
{
    struct fault fault = {0};
    bool is_over;

    pthread_mutex_lock(&chat->lock);
    chat->over |= atomic_load(&chat->gone);
    if (atomic_load(&chat->api->chats->stopping)) {
        fault_set(&fault, 503, "stopping", NULL, "the server stops; try again");
        chat_fail(chat, &fault);
    }
    say_held(chat);
    is_over = chat->open == 0 && (chat->over || chat->fault.status != 0 || (chat->first_held == NULL && say_usage(chat)));
    pthread_mutex_unlock(&chat->lock);
    if (!is_over)
        return false;
    conclude(chat);
    chat_free(chat);
    return true;
}
