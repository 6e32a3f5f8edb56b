/* Where things stand in an lcs file, for its reader and for who writes one. */
#ifndef TRACES_OBJECT_LCS_H
#define TRACES_OBJECT_LCS_H

#include "base/base.h"

#define LCS_MAGIC UINT64_C(0x123456789abcdef0)
enum {
    LCS_HEAD_BYTES = 8192, /* the magic number is its first word and its last */
    LCS_VERSION_AT = 8,
    LCS_STATISTICS_VERSION_AT = 16,
    LCS_REQUESTS_AT = 24,
    LCS_OBJECTS_AT = 32,
    LCS_REQUEST_BYTES_AT = 40,
    LCS_OBJECT_BYTES_AT = 48,
    LCS_FIRST_S_AT = 56,
    LCS_LAST_S_AT = 64,
    LCS_VERSION_MAX = 8
};

#endif
