/* The trainer on CUDA's device, under the emulation: a recorded run of a real model, and a job's bits beside other jobs and at each level of
 * recomputing. */
#include <stdio.h>
#include <stdlib.h>

#include "../train/jobs.h"
#include "../train/recorded.h"
#include "emu/control.h"
#include "engine/device/cuda/device_cuda.h"
#include "engine/train/plan.h"
#include "support.h"

/* AddressSanitizer takes five times as long. */
#ifdef __SANITIZE_ADDRESS__
#define STEPS_DONE 1
#define FIRST 2 /* of three ways, and of two */
#else
#define STEPS_DONE RECORDED_STEPS
#define FIRST 0
#endif

static struct trainer_config config_of(enum mode mode, enum recompute recompute)
{
    struct trainer_config config = rig_config(mode, KERNELS_SCALAR, 1);

    config.device = &device_cuda;
    config.recompute = recompute;
    config.rows_max = config.job_rows_max = 100; /* every row that is not there costs a block that does nothing */
    return config;
}

static void it_trains_like_the_reference(void **state)
{
    struct model *model = recorded_model("models/stories260k");
    struct trainer_config config = config_of(MODE_EXACT, RECOMPUTE_NONE);
    struct found found;

    (void)state;
    config.rows_max = config.job_rows_max = 133; /* what the larger batch has */
    config.samples_max = 4;
    emu_set(EMU_GREEDY, EMU_LAZY, test_seed(3));
    found = recorded_run("c_schedule", model, &config, "", STEPS_DONE);
    printf("losses differ by at most %.2g, norms by %.2g, first gradients by %.2g, final matrices by %.2g\n", found.loss, found.norm,
           found.gradient, found.final);
    assert_true(found.loss < 1e-5);
    assert_true(found.norm < 1e-4);
    assert_true(found.gradient < 1e-5);
    assert_true(found.final < 1e-5);
    model_close(model);
}

/* Heads of 12 and of 16 numbers go through different kernels. */
static void a_job_learns_the_same_beside_others(void **state)
{
    static struct jobs jobs;

    (void)state;
    for (int i = FIRST; i < 3; i++) {
        struct trainer_config config = config_of(i == 0 ? MODE_EXACT : MODE_FAST, RECOMPUTE_NONE);
        struct left together[JOBS] = {{0}};

        jobs_open(&jobs, i == 1 ? 12 : 16, 1);
        emu_set((enum emu_order)i, (enum emu_streams)i, test_seed(4));
        jobs_train(&jobs, &config, 7, together);
        assert_true(together[0].loss[STEPS - 1] < together[0].loss[0]);
        for (int32_t job = 0; job < JOBS; job++) {
            struct left alone[JOBS] = {{0}};

            emu_set((enum emu_order)((i + job + 1) % EMU_ORDERS_COUNT), (enum emu_streams)i, test_seed(5));
            jobs_train(&jobs, &config, 1u << job, alone);
            left_expect(&together[job], &alone[job], job, i == 0 ? "exact, alone" : "fast, alone", KERNELS_SCALAR);
            left_free(alone);
        }
        left_free(together);
        jobs_close(&jobs);
    }
}

static void levels_change_no_bit(void **state)
{
    static struct jobs jobs;

    (void)state;
    jobs_open(&jobs, 16, 1);
    for (enum mode mode = FIRST > 0 ? MODE_FAST : MODE_EXACT; mode <= MODE_FAST; mode++) {
        struct left expected[JOBS] = {{0}};

        for (enum recompute recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
            const struct trainer_config config = config_of(mode, recompute);
            struct left found[JOBS] = {{0}};

            emu_set((enum emu_order)recompute, EMU_DICE, test_seed(6));
            jobs_train(&jobs, &config, 3, recompute == RECOMPUTE_NONE ? expected : found);
            for (int32_t job = 0; job < 2 && recompute != RECOMPUTE_NONE; job++)
                left_expect(&expected[job], &found[job], job, recompute_name(recompute), KERNELS_SCALAR);
            left_free(found);
        }
        left_free(expected);
    }
    jobs_close(&jobs);
}

/* The trainer's own and its ops', to the byte. */
static void it_takes_what_was_predicted(void **state)
{
    static struct jobs jobs;

    (void)state;
    jobs_open(&jobs, 16, 1);
    for (int way = 0; way < 2 * RECOMPUTE_COUNT; way++) {
        struct trainer_config config = config_of(way % 2 == 0 ? MODE_EXACT : MODE_FAST, (enum recompute)(way / 2));
        struct refusal refusal = {{0}};
        struct plan plan;

        config.positions_max = 90;
        assert_int_equal(plan_make(&jobs.model->config, DTYPE_BF16, &config, 16, 1, &plan, &refusal), STATUS_OK);
        assert_int_equal(trainer_bytes(jobs.model, &config), plan.memory[config.recompute].total);
    }
    jobs_close(&jobs);
}

static void all_weights_are_refused(void **state)
{
    static struct jobs jobs;
    struct trainer_config config = config_of(MODE_EXACT, RECOMPUTE_NONE);
    struct refusal refusal = {{0}};
    struct trainer *trainer;

    (void)state;
    jobs_open(&jobs, 16, 1);
    config.full = true;
    config.jobs_max = 1;
    config.lora_rank_max = 0;
    assert_int_equal(trainer_open(jobs.model, &config, &trainer, &refusal), STATUS_INVALID);
    assert_string_equal(refusal.text, "the device cuda trains adapters only");
    jobs_close(&jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_trains_like_the_reference),
        cmocka_unit_test(a_job_learns_the_same_beside_others),
        cmocka_unit_test(levels_change_no_bit),
        cmocka_unit_test(it_takes_what_was_predicted),
        cmocka_unit_test(all_weights_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
