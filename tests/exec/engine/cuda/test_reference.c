/* A real trained model on CUDA's device under the emulation, against answers that other people's programs gave: the first tokens of each, the
 * base and four adapters in one batch. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "emu/control.h"
#include "engine/device/cuda/device_cuda.h"
#include "engine/lora/pack.h"
#include "engine/lora/peft.h"
#include "engine/model/forward.h"
#include "support.h"

enum { TOKENS = 6, BATCH = 5, PROMPT_MAX = 40 };
static const char *const adapters[] = {"robot", "sea", "shout", "sad"};

static const char *path_of(const char *relative)
{
    const char *path = test_shared_path(relative);

    if (path == NULL) {
        printf("skipped: ../shared/%s is missing\n", relative);
        skip();
    }
    return path;
}

static void put_adapter(struct forward *forward, const struct model *model, int32_t slot, int64_t *at)
{
    struct lora_slot value = {.offset = *at, .generation = 1};
    struct refusal refusal = {{0}};
    char relative[128];
    struct peft *peft;
    int64_t bytes;
    char *blob;

    snprintf(relative, sizeof(relative), "models/adapters/%s", adapters[slot]);
    if (peft_open(path_of(relative), &model->config, LORA_RANK_MAX, &peft, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    bytes = lora_pack_bytes(&peft->source, forward_dims(forward), forward_mode(forward));
    blob = malloc((size_t)bytes);
    lora_pack(&peft->source, forward_dims(forward), forward_mode(forward), forward_b_in_pairs(forward), blob);
    forward_put(forward, value.offset, blob, bytes);
    value.rank = lora_rank_padded(peft->source.rank);
    value.modules = peft->source.modules;
    forward_slot(forward, slot, &value);
    *at += (bytes + 255) / 256 * 256;
    free(blob);
    peft_close(peft);
}

static struct forward *open_on_cuda(const struct model *model, enum mode mode)
{
    const struct forward_config config = {.device = &device_cuda, .mode = mode, .threads = 1, .rows_max = BATCH * PROMPT_MAX,
                                          .outputs_max = BATCH, .sequences_max = BATCH, .segments_max = 4, .blocks = 32,
                                          .positions_max = 96, .slots = 4, .pool_bytes = 4 << 20, .lora_rank_max = 16, .best = 8, .tp = 1};
    struct refusal refusal = {{0}};
    struct forward *forward;
    int64_t at = 0;

    if (forward_open(model, &config, &forward, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    for (int32_t i = 0; i < 4; i++)
        put_adapter(forward, model, i, &at);
    return forward;
}

/* Lines of a file whose prompts are short, as many as there are. */
static json_t *short_lines(const char *relative)
{
    FILE *file = fopen(path_of(relative), "r");
    json_t *lines = json_array();
    char *line = NULL;
    size_t size = 0;

    assert_non_null(file);
    while (getline(&line, &size, file) > 0) {
        json_t *value = json_loads(line, 0, NULL);

        if (json_array_size(json_object_get(value, "prompt_ids")) <= PROMPT_MAX &&
            json_array_size(json_object_get(value, "output_ids")) >= TOKENS && json_is_array(json_object_get(value, "logprobs")))
            json_array_append(lines, value);
        json_decref(value);
    }
    free(line);
    fclose(file);
    return lines;
}

static int32_t slot_of(const json_t *line)
{
    const char *name = json_string_value(json_object_get(line, "adapter"));

    for (int32_t i = 0; name != NULL && i < 4; i++)
        if (strcmp(name, adapters[i]) == 0)
            return i;
    return SEGMENT_NONE;
}

