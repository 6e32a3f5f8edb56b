/* What a trainer reserves, what it says it will, and what the planner's arithmetic says, to the byte. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/model/random.h"
#include "engine/train/plan.h"
#include "rig.h"

static int64_t reserved_bytes;

static void *counting_reserve(struct dev *dev, size_t bytes)
{
    reserved_bytes += (int64_t)((bytes + 255) / 256 * 256);
    return device_cpu.reserve(dev, bytes);
}

static struct dev *counting_open(const struct dev_config *config, char *ret_error, size_t error_bytes)
{
    reserved_bytes += device_cpu.ops_bytes(config);
    return device_cpu.open(config, ret_error, error_bytes);
}

static struct shape shape_of(const struct dims *dims)
{
    return (struct shape){.layers = (uint32_t)dims->layers,
                          .hidden = (uint32_t)dims->hidden,
                          .heads = (uint32_t)dims->heads,
                          .kv_heads = (uint32_t)dims->kv_heads,
                          .head_dim = (uint32_t)dims->head_dim,
                          .ffn = (uint32_t)dims->ffn,
                          .vocabulary = (uint32_t)dims->vocabulary,
                          .weight_bits = 16};
}

static struct plan plan_of(const struct trainer_config *config, const struct model_config *model, int32_t rank)
{
    struct refusal refusal;
    struct plan plan;

    assert_int_equal(plan_make(model, DTYPE_BF16, config, rank, 1, &plan, &refusal), STATUS_OK);
    return plan;
}

static int64_t predicted(const struct trainer_config *config, const struct model_config *model)
{
    return (int64_t)plan_of(config, model, 1).memory[config->recompute].total;
}

static void a_trainer_reserves_what_was_predicted(void **state)
{
    static const struct tiny tiny[] = {
        {.dims = {.hidden = 24, .heads = 4, .kv_heads = 2, .head_dim = 6, .ffn = 20, .vocabulary = 40, .layers = 2}, .dtype = DTYPE_BF16},
        {.dims = {.hidden = 33, .heads = 6, .kv_heads = 1, .head_dim = 14, .ffn = 18, .vocabulary = 301, .layers = 5},
         .normed_heads = true, .dtype = DTYPE_BF16},
    };
    struct device counting = device_cpu;

    (void)state;
    counting.reserve = counting_reserve;
    counting.open = counting_open;
    for (size_t i = 0; i < ARRAY_COUNT(tiny); i++)
        for (int way = 0; way < 2 * RECOMPUTE_COUNT; way++) {
            struct trainer_config config = rig_config(way % 2 == 0 ? MODE_EXACT : MODE_FAST, kernel_set_best(), 1);
            struct lora_source source = rig_source(&tiny[i].dims, 5, 0x53, 0, 3);
            const struct shape shape = shape_of(&tiny[i].dims);
            char directory[64];
            struct model *model;
            struct trainer *trainer;

            rig_model_make(&tiny[i], 4, directory);
            model = rig_model(directory);
            config.device = &counting;
            config.recompute = (enum recompute)(way / 2);
            config.rows_max = 211;
            config.samples_max = 9;
            reserved_bytes = 0;
            trainer = rig_trainer(model, &config);
            assert_int_equal(reserved_bytes, trainer_bytes(model, &config));
            assert_int_equal(reserved_bytes, predicted(&config, &model->config));
            reserved_bytes = 0;
            assert_int_equal(trainer_job_open(trainer, 0, &source, &OPTIMIZER_DEFAULT), STATUS_OK);
            assert_int_equal(reserved_bytes, trainer_job_bytes(&source, &tiny[i].dims));
            assert_int_equal(reserved_bytes, training_job_bytes(&shape, 0x53, 5));
            trainer_close(trainer);
            model_close(model);
            rig_model_drop(directory);
            rig_source_free(&source);
        }
}

static void all_weights_take_what_was_predicted(void **state)
{
    static const struct tiny tiny = {
        .dims = {.hidden = 24, .heads = 4, .kv_heads = 2, .head_dim = 6, .ffn = 20, .vocabulary = 40, .layers = 2}, .dtype = DTYPE_BF16};
    struct device counting = device_cpu;
    char directory[64];
    struct model *model;

    (void)state;
    counting.reserve = counting_reserve;
    counting.open = counting_open;
    rig_model_make(&tiny, 4, directory);
    model = rig_model(directory);
    for (enum mode mode = MODE_EXACT; mode <= MODE_FAST; mode++) {
        struct trainer_config config = rig_config(mode, kernel_set_best(), 1);
        const struct training_plan plan = {.act_bytes = mode == MODE_FAST ? 2 : 4};
        const struct shape shape = shape_of(&tiny.dims);
        struct trainer *trainer;

        config.device = &counting;
        config.full = true;
        config.jobs_max = 1;
        config.lora_rank_max = 0;
        reserved_bytes = 0;
        trainer = rig_trainer(model, &config);
        assert_int_equal(reserved_bytes, trainer_bytes(model, &config));
        assert_int_equal(reserved_bytes, predicted(&config, &model->config));
        reserved_bytes = 0;
        assert_int_equal(trainer_full_open(trainer, model, &OPTIMIZER_DEFAULT), STATUS_OK);
        assert_int_equal(reserved_bytes, trainer_full_bytes(model, mode));
        assert_int_equal(reserved_bytes, training_full_bytes(&shape, &plan));
        trainer_close(trainer);
    }
    model_close(model);
    rig_model_drop(directory);
}

/* Glibc's own figures; a sanitizer's malloc has none. Threads and what is not for ops are a few KB. */
static void a_device_takes_what_it_says(void **state)
{
    const struct dev_config small = {.dims = {.hidden = 24, .heads = 4, .kv_heads = 2, .head_dim = 6, .ffn = 20, .vocabulary = 40, .layers = 2},
                                     .mode = MODE_EXACT, .threads = 3, .kernels = kernel_set_best(), .rows_max = 211, .outputs_max = 24,
                                     .lora_rank_max = 32, .positions_max = 64, .ranks_count = 1, .trains = true};

    (void)state;
    for (int way = 0; way < 4; way++) {
        struct dev_config config = small;
        char error[256];
        struct mallinfo2 before;
        struct mallinfo2 after;
        struct dev *dev;
        int64_t taken;

        config.positions_max = way % 2 == 0 ? 64 : 4096;
        config.trains = way / 2 == 0;
        before = mallinfo2();
        dev = device_cpu.open(&config, error, sizeof(error));
        after = mallinfo2();
        assert_non_null(dev);
        taken = (int64_t)(after.uordblks + after.hblkhd) - (int64_t)(before.uordblks + before.hblkhd);
        if (after.uordblks != 0 && llabs(taken - device_cpu.ops_bytes(&config)) > 16384)
            fail_msg("%lld bytes were taken, %lld announced", (long long)taken, (long long)device_cpu.ops_bytes(&config));
        device_cpu.close(dev);
    }
}

/* Models that nobody need load to know what they take. */
static void larger_models_agree_too(void **state)
{
    static const char *const names[] = {"15m", "110m", "250m", "1b"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        for (enum recompute recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
            struct model model = {.dtype = DTYPE_BF16};
            struct trainer_config config = {.device = &device_cpu, .mode = MODE_FAST, .threads = 8, .recompute = recompute,
                                            .rows_max = 4096, .job_rows_max = 4096, .samples_max = 32, .positions_max = 2048,
                                            .jobs_max = 8, .lora_rank_max = 64, .head_rows = 512};

            assert_true(random_preset(names[i], &model.config));
            assert_int_equal(trainer_bytes(&model, &config), predicted(&config, &model.config));
            printf("%s, recompute %s: 4096 tokens a pass take %.2f GB\n", names[i], recompute_name(recompute),
                   (double)predicted(&config, &model.config) / 1e9);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trainer_reserves_what_was_predicted),
        cmocka_unit_test(all_weights_take_what_was_predicted),
        cmocka_unit_test(a_device_takes_what_it_says),
        cmocka_unit_test(larger_models_agree_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
