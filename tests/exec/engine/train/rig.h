/* A trainer on the CPU, jobs in it, and samples for them. */
#ifndef TESTS_TRAIN_RIG_H
#define TESTS_TRAIN_RIG_H

#include "engine/lora/peft.h"
#include "engine/train/train.h"
#include "support.h"

/* A trainer config with room for a little of everything. */
struct trainer_config rig_config(enum mode mode, enum kernel_set kernels, uint32_t threads);
struct model *rig_model(const char *directory);
struct trainer *rig_trainer(const struct model *model, const struct trainer_config *config);

/* A tiny model of random numbers in a folder of its own, which rig_model_drop() removes; `directory` has 64 bytes. */
struct tiny {
    struct dims dims;
    bool tied;
    bool qkv_bias;
    bool normed_heads;
    enum dtype dtype;
};
void rig_model_make(const struct tiny *tiny, uint64_t seed, char *ret_directory);
void rig_model_drop(const char *directory);

/* Random matrices of small numbers: every pair of `modules` in layers from `lowest` on, with this rank and scale. free() with
 * rig_source_free(). */
struct lora_source rig_source(const struct dims *dims, int32_t rank, uint32_t modules, int32_t lowest, uint64_t seed);
void rig_source_free(struct lora_source *source);

/* Random samples of 2 .. positions tokens with some targets; memory is static for 64 samples. */
struct rig_samples {
    struct train_sample sample[64];
    int32_t tokens[64][128];
    uint8_t is_target[64][128];
    int32_t count;
};
void rig_samples_draw(struct rig_samples *samples, int32_t count, int32_t rows_most, int32_t vocabulary, int32_t job, uint64_t seed);
int64_t rig_targets(const struct rig_samples *samples);
/* All coefs = 1 / targets. */
void rig_samples_mean(struct rig_samples *samples);

/* Every set of kernels that runs here. They are one text over three headers, and a sanitizer slows the plain one a hundred times: there the
 * best set stands for all, but where `all` says otherwise. */
#if defined(__SANITIZE_ADDRESS__)
#define RIG_ONE_SET 1
#else
#define RIG_ONE_SET 0
#endif
#define RIG_EACH_SET_IF(set, all)                             \
    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++) \
        if (kernel_set_runs_here(set) && ((all) || set == kernel_set_best()))
#define RIG_EACH_SET(set) RIG_EACH_SET_IF(set, !RIG_ONE_SET)

#endif
