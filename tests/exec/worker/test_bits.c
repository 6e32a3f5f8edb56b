/* A request's tokens and log-probabilities have the same bits alone and in any company: whatever else is in the batch, however its
 * prompt is cut into steps, on any number of threads, after a preemption, with its adapter loaded anew. */
#include "rig.h"

enum { REQUESTS = 8, PROMPT_MAX = 40, ANSWER = 20 };

static struct place places[2]; /* an F32 base, a BF16 base */
static const char *const names[] = {NULL, "first", "second", "third", NULL, "first", "fourth", "second"};

static int open_places(void **context)
{
    (void)context;
    for (int i = 0; i < 2; i++) {
        place_begin(&places[i], i == 0 ? DTYPE_F32 : DTYPE_BF16);
        place_adapter(&places[i], "first", 4, 1);
        place_adapter(&places[i], "second", 16, 2);
        place_adapter(&places[i], "third", 24, 3);
        place_adapter(&places[i], "fourth", 9, 4);
    }
    return 0;
}

static int close_places(void **context)
{
    (void)context;
    place_end(&places[0]);
    place_end(&places[1]);
    return 0;
}

/* How a worker is set up, and whether all eight are asked at once. */
struct manner {
    enum mode mode;
    enum kernel_set kernels;
    uint32_t threads;
    uint32_t token_budget;
    uint32_t slots;
    uint64_t kv_blocks; /* 0: enough */
    bool together;
    bool sampled;
};

static struct worker *open_in(const struct manner *manner)
{
    struct place *place = &places[manner->mode];
    struct worker_config config;
    struct worker *worker;

    place_worker_config(place, &config);
    config.mode = manner->mode;
    config.kernels = manner->kernels;
    config.threads = manner->threads;
    config.token_budget = manner->token_budget;
    config.slots = manner->slots;
    if (manner->kv_blocks > 0) {
        const struct dims *dims = &place->config.dims;

        config.kv_bytes = manner->kv_blocks * 2 * (uint64_t)(dims->layers * dims->kv_heads * dims->head_dim) * KV_BLOCK_TOKENS *
                          act_bytes(manner->mode);
    }
    worker = worker_opened(&config);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (names[i] != NULL)
            worker_add(worker, place, names[i]);
    return worker;
}

/* Prompts of 3 to 38 tokens, answers of ANSWER. */
static void answer_all(struct worker *worker, const struct manner *manner, struct reply *replies)
{
    memset(replies, 0, REQUESTS * sizeof(*replies));
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct sample_params sample;
        int32_t prompt[PROMPT_MAX];
        struct worker_request request = {.adapter = names[i], .prompt = prompt, .prompt_tokens = 3 + 5 * i, .max_tokens = ANSWER,
                                         .ignore_eos = true, .tenant = i % 3};

        draw_prompt(100 + i, prompt, request.prompt_tokens);
        sample_params_init(&sample);
        sample.temperature = 0.9f;
        sample.seed = 7 + i;
        sample.repetition = i % 2 == 0 ? 1 : 1.1f;
        if (manner->sampled)
            request.sample = &sample;
        worker_ask(worker, &request, &replies[i]);
        if (!manner->together)
            worker_finish(worker, &replies[i], 1);
    }
    worker_finish(worker, replies, REQUESTS);
}

/* What one set of kernels says to `manner` equals what it says alone. */
static void compare(const struct manner *manner, const struct reply *alone, const char *about)
{
    static struct reply replies[REQUESTS];
    struct worker *worker = open_in(manner);

    /* With all adapters there, who runs with whom is the same each time, and so is what is preempted. */
    for (uint32_t i = 0; manner->kv_blocks > 0 && i < REQUESTS; i++)
        if (names[i] != NULL)
            worker_warm(worker, names[i]);
    answer_all(worker, manner, replies);
    if (manner->kv_blocks > 0 && worker_state(worker).replica.preemptions == 0)
        fail_msg("%s: nothing was preempted", about);
    worker_close(worker);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        char text[160];

        snprintf(text, sizeof(text), "%s, %s, %s, request %u", manner->mode == MODE_EXACT ? "exact" : "fast",
                 kernel_set_name(manner->kernels), about, i);
        assert_same(&replies[i], &alone[i], text);
    }
}

