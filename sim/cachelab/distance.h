/* LRU stack distances (Mattson, Gecsei, Slutz, Traiger 1970, 4): how many other objects, and how many bytes of them, were
 * asked for since the last request of this one. LRU of C objects holds the C asked for last, so a request is a hit exactly
 * where its distance is below C, and one pass tells every C.
 *
 * By bytes: LRU that evicts until the new object fits holds the longest run of the objects asked for last whose sizes add up
 * to C at most; so a request is a hit exactly where its distance in bytes plus its own size is at most C. That is exact as
 * long as no object is larger than C and none changes its size. A cache that lets larger objects pass by unseen keeps what
 * they push out here, and one that removes a copy of the wrong size has room that the run would fill: there the simulation
 * differs, and the caller knows both cases (`changed`; sizes). */
#ifndef CACHELAB_DISTANCE_H
#define CACHELAB_DISTANCE_H

#include "base/base.h"

#define DISTANCE_BATCH_MAX 256
/* Objects are numbers below this. */
#define DISTANCE_OBJECTS_MAX (UINT32_MAX / 4)

struct distance_answer {
    uint64_t bytes;   /* UINT64_MAX: not known (distance_bytes_known()), or the first request */
    uint32_t objects; /* NONE_INDEX: the first request of the object */
    bool changed;     /* the object had another size: a miss by bytes in a cache of any size */
};

/* Memory by the objects that are in it: 26 to 34 bytes each. */
struct distance;

/* FULL: no memory. */
enum status distance_create(struct distance **ret_distance);
void distance_free(struct distance *distance);

/* Requests in their order, count <= DISTANCE_BATCH_MAX. Objects are small numbers, as intern_ids() gives them. FULL: no memory, or
 * an object's number is too large; what came before is counted. */
enum status distance_requests(struct distance *distance, const uint32_t *objects, const uint64_t *sizes_bytes, uint32_t count,
                              struct distance_answer *ret_answers);
/* As if it had never been asked for; it was. */
void distance_remove(struct distance *distance, uint32_t object);

/* Once all objects together had 2^63 bytes or more, no distance in bytes is given any more. */
bool distance_bytes_known(const struct distance *distance);
/* What all of it takes. */
uint64_t distance_memory_bytes(const struct distance *distance);

#endif
