/* The part of the terminal's table that is about what serving costs, and what that leaves of the bill. */
#ifndef REPORT_COST_TABLE_H
#define REPORT_COST_TABLE_H

#include <stdio.h>

#include "results/summary.h"

/* Variants with requests side by side, in money; nothing when no price is known and there are no jobs that cost anything. */
void cost_table(FILE *out, const struct summary *summaries, uint32_t count);
/* What it was paid for, of one without jobs; or why it is not known. */
void cost_details(FILE *out, const struct summary *summary);

#endif
