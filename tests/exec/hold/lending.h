/* The promises of a base that processes share, each kept or not by processes that are really there: the caller forks a holder and borrowers,
 * so nothing of the device may be open in it. libc alone, so that the same runs under the emulation and on a GPU. */
#ifndef TESTS_HOLD_LENDING_H
#define TESTS_HOLD_LENDING_H

#include "engine/device/device.h"

#define BORROWERS_MAX 4

enum lending_shape { LENDING_PLAIN, LENDING_BIASED, LENDING_SHAPES };
enum lending_write { LENDING_PUT, LENDING_KERNEL, LENDING_WRITES };

/* All answer NULL when it is kept, else what is not; the text lives until the next call. `shape` is of the base: a head of its own, or biases,
 * norms of heads and a head that is the embedding. */

/* Each of several borrowers finds the bytes, strides and neighbours that it gets when it loads the base itself. */
const char *lending_same_bits(const struct device *device, enum lending_shape shape);
/* The same after the holder was killed; `borrowers` map before and look after. */
const char *lending_outlives_holder(const struct device *device, enum lending_shape shape);
/* A borrower that writes to the base is ended by it, and the others still find the base as it was. */
const char *lending_write_ends_writer(const struct device *device, enum lending_write write);
/* Another base's digest, another model's shapes: refused. */
const char *lending_refuses_others(const struct device *device);

/* A holder and borrowers that have mapped the base and read all of it, for who wants to look at their memory. */
struct lending {
    int holder;
    int borrower[BORROWERS_MAX];
    int64_t bytes;              /* of the allocation */
};
const char *lending_begin(const struct device *device, int borrowers, struct lending *ret_lending);
const char *lending_end(void);

#endif
