#include "rig.h"

#include <poll.h>
#include <time.h>

void place_begin(struct place *place, enum dtype dtype)
{
    scratch_begin(&place->scratch);
    place->config = tiny_config(FAMILY_LLAMA);
    place->config.positions_max = 256;
    snprintf(place->base, sizeof(place->base), "%s", scratch_folder(&place->scratch, "base"));
    tiny_model(place->base, &place->config, 11, dtype);
}

void place_end(struct place *place)
{
    scratch_end(&place->scratch);
}

const char *place_adapter(struct place *place, const char *name, int32_t rank, uint64_t seed)
{
    const char *path = scratch_at(&place->scratch, name);

    (void)mkdir(path, 0755);
    tiny_adapter(path, &place->config, rank, (1u << LORA_MODULE_COUNT) - 1, seed, DTYPE_F32);
    return path;
}

void place_worker_config(struct place *place, struct worker_config *ret_config)
{
    worker_config_init(ret_config);
    ret_config->model_directory = place->base;
    ret_config->mode_chosen = true;
    ret_config->mode = MODE_EXACT;
    ret_config->positions_max = 64;
    ret_config->requests_max = 32;
    ret_config->sequences_max = 8;
    ret_config->token_budget = 64;
    ret_config->max_loras = 4;
    ret_config->slots = 4;
    ret_config->adapters_max = 16;
}

struct worker *worker_opened(const struct worker_config *config)
{
    struct refusal refusal = {{0}};
    struct worker *worker = NULL;

    if (worker_open(config, &worker, &refusal) != STATUS_OK)
        fail_msg("%s: %s", config->model_directory, refusal.text);
    return worker;
}

void worker_add(struct worker *worker, struct place *place, const char *name)
{
    struct refusal refusal = {{0}};

    if (worker_adapter_add(worker, name, scratch_at(&place->scratch, name), &refusal) != STATUS_OK)
        fail_msg("%s: %s", name, refusal.text);
}

/* --- requests --------------------------------------------------------------------------------------------------------------- */

static bool got_token(void *owner, const struct worker_token *token)
{
    struct reply *reply = owner;

    assert_int_equal(reply->ends, 0);
    assert_int_equal(token->index, reply->count);
    assert_true(reply->count < REPLY_TOKENS_MAX);
    reply->ids[reply->count] = token->id;
    reply->margins[reply->count] = token->best_logits[0] - token->best_logits[1];
    reply->logprobs[reply->count++] = token->logprob;
    if (reply->count == reply->cancel_at)
        worker_cancel(reply->worker, reply->handle);
    return reply->count == reply->stop_at;
}

static void got_end(void *owner, const struct worker_end *end)
{
    struct reply *reply = owner;

    reply->ends++;
    reply->end = *end;
    reply->end.text = NULL;
    assert_int_equal(end->reason == WORKER_END_FAILED, end->text != NULL);
    snprintf(reply->why, sizeof(reply->why), "%s", end->text != NULL ? end->text : "");
    assert_int_equal(reply->ends, 1);
}

enum status worker_asks(struct worker *worker, const struct worker_request *request, struct reply *reply, struct refusal *refusal)
{
    struct worker_request full = *request;
    struct sample_params greedy;

    sample_params_init(&greedy);
    greedy.temperature = 0;
    if (full.sample == NULL)
        full.sample = &greedy;
    full.owner = reply;
    full.token = got_token;
    full.end = got_end;
    reply->worker = worker;
    return worker_submit(worker, &full, &reply->handle, refusal);
}

void worker_ask(struct worker *worker, const struct worker_request *request, struct reply *reply)
{
    struct refusal refusal = {{0}};

    if (worker_asks(worker, request, reply, &refusal) != STATUS_OK)
        fail_msg("%s: %s", request->adapter != NULL ? request->adapter : "base", refusal.text);
}

void worker_turn(struct worker *worker)
{
    struct pollfd event = {.fd = worker_fd(worker), .events = POLLIN};
    bool more = worker_pump(worker);

    worker_check(worker);
    if (!more)
        (void)poll(&event, 1, 1000);
}

static time_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

