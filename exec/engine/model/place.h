/* A base's weights as a device wants them. */
#ifndef MODEL_PLACE_H
#define MODEL_PLACE_H

#include "engine/device/device.h"
#include "engine/model/weights.h"

/* `host` must outlive the device on the CPU, which keeps its pointers. ret_placed->layer is the caller's to free(), also on failure;
 * a tied head is placed once. STATUS_FULL: no room. */
enum status weights_place(const struct device *device, struct dev *dev, const struct model_weights *host, int32_t layers,
                          struct model_weights *ret_placed);

#endif