/* The recorded ids are fed; each must be the best one (exact), and have nearly the recorded log-probability. */
static double run(struct forward *forward, const json_t *lines, size_t first, bool ids_equal)
{
    const size_t count = json_array_size(lines) - first < BATCH ? json_array_size(lines) - first : BATCH;
    static float logits[4096];
    int32_t tokens[BATCH][PROMPT_MAX + TOKENS];
    int32_t blocks[BATCH][6];
    int32_t before[BATCH] = {0};
    double worst = 0;

    for (size_t i = 0; i < count; i++) {
        const json_t *prompt = json_object_get(json_array_get(lines, first + i), "prompt_ids");
        const json_t *output = json_object_get(json_array_get(lines, first + i), "output_ids");

        for (int b = 0; b < 6; b++)
            blocks[i][b] = 1 + (int32_t)i + b * BATCH;
        for (size_t t = 0; t < json_array_size(prompt) + TOKENS; t++)
            tokens[i][t] = (int32_t)json_integer_value(t < json_array_size(prompt) ? json_array_get(prompt, t)
                                                                                  : json_array_get(output, t - json_array_size(prompt)));
    }
    for (int step = 0; step < TOKENS; step++) {
        struct forward_part parts[BATCH];

        for (size_t i = 0; i < count; i++) {
            const json_t *line = json_array_get(lines, first + i);
            int32_t rows = step == 0 ? (int32_t)json_array_size(json_object_get(line, "prompt_ids")) : 1;

            parts[i] = (struct forward_part){.tokens = tokens[i] + before[i], .blocks = blocks[i], .rows = rows, .before = before[i],
                                             .slot = slot_of(line), .wants_output = true};
            before[i] += rows;
        }
        forward_step(forward, parts, (int32_t)count);
        for (size_t i = 0; i < count; i++) {
            struct forward_output output = forward_output(forward, (int32_t)i);
            int32_t id = tokens[i][before[i]];
            const json_t *want = json_array_get(json_object_get(json_array_get(lines, first + i), "logprobs"), (size_t)step);

            forward_logits(forward, (int32_t)i, logits);
            worst = fmax(worst, fabs((double)logits[id] - (double)output.lse - json_real_value(want)));
            if (ids_equal)
                assert_int_equal(output.ids[0], id);
        }
    }
    return worst;
}

static void compare(const char *model_name, const char *file, enum mode mode, size_t batches_max, double bound)
{
    struct refusal refusal = {{0}};
    struct model *model;
    struct forward *forward;
    json_t *lines;
    double worst = 0;

    if (model_open(path_of(model_name), &model, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    forward = open_on_cuda(model, mode);
    lines = short_lines(file);
    assert_true(json_array_size(lines) >= 3);
    for (size_t first = 0, batch = 0; first < json_array_size(lines) && batch < batches_max; first += BATCH, batch++)
        worst = fmax(worst, run(forward, lines, first, mode == MODE_EXACT));
    printf("%s, %s: log-probabilities differ by at most %.2g\n", model_name, mode == MODE_EXACT ? "exact" : "fast", worst);
    assert_true(worst < bound);
    json_decref(lines);
    forward_close(forward);
    model_close(model);
}

#ifdef __SANITIZE_ADDRESS__
#define BATCHES 1
#else
#define BATCHES 100
#endif

static void the_base_answers_as_recorded(void **context)
{
    (void)context;
    compare("models/stories260k", "models/reference/base_greedy.jsonl", MODE_EXACT, BATCHES, 1e-4);
}

static void adapters_in_one_batch_answer_as_recorded(void **context)
{
    (void)context;
    compare("models/stories260k", "models/reference/multi_lora_greedy.jsonl", MODE_EXACT, BATCHES, 1e-4);
}

static void bf16_weights_answer_as_recorded(void **context)
{
    (void)context;
    compare("models/stories260k-bf16", "models/reference/base_greedy_bf16.jsonl", MODE_EXACT, BATCHES, 1e-4);
}

static void fast_stays_near_what_is_recorded(void **context)
{
    (void)context;
    compare("models/stories260k-bf16", "models/reference/base_greedy_bf16.jsonl", MODE_FAST, 1, 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_base_answers_as_recorded),
        cmocka_unit_test(adapters_in_one_batch_answer_as_recorded),
        cmocka_unit_test(bf16_weights_answer_as_recorded),
        cmocka_unit_test(fast_stays_near_what_is_recorded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
