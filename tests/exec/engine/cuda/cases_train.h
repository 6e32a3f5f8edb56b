/* Every op of training of a device against its definition, on one world that trains. Each answers NULL, or what is wrong. What a batch has
 * no row for must stay as it was. */
#ifndef CUDA_TESTS_CASES_TRAIN_H
#define CUDA_TESTS_CASES_TRAIN_H

#include "world.h"

const char *case_loss(struct world *world);
const char *case_norm_back(struct world *world);
const char *case_rope_back(struct world *world);
const char *case_attend_back(struct world *world);
const char *case_swiglu_back(struct world *world);
const char *case_embed_back(struct world *world);
/* sumsq, adamw, zero, round; the batch does not matter. */
const char *case_update(struct world *world);
/* sumsq of millions of numbers, which is not among all. */
const char *case_sumsq_long(struct world *world);
/* All of these. */
const char *case_train_all(struct world *world);

#endif
