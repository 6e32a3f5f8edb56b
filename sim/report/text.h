/* Numbers as a person writes them, and text that HTML takes for text. */
#ifndef REPORT_TEXT_H
#define REPORT_TEXT_H

#include <stdio.h>

#include "base/base.h"
#include "host/words.h"

/* Three digits that count: 0.0123, 1.23, 12.3, 123, 1,234. NaN and infinities: an en dash. */
void text_number(double value, char ret_text[NUMBER_TEXT_MAX]);
/* With the unit that fits, and no zeros at the end: 45.2 ms, 1.23 s, 60 s, 2 h. */
void text_duration(double value_ns, char ret_text[NUMBER_TEXT_MAX]);
/* In powers of 1024, as sizes of caches are: 512 bytes, 1.5 KiB, 640 MiB, 1,234 PiB. */
void text_bytes(double bytes, char ret_text[NUMBER_TEXT_MAX]);

/* & < > and quotes as entities; control characters and broken UTF-8, which no page may hold, as U+FFFD. */
void text_html(FILE *out, const char *text);

#endif
