/* Direct preference optimization: the loss by its formula, its gradient against differences of that loss, and updates that no level of
 * recomputing, no cut into passes and no thread changes. */
#include "engine/train/dpo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/ops/ref/train.h"
#include "rig.h"

enum { COUNT = 8 };

static const struct tiny tiny = {
    .dims = {.hidden = 24, .heads = 4, .kv_heads = 2, .head_dim = 6, .ffn = 20, .vocabulary = 40, .layers = 2}};

struct world {
    char directory[64];
    struct model *model;
    struct lora_source source;
    struct rig_samples samples;
    double reference[COUNT];
};

static void world_open(struct world *world)
{
    rig_model_make(&tiny, 4, world->directory);
    world->model = rig_model(world->directory);
    world->source = rig_source(&tiny.dims, 5, 0x7f, 0, 3);
    rig_samples_draw(&world->samples, COUNT, 30, tiny.dims.vocabulary, 0, 5);
}

static void world_close(struct world *world)
{
    rig_source_free(&world->source);
    model_close(world->model);
    rig_model_drop(world->directory);
}

static struct trainer *trainer_of(const struct world *world, const struct trainer_config *config)
{
    const struct optimizer never_cut = OPTIMIZER_DEFAULT;
    struct trainer *trainer = rig_trainer(world->model, config);

    assert_int_equal(trainer_job_open(trainer, 0, &world->source, &never_cut), STATUS_OK);
    return trainer;
}

static void samples_score(struct trainer *trainer, const struct world *world, int32_t job, double *ret_logp)
{
    struct train_sample samples[COUNT];
    struct train_score scores[COUNT];

    for (int32_t i = 0; i < COUNT; i++) {
        samples[i] = world->samples.sample[i];
        samples[i].job = job;
    }
    trainer_logp(trainer, samples, COUNT, scores);
    for (int32_t i = 0; i < COUNT; i++)
        ret_logp[i] = scores[i].logp;
}

static void a_pair_s_loss_is_the_formula_s(void **state)
{
    static const double reference[2] = {-3, -4};
    const double even[2] = {-10, -11};
    const double better[2] = {-9, -14};       /* a margin of 4 */
    const double beyond[2][2] = {{-3, -90004}, {-90003, -4}};
    struct dpo_sum sum = {0};

    (void)state;
    assert_true(dpo_add(&sum, 0.3, even, reference) == 0.15);
    assert_true(sum.loss == log(2) && sum.reward_margin == 0 && sum.won == 0);
    sum = (struct dpo_sum){0};
    assert_true(fabs(dpo_add(&sum, 0.5, better, reference) - 0.5 / (1 + exp(2))) < 1e-15);
    assert_true(fabs(sum.loss - log(1 + exp(-2))) < 1e-15 && fabs(sum.reward_margin - 2) < 1e-15 && sum.won == 1);
    sum = (struct dpo_sum){0};
    assert_true(dpo_add(&sum, 1, beyond[0], reference) == 0 && sum.loss == 0);
    assert_true(dpo_add(&sum, 1, beyond[1], reference) == 1 && sum.loss == 90000);
    assert_int_equal(sum.pairs, 2);
    assert_int_equal(sum.won, 1);
}

static double loss_of(struct trainer *trainer, const struct world *world, double beta)
{
    struct dpo_sum sum = {0};
    double logp[COUNT];

    samples_score(trainer, world, 0, logp);
    for (int32_t i = 0; i < COUNT; i += 2)
        dpo_add(&sum, beta, logp + i, world->reference + i);
    return sum.loss / (double)sum.pairs;
}

/* Without a rate nothing moves, and the first moment is a tenth of the gradient. */
static void gradient_take(struct trainer *trainer, const struct world *world, double beta, float *ret_gradient, double *ret_loss)
{
    struct dpo_sum sum;
    double norm;

    assert_int_equal(trainer_dpo_step(trainer, world->samples.sample, COUNT, world->reference, beta, 0, &sum, &norm), STATUS_OK);
    trainer_get(trainer, 0, TRAIN_MOMENT1, ret_gradient);
    for (int64_t i = 0; i < trainer_parameters(trainer, 0); i++)
        ret_gradient[i] /= 1 - OPTIMIZER_DEFAULT.beta1;
    *ret_loss = sum.loss / (double)sum.pairs;
}

