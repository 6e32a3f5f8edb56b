/* Trains LoRA adapters of several jobs on one resident base, all in one batch: rows of one job are one segment, its gradient is its own,
 * and its bits are those that it has alone. Written once over the ops, like model/forward.h. It reads no data, keeps no files and knows
 * no epochs: samples come as tokens with a mark on those that are learned.
 *
 * A step of a job: one or more passes (forward and backward over some samples; gradients add up), then one update. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include <signal.h>

#include "engine/device/device.h"
#include "engine/lora/source.h"
#include "engine/model/shared_base.h"

/* What is made again on the way back instead of being kept, a layer; it changes memory and time, never bits. */
#define RECOMPUTES(X)                                                                        \
    X(NONE, "none", "nothing: everything that the way back needs is kept")                   \
    X(PARTIAL, "partial", "norms and the product of gate and up: cheap, and a sixth of it")   \
    X(LAYER, "layer", "all of a layer from its input: one more way forward")
enum recompute {
#define X(name, text, about) RECOMPUTE_##name,
    RECOMPUTES(X)
#undef X
    RECOMPUTE_COUNT
};
const char *recompute_name(enum recompute recompute);
/* False: there is no such level. */
bool recompute_find(const char *name, enum recompute *ret_recompute);

struct trainer;

struct trainer_config {
    const struct device *device;
    enum mode mode;
    uint32_t threads;
    enum kernel_set kernels;
    enum recompute recompute;
    int32_t rows_max;          /* tokens of a pass */
    int32_t job_rows_max;      /* tokens of one job in a pass that trainer_step() cuts; <= rows_max */
    int32_t samples_max;       /* of a pass */
    int32_t job_samples_max;   /* samples of one job in such a pass; 0: samples_max */
    int32_t positions_max;     /* tokens of a sample; <= the model's and job_rows_max */
    int32_t jobs_max;          /* at once */
    int32_t lora_rank_max;     /* padded */
    int32_t head_rows;         /* rows whose logits lie in memory at once */
    /* Devices that cut the model among them, as in model/shard.h, a thread each; NULL: alone. Each rank holds its part of every job's
     * matrices, and all make the same calls with the same values; losses, norms and log-probabilities are alike at all. Adapters only. */
    struct ranks *ranks;
    int32_t rank;
    const volatile sig_atomic_t *stop; /* not 0: trainer_step() ends before its next pass; NULL: never. Not of ranks, which would not agree when */
    const struct shared_base *base; /* the weights that another process holds; NULL: the device gets its own. Not of ranks; not kept */
    bool full;                 /* all weights train instead of adapters: one job; see trainer_full_open() */
    const struct ops *ops;             /* NULL: the device's; a test may want the definitions */
    const struct train_ops *train_ops; /* likewise */
};

/* STATUS_INVALID: this device or mode cannot (refusal says why); STATUS_FULL: no room. The model must outlive it. */
enum status trainer_open(const struct model *model, const struct trainer_config *config, struct trainer **ret_trainer,
                         struct refusal *refusal);
void trainer_close(struct trainer *trainer); /* NULL is fine; closes its jobs */
/* Bytes on the device beside the weights and the jobs, the device's own for its ops too: what training_memory() (shared/model/training.h) predicts. */
int64_t trainer_bytes(const struct model *model, const struct trainer_config *config);

/* --- jobs ------------------------------------------------------------------------------------------------------------------- */

struct optimizer {
    float beta1, beta2, epsilon;
    float decay;       /* of weights, decoupled */
    float clip;        /* the gradient's norm over all of the job's matrices is cut to this, as torch's clip_grad_norm_ does; 0: never */
};
#define OPTIMIZER_DEFAULT ((struct optimizer){.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f})

/* Job `job` (0 .. jobs_max - 1, free) starts from these matrices, which are copied as f32; each pair keeps its own rank and scale. They
 * are the whole model's; of several ranks each takes its part, and parameters, states and source below are of that part.
 * STATUS_FULL: no room. */
enum status trainer_job_open(struct trainer *trainer, int32_t job, const struct lora_source *initial, const struct optimizer *optimizer);
/* Full fine-tuning, for small models: job 0 is every weight of the base, biases and gains included, from what the base has. f32 matrices
 * are the truth; in fast mode the ways forward and back see them rounded to bf16 after each update. Only where `full` was said.
 * The numbers' order: embedding; each layer's norm, q k v each with its bias, norms of heads, o, norm, gate, up, down; the last norm; the
 * head unless it is the embedding. STATUS_FULL: no room. */
