/* Deals cells to processes and gathers what comes of them. Results are those of one process that runs all, whatever the number:
 * cells know nothing of each other. */
#ifndef CACHELAB_CREW_H
#define CACHELAB_CREW_H

#include <signal.h>
#include <stdio.h>

#include "cachelab/group.h"

struct lab_series {
    struct lab_interval *intervals;
    uint64_t count;
};

struct lab_crew {
    const struct lab_trace *trace;
    const struct lab_cell_setup *setups;
    uint32_t cells_count;
    uint32_t jobs;                 /* processes, at least 1; no more than cells are started */
    uint64_t warmup;
    uint64_t interval;
    uint64_t requests_max;
    FILE *progress;                /* NULL: none */
    const volatile sig_atomic_t *stop;
};

/* Fills [cells_count] of each; ret_series only with an interval, to be freed by lab_series_free() whatever is returned. END:
 * *stop was set, and all processes have ended. Otherwise what failed is in ret_message (TRACE_MESSAGE_MAX bytes). */
enum status lab_crew_run(const struct lab_crew *crew, struct lab_result *ret_results, struct lab_series *ret_series,
                         struct object_trace_info *ret_info, char *ret_message);
void lab_series_free(struct lab_series *series, uint32_t count);

#endif
