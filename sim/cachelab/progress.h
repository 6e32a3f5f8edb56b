/* One line on a terminal that is written anew: how much of a trace is done. */
#ifndef CACHELAB_PROGRESS_H
#define CACHELAB_PROGRESS_H

#include <stdio.h>

#include "base/base.h"

struct lab_progress {
    FILE *out;                 /* NULL: nothing is shown */
    const char *what;
    uint64_t requests_expected; /* 0: not known */
    int64_t began_ns;
    int64_t shown_ns;
};

void lab_progress_begin(struct lab_progress *progress, FILE *out, const char *what, uint64_t requests_expected);
/* At most ten times a second. */
void lab_progress_show(struct lab_progress *progress, uint64_t requests);
void lab_progress_end(struct lab_progress *progress);

#endif
