/* Numbers as a person writes them, and text that HTML takes for text. */
#ifndef REPORT_TEXT_H
#define REPORT_TEXT_H

#include <stdio.h>

#include "base/base.h"

#define NUMBER_TEXT_MAX 48

/* Three digits that count: 0.0123, 1.23, 12.3, 123, 1,234. NaN and infinities: an en dash. */
void number_text(double value, char ret_text[NUMBER_TEXT_MAX]);
/* 1,234,567 */
void count_text(uint64_t value, char ret_text[NUMBER_TEXT_MAX]);
/* With the unit that fits: 45.2 ms, 1.23 s, 12.3 min, 2 h. */
void duration_text(double value_ns, char ret_text[NUMBER_TEXT_MAX]);

/* & < > and quotes as entities; control characters and broken UTF-8, which no page may hold, as U+FFFD. */
void html_text(FILE *out, const char *text);

#endif
