/* Requests: in by REQUEST, out by TOKENS as far as credit and room reach, then USAGE and DONE. */
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "serving/internal.h"

/* Of a TOKENS frame: what stands before its lists, with room to spare. */
#define TOKENS_HEAD_BYTES 64
/* One token's text and best ones at most: see STOP_PIECE_BYTES_MAX, SAMPLE_LOGPROBS_MAX. */

/* --- what the engine says ------------------------------------------------------------------------------------------------------- */

static void *grown(void *memory, size_t bytes)
{
    void *larger = realloc(memory, bytes);

    check(larger != NULL);
    return larger;
}

/* Room for one more; what was said is given up first. An answer has max_tokens tokens at most, so this ends. */
static void make_room(struct stream *stream)
{
    if (stream->said == stream->count) {
        stream->first_index += stream->count;
        stream->said = 0;
        stream->count = 0;
        stream->text.count = 0;
    }
    if (stream->count < stream->room)
        return;
    stream->room = max_u32(16, 2 * stream->room);
    stream->tokens = grown(stream->tokens, (size_t)stream->room * WIRE_TOKEN_BYTES);
    stream->best = grown(stream->best, (size_t)stream->room * (stream->best_each + 1) * WIRE_TOKEN_BYTES);
    stream->text_ends = grown(stream->text_ends, stream->room * sizeof(size_t));
}

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void got_token(void *owner, const struct answer_token *token, const char *text, size_t bytes)
{
    struct stream *stream = owner;
    uint8_t *best;

    if (!stream->is_wanted || stream->is_aborted)
        return;
    if (stream->first_index + stream->count == 0)
        stream->best_each = token->best_count; /* and so it stays: what was asked for, or as many ids as there are */
    check(token->best_count == stream->best_each);
    make_room(stream);
    wire_token_write(&(struct wire_token){.id = (uint32_t)token->id, .logprob_bits = bits_of(token->logprob)},
                     stream->tokens + (size_t)stream->count * WIRE_TOKEN_BYTES);
    best = stream->best + (size_t)stream->count * stream->best_each * WIRE_TOKEN_BYTES;
    for (uint32_t i = 0; i < token->best_count; i++)
        wire_token_write(&(struct wire_token){.id = (uint32_t)token->best_ids[i], .logprob_bits = bits_of(token->best_logprobs[i])},
                         best + (size_t)i * WIRE_TOKEN_BYTES);
    token_text_add(&stream->text, text, bytes);
    stream->text_ends[stream->count++] = stream->text.count;
}

static uint32_t finish_of(enum worker_end_reason reason)
{
    switch (reason) {
    case WORKER_END_STOP: return CORE_END_STOP;
    case WORKER_END_LENGTH: return CORE_END_LENGTH;
    case WORKER_END_CANCELLED: return CORE_END_CANCELLED;
    case WORKER_END_FAILED: break;
    }
    return CORE_END_REFUSED;
}

static void got_end(void *owner, const struct worker_end *end, const char *text, size_t bytes)
{
    struct stream *stream = owner;

    stream->is_over = true;
    stream->done = (struct wire_done){.request = stream->request,
                                      .finish = stream->is_aborted ? (uint32_t)CORE_END_CANCELLED : finish_of(end->reason),
                                      .code = end->reason == WORKER_END_FAILED ? STATUS_IO : STATUS_OK,
                                      .prompt_tokens = end->prompt_tokens,
                                      .output_tokens = end->output_tokens,
                                      .recomputed_tokens = end->recomputed_tokens,
                                      .tier_found = end->tier_found,
                                      .compute_ns = (uint64_t)end->compute_ns,
                                      .first_token_ns = (uint64_t)end->first_token_ns};
    if (end->reason == WORKER_END_FAILED)
        token_text_add(&stream->last_text, end->text, strlen(end->text));
    else
        token_text_add(&stream->last_text, text, bytes);
}

/* --- in ------------------------------------------------------------------------------------------------------------------------- */

static void end_refused(struct stream *stream, enum status status, const char *why)
{
    stream->is_over = true;
    stream->done = (struct wire_done){.request = stream->request, .finish = CORE_END_REFUSED, .code = status, .tier_found = TIER_STORE};
    stream->last_text.count = 0;
    token_text_add(&stream->last_text, why, strlen(why));
}

/* Its ids, four bytes each. */
static bool add_prompt(struct token_list *prompt, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t id = wire_get(bytes + 4 * i, 4);

        if (id > INT32_MAX)
            return false;
        token_list_add(prompt, (int32_t)id);
    }
    return true;
}

