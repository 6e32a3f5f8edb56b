/* What a job learns, bit by bit: alone or beside others, with any level of recomputing, on any number of threads; and that samples in one
 * batch do not see each other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jobs.h"

static struct trainer_config config_of(enum mode mode, enum kernel_set set, uint32_t threads, enum recompute recompute)
{
    struct trainer_config config = rig_config(mode, set, threads);

    config.rows_max = 400;
    config.job_rows_max = 150;
    config.samples_max = 20;
    config.recompute = recompute;
    return config;
}

static void a_job_learns_the_same_beside_others(void **state)
{
    static struct jobs jobs;

    (void)state;
    jobs_open(&jobs, 12, 6);
    RIG_EACH_SET(set)
        for (enum mode mode = MODE_EXACT; mode <= MODE_FAST; mode++) {
            const struct trainer_config config = config_of(mode, set, 1, RECOMPUTE_NONE);
            struct left together[JOBS] = {{0}};

            jobs_train(&jobs, &config, 7, together);
            assert_true(together[0].loss[STEPS - 1] < together[0].loss[0]);
            for (int32_t job = 0; job < JOBS; job++) {
                struct left alone[JOBS] = {{0}};

                jobs_train(&jobs, &config, 1u << job, alone);
                left_expect(&together[job], &alone[job], job, mode == MODE_EXACT ? "exact, alone" : "fast, alone", set);
                left_free(alone);
            }
            left_free(together);
        }
    jobs_close(&jobs);
}

static void levels_and_threads_change_no_bit(void **state)
{
    static const struct {
        enum recompute recompute;
        uint32_t threads;
    } ways[] = {{RECOMPUTE_PARTIAL, 1}, {RECOMPUTE_LAYER, 2}, {RECOMPUTE_NONE, 3}};
    static struct jobs jobs;

    (void)state;
    jobs_open(&jobs, 12, 6);
    RIG_EACH_SET(set)
        for (enum mode mode = MODE_EXACT; mode <= MODE_FAST; mode++) {
            struct trainer_config config = config_of(mode, set, 1, RECOMPUTE_NONE);
            struct left expected[JOBS] = {{0}};

            jobs_train(&jobs, &config, 7, expected);
            for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
                struct left found[JOBS] = {{0}};
                char what[64];

                config = config_of(mode, set, ways[i].threads, ways[i].recompute);
                snprintf(what, sizeof(what), "%s, %u threads", recompute_name(ways[i].recompute), ways[i].threads);
                jobs_train(&jobs, &config, 7, found);
                for (int32_t job = 0; job < JOBS; job++)
                    left_expect(&expected[job], &found[job], job, what, set);
                left_free(found);
            }
            left_free(expected);
        }
    jobs_close(&jobs);
}

/* Gradients of samples in one batch, and of one batch each. */
static void packed_samples_do_not_see_each_other(void **state)
{
    static struct jobs jobs;

    (void)state;
    jobs_open(&jobs, 12, 6);
    RIG_EACH_SET(set) {
        const struct trainer_config config = config_of(MODE_EXACT, set, 1, RECOMPUTE_NONE);
        struct trainer *trainer = rig_trainer(jobs.model, &config);
        struct rig_samples *samples = &jobs.samples[0];
        int64_t parameters;
        float *packed;
        float *apart;
        struct train_score packed_scores[64];
        struct train_score apart_scores[64];
        double largest = 0;
        double worst = 0;

        assert_int_equal(trainer_job_open(trainer, 0, &jobs.source[0], &OPTIMIZER_DEFAULT), STATUS_OK);
        parameters = trainer_parameters(trainer, 0);
        packed = calloc((size_t)parameters, sizeof(float));
        apart = calloc((size_t)parameters, sizeof(float));
        rig_samples_mean(samples);
        trainer_pass(trainer, samples->sample, samples->count, packed_scores);
        trainer_get(trainer, 0, TRAIN_GRADIENTS, packed);
        trainer_put(trainer, 0, TRAIN_GRADIENTS, apart);
        for (int32_t i = 0; i < samples->count; i++)
            trainer_pass(trainer, &samples->sample[i], 1, &apart_scores[i]);
        trainer_get(trainer, 0, TRAIN_GRADIENTS, apart);
        for (int32_t i = 0; i < samples->count; i++)
            assert_memory_equal(&packed_scores[i], &apart_scores[i], sizeof(struct train_score));
        for (int64_t i = 0; i < parameters; i++) {
            largest = fmax(largest, fabs((double)packed[i]));
            worst = fmax(worst, fabs((double)packed[i] - (double)apart[i]));
        }
        printf("%s: packed and apart differ by %.2g of the largest gradient\n", kernel_set_name(set), worst / largest);
        assert_true(worst < 1e-6 * largest);
        free(packed);
        free(apart);
        trainer_close(trainer);
    }
    jobs_close(&jobs);
}

