/* Texts as dense numbers in order of appearance, exact: texts are compared, hashes only find them. Growing: the text, 8 bytes
 * of its place and 32 to 64 of the table for each. Looked up together, so that memory is waited for together. */
#ifndef TRACES_OBJECT_NAMES_H
#define TRACES_OBJECT_NAMES_H

#include "base/base.h"

enum { NAME_BYTES_MAX = 1024, NAMES_BATCH_MAX = 32 };

struct name_cell {
    uint32_t tag;    /* low bits of the hash, some of which are the place */
    uint32_t number; /* NONE_INDEX: empty */
    uint64_t place;  /* in `text`, times PLACE_LENGTHS, and the length */
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

struct name_wanted {
    const char *text;
    size_t length; /* 1 .. NAME_BYTES_MAX */
    uint64_t *ret_number; /* set to `first` + its number */
};

/* Numbers of up to NAMES_BATCH_MAX texts; those that were not there are new, in this order. FULL: no memory, or 2^30 texts. */
enum status object_names_numbers(struct object_names *names, const struct name_wanted *wanted, uint32_t count, uint64_t first);
const char *object_names_text(const struct object_names *names, uint32_t number, size_t *ret_length);
/* Leaves it empty, as all zero is. */
void object_names_free(struct object_names *names);

#endif
