/* The working set over time (Denning 1968): how many distinct objects, and bytes of them, each stretch of a trace asks for. All
 * stretches have the same number of requests, a power of two that grows with the trace, so that a series has some hundred points
 * and memory is fixed. Exact: when two stretches become one, objects of both count once. */
#ifndef CACHELAB_WORKING_SET_H
#define CACHELAB_WORKING_SET_H

#include "base/base.h"

/* More than half as many when the trace is that long. */
#define WORKING_SET_WINDOWS_MAX 256
/* Requests of a window at least, as a power of two. */
#define WORKING_SET_BITS_MIN 6
/* The request before, of an object's first. */
#define WORKING_SET_FIRST UINT64_MAX

struct working_set;

struct working_set_window {
    uint64_t from_request; /* from 0 */
    uint64_t requests;     /* the last window may be short */
    int64_t from_ns;       /* of its first request */
    uint64_t objects;      /* distinct ones */
    uint64_t new_objects;  /* of these, never asked for before */
    uint128 bytes;         /* each as large as at its first request here */
};

/* FULL: no memory. */
enum status working_set_create(struct working_set **ret_set);
void working_set_free(struct working_set *set);

/* The next request, and the number of its object's request before, from 0, or WORKING_SET_FIRST. */
void working_set_add(struct working_set *set, uint64_t previous, uint64_t size_bytes, int64_t at_ns);
/* Returns how many there are. */
uint32_t working_set_windows(const struct working_set *set, struct working_set_window ret_windows[WORKING_SET_WINDOWS_MAX]);

#endif
