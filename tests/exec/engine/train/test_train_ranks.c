/* Two ranks in one process train what one trains: losses, norms and matrices to rounding, with jobs of several kinds in one batch, at every
 * level of recomputing; and each takes the memory that was planned for it. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/device/ranks.h"
#include "engine/model/shard.h"
#include "engine/train/plan.h"
#include "rig.h"

enum { TP = 2, JOBS = 3, STEPS = 3 };

static const struct tiny tinies[] = {
    {.dims = {.hidden = 40, .heads = 6, .kv_heads = 2, .head_dim = 12, .ffn = 44, .vocabulary = 90, .layers = 2}, .dtype = DTYPE_F32},
    {.dims = {.hidden = 33, .heads = 4, .kv_heads = 2, .head_dim = 10, .ffn = 36, .vocabulary = 70, .layers = 3}, .normed_heads = true,
     .dtype = DTYPE_BF16},
    {.dims = {.hidden = 24, .heads = 4, .kv_heads = 4, .head_dim = 8, .ffn = 20, .vocabulary = 50, .layers = 2}, .qkv_bias = true,
     .dtype = DTYPE_F16},
};

/* What one rank is given, and what it leaves. */
struct part {
    const struct model *model;
    const struct lora_source *source;  /* [JOBS] */
    const struct train_sample *samples;
    int32_t count;
    struct trainer_config config;
    struct train_outcome outcome[STEPS][JOBS];
    int64_t parameters[JOBS];
    float *matrices[JOBS];
};

static void *train(void *context)
{
    struct part *part = context;
    const struct optimizer optimizer = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-4f, .decay = 0.01f, .clip = 0.5f};
    const double rates[JOBS] = {1e-3, 2e-3, 3e-3};
    struct trainer *trainer = rig_trainer(part->model, &part->config);

    for (int32_t job = 0; job < JOBS; job++)
        assert_int_equal(trainer_job_open(trainer, job, &part->source[job], &optimizer), STATUS_OK);
    for (int step = 0; step < STEPS; step++)
        assert_int_equal(trainer_step(trainer, part->samples, part->count, rates, part->outcome[step]), STATUS_OK);
    for (int32_t job = 0; job < JOBS; job++) {
        part->parameters[job] = trainer_parameters(trainer, job);
        part->matrices[job] = malloc((size_t)part->parameters[job] * sizeof(float));
        trainer_get(trainer, job, TRAIN_MATRICES, part->matrices[job]);
    }
    trainer_close(trainer);
    return NULL;
}

static void part_free(struct part *part)
{
    for (int32_t job = 0; job < JOBS; job++)
        free(part->matrices[job]);
}

/* The matrices of one rank's part as sources, whole matrices first compared between ranks by whoever asks. */
static struct lora_source pairs_of(const struct lora_source *like, const struct dims *dims, const float *values, struct lora_pair *pairs)
{
    for (int32_t i = 0; i < like->layers * LORA_MODULE_COUNT; i++) {
        const enum lora_module module = (enum lora_module)(i % LORA_MODULE_COUNT);

        pairs[i] = like->pair[i];
        if (pairs[i].a == NULL)
            continue;
        pairs[i].a = values;
        values += (int64_t)pairs[i].rank * lora_module_in(dims, module);
        pairs[i].b = values;
        values += (int64_t)pairs[i].rank * lora_module_out(dims, module);
        pairs[i].a_dtype = pairs[i].b_dtype = DTYPE_F32;
    }
    return (struct lora_source){.layers = like->layers, .rank = like->rank, .modules = like->modules, .pair = pairs};
}

static double farthest(const void *a, const void *b, int64_t count)
{
    double most = 0;

    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)((const float *)a)[i] - (double)((const float *)b)[i]));
    return most;
}

/* What one left, cut for a rank, against what the rank left. */
static double distance(const struct part *one, const struct part *part, int32_t job)
{
    const struct dims *whole = &one->model->config.dims;
    const struct dims dims = shard_dims(whole, TP);
    const size_t bytes = (size_t)whole->layers * LORA_MODULE_COUNT * sizeof(struct lora_pair);
    struct lora_pair *want = malloc(bytes);
    struct lora_pair *found = malloc(bytes);
    const struct lora_source learned = pairs_of(&one->source[job], whole, one->matrices[job], want);
    struct lora_shard shard;
    double most = 0;

    pairs_of(&one->source[job], &dims, part->matrices[job], found);
    assert_int_equal(lora_shard_open(&shard, &learned, whole, part->config.rank, TP), STATUS_OK);
    for (int32_t i = 0; i < learned.layers * LORA_MODULE_COUNT; i++) {
        const enum lora_module module = (enum lora_module)(i % LORA_MODULE_COUNT);

        if (found[i].a == NULL)
            continue;
        most = fmax(most, farthest(shard.pairs[i].a, found[i].a, (int64_t)found[i].rank * lora_module_in(&dims, module)));
        most = fmax(most, farthest(shard.pairs[i].b, found[i].b, (int64_t)found[i].rank * lora_module_out(&dims, module)));
    }
    lora_shard_close(&shard);
    free(want);
    free(found);
    return most;
}

