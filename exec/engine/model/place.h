/* A base's weights as a device wants them. */
#ifndef MODEL_PLACE_H
#define MODEL_PLACE_H

#include "engine/device/device.h"
#include "engine/model/weights.h"

/* `host` must outlive the device on the CPU, which keeps its pointers. ret_placed->layer is the caller's to free(), also on failure;
 * a tied head is placed once. STATUS_FULL: no room. */
enum status weights_place(const struct device *device, struct dev *dev, const struct model_weights *host, int32_t layers,
                          struct model_weights *ret_placed);

#define WEIGHTS_LISTED_MAX(layers) (3 + 11 * (size_t)(layers))
/* All weights in the order of placing, those that a family lacks among them; a tied head is not: it is the embedding. Returns how many. */
uint32_t weights_list(struct model_weights *weights, int32_t layers, bool tied_head, struct weight **ret_list);

static inline bool weights_tied(const struct model_weights *weights)
{
    return weights->head.data == weights->embed.data;
}

#endif
