/* Logits of a real trained model, with and without adapters, against those that other people's programs found; and one engine whose
 * steps have one segment, then many, then none. */
#include <math.h>
#include <stdio.h>

#include "rig.h"

#define MODEL "models/stories260k"
enum { IDS_MAX = 128, BLOCKS = 8, ADAPTERS = 4 };

static const char *const adapters[ADAPTERS] = {"robot", "sea", "shout", "sad"};

static const char *shared_path(const char *name)
{
    const char *path = test_shared_path(name);

    if (path == NULL) {
        printf("skipped: ../shared/%s is missing\n", name);
        skip();
    }
    return path;
}

/* All four adapters are in slots 0 to 3. */
static struct engine open_all(enum kernel_set set)
{
    struct engine engine = engine_open(&(struct engine_ask){
        .directory = shared_path(MODEL), .mode = MODE_EXACT, .kernels = set, .threads = 2, .rows_max = 64, .slots = ADAPTERS});
    int64_t offset = 0;

    for (int32_t i = 0; i < ADAPTERS; i++) {
        char relative[64];

        snprintf(relative, sizeof(relative), "models/adapters/%s", adapters[i]);
        offset = engine_adapter(&engine, shared_path(relative), i, offset);
    }
    return engine;
}

static struct safetensors *open_reference(const char *name)
{
    struct refusal refusal = {{0}};
    struct safetensors *file;

    if (safetensors_map(shared_path(name), &safetensors_limits_base, &file, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    return file;
}

static int32_t read_ids(const struct safetensors *file, int32_t *ret_ids)
{
    const struct tensor *tensor = safetensors_find(file, "input_ids");

    assert_non_null(tensor);
    assert_int_equal(tensor->type, TENSOR_I32);
    assert_true(tensor->count <= IDS_MAX);
    memcpy(ret_ids, tensor->data, (size_t)tensor->bytes);
    return (int32_t)tensor->count;
}

static double worst_of_row(struct engine *engine, int32_t output, const struct tensor *want, int32_t row)
{
    const int32_t vocabulary = engine->model->config.dims.vocabulary;
    double worst = 0;

    forward_logits(engine->forward, output, engine->logits);
    for (int32_t v = 0; v < vocabulary; v++) {
        float truth;

        memcpy(&truth, (const char *)want->data + ((size_t)row * (size_t)vocabulary + (size_t)v) * sizeof(float), sizeof(truth));
        worst = fmax(worst, fabs((double)engine->logits[v] - (double)truth));
    }
    return worst;
}

/* Sequence i has blocks of its own. */
static void blocks_of(int32_t i, int32_t *ret_blocks)
{
    for (int32_t b = 0; b < BLOCKS; b++)
        ret_blocks[b] = 1 + i * BLOCKS + b;
}

static void base_logits_are_the_references(void **context)
{
    struct safetensors *file;

    (void)context;
    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++) {
        struct engine engine;
        int32_t blocks[BLOCKS];
        int32_t ids[IDS_MAX];
        int32_t count;
        double worst = 0;

        if (!engine_looks_at(set))
            continue;
        engine = open_all(set);
        file = open_reference("models/reference/base_logits_story.safetensors");
        count = read_ids(file, ids);
        blocks_of(0, blocks);
        for (int32_t t = 0; t < count; t++) {
            const struct forward_part part = {
                .tokens = ids + t, .blocks = blocks, .rows = 1, .before = t, .slot = SEGMENT_NONE, .wants_output = true};

            forward_step(engine.forward, &part, 1);
            worst = fmax(worst, worst_of_row(&engine, 0, safetensors_find(file, "logits"), t));
        }
        printf("%s: %d rows of logits differ by at most %.2g\n", kernel_set_name(set), count, worst);
        assert_true(worst < 1e-4);
        safetensors_close(file);
        engine_close(&engine);
    }
}

/* Four adapters and the base go through the same text together, each row of every step compared; `chunk` tokens at a time. */
static double worst_together(struct engine *engine, const struct safetensors *file, int32_t chunk)
{
    int32_t blocks[ADAPTERS + 1][BLOCKS];
    int32_t ids[IDS_MAX];
    int32_t count = read_ids(file, ids);
    double worst = 0;

    for (int32_t i = 0; i <= ADAPTERS; i++)
        blocks_of(i, blocks[i]);
    for (int32_t at = 0; at < count; at += chunk) {
        struct forward_part parts[ADAPTERS + 1];
        int32_t rows = count - at < chunk ? count - at : chunk;

        for (int32_t i = 0; i <= ADAPTERS; i++) /* the base first, so that the batch must sort */
            parts[i] = (struct forward_part){.tokens = ids + at, .blocks = blocks[i], .rows = rows, .before = at,
                                             .slot = i == 0 ? SEGMENT_NONE : ADAPTERS - i, .wants_output = true};
        forward_step(engine->forward, parts, ADAPTERS + 1);
        for (int32_t i = 0; i <= ADAPTERS; i++) {
            char name[64];

            snprintf(name, sizeof(name), "logits.%s", i == 0 ? "base" : adapters[ADAPTERS - i]);
            worst = fmax(worst, worst_of_row(engine, i, safetensors_find(file, name), at + rows - 1));
        }
    }
    return worst;
}

static void logits_of_four_adapters_and_the_base_together(void **context)
{
    (void)context;
    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++) {
        static const int32_t chunks[] = {1, 5, 12};
        struct safetensors *file;
        struct engine engine;
        double worst = 0;

        if (!engine_looks_at(set))
            continue;
        engine = open_all(set);
        file = open_reference("models/reference/multi_lora_logits.safetensors");
        for (size_t i = 0; i < ARRAY_COUNT(chunks); i++)
            worst = fmax(worst, worst_together(&engine, file, chunks[i]));
        printf("%s: logits of 4 adapters and the base in one batch differ by at most %.2g\n", kernel_set_name(set), worst);
        assert_true(worst < 1e-4);
        safetensors_close(file);
        engine_close(&engine);
    }
}

