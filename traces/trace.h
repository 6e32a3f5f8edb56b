/* Readers of request traces: one file a format, one interface. Streaming: a reader holds one line and one row. Plain,
 * gzip and zstd files are read as they are. Bad input is refused with file, line and column; with `lenient` it is
 * skipped and counted; nothing is ever repaired silently. CRLF and a missing final newline are normal. */
#ifndef TRACES_TRACE_H
#define TRACES_TRACE_H

#include <stdio.h>

#include "base/base.h"

#define TRACE_ID_MAX 64
#define TRACE_TOKENS_MAX 10000000u /* a longer prompt or answer is absurd, and refused */

/* What a row can tell; `has` of struct trace_info says which columns the format has. */
enum trace_column {
    TRACE_HAS_PROMPT = 1,
    TRACE_HAS_OUTPUT = 2,
    TRACE_HAS_ADAPTER = 4,     /* adapter[] names it, "" is the base */
    TRACE_HAS_LORA_COUNT = 8,  /* only how many adapters the request used */
    TRACE_HAS_TENANT = 16
};

struct trace_row {
    int64_t at_ns;             /* since the first row; never decreasing */
    uint32_t prompt_tokens;    /* 0 only where the format allows a failed request, see `failed` */
    uint32_t output_tokens;
    uint32_t lora_count;
    bool failed;               /* the trace says that it failed (BurstGPT: no response tokens) */
    char tenant[TRACE_ID_MAX];
    char adapter[TRACE_ID_MAX];
    uint64_t line;             /* where it stands, from 1 */
};

/* For the generic CSV, each by its name in the header or by its number from 1; empty: absent. When all are numbers and
 * the first line's time reads as a time, there is no header. An adapter cell that is empty or 0 is the base. */
enum trace_time_unit { TRACE_TIME_S, TRACE_TIME_MS, TRACE_TIME_US, TRACE_TIME_NS, TRACE_TIME_DATETIME };
struct trace_columns {
    char time[TRACE_ID_MAX];
    char prompt[TRACE_ID_MAX];
    char output[TRACE_ID_MAX];
    char adapter[TRACE_ID_MAX];
    char tenant[TRACE_ID_MAX];
    enum trace_time_unit time_unit;
};

struct trace_options {
    bool lenient;
    int64_t backward_tolerance_ns;      /* lenient: a time so little before the last is taken as equal to it, and counted */
    const struct trace_columns *columns; /* csv only */
};

/* Why lines were skipped or touched: in lenient mode, but for parts of jobs, which are no mistakes. */
#define TRACE_SKIPS(X)                               \
    X(BLANK, "blank line")                           \
    X(COLUMNS, "too few or too many columns")        \
    X(TIME, "unreadable time")                       \
    X(BACKWARD, "time before the row above")         \
    X(CLAMPED, "time slightly backward, taken as equal to the row above (kept)") \
    X(LENGTH, "unreadable, negative or absurd length") \
    X(AMOUNT, "unreadable, negative or absurd run time, GPUs or memory") \
    X(SYNTAX, "broken syntax")                       \
    X(CUT, "cut last line")                          \
    X(NAME, "unusable tenant or adapter name")       \
    X(PART, "a part of a job that has a line of its own (SWF status 2 to 4)") \
    X(MARK, "byte order mark passed over")
enum trace_skip {
#define X(name, text) TRACE_SKIP_##name,
    TRACE_SKIPS(X)
#undef X
    TRACE_SKIP_COUNT
};

struct trace_info {
    const char *format;
    uint32_t has;                /* enum trace_column bits */
    uint64_t rows;               /* given so far */
    uint64_t skipped[TRACE_SKIP_COUNT];
};

struct trace;

/* format: "azure", "burstgpt", "mooncake", "alibaba-lora", "csv", or NULL: guessed from the first line. On failure one
 * message `file:line:column: what; remedy` is in ret_message (TRACE_MESSAGE_MAX bytes). */
#define TRACE_MESSAGE_MAX 1024
enum status trace_open(const char *path, const char *format, const struct trace_options *options, struct trace **ret_trace,
                       char *ret_message);
/* STATUS_OK; STATUS_END after the last row; STATUS_CORRUPT or STATUS_IO with trace_message(). */
enum status trace_next(struct trace *trace, struct trace_row *ret_row);
const char *trace_message(const struct trace *trace);
struct trace_info trace_info(const struct trace *trace);
void trace_close(struct trace *trace); /* accepts NULL */

/* The formats by name and with a line each, for help texts; false past the end. */
bool trace_format_at(size_t index, const char **ret_name, const char **ret_about);

#endif
