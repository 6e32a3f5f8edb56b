/* Traces for caches: an object request is who, how large, when, and, where the format knows it, when next. Streaming and in
 * batches: a reader holds one chunk of the file, whatever its length, and each distinct id that is a text. Plain, gzip and
 * zstd are told apart by content. Bad input is refused with its place and a remedy; nothing is repaired or left out: zero
 * sizes and times that go back are kept and counted. */
#ifndef TRACES_OBJECT_TRACE_H
#define TRACES_OBJECT_TRACE_H

#include "trace.h"

#define OBJECT_NEXT_NEVER INT64_MAX   /* not asked for again */
#define OBJECT_NEXT_UNKNOWN INT64_MIN /* the format doesn't say */
#define OBJECT_SIZE_MAX ((UINT64_C(1) << 63) - 1)
#define OBJECT_NAMES_BEGIN (UINT64_C(1) << 63)
#define OBJECT_NAME_MAX 1024 /* bytes of an id that is a text */

struct object_request {
    /* In binary formats any number. In texts, a decimal below 2^64 without leading zeros is itself; every other text is
     * 2^63 + its number among the distinct ones, in order of appearance (exact, no hashes). A trace that has such texts and
     * numbers of 2^63 and above is refused. */
    uint64_t id;
    uint64_t size_bytes; /* 0 .. OBJECT_SIZE_MAX */
    int64_t at_ns;       /* as the file counts, from 0; 0 where it has no time */
    int64_t next;        /* number of the next request of this id, requests counted from 0; beyond the last of a trace that was cut */
};

/* For csv, each by its name in the header or by its number from 1; empty: by its usual name (id, obj_id, object_id, object,
 * key; size, obj_size, object_size, size_bytes, bytes; time, timestamp, clock_time, real_time), or absent. When all are numbers
 * and the first line's size and time read as such, there is no header. */
struct object_columns {
    char id[TRACE_ID_MAX];
    char size[TRACE_ID_MAX];
    char time[TRACE_ID_MAX];
    char adapter[TRACE_ID_MAX]; /* instead of the id: it is a csv of requests to models (trace.h), and only `time` goes with it */
    enum trace_time_unit time_unit;
    char separator; /* 0: a comma, which goes with quotes; others do not */
};

struct object_options {
    const struct object_columns *columns; /* csv only; NULL: all empty */
    uint64_t size_bytes; /* of each object where the format has no sizes; 0: 1; refused where it has */
    bool ignore_next;    /* what the file says of it is neither checked nor given */
};

struct object_trace_info {
    const char *format;
    bool has_next;
    bool has_size;
    bool has_time;
    uint64_t requests;   /* given so far, as all below */
    uint64_t backward;   /* times before the row above: kept */
    uint64_t zero_sizes; /* kept */
    uint64_t passed_over; /* requests for the base in a trace of requests to models */
};

struct object_trace;

/* format: one of object_format_at(), or NULL: guessed from the first bytes, then from the file's name. options: NULL is all
 * zero. On failure one message is in ret_message (TRACE_MESSAGE_MAX bytes): STATUS_INVALID and STATUS_NOT_FOUND for what was
 * asked, STATUS_CORRUPT for what is in the file, STATUS_IO for the machine. */
enum status object_trace_open(const char *path, const char *format, const struct object_options *options,
                              struct object_trace **ret_trace, char *ret_message);
/* Up to `max` > 0 requests into `rows`: STATUS_OK and at least one; STATUS_END and none after the last; STATUS_CORRUPT or
 * STATUS_IO and none with object_trace_message(). Rows before a bad one are given first. */
enum status object_trace_read(struct object_trace *trace, struct object_request *rows, uint32_t max, uint32_t *ret_count);
/* The same into arrays of `max` each, for who goes through millions of them. */
struct object_columns_read {
    uint64_t *ids;
    uint64_t *sizes_bytes;
    int64_t *next;  /* NULL: not wanted */
    uint128 bytes;  /* the sum of sizes_bytes[] */
};
enum status object_trace_read_columns(struct object_trace *trace, struct object_columns_read *to, uint32_t max, uint32_t *ret_count);
/* To the first request, also after a failure; texts keep their numbers. STATUS_IO for what cannot seek (a pipe). */
enum status object_trace_rewind(struct object_trace *trace);
/* The text that an id stands for, not closed by a NUL; NULL when it is a number. Valid until the next read. */
const char *object_trace_name(const struct object_trace *trace, uint64_t id, size_t *ret_length);
/* How many requests it may have in all, by what so large a part of the file has given: for progress. 0: not known. */
uint64_t object_trace_expected(const struct object_trace *trace);
const char *object_trace_message(const struct object_trace *trace);
struct object_trace_info object_trace_info(const struct object_trace *trace);
void object_trace_close(struct object_trace *trace); /* accepts NULL */

/* The formats by name and with a line each, for help texts; false past the end. */
bool object_format_at(size_t index, const char **ret_name, const char **ret_about);

#endif
