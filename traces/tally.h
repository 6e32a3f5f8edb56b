/* What the surveys of requests and of jobs count alike: gaps between arrivals, and names with their shares. */
#ifndef TRACES_TALLY_H
#define TRACES_TALLY_H

#include "base/table.h"
#include "survey.h"

/* Welford's recurrence: the sum of squares of nanoseconds would lose the variance. */
struct tally_gaps {
    uint64_t count;
    double mean_s;
    double squares;
};

void tally_gap(struct tally_gaps *gaps, int64_t gap_ns);
double tally_rate_per_s(const struct tally_gaps *gaps); /* some gap must be above 0 */
double tally_gap_cv(const struct tally_gaps *gaps);     /* the same */

/* Names are known by a 64-bit hash: among SURVEY_NAMES_MAX of them, two are taken for one with a chance of 2e-9. */
struct tally_names {
    struct table table;
    void *memory;
    uint64_t *counts; /* [SURVEY_NAMES_MAX] */
    uint64_t rows;
    bool bounded;
};

/* false: no memory; what there is, tally_names_free() takes. Names that were never made are not counted. */
bool tally_names_init(struct tally_names *names);
void tally_names_free(struct tally_names *names);
void tally_name(struct tally_names *names, const char *name);
/* `rows`: of the whole trace. */
struct survey_names tally_names_result(const struct tally_names *names, uint64_t rows);

struct survey_lengths survey_lengths_of(const struct histogram *histogram);

#endif
