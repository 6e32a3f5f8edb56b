/* The run times of Microsoft's Philly cluster as published by themselves: one number of seconds a line. There are no
 * arrivals: every row stands at 0. */
#include "reader.h"

enum { RUNTIME };

static bool philly_read(struct trace *trace, struct job_row *ret_row)
{
    return trace_cells(trace) && trace_read_span(trace, trace->at[RUNTIME], 9, &ret_row->runtime_ns);
}

const struct trace_format trace_format_jobs_philly = {
    .name = "philly",
    .about = "Philly run times (CSV: runtime, in seconds; no arrivals)",
    .family = TRACE_JOBS,
    .has = JOB_HAS_RUNTIME,
    .columns = {[RUNTIME] = {"runtime", false}},
    .read_job = philly_read,
};
