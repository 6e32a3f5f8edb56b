/* A file that comes into being whole or not at all: written under a temporary name beside its own, renamed when finished.
 * Buffered; packed with zstd where that is asked for. The first failure is kept, and nothing is written after it. */
#ifndef CONVERT_SINK_H
#define CONVERT_SINK_H

#include "base/base.h"

#define SINK_PROBLEM_MAX 256

struct sink {
    char *path;
    char *temporary_path;
    int fd;
    void *zstd;            /* ZSTD_CCtx; NULL: plain */
    char *buffer;          /* [SINK_BUFFER_BYTES] */
    char *packed;          /* [packed_bytes], where zstd is */
    size_t packed_bytes;
    size_t used;           /* of the buffer */
    uint64_t bytes;        /* in the file, once it is finished */
    bool failed;
    char problem[SINK_PROBLEM_MAX]; /* of the failure */
};

/* Takes the temporary name. On failure the sink holds nothing but the problem. */
enum status sink_open(struct sink *sink, const char *path, bool pack);
bool sink_write(struct sink *sink, const void *bytes, size_t count);
/* Over what was written before, from `at` on; plain sinks only. */
bool sink_patch(struct sink *sink, uint64_t at, const void *bytes, size_t count);
/* Puts the file in its place, or, after a failure, nothing; ends the sink either way. */
enum status sink_finish(struct sink *sink);
/* No file; ends the sink. */
void sink_abandon(struct sink *sink);
/* For who writes to the temporary name by itself. "what: why". */
void sink_fail(struct sink *sink, const char *what, const char *why);

#endif
