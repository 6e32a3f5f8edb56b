/* A base on a device, and one engine step over it: embed, layers, head, pick. Written once over the ops; it never asks which device it
 * is on. Owns activations, KV blocks, the adapter pool and the arrays of a batch, all of a size fixed when it is opened. */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include "engine/device/device.h"
#include "engine/model/shared_base.h"

struct forward;

struct forward_config {
    const struct device *device;
    enum mode mode;
    uint32_t threads;
    enum kernel_set kernels;
    bool deterministic;
    int32_t rows_max;         /* tokens a step */
    int32_t outputs_max;      /* rows whose next token is wanted */
    int32_t sequences_max;
    int32_t segments_max;     /* distinct adapters a step */
    int32_t blocks;           /* KV blocks of KV_BLOCK_TOKENS, block 0 excluded: ids 1 .. blocks */
    int32_t positions_max;    /* of a sequence; <= the model's */
    int32_t slots;            /* adapters in the pool at once */
    int64_t pool_bytes;
    int32_t lora_rank_max;    /* padded; 0: no adapters */
    int32_t best;             /* candidates a row that pick() hands over, <= PICK_MAX */
    struct ranks *ranks;      /* tp > 1; see device.h */
    int32_t rank, tp;
    const struct shared_base *base; /* the weights that another process holds, of tp = 1; NULL: the device gets its own. Not kept */
};

/* One sequence's part of a step; the pointers are read during the call. */
struct forward_part {
    const int32_t *tokens;    /* [rows] */
    const int32_t *blocks;    /* block ids of positions 0 .. before + rows - 1 */
    int32_t rows;             /* >= 1 */
    int32_t before;           /* tokens of it in KV already */
    int32_t slot;             /* SEGMENT_NONE: the base */
    bool wants_output;        /* of its last row */
    int32_t follows;          /* n: its one token is the best id of output n - 1 of the step before, and is taken from where the device
                               * has it; tokens are not read. 0: no */
};

/* STATUS_INVALID: this device or mode cannot (refusal says why); STATUS_FULL: no room. The model must outlive it. */
enum status forward_open(const struct model *model, const struct forward_config *config, struct forward **ret_forward,
                         struct refusal *refusal);
void forward_close(struct forward *forward); /* NULL is fine */
/* exact for F32 and F16 bases, fast for BF16. */
enum mode forward_default_mode(const struct model *model);

/* Bytes that it takes on the device beside the weights. */
int64_t forward_bytes(const struct model *model, const struct forward_config *config);

/* A slot's packed adapter lies at `offset` of the pool from the next step on; rank 0: the slot is empty. */
void forward_slot(struct forward *forward, int32_t slot, const struct lora_slot *value);
/* The pool's bytes; forward_put() may be called from another thread while a step runs, for bytes that no slot of that step covers. */
void forward_put(struct forward *forward, int64_t offset, const void *packed, int64_t bytes);
void forward_move(struct forward *forward, int64_t to, int64_t from, int64_t bytes);

/* Runs one step. Rows are sorted by slot inside, base rows last; outputs come back in the order of `parts` (those that want one, counted
 * from 0). Afterwards forward_output() and forward_logits() tell of them until the next step. */
void forward_step(struct forward *forward, const struct forward_part *parts, int32_t count);

struct forward_output {
    float lse;
    const float *logits;      /* [best], falling */
    const int32_t *ids;
};
struct forward_output forward_output(const struct forward *forward, int32_t output);
/* A whole row of logits, fetched from the device; [vocabulary]. */
void forward_logits(struct forward *forward, int32_t output, float *ret_logits);

const struct dims *forward_dims(const struct forward *forward);
enum mode forward_mode(const struct forward *forward);
/* Whether lora_pack() has to make pairs of B. */
bool forward_b_in_pairs(const struct forward *forward);

#endif
