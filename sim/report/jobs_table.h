/* The part of the terminal's table that is about jobs. */
#ifndef REPORT_JOBS_TABLE_H
#define REPORT_JOBS_TABLE_H

#include <stdio.h>

#include "results/summary.h"

/* Variants with jobs side by side; nothing when none has any. */
void jobs_table(FILE *out, const struct summary *summaries, uint32_t count);
/* Everything about one; `after`: something stands above it. */
void jobs_details(FILE *out, const struct jobs_summary *jobs, bool after);

#endif
