/* LRU's miss ratio in a cache of any size, from the distances of one pass (distance.h): at every number of objects, and at every
 * number of bytes that has at most seven binary digits that count (64 sizes an octave, at most 1.6% apart; powers of two and
 * their small multiples are among them). Between two such sizes the curve lies between theirs. */
#ifndef CACHELAB_LRU_CURVE_H
#define CACHELAB_LRU_CURVE_H

#include "cachelab/distance.h"

struct lru_curve;

enum status lru_curve_create(struct lru_curve **ret_curve);
void lru_curve_free(struct lru_curve *curve);

/* FULL: no memory. */
enum status lru_curve_add(struct lru_curve *curve, const struct distance_answer *answers, const uint64_t *sizes_bytes, uint32_t count);

/* Requests so far, and those of them that miss in every cache: the first of an object; by bytes also one of another size than before. */
uint64_t lru_curve_requests(const struct lru_curve *curve);
uint64_t lru_curve_first(const struct lru_curve *curve);
uint64_t lru_curve_changed(const struct lru_curve *curve);

/* Fills ret_misses[0 .. count): of a cache of i objects. */
void lru_curve_misses(const struct lru_curve *curve, uint64_t *ret_misses, uint64_t count);
/* Misses in a cache of so many bytes, or of the next smaller size that the curve has. */
uint64_t lru_curve_misses_bytes(const struct lru_curve *curve, uint64_t capacity_bytes);
/* What all of it takes. */
uint64_t lru_curve_memory_bytes(const struct lru_curve *curve);

#endif
