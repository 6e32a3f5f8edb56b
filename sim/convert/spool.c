/* Requests in a file that has no name, and a walk from its end to its beginning. */
#include "convert/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cachelab/intern.h"

static enum status fail(struct spool *spool, const char *what)
{
    snprintf(spool->problem, sizeof(spool->problem), "%s: %s", what, errno != 0 ? strerror(errno) : "no reason given");
    return STATUS_IO;
}

enum status spool_open(struct spool *spool, const char *path)
{
    size_t bytes = strlen(path) + 40;
    char *name = malloc(bytes);

    *spool = (struct spool){.fd = -1, .buffer = malloc(SPOOL_ROWS * sizeof(struct object_request))};
    errno = ENOMEM;
    if (name != NULL && spool->buffer != NULL) {
        snprintf(name, bytes, "%s.requests%ld", path, (long)getpid());
        spool->fd = open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        if (spool->fd >= 0)
            unlink(name);
    }
    free(name);
    return spool->fd >= 0 ? STATUS_OK : fail(spool, "cannot set requests aside");
}

void spool_close(struct spool *spool)
{
    if (spool->fd >= 0)
        close(spool->fd);
    free(spool->buffer);
    *spool = (struct spool){.fd = -1};
}

static enum status put(struct spool *spool, uint64_t first, uint32_t count)
{
    const char *at = (const char *)spool->buffer;
    size_t left = count * sizeof(struct object_request);
    off_t to = (off_t)(first * sizeof(struct object_request));

    while (left > 0) {
        ssize_t written = pwrite(spool->fd, at, left, to);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return fail(spool, "cannot set requests aside");
        at += written;
        to += written;
        left -= (size_t)written;
    }
    return STATUS_OK;
}

static enum status take(struct spool *spool, uint64_t first, uint32_t count)
{
    char *at = (char *)spool->buffer;
    size_t left = count * sizeof(struct object_request);
    off_t from = (off_t)(first * sizeof(struct object_request));

    while (left > 0) {
        ssize_t got = pread(spool->fd, at, left, from);

        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = 0;
        if (got <= 0)
            return fail(spool, "cannot read the requests set aside");
        at += got;
        from += got;
        left -= (size_t)got;
    }
    return STATUS_OK;
}

static enum status flush(struct spool *spool)
{
    uint32_t count = spool->buffered;

    spool->buffered = 0;
    return put(spool, spool->requests - count, count);
}

enum status spool_add(struct spool *spool, const struct object_request *rows, uint32_t count)
{
    while (count > 0) {
        uint32_t fits = min_u32(SPOOL_ROWS - spool->buffered, count);

        memcpy(spool->buffer + spool->buffered, rows, fits * sizeof(*rows));
        spool->buffered += fits;
        spool->requests += fits;
        rows += fits;
        count -= fits;
        if (spool->buffered == SPOOL_ROWS && flush(spool) != STATUS_OK)
            return STATUS_IO;
    }
    return STATUS_OK;
}

/* What is known of the requests behind. */
struct behind {
    struct intern *intern;
    int64_t *next; /* [next_max] of each object: its first request behind */
    uint32_t next_max;
};

static bool behind_grow(struct behind *behind)
{
    uint32_t count = intern_count(behind->intern);
    uint32_t next_max = behind->next_max;
    int64_t *next;

    if (count <= next_max)
        return true;
    while (next_max < count)
        next_max = next_max < UINT32_MAX / 2 ? next_max * 2 + 1024 : UINT32_MAX;
    next = realloc(behind->next, next_max * sizeof(*next));
    if (next == NULL)
        return false;
    for (uint32_t i = behind->next_max; i < next_max; i++)
        next[i] = OBJECT_NEXT_NEVER;
    behind->next = next;
    behind->next_max = next_max;
    return true;
}

/* Rows of one batch, which begin with request `first`, from the last to the first. */
static bool find_in_batch(struct behind *behind, struct object_request *rows, uint64_t first, uint32_t count)
{
    uint64_t ids[INTERN_BATCH_MAX];
    uint32_t numbers[INTERN_BATCH_MAX];

    for (uint32_t i = 0; i < count; i++)
        ids[i] = rows[i].id;
    if (intern_ids(behind->intern, ids, count, numbers) != STATUS_OK || !behind_grow(behind))
        return false;
    for (uint32_t i = count; i-- > 0;) {
        rows[i].next = behind->next[numbers[i]];
        behind->next[numbers[i]] = (int64_t)(first + i);
    }
    return true;
}

static enum status find_in_block(struct spool *spool, struct behind *behind, uint64_t first, uint32_t count)
{
    uint32_t end = count;
    enum status status = take(spool, first, count);

    while (status == STATUS_OK && end > 0) {
        uint32_t begin = (end - 1) / INTERN_BATCH_MAX * INTERN_BATCH_MAX;

        errno = ENOMEM;
        if (!find_in_batch(behind, spool->buffer + begin, first + begin, end - begin))
            status = fail(spool, "cannot find next accesses");
        end = begin;
    }
    return status == STATUS_OK ? put(spool, first, count) : status;
}

enum status spool_find_next(struct spool *spool)
{
    struct behind behind = {0};
    enum status status = flush(spool);
    uint64_t end = spool->requests;

    errno = ENOMEM;
    if (status == STATUS_OK && intern_create(&behind.intern) != STATUS_OK)
        status = fail(spool, "cannot find next accesses");
    while (status == STATUS_OK && end > 0) {
        uint64_t first = (end - 1) / SPOOL_ROWS * SPOOL_ROWS;

        status = find_in_block(spool, &behind, first, (uint32_t)(end - first));
        end = first;
    }
    free(behind.next);
    intern_free(behind.intern);
    return status;
}

enum status spool_read(struct spool *spool, uint64_t first, const struct object_request **ret_rows, uint32_t *ret_count)
{
    uint32_t count = (uint32_t)min_u64(spool->requests - first, SPOOL_ROWS);
    enum status status = take(spool, first, count);

    *ret_rows = spool->buffer;
    *ret_count = status == STATUS_OK ? count : 0;
    return status;
}
