/* The accounts of a run's jobs as a FOCUS file (results/focus.h): one line an account and component that came to anything,
 * for each variant; a variant's lines add up to its bill. ResourceId is the variant: its accounts are a split of one bill. */
#ifndef RESULTS_JOBS_LEDGER_H
#define RESULTS_JOBS_LEDGER_H

#include <stdio.h>

#include "results/summary.h"

/* Variants without jobs have no lines. The run's time 0 is midnight of Monday, 5 January 1970 (UTC), since runs begin at
 * midnight of a Monday. */
enum status jobs_ledger_write(const char *path, const struct summary *summaries, uint32_t count, FILE *errors);

#endif
