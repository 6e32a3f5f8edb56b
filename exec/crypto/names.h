/* The names that keys, objects and tenants go by: letters, digits, '-' and '_', 1 to 63 of them. So a name is never a path, never
 * needs quoting in a log line, and two of them side by side are told apart. */
#ifndef CRYPTO_NAMES_H
#define CRYPTO_NAMES_H

#include "base/base.h"

#define NAME_BYTES 64 /* with the '\0' */

static inline bool name_is_valid(const char *name)
{
    size_t length = 0;

    for (; name[length] != '\0'; length++) {
        const char c = name[length];

        if (length + 1 == NAME_BYTES ||
            !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
            return false;
    }
    return length > 0;
}

#endif