/* Without a rate nothing moves, and the first moment is a tenth of the gradient. free() it. */
static float *gradient_of(const struct jobs *jobs, const struct trainer_config *config, const struct train_sample *samples, int32_t count,
                          int64_t *ret_parameters)
{
    struct trainer *trainer = rig_trainer(jobs->model, config);
    struct train_outcome outcomes[JOBS] = {{0}};
    const double rates[JOBS] = {0};
    float *gradient;

    assert_int_equal(trainer_job_open(trainer, 0, &jobs->source[0], &OPTIMIZER_DEFAULT), STATUS_OK);
    *ret_parameters = trainer_parameters(trainer, 0);
    gradient = calloc((size_t)*ret_parameters, sizeof(float));
    assert_int_equal(trainer_step(trainer, samples, count, rates, outcomes), STATUS_OK);
    trainer_get(trainer, 0, TRAIN_MOMENT1, gradient);
    trainer_close(trainer);
    return gradient;
}

/* Samples of 60 and 8 tokens, a pass each or both in one: the gradient is the same but for rounding. Trainers have averaged the means of
 * passes instead, in which a token of the short sample weighs more (transformers#24725, #34191, trl#2175, torchtune#1875); that is far away. */
static void two_passes_of_one_sample_are_one_pass_of_two(void **state)
{
    static struct jobs jobs;
    struct trainer_config whole = config_of(MODE_EXACT, kernel_set_best(), 1, RECOMPUTE_NONE);
    struct trainer_config parts = whole;
    struct train_sample *samples = jobs.samples[0].sample;
    double largest = 0, apart = 0, off = 0;
    float *together, *each, *mean[2];
    int64_t parameters;

    (void)state;
    parts.job_rows_max = 64;
    jobs_open(&jobs, 12, 6);
    rig_samples_draw(&jobs.samples[0], 2, 60, jobs.model->config.dims.vocabulary, 0, 44);
    samples[0].rows = 60;
    samples[1].rows = 8;
    for (int32_t s = 0; s < 2; s++)
        for (int32_t t = 0; t < samples[s].rows; t++) {
            jobs.samples[0].tokens[s][t] = (7 * t + 13 * s) % jobs.model->config.dims.vocabulary;
            jobs.samples[0].is_target[s][t] = t > 0;
        }
    together = gradient_of(&jobs, &whole, samples, 2, &parameters);
    each = gradient_of(&jobs, &parts, samples, 2, &parameters);
    mean[0] = gradient_of(&jobs, &whole, &samples[0], 1, &parameters);
    mean[1] = gradient_of(&jobs, &whole, &samples[1], 1, &parameters);
    for (int64_t i = 0; i < parameters; i++) {
        largest = fmax(largest, fabs((double)together[i]));
        apart = fmax(apart, fabs((double)together[i] - (double)each[i]));
        off = fmax(off, fabs((double)together[i] - ((double)mean[0][i] + (double)mean[1][i]) / 2));
    }
    printf("of the largest gradient: two passes are off by %.2g, the mean of their means would be by %.2g\n", apart / largest, off / largest);
    assert_true(apart < 1e-6 * largest);
    assert_true(off > 0.1 * largest);
    free(together);
    free(each);
    free(mean[0]);
    free(mean[1]);
    jobs_close(&jobs);
}

/* The loss of two passes is the mean over both passes' targets, not the mean of two means. */
static void accumulated_passes_are_one_batch(void **state)
{
    static struct jobs jobs;
    struct trainer_config config;

    (void)state;
    jobs_open(&jobs, 12, 6);
    config = config_of(MODE_EXACT, kernel_set_best(), 1, RECOMPUTE_NONE);
    config.rows_max = 800;
    for (int32_t whole = 0; whole < 2; whole++) {
        static struct left left[2][JOBS];

        config.job_rows_max = whole != 0 ? 800 : 64;
        jobs_train(&jobs, &config, 7, left[whole]);
        for (int32_t job = 0; whole != 0 && job < JOBS; job++) {
            for (int step = 0; step < STEPS; step++)
                assert_true(fabs(left[0][job].loss[step] - left[1][job].loss[step]) < 2e-6 * left[0][job].loss[step]);
            for (int64_t i = 0; i < left[0][job].parameters; i++)
                assert_true(fabs((double)left[0][job].matrices[i] - (double)left[1][job].matrices[i]) < 3e-4);
        }
        if (whole != 0) {
            left_free(left[0]);
            left_free(left[1]);
        }
    }
    jobs_close(&jobs);
}

