/* A trace by the law of the reference's generator: splitmix64, Zipf's law by the inverse of its sums, ids permuted, sizes of
 * adapters. Smaller, and not its bytes. */
#ifndef TESTS_CACHELAB_ZIPF_TRACE_H
#define TESTS_CACHELAB_ZIPF_TRACE_H

#include "base/base.h"

struct zipf_trace {
    uint64_t *ids;
    uint64_t *sizes;
    uint32_t count;
    uint32_t objects; /* that it draws from */
};

struct zipf_trace zipf_trace_create(uint32_t objects, uint32_t count, double alpha, uint64_t seed);
void zipf_trace_free(struct zipf_trace *trace);

#endif
