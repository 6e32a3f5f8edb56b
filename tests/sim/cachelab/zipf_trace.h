/* A trace as the reference's generator draws it (../shared/reference/cache/gen_zipf.c), request by request: splitmix64, Zipf's law by the
 * inverse of its sums, ids 1 .. objects permuted, sizes of adapters or all 1. */
#ifndef TESTS_CACHELAB_ZIPF_TRACE_H
#define TESTS_CACHELAB_ZIPF_TRACE_H

#include "base/base.h"

struct zipf_trace {
    uint64_t *ids;
    uint64_t *sizes;
    uint32_t count;
    uint32_t objects; /* that it draws from */
};

struct zipf_trace zipf_trace_create(uint32_t objects, uint32_t count, double alpha, uint64_t seed, bool adapters);
void zipf_trace_free(struct zipf_trace *trace);

#endif
