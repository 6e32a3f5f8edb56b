/* e^-x without a mathematics library, and to the last bit the same on every machine. */
#ifndef BASE_EXP_H
#define BASE_EXP_H

#include "base/base.h"

/* e^-x in units of 2^-64, for x in units of 2^-32; at 0 the largest number. Off by less than 40 units. */
uint64_t exp_negative(uint64_t x);

#endif
