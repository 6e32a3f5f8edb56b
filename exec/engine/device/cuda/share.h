/* Weights in one allocation that several processes map, see device/share.h. */
#ifndef CUDA_SHARE_H
#define CUDA_SHARE_H

#include "engine/device/share.h"

extern const struct device_share cuda_share;
/* Of a device that shares nothing: nothing. */
void cuda_share_close(struct dev *dev);

#endif
