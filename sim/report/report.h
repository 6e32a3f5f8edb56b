/* What a person sees: the table on the terminal, plots by gnuplot, one self-contained page. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <stdio.h>

#include "results/summary.h"

/* One row a variant, side by side; then, for each variant, the details (classes, blame, tiers, saturation). */
void report_table(FILE *out, const struct summary *summaries, uint32_t count);

/* Creates the folder if need be. */
enum status report_folder(const char *directory, FILE *errors);

/* Plots (PNG and SVG, from plots/<name>.gp) and index.html with the figures inside it, under `directory` (created). Reads the series
 * from the HDF5 file that the run wrote. Without gnuplot the page has tables only and says so on `errors`. */
enum status report_write(const char *directory, const char *h5_path, const struct summary *summaries, uint32_t count,
                         const char *scenario_text, FILE *errors);

#endif
