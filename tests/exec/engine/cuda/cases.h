/* Every op of a device against its definition, on one world. Each answers NULL, or what is wrong: op, place, both
 * values, the bound. */
#ifndef CUDA_TESTS_CASES_H
#define CUDA_TESTS_CASES_H

#include "world.h"

const char *case_embed(struct world *world);
const char *case_norm(struct world *world);
const char *case_swiglu(struct world *world);
const char *case_rope_store(struct world *world);
const char *case_linear(struct world *world, enum lora_group group, bool with_lora);
const char *case_head(struct world *world);
const char *case_attend(struct world *world);
const char *case_pick(struct world *world, int best);
/* All of these, every group with adapters and without. */
const char *case_all(struct world *world);

/* Bits of y for one group's linear, and of attend, of the first `rows` rows: for comparisons between worlds. The caller
 * frees. */
float *case_linear_bits(struct world *world, enum lora_group group, size_t *ret_bytes);
void *case_attend_bits(struct world *world, size_t *ret_bytes);

#endif