/* A memory file: it is copied, so that nobody changes it under us. */
static bool read_prompt(struct token_list *prompt, int file, uint32_t tokens_max)
{
    struct stat about;
    uint8_t *bytes = NULL;
    bool fine = fstat(file, &about) == 0 && about.st_size > 0 && about.st_size % 4 == 0 && about.st_size / 4 <= tokens_max;

    if (fine)
        bytes = malloc((size_t)about.st_size);
    fine = fine && bytes != NULL && pread(file, bytes, (size_t)about.st_size, 0) == about.st_size &&
           add_prompt(prompt, bytes, (size_t)about.st_size / 4);
    free(bytes);
    return fine;
}

static enum status take_prompt(struct stream *stream, const struct wire_request *request, const struct wire_inbox *inbox,
                               struct refusal *refusal)
{
    struct token_list *prompt = &stream->answer.ask.prompt;
    const uint32_t most = worker_positions_max(stream->serving->worker);
    bool fine;

    prompt->count = 0;
    if (inbox->descriptors_count > 0 && request->prompt_count == 0)
        fine = read_prompt(prompt, inbox->descriptors[0], most);
    else
        fine = add_prompt(prompt, request->prompt, request->prompt_count);
    return fine ? STATUS_OK
                : refuse(refusal, STATUS_INVALID, "the prompt's tokens cannot be read, or are more than the %u a sequence may have here", most);
}

/* The account begins with the tenant, whose the adapter must be. */
static bool is_owner(const struct stream *stream)
{
    const size_t bytes = strlen(stream->hosted->tenant);

    return stream->account_bytes > bytes && memcmp(stream->account, stream->hosted->tenant, bytes) == 0 && stream->account[bytes] == ' ';
}

static enum status take_adapter(struct stream *stream, const struct wire_request *request, struct refusal *refusal)
{
    static const uint8_t none[32];
    struct hosted *hosted;

    stream->answer.ask.adapter[0] = '\0';
    if (memcmp(request->digest, none, sizeof(none)) == 0)
        return STATUS_OK;
    hosted = hosted_find(stream->serving, request->digest, request->generation);
    if (hosted == NULL)
        return refuse(refusal, STATUS_NOT_FOUND, "there is no such adapter here");
    stream->hosted = hosted;
    hosted->requests++;
    digest_text(hosted->digest, stream->answer.ask.adapter);
    return is_owner(stream) ? STATUS_OK : refuse(refusal, STATUS_NOT_FOUND, "there is no such adapter here");
}

static enum status submit(struct stream *stream, const struct wire_request *request, const struct wire_inbox *inbox, struct refusal *refusal)
{
    struct ask *ask = &stream->answer.ask;
    json_t *settings;
    enum status status;

    if (stream->serving->worker == NULL)
        return refuse(refusal, STATUS_FULL, "the server is not ready");
    settings = json_loadb((const char *)request->settings, request->settings_count, JSON_REJECT_DUPLICATES, NULL);
    status = settings != NULL ? ask_read(ask, settings, NULL, stream->answer.tokenizer, refusal)
                              : refuse(refusal, STATUS_INVALID, "the settings are no JSON");
    json_decref(settings);
    ask->tenant = request->tenant;
    ask->max_tokens = request->max_tokens;
    if (status == STATUS_OK)
        status = take_prompt(stream, request, inbox, refusal);
    if (status == STATUS_OK)
        status = take_adapter(stream, request, refusal);
    return status == STATUS_OK ? answer_begin(&stream->answer, stream->serving->worker, refusal) : status;
}

void stream_begin(struct serving *serving, const struct wire_request *request, struct wire_inbox *inbox)
{
    struct stream *stream = calloc(1, sizeof(*stream));
    struct refusal refusal = {""};
    enum status status;

    check(stream != NULL);
    *stream = (struct stream){.serving = serving, .next = serving->streams, .request = request->request, .is_wanted = true};
    stream->account = malloc(request->account_count + 1);
    check(stream->account != NULL);
    memcpy(stream->account, request->account, request->account_count);
    stream->account_bytes = request->account_count;
    ask_init(&stream->answer.ask);
    stream->answer.tokenizer = serving->tokenizer;
    stream->answer.owner = stream;
    stream->answer.token = got_token;
    stream->answer.end = got_end;
    /* It is in the list first: it may end before this call does. */
    serving->streams = stream;
    serving->streams_count++;
    status = submit(stream, request, inbox, &refusal);
    if (status != STATUS_OK)
        end_refused(stream, status, refusal.text);
}

/* --- out before its end --------------------------------------------------------------------------------------------------------- */

static void cancel(struct stream *stream)
{
    stream->is_aborted = true;
    stream->first_index += stream->count;
    stream->count = 0;
    stream->said = 0;
    stream->text.count = 0;
    stream->last_text.count = 0;
    if (stream->is_over)
        stream->done.finish = CORE_END_CANCELLED;
    else
        worker_cancel(stream->serving->worker, stream->answer.handle);
}

