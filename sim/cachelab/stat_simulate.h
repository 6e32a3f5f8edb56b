/* The curves of a trace beside caches that are simulated: LRU at the sizes of the table, in a second pass. */
#ifndef CACHELAB_STAT_SIMULATE_H
#define CACHELAB_STAT_SIMULATE_H

#include "cachelab/group.h"
#include "cachelab/progress.h"
#include "cachelab/trace_stat.h"

/* Parts of the objects, and of their bytes, for which the table has a row. */
#define STAT_SHARES 7
extern const double stat_shares[STAT_SHARES];

struct stat_simulated {
    enum lab_unit unit;
    uint64_t capacity;
    double miss_ratio;
    double away; /* the curve's miss ratio less this one */
};

struct stat_simulation {
    uint32_t count;
    struct stat_simulated points[2 * STAT_SHARES]; /* by objects, then by bytes; each from small to large */
};

/* What is wrong is in ret_message (TRACE_MESSAGE_MAX bytes). */
enum status stat_simulate(const struct lab_trace *trace, const struct trace_facts *facts, bool by_bytes, struct lab_progress *progress,
                          struct stat_simulation *ret_simulation, char *ret_message);

/* Of the points of a unit: the largest difference, either way. */
double stat_simulated_most_away(const struct stat_simulation *simulation, enum lab_unit unit);

#endif
