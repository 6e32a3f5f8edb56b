/* What is wrong with an input, said in one look: `file:line:column: error: ...`, the line, a caret under the place. The
 * messages of one reading are gathered here first, so that several are told at once, none twice, and never a flood. */
#ifndef SCENARIO_MESSAGES_H
#define SCENARIO_MESSAGES_H

#include <stdio.h>

#include "base/base.h"

#define MESSAGES_MAX 20
#define MESSAGE_TEXT_MAX 768
#define MESSAGE_LABEL_MAX 320

/* A text that messages point into. */
struct text {
    char label[MESSAGE_LABEL_MAX]; /* the path, or "--set key=value" */
    char *bytes;                   /* [count], terminated by 0; NULL: nothing to show a caret in */
    size_t count;
};

/* Bytes of a text; count 0: the place is said, and no line shown. `text` NULL: nowhere. The text must live until the messages are printed. */
struct location {
    const struct text *text;
    size_t at;
    size_t count;
};

enum severity { SEVERITY_WARNING, SEVERITY_ERROR };

struct message {
    enum severity severity;
    struct location location;
    char text[MESSAGE_TEXT_MAX];
    char variant[72];   /* of the first variant that it was found in; "": not a matter of variants */
    uint32_t variants;  /* how many it was found in */
};

struct messages {
    struct message items[MESSAGES_MAX];
    uint32_t count;
    uint32_t errors;       /* told or not */
    uint32_t dropped;      /* messages beyond MESSAGES_MAX */
    const char *variant;   /* the one being read; NULL: none */
};

/* The same text at the same place is kept once. */
void messages_add(struct messages *messages, enum severity severity, struct location location, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* `variants_count`: a message found in all of them does not name one. */
void messages_print(const struct messages *messages, uint32_t variants_count, FILE *out);

#endif
