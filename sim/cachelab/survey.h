/* A first pass over a trace, where a size is a share of the working set, or a policy wants to know the next request of an object
 * and the format doesn't say. */
#ifndef CACHELAB_SURVEY_H
#define CACHELAB_SURVEY_H

#include "cachelab/group.h"

struct lab_survey {
    struct object_trace_info info;
    uint64_t objects;
    uint128 bytes;  /* of all of them, by their last sizes */
    uint32_t *next; /* [info.requests], or NULL: not asked for; 4 bytes a request, to be freed */
};

/* requests_max: 0 for all. Fails as lab_group_run() does; nothing is to be freed then. A trace of 2^32 - 1 requests is too long
 * for `next`. */
enum status lab_survey_run(const struct lab_trace *trace, bool with_next, uint64_t requests_max,
                           bool (*progress)(void *context, uint64_t requests, uint64_t expected), void *context, struct lab_survey *ret_survey,
                           char *ret_message);

#endif
