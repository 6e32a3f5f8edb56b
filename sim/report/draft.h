/* What the writers of figures share: a data file of one block a variant, axes with labels a person reads, the line of the
 * script that has a figure drawn. Private to figures*.c. */
#ifndef REPORT_DRAFT_H
#define REPORT_DRAFT_H

#include "report/figures.h"

struct draft {
    const char *work;
    const struct summary *summaries;
    const struct extracted *extracted;
    uint32_t count;
    FILE *errors;
    FILE *script;           /* plot.gp */
    struct figures *figures;
};

struct range {
    double low;
    double high;
};


/* Only values above zero, which a logarithmic axis can show. */
void range_add(struct range *range, double value);
/* `variant` has something to show in `figure`. */
void draft_shown(struct draft *draft, enum figure figure, uint32_t variant);
/* Kept when no variant has. */
void draft_why_not(struct draft *draft, enum figure figure, const char *reason);
/* As a string of gnuplot, whatever it holds, cut with an ellipsis. */
void draft_quoted(FILE *out, const char *text, uint32_t characters_max);

/* data/<file>.dat. Every variant has its block, so that a block's number is the variant's; a block without rows gets one
 * of `columns` NaN, since gnuplot does not count an empty one. */
FILE *draft_data(struct draft *draft, const char *file, const char *about);
void draft_block_begin(FILE *out, const struct summary *summary);
void draft_block_end(FILE *out, uint32_t rows, uint32_t columns);

/* `name`_low, `name`_high and `name`_ticks, of a logarithmic axis. */
void draft_axis(FILE *script, const char *name, struct range range, bool seconds);
/* The axis of everything over simulated time. */
void draft_time_axis(struct draft *draft, double end_s);
/* Says which figure comes next, and with what; nothing when no variant is shown. */
void draft_figure(struct draft *draft, enum figure figure, const char *subtitle);

/* figures_jobs.c: all figures of jobs. */
void figures_jobs_write(struct draft *draft);
#endif
