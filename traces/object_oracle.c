/* oracleGeneral, the binary format of libCacheSim: packed little-endian records of 24 bytes, no header.
 *   u32 seconds; u64 id; u32 bytes; i64 next: number of the next request of this id counted from 1, -1 or 2^63-1: never. */
#include "object_reader.h"
#include "object_record.h"

enum { RECORD_BYTES = 24 };

static uint32_t oracle_fill(struct object_trace *trace, struct object_request *rows, uint32_t max)
{
    static const struct record_layout layout = {.bytes = RECORD_BYTES, .size_at = 12, .next_at = 16};

    return record_fill(trace, &layout, rows, max);
}

const struct object_format object_format_oracle_general = {
    .name = "oracleGeneral",
    .about = "libCacheSim's records of 24 bytes: time (s), id, size, next access",
    .has_next = true,
    .has_size = true,
    .has_time = true,
    .file_part = "oraclegeneral",
    .fill = oracle_fill,
    .fill_columns = record_fill_columns,
};
