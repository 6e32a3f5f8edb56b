/* Texts as dense numbers in order of appearance, exact: texts are compared, hashes only find them. Growing: the text, 8 bytes
 * of its place and 16 to 32 of the table for each. */
#ifndef TRACES_OBJECT_NAMES_H
#define TRACES_OBJECT_NAMES_H

#include "base/base.h"

struct name_cell {
    uint32_t tag;    /* of the hash, so that most other texts are passed by unread */
    uint32_t number; /* NONE_INDEX: empty */
};

struct object_names {
    char *text; /* all of them, one behind the other */
    size_t text_used;
    size_t text_bytes;
    size_t *ends; /* [count_max] of each in `text` */
    uint32_t count;
    uint32_t count_max;
    struct name_cell *cells; /* [mask + 1], at most half full; NULL at first */
    uint32_t mask;
};

/* The number of a text, which is new when it was not there. FULL: no memory, or 2^30 texts. */
enum status object_names_number(struct object_names *names, const char *text, size_t length, uint32_t *ret_number);
const char *object_names_text(const struct object_names *names, uint32_t number, size_t *ret_length);
/* Leaves it empty, as all zero is. */
void object_names_free(struct object_names *names);

#endif
