/* Whole runs with jobs, and the rows they leave, read back from the results file. */
#ifndef TESTS_ENGINE_JOBS_RIG_H
#define TESTS_ENGINE_JOBS_RIG_H

#include <hdf5.h>

#include "results/jobs.h"
#include "sim/engine/rig.h"

struct jobs_run {
    struct summary summary;
    hid_t file;
    char variant[64];
};

/* Runs the scenario and opens what it wrote. */
void jobs_run_scenario(const struct scenario *scenario, struct jobs_run *ret_run);
void jobs_run_text(const char *text, const char *const *settings, struct jobs_run *ret_run);
void jobs_run_close(struct jobs_run *run);
/* A column of this variant, "jobs/held_gpu_ns", as int64_t; free() is the caller's. NULL for one without rows. */
int64_t *jobs_column(const struct jobs_run *run, const char *name, uint64_t *ret_count);

/* The rows of jobs and of their stays; free() is the caller's. `tokens`, refusals, shapes of the job: not read. */
struct job_row *jobs_rows(const struct jobs_run *run, uint64_t *ret_count);
struct placement_row *jobs_placements(const struct jobs_run *run, uint64_t *ret_count);

/* What every run with jobs must fulfil, whatever its scenario: each job is in exactly one outcome and what rows say
 * of stops, deadlines and evaluations is what the summary says, the parts of its GPU time
 * are within what it held, stays add up to that, no GPU that is somebody's alone is somebody else's, no claim is left at the
 * end, and every account together is the bill, whose size follows from prices and GPU time. */
void jobs_run_check(const struct scenario *scenario, const struct jobs_run *run);

#endif
