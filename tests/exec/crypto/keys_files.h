/* keys.db and what lies beside it, as somebody sees them who has the disk. */
#ifndef TESTS_EXEC_CRYPTO_KEYS_FILES_H
#define TESTS_EXEC_CRYPTO_KEYS_FILES_H

#include "crypto/wrap.h"

struct row {
    uint8_t wrapped[WRAPPED_KEY_BYTES];
};

/* Whether these bytes are in keys.db, its log, or whatever else SQLite may have left there. */
bool keys_files_hold(const char *path, const uint8_t *bytes, size_t count);
/* What the query's first column holds, read from a copy, for the file itself is locked. Returns how many rows. */
size_t keys_files_rows(const char *path, const char *query, struct row *ret_rows, size_t rows_max);

#endif
