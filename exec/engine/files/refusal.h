/* Why something was not taken, for a person: which file, which tensor or field, what is wrong, what to do. A refusal
 * may hold several lines, one a fault, so that a person mends all of them at once. It never holds control characters of
 * the input. */
#ifndef FILES_REFUSAL_H
#define FILES_REFUSAL_H

#include "base/base.h"

#define REFUSAL_MAX 2048

struct refusal {
    char text[REFUSAL_MAX]; /* lines joined by '\n', none at the end; "" when nothing was refused */
};

/* Sets the text, or adds a line to it; what does not fit ends in "...". Both return `status`, so that `return
 * refuse(...)` reads well. */
enum status refuse(struct refusal *refusal, enum status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
enum status refuse_also(struct refusal *refusal, enum status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
