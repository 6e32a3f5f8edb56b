/* Laws of prompt and output lengths: one uniform number in, one length out, by inversion and so never decreasing in it;
 * cut to the section's bounds. */
#ifndef WORKLOAD_LENGTHS_H
#define WORKLOAD_LENGTHS_H

#include <stdio.h>

#include "scenario/scenario.h"

/* An empirical law holds at most so many rows of its trace, 16 MB; the rest are not read. */
#define LENGTHS_ROWS_MAX 4194304u

enum lengths_column { LENGTHS_PROMPT, LENGTHS_OUTPUT };

struct lengths {
    uint32_t law;           /* enum key_length_law */
    uint32_t min_tokens;
    uint32_t max_tokens;
    double mean_tokens;
    double log_mean;        /* lognormal: mu, so that the mean is as given */
    double sigma;
    double log_keep;        /* geometric: ln(1 - 1 / mean) */
    uint32_t *values;       /* [values_count], sorted; empirical */
    uint32_t values_count;
    bool values_cut;        /* the trace had more than LENGTHS_ROWS_MAX */
};

/* On failure one message in `errors`. */
enum status lengths_open(struct lengths *lengths, const struct scenario *scenario, enum lengths_column column,
                         FILE *errors);
void lengths_close(struct lengths *lengths); /* accepts {0} */

/* unit in (0, 1). */
uint32_t lengths_at(const struct lengths *lengths, double unit);

#endif
