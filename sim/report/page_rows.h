/* A table of the page with a column a variant: what a row is called, in which unit, and which of its numbers is the best. */
#ifndef REPORT_PAGE_ROWS_H
#define REPORT_PAGE_ROWS_H

#include <stdio.h>

#include "report/text.h"
#include "results/summary.h"

enum page_kind { COUNT, DURATION, PERCENT, NUMBER };
enum page_better { MORE, LESS, NEITHER };

struct page_row {
    enum page_kind kind;
    enum page_better better;
    bool percentile;        /* an unstable variant has none */
    const char *label;
};

/* Of a row in a variant, durations in nanoseconds; NaN: there is no such number. */
typedef double (*page_value)(uint32_t row, const struct summary *summary);

/* A table: its head, rows, its end. */
/* `first`: the number of the first of them among all variants, for its colour. */
void page_variants_head(FILE *out, const struct summary *summaries, uint32_t count, uint32_t first);
void page_rows_row(FILE *out, const struct page_row *rows, uint32_t row, page_value row_value, const struct summary *summaries,
                   uint32_t count);
void page_rows_end(FILE *out);
/* All of a row in one unit, so that numbers can be compared by looking at them. */
const char *page_duration_unit(double most_ns, double *ret_unit_ns);

#endif
