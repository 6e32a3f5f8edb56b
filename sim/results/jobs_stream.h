/* One variant's jobs on their way: every row to the statistics (jobs_gather.h) and, when there is a file, to its columns.
 * struct results owns one when the scenario has jobs. */
#ifndef RESULTS_JOBS_STREAM_H
#define RESULTS_JOBS_STREAM_H

#include <hdf5.h>

#include "results/jobs.h"

struct jobs_stream;

/* file NULL: statistics only; otherwise the tables are made in `variant`, a group that outlives the stream. NULL: HDF5
 * refused (its error stack says why). */
struct jobs_stream *jobs_stream_open(struct results_file *file, hid_t variant, const struct scenario *scenario);
/* What is still buffered, the tenants and the ledger go to the file, the numbers to `ret_summary`. */
void jobs_stream_end(struct jobs_stream *stream, const struct run_facts *facts, struct jobs_summary *ret_summary);
void jobs_stream_close(struct jobs_stream *stream); /* accepts NULL */

/* Of the variant; NULL: it has no jobs. In results.c. */
struct jobs_stream *results_jobs_stream(struct results *results);

#endif
