/* The page: one HTML file with style and figures inside, no script, no reference to anything outside, so it can be mailed
 * and will open in ten years. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include <stdio.h>

#include "report/figures.h"
#include "results/summary.h"

struct page {
    const struct summary *summaries;
    uint32_t count;             /* >= 1 */
    const char *scenario_text;
    const char *version;        /* empty: unknown */
    const char *results_path;   /* NULL: no rows were kept */
    const char *work;           /* where the SVG files are */
    const struct figures *figures;
};

void page_write(FILE *out, const struct page *page);

/* page_tables.c: all variants side by side, the best of each row marked; then everything about one. */
void page_comparison(FILE *out, const struct summary *summaries, uint32_t count);
void page_variant(FILE *out, const struct summary *summary);
/* page_style.c */
extern const char page_style[];

/* A variant's name with its colour before it (as in the figures; none when it's not in them). */
void page_name(FILE *out, const char *name, uint32_t variant);

#endif
