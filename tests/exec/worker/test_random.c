/* Random events over some thousand pumps, under limits that are all too small: every invariant holds after each, every request ends once
 * and for a reason, and a sample of the answers equals what an idle server says to the same request. */
#include "rig.h"

#include <poll.h>

enum { CONTENTS = 6, NAMES = 4, LIVE = 12, PUMPS = 1000, SAMPLED_PROMPT_MAX = 30 };

static struct place place;
static const int32_t ranks[CONTENTS] = {4, 16, 20, 33, 8, 48};

static int open_place(void **context)
{
    (void)context;
    place_begin(&place, DTYPE_F32);
    for (int i = 0; i < CONTENTS; i++) {
        char name[32];

        snprintf(name, sizeof(name), "content-%d", i);
        place_adapter(&place, name, ranks[i], 500 + (uint64_t)i);
    }
    return 0;
}

static int close_place(void **context)
{
    (void)context;
    place_end(&place);
    return 0;
}

/* A request, and all that is needed to ask it again elsewhere. */
struct wish {
    struct reply reply;
    int content; /* -1: the base */
    uint64_t prompt_seed;
    uint32_t prompt_tokens;
    uint32_t max_tokens;
    uint32_t tenant;
    struct sample_params sample;
    bool live;
    bool cancelled;
};

struct run {
    uint64_t seed;
    uint64_t draws;
    struct worker *worker;
    struct worker *idle; /* all contents by their own names */
    int content[NAMES];  /* what each name has; -1: it is not registered */
    struct wish wish[LIVE];
    uint32_t ended, cancelled, compared, refused_full;
};

