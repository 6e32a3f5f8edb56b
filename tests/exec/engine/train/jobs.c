#include "jobs.h"

#include <math.h>
#include <stdlib.h>

void jobs_open(struct jobs *jobs, int32_t head_dim, int32_t samples)
{
    const struct tiny tiny = {
        .dims = {.hidden = 40, .heads = 6, .kv_heads = 2, .head_dim = head_dim, .ffn = 40, .vocabulary = 90, .layers = 2},
        .normed_heads = true, .dtype = DTYPE_BF16};
    static const int32_t ranks[JOBS] = {4, 16, 7};
    static const uint32_t modules[JOBS] = {0x7f, 0x05, 0x6a};

    rig_model_make(&tiny, 11, jobs->directory);
    jobs->model = rig_model(jobs->directory);
    for (int32_t job = 0; job < JOBS; job++) {
        /* The last one leaves the lowest layer alone. */
        jobs->source[job] = rig_source(&tiny.dims, ranks[job], modules[job], job == 2, 20 + (uint64_t)job);
        rig_samples_draw(&jobs->samples[job], samples + samples * job / 2, 60, tiny.dims.vocabulary, job, 30 + (uint64_t)job);
    }
}

void jobs_close(struct jobs *jobs)
{
    for (int32_t job = 0; job < JOBS; job++)
        rig_source_free(&jobs->source[job]);
    model_close(jobs->model);
    rig_model_drop(jobs->directory);
}

void jobs_train(const struct jobs *jobs, const struct trainer_config *config, uint32_t mask, struct left *ret_left)
{
    struct trainer *trainer = rig_trainer(jobs->model, config);
    const struct optimizer optimizer = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .decay = 0.01f, .clip = 0.5f};
    const double rates[JOBS] = {1e-3, 2e-3, 3e-3};
    struct train_sample samples[64];
    int32_t count = 0;

    for (int32_t turn = 0; turn < 64; turn++) /* interleaved */
        for (int32_t job = JOBS - 1; job >= 0; job--)
            if ((mask >> job & 1) != 0 && turn < jobs->samples[job].count)
                samples[count++] = jobs->samples[job].sample[turn];
    for (int32_t job = 0; job < JOBS; job++)
        if ((mask >> job & 1) != 0)
            assert_int_equal(trainer_job_open(trainer, job, &jobs->source[job], &optimizer), STATUS_OK);
    for (int step = 0; step < STEPS; step++) {
        struct train_outcome outcomes[JOBS] = {{0}};

        assert_int_equal(trainer_step(trainer, samples, count, rates, outcomes), STATUS_OK);
        for (int32_t job = 0; job < JOBS; job++)
            ret_left[job].loss[step] = outcomes[job].loss;
    }
    for (int32_t job = 0; job < JOBS; job++) {
        if ((mask >> job & 1) == 0)
            continue;
        ret_left[job].parameters = trainer_parameters(trainer, job);
        ret_left[job].matrices = malloc((size_t)ret_left[job].parameters * sizeof(float));
        trainer_get(trainer, job, TRAIN_MATRICES, ret_left[job].matrices);
    }
    trainer_close(trainer);
}

void left_free(struct left *left)
{
    for (int32_t job = 0; job < JOBS; job++)
        free(left[job].matrices);
    memset(left, 0, JOBS * sizeof(*left));
}

void left_expect(const struct left *expected, const struct left *found, int32_t job, const char *what, enum kernel_set set)
{
    for (int step = 0; step < STEPS; step++)
        if (memcmp(&expected->loss[step], &found->loss[step], sizeof(double)) != 0 || !isfinite(found->loss[step]))
            fail_msg("%s, %s: job %d, step %d: losses %a and %a", kernel_set_name(set), what, job, step, expected->loss[step],
                     found->loss[step]);
    for (int64_t i = 0; i < expected->parameters; i++)
        if (float_bits(expected->matrices[i]) != float_bits(found->matrices[i]))
            fail_msg("%s, %s: job %d, number %lld: %a and %a", kernel_set_name(set), what, job, (long long)i,
                     (double)expected->matrices[i], (double)found->matrices[i]);
}
