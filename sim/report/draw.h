/* gnuplot for a report: scripts into its work folder, one run of data/plot.gp for all figures, what came of it. What goes wrong is
 * said on `errors`. */
#ifndef REPORT_DRAW_H
#define REPORT_DRAW_H

#include <stdio.h>

#include "base/base.h"

/* plots/<name>.gp of each name into `work`/data. */
enum status draw_scripts(const char *work, const char *const *names, size_t count, FILE *errors);
/* Runs data/plot.gp in `work`. */
enum status draw_all(const char *work, FILE *errors);
/* Both pictures of a figure are there. */
bool draw_made(const char *work, const char *name);

#endif
