/* Bytes of a trainer that holds one base and trains the adapters of several jobs on it, to the byte: what exec/engine/train reserves, so
 * that a placement is refused before it is tried and every real run checks this arithmetic. footprint_training_bytes() is the napkin's
 * figure of the same (a bf16 adapter and gradients, all logits at once), by which schedules are simulated. Pure. Sources: what the way
 * back of a Llama layer needs (Korthikanti et al. 2022, section 4, for one layer; here with SwiGLU, GQA, and the base frozen, so inputs are
 * kept for the adapters alone); recomputing a layer from its input (Chen et al. 2016). */
#ifndef MODEL_TRAINING_H
#define MODEL_TRAINING_H

#include "model/shape.h"

/* One device's part of a model that `tp` devices cut among them, as exec/engine/model/shard.c does: heads and the FFN are shared out,
 * embedding, norms, head and the residual stream are whole on each. Every figure here, and footprint_weights_bytes(), is of one device
 * when asked of the part. tp must divide heads, kv_heads and ffn. */
struct shape training_part(const struct shape *shape, uint32_t tp);

/* What a layer leaves for the way back. */
enum training_kept {
    TRAINING_KEEPS_ALL,     /* both streams f32, both normed, q k v, attention's output, gate and up f32, their product */
    TRAINING_KEEPS_DEAR,    /* all but the normed and the product */
    TRAINING_KEEPS_INPUTS   /* the stream that comes in */
};

struct training_plan {
    uint32_t act_bytes;       /* of an activation: 2 (bf16) or 4 (f32) */
    enum training_kept kept;
    uint32_t rows;            /* tokens of a pass */
    uint32_t samples;         /* of a pass */
    uint32_t sample_rows;     /* tokens of a sample at most */
    uint32_t jobs;            /* at once */
    uint32_t rank;            /* of any job at most, a multiple of 16 */
    uint32_t head_rows;       /* rows whose logits are there at once */
    bool normed_heads;        /* q and k are normed a head, as in Qwen3 */
    uint32_t threads;         /* of a CPU, each of which has memory of its own; 0: a GPU */
};

/* Each piece begins at a multiple of 256. */
struct training_memory {
    uint64_t adapters;   /* packed, one a job, all seven modules at the largest rank */
    uint64_t stream;     /* the residual stream into each layer, f32 at every level: 4 * hidden bytes a token and layer */
    uint64_t kept;       /* the rest that all layers keep */
    uint64_t working;    /* one layer's gradients, and the stream's */
    uint64_t head;       /* logits and their gradients */
    uint64_t batch;      /* tokens, positions, tables, targets, where gradients go */
    uint64_t ops;        /* what the device's ops keep for themselves */
    uint64_t total;
};
/* Beside the weights and the jobs. */
struct training_memory training_memory(const struct shape *shape, const struct training_plan *plan);

/* One job's f32 matrices, gradients and two moments of AdamW: 16 bytes a parameter. */
uint64_t training_job_bytes(const struct shape *shape, uint32_t modules, uint32_t rank);
/* What a run has of such a job in host memory: the matrices and their packed form on their way to the device, and what a checkpoint
 * holds: matrices, two moments, the best matrices. On the CPU it adds to the rest. */
uint64_t training_host_bytes(const struct shape *shape, uint32_t modules, uint32_t rank, uint32_t act_bytes);
/* All weights instead (rank and jobs of the plan are 0 and 1): the same of every weight, and the bf16 copy that bf16 activations want.
 * Gains of heads' norms are not in footprint_parameters(). */
uint64_t training_full_bytes(const struct shape *shape, const struct training_plan *plan);

#endif
