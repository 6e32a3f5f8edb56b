/* One number into a tensor of any dtype: to nearest, ties to even, from what it is in double. */
#ifndef MODEL_STORE_H
#define MODEL_STORE_H

#include "engine/device/dtype.h"

uint16_t f16_round(float value);
/* Writes at any alignment. */
void dtype_store(enum dtype dtype, double value, void *data, size_t index);

#endif