static void log_probabilities_under_each_adapter(void **context)
{
    struct engine engine = open_all(kernel_set_best());
    json_t *lines = reference_lines("multi_lora_logprobs.jsonl");
    double worst = 0;
    size_t i;
    json_t *line;

    (void)context;
    assert_non_null(lines);
    json_array_foreach(lines, i, line) {
        const char *name = json_string_value(json_object_get(line, "adapter"));
        const json_t *want = json_object_get(line, "logprobs_f64");
        double got[IDS_MAX];
        int32_t ids[IDS_MAX];
        int32_t count = ids_of(json_object_get(line, "token_ids"), ids, IDS_MAX);
        int32_t slot = 0;

        while (strcmp(adapters[slot], name) != 0)
            slot++;
        engine_logprobs(&engine, ids, count, 1, slot, got);
        for (int32_t t = 0; t + 1 < count; t++)
            worst = fmax(worst, fabs(got[t] - json_number_value(json_array_get(want, (size_t)t))));
    }
    printf("log-probabilities under %zu adapters differ by at most %.2g\n", json_array_size(lines), worst);
    assert_true(worst < 1e-4);
    json_decref(lines);
    engine_close(&engine);
}

/* The same row alone, among five segments, and after steps without any: bits are equal. */
static void one_segment_then_many_then_none(void **context)
{
    struct engine engine = open_all(kernel_set_best());
    const int32_t vocabulary = engine.model->config.dims.vocabulary;
    const int32_t ids[] = {1, 403, 407, 261, 378, 432};
    float *first = malloc((size_t)vocabulary * sizeof(float));
    struct forward_part parts[ADAPTERS + 1];
    int32_t blocks[ADAPTERS + 1][BLOCKS];

    (void)context;
    for (int32_t i = 0; i <= ADAPTERS; i++) {
        blocks_of(i, blocks[i]);
        parts[i] = (struct forward_part){.tokens = ids, .blocks = blocks[i], .rows = 6, .before = 0,
                                         .slot = i < ADAPTERS ? i : SEGMENT_NONE, .wants_output = true};
    }
    for (int32_t i = 0; i <= ADAPTERS; i++) {
        forward_step(engine.forward, &parts[i], 1);
        forward_logits(engine.forward, 0, first);
        for (int round = 0; round < 3; round++) {
            forward_step(engine.forward, parts, ADAPTERS + 1);
            forward_logits(engine.forward, i, engine.logits);
            assert_memory_equal(engine.logits, first, (size_t)vocabulary * sizeof(float));
            forward_step(engine.forward, &parts[ADAPTERS], 1); /* no segment */
            forward_step(engine.forward, &parts[i], 1);
            forward_logits(engine.forward, 0, engine.logits);
            assert_memory_equal(engine.logits, first, (size_t)vocabulary * sizeof(float));
        }
    }
    free(first);
    engine_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base_logits_are_the_references),
        cmocka_unit_test(logits_of_four_adapters_and_the_base_together),
        cmocka_unit_test(log_probabilities_under_each_adapter),
        cmocka_unit_test(one_segment_then_many_then_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
