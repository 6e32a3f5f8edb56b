/* Laws of popularity over ranks 0 .. count - 1, the most popular first. One uniform number gives one rank, by
 * inversion: a smaller number never gives a less popular rank. */
#ifndef WORKLOAD_POPULARITY_H
#define WORKLOAD_POPULARITY_H

#include <stdio.h>

#include "scenario/keys.h"

struct popularity {
    uint32_t law;        /* enum key_adapter_law */
    uint32_t count;
    double alpha;
    double *cumulative;  /* [count], zipf and empirical: P(rank <= i) */
    uint32_t *guide;     /* [count]: the first rank whose cumulative exceeds i / count (Chen and Asau 1974) */
};

/* STATUS_FULL: no memory. Zipf with alpha 0 is uniform. count may be 0, then nothing may be drawn. */
enum status popularity_open(struct popularity *popularity, uint32_t law, double alpha, uint32_t count);
/* weights[count], never increasing, finite, >= 0, their sum > 0. */
enum status popularity_open_weights(struct popularity *popularity, const double *weights, uint32_t count);
void popularity_close(struct popularity *popularity); /* accepts {0} */

/* unit in (0, 1). `ordinal` is what the distinct law goes by instead. */
uint32_t popularity_rank(const struct popularity *popularity, double unit, uint64_t ordinal);
/* P(rank); distinct: equal ones. */
double popularity_share(const struct popularity *popularity, uint32_t rank);

/* A file with one weight a line; blank lines at the end are allowed. On failure one message in `errors`. */
enum status popularity_read_weights(const char *path, uint32_t count, FILE *errors, double **ret_weights);

#endif
