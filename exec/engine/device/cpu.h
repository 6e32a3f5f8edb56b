/* The inside of the CPU's device, for ops/ only. */
#ifndef DEVICE_CPU_H
#define DEVICE_CPU_H

#include "engine/device/device.h"

struct dev {
    struct dev_config config;
    const struct ops *ops;
};

#endif
