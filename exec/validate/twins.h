/* Which line had this hash before: a table that grows to a bound and then takes no more. Two lines with equal hashes of 64 bits are taken for
 * equal; among a million different ones that happens once in ten million files. */
#ifndef VALIDATE_TWINS_H
#define VALIDATE_TWINS_H

#include "base/base.h"

struct twin {
    uint64_t hash;
    uint32_t other;       /* the caller's: what may differ between twins */
    int32_t line;         /* 0: no entry */
};
struct twins {
    struct twin *entries;
    uint32_t capacity;    /* a power of two, at most half full */
    uint32_t count;
    uint32_t count_max;
};

/* The first that was added with this hash; NULL: none. */
const struct twin *twins_find(const struct twins *twins, uint64_t hash);
/* False: the table is full, or too many hashes end alike. The hash must not be there yet. */
bool twins_add(struct twins *twins, uint64_t hash, uint32_t other, int32_t line);
void twins_free(struct twins *twins);

#endif
