/* Cells that one process runs, in one pass over the trace: it is read, and its objects are numbered, once for all of them. */
#ifndef CACHELAB_GROUP_H
#define CACHELAB_GROUP_H

#include "cachelab/lab.h"
#include "object_trace.h"

struct lab_trace {
    const char *path;
    const char *format;                   /* NULL: guessed */
    const struct object_options *options; /* may be NULL */
    const uint32_t *next;                 /* [requests] number of the object's next request, NONE_INDEX; NULL: as the file says */
};

struct lab_run {
    const struct lab_trace *trace;
    const struct lab_cell_setup *setups;
    uint32_t cells_count;
    uint64_t warmup;        /* requests */
    uint64_t interval;      /* requests; 0: no series */
    uint64_t requests_max;  /* 0: all */
    /* Now and then; expected: in all, 0 for not known. False: stop. */
    bool (*progress)(void *context, uint64_t requests, uint64_t expected);
    /* One at the end of each interval, and of what is left at the trace's end. */
    void (*interval_end)(void *context, uint32_t cell, const struct lab_interval *interval);
    void *context;
};

/* What the trace said of itself, for results[0 .. cells_count). END: progress() said stop. Otherwise what fails is in ret_message
 * (TRACE_MESSAGE_MAX bytes). */
enum status lab_group_run(const struct lab_run *run, struct lab_result *ret_results, struct object_trace_info *ret_info,
                          char *ret_message);

#endif
