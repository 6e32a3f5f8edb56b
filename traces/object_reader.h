/* What the readers of object traces share, and nobody else includes. A format is a constant struct object_format: it turns
 * bytes into requests; object_trace.c opens, guesses, counts and keeps the end. */
#ifndef TRACES_OBJECT_READER_H
#define TRACES_OBJECT_READER_H

#include "object_names.h"
#include "object_trace.h"
#include "reader.h"

/* A chunk stays in the second cache; a record or a line is no longer. Behind it there is room to look ahead. */
enum { OBJECT_CHUNK_BYTES = 1 << 18, OBJECT_CHUNK_MARGIN = 32 };

struct object_format {
    const char *name;
    const char *about;
    bool has_next;
    bool has_size;
    bool has_time;
    bool has_columns;      /* that may be named */
    const char *file_part; /* of names of such files, in small letters; NULL: the name tells nothing */
    bool (*recognise)(const struct object_trace *trace); /* by the bytes in the chunk; NULL: they tell nothing */
    /* At the first byte, after opening and after each rewind; NULL: nothing to prepare. */
    enum status (*start)(struct object_trace *trace);
    /* Requests up to `max`; when it stops before, trace->end says why, with a message unless it is STATUS_END. */
    uint32_t (*fill)(struct object_trace *trace, struct object_request *rows, uint32_t max);
    /* The same into columns, with `backward` and `zero_sizes` of trace->info and trace->last_ns brought up to date; NULL: rows do. */
    uint32_t (*fill_columns)(struct object_trace *trace, struct object_columns_read *to, uint32_t max);
    void (*stop)(struct object_trace *trace); /* gives back what start() took; also after a failure; NULL: nothing */
};

/* Of formats of lines. */
struct object_text {
    struct object_names names; /* ids that are texts */
    struct name_wanted wanted[NAMES_BATCH_MAX]; /* ids of this batch whose numbers are still to come */
    uint32_t wanted_count;
    bool texts;                /* an id was one, since the beginning */
    bool big_numbers;          /* an id of 2^63 or above was a number, likewise */
    bool unterminated;         /* the last line, which is in the chunk, had no newline */
    uint64_t head_lines;       /* before the first request */
    size_t whole;              /* chunk[start, whole) is lines to their ends */
};

struct object_csv {
    uint8_t roles[CELLS_MAX]; /* of each cell */
    uint32_t cells;
    char separator;
    char quote; /* the separator: none */
};

struct object_trace {
    const struct object_format *format;
    struct object_options options; /* without columns, which are here: the caller's may go */
    bool size_given;               /* options.size_bytes is the caller's */
    struct object_columns columns;
    struct object_text text;
    struct object_csv csv;
    struct object_trace_info info;
    uint32_t lcs_version;
    uint64_t lcs_requests;  /* as its header says, 0: it does not */
    struct trace *requests; /* of the requests format */
    struct hdf5_columns *hdf5;
    char *file;             /* the path; NULL: bytes */
    const void *bytes;
    size_t bytes_count;
    struct input *input;
    bool input_ended;
    uint64_t chunk_at;   /* byte of the (unpacked) file where chunk[start] stands */
    size_t start;        /* chunk[start, end) is not read yet */
    size_t end_of_chunk;
    uint64_t row;        /* number of the next request, from 0 */
    int64_t last_ns;
    enum status end;     /* other than OK: what every further read says */
    char path[TRACE_MESSAGE_MAX / 2]; /* as shown */
    char message[TRACE_MESSAGE_MAX];
    char chunk[OBJECT_CHUNK_BYTES + OBJECT_CHUNK_MARGIN];
    char line[OBJECT_CHUNK_BYTES]; /* a copy, to split */
};

#define OBJECT_FORMATS(X) X(oracle_general) X(lcs) X(hdf5) X(requests) X(csv) X(txt)
#define X(word) extern const struct object_format object_format_##word;
OBJECT_FORMATS(X)
#undef X

/* What is left goes to the front and more is read behind it, until `wanted` bytes are there or the input ends. false: it
 * failed, and trace->end says so. */
bool object_more(struct object_trace *trace, size_t wanted);
static inline size_t object_left(const struct object_trace *trace)
{
    return trace->end_of_chunk - trace->start;
}
static inline void object_used(struct object_trace *trace, size_t bytes)
{
    trace->start += bytes;
    trace->chunk_at += bytes;
}

/* Whether any is, or the separator. */
static inline bool object_columns_named(const struct object_columns *columns)
{
    return columns->id[0] != 0 || columns->size[0] != 0 || columns->time[0] != 0 || columns->separator != 0 ||
           columns->adapter[0] != 0;
}

/* A message about the file; sets trace->end. Returns `status`. */
__attribute__((format(printf, 3, 4)))
enum status object_say(struct object_trace *trace, enum status status, const char *what, ...);
/* The same for record `row` (from 0), which begins at `byte`; STATUS_CORRUPT. */
__attribute__((format(printf, 4, 5)))
enum status object_refuse_record(struct object_trace *trace, uint64_t row, uint64_t byte, const char *what, ...);

/* For tests and fuzzing: bytes in memory, which must outlive it. */
enum status object_trace_open_bytes(const void *bytes, size_t count, const char *format, const struct object_options *options,
                                    struct object_trace **ret_trace, char *ret_message);

#endif