void stream_abort(struct serving *serving, uint64_t request)
{
    for (struct stream *stream = serving->streams; stream != NULL; stream = stream->next)
        if (stream->request == request && stream->is_wanted && !stream->is_aborted)
            cancel(stream);
}

void streams_abort(struct serving *serving)
{
    for (struct stream *stream = serving->streams; stream != NULL; stream = stream->next)
        cancel(stream);
}

void streams_forget(struct serving *serving)
{
    for (struct stream *stream = serving->streams; stream != NULL; stream = stream->next) {
        cancel(stream);
        stream->is_wanted = false;
    }
}

/* --- what is said --------------------------------------------------------------------------------------------------------------- */

/* Tokens from `said` on that fit a frame and the credit. */
static uint32_t sayable(const struct stream *stream, uint32_t credit_tokens)
{
    const size_t each = (1 + (size_t)stream->best_each) * WIRE_TOKEN_BYTES;
    const size_t text_from = stream->said > 0 ? stream->text_ends[stream->said - 1] : 0;
    const uint32_t most = min_u32(stream->count - stream->said, credit_tokens);
    uint32_t count = 0;

    while (count < most &&
           TOKENS_HEAD_BYTES + (count + 1) * each + stream->text_ends[stream->said + count] - text_from <= WIRE_BODY_BYTES_MAX)
        count++;
    return count;
}

/* False: not all of it now. */
static bool say_tokens(struct stream *stream)
{
    struct wire *wire = link_wire(stream->serving->link);

    while (stream->said < stream->count) {
        const uint32_t count = sayable(stream, wire_credit(wire, stream->request));
        const size_t text_from = stream->said > 0 ? stream->text_ends[stream->said - 1] : 0;
        struct wire_tokens tokens = {.request = stream->request,
                                     .first_index = stream->first_index + stream->said,
                                     .best_each = stream->best_each,
                                     .tokens_count = count,
                                     .tokens = stream->tokens + (size_t)stream->said * WIRE_TOKEN_BYTES,
                                     .best_count = count * stream->best_each,
                                     .best = stream->best + (size_t)stream->said * stream->best_each * WIRE_TOKEN_BYTES};

        if (count == 0)
            return false;
        tokens.text = (const uint8_t *)stream->text.bytes + (stream->text.bytes != NULL ? text_from : 0);
        tokens.text_count = (uint32_t)(stream->text_ends[stream->said + count - 1] - text_from);
        if (link_say(stream->serving->link, WIRE_TOKENS, &tokens, 0) != STATUS_OK)
            return false;
        stream->said += count;
    }
    return true;
}

/* Who was refused, or left before its turn, is billed nothing. */
static bool say_usage(struct stream *stream)
{
    const bool computed = stream->done.compute_ns > 0 || stream->done.output_tokens > 0;
    struct wire_usage usage = {.request = stream->request,
                               .prompt_tokens = computed ? stream->done.prompt_tokens : 0,
                               .output_tokens = stream->done.output_tokens,
                               .compute_ns = stream->done.compute_ns,
                               .account_count = stream->account_bytes,
                               .account = (const uint8_t *)stream->account};
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    usage.at_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    return link_say(stream->serving->link, WIRE_USAGE, &usage, 0) == STATUS_OK;
}

static bool say_done(struct stream *stream)
{
    stream->done.text = (const uint8_t *)stream->last_text.bytes;
    stream->done.text_count = (uint32_t)stream->last_text.count;
    return link_say(stream->serving->link, WIRE_DONE, &stream->done, 0) != STATUS_FULL;
}

/* True: nothing more is to be said of it. */
static bool say(struct stream *stream)
{
    if (stream->is_over && !stream->usage_said)
        stream->usage_said = say_usage(stream);
    if (!stream->is_wanted)
        return stream->usage_said;
    return say_tokens(stream) && stream->usage_said && say_done(stream);
}

static void release(struct stream *stream)
{
    answer_free(&stream->answer);
    token_text_free(&stream->text);
    token_text_free(&stream->last_text);
    free(stream->tokens);
    free(stream->best);
    free(stream->text_ends);
    free(stream->account);
    free(stream);
}

void streams_say(struct serving *serving)
{
    struct stream **at = &serving->streams;

    while (*at != NULL) {
        struct stream *stream = *at;

        if (!say(stream)) {
            at = &stream->next;
            continue;
        }
        *at = stream->next;
        serving->streams_count--;
        if (stream->hosted != NULL)
            hosted_give(serving, stream->hosted);
        release(stream);
    }
}

void streams_free(struct serving *serving)
{
    while (serving->streams != NULL) {
        struct stream *stream = serving->streams;

        serving->streams = stream->next;
        release(stream);
    }
}
