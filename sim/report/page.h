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

/* What pages of any report have in common: up to the title; a figure with what it says, or why it is not there; the end. */
struct page_figure {
    const char *work;     /* its SVG file is <work>/<name>.svg */
    const char *name;
    uint32_t number;      /* within the page, from 1 */
    const char *question;
    const char *reading;
    bool made;
    const char *why_not;  /* empty: gnuplot could not be run */
};
void page_begin(FILE *out, const char *title);
void page_figure(FILE *out, const struct page_figure *figure);
void page_end(FILE *out);

/* page_tables.c: all variants side by side, the best of each row marked; what fine-tuned requests cost over base ones,
 * against the goals; everything about one. `first` and `variant` number variants among all, from 0. */
void page_comparison(FILE *out, const struct summary *summaries, uint32_t count);
void page_goals(FILE *out, const struct summary *summaries, uint32_t count, uint32_t first);
void page_variant(FILE *out, const struct summary *summary, uint32_t variant);
/* page_jobs.c: the same of jobs: side by side; a sentence or two; one by itself. Nothing of a variant without jobs. */
void page_jobs_comparison(FILE *out, const struct summary *summaries, uint32_t count);
void page_jobs_in_short(FILE *out, const struct summary *summaries, uint32_t count);
void page_jobs_variant(FILE *out, const struct jobs_summary *jobs);
/* page_style.c */
extern const char page_style[];

/* A variant's name with its colour before it (as in the figures; none when it's not in them). */
void page_name(FILE *out, const char *name, uint32_t variant);

#endif
