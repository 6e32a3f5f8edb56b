/* What training takes of memory, from a config alone: nothing is opened, no weight is read. The arithmetic is shared/model/training.h's,
 * to which tests hold the trainer; here a config becomes its shape, and a level of recomputing is chosen by the memory there is. */
#ifndef TRAIN_PLAN_H
#define TRAIN_PLAN_H

#include "engine/train/train.h"
#include "model/training.h"

struct plan {
    int64_t weights_bytes;     /* the base's, once however many train on it */
    int64_t stream_bytes;      /* of the residual stream, a token and layer */
    int64_t parameters;        /* of one job's adapter */
    int64_t job_bytes;         /* its f32 matrices, gradients and two moments, a quarter each */
    int64_t host_bytes;        /* its copies in host memory */
    struct training_memory memory[RECOMPUTE_COUNT]; /* beside those, of config->jobs_max jobs in one process */
};

/* What shared/model knows of a config. */
struct shape plan_shape(const struct model_config *model, enum dtype dtype);
/* Of one of `tp` devices that the model is cut for; config->ranks is not read. `dtype` is the weights', `rank` of each job at most
 * config's; all linear modules. STATUS_INVALID: the model has no tp equal parts. */
enum status plan_make(const struct model_config *model, enum dtype dtype, const struct trainer_config *config, int32_t rank, int32_t tp,
                      struct plan *ret_plan, struct refusal *refusal);
/* Bytes beside the weights, where host memory is also the device's or is not. */
int64_t plan_bytes(const struct plan *plan, enum recompute recompute, int32_t jobs, bool host_is_device);
/* The level that costs least time among those that fit. False: none does, and it is the one that takes least. */
bool plan_choose(const struct plan *plan, int32_t jobs, bool host_is_device, int64_t memory_bytes, enum recompute *ret_recompute);

#endif