static void add_content(struct worker *worker, const char *name, int content)
{
    struct refusal refusal = {{0}};
    char folder[32];

    snprintf(folder, sizeof(folder), "content-%d", content);
    if (worker_adapter_add(worker, name, scratch_at(&place.scratch, folder), &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
}

/* Limits of all kinds, near what the largest request and adapter need. */
static void run_begin(struct run *run, uint64_t seed)
{
    const struct dims *dims = &place.config.dims;
    const uint64_t block = 2 * 4 * (uint64_t)(dims->layers * dims->kv_heads * dims->head_dim) * KV_BLOCK_TOKENS;
    struct worker_config config;
    uint64_t largest;

    memset(run, 0, sizeof(*run));
    run->seed = seed;
    run->draws = seed;
    place_worker_config(&place, &config);
    run->idle = worker_opened(&config);
    for (int i = 0; i < CONTENTS; i++) {
        char name[32];

        snprintf(name, sizeof(name), "content-%d", i);
        add_content(run->idle, name, i);
    }
    largest = (uint64_t)lora_packed_bytes(dims, MODE_EXACT, 48, (1u << LORA_MODULE_COUNT) - 1);
    config.requests_max = 10;
    config.sequences_max = 1 + (uint32_t)draw_below(&run->draws, 6);
    config.token_budget = 1 + (uint32_t)draw_below(&run->draws, 24);
    config.max_loras = 1 + (uint32_t)draw_below(&run->draws, 3);
    config.slots = 1 + (uint32_t)draw_below(&run->draws, 4);
    config.adapters_max = NAMES;
    config.pool_bytes = largest + draw_below(&run->draws, largest);
    config.host_bytes = draw_below(&run->draws, 3 * largest);
    config.kv_bytes = (4 + draw_below(&run->draws, 6)) * block;
    config.threads = 1 + (uint32_t)draw_below(&run->draws, 2);
    run->worker = worker_opened(&config);
    for (int i = 0; i < NAMES; i++)
        run->content[i] = -1;
}

static struct worker_request request_of(const struct wish *wish, const char *adapter, int32_t *ret_prompt)
{
    draw_prompt(wish->prompt_seed, ret_prompt, wish->prompt_tokens);
    return (struct worker_request){.adapter = adapter,
                                   .tenant = wish->tenant,
                                   .prompt = ret_prompt,
                                   .prompt_tokens = wish->prompt_tokens,
                                   .max_tokens = wish->max_tokens,
                                   .sample = &wish->sample};
}

/* --- what happens ----------------------------------------------------------------------------------------------------------- */

static void submit(struct run *run)
{
    uint64_t *draws = &run->draws;
    int name = (int)draw_below(draws, NAMES + 1) - 1;
    struct refusal refusal = {{0}};
    struct worker_request request;
    int32_t prompt[PROMPT_TOKENS_MAX];
    struct wish *wish = NULL;
    char adapter[32];
    enum status status;

    for (int i = 0; i < LIVE && wish == NULL; i++)
        if (!run->wish[i].live)
            wish = &run->wish[i];
    if (wish == NULL)
        return;
    snprintf(adapter, sizeof(adapter), "name-%d", name);
    memset(wish, 0, sizeof(*wish));
    wish->content = name < 0 ? -1 : run->content[name];
    wish->prompt_seed = draw(draws);
    wish->prompt_tokens = 1 + (uint32_t)draw_below(draws, SAMPLED_PROMPT_MAX);
    wish->max_tokens = 1 + (uint32_t)draw_below(draws, 64 - wish->prompt_tokens);
    wish->tenant = (uint32_t)draw_below(draws, 3);
    sample_params_init(&wish->sample);
    wish->sample.temperature = draw_below(draws, 2) == 0 ? 0 : 0.9f;
    wish->sample.seed = draw(draws);
    wish->sample.frequency = draw_below(draws, 4) == 0 ? 0.5f : 0;
    wish->reply.cancel_at = draw_below(draws, 8) == 0 ? 1 + (uint32_t)draw_below(draws, 20) : 0;
    wish->reply.stop_at = draw_below(draws, 8) == 0 ? 1 + (uint32_t)draw_below(draws, 20) : 0;
    request = request_of(wish, name < 0 ? NULL : adapter, prompt);
    status = worker_asks(run->worker, &request, &wish->reply, &refusal);
    if (status == STATUS_OK) {
        assert_true(name < 0 || wish->content >= 0);
        wish->live = true;
        return;
    }
    assert_int_equal(wish->reply.ends, 0);
    if (status == STATUS_NOT_FOUND)
        assert_int_equal(wish->content, -1);
    else
        assert_int_equal(status, STATUS_FULL);
    run->refused_full += status == STATUS_FULL;
}

static void something_happens(struct run *run)
{
    uint64_t what = draw_below(&run->draws, 100);
    uint32_t at = (uint32_t)draw_below(&run->draws, LIVE);
    int name = (int)draw_below(&run->draws, NAMES);
    char text[32];

    snprintf(text, sizeof(text), "name-%d", name);
    if (what < 40) {
        submit(run);
    } else if (what < 46) {
        if (run->wish[at].live) {
            worker_cancel(run->worker, run->wish[at].reply.handle);
            run->wish[at].cancelled = true;
        }
    } else if (what < 54) {
        run->content[name] = (int)draw_below(&run->draws, CONTENTS);
        add_content(run->worker, text, run->content[name]);
    } else if (what < 57) {
        assert_int_equal(worker_adapter_remove(run->worker, text), run->content[name] >= 0 ? STATUS_OK : STATUS_NOT_FOUND);
        run->content[name] = -1;
    }
}

/* --- what came of it -------------------------------------------------------------------------------------------------------- */

static void compare(struct run *run, const struct wish *wish)
{
    static struct reply idle;
    const struct reply *reply = &wish->reply;
    int32_t prompt[PROMPT_TOKENS_MAX];
    struct worker_request request;
    char name[32];

    snprintf(name, sizeof(name), "content-%d", wish->content);
    request = request_of(wish, wish->content >= 0 ? name : NULL, prompt);
    memset(&idle, 0, sizeof(idle));
    idle.stop_at = reply->stop_at;
    worker_ask(run->idle, &request, &idle);
    worker_finish(run->idle, &idle, 1);
    if (reply->end.reason != WORKER_END_CANCELLED && (reply->count != idle.count || reply->end.reason != idle.end.reason))
        fail_msg("seed %llu: %u tokens, %s; idle: %u, %s", (unsigned long long)run->seed, reply->count, worker_end_name(reply->end.reason),
                 idle.count, worker_end_name(idle.end.reason));
    assert_true(reply->count <= idle.count);
    for (uint32_t i = 0; i < reply->count; i++)
        if (reply->ids[i] != idle.ids[i] || memcmp(&reply->logprobs[i], &idle.logprobs[i], sizeof(float)) != 0)
            fail_msg("seed %llu, content %d, token %u: %d (%.9g); idle: %d (%.9g)", (unsigned long long)run->seed, wish->content, i,
                     reply->ids[i], (double)reply->logprobs[i], idle.ids[i], (double)idle.logprobs[i]);
    run->compared++;
}

static void look_at_ends(struct run *run)
{
    for (int i = 0; i < LIVE; i++) {
        struct wish *wish = &run->wish[i];
        const struct reply *reply = &wish->reply;

        if (!wish->live || reply->ends == 0)
            continue;
        wish->live = false;
        run->ended++;
        if (reply->end.reason == WORKER_END_FAILED)
            fail_msg("seed %llu: %s", (unsigned long long)run->seed, reply->why);
        if (reply->end.reason == WORKER_END_CANCELLED) {
            run->cancelled++;
            assert_true(wish->cancelled || reply->count == reply->cancel_at);
        }
        assert_int_equal(reply->end.output_tokens, reply->count);
        if (run->ended % 3 == 0)
            compare(run, wish);
    }
}

static void pump(struct run *run)
{
    struct pollfd event = {.fd = worker_fd(run->worker), .events = POLLIN};
    bool more = worker_pump(run->worker);
    bool waits = false;

    worker_check(run->worker);
    look_at_ends(run);
    for (int i = 0; i < LIVE; i++)
        waits = waits || run->wish[i].live;
    if (!more && waits && poll(&event, 1, 60000) == 0)
        fail_msg("seed %llu: a request waits and nothing happens", (unsigned long long)run->seed);
}

static void run_end(struct run *run)
{
    bool any;

    worker_drain(run->worker);
    do {
        any = false;
        pump(run);
        for (int i = 0; i < LIVE; i++)
            any = any || run->wish[i].live;
    } while (any);
    worker_settle(run->worker);
    assert_true(worker_drained(run->worker));
    for (int i = 0; i < NAMES; i++) {
        char name[32];

        snprintf(name, sizeof(name), "name-%d", i);
        (void)worker_adapter_remove(run->worker, name);
    }
    worker_settle(run->worker);
    assert_int_equal(worker_state(run->worker).adapters, 0);
    assert_int_equal(worker_state(run->worker).pool_used_bytes, 0);
    assert_int_equal(worker_state(run->worker).host_used_bytes, 0);
    assert_int_equal(worker_state(run->worker).replica.kv_blocks_used, 0);
}

static void answers_are_those_of_an_idle_server_whatever_happens(void **context)
{
    uint64_t first = test_seed(1);
    uint64_t preemptions = 0;

    (void)context;
    for (uint64_t seed = first; seed < first + 5; seed++) {
        static struct run run;
        struct worker_state state;

        run_begin(&run, seed);
        for (int i = 0; i < PUMPS; i++) {
            something_happens(&run);
            worker_check(run.worker);
            pump(&run);
        }
        run_end(&run);
        state = worker_state(run.worker);
        printf("seed %llu: %u ended, %u of them cancelled, %u compared, %u refused; %llu steps, %llu loads, %llu fetches, "
               "%llu preemptions, %llu moves\n",
               (unsigned long long)seed, run.ended, run.cancelled, run.compared, run.refused_full, (unsigned long long)state.steps,
               (unsigned long long)state.loads, (unsigned long long)state.fetches, (unsigned long long)state.replica.preemptions,
               (unsigned long long)state.pool_moves);
        assert_true(run.ended > 20 && run.compared > 5);
        preemptions += state.replica.preemptions;
        worker_close(run.worker);
        worker_close(run.idle);
    }
    assert_true(preemptions > 0); /* it would prove little otherwise */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_an_idle_server_whatever_happens),
    };

    return cmocka_run_group_tests(tests, open_place, close_place);
}