enum status trainer_full_open(struct trainer *trainer, const struct model *model, const struct optimizer *optimizer);
int64_t trainer_full_bytes(const struct model *model, enum mode mode);
void trainer_job_close(struct trainer *trainer, int32_t job);
/* Bytes on the device that such a job takes: f32 matrices, gradients and two moments; its packed form lies in the trainer's own. */
int64_t trainer_job_bytes(const struct lora_source *initial, const struct dims *dims);

/* The numbers of a job, in one order; of an adapter: layer by layer, module by module, A then B. */
enum train_state { TRAIN_MATRICES, TRAIN_MOMENT1, TRAIN_MOMENT2, TRAIN_GRADIENTS, TRAIN_STATE_COUNT };
int64_t trainer_parameters(const struct trainer *trainer, int32_t job);
/* ret_values, values: f32 [trainer_parameters()] in host memory. */
void trainer_get(struct trainer *trainer, int32_t job, enum train_state state, float *ret_values);
void trainer_put(struct trainer *trainer, int32_t job, enum train_state state, const float *values);
int64_t trainer_updates(const struct trainer *trainer, int32_t job); /* done so far: AdamW's k */
void trainer_set_updates(struct trainer *trainer, int32_t job, int64_t updates);
/* Adapters only: the job's matrices as they are now, in `values` of the caller's [trainer_parameters()]; the pairs live as long as the job. */
struct lora_source trainer_source(struct trainer *trainer, int32_t job, float *values);

/* --- passes ----------------------------------------------------------------------------------------------------------------- */

struct train_sample {
    const int32_t *tokens;     /* [rows] */
    const uint8_t *is_target;  /* [rows]: the token here is learned, from those before it; the first one cannot be */
    int32_t rows;              /* 1 .. positions_max */
    int32_t job;               /* SEGMENT_NONE: the base itself, for log-probabilities only */
    float coef;                /* each target adds -coef * log p(target) to its job's loss */
};

/* Of one sample's targets. */
struct train_score {
    double logp;               /* the sum of log p */
    int64_t hits;              /* how many were the likeliest token, the lowest id on ties */
};

/* The samples' rows and number must be within the config's. Nobody sees another sample. ret_scores [count]. */
void trainer_logp(struct trainer *trainer, const struct train_sample *samples, int32_t count, struct train_score *ret_scores);
/* The same, and the gradients of the loss are added to their jobs'. A job's gradient depends on its own samples, their order, and how
 * they are cut into passes; not on other jobs. */
void trainer_pass(struct trainer *trainer, const struct train_sample *samples, int32_t count, struct train_score *ret_scores);

/* The same, where coefs depend on the scores: the head goes twice over the samples, and in between `weigh` sets every coef. */
typedef void train_weigh(void *context, struct train_sample *samples, const struct train_score *scores, int32_t count);
void trainer_pass_weighed(struct trainer *trainer, struct train_sample *samples, int32_t count, train_weigh *weigh, void *context,
                          struct train_score *ret_scores);

struct train_outcome {
    double loss;               /* mean of -log p over the step's targets, before the update */
    double norm;               /* of the gradient, before clipping */
    int64_t targets;
    int64_t hits;              /* of them, before the update */
};
/* AdamW with this rate on what the passes have gathered, which is then cleared. STATUS_INVALID: the gradient is not finite; nothing has
 * changed but that it is cleared. */
enum status trainer_update(struct trainer *trainer, int32_t job, double rate, double *ret_norm);

/* One update of each job that has samples here: loss = mean over all of that job's targets, however many passes they take; coef is not
 * read. rates, ret_outcomes [jobs_max]; of jobs without samples they are left alone. A job's samples are cut into passes in their order,
 * as many as fit job_rows_max, whatever the others do. STATUS_INVALID: a job's gradient is not finite, or it has no target: the others
 * are done nevertheless, and its outcome's norm is not finite. STATUS_END: it was stopped, and no job has moved. */
enum status trainer_step(struct trainer *trainer, const struct train_sample *samples, int32_t count, const double *rates,
                         struct train_outcome *ret_outcomes);

const struct dims *trainer_dims(const struct trainer *trainer);

#endif
