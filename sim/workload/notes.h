/* The sentences a source says about itself in the report, one a line. Room for NOTES_MAX bytes; a sentence that no
 * longer fits is left out whole. */
#ifndef WORKLOAD_NOTES_H
#define WORKLOAD_NOTES_H

#include "host/words.h"

#define NOTES_MAX 8192

struct notes {
    char text[NOTES_MAX];
    size_t length;
};

void notes_clear(struct notes *notes);
__attribute__((format(printf, 2, 3))) void notes_say(struct notes *notes, const char *format, ...);

/* 1 as "1.0", 0.25 as "0.25". */
const char *notes_real(double value, char *text);

#endif