/* Along random directions over a part of all numbers each. */
static void the_gradient_is_the_loss_s(void **state)
{
    enum { PARTS = 29 };
    const double beta = 0.2;
    const double step = 0x1p-6;
    static struct world world;
    struct trainer_config config = rig_config(MODE_EXACT, kernel_set_best(), 1);
    struct trainer *trainer;
    uint64_t seed = test_seed(9);
    double worst = 0;
    double largest = 0;
    double loss;
    int64_t all;
    float *values, *moved, *gradient;
    double *direction;

    (void)state;
    config.ops = &ops_ref;
    config.train_ops = &train_ops_ref;
    world_open(&world);
    trainer = trainer_of(&world, &config);
    all = trainer_parameters(trainer, 0);
    values = malloc((size_t)all * sizeof(float));
    moved = malloc((size_t)all * sizeof(float));
    gradient = malloc((size_t)all * sizeof(float));
    direction = malloc((size_t)all * sizeof(double));
    samples_score(trainer, &world, SEGMENT_NONE, world.reference);
    trainer_get(trainer, 0, TRAIN_MATRICES, values);
    gradient_take(trainer, &world, beta, gradient, &loss);
    assert_true(fabs(loss - loss_of(trainer, &world, beta)) < 1e-12);
    for (int64_t part = 0; part < PARTS; part++) {
        double size = 0;
        double slope = 0;
        double f[4];
        double want;

        for (int64_t i = part; i < all; i += PARTS) {
            direction[i] = 2 * draw_unit(&seed) - 1;
            size += direction[i] * direction[i];
        }
        for (int64_t i = part; i < all; i += PARTS)
            slope += direction[i] / sqrt(size) * (double)gradient[i];
        for (int k = 0; k < 4; k++) {
            memcpy(moved, values, (size_t)all * sizeof(float));
            for (int64_t i = part; i < all; i += PARTS)
                moved[i] = (float)((double)values[i] + step * (k < 2 ? k - 2 : k - 1) * direction[i] / sqrt(size));
            trainer_put(trainer, 0, TRAIN_MATRICES, moved);
            f[k] = loss_of(trainer, &world, beta);
        }
        want = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step);
        worst = fmax(worst, fabs(want - slope));
        largest = fmax(largest, fabs(want));
        if (!(fabs(want - slope) < 2e-5 + 2e-4 * fabs(want)))
            fail_msg("part %lld: the difference is %g, the gradient says %g", (long long)part, want, slope);
    }
    printf("slopes up to %.2g differ by at most %.2g\n", largest, worst);
    free(values);
    free(moved);
    free(gradient);
    free(direction);
    trainer_close(trainer);
    world_close(&world);
}

/* B zero: the policy is the base, to the bit, whatever computes. */
static void before_the_first_update_the_loss_is_log_2(void **state)
{
    static struct world world;

    (void)state;
    world_open(&world);
    RIG_EACH_SET(set)
        for (enum recompute recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
            struct trainer_config config = rig_config(MODE_EXACT, set, 2);
            struct trainer *trainer;
            struct dpo_sum sum;
            double norm = 0;
            float *values;
            const struct lora_pair *pair = world.source.pair;
            int64_t at = 0;

            config.recompute = recompute;
            trainer = trainer_of(&world, &config);
            values = malloc((size_t)trainer_parameters(trainer, 0) * sizeof(float));
            trainer_get(trainer, 0, TRAIN_MATRICES, values);
            for (int32_t i = 0; i < tiny.dims.layers * LORA_MODULE_COUNT; i++) {
                const enum lora_module module = (enum lora_module)(i % LORA_MODULE_COUNT);
                const int64_t b = pair[i].rank * (int64_t)lora_module_out(&tiny.dims, module);

                at += pair[i].rank * (int64_t)lora_module_in(&tiny.dims, module);
                memset(values + at, 0, (size_t)b * sizeof(float));
                at += b;
            }
            trainer_put(trainer, 0, TRAIN_MATRICES, values);
            samples_score(trainer, &world, SEGMENT_NONE, world.reference);
            assert_int_equal(trainer_dpo_step(trainer, world.samples.sample, COUNT, world.reference, 0.1, 1e-3, &sum, &norm), STATUS_OK);
            assert_true(sum.loss / COUNT * 2 == log(2));
            assert_true(sum.reward_margin == 0 && norm > 0);
            free(values);
            trainer_close(trainer);
        }
    world_close(&world);
}

