#define _DEFAULT_SOURCE /* madvise */
#include "cachelab/pages.h"

#include <stdlib.h>
#include <sys/mman.h>

#define LINE_BYTES 64u
#define LARGE_BYTES ((size_t)2 << 20)

void *pages_alloc(size_t bytes)
{
    const bool large = bytes >= LARGE_BYTES;
    void *memory = NULL;

    if (posix_memalign(&memory, large ? LARGE_BYTES : LINE_BYTES, bytes > 0 ? bytes : 1) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (large)
        (void)madvise(memory, bytes / LARGE_BYTES * LARGE_BYTES, MADV_HUGEPAGE); /* a machine that has none is slower, that's all */
#endif
    return memory;
}
