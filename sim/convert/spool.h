/* Requests set aside in a file without a name until the whole trace is known: a next access is known only from behind. Its
 * memory grows with objects (at most 80 bytes each), its file with requests (32 bytes each). */
#ifndef CONVERT_SPOOL_H
#define CONVERT_SPOOL_H

#include "object_trace.h"

struct spool {
    int fd;
    uint64_t requests;
    uint32_t buffered;
    struct object_request *buffer; /* [SPOOL_ROWS] */
    char problem[256];
};

enum { SPOOL_ROWS = 1 << 15 };

/* In the folder of `path`, where the output needs room anyway. On failure there is a problem, and spool_close() does no harm. */
enum status spool_open(struct spool *spool, const char *path);
enum status spool_add(struct spool *spool, const struct object_request *rows, uint32_t count);
/* Once, after the last: each request's `next`, from the last to the first. */
enum status spool_find_next(struct spool *spool);
/* Requests from `first` on, at most SPOOL_ROWS; none behind the last. They stay until the next call. */
enum status spool_read(struct spool *spool, uint64_t first, const struct object_request **ret_rows, uint32_t *ret_count);
void spool_close(struct spool *spool);

#endif
