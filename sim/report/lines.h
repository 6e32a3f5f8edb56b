/* What the lines of the terminal's table have in common: their width, a label before what is told, and breaks at spaces. */
#ifndef REPORT_LINES_H
#define REPORT_LINES_H

#include <stdio.h>

#include "report/cells.h"

#define TABLE_COLUMNS 100
#define LABEL "  %-11s "
#define LABEL_COLUMNS 14

/* On a terminal what needs the reader's eye is bold; nothing is coloured. */
void line_emphasize(FILE *out, const char *text);
/* At the right end of a column. */
void line_cell(FILE *out, int width, struct cell cell);
/* A note of any length, broken at spaces; the label stands before its first line. */
void line_note(FILE *out, const char *label, const char *note, size_t length);
/* A variant's name in its column; one too long for it has a line of its own. */
void line_variant(FILE *out, const char *variant);

#endif
