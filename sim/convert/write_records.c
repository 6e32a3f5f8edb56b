/* oracleGeneral and lcs: records of fixed size. An lcs file is written as version 3, the first with sizes of 64 bits, every
 * operation a read; its header gets its counts last. */
#include <stdlib.h>

#include "convert/writer.h"
#include "object_lcs.h"

enum { ORACLE_BYTES = 24, LCS_BYTES = 36, LCS_READS_AT = 72, LCS_OPERATION_GET = 1 };

static void store(char *at, const void *value, size_t bytes)
{
    memcpy(at, value, bytes);
}

/* Both count from 1. */
static int64_t next_in_file(int64_t next, int64_t never)
{
    return next == OBJECT_NEXT_NEVER ? never : next + 1;
}

static bool nothing_to_begin(struct writer *writer)
{
    (void)writer;
    return true;
}

static bool end_plain(struct writer *writer)
{
    return writer_sink_good(writer);
}

static bool oracle_write(struct writer *writer, const struct object_request *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char record[ORACLE_BYTES];
        uint32_t seconds;
        uint32_t size_bytes = (uint32_t)rows[i].size_bytes;
        int64_t next = next_in_file(rows[i].next, -1);

        if (rows[i].size_bytes > UINT32_MAX)
            return writer_fail(writer, "the size %llu of request %llu does not fit into the 32 bits of oracleGeneral; convert to lcs "
                               "or berth-hdf5", (unsigned long long)rows[i].size_bytes, (unsigned long long)(writer->requests + i));
        if (!writer_seconds(writer, &rows[i], writer->requests + i, &seconds))
            return false;
        store(record, &seconds, 4);
        store(record + 4, &rows[i].id, 8);
        store(record + 12, &size_bytes, 4);
        store(record + 16, &next, 8);
        sink_write(&writer->sink, record, sizeof(record));
    }
    return writer_sink_good(writer);
}

const struct writer_format writer_format_oracle_general = {
    .name = "oracleGeneral",
    .suffix = ".oracleGeneral",
    .wants_next = true,
    .needs_all = true,
    .packs = true,
    .begin = nothing_to_begin,
    .write = oracle_write,
    .end = end_plain,
};

/* --- lcs --- */

struct lcs_counts {
    uint64_t objects; /* requests that are not followed by one of the same object: in a whole trace, as many as objects */
    uint64_t request_bytes; /* both saturate */
    uint64_t object_bytes;
    uint64_t first_s;
    uint64_t last_s;
};

static uint64_t add_up(uint64_t a, uint64_t b)
{
    return a > (uint64_t)INT64_MAX - b ? (uint64_t)INT64_MAX : a + b;
}

static bool lcs_begin(struct writer *writer)
{
    static const char nothing[LCS_HEAD_BYTES];

    writer->state = calloc(1, sizeof(struct lcs_counts));
    if (writer->state == NULL)
        return writer_fail(writer, "no memory for the header; free some");
    sink_write(&writer->sink, nothing, sizeof(nothing));
    return writer_sink_good(writer);
}

static bool lcs_write(struct writer *writer, const struct object_request *rows, uint32_t count)
{
    struct lcs_counts *counts = writer->state;

    for (uint32_t i = 0; i < count; i++) {
        char record[LCS_BYTES] = {0};
        const uint32_t operation = LCS_OPERATION_GET;
        uint32_t seconds;
        int64_t next = next_in_file(rows[i].next, INT64_MAX);

        if (!writer_seconds(writer, &rows[i], writer->requests + i, &seconds))
            return false;
        store(record, &seconds, 4);
        store(record + 4, &rows[i].id, 8);
        store(record + 12, &rows[i].size_bytes, 8);
        store(record + 20, &operation, 4);
        store(record + 28, &next, 8);
        sink_write(&writer->sink, record, sizeof(record));
        counts->request_bytes = add_up(counts->request_bytes, rows[i].size_bytes);
        if (rows[i].next == OBJECT_NEXT_NEVER) {
            counts->objects++;
            counts->object_bytes = add_up(counts->object_bytes, rows[i].size_bytes);
        }
        if (writer->requests + i == 0)
            counts->first_s = seconds;
        counts->last_s = seconds;
    }
    return writer_sink_good(writer);
}

static bool lcs_end(struct writer *writer)
{
    const struct lcs_counts *counts = writer->state;
    char head[LCS_HEAD_BYTES] = {0};

    if (counts == NULL)
        return writer_sink_good(writer);
    store(head, &(uint64_t){LCS_MAGIC}, 8);
    store(head + LCS_VERSION_AT, &(uint64_t){3}, 8);
    store(head + LCS_STATISTICS_VERSION_AT, &(uint64_t){1}, 8);
    store(head + LCS_REQUESTS_AT, &writer->requests, 8);
    store(head + LCS_OBJECTS_AT, &counts->objects, 8);
    store(head + LCS_REQUEST_BYTES_AT, &counts->request_bytes, 8);
    store(head + LCS_OBJECT_BYTES_AT, &counts->object_bytes, 8);
    store(head + LCS_FIRST_S_AT, &counts->first_s, 8);
    store(head + LCS_LAST_S_AT, &counts->last_s, 8);
    store(head + LCS_READS_AT, &writer->requests, 8);
    store(head + LCS_HEAD_BYTES - 8, &(uint64_t){LCS_MAGIC}, 8);
    sink_patch(&writer->sink, 0, head, sizeof(head));
    free(writer->state);
    writer->state = NULL;
    return writer_sink_good(writer);
}

const struct writer_format writer_format_lcs = {
    .name = "lcs",
    .suffix = ".lcs",
    .wants_next = true,
    .needs_all = true,
    .begin = lcs_begin,
    .write = lcs_write,
    .end = lcs_end,
};
