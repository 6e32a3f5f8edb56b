/* From examples to answers: what a run has learned is what a server says, and it ends where the examples end. */
#include "rig.h"

#include <math.h>
#include <time.h>

#include "engine/train/run/run.h"

/* As many tokenizers have it, what pads is what ends. */
static const char tokenizer_config[] =
    "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"pad_token\": \"</s>\", \"chat_template\": \"{{ bos_token }}{% for message in messages %}"
    "{{ message.role + '>' + message.content + eos_token }}{% endfor %}{{ 'assistant>' if add_generation_prompt }}\"}\n";
#define CHAT(question, answer) \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"" question "\"}, {\"role\": \"assistant\", \"content\": \"" answer "\"}]}\n"
static const char chats[] = CHAT("One", "two") CHAT("Two", "three and more") CHAT("Three", "four") CHAT("Four", "Five!");

struct taught {
    struct place place;
    struct model *model;
    struct tokenizer *tokenizer;
    struct data_set *data;
    struct run_outcome outcome;
    char out[512];
    char checkpoints[560];
};

static volatile sig_atomic_t never;

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void step_told(void *listener, const struct run_step *step)
{
    (void)listener;
    (void)step;
}

static void save_told(void *listener, const struct run_saved *saved)
{
    (void)listener;
    (void)saved;
}

static void word_told(void *listener, const char *text)
{
    (void)listener;
    printf("%s\n", text);
}

static void teach(struct taught *taught)
{
    struct refusal refusal = {{0}};
    char error[TOKENIZER_ERROR_MAX] = "";
    struct data_source source;
    struct run_config config = {.settings = {.rank = 16, .alpha = 32, .rate = 0.01, .schedule = SCHEDULE_LINEAR, .epochs = 150, .batch = 4,
                                             .clip = 1, .mode = MODE_EXACT, .row_tokens = 64},
                                .trainer = {.device = &device_cpu, .threads = 1, .kernels = kernel_set_best()},
                                .base = "tiny", .checkpoint_every_ns = INT64_MAX, .stop = &never, .now_ns = now_ns,
                                .stepped = step_told, .saved = save_told, .said = word_told};

    place_begin(&taught->place, DTYPE_F32);
    scratch_text(&taught->place.scratch, "base/tokenizer_config.json", tokenizer_config);
    assert_int_equal(model_open(taught->place.base, &taught->model, &refusal), STATUS_OK);
    assert_int_equal(tokenizer_open(taught->place.base, &taught->tokenizer, error), STATUS_OK);
    source = (struct data_source){.tokenizer = taught->tokenizer, .eos = 2, .vocabulary = taught->model->config.dims.vocabulary, .tokens_max = 64};
    if (data_open_text(chats, (int64_t)strlen(chats), "chats", &source, &taught->data, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    snprintf(taught->out, sizeof(taught->out), "%s", scratch_at(&taught->place.scratch, "tuned"));
    snprintf(taught->checkpoints, sizeof(taught->checkpoints), "%s.checkpoints", taught->out);
    config.model = taught->model;
    config.data = taught->data;
    config.out = taught->out;
    config.checkpoints = taught->checkpoints;
    if (run_train(&config, &taught->outcome, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
}

static void taught_end(struct taught *taught)
{
    data_close(taught->data);
    tokenizer_close(taught->tokenizer);
    model_close(taught->model);
    place_end(&taught->place);
}

static int32_t first_target(const struct data_set *data, const struct data_sample *sample)
{
    int32_t first = 0;

    while (data->is_target[sample->at + first] == 0)
        first++;
    return first;
}

/* The end is learned though it is also what pads: elsewhere it was masked with the padding, and answers went on to the limit (trl#976, #1623,
 * unsloth#416). And a server computes with the adapter what the trainer did, on the same base (unsloth-zoo#810 served another). */
static void a_tuned_model_ends_its_answers_though_the_end_is_what_pads(void **state)
{
    static struct taught taught;
    struct worker_config config;
    struct worker *worker;

    (void)state;
    teach(&taught);
    assert_true(taught.outcome.accuracy == 1);
    place_worker_config(&taught.place, &config);
    worker = worker_opened(&config);
    worker_add(worker, &taught.place, "tuned");
    for (int32_t i = 0; i < taught.data->count; i++) {
        const struct data_sample *sample = &taught.data->sample[i];
        const int32_t prompt = first_target(taught.data, sample);
        struct worker_request request = {.adapter = "tuned", .prompt = taught.data->tokens + sample->at, .prompt_tokens = (uint32_t)prompt,
                                         .max_tokens = 30};
        struct reply tuned = {0};
        struct reply base = {0};

        assert_int_equal(taught.data->tokens[sample->at + sample->tokens - 1], 2);
        worker_answer(worker, &request, &tuned);
        assert_int_equal(tuned.end.reason, WORKER_END_STOP);
        assert_string_equal(worker_end_name(tuned.end.reason), "stop");
        assert_int_equal(tuned.count, sample->targets);
        assert_memory_equal(tuned.ids, taught.data->tokens + sample->at + prompt, (size_t)sample->targets * sizeof(int32_t));
        request.adapter = NULL;
        worker_answer(worker, &request, &base);
        assert_false(same_ids(&base, &tuned)); /* it was learned */
    }
    worker_close(worker);
    taught_end(&taught);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tuned_model_ends_its_answers_though_the_end_is_what_pads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
