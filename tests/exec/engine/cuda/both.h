/* What the cases share: numbers on both sides, comparisons within bounds, a group of linear layers. */
#ifndef CUDA_TESTS_BOTH_H
#define CUDA_TESTS_BOTH_H

#include "world.h"

/* A text to answer with; the next call takes its memory. */
__attribute__((format(printf, 1, 2))) const char *wrong(const char *format, ...);

/* got and want hold `count` numbers of a type; bound[i] may be NULL (0), and is multiplied by `factor`. An ulp is allowed always. NULL, or
 * what is wrong. */
const char *compare(const char *op, enum dtype dtype, const void *got, const void *want, const float *bound, double factor, int64_t count,
                    int32_t width);
/* Whether numbers from .. to - 1 are what nobody has written. */
const char *still_nan(const char *op, enum dtype dtype, const void *got, int64_t from, int64_t to, int32_t width);

/* Numbers of a type, drawn, on both sides. */
struct both { void *host, *device; size_t bytes; };
struct both both_drawn(struct world *world, enum dtype dtype, int64_t count);
struct both both_nan(struct world *world, enum dtype dtype, int64_t count);
void both_free(struct world *world, struct both *both);
/* What the device has; the caller frees. */
void *fetched(struct world *world, const struct both *both);

/* Numbers of k, or v, of all blocks. */
int64_t kv_count(const struct world *world);
/* Keys and values where sequences have them, NaN elsewhere. */
void kv_drawn(struct world *world, struct both *ret_k, struct both *ret_v);

/* The weights of a group, drawn; width: the sum of their outs. */
struct layer { struct weight host[3], device[3]; int n; int32_t in, width; };
struct layer layer_of(struct world *world, enum lora_group group);
void layer_free(struct layer *layer);

#endif
