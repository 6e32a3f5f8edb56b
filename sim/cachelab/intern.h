/* Object ids as dense numbers: the first id met is 0, the next new one 1, and so on, so that everything kept by object is
 * an array. Exact (ids are compared, not their hashes) and growing: 4 to 32 bytes an object where most ids are small, 32 to 80 where they
 * are any numbers. */
#ifndef CACHELAB_INTERN_H
#define CACHELAB_INTERN_H

#include "base/base.h"

/* Numbers stay below this, NONE_INDEX among what is above. */
#define INTERN_MAX (UINT32_MAX - 1)
/* Looked up together, so that their cells come from memory together. */
#define INTERN_BATCH_MAX 256

struct intern;

/* FULL: no memory. */
enum status intern_create(struct intern **ret_intern);
void intern_free(struct intern *intern);

/* The numbers of ids[0 .. count), count <= INTERN_BATCH_MAX. FULL: no memory, or too many objects; none of them is new then. */
enum status intern_ids(struct intern *intern, const uint64_t *ids, uint32_t count, uint32_t *ret_numbers);
/* Ids met so far. */
uint32_t intern_count(const struct intern *intern);
/* What the table takes. */
uint64_t intern_bytes(const struct intern *intern);

#endif
