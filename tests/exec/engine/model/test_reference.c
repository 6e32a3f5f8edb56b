/* A real trained model against log-probabilities that other people's programs found. */
#include <math.h>
#include <stdio.h>

#include "rig.h"

#define MODEL "models/stories260k"
#define MODEL_BF16 "models/stories260k-bf16"
#define MODEL_SHARDED "models/stories260k-sharded"
enum { IDS_MAX = 600 };

static const char *model_path(const char *name)
{
    const char *path = test_shared_path(name);

    if (path == NULL) {
        printf("skipped: ../shared/%s is missing\n", name);
        skip();
    }
    return path;
}

/* The largest difference over all lines; `field` holds the truth. */
static double worst_difference(struct engine *engine, const char *field, int32_t chunk)
{
    json_t *lines = reference_lines("base_logprobs.jsonl");
    double worst = 0;
    size_t i;
    json_t *line;

    assert_non_null(lines);
    json_array_foreach(lines, i, line) {
        const json_t *want = json_object_get(line, field);
        int32_t ids[IDS_MAX];
        double got[IDS_MAX];
        int32_t count = ids_of(json_object_get(line, "token_ids"), ids, IDS_MAX);

        assert_int_equal(json_array_size(want), count - 1);
        for (int32_t t = 0; t < count; t++)
            got[t] = NAN;
        engine_logprobs(engine, ids, count, chunk, SEGMENT_NONE, got);
        for (int32_t t = 0; t + 1 < count; t++)
            if (!isnan(got[t]))
                worst = fmax(worst, fabs(got[t] - json_real_value(json_array_get(want, (size_t)t))));
    }
    json_decref(lines);
    return worst;
}

static void base_logprobs(const char *model, const char *field, double tolerance)
{
    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++) {
        static const int32_t chunks[] = {1, 7, 64};

        if (!engine_looks_at(set))
            continue;
        for (size_t i = 0; i < ARRAY_COUNT(chunks); i++) {
            struct engine engine = engine_open(
                &(struct engine_ask){.directory = model_path(model), .mode = MODE_EXACT, .kernels = set, .threads = 2, .rows_max = 64});
            double worst = worst_difference(&engine, field, chunks[i]);

            printf("%s, %s, chunks of %d: log-probabilities differ by at most %.2g\n", model, kernel_set_name(set), chunks[i], worst);
            assert_true(worst < tolerance);
            engine_close(&engine);
        }
    }
}

static void f32_base(void **context)
{
    (void)context;
    base_logprobs(MODEL, "logprobs_f64", 1e-4);
}

static void f32_base_in_shards(void **context)
{
    (void)context;
    base_logprobs(MODEL_SHARDED, "logprobs_f64", 1e-4);
}

static void bf16_weights_exactly(void **context)
{
    (void)context;
    base_logprobs(MODEL_BF16, "logprobs_bf16_weights_f64", 1e-4);
}

