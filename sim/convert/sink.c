/* Buffered writing to a temporary name, plain or through zstd. */
#include "convert/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zstd.h>

enum { BUFFER_BYTES = 1 << 20, ZSTD_LEVEL = 3 };

void sink_fail(struct sink *sink, const char *what, const char *why)
{
    if (sink->failed)
        return;
    sink->failed = true;
    snprintf(sink->problem, sizeof(sink->problem), "%s: %s", what, why);
}

static void sink_free(struct sink *sink)
{
    if (sink->fd >= 0)
        close(sink->fd);
    sink->fd = -1;
    ZSTD_freeCCtx(sink->zstd);
    free(sink->path);
    free(sink->temporary_path);
    free(sink->buffer);
    free(sink->packed);
    sink->zstd = NULL;
    sink->path = NULL;
    sink->temporary_path = NULL;
    sink->buffer = NULL;
    sink->packed = NULL;
}

static bool take_memory(struct sink *sink, const char *path, bool pack)
{
    size_t temporary_bytes = strlen(path) + 32;

    sink->path = malloc(strlen(path) + 1);
    sink->temporary_path = malloc(temporary_bytes);
    sink->buffer = malloc(BUFFER_BYTES);
    if (sink->path == NULL || sink->temporary_path == NULL || sink->buffer == NULL)
        return false;
    memcpy(sink->path, path, strlen(path) + 1);
    snprintf(sink->temporary_path, temporary_bytes, "%s.part%ld", path, (long)getpid());
    if (!pack)
        return true;
    sink->zstd = ZSTD_createCCtx();
    sink->packed_bytes = ZSTD_CStreamOutSize();
    sink->packed = malloc(sink->packed_bytes);
    return sink->zstd != NULL && sink->packed != NULL &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(sink->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL)) &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(sink->zstd, ZSTD_c_checksumFlag, 1));
}

enum status sink_open(struct sink *sink, const char *path, bool pack)
{
    struct stat there;

    *sink = (struct sink){.fd = -1};
    if (!take_memory(sink, path, pack))
        sink_fail(sink, "cannot create it", "no memory");
    else if (stat(path, &there) == 0 && S_ISDIR(there.st_mode))
        sink_fail(sink, "cannot create it", "it is a directory");
    else if ((sink->fd = open(sink->temporary_path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666)) < 0)
        sink_fail(sink, "cannot create it", strerror(errno));
    if (sink->failed)
        sink_free(sink);
    return sink->failed ? STATUS_IO : STATUS_OK;
}

static bool write_all(struct sink *sink, const char *bytes, size_t count)
{
    while (count > 0 && !sink->failed) {
        ssize_t written = write(sink->fd, bytes, count);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            sink_fail(sink, "cannot write it", written == 0 ? "nothing more is taken" : strerror(errno));
            break;
        }
        bytes += written;
        count -= (size_t)written;
    }
    return !sink->failed;
}

/* What the buffer holds goes out. */
static bool flush(struct sink *sink, ZSTD_EndDirective directive)
{
    ZSTD_inBuffer in = {sink->buffer, sink->used, 0};
    size_t left = 1;

    sink->used = 0;
    if (sink->zstd == NULL)
        return write_all(sink, sink->buffer, in.size);
    while (!sink->failed && (in.pos < in.size || (directive == ZSTD_e_end && left > 0))) {
        ZSTD_outBuffer out = {sink->packed, sink->packed_bytes, 0};

        left = ZSTD_compressStream2(sink->zstd, &out, &in, directive);
        if (ZSTD_isError(left))
            sink_fail(sink, "cannot pack it", ZSTD_getErrorName(left));
        else
            write_all(sink, sink->packed, out.pos);
    }
    return !sink->failed;
}

bool sink_write(struct sink *sink, const void *bytes, size_t count)
{
    const char *at = bytes;

    while (count > 0 && !sink->failed) {
        size_t fits = min_u64(BUFFER_BYTES - sink->used, count);

        memcpy(sink->buffer + sink->used, at, fits);
        sink->used += fits;
        at += fits;
        count -= fits;
        if (sink->used == BUFFER_BYTES)
            flush(sink, ZSTD_e_continue);
    }
    return !sink->failed;
}

bool sink_patch(struct sink *sink, uint64_t at, const void *bytes, size_t count)
{
    check(sink->zstd == NULL);
    if (flush(sink, ZSTD_e_continue) && pwrite(sink->fd, bytes, count, (off_t)at) != (ssize_t)count)
        sink_fail(sink, "cannot write it", "its header cannot be completed");
    return !sink->failed;
}

enum status sink_finish(struct sink *sink)
{
    struct stat written;

    if (!sink->failed)
        flush(sink, ZSTD_e_end);
    if (!sink->failed && fstat(sink->fd, &written) == 0)
        sink->bytes = (uint64_t)written.st_size; /* whoever wrote to the temporary name by itself has not said */
    if (!sink->failed && close(sink->fd) != 0)
        sink_fail(sink, "cannot write it", strerror(errno));
    else if (sink->failed)
        close(sink->fd);
    sink->fd = -1;
    if (!sink->failed && rename(sink->temporary_path, sink->path) != 0)
        sink_fail(sink, "cannot put it in place", strerror(errno));
    if (sink->failed)
        unlink(sink->temporary_path);
    sink_free(sink);
    return sink->failed ? STATUS_IO : STATUS_OK;
}

void sink_abandon(struct sink *sink)
{
    if (sink->temporary_path != NULL)
        unlink(sink->temporary_path);
    sink_free(sink);
}
