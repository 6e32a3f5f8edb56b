/* A batch, its adapters and its memory, twice: on the host for the definitions, on a device for what is tested.
 * Everything is drawn from a seed. It needs libc alone, so the same cases run under the emulation and on a GPU. */
#ifndef CUDA_TESTS_WORLD_H
#define CUDA_TESTS_WORLD_H

#include "engine/device/cpu.h"

#define WORLD_SEQUENCES_MAX 80
#define WORLD_SLOTS_MAX 40

struct world_ask {
    struct dims dims;                 /* layers: 2, the second one is used */
    enum mode mode;
    bool deterministic;
    bool integers;                    /* small ones, so that every sum is exact */
    bool bias;
    enum dtype dtype;                 /* of weights */
    uint64_t seed;
    int sequences;                    /* in order of rows; those of a slot stand together, bases last */
    struct { int32_t rows, before, slot; } sequence[WORLD_SEQUENCES_MAX];
    int slots;
    struct { int32_t rank; uint32_t modules; } slot[WORLD_SLOTS_MAX];   /* as in a file: padded here */
    int32_t rows_spare;               /* of the arrays, beyond what is used */
    bool trains;                      /* most rows are outputs; no sequence has tokens before */
    int32_t positions_max;            /* that the device is opened for; 0: what is needed */
};

struct world {
    struct world_ask ask;
    const struct device *device;
    struct dev *dev;
    struct dev host_dev;              /* what definitions read of a device: mode and dims */
    const struct ops *ops;
    const struct train_ops *train;    /* where it trains */
    struct counts now;
    struct batch host, batch;
    char *pool, *device_pool;         /* host: B in pairs; device: as it wants them */
    struct lora_slot *slots, *device_slots;
    int64_t pool_bytes;
    int32_t blocks;
    int32_t positions_max;
    uint64_t draws;
};

/* NULL and a reason where the device cannot be opened. */
struct world *world_open(const struct world_ask *ask, const struct device *device, char *ret_error, size_t error_bytes);
void world_close(struct world *world);
/* The device's counts become these, as if the rest of the batch were not there. */
void world_counts(struct world *world, struct counts now);

uint64_t world_draw(uint64_t *state);
/* `count` numbers of a type: in -1 .. 1, or small integers. */
void world_fill(struct world *world, enum dtype dtype, void *data, int64_t count);
enum dtype world_act(const struct world *world);
/* A weight on the host and on the device. The host's data belong to the caller: world_weight_free(). */
void world_weight(struct world *world, enum dtype dtype, int32_t out, int32_t in, bool bias, struct weight *ret_host, struct weight *ret_device);
void world_weight_free(struct weight *host);
/* Device memory of exactly that size, with these bytes in it (NULL: NaN), and back. */
void *world_give(struct world *world, const void *bytes, size_t count);
void world_fetch(struct world *world, void *to, const void *from, size_t count);
void *world_nan(size_t count);
/* Signs off. */
void world_absolute(enum dtype dtype, void *data, int64_t count);

#endif