/* fast against exact over the same texts: logit rms at most 0.1, log-probabilities at most 0.5 apart. */
static void bf16_fast_stays_near_exact(void **context)
{
    json_t *lines;
    size_t i;
    json_t *line;

    (void)context;
    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++) {
        struct engine exact;
        struct engine fast;
        double squares = 0;
        double worst = 0;
        int64_t logits = 0;

        if (!engine_looks_at(set))
            continue;
        exact = engine_open(&(struct engine_ask){
            .directory = model_path(MODEL_BF16), .mode = MODE_EXACT, .kernels = set, .threads = 1, .rows_max = 64});
        fast = engine_open(
            &(struct engine_ask){.directory = model_path(MODEL_BF16), .mode = MODE_FAST, .kernels = set, .threads = 1, .rows_max = 64});
        lines = reference_lines("base_logprobs.jsonl");
        json_array_foreach(lines, i, line) {
            int32_t ids[IDS_MAX];
            int32_t count = ids_of(json_object_get(line, "token_ids"), ids, IDS_MAX);
            int32_t vocabulary = exact.model->config.dims.vocabulary;
            int32_t blocks[IDS_MAX / 16];

            for (int32_t b = 0; b < (int32_t)ARRAY_COUNT(blocks); b++)
                blocks[b] = b + 1;
            for (int32_t t = 0; t + 1 < count; t++) {
                const struct forward_part part = {
                    .tokens = ids + t, .blocks = blocks, .rows = 1, .before = t, .slot = SEGMENT_NONE, .wants_output = true};
                double a;
                double b;

                forward_step(exact.forward, &part, 1);
                forward_step(fast.forward, &part, 1);
                a = engine_logprob(&exact, 0, ids[t + 1]);
                b = engine_logprob(&fast, 0, ids[t + 1]);
                worst = fmax(worst, fabs(a - b));
                for (int32_t v = 0; v < vocabulary; v++)
                    squares += pow((double)exact.logits[v] - (double)fast.logits[v], 2);
                logits += vocabulary;
            }
        }
        json_decref(lines);
        printf("%s: fast against exact: logits' rms difference %.3f, log-probabilities' largest %.3f\n", kernel_set_name(set),
               sqrt(squares / (double)logits), worst);
        assert_true(sqrt(squares / (double)logits) <= 0.1);
        assert_true(worst <= 0.5);
        engine_close(&exact);
        engine_close(&fast);
    }
}

static void fast_wants_a_bf16_base(void **context)
{
    struct refusal refusal = {{0}};
    struct model *model;
    struct forward *forward = NULL;
    const struct forward_config config = {.device = &device_cpu, .mode = MODE_FAST, .threads = 1, .rows_max = 8, .outputs_max = 1,
                                          .sequences_max = 1, .segments_max = 1, .blocks = 4, .positions_max = 32, .slots = 1,
                                          .best = 8, .tp = 1};

    (void)context;
    assert_int_equal(model_open(model_path(MODEL), &model, &refusal), STATUS_OK);
    assert_int_equal(forward_open(model, &config, &forward, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "exact mode"));
    model_close(model);
}

/* Greedy ids feed the next step where the device has them: the tokens that the host holds are never read. */
static void greedy_ids_are_taken_from_the_device(void **context)
{
    static const int32_t prompts[3][4] = {{1, 403, 407, 261}, {1, 438, 310, 279}, {1, 320, 285, 357}};
    static const int32_t wrong = 7;
    struct engine engine = engine_open(
        &(struct engine_ask){.directory = model_path(MODEL), .mode = -1, .kernels = kernel_set_best(), .threads = 1, .rows_max = 64});
    int32_t want[3][24];
    int32_t last[3];

    (void)context;
    for (int way = 0; way < 2; way++) {
        for (int step = 0; step < 24; step++) {
            struct forward_part parts[3];
            int32_t blocks[3][8];

            /* In another order each step, so that outputs are not where they were. */
            for (int i = 0; i < 3; i++) {
                int who = (i + step) % 3;

                for (int b = 0; b < 8; b++)
                    blocks[i][b] = 1 + who * 8 + b;
                parts[i] = (struct forward_part){.tokens = step == 0 ? prompts[who] : way == 0 ? &last[who] : &wrong,
                                                 .blocks = blocks[i], .rows = step == 0 ? 4 : 1, .before = step == 0 ? 0 : 3 + step,
                                                 .slot = SEGMENT_NONE, .wants_output = true,
                                                 .follows = step == 0 || way == 0 ? 0 : (who - (step - 1) % 3 + 3) % 3 + 1};
            }
            forward_step(engine.forward, parts, 3);
            for (int i = 0; i < 3; i++) {
                int who = (i + step) % 3;
                int32_t id = forward_output(engine.forward, i).ids[0];

                if (way == 0)
                    want[who][step] = last[who] = id;
                else
                    assert_int_equal(id, want[who][step]);
            }
        }
    }
    engine_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_base),
        cmocka_unit_test(f32_base_in_shards),
        cmocka_unit_test(bf16_weights_exactly),
        cmocka_unit_test(bf16_fast_stays_near_exact),
        cmocka_unit_test(fast_wants_a_bf16_base),
        cmocka_unit_test(greedy_ids_are_taken_from_the_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
