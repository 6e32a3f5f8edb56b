/* Every op's way back, by its definition, against differences of its way forward; and a whole model's gradient against differences of its
 * loss. A difference takes four points, so that what is left is the rounding of outputs to f32. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "scene.h"

static double difference(struct scene *scene, float *value)
{
    const float step = 0x1p-7f;
    const float at = *value;
    double f[4];

    for (int i = 0; i < 4; i++) {
        *value = at + step * (float)(i < 2 ? i - 2 : i - 1);
        f[i] = scene_forward(scene, &ops_ref);
    }
    *value = at;
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * (double)step);
}

static void expect_gradients(const struct scene_config *config)
{
    static struct scene scene;

    scene_open(&scene, config);
    scene_back(&scene, &train_ops_ref);
    for (int i = 0; i < scene.inputs; i++) {
        struct scene_input *input = &scene.input[i];
        double largest = 0;
        double worst = 0;
        /* Many numbers of one kind: every third will do. */
        const int64_t stride = input->count > 200 ? 3 : 1;

        for (int64_t at = 0; at < input->count; at += stride) {
            double want = difference(&scene, &input->values[at]);

            largest = fmax(largest, fabs(want));
            worst = fmax(worst, fabs(want - (double)input->gradient[at]));
        }
        if (!(worst < 1e-4 * fmax(largest, 1)))
            fail_msg("kind %d, heads %d of %d, %s: differs by %g of %g", config->kind, config->dims.heads, config->dims.kv_heads,
                     input->name, worst, largest);
    }
    scene_close(&scene);
}

static void every_op_goes_back_as_it_went(void **state)
{
    static const struct dims dims[] = {
        {.hidden = 6, .heads = 4, .kv_heads = 2, .head_dim = 4, .ffn = 7, .vocabulary = 11, .layers = 1},
        {.hidden = 5, .heads = 3, .kv_heads = 1, .head_dim = 2, .ffn = 3, .vocabulary = 5, .layers = 1},
        {.hidden = 4, .heads = 2, .kv_heads = 2, .head_dim = 6, .ffn = 5, .vocabulary = 7, .layers = 1},
    };

    (void)state;
    for (size_t d = 0; d < ARRAY_COUNT(dims); d++)
        for (enum scene_kind kind = 0; kind < SCENE_KINDS; kind++)
            for (int gains = 0; gains < (kind == SCENE_ATTENTION ? 2 : 1); gains++) {
                const struct scene_config config = {.kind = kind, .dims = dims[d], .mode = MODE_EXACT, .threads = 1,
                                                    .sequence_rows = {5, 18, 1, 3}, .segment_rows = {4, 1, 9}, .gains = gains != 0,
                                                    .seed = 40 + d};

                expect_gradients(&config);
            }
}

/* --- whole models ----------------------------------------------------------------------------------------------------------- */

static double loss_of(struct trainer *trainer, const struct rig_samples *samples)
{
    struct train_score scores[64];
    double loss = 0;

    trainer_logp(trainer, samples->sample, samples->count, scores);
    for (int32_t i = 0; i < samples->count; i++)
        loss -= (double)samples->sample[i].coef * scores[i].logp;
    return loss;
}

/* Along a random direction over `count` numbers from `at` on, of size one. */
static double along(struct trainer *trainer, const struct rig_samples *samples, float *values, int64_t at, int64_t count, uint64_t *seed,
                    const float *gradient, double *ret_slope)
{
    const double step = 0x1p-5;
    float *start = malloc((size_t)count * sizeof(float));
    double *direction = malloc((size_t)count * sizeof(double));
    double size = 0;
    double f[4];

    for (int64_t i = 0; i < count; i++) {
        start[i] = values[at + i];
        direction[i] = 2 * draw_unit(seed) - 1;
        size += direction[i] * direction[i];
    }
    *ret_slope = 0;
    for (int64_t i = 0; i < count; i++)
        *ret_slope += direction[i] / sqrt(size) * (double)gradient[at + i];
    for (int k = 0; k < 4; k++) {
        for (int64_t i = 0; i < count; i++)
            values[at + i] = (float)((double)start[i] + step * (k < 2 ? k - 2 : k - 1) * direction[i] / sqrt(size));
        trainer_put(trainer, 0, TRAIN_MATRICES, values);
        f[k] = loss_of(trainer, samples);
    }
    memcpy(values + at, start, (size_t)count * sizeof(float));
    free(start);
    free(direction);
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step);
}

