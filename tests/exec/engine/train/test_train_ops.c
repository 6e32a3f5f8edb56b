/* The fast ops of the way back against their definitions: all sets of kernels, both modes, ragged sizes, several pieces of rows, more than
 * a panel of everything; and equal bits on one thread and three. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "scene.h"

static const struct dims dims[] = {
    {.hidden = 64, .heads = 8, .kv_heads = 4, .head_dim = 8, .ffn = 172, .vocabulary = 512, .layers = 1},
    {.hidden = 100, .heads = 3, .kv_heads = 3, .head_dim = 64, .ffn = 75, .vocabulary = 101, .layers = 1},
    {.hidden = 208, .heads = 8, .kv_heads = 1, .head_dim = 128, .ffn = 333, .vocabulary = 1300, .layers = 1},
    {.hidden = 33, .heads = 8, .kv_heads = 2, .head_dim = 20, .ffn = 50, .vocabulary = 17, .layers = 1},
};

static void expect_near(struct scene *scene, float *const *expected, const char *what)
{
    /* Relative to the gradient's own size; fast also rounds p and ds. */
    const double tolerance = scene->config.mode == MODE_EXACT ? 1e-5 : scene->config.kind == SCENE_ATTENTION ? 2e-2 : 5e-3;

    for (int i = 0; i < scene->inputs; i++) {
        double squares = 0;
        double differences = 0;

        for (int64_t at = 0; at < scene->input[i].count; at++) {
            double difference = (double)scene->input[i].gradient[at] - (double)expected[i][at];

            squares += (double)expected[i][at] * (double)expected[i][at];
            differences += difference * difference;
        }
        if (!(sqrt(differences) <= tolerance * sqrt(squares)))
            fail_msg("kind %d, hidden %d, %s, %s, %s: relative difference %g", scene->config.kind, scene->config.dims.hidden,
                     scene->config.mode == MODE_EXACT ? "exact" : "fast", what, scene->input[i].name, sqrt(differences / squares));
    }
}

static void expect_same(struct scene *scene, float *const *expected, const char *what)
{
    for (int i = 0; i < scene->inputs; i++)
        if (memcmp(scene->input[i].gradient, expected[i], (size_t)scene->input[i].count * sizeof(float)) != 0)
            fail_msg("kind %d, hidden %d, %s, %s: other bits on more threads", scene->config.kind, scene->config.dims.hidden, what,
                     scene->input[i].name);
}

static void keep(const struct scene *scene, float **to)
{
    for (int i = 0; i < scene->inputs; i++)
        memcpy(to[i], scene->input[i].gradient, (size_t)scene->input[i].count * sizeof(float));
}

static void expect_all(const struct scene_config *config)
{
    static struct scene scene;
    float *expected[SCENE_INPUTS] = {NULL};
    float *alone[SCENE_INPUTS] = {NULL};

    scene_open(&scene, config);
    for (int i = 0; i < scene.inputs; i++) {
        expected[i] = malloc((size_t)scene.input[i].count * sizeof(float));
        alone[i] = malloc((size_t)scene.input[i].count * sizeof(float));
    }
    scene_back(&scene, &train_ops_ref);
    keep(&scene, expected);
    scene_close(&scene);
    RIG_EACH_SET_IF(set, !RIG_ONE_SET || config->dims.hidden < 64)
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            struct scene_config with = *config;

            with.kernels = set;
            with.threads = threads;
            scene_open(&scene, &with);
            scene_back(&scene, device_cpu.train_ops(scene.dev));
            expect_near(&scene, expected, kernel_set_name(set));
            if (threads == 1)
                keep(&scene, alone);
            else
                expect_same(&scene, alone, kernel_set_name(set));
            scene_close(&scene);
        }
    for (int i = 0; i < SCENE_INPUTS; i++) {
        free(expected[i]);
        free(alone[i]);
    }
}

static void fast_ops_go_back_as_defined(void **state)
{
    (void)state;
    for (size_t d = 0; d < ARRAY_COUNT(dims); d++)
        for (enum scene_kind kind = 0; kind < SCENE_KINDS; kind++)
            for (enum mode mode = MODE_EXACT; mode <= MODE_FAST; mode++) {
                const struct scene_config config = {.kind = kind, .dims = dims[d], .mode = mode, .threads = 1,
                                                    .sequence_rows = {97, 1, 45, 16}, .segment_rows = {67, 3, 80}, .gains = d % 2 == 1,
                                                    .seed = 60 + d};

                expect_all(&config);
            }
}

