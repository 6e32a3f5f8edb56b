/* A base in one allocation on a GPU for many processes: one holds it, others put their weights' pointers there instead of loading. What they
 * must know of it is a table of where each weight lies. How holder and borrowers find each other is hold/'s. */
#ifndef MODEL_SHARED_BASE_H
#define MODEL_SHARED_BASE_H

#include "engine/device/device.h"
#include "engine/model/weights.h"

struct base_weight {
    int64_t data, bias;            /* bytes from the allocation's start; -1: there is none */
    int32_t out, in, stride;
    uint32_t dtype;
};

#define BASE_WEIGHTS_MAX 4096      /* some 370 layers */

struct shared_base {
    uint8_t digest[DIGEST_BYTES];  /* safetensors_digest() of the model's files */
    struct dev_share memory;
    struct base_weight *weight;    /* [count], in the order of weights_list() */
    uint32_t count;
};
/* Closes the file; what is mapped stays. */
void shared_base_free(struct shared_base *base);

/* Who holds: a device with nothing on it but the base. The model may be closed after. */
struct held_base {
    const struct device *device;
    struct dev *dev;
    struct shared_base base;
};
enum status held_base_open(const struct device *device, const struct model_weights *weights, const struct dims *dims,
                           const uint8_t digest[DIGEST_BYTES], struct held_base *ret_held, struct refusal *refusal);
void held_base_close(struct held_base *held); /* of one that did not open: nothing */

/* Who borrows: as weights_place(), but the weights lie where the table says. `host` says which weights there are; their numbers are not read.
 * STATUS_INVALID: the table is of another model, or not to be trusted, or this device cannot map it. */
enum status shared_base_place(const struct shared_base *base, const struct device *device, struct dev *dev, enum mode mode,
                              const struct model_weights *host, int32_t layers, struct model_weights *ret_placed, struct refusal *refusal);

#endif