static void alike(double found, double want, const char *what, int step, int32_t job)
{
    if (!(fabs(found - want) <= 1e-6 * fabs(want)))
        fail_msg("%s of job %d, step %d: %.9g, alone %.9g", what, job, step, found, want);
}

static void compare(const struct part *one, const struct part *part)
{
    for (int32_t job = 0; job < JOBS; job++) {
        const double away = distance(one, &part[0], job);

        for (int step = 0; step < STEPS; step++) {
            alike(part[0].outcome[step][job].loss, one->outcome[step][job].loss, "loss", step, job);
            alike(part[0].outcome[step][job].norm, one->outcome[step][job].norm, "norm", step, job);
            assert_memory_equal(&part[0].outcome[step][job], &part[1].outcome[step][job], sizeof(part[0].outcome[step][job]));
        }
        if (away > 2e-6 || distance(one, &part[1], job) > 2e-6)
            fail_msg("job %d: a number of a matrix is %g away", job, away);
        assert_true(one->outcome[STEPS - 1][job].loss < one->outcome[0][job].loss);
    }
}

static void two_ranks_train_what_one_trains(const struct tiny *tiny, enum recompute recompute, uint32_t threads)
{
    static const int32_t ranks_of[JOBS] = {4, 16, 7};
    static const uint32_t modules[JOBS] = {0x7f, 0x15, 0x6a};
    static struct rig_samples drawn[JOBS];
    struct lora_source source[JOBS];
    struct train_sample samples[64];
    struct part one = {.source = source, .samples = samples};
    struct part part[TP];
    struct ranks *ranks = ranks_open(TP);
    pthread_t thread;
    char directory[64];
    struct model *model;

    rig_model_make(tiny, 11, directory);
    model = rig_model(directory);
    for (int32_t job = 0; job < JOBS; job++) {
        source[job] = rig_source(&tiny->dims, ranks_of[job], modules[job], job == 2, 20 + (uint64_t)job);
        rig_samples_draw(&drawn[job], 5, 60, tiny->dims.vocabulary, job, 30 + (uint64_t)job);
        for (int32_t i = 0; i < drawn[job].count; i++)
            samples[one.count++] = drawn[job].sample[i];
    }
    one.model = model;
    one.config = rig_config(MODE_EXACT, kernel_set_best(), threads);
    one.config.job_rows_max = 150;
    one.config.rows_max = 400;
    one.config.samples_max = 20;
    one.config.recompute = recompute;
    for (int32_t rank = 0; rank < TP; rank++) {
        part[rank] = one;
        part[rank].config.ranks = ranks;
        part[rank].config.rank = rank;
    }
    train(&one);
    assert_int_equal(pthread_create(&thread, NULL, train, &part[1]), 0);
    train(&part[0]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    compare(&one, part);
    for (int32_t job = 0; job < JOBS; job++)
        rig_source_free(&source[job]);
    part_free(&one);
    part_free(&part[0]);
    part_free(&part[1]);
    ranks_close(ranks);
    model_close(model);
    rig_model_drop(directory);
}

static void losses_norms_and_matrices_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(tinies); i++)
        for (enum recompute recompute = 0; recompute < RECOMPUTE_COUNT; recompute++)
            two_ranks_train_what_one_trains(&tinies[i], recompute, 1 + (i == 0));
}

static void a_rank_takes_what_was_planned_for_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(tinies); i++) {
        struct trainer_config config = rig_config(MODE_EXACT, kernel_set_best(), 1);
        struct ranks *ranks = ranks_open(TP);
        char directory[64];
        struct model *model;
        struct refusal refusal;
        struct plan plan;

        rig_model_make(&tinies[i], 4, directory);
        model = rig_model(directory);
        assert_int_equal(plan_make(&model->config, model->dtype, &config, 5, TP, &plan, &refusal), STATUS_OK);
        config.ranks = ranks;
        for (config.recompute = 0; config.recompute < RECOMPUTE_COUNT; config.recompute++)
            assert_int_equal(trainer_bytes(model, &config), plan.memory[config.recompute].total);
        ranks_close(ranks);
        model_close(model);
        rig_model_drop(directory);
    }
}

static void what_does_not_divide_is_refused(void **state)
{
    struct trainer_config config = rig_config(MODE_EXACT, kernel_set_best(), 1);
    struct ranks *ranks = ranks_open(3);
    struct refusal refusal;
    struct trainer *trainer;
    struct model *model;
    char directory[64];

    (void)state;
    rig_model_make(&tinies[0], 4, directory);
    model = rig_model(directory);
    config.ranks = ranks;
    assert_int_equal(trainer_open(model, &config, &trainer, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "3 equal parts"));
    ranks_close(ranks);
    model_close(model);
    rig_model_drop(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_norms_and_matrices_agree),
        cmocka_unit_test(a_rank_takes_what_was_planned_for_it),
        cmocka_unit_test(what_does_not_divide_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
