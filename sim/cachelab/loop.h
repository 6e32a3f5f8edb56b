/* The loops over a block's requests, of loop.c: one for each policy of the lists in policy.h, and one for any. */
#ifndef CACHELAB_LOOP_H
#define CACHELAB_LOOP_H

#include "cachelab/cell_state.h"

/* FULL: no memory. */
typedef enum status lab_loop(struct lab_cell *cell, const struct lab_block *block);

#define X(name) lab_loop lab_loop_##name;
EVICT_POLICIES(X)
EVICT_BOUNDS(X)
#undef X
lab_loop lab_loop_any;

/* The policy's own, or the one for any. */
lab_loop *lab_loop_of(const struct evict_policy *policy);

#endif
