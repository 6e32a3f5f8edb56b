/* lcs, libCacheSim's format with a header (traceReader/customizedReader/lcs.h there): 8,192 bytes between two magic numbers,
 * with the version at byte 8 and the number of requests at byte 24, then records that begin with u32 seconds and u64 id.
 *   version 1: u32 size, i64 next (24 bytes)         2: u32 size, u32 operation and tenant, i64 next (28)
 *   version 3: i64 size, u32 operation and tenant, u32 time to live, i64 next (36)
 *   versions 4 to 8: as 3, and 1, 2, 4, 8 or 16 numbers of 32 bits behind it
 * Operations, tenants, times to live and the numbers behind are passed over. */
#include "object_lcs.h"
#include "object_record.h"

static const struct record_layout layouts[LCS_VERSION_MAX + 1] = {
    [1] = {.bytes = 24, .size_at = 12, .next_at = 16},
    [2] = {.bytes = 28, .size_at = 12, .next_at = 20},
    [3] = {.bytes = 36, .size_at = 12, .size_is_64 = true, .next_at = 28},
    [4] = {.bytes = 40, .size_at = 12, .size_is_64 = true, .next_at = 28},
    [5] = {.bytes = 44, .size_at = 12, .size_is_64 = true, .next_at = 28},
    [6] = {.bytes = 52, .size_at = 12, .size_is_64 = true, .next_at = 28},
    [7] = {.bytes = 68, .size_at = 12, .size_is_64 = true, .next_at = 28},
    [8] = {.bytes = 100, .size_at = 12, .size_is_64 = true, .next_at = 28},
};

static uint64_t word_at(const struct object_trace *trace, size_t offset)
{
    uint64_t word;

    memcpy(&word, trace->chunk + trace->start + offset, sizeof(word));
    return word;
}

static bool lcs_recognise(const struct object_trace *trace)
{
    return object_left(trace) >= 8 && word_at(trace, 0) == LCS_MAGIC;
}

static enum status lcs_start(struct object_trace *trace)
{
    uint64_t version;

    if (!object_more(trace, LCS_HEAD_BYTES))
        return trace->end;
    if (!lcs_recognise(trace))
        return object_say(trace, STATUS_CORRUPT, "it does not begin with the magic number of lcs; name another format");
    if (object_left(trace) < LCS_HEAD_BYTES)
        return object_say(trace, STATUS_CORRUPT, "the header is cut, %zu bytes of %d; fetch the file again", object_left(trace),
                          LCS_HEAD_BYTES);
    if (word_at(trace, LCS_HEAD_BYTES - 8) != LCS_MAGIC)
        return object_say(trace, STATUS_CORRUPT,
                          "no magic number ends its header of %d bytes (that of before 2025 had 1,024); convert it to oracleGeneral "
                          "with the libCacheSim that wrote it", LCS_HEAD_BYTES);
    version = word_at(trace, LCS_VERSION_AT);
    if (version < 1 || version > LCS_VERSION_MAX)
        return object_say(trace, STATUS_CORRUPT, "version %llu of lcs is not known; there are 1 to %d", (unsigned long long)version,
                          LCS_VERSION_MAX);
    trace->lcs_version = (uint32_t)version;
    trace->lcs_requests = word_at(trace, LCS_REQUESTS_AT);
    object_used(trace, LCS_HEAD_BYTES);
    return STATUS_OK;
}

static uint32_t lcs_fill(struct object_trace *trace, struct object_request *rows, uint32_t max)
{
    uint32_t count = record_fill(trace, &layouts[trace->lcs_version], rows, max);

    /* The one format that knows where it ends. 0: written before the header said so. */
    if (trace->end == STATUS_END && trace->lcs_requests != 0 && trace->lcs_requests != trace->row + count)
        object_say(trace, STATUS_CORRUPT, "the header says %llu requests and there are %llu; fetch the file again",
                   (unsigned long long)trace->lcs_requests, (unsigned long long)trace->row + count);
    return count;
}

const struct object_format object_format_lcs = {
    .name = "lcs",
    .about = "libCacheSim's records behind a header, versions 1 to 8",
    .has_next = true,
    .has_size = true,
    .has_time = true,
    .recognise = lcs_recognise,
    .start = lcs_start,
    .fill = lcs_fill,
};