static void norms_and_updates_are_as_defined(void **state)
{
    enum { N = 3 * SUMSQ_PIECE + 77 };
    const struct adamw adamw = {.rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .decay = 0.1f, .gradient_scale = 0.25f,
                                .correction1 = 0.1f, .correction2 = 1e-3f};
    float *values[2][4];
    uint64_t seed = 8;

    (void)state;
    for (int i = 0; i < 8; i++)
        values[i / 4][i % 4] = calloc(N, sizeof(float));
    RIG_EACH_SET(set) {
        const struct dev_config config = {.dims = dims[0], .threads = 2, .kernels = set, .rows_max = 1, .positions_max = 1, .trains = true};
        char error[128];
        struct dev *dev = device_cpu.open(&config, error, sizeof(error));
        double sums[2];

        assert_non_null(dev);
        for (int i = 0; i < N; i++)
            for (int k = 0; k < 4; k++)
                values[0][k][i] = values[1][k][i] = (float)(k == 2 ? draw_unit(&seed) : 2 * draw_unit(&seed) - 1);
        train_ops_ref.sumsq(dev, &sums[0], values[0][3], N);
        device_cpu.train_ops(dev)->sumsq(dev, &sums[1], values[1][3], N);
        assert_true(fabs(sums[0] - sums[1]) < 1e-12 * sums[0]);
        train_ops_ref.adamw(dev, values[0][0], values[0][1], values[0][2], values[0][3], N, &adamw);
        device_cpu.train_ops(dev)->adamw(dev, values[1][0], values[1][1], values[1][2], values[1][3], N, &adamw);
        for (int i = 0; i < N; i++)
            for (int k = 0; k < 3; k++)
                if (!(fabs((double)values[0][k][i] - (double)values[1][k][i]) < 3e-7))
                    fail_msg("%s: number %d of %d: %a and %a", kernel_set_name(set), i, k, (double)values[0][k][i],
                             (double)values[1][k][i]);
        device_cpu.close(dev);
    }
    for (int i = 0; i < 8; i++)
        free(values[i / 4][i % 4]);
}

/* Rows whose largest logit is known: in a word's first and last lane, in a tail, among equals, and where nothing is a number. */
static void loss_names_the_largest_logit(void **state)
{
    enum { VOCABULARY = 101, ROWS = 9 };
    static const int32_t expected[ROWS] = {0, 100, 15, 16, 40, 3, 0, 0, 99};
    struct dims with = dims[1];
    float *logits = malloc(sizeof(float) * ROWS * VOCABULARY);
    const int32_t target[ROWS] = {0};
    const struct counts now = {.outputs = ROWS};
    const struct batch batch = {.max = now, .now = &now};

    (void)state;
    with.vocabulary = VOCABULARY;
    for (int32_t i = 0; i < ROWS * VOCABULARY; i++)
        logits[i] = -3 - 0.01f * (float)(i % 7);
    for (int32_t row = 0; row < 5; row++)
        logits[row * VOCABULARY + expected[row]] = -1;
    logits[4 * VOCABULARY + 41] = logits[4 * VOCABULARY + 90] = -1;    /* the lowest id on ties */
    logits[5 * VOCABULARY + 2] = NAN;                                  /* counts as -infinity */
    logits[5 * VOCABULARY + 3] = INFINITY;
    for (int32_t i = 0; i < VOCABULARY; i++) {
        logits[6 * VOCABULARY + i] = -INFINITY;
        logits[7 * VOCABULARY + i] = i == 50 ? -INFINITY : NAN;
        logits[8 * VOCABULARY + i] = i == 99 ? -FLT_MAX : NAN;
    }
    for (int set = -1; set < KERNELS_COUNT; set++) {
        const bool reference = set < 0;
        const struct dev_config config = {.dims = with, .threads = 2, .kernels = reference ? kernel_set_best() : (enum kernel_set)set,
                                          .rows_max = ROWS, .outputs_max = ROWS, .positions_max = 1, .trains = true};
        char error[128];
        struct dev *dev;
        float logp[ROWS];
        int32_t best[ROWS];

        if (!reference && !kernel_set_runs_here((enum kernel_set)set))
            continue;
        dev = device_cpu.open(&config, error, sizeof(error));
        assert_non_null(dev);
        (reference ? &train_ops_ref : device_cpu.train_ops(dev))->loss(dev, logp, best, NULL, logits, target, NULL, &batch);
        for (int32_t row = 0; row < ROWS; row++)
            if (best[row] != expected[row])
                fail_msg("%s, row %d: %d instead of %d", reference ? "definition" : kernel_set_name((enum kernel_set)set), row, best[row],
                         expected[row]);
        for (int32_t row = 5; row < ROWS; row++)
            assert_true(isnan(logp[row]));
        device_cpu.close(dev);
    }
    free(logits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_ops_go_back_as_defined),
        cmocka_unit_test(norms_and_updates_are_as_defined),
        cmocka_unit_test(loss_names_the_largest_logit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
