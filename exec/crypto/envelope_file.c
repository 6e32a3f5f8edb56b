#include <errno.h>
#include <unistd.h>

#include "crypto/envelope.h"

enum status envelope_to_file(void *context, const void *bytes, size_t count)
{
    const char *at = bytes;

    while (count > 0) {
        ssize_t done = write(*(const int *)context, at, count);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return STATUS_IO;
        at += done;
        count -= (size_t)done;
    }
    return STATUS_OK;
}

enum status envelope_from_file(void *context, uint64_t offset, void *ret_bytes, size_t count)
{
    char *at = ret_bytes;

    while (count > 0) {
        ssize_t got = pread(*(const int *)context, at, count, (off_t)offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? STATUS_IO : STATUS_CORRUPT;
        at += got;
        offset += (uint64_t)got;
        count -= (size_t)got;
    }
    return STATUS_OK;
}
