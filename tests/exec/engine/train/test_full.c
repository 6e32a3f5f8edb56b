/* All weights of small models: gradients against differences of the loss, bits at every level and thread count, and that they learn. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/ops/ref/train.h"
#include "rig.h"

static const struct tiny tiny[] = {
    {.dims = {.hidden = 24, .heads = 4, .kv_heads = 2, .head_dim = 6, .ffn = 20, .vocabulary = 40, .layers = 2}, .dtype = DTYPE_BF16},
    {.dims = {.hidden = 16, .heads = 6, .kv_heads = 2, .head_dim = 4, .ffn = 18, .vocabulary = 300, .layers = 3}, .tied = true,
     .qkv_bias = true, .dtype = DTYPE_BF16},
    {.dims = {.hidden = 20, .heads = 2, .kv_heads = 1, .head_dim = 8, .ffn = 14, .vocabulary = 50, .layers = 2}, .normed_heads = true,
     .dtype = DTYPE_BF16},
};

static struct trainer_config config_of(enum mode mode, enum kernel_set set, uint32_t threads)
{
    struct trainer_config config = rig_config(mode, set, threads);

    config.full = true;
    config.jobs_max = 1;
    config.lora_rank_max = 0;
    return config;
}

static struct trainer *full_trainer(const struct model *model, const struct trainer_config *config)
{
    struct trainer *trainer = rig_trainer(model, config);

    assert_int_equal(trainer_full_open(trainer, model, &OPTIMIZER_DEFAULT), STATUS_OK);
    return trainer;
}

static double loss_of(struct trainer *trainer, const struct rig_samples *samples)
{
    struct train_score scores[64];
    double loss = 0;

    trainer_logp(trainer, samples->sample, samples->count, scores);
    for (int32_t i = 0; i < samples->count; i++)
        loss -= (double)samples->sample[i].coef * scores[i].logp;
    return loss;
}

/* Slopes along random directions, each over a part of all numbers. */
static void expect_slopes(const struct model *model, const struct trainer_config *config, const char *what)
{
    enum { PARTS = 37 };
    static struct rig_samples samples;
    struct trainer *trainer = full_trainer(model, config);
    const int64_t all = trainer_parameters(trainer, 0);
    float *values = malloc((size_t)all * sizeof(float));
    float *moved = malloc((size_t)all * sizeof(float));
    float *gradient = malloc((size_t)all * sizeof(float));
    double *direction = malloc((size_t)all * sizeof(double));
    uint64_t seed = test_seed(12);
    struct train_score scores[64];
    double worst = 0;

    rig_samples_draw(&samples, 6, 30, model->config.dims.vocabulary, 0, 5);
    rig_samples_mean(&samples);
    trainer_get(trainer, 0, TRAIN_MATRICES, values);
    trainer_pass(trainer, samples.sample, samples.count, scores);
    trainer_get(trainer, 0, TRAIN_GRADIENTS, gradient);
    for (int64_t part = 0; part < PARTS; part++) {
        const int64_t from = all * part / PARTS;
        const int64_t to = all * (part + 1) / PARTS;
        double size = 0;
        double slope = 0;
        double want;
        double f[4];

        for (int64_t i = from; i < to; i++) {
            direction[i] = 2 * draw_unit(&seed) - 1;
            size += direction[i] * direction[i];
        }
        for (int64_t i = from; i < to; i++)
            slope += direction[i] / sqrt(size) * (double)gradient[i];
        for (int k = 0; k < 4; k++) {
            memcpy(moved, values, (size_t)all * sizeof(float));
            for (int64_t i = from; i < to; i++)
                moved[i] = (float)((double)values[i] + 0x1p-5 * (k < 2 ? k - 2 : k - 1) * direction[i] / sqrt(size));
            trainer_put(trainer, 0, TRAIN_MATRICES, moved);
            f[k] = loss_of(trainer, &samples);
        }
        want = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * 0x1p-5);
        worst = fmax(worst, fabs(want - slope));
        if (!(fabs(want - slope) < 1.5e-5 + 3e-4 * fabs(want)))
            fail_msg("%s: part %d: the difference is %g, the gradient says %g", what, (int)part, want, slope);
    }
    printf("%s: slopes differ by at most %.2g\n", what, worst);
    free(values);
    free(moved);
    free(gradient);
    free(direction);
    trainer_close(trainer);
}

static void gradients_of_all_weights(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(tiny); i++) {
        struct trainer_config config = config_of(MODE_EXACT, kernel_set_best(), 1);
        char directory[64];
        struct model *model;

        rig_model_make(&tiny[i], 4, directory);
        model = rig_model(directory);
        expect_slopes(model, &config, kernel_set_name(kernel_set_best()));
        config.ops = &ops_ref;
        config.train_ops = &train_ops_ref;
        expect_slopes(model, &config, "definitions");
        model_close(model);
        rig_model_drop(directory);
    }
}

/* Three updates; ret_values [parameters] when not NULL is filled, else compared with `expected`. */
static double train(const struct model *model, const struct trainer_config *config, const float *expected, float **ret_values)
{
    static struct rig_samples samples;
    struct trainer *trainer = full_trainer(model, config);
    const size_t bytes = (size_t)trainer_parameters(trainer, 0) * sizeof(float);
    float *values = malloc(bytes);
    const double rate = 3e-3;
    struct train_outcome first = {0};
    struct train_outcome outcome = {0};

    rig_samples_draw(&samples, 9, 60, model->config.dims.vocabulary, 0, 6);
    for (int step = 0; step < 4; step++) {
        assert_int_equal(trainer_step(trainer, samples.sample, samples.count, &rate, &outcome), STATUS_OK);
        if (step == 0)
            first = outcome;
    }
    assert_true(outcome.loss < first.loss);
    trainer_get(trainer, 0, TRAIN_MATRICES, values);
    if (expected != NULL)
        assert_memory_equal(values, expected, bytes);
    if (ret_values != NULL)
        *ret_values = values;
    else
        free(values);
    trainer_close(trainer);
    return outcome.loss;
}

static void levels_and_threads_change_no_bit_of_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(tiny); i++) {
        char directory[64];
        struct model *model;

        rig_model_make(&tiny[i], 4, directory);
        model = rig_model(directory);
        RIG_EACH_SET(set)
            for (enum mode mode = MODE_EXACT; mode <= MODE_FAST; mode++) {
                struct trainer_config config = config_of(mode, set, 1);
                float *expected;

                train(model, &config, NULL, &expected);
                for (uint32_t threads = 2; threads <= 3; threads++) {
                    config.threads = threads;
                    config.recompute = threads == 2 ? RECOMPUTE_PARTIAL : RECOMPUTE_LAYER;
                    train(model, &config, expected, NULL);
                }
                free(expected);
            }
        model_close(model);
        rig_model_drop(directory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_all_weights),
        cmocka_unit_test(levels_and_threads_change_no_bit_of_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
