/* Whole answers of a real trained model, alone and in mixed batches, against those that other people's programs gave. */
#include <jansson.h>
#include <math.h>

#include "engine/tokenizer/tokenizer.h"
#include "rig.h"

#define MODEL "models/stories260k"
#define MODEL_BF16 "models/stories260k-bf16"
#define MODEL_SHARDED "models/stories260k-sharded"
enum { RECORDS_MAX = 30, PROMPT_MAX = 400, ANSWER_MAX = 512 };

struct record {
    const char *adapter; /* NULL: the base */
    const char *name;
    int32_t prompt[PROMPT_MAX];
    int32_t prompt_count;
    int32_t want[ANSWER_MAX];
    int32_t want_count;
    const json_t *json;
};

struct records {
    json_t *lines;
    struct record *record; /* [count] */
    uint32_t count;
    struct reply *reply;   /* [count] */
};

static const char *shared(const char *name)
{
    const char *path = test_shared_path(name);

    if (path == NULL) {
        printf("skipped: ../shared/%s is missing\n", name);
        skip();
    }
    return path;
}

static int32_t ids_of(const json_t *array, int32_t *ret_ids, int32_t max)
{
    int32_t count = (int32_t)json_array_size(array);

    assert_true(count <= max);
    for (int32_t i = 0; i < count; i++)
        ret_ids[i] = (int32_t)json_integer_value(json_array_get(array, (size_t)i));
    return count;
}

static struct records records_open(const char *name, const char *outputs)
{
    char relative[256];
    struct records records = {0};
    char *line = NULL;
    size_t size = 0;
    FILE *file;

    snprintf(relative, sizeof(relative), "models/reference/%s", name);
    file = fopen(shared(relative), "r");
    assert_non_null(file);
    records.lines = json_array();
    records.record = calloc(RECORDS_MAX, sizeof(struct record));
    records.reply = calloc(RECORDS_MAX, sizeof(struct reply));
    while (getline(&line, &size, file) > 0) {
        struct record *record = &records.record[records.count++];
        json_t *object = json_loads(line, 0, NULL);

        assert_non_null(object);
        assert_true(records.count <= RECORDS_MAX);
        json_array_append_new(records.lines, object);
        record->json = object;
        record->adapter = json_string_value(json_object_get(object, "adapter"));
        record->name = json_string_value(json_object_get(object, "prompt"));
        record->prompt_count = ids_of(json_object_get(object, "prompt_ids"), record->prompt, PROMPT_MAX);
        record->want_count = ids_of(json_object_get(object, outputs), record->want, ANSWER_MAX);
    }
    free(line);
    fclose(file);
    return records;
}

static void records_close(struct records *records)
{
    json_decref(records->lines);
    free(records->record);
    free(records->reply);
}

static struct worker *open_shared(const char *model, enum mode mode, uint32_t token_budget)
{
    static const char *const adapters[] = {"robot", "sea", "shout", "sad"};
    struct worker_config config;
    struct worker *worker;

    worker_config_init(&config);
    config.model_directory = shared(model);
    config.mode_chosen = true;
    config.mode = mode;
    config.token_budget = token_budget;
    config.sequences_max = 16;
    config.slots = 4;
    config.adapters_max = 8;
    worker = worker_opened(&config);
    for (size_t i = 0; i < ARRAY_COUNT(adapters); i++) {
        struct refusal refusal = {{0}};
        char relative[64];

        snprintf(relative, sizeof(relative), "models/adapters/%s", adapters[i]);
        if (worker_adapter_add(worker, adapters[i], shared(relative), &refusal) != STATUS_OK)
            fail_msg("%s", refusal.text);
    }
    return worker;
}

static void ask(struct worker *worker, const struct record *record, struct reply *reply)
{
    const char *name = json_string_value(json_object_get(record->json, "name"));
    const struct worker_request request = {
        .adapter = record->adapter,
        .prompt = record->prompt,
        .prompt_tokens = (uint32_t)record->prompt_count,
        .max_tokens = (uint32_t)json_integer_value(json_object_get(record->json, "max_new_tokens")),
        .ignore_eos = name != NULL && strcmp(name, "ignore_eos_full_context") == 0,
    };

    memset(reply, 0, sizeof(*reply));
    worker_ask(worker, &request, reply);
}

