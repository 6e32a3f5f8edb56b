/* A model on the CPU with room for a few sequences, and the reference results beside the checkout. */
#ifndef TESTS_MODEL_RIG_H
#define TESTS_MODEL_RIG_H

#include <jansson.h>

#include "engine/model/forward.h"
#include "support.h"

struct engine {
    struct model *model;
    struct forward *forward;
    float *logits;
};

/* mode < 0: the model's default. One sequence of blocks 1, 2, ... and up to `slots` adapters. */
struct engine_ask {
    const char *directory;
    int mode;
    enum kernel_set kernels;
    uint32_t threads;
    int32_t rows_max;
    int32_t slots;
};
struct engine engine_open(const struct engine_ask *ask);
void engine_close(struct engine *engine);
/* Reads, packs and puts an adapter into a slot; returns the offset that is free behind it. */
int64_t engine_adapter(struct engine *engine, const char *directory, int32_t slot, int64_t offset);

/* Log-probability of each id that follows in one sequence: ret[t] is that of ids[t + 1]; fed `chunk` tokens a step, the last of which is
 * asked for; so with chunk 1 all are filled, otherwise those at the end of a chunk, and the others are left alone. */
void engine_logprobs(struct engine *engine, const int32_t *ids, int32_t count, int32_t chunk, int32_t slot, double *ret);
/* log p(id) of the output. */
double engine_logprob(struct engine *engine, int32_t output, int32_t id);

/* Whether tests of whole models look at this set: all that run here; under asan, where plain C is a hundred times slower, the best. */
bool engine_looks_at(enum kernel_set set);

/* All lines of a JSON-lines file in ../shared/models/reference; NULL when it is missing. */
json_t *reference_lines(const char *name);
/* Integers of an array; returns their number. */
int32_t ids_of(const json_t *array, int32_t *ret_ids, int32_t max);

#endif
