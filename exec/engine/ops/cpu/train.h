/* The fast CPU ops of training. */
#ifndef CPU_TRAIN_H
#define CPU_TRAIN_H

#include "engine/ops/cpu/work.h"

extern const struct train_ops train_ops_cpu;

#endif
