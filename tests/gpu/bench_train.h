/* The ops of training on a GPU, of one layer of Llama-3.1-8B's shape. */
#ifndef GPU_BENCH_TRAIN_H
#define GPU_BENCH_TRAIN_H

#include "gpu.h"

/* A line an op; and what they make of a step of the whole model. */
void bench_train(const struct device *device);

#endif
