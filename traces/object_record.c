/* Requests out of fixed records: one pass over what the chunk holds, and a second look only at what is wrong. */
#include "object_record.h"

static inline uint32_t load_u32(const char *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static inline uint64_t load_u64(const char *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static inline bool next_is_never(uint64_t next)
{
    return next == UINT64_MAX || next == INT64_MAX;
}

/* A next access is behind its own request; numbers count from 1 in the file, rows from 0 here. */
static inline bool next_is_wrong(uint64_t next, uint64_t row)
{
    return !next_is_never(next) && (next <= row + 1 || next > INT64_MAX);
}

/* Returns whether something is wrong. */
static bool decode(const char *at, struct record_layout layout, bool with_next, uint64_t row,
                                                         struct object_request *rows, uint32_t count)
{
    bool wrong = false;

    for (uint32_t i = 0; i < count; i++, at += layout.bytes) {
        uint64_t size_bytes = layout.size_is_64 ? load_u64(at + layout.size_at) : load_u32(at + layout.size_at);
        uint64_t next = load_u64(at + layout.next_at);

        rows[i].id = load_u64(at + 4);
        rows[i].size_bytes = size_bytes;
        rows[i].at_ns = (int64_t)load_u32(at) * NS_PER_S;
        rows[i].next = !with_next ? OBJECT_NEXT_UNKNOWN : next_is_never(next) ? OBJECT_NEXT_NEVER : (int64_t)(next - 1);
        wrong |= size_bytes > OBJECT_SIZE_MAX || (with_next && next_is_wrong(next, row + i));
    }
    return wrong;
}

/* Returns how many records are good before the first bad one, which is refused. */
static uint32_t refuse_first(struct object_trace *trace, const struct record_layout *layout, uint32_t count)
{
    const char *at = trace->chunk + trace->start;

    for (uint32_t i = 0; i < count; i++, at += layout->bytes) {
        uint64_t row = trace->row + i;
        uint64_t byte = trace->chunk_at + (uint64_t)i * layout->bytes;
        uint64_t next = load_u64(at + layout->next_at);

        if (layout->size_is_64 && load_u64(at + layout->size_at) > OBJECT_SIZE_MAX) {
            object_refuse_record(trace, row, byte, "the size %lld is negative; is it a %s trace?",
                                 (long long)load_u64(at + layout->size_at), trace->format->name);
            return i;
        }
        if (!trace->options.ignore_next && next_is_wrong(next, row)) {
            object_refuse_record(trace, row, byte,
                                 "the next access %lld (counted from 1) is not behind this request; is it a %s trace? If so, "
                                 "ignore its next accesses", (long long)next, trace->format->name);
            return i;
        }
    }
    return count;
}

/* How many whole records are at hand, up to `max`; none: why is said. */
static uint32_t records_at_hand(struct object_trace *trace, uint32_t bytes, uint32_t max)
{
    uint32_t count;

    if (object_left(trace) < bytes && !object_more(trace, bytes))
        return 0;
    count = (uint32_t)min_u64(object_left(trace) / bytes, max);
    if (count == 0 && object_left(trace) > 0)
        object_refuse_record(trace, trace->row, trace->chunk_at,
                             "the last record is cut, %zu bytes of %u; fetch the file again, or cut it to %llu bytes",
                             object_left(trace), bytes, (unsigned long long)trace->chunk_at);
    else if (count == 0)
        trace->end = STATUS_END;
    return count;
}

uint32_t record_fill(struct object_trace *trace, const struct record_layout *layout, struct object_request *rows, uint32_t max)
{
    bool with_next = !trace->options.ignore_next;
    uint32_t count = records_at_hand(trace, layout->bytes, max);

    if (decode(trace->chunk + trace->start, *layout, with_next, trace->row, rows, count))
        count = refuse_first(trace, layout, count);
    object_used(trace, (size_t)count * layout->bytes);
    return count;
}

/* --- oracleGeneral in columns --- */

static const struct record_layout oracle = {.bytes = 24, .size_at = 12, .next_at = 16};

/* What the chunk's first `count` say besides. */
struct seen {
    uint64_t backward, zero_sizes, bytes;
    uint32_t last_s;
    bool wrong;
};

/* One pass. Whether a next access is wrong is one comparison for all but -1: below row + 2 it comes round. */
static inline __attribute__((always_inline)) struct seen decode_columns(const char *at, bool with_next, uint64_t row, uint32_t last_s,
                                                                        struct object_columns_read *to, bool gives_next, uint32_t count)
{
    struct seen seen = {.last_s = last_s};

    for (uint32_t i = 0; i < count; i++, at += oracle.bytes) {
        const uint32_t at_s = load_u32(at);
        const uint32_t size_bytes = load_u32(at + oracle.size_at);
        const uint64_t next = load_u64(at + oracle.next_at);

        to->ids[i] = load_u64(at + 4);
        to->sizes_bytes[i] = size_bytes;
        seen.bytes += size_bytes;
        seen.backward += at_s < seen.last_s;
        seen.zero_sizes += size_bytes == 0;
        seen.last_s = at_s;
        if (with_next)
            seen.wrong |= next - (row + i + 2) > INT64_MAX - (row + i + 2) && next != UINT64_MAX;
        if (gives_next)
            to->next[i] = !with_next ? OBJECT_NEXT_UNKNOWN : next_is_never(next) ? OBJECT_NEXT_NEVER : (int64_t)(next - 1);
    }
    return seen;
}

static struct seen decode_any(const struct object_trace *trace, struct object_columns_read *to, uint32_t count)
{
    const char *at = trace->chunk + trace->start;
    const uint32_t last_s = (uint32_t)(trace->last_ns / NS_PER_S);

    if (to->next != NULL)
        return decode_columns(at, !trace->options.ignore_next, trace->row, last_s, to, true, count);
    return trace->options.ignore_next ? decode_columns(at, false, trace->row, last_s, to, false, count)
                                      : decode_columns(at, true, trace->row, last_s, to, false, count);
}

uint32_t record_fill_columns(struct object_trace *trace, struct object_columns_read *to, uint32_t max)
{
    uint32_t count = records_at_hand(trace, oracle.bytes, max);
    struct seen seen = decode_any(trace, to, count);

    if (seen.wrong) {
        count = refuse_first(trace, &oracle, count);
        seen = decode_any(trace, to, count);
    }
    to->bytes = seen.bytes;
    trace->info.backward += seen.backward;
    trace->info.zero_sizes += seen.zero_sizes;
    trace->last_ns = (int64_t)seen.last_s * NS_PER_S;
    object_used(trace, (size_t)count * oracle.bytes);
    return count;
}