/* log p without a way back, of a job and of the base, and what a coefficient of each sample does. */
static void logp_needs_no_way_back(void **state)
{
    static struct jobs jobs;
    struct trainer_config config = config_of(MODE_FAST, kernel_set_best(), 2, RECOMPUTE_LAYER);
    struct trainer *trainer;
    struct train_score before[64];
    struct train_score passed[64];
    struct train_score base[64];
    float *gradient;

    (void)state;
    jobs_open(&jobs, 12, 6);
    trainer = rig_trainer(jobs.model, &config);
    assert_int_equal(trainer_job_open(trainer, 1, &jobs.source[1], &OPTIMIZER_DEFAULT), STATUS_OK);
    gradient = malloc((size_t)trainer_parameters(trainer, 1) * sizeof(float));
    trainer_logp(trainer, jobs.samples[1].sample, jobs.samples[1].count, before);
    trainer_get(trainer, 1, TRAIN_GRADIENTS, gradient);
    for (int64_t i = 0; i < trainer_parameters(trainer, 1); i++)
        assert_true(gradient[i] == 0);
    for (int32_t i = 0; i < jobs.samples[1].count; i++)
        jobs.samples[1].sample[i].coef = i == 0 ? 1.0f : 0.0f;
    trainer_pass(trainer, jobs.samples[1].sample, jobs.samples[1].count, passed);
    assert_memory_equal(before, passed, (size_t)jobs.samples[1].count * sizeof(struct train_score));
    for (int32_t i = 0; i < jobs.samples[1].count; i++)
        jobs.samples[1].sample[i].job = SEGMENT_NONE;
    trainer_logp(trainer, jobs.samples[1].sample, jobs.samples[1].count, base);
    assert_true(base[0].logp != before[0].logp);
    free(gradient);
    trainer_close(trainer);
    jobs_close(&jobs);
}

/* One target, and each token of the vocabulary as it: one is a hit, the likeliest. */
static void a_hit_is_the_target_that_is_likeliest(void **state)
{
    enum { VOCABULARY = 90, AT_ONCE = 15 };
    static struct jobs jobs;
    static const uint8_t is_target[3] = {0, 0, 1};
    struct trainer_config config = config_of(MODE_EXACT, kernel_set_best(), 1, RECOMPUTE_NONE);
    int32_t tokens[VOCABULARY][3];
    struct train_sample samples[VOCABULARY];
    struct train_score scores[VOCABULARY];
    struct trainer *trainer;
    int32_t likeliest = 0;
    int64_t hits = 0;

    (void)state;
    jobs_open(&jobs, 12, 6);
    trainer = rig_trainer(jobs.model, &config);
    assert_int_equal(trainer_job_open(trainer, 0, &jobs.source[0], &OPTIMIZER_DEFAULT), STATUS_OK);
    for (int32_t id = 0; id < VOCABULARY; id++) {
        tokens[id][0] = 7;
        tokens[id][1] = 31;
        tokens[id][2] = id;
        samples[id] = (struct train_sample){.tokens = tokens[id], .is_target = is_target, .rows = 3, .job = 0};
    }
    for (int32_t at = 0; at < VOCABULARY; at += AT_ONCE)
        trainer_logp(trainer, samples + at, AT_ONCE, scores + at);
    for (int32_t id = 0; id < VOCABULARY; id++) {
        hits += scores[id].hits;
        if (scores[id].logp > scores[likeliest].logp)
            likeliest = id;
    }
    assert_int_equal(hits, 1);
    assert_int_equal(scores[likeliest].hits, 1);
    trainer_close(trainer);
    jobs_close(&jobs);
}

static void a_gradient_that_is_no_number_changes_nothing(void **state)
{
    static struct jobs jobs;
    struct trainer_config config = config_of(MODE_EXACT, kernel_set_best(), 1, RECOMPUTE_NONE);
    struct trainer *trainer;
    double norm = 0;
    int64_t parameters;
    float *values;
    float *after;

    (void)state;
    jobs_open(&jobs, 12, 6);
    trainer = rig_trainer(jobs.model, &config);
    assert_int_equal(trainer_job_open(trainer, 0, &jobs.source[0], &OPTIMIZER_DEFAULT), STATUS_OK);
    parameters = trainer_parameters(trainer, 0);
    values = calloc((size_t)parameters, sizeof(float));
    after = calloc((size_t)parameters, sizeof(float));
    values[parameters / 2] = NAN;
    trainer_put(trainer, 0, TRAIN_GRADIENTS, values);
    trainer_get(trainer, 0, TRAIN_MATRICES, values);
    assert_int_equal(trainer_update(trainer, 0, 1e-3, &norm), STATUS_INVALID);
    assert_true(!isfinite(norm));
    trainer_get(trainer, 0, TRAIN_MATRICES, after);
    assert_memory_equal(values, after, (size_t)parameters * sizeof(float));
    assert_int_equal(trainer_updates(trainer, 0), 0);
    trainer_get(trainer, 0, TRAIN_GRADIENTS, after);
    for (int64_t i = 0; i < parameters; i++)
        assert_true(after[i] == 0);
    free(values);
    free(after);
    trainer_close(trainer);
    jobs_close(&jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_learns_the_same_beside_others),
        cmocka_unit_test(levels_and_threads_change_no_bit),
        cmocka_unit_test(packed_samples_do_not_see_each_other),
        cmocka_unit_test(two_passes_of_one_sample_are_one_pass_of_two),
        cmocka_unit_test(accumulated_passes_are_one_batch),
        cmocka_unit_test(logp_needs_no_way_back),
        cmocka_unit_test(a_hit_is_the_target_that_is_likeliest),
        cmocka_unit_test(a_gradient_that_is_no_number_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
