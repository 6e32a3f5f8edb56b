#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/model/random.h"

struct trainer_config rig_config(enum mode mode, enum kernel_set kernels, uint32_t threads)
{
    return (struct trainer_config){.device = &device_cpu,
                                   .mode = mode,
                                   .threads = threads,
                                   .kernels = kernels,
                                   .rows_max = 200,
                                   .job_rows_max = 200,
                                   .samples_max = 16,
                                   .positions_max = 64,
                                   .jobs_max = 3,
                                   .lora_rank_max = 32,
                                   .head_rows = 24};
}

struct model *rig_model(const char *directory)
{
    struct refusal refusal = {{0}};
    struct model *model;

    if (model_open(directory, &model, &refusal) != STATUS_OK)
        fail_msg("%s: %s", directory, refusal.text);
    return model;
}

struct trainer *rig_trainer(const struct model *model, const struct trainer_config *config)
{
    struct refusal refusal = {{0}};
    struct trainer *trainer;

    if (trainer_open(model, config, &trainer, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    return trainer;
}

void rig_model_make(const struct tiny *tiny, uint64_t seed, char *ret_directory)
{
    const struct model_config config = {.family = tiny->normed_heads ? FAMILY_QWEN3 : tiny->qkv_bias ? FAMILY_QWEN2 : FAMILY_LLAMA,
                                        .dims = tiny->dims,
                                        .norm_eps = 1e-5f,
                                        .positions_max = 128,
                                        .rope = {.kind = ROPE_PLAIN, .theta = 10000, .factor = 1},
                                        .tied_head = tiny->tied,
                                        .qkv_bias = tiny->qkv_bias,
                                        .qk_norm = tiny->normed_heads,
                                        .bos = -1};
    struct refusal refusal = {{0}};

    strcpy(ret_directory, "/tmp/berth-test-XXXXXX");
    assert_non_null(mkdtemp(ret_directory));
    if (random_model_write(ret_directory, &config, seed, tiny->dtype, NULL, NULL, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
}

void rig_model_drop(const char *directory)
{
    static const char *const names[] = {"config.json", "model.safetensors", "tokenizer.json"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        char path[128];

        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
}

static float uniform(uint64_t *seed)
{
    return (float)(2 * draw_unit(seed) - 1);
}

static float *matrix(int64_t count, float size, uint64_t *seed)
{
    float *values = malloc((size_t)count * sizeof(float));

    assert_non_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = size * uniform(seed);
    return values;
}

struct lora_source rig_source(const struct dims *dims, int32_t rank, uint32_t modules, int32_t lowest, uint64_t seed)
{
    struct lora_pair *pairs = calloc((size_t)dims->layers * LORA_MODULE_COUNT, sizeof(*pairs));

    assert_non_null(pairs);
    for (int32_t layer = lowest; layer < dims->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++)
            if ((modules >> module & 1) != 0)
                pairs[layer * LORA_MODULE_COUNT + (int32_t)module] = (struct lora_pair){
                    .a = matrix((int64_t)rank * lora_module_in(dims, module), 0.3f, &seed),
                    .b = matrix((int64_t)rank * lora_module_out(dims, module), 0.1f, &seed),
                    .a_dtype = DTYPE_F32,
                    .b_dtype = DTYPE_F32,
                    .rank = rank,
                    .scale = 2,
                };
    return (struct lora_source){.layers = dims->layers, .rank = rank, .modules = modules, .pair = pairs};
}

void rig_source_free(struct lora_source *source)
{
    for (int32_t i = 0; i < source->layers * LORA_MODULE_COUNT; i++) {
        free((void *)(uintptr_t)source->pair[i].a);
        free((void *)(uintptr_t)source->pair[i].b);
    }
    free((void *)(uintptr_t)source->pair);
}

void rig_samples_draw(struct rig_samples *samples, int32_t count, int32_t rows_most, int32_t vocabulary, int32_t job, uint64_t seed)
{
    assert_true(count <= 64 && rows_most <= 128);
    samples->count = count;
    for (int32_t i = 0; i < count; i++) {
        const int32_t rows = 2 + (int32_t)draw_below(&seed, (uint64_t)rows_most - 1);

        for (int32_t t = 0; t < rows; t++) {
            samples->tokens[i][t] = (int32_t)draw_below(&seed, (uint64_t)vocabulary);
            samples->is_target[i][t] = t > 0 && (t == rows - 1 || draw_below(&seed, 3) > 0);
        }
        samples->sample[i] = (struct train_sample){
            .tokens = samples->tokens[i], .is_target = samples->is_target[i], .rows = rows, .job = job, .coef = 1};
    }
}

int64_t rig_targets(const struct rig_samples *samples)
{
    int64_t targets = 0;

    for (int32_t i = 0; i < samples->count; i++)
        for (int32_t t = 0; t < samples->sample[i].rows; t++)
            targets += samples->is_target[i][t];
    return targets;
}

void rig_samples_mean(struct rig_samples *samples)
{
    for (int32_t i = 0; i < samples->count; i++)
        samples->sample[i].coef = 1.0f / (float)rig_targets(samples);
}
