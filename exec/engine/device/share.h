/* Weights in one allocation of device memory that several processes map: one makes and fills it, the others read it. For devices whose
 * memory is not the host's; on the CPU all map the file itself. */
#ifndef DEVICE_SHARE_H
#define DEVICE_SHARE_H

#include "engine/ops/values.h"

#define GPU_ID_BYTES 16

struct dev;

struct dev_share {
    int file;                   /* what another process is given; whoever has it closes it */
    int64_t bytes;              /* of the allocation */
    uint8_t gpu[GPU_ID_BYTES];  /* where it lies: the GPU's UUID */
};

struct device_share {
    /* False: ret_error says why this device cannot. */
    bool (*can)(struct dev *dev, char *ret_error, size_t error_bytes);
    /* Room for these weights, once a device: weight() then puts them there, if it is given them in this order. ret_data: where it begins.
     * STATUS_FULL: no room; STATUS_INVALID: it cannot. */
    enum status (*create)(struct dev *dev, const struct weight *const *weights, uint32_t count, struct dev_share *ret_share,
                          const char **ret_data, char *ret_error, size_t error_bytes);
    /* Maps what another process has made until the device is closed; it lives as long as anybody maps it, whoever made it. A write to it is
     * a fault. STATUS_INVALID: it cannot, or lies on another GPU. */
    enum status (*map)(struct dev *dev, const struct dev_share *share, const char **ret_data, char *ret_error, size_t error_bytes);
};

#endif