static void ask_all(struct worker *worker, struct records *records)
{
    for (uint32_t i = 0; i < records->count; i++)
        ask(worker, &records->record[i], &records->reply[i]);
    worker_finish(worker, records->reply, records->count);
}

/* --- what is compared ------------------------------------------------------------------------------------------------------- */

/* without_stop: the folder does not say that id 1 ends an answer too, so an answer may go on past it. */
static void check_ids(const struct record *record, const struct reply *reply, bool without_stop)
{
    const char *reason = json_string_value(json_object_get(record->json, "finish_reason"));

    for (int32_t i = 0; i < record->want_count && i < (int32_t)reply->count; i++)
        if (reply->ids[i] != record->want[i])
            fail_msg("%s, \"%s\": token %d is %d, wanted %d", record->adapter != NULL ? record->adapter : "base", record->name, i,
                     reply->ids[i], record->want[i]);
    if (without_stop && strcmp(reason, "stop") == 0)
        return;
    if ((int32_t)reply->count != record->want_count)
        fail_msg("\"%s\": %u tokens, wanted %d", record->name, reply->count, record->want_count);
    assert_string_equal(worker_end_name(reply->end.reason), reason);
    assert_int_equal(reply->end.prompt_tokens, record->prompt_count);
    assert_int_equal(reply->end.output_tokens, reply->count);
}

static double worst_logprob(const struct record *record, const struct reply *reply)
{
    const json_t *want = json_object_get(record->json, "logprobs");
    double worst = 0;

    for (uint32_t i = 0; i < json_array_size(want); i++)
        worst = fmax(worst, fabs((double)reply->logprobs[i] - json_number_value(json_array_get(want, i))));
    return worst;
}

static void check_text(const struct tokenizer *tokenizer, const struct record *record, const struct reply *reply)
{
    const json_t *want = json_object_get(record->json, "output_text");
    struct token_text text = {0};
    struct token_stream stream;

    token_stream_begin(&stream, tokenizer, true);
    for (int32_t i = 0; i < record->prompt_count; i++)
        token_stream_push(&stream, record->prompt[i], &text);
    text.count = 0;
    for (uint32_t i = 0; i < reply->count; i++)
        token_stream_push(&stream, reply->ids[i], &text);
    token_stream_finish(&stream, &text);
    assert_int_equal(text.count, json_string_length(want));
    if (text.count > 0)
        assert_memory_equal(text.bytes, json_string_value(want), text.count);
    token_text_free(&text);
}

/* --- tests ------------------------------------------------------------------------------------------------------------------ */

/* Each alone when `budget` is 0, else all at once in steps of so many tokens. */
static void base_greedy(const char *model, const char *lines, uint32_t budget)
{
    struct records records = records_open(lines, "output_ids");
    struct worker *worker = open_shared(model, MODE_EXACT, budget == 0 ? 64 : budget);
    struct tokenizer *tokenizer = NULL;
    char error[TOKENIZER_ERROR_MAX];
    const bool without_stop = strcmp(model, MODEL_SHARDED) == 0;
    double worst = 0;

    assert_int_equal(tokenizer_open(shared(MODEL), &tokenizer, error), STATUS_OK);
    if (budget > 0) {
        ask_all(worker, &records);
    } else {
        for (uint32_t i = 0; i < records.count; i++) {
            ask(worker, &records.record[i], &records.reply[i]);
            worker_finish(worker, &records.reply[i], 1);
        }
    }
    for (uint32_t i = 0; i < records.count; i++) {
        check_ids(&records.record[i], &records.reply[i], without_stop);
        worst = fmax(worst, worst_logprob(&records.record[i], &records.reply[i]));
        if (!without_stop && json_is_string(json_object_get(records.record[i].json, "output_text")))
            check_text(tokenizer, &records.record[i], &records.reply[i]);
    }
    printf("%s, %s: %u answers, log-probabilities differ by at most %.2g\n", model, lines, records.count, worst);
    assert_true(worst < 1e-4);
    tokenizer_close(tokenizer);
    worker_close(worker);
    records_close(&records);
}

static void each_alone_as_llama2c_answers(void **context)
{
    (void)context;
    base_greedy(MODEL, "base_greedy.jsonl", 0);
}

