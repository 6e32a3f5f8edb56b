/* A model of random numbers, a batch over it, and its ops one by one: for testing them against their definitions and against
 * themselves. Weights end where their memory ends, at an odd address when asked, so that a load behind a row's end stops the test. */
#ifndef OPS_RIG_H
#define OPS_RIG_H

#include "engine/device/cpu.h"
#include "support.h"

#define RIG_SEQUENCES 12
#define RIG_SLOTS 5
#define RIG_LAYERS 2
#define RIG_ROWS 320
#define RIG_POSITIONS 320

/* A weight's memory: mapped up to a page that nobody may touch. */
struct fence {
    char *map;
    size_t bytes;
};

struct rig_layer {
    struct weight attn_norm, qkv[3], q_norm, k_norm, o, mlp_norm, gate_up[2], down;
};

struct rig_plan {
    int32_t sequences;
    struct {
        int32_t rows, before;
        int32_t slot;           /* equal ones side by side; SEGMENT_NONE last */
        int32_t table;          /* its KV blocks; two steps of one sequence name the same */
        uint64_t seed;          /* of its tokens */
    } sequence[RIG_SEQUENCES];
};

struct rig_config {
    struct dims dims;
    enum mode mode;
    enum dtype dtype;           /* of the base */
    int odd;                    /* 1: weights at odd addresses */
    bool biased;                /* q, k, v have biases, and gains for each head */
    uint64_t seed;
};

/* The numbers; they outlive any device. */
struct rig {
    struct rig_config config;
    struct fence fence[64];
    int fences;
    struct weight embed, norm, head;
    struct rig_layer layer[RIG_LAYERS];
    char *pool;
    struct lora_slot slot[RIG_SLOTS]; /* ranks 16 (4 of them used), 16, 64, nobody, 16 with half of the modules */
    float *angles;
    char *kv[RIG_LAYERS][2];
    int64_t kv_bytes;           /* of one of them */
    /* one step */
    struct counts now;
    struct batch batch;
    int32_t token[RIG_ROWS], position[RIG_ROWS], out_row[RIG_ROWS];
    int32_t block_table[RIG_SEQUENCES][RIG_POSITIONS / KV_BLOCK_TOKENS];
    struct sequence sequence[RIG_SEQUENCES];
    struct segment segment[RIG_SEQUENCES + 1];
    float *x, *wide;
    char *y, *q;
    float *logits;              /* [rows][vocabulary]: every row is an output */
};

extern const struct dims rig_dims[];
extern const int rig_dims_count;

void rig_open(struct rig *rig, const struct rig_config *config);
void rig_close(struct rig *rig);
/* Fills the batch; with hole, an empty segment stands before each other one. */
void rig_batch(struct rig *rig, const struct rig_plan *plan, bool hole);
/* Whatever lies in KV becomes NaN. */
void rig_spoil(struct rig *rig);
struct dev *rig_device(const struct rig *rig, enum kernel_set kernels, uint32_t threads);
/* All ops in the order of a model; the logits of all rows are in rig->logits. */
void rig_step(struct rig *rig, struct dev *dev, const struct ops *ops);

float rig_uniform(uint64_t *seed); /* in (-1, 1) */
void rig_fill_act(enum mode mode, act *to, int64_t n, uint64_t *seed);
double rig_act(enum mode mode, const act *from, int64_t at);
struct weight rig_weight(struct rig *rig, int32_t out, int32_t in, int32_t spare, bool biased, float scale);
/* Half of the last place of act at `value`, at least the smallest normal number's. */
double rig_half_ulp(enum mode mode, double value);

/* Every set of kernels that runs here. */
#define RIG_EACH_SET(set)                                            \
    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++)        \
        if (kernel_set_runs_here(set))

#endif
