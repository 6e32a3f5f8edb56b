/* A results file of jobs as a run would leave it, written through results/jobs.h: jobs at random instants are put on the
 * GPUs that are free first, so that rows, samples and accounts agree with each other. */
#ifndef TESTS_SIM_REPORT_JOBS_SYNTHETIC_H
#define TESTS_SIM_REPORT_JOBS_SYNTHETIC_H

#include "results/results.h"

struct synthetic_jobs {
    const char *name;
    double jobs_per_day;    /* 0: the tables are there and empty */
    uint32_t nodes;         /* of 8 GPUs */
    double days;
    bool residency;         /* a job goes where its base is, if that costs no wait */
    bool burst;             /* one tenant's 50 jobs at noon */
    bool requests;          /* a few requests beside the jobs */
    const char *tenant_name; /* of tenant 1; NULL: tenants have no names */
};

#define SYNTHETIC_TENANTS 60
#define SYNTHETIC_WARMUP_H 2

/* Stops the test when the file cannot be written. Summaries are to be freed. */
void synthetic_jobs_write(const char *path, const struct synthetic_jobs *variants, uint32_t count, struct summary *ret_summaries);

#endif