static void fifteen_in_one_batch_as_llama2c_answers(void **context)
{
    (void)context;
    base_greedy(MODEL, "base_greedy.jsonl", 17);
}

static void a_base_in_shards_answers_the_same(void **context)
{
    (void)context;
    base_greedy(MODEL_SHARDED, "base_greedy.jsonl", 33);
}

static void a_bf16_base_answers_exactly(void **context)
{
    (void)context;
    base_greedy(MODEL_BF16, "base_greedy_bf16.jsonl", 33);
}

static void four_adapters_and_the_base_in_one_batch(const char *model, const char *outputs, bool has_logprobs)
{
    struct records records = records_open("multi_lora_greedy.jsonl", outputs);
    struct worker *worker = open_shared(model, MODE_EXACT, 64);
    double worst = 0;

    ask_all(worker, &records);
    for (uint32_t i = 0; i < records.count; i++) {
        const struct record *record = &records.record[i];
        const struct reply *reply = &records.reply[i];

        if (!has_logprobs) { /* how the answers end is said of the other base */
            assert_int_equal(reply->count, record->want_count);
            assert_memory_equal(reply->ids, record->want, reply->count * sizeof(int32_t));
            continue;
        }
        check_ids(record, reply, false);
        worst = fmax(worst, worst_logprob(record, reply));
    }
    printf("%s: %u answers of 4 adapters and the base, log-probabilities differ by at most %.2g\n", model, records.count, worst);
    assert_true(worst < 1e-4);
    assert_int_equal(worker_state(worker).loads, 4);
    worker_close(worker);
    records_close(&records);
}

static void adapters_in_one_batch_as_the_reference_answers(void **context)
{
    (void)context;
    four_adapters_and_the_base_in_one_batch(MODEL, "output_ids", true);
}

static void adapters_on_a_bf16_base_exactly(void **context)
{
    (void)context;
    four_adapters_and_the_base_in_one_batch(MODEL_BF16, "output_ids_bf16_base", false);
}

/* Up to the first step at which exact mode itself hesitates. */
static void fast_answers_as_exact_while_margins_are_wide(void **context)
{
    struct records exact = records_open("multi_lora_greedy.jsonl", "output_ids_bf16_base");
    struct records fast = records_open("multi_lora_greedy.jsonl", "output_ids_bf16_base");
    struct worker *worker = open_shared(MODEL_BF16, MODE_EXACT, 64);
    double worst = 0;
    uint32_t compared = 0;

    (void)context;
    ask_all(worker, &exact);
    worker_close(worker);
    worker = open_shared(MODEL_BF16, MODE_FAST, 64);
    ask_all(worker, &fast);
    worker_close(worker);
    for (uint32_t i = 0; i < exact.count; i++) {
        const struct reply *want = &exact.reply[i];
        const struct reply *got = &fast.reply[i];
        const float margin = exact.record[i].adapter != NULL ? 1.3f : 0.5f;

        for (uint32_t t = 0; t < want->count && want->margins[t] >= margin; t++, compared++) {
            assert_true(t < got->count);
            if (got->ids[t] != want->ids[t])
                fail_msg("\"%s\": token %u is %d, wanted %d with a margin of %g", exact.record[i].name, t, got->ids[t], want->ids[t],
                         (double)want->margins[t]);
            worst = fmax(worst, fabs((double)got->logprobs[t] - (double)want->logprobs[t]));
        }
    }
    printf("fast against exact: %u tokens before a narrow margin, log-probabilities differ by at most %.3f\n", compared, worst);
    assert_true(compared > 100);
    assert_true(worst <= 0.5);
    records_close(&exact);
    records_close(&fast);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_alone_as_llama2c_answers),
        cmocka_unit_test(fifteen_in_one_batch_as_llama2c_answers),
        cmocka_unit_test(a_base_in_shards_answers_the_same),
        cmocka_unit_test(a_bf16_base_answers_exactly),
        cmocka_unit_test(adapters_in_one_batch_as_the_reference_answers),
        cmocka_unit_test(adapters_on_a_bf16_base_exactly),
        cmocka_unit_test(fast_answers_as_exact_while_margins_are_wide),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