void worker_finish(struct worker *worker, const struct reply *replies, uint32_t count)
{
    time_t since = seconds();
    uint32_t over = 0;

    for (;;) {
        uint32_t now = 0;

        for (uint32_t i = 0; i < count; i++)
            now += replies[i].ends > 0;
        if (now == count)
            return;
        if (now > over)
            since = seconds();
        over = now;
        if (seconds() - since > 60)
            fail_msg("a minute without an end: %u of %u are over, %u wait, %u run", over, count,
                     worker_state(worker).replica.waiting, worker_state(worker).replica.running);
        worker_turn(worker);
    }
}

void worker_until(struct worker *worker, const struct reply *reply, uint32_t tokens)
{
    time_t since = seconds();

    while (reply->count < tokens && reply->ends == 0) {
        if (seconds() - since > 60)
            fail_msg("a minute, and %u of %u tokens", reply->count, tokens);
        worker_turn(worker);
    }
}

void worker_settle(struct worker *worker)
{
    time_t since = seconds();
    struct pollfd event = {.fd = worker_fd(worker), .events = POLLIN};
    bool more = true;

    while (more || worker_state(worker).replica.loading > 0 || worker_state(worker).replica.running > 0 ||
           worker_state(worker).replica.waiting > 0) {
        more = worker_pump(worker);
        worker_check(worker);
        if (!more)
            more = poll(&event, 1, 20) > 0;
        if (seconds() - since > 60)
            fail_msg("a minute, and it does not settle");
    }
}

void worker_answer(struct worker *worker, const struct worker_request *request, struct reply *ret_reply)
{
    memset(ret_reply, 0, sizeof(*ret_reply));
    worker_ask(worker, request, ret_reply);
    worker_finish(worker, ret_reply, 1);
}

void worker_add_some(struct worker *worker, struct place *place, const char *prefix, int count, int32_t rank)
{
    for (int i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "%s-%d", prefix, i);
        place_adapter(place, name, rank, 100 + (uint64_t)i);
        worker_add(worker, place, name);
    }
}

void worker_ask_drawn(struct worker *worker, const char *adapter, uint32_t prompt_tokens, uint64_t seed, uint32_t max_tokens,
                      struct reply *reply)
{
    int32_t prompt[PROMPT_TOKENS_MAX];
    const struct worker_request request = {.adapter = adapter, .prompt = prompt, .prompt_tokens = prompt_tokens,
                                           .max_tokens = max_tokens, .ignore_eos = true};

    assert_true(prompt_tokens <= PROMPT_TOKENS_MAX);
    draw_prompt(seed, prompt, prompt_tokens);
    memset(reply, 0, sizeof(*reply));
    worker_ask(worker, &request, reply);
}

void place_ask_cold(struct place *place, const char *adapter, uint32_t prompt_tokens, uint64_t seed, uint32_t max_tokens,
                    struct reply *ret_reply)
{
    struct worker_config config;
    struct worker *worker;

    place_worker_config(place, &config);
    worker = worker_opened(&config);
    if (adapter != NULL)
        worker_add(worker, place, adapter);
    worker_ask_drawn(worker, adapter, prompt_tokens, seed, max_tokens, ret_reply);
    worker_finish(worker, ret_reply, 1);
    worker_close(worker);
}

void worker_warm(struct worker *worker, const char *adapter)
{
    static struct reply reply;

    worker_ask_drawn(worker, adapter, 3, 1, 1, &reply);
    worker_finish(worker, &reply, 1);
}

/* --- comparing -------------------------------------------------------------------------------------------------------------- */

void assert_same(const struct reply *got, const struct reply *want, const char *about)
{
    if (got->end.reason != want->end.reason || got->count != want->count)
        fail_msg("%s: %u tokens, %s (%s); wanted %u, %s (%s)", about, got->count, worker_end_name(got->end.reason), got->why, want->count,
                 worker_end_name(want->end.reason), want->why);
    for (uint32_t i = 0; i < want->count; i++)
        if (got->ids[i] != want->ids[i] || memcmp(&got->logprobs[i], &want->logprobs[i], sizeof(float)) != 0)
            fail_msg("%s: token %u is %d (%.9g), wanted %d (%.9g)", about, i, got->ids[i], (double)got->logprobs[i], want->ids[i],
                     (double)want->logprobs[i]);
}

bool same_ids(const struct reply *a, const struct reply *b)
{
    return a->count == b->count && memcmp(a->ids, b->ids, a->count * sizeof(a->ids[0])) == 0;
}

void draw_prompt(uint64_t seed, int32_t *ret_ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ret_ids[i] = (int32_t)(3 + draw_below(&seed, 280));
}
