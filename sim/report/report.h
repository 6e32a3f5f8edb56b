/* What a person sees: the table on the terminal, plots by gnuplot, one self-contained page. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <stdio.h>

#include "results/summary.h"

/* One row a variant, side by side; then, for each variant, the details (classes, blame, tiers, saturation). */
void report_table(FILE *out, const struct summary *summaries, uint32_t count);

/* Creates the folder, and its parent, if need be. */
enum status report_folder(const char *directory, FILE *errors);

/* Writes into `directory` (created, with its parent): index.html, one self-contained page with the figures inside; each
 * figure as <name>.png and <name>.svg; data/ with what they were drawn from, to draw again (`gnuplot data/plot.gp`).
 * Latencies and series come from the HDF5 file that the run wrote; with h5_path NULL (no rows were kept) the figures that
 * need them are left out, and the page says so. Without gnuplot the page has tables only and says so on `errors`; it is
 * STATUS_OK all the same. Refused with a word on `errors`: no variants, a file that is no results file, a folder that
 * cannot be written. Files appear under their names whole or not at all. */
enum status report_write(const char *directory, const char *h5_path, const struct summary *summaries, uint32_t count,
                         const char *scenario_text, FILE *errors);

#endif
