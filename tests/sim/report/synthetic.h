/* A results file as a run would leave it, of made-up but plausible numbers, and the summaries that belong to it. */
#ifndef TESTS_SIM_REPORT_SYNTHETIC_H
#define TESTS_SIM_REPORT_SYNTHETIC_H

#include "results/summary.h"

struct synthetic_variant {
    const char *name;
    double hit_ratio;       /* of adapter requests */
    double load;            /* 1 and more: the queue grows without end */
    uint32_t requests;      /* 0: the tables are there and empty */
};

#define SYNTHETIC_END_S 1200
#define SYNTHETIC_WARMUP_S 60

/* Stops the test when the file cannot be written. */
void synthetic_write(const char *path, const char *scenario_text, uint64_t seed, const struct synthetic_variant *variants,
                     uint32_t count, struct summary *ret_summaries);

#endif