static void expect_model(const struct tiny *tiny, const struct ops *ops, const struct train_ops *train_ops, const char *what)
{
    static struct rig_samples samples;
    char directory[64];
    struct model *model;
    struct trainer *trainer;
    struct lora_source source = rig_source(&tiny->dims, 5, 0x7f, 0, 3);
    struct trainer_config config = rig_config(MODE_EXACT, kernel_set_best(), 1);
    float *values;
    float *gradient;
    struct train_score scores[64];
    uint64_t seed = test_seed(9);
    double worst = 0;

    rig_model_make(tiny, 4, directory);
    model = rig_model(directory);
    config.ops = ops;
    config.train_ops = train_ops;
    trainer = rig_trainer(model, &config);
    assert_int_equal(trainer_job_open(trainer, 0, &source, &OPTIMIZER_DEFAULT), STATUS_OK);
    rig_samples_draw(&samples, 6, 30, tiny->dims.vocabulary, 0, 5);
    rig_samples_mean(&samples);
    values = malloc((size_t)trainer_parameters(trainer, 0) * sizeof(float));
    gradient = malloc((size_t)trainer_parameters(trainer, 0) * sizeof(float));
    trainer_get(trainer, 0, TRAIN_MATRICES, values);
    trainer_pass(trainer, samples.sample, samples.count, scores);
    trainer_get(trainer, 0, TRAIN_GRADIENTS, gradient);
    for (int64_t at = 0, i = 0; i < tiny->dims.layers * LORA_MODULE_COUNT * 2; i++) {
        const enum lora_module module = (enum lora_module)(i / 2 % LORA_MODULE_COUNT);
        int64_t count = 5 * (i % 2 == 0 ? lora_module_in(&tiny->dims, module) : lora_module_out(&tiny->dims, module));
        double slope;
        double want = along(trainer, &samples, values, at, count, &seed, gradient, &slope);

        if (!(fabs(want - slope) < 1.5e-5 + 2e-4 * fabs(want)))
            fail_msg("%s: layer %d, %d, %c: the difference is %g, the gradient says %g", what, (int)(i / 2 / LORA_MODULE_COUNT), module,
                     i % 2 == 0 ? 'A' : 'B', want, slope);
        worst = fmax(worst, fabs(want - slope));
        at += count;
    }
    printf("%s: slopes differ by at most %.2g\n", what, worst);
    free(values);
    free(gradient);
    rig_source_free(&source);
    trainer_close(trainer);
    model_close(model);
    rig_model_drop(directory);
}

static void whole_models_go_back_as_they_went(void **state)
{
    static const struct tiny tiny[] = {
        {.dims = {.hidden = 24, .heads = 4, .kv_heads = 2, .head_dim = 6, .ffn = 20, .vocabulary = 40, .layers = 2}},
        {.dims = {.hidden = 16, .heads = 6, .kv_heads = 2, .head_dim = 4, .ffn = 18, .vocabulary = 300, .layers = 3}, .tied = true,
         .qkv_bias = true},
        {.dims = {.hidden = 20, .heads = 2, .kv_heads = 1, .head_dim = 8, .ffn = 14, .vocabulary = 50, .layers = 2}, .normed_heads = true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(tiny); i++) {
        expect_model(&tiny[i], &ops_ref, &train_ops_ref, "definitions");
        expect_model(&tiny[i], NULL, NULL, kernel_set_name(kernel_set_best()));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_goes_back_as_it_went),
        cmocka_unit_test(whole_models_go_back_as_they_went),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
