/* A device: memory, lanes and ops. The CPU's is always there; CUDA's is a shared object of its own, loaded when a driver and a GPU are
 * there, so that one binary starts anywhere. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "engine/device/kernel_set.h"
#include "engine/device/share.h"
#include "engine/ops/ops.h"

/* Work on one lane is done in order; between lanes only marks order it. On the CPU every call is done when it returns. */
enum lane { LANE_COMPUTE, LANE_COPY, LANE_COUNT };

/* A meeting place of tp ranks in one process, see device/ranks.h; NULL: tp = 1. */
struct ranks;

struct dev_config {
    struct dims dims;              /* this rank's shard */
    enum mode mode;
    uint32_t threads;              /* CPU: >= 1, the calling thread is one of them */
    enum kernel_set kernels;       /* CPU */
    bool deterministic;            /* CUDA: our own GEMM, fixed splits */
    int32_t rows_max;              /* of any batch: scratch is reserved for it */
    int32_t outputs_max;
    int32_t lora_rank_max;         /* padded */
    int32_t positions_max;         /* keys that a row may attend over */
    struct ranks *ranks;
    int32_t rank;
    int32_t ranks_count;           /* 1 without ranks */
    bool trains;                   /* room for the way back is reserved too */
};

/* A piece of memory that a device takes for its ops when it opens: where its address goes. */
struct dev_piece { void **at; int64_t bytes; };
#define DEV_PIECES_MAX 24

/* What such a piece is counted as: never nothing. */
static inline int64_t dev_piece_bytes(int64_t bytes)
{
    return (bytes / 256 + 1) * 256;
}

struct device {
    const char *name;              /* "cpu", "cuda" */
    /* NULL when it cannot be opened: the reason is in ret_error. */
    struct dev *(*open)(const struct dev_config *config, char *ret_error, size_t error_bytes);
    void (*close)(struct dev *dev);
    /* Device memory that open() takes for the ops; the config is one that opens. */
    int64_t (*ops_bytes)(const struct dev_config *config);
    const struct ops *(*ops)(const struct dev *dev);
    /* Zeroed, 256-byte aligned device memory; NULL when there is no room. What is not released goes with close. */
    void *(*reserve)(struct dev *dev, size_t bytes);
    void (*release)(struct dev *dev, void *memory);
    void (*put)(struct dev *dev, enum lane lane, void *to_device, const void *host, size_t bytes);
    void (*get)(struct dev *dev, enum lane lane, void *host, const void *from_device, size_t bytes);
    /* Inside device memory; the two may overlap. */
    void (*move)(struct dev *dev, enum lane lane, void *to, const void *from, size_t bytes);
    /* A mark on a lane, for another lane to wait for, or for the host to ask about. */
    uint64_t (*mark)(struct dev *dev, enum lane lane);
    void (*wait)(struct dev *dev, enum lane lane, uint64_t mark);
    bool (*passed)(struct dev *dev, uint64_t mark);
    void (*finish)(struct dev *dev, enum lane lane);
    /* Weights of a base as this device wants them. The CPU keeps the pointer it is given; CUDA copies, padding rows. The
     * result lives until close. STATUS_FULL: no room. */
    enum status (*weight)(struct dev *dev, const struct weight *file, struct weight *ret_weight);
    /* record .. recorded: the calls on LANE_COMPUTE between them are kept as a graph, not done; replay does them, with what the
     * device memory they name then holds. A device without graphs answers 0 to recorded(), and the calls were done. */
    void (*record)(struct dev *dev);
    uint32_t (*recorded)(struct dev *dev);
    void (*replay)(struct dev *dev, uint32_t graph);
    /* Whether a packed adapter's B is [r/2][out][2] in bf16. */
    bool b_in_pairs;
    /* Whether config.threads says how many work, each with memory of its own. */
    bool has_threads;
    /* Whether weight() keeps the pointer it is given, so that a base in the device's memory may change under it. */
    bool weights_in_place;
    /* How many GPUs will do, numbered as dev_config's ranks are, and the memory of the smallest of them; 0: none. NULL: of no such device. */
    uint32_t (*gpus)(uint64_t *ret_bytes);
    /* Weights for several processes; NULL: they are the host's pages, which processes share anyway. */
    const struct device_share *share;
    /* Of a device that was opened to train. */
    const struct train_ops *(*train_ops)(const struct dev *dev);
};

extern const struct device device_cpu;

#endif