static void in_all_manners(const struct manner *manner, const struct reply *alone)
{
    static const uint32_t budgets[] = {1, 7, 64};
    struct manner other = *manner;

    other.together = true;
    for (size_t i = 0; i < ARRAY_COUNT(budgets); i++) {
        char about[64];

        other.token_budget = budgets[i];
        snprintf(about, sizeof(about), "steps of %u tokens", budgets[i]);
        compare(&other, alone, about);
    }
    other.token_budget = 33;
    other.threads = 2;
    compare(&other, alone, "two threads");
    other.threads = 3;
    compare(&other, alone, "three threads");
    other.threads = 1;
    other.slots = 2;
    compare(&other, alone, "two slots for four adapters");
    other.slots = 4;
    other.kv_blocks = 7; /* the longest needs 4 */
    compare(&other, alone, "few blocks");
    other.token_budget = 7;
    other.kv_blocks = 5;
    compare(&other, alone, "few blocks, steps of 7 tokens");
}

/* all: otherwise the best set alone. */
static void for_sets(enum mode mode, bool sampled, bool all)
{
    static struct reply alone[REQUESTS];

    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++) {
        const struct manner manner = {.mode = mode, .kernels = set, .threads = 1, .token_budget = 64, .slots = 4, .sampled = sampled};
        struct worker *worker;

        if (!kernel_set_runs_here(set) || (!all && set != kernel_set_best()))
            continue;
        worker = open_in(&manner);
        answer_all(worker, &manner, alone);
        worker_close(worker);
        for (uint32_t i = 0; i < REQUESTS; i++) {
            assert_int_equal(alone[i].count, ANSWER);
            assert_int_equal(alone[i].end.reason, WORKER_END_LENGTH);
        }
        in_all_manners(&manner, alone);
    }
}

static void exact_and_greedy(void **context)
{
    (void)context;
    for_sets(MODE_EXACT, false, true);
}

static void exact_and_sampled(void **context)
{
    (void)context;
    for_sets(MODE_EXACT, true, false);
}

static void fast_and_greedy(void **context)
{
    (void)context;
    for_sets(MODE_FAST, false, false);
}

static void fast_and_sampled(void **context)
{
    (void)context;
    for_sets(MODE_FAST, true, true);
}

/* The answers that are compared are no accident: each adapter says something else, and so does each seed. */
static void adapters_and_seeds_matter(void **context)
{
    static struct reply one;
    static struct reply other;
    const struct manner manner = {.mode = MODE_EXACT, .kernels = kernel_set_best(), .threads = 1, .token_budget = 64, .slots = 4};
    struct worker *worker = open_in(&manner);
    struct sample_params sample;
    int32_t prompt[PROMPT_MAX];
    struct worker_request request = {.prompt = prompt, .prompt_tokens = 20, .max_tokens = 24, .ignore_eos = true};

    (void)context;
    draw_prompt(5, prompt, 20);
    request.adapter = "first";
    worker_answer(worker, &request, &one);
    request.adapter = "second";
    worker_answer(worker, &request, &other);
    assert_memory_not_equal(one.logprobs, other.logprobs, 8 * sizeof(float));
    request.adapter = NULL;
    worker_answer(worker, &request, &other);
    assert_memory_not_equal(one.logprobs, other.logprobs, 8 * sizeof(float));
    sample_params_init(&sample);
    sample.temperature = 0.9f;
    request.sample = &sample;
    sample.seed = 1;
    worker_answer(worker, &request, &one);
    sample.seed = 2;
    worker_answer(worker, &request, &other);
    assert_false(same_ids(&one, &other));
    worker_close(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_and_greedy),
        cmocka_unit_test(exact_and_sampled),
        cmocka_unit_test(fast_and_greedy),
        cmocka_unit_test(fast_and_sampled),
        cmocka_unit_test(adapters_and_seeds_matter),
    };

    return cmocka_run_group_tests(tests, open_places, close_places);
}