struct left {
    float *matrices;
    int64_t parameters;
    double loss;
};

static struct left updated(struct world *world, enum recompute recompute, uint32_t threads, int32_t rows_max)
{
    struct trainer_config config = rig_config(MODE_FAST, kernel_set_best(), threads);
    struct left left = {0};
    struct trainer *trainer;

    config.recompute = recompute;
    config.rows_max = rows_max;
    config.job_rows_max = rows_max;
    trainer = trainer_of(world, &config);
    left.parameters = trainer_parameters(trainer, 0);
    samples_score(trainer, world, SEGMENT_NONE, world->reference);
    for (int i = 0; i < 3; i++) {
        struct dpo_sum sum;
        double norm;

        assert_int_equal(trainer_dpo_step(trainer, world->samples.sample, COUNT, world->reference, 0.1, 1e-3, &sum, &norm), STATUS_OK);
        left.loss = sum.loss;
    }
    left.matrices = malloc((size_t)left.parameters * sizeof(float));
    trainer_get(trainer, 0, TRAIN_MATRICES, left.matrices);
    trainer_close(trainer);
    return left;
}

static void levels_and_threads_change_no_bit_of_it(void **state)
{
    static struct world world;
    const struct tiny halves = {.dims = tiny.dims, .dtype = DTYPE_BF16};
    struct left first;

    (void)state;
    world_open(&world);
    model_close(world.model);
    rig_model_drop(world.directory);
    rig_model_make(&halves, 4, world.directory);
    world.model = rig_model(world.directory);
    first = updated(&world, RECOMPUTE_NONE, 1, 240);
    for (enum recompute recompute = 0; recompute < RECOMPUTE_COUNT; recompute++)
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            struct left left = updated(&world, recompute, threads, 240);

            assert_memory_equal(&left.loss, &first.loss, sizeof(double));
            assert_memory_equal(left.matrices, first.matrices, (size_t)first.parameters * sizeof(float));
            free(left.matrices);
        }
    free(first.matrices);
    world_close(&world);
}

/* Pairs of a step in one pass or in several: the gradient is the same but for rounding. */
static void a_step_s_passes_are_one_batch(void **state)
{
    static struct world world;
    const struct trainer_config whole = rig_config(MODE_EXACT, kernel_set_best(), 1);
    struct trainer_config parts = whole;
    const struct trainer_config *const configs[] = {&whole, &parts};
    float *gradient[2];
    double loss[2];
    int64_t all = 0;
    double largest = 0;
    double worst = 0;

    (void)state;
    parts.job_rows_max = 64;
    world_open(&world);
    for (int i = 0; i < 2; i++) {
        struct trainer *trainer = trainer_of(&world, configs[i]);

        all = trainer_parameters(trainer, 0);
        gradient[i] = malloc((size_t)all * sizeof(float));
        samples_score(trainer, &world, SEGMENT_NONE, world.reference);
        gradient_take(trainer, &world, 0.1, gradient[i], &loss[i]);
        trainer_close(trainer);
    }
    assert_true(loss[0] == loss[1]);
    for (int64_t i = 0; i < all; i++) {
        largest = fmax(largest, fabs((double)gradient[0][i]));
        worst = fmax(worst, fabs((double)gradient[0][i] - (double)gradient[1][i]));
    }
    assert_true(worst > 0); /* it was cut otherwise */
    assert_true(worst < 2e-6 * largest);
    free(gradient[0]);
    free(gradient[1]);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_s_loss_is_the_formula_s),
        cmocka_unit_test(the_gradient_is_the_loss_s),
        cmocka_unit_test(before_the_first_update_the_loss_is_log_2),
        cmocka_unit_test(levels_and_threads_change_no_bit_of_it),
        cmocka_unit_test(a_step_s_passes_are_one_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
